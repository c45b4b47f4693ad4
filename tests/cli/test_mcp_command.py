"""``quantgraph mcp``: real processes over stdio and HTTP, one of them killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import anyio
import pytest
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp_play import DAYS, TOKEN, prices, talk, trades
from typer.testing import CliRunner

from quantgraph.cli._main import app
from quantgraph.runs import replay

pytestmark = pytest.mark.proof

COMMAND = [sys.executable, "-c", "from quantgraph.cli import main; main()", "mcp", "trade"]
NEW = ["--new", "AAA, BBB", "--source", "prices.csv", "--out", "runs", "--cash", "1000"]
NEW += ["--start", DAYS[1].replace("-", ""), "--end", DAYS[2].replace("-", "")]


@pytest.fixture
def folder(tmp_path):
    prices(tmp_path)
    return tmp_path


def environment():
    return {**os.environ, "QUANTGRAPH_MCP_TOKEN": TOKEN}


class Served:
    """A server's process over HTTP, and its address."""

    def __init__(self, folder, *args):
        self.process = subprocess.Popen(
            [*COMMAND, *args, "--http"], cwd=folder, env=environment(), stderr=subprocess.PIPE, text=True,
            stdout=subprocess.PIPE,
        )  # fmt: skip
        line = next(line for line in self.process.stderr if line.startswith("{"))
        self.url = json.loads(line)["mcpServers"]["quantgraph"]["url"]

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.communicate()

    def end(self):
        self.process.communicate(timeout=30)
        return self.process.returncode


async def first_day(call):
    bought = await call("buy", symbol="AAA", amount=10, order_id="1")
    return bought, await call("buy", symbol="AAA", amount=5, order_id="2")


async def rest(call):
    await call("finish_day", request_id="day 1")
    await call("sell", symbol="AAA", amount=4, order_id="3")
    return await call("finish_day", request_id="day 2")


@pytest.mark.proof
def test_a_killed_server_is_started_again_and_nothing_is_bought_twice(folder):
    served = Served(folder, *NEW)
    before = talk(served.url, first_day)
    served.kill()
    (run,) = (folder / "runs").glob("2*")
    served = Served(folder, str(run))
    assert talk(served.url, first_day) == before
    assert talk(served.url, rest) == {"committed": DAYS[2], "next": None}
    assert served.end() == 0
    # 15 at 11, 4 of them sold at 12: as it is without a kill
    assert trades(run) == [
        (DAYS[1], "buy", "AAA", 10, 11),
        (DAYS[1], "buy", "AAA", 5, 11),
        (DAYS[2], "sell", "AAA", 4, 12),
    ]
    assert replay(run).identical


def test_the_configuration_is_told_by_the_process_alone_that_has_the_run(folder):
    served = Served(folder, *NEW)
    (run,) = (folder / "runs").glob("2*")  # it is there once the configuration is
    second = subprocess.run(
        [*COMMAND, str(run), "--http"],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    served.kill()
    assert second.returncode == 2
    assert second.stderr.splitlines() == [f"bad_option: run {run.name} is going on in another process"]
    assert TOKEN not in second.stderr + second.stdout


@pytest.mark.proof
def test_over_stdio_a_client_trades_and_leaves_and_another_goes_on(folder):
    def talk_stdio(args, say):
        async def main():
            parameters = StdioServerParameters(
                command=COMMAND[0], args=[*COMMAND[1:], *args], env=environment(), cwd=folder
            )
            async with Client(stdio_client(parameters), mode="legacy") as client:

                async def call(name, **given):
                    return (await client.call_tool(name, given)).structured_content

                return await say(call)

        return anyio.run(main)

    before = talk_stdio(NEW, first_day)
    (run,) = (folder / "runs").glob("2*")
    assert talk_stdio([str(run)], first_day) == before
    assert talk_stdio([str(run)], rest) == {"committed": DAYS[2], "next": None}
    assert len(trades(run)) == 3
    assert replay(run).identical
    said = CliRunner().invoke(app, ["mcp", "trade", str(run)])
    assert (said.exit_code, said.stdout) == (2, "")
    assert said.stderr.endswith("is done; start another with --new\n")


@pytest.mark.parametrize(
    ("args", "line"),
    [
        (["--new", "AAA", "run"], "RUN and --new are both set"),
        (["--new", " "], "--new is empty"),
        (["nowhere", "--cash", "5"], "--cash belongs to --new"),
        (["nowhere"], "nowhere"),
        (
            ["--new", "AAA", "--services", "--service-ports", "1,2"],
            "must be 4 ports, like 19000,19001,19002,19003",
        ),
        (["--new", "AAA", "--http", "--token-file", "absent"], "absent cannot be read as a token"),
    ],
)
def test_a_wrong_call_is_one_line(tmp_path, monkeypatch, args, line):
    monkeypatch.chdir(tmp_path)
    said = CliRunner().invoke(app, ["mcp", "trade", *args])
    assert (said.exit_code, said.stdout) == (2, "")
    assert line in said.stderr
    assert said.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("args", "line"),
    [
        (
            ["20260105-093000-1a2b3c"],
            "a client trades a run with: quantgraph mcp trade 20260105-093000-1a2b3c",
        ),
        (["--new", "AAA"], "a client trades a run with: quantgraph mcp trade, which has --new"),
        (["--services"], "quantgraph mcp trade, which has --services"),
        (["--out", "foo", "export"], "--out stands before export; put it behind"),
        (["--http", "--token-file", "absent"], "absent cannot be read as a token"),
        (["--runs", "0"], "--runs"),
        (["export"], "there is no call of a research client"),
    ],
)
def test_a_wrong_call_of_research_is_one_line(tmp_path, monkeypatch, args, line):
    monkeypatch.chdir(tmp_path)
    command = [sys.executable, "-c", "from quantgraph.cli import main; main()", "mcp", *args]
    said = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (said.returncode, said.stdout) == (2, "")
    assert line in said.stderr
    assert said.stderr.count("\n") == 1


def test_code_that_is_not_isolated_is_served_to_nobody(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("QUANTGRAPH_CODE_ISOLATION", "limits_only")
    said = CliRunner().invoke(app, ["mcp", "--http"])
    assert said.exit_code == 2
    assert "runs with full isolation alone" in said.stderr


def test_without_the_extra_it_is_one_line(tmp_path):
    code = (
        "import sys; sys.modules['mcp'] = None; sys.modules['mcp_types'] = None\n"
        "sys.argv = ['quantgraph', 'mcp', 'trade', '--new', 'AAA']\nfrom quantgraph.cli import main; main()"
    )
    said = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (said.returncode, said.stdout) == (2, "")
    assert (
        said.stderr == "not_configured: MCP needs an extra of this package: pip install 'quantgraph[mcp]'\n"
    )
