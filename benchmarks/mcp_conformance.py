"""Clients that are not ours: the conformance tool against the servers, and the inspector's CLI.

Usage: ``mcp_conformance.py FOLDER``, where ``FOLDER/node_modules`` has ``@modelcontextprotocol/conformance``
and ``@modelcontextprotocol/inspector``; ``make mcp-conformance`` installs them there. Needs Node 20. What
cannot apply is in ``mcp_expected_failures.yaml`` beside this file. The conformance tool cannot send a
token, so it meets the server without one, on a port of loopback that is open only meanwhile.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

from quantgraph.integrations.mcp import ClientHandler
from quantgraph.integrations.mcp._research import Research
from quantgraph.integrations.mcp._research_runs import ResearchRuns
from quantgraph.integrations.mcp._research_tools import INSTRUCTIONS
from quantgraph.integrations.mcp._server import bound_socket, serving_http
from quantgraph.runtime import Resources
from quantgraph.settings import load_settings
from quantgraph.tools.mcp import http_app, make_server

EXPECTED = Path(__file__)
COMMAND = [sys.executable, "-c", "from quantgraph.cli import main; main()", "mcp"]
RULE = "buy when the 5-day average crosses above the 20-day average, sell when it crosses below"
CODE = """close = snapshot["ohlcv"]["close"]
fast, slow = (close.apply(lambda s, n=n: s.dropna().rolling(n).mean().reindex(s.index)) for n in (5, 20))
buy = (fast > slow) & (fast.shift(1) <= slow.shift(1))
sell = (fast < slow) & (fast.shift(1) >= slow.shift(1))
signal = (close * 0).mask(buy, 1.0).mask(sell, -1.0).where(slow.notna())
GLOBAL_DATA_STATE.update("signal", {"cross_5_20": signal})
"""
LEAK = CODE.replace("buy = ", "buy = (close.shift(-1) > close) & ", 1)


def conformance(tools: Path) -> int:
    """Run the tool's server suite on a run's server and on research, and return the worse exit status."""
    with tempfile.TemporaryDirectory() as folder:
        settings = load_settings(data_source="sample")
        runs = ResearchRuns(Path(folder), Resources(settings=settings), most=2, most_mb=500)
        research = Research(runs)
        servers = {
            "trade": make_server(ClientHandler()),
            "research": make_server(research, instructions=INSTRUCTIONS, texts=research.texts),
        }
        return max(_suite(tools, name, server) for name, server in servers.items())


def _suite(tools: Path, name: str, server: Any) -> int:
    with bound_socket(0, "port") as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
        with serving_http([(http_app(server), listening)]):
            expected = EXPECTED.with_name(f"mcp_expected_failures_{name}.yaml")
            call = [tools / "conformance", "server", "--url", url, "--expected-failures", expected]
            return subprocess.run(call, check=False, cwd=tempfile.mkdtemp()).returncode


def inspector_day(tools: Path) -> None:
    """Trade a day by the inspector's CLI: each call is a process of its own, which the run survives."""
    folder = Path(tempfile.mkdtemp())
    new = ["trade", "--new", "000341.SZ", "--start", "20250106", "--end", "20250106", "--source", "sample"]
    today = asked(tools, [*new, "--out", str(folder)], "get_today")
    (run,) = folder.glob("2*")
    order = {"symbol": "000341.SZ", "amount": 100, "order_id": "first"}
    bought = [asked(tools, ["trade", str(run)], "buy", **order) for _ in range(2)]
    ended = asked(tools, ["trade", str(run)], "finish_day", notes="by the inspector")
    assert bought[0] == bought[1], bought
    assert bought[0]["000341.SZ"] == 100, bought
    assert ended == {"committed": "2025-01-06", "next": None}, ended
    print(f"inspector: {today['date']} traded, {bought[0]}, {ended}")


def inspector_research(tools: Path) -> None:
    """From a sentence to a script by the inspector's CLI: each call is a server of its own, which is left."""
    folder = Path(tempfile.mkdtemp())
    server, sentence = ["--source", "sample", "--out", str(folder)], f"000341.SZ, 2025: {RULE}"
    call = partial(asked, tools, server)
    asks = call("understand", sentence=RULE)
    answer = {"run": asks["run"], "question": asks["question"]["id"], "answer": "000341.SZ, 2025"}
    understood = call("understand", **answer)
    assert understood["state"] == "understood", understood
    assert call("run", code=LEAK, sentence=sentence)["code"] == "not_causal"
    leak = call("audit", code=LEAK, said=sentence)
    assert not leak["causal"], leak
    mended = call("audit", code=CODE, said=sentence)
    assert mended["compared"], mended
    assert not mended["departures"], mended
    runs = [call("run", run=asks["run"])["run"], call("run", code=CODE, sentence=sentence)["run"]]
    compared = call("compare", runs=json.dumps(runs))
    assert len({*compared["numbers"]["final_value"]}) == 1, compared
    page, script = call("report", run=runs[0])["page"], call("report", script="true")["page"]
    assert Path(page).is_file(), page
    again = subprocess.run([sys.executable, script], check=True, capture_output=True, text=True).stdout
    assert again.count("done the same ledger") == 2, again
    shown = leak["counterexample"]["message"][:90]
    print(f"inspector: {shown}…; mended, run twice, the script's ledgers are equal")


def asked(tools: Path, own: list[str], name: str, **args: Any) -> Any:
    """Call one tool by the inspector's CLI; it takes options for its own, so the server is a script."""
    script = Path(tempfile.mkdtemp()) / "server"
    script.write_text(f"#!/bin/sh\nexec {shlex.join([*COMMAND, *own])}\n")
    script.chmod(0o700)
    given = [part for key, value in args.items() for part in ("--tool-arg", f"{key}={value}")]
    call = [str(tools / "mcp-inspector"), "--cli", str(script), "--method", "tools/call", "--tool-name", name]
    said = subprocess.run([*call, *given], check=False, capture_output=True, text=True)
    if said.returncode or not said.stdout.strip():
        raise SystemExit(f"inspector: {said.stdout}{said.stderr}")
    answer = json.loads(said.stdout)
    return answer.get("structuredContent") or json.loads(answer["content"][0]["text"])


def main() -> None:
    """Run all."""
    tools = Path(sys.argv[1]).absolute() / "node_modules" / ".bin"
    status = conformance(tools)
    inspector_day(tools)
    inspector_research(tools)
    sys.exit(status)


if __name__ == "__main__":
    main()
