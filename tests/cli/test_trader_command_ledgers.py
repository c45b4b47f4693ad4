"""Two published ledgers, repeated by one call of ``quantgraph trader`` whose process is killed and called again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from quantgraph.integrations.ai_trader._trades import read_positions
from quantgraph.testing import OpenAIStub, Reply

pytestmark = pytest.mark.proof

NAMES = ("claude-3.7-sonnet", "qwen3-max")
KILLED_AT = (("claude-3.7-sonnet", "2025-10-10"), ("qwen3-max", "2025-10-20"))
"""The model and session of whose last question the process does not live to read the answer."""


@pytest.fixture(scope="module")
def us(shared_data) -> Path:
    return shared_data / "ai-trader" / "us"


@pytest.fixture(scope="module")
def published(us):
    return {name: read_positions(us / "positions" / f"{name}.position.jsonl") for name in NAMES}


class Desk:
    """A server that plays both models, and kills the process that asks when it is told to."""

    def __init__(self, published, us: Path, folder: Path) -> None:
        self.script = defaultdict(list)
        for name, records in published.items():
            for each in records[1:]:
                if each.action in ("buy", "sell"):
                    call = Reply.call(each.action, symbol=each.symbol, amount=each.amount)
                    self.script[name, each.date].append(call)
        self.us, self.folder = us, folder
        self.symbols = list(published[NAMES[0]][0].positions)
        self.kill_at = None
        self.child = None

    def __call__(self, request):
        day = request.messages[1]["content"].partition("(")[2][:10]
        given = sum(message["role"] == "assistant" for message in request.messages)
        calls = self.script[request.model, day]
        if given < len(calls):
            return calls[given]
        if (request.model, day) == self.kill_at:
            self.child.send_signal(signal.SIGKILL)
            self.child.wait()
        return Reply.text("<FINISH_SIGNAL>")

    def trade(self, server, *, kill_at=None):
        """Call the command once; return its exit status and what it wrote."""
        self.kill_at = kill_at
        own = {"openai_base_url": server.base_url, "openai_api_key": "sk-test"}
        config = {
            "agent_type": "BaseAgent",
            "date_range": {"init_date": "2025-10-01", "end_date": "2025-10-30"},
            "models": [{"name": name, "basemodel": name, "signature": name, **own} for name in NAMES],
            "agent_config": {"max_steps": 60, "initial_cash": 10_000},
            "log_config": {"log_path": str(self.folder)},
        }
        self.folder.mkdir(exist_ok=True)
        file = self.folder.parent / "config.json"
        file.write_text(json.dumps(config))
        prices = self.us / "daily_prices_nasdaq_100_20250610_20251030.csv.gz"
        options = ["--rules", "zero-cost", "--source", prices, "--symbols", ",".join(self.symbols), "--json"]
        self.child = subprocess.Popen(
            [sys.executable, "-m", "quantgraph", "trader", file, *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.folder.parent,
            env={**os.environ, "NO_PROXY": "127.0.0.1"},
        )
        out, err = self.child.communicate()
        return self.child.returncode, out, err


@pytest.fixture(scope="module")
def whole(us, published, tmp_path_factory):
    desk = Desk(published, us, tmp_path_factory.mktemp("whole") / "agents")
    with OpenAIStub(desk) as server:
        status, out, err = desk.trade(server)
    assert status == 0, err
    return desk, json.loads(out)["models"]


def files_of(folder: Path) -> dict[str, bytes]:
    """What AI-Trader would have: positions and logs of both models."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.glob("*/[lp]*/**/*.jsonl")}


def test_one_call_repeats_both_ledgers(whole, published):
    desk, rows = whole
    assert [(row["signature"], row["ended_because"], row["sessions"]) for row in rows] == [
        (name, "done", 21) for name in NAMES
    ]
    for name, theirs in published.items():
        ours = read_positions(desk.folder / name / "position" / "position.jsonl")
        trades = [each for each in theirs if each.action and each.amount]
        made = [each for each in ours if each.action and each.amount]
        for mine, real in zip(made, trades, strict=True):
            assert (mine.date, mine.action, mine.symbol, mine.amount) == (
                real.date,
                real.action,
                real.symbol,
                real.amount,
            )
            assert dict(mine.positions) == dict(real.positions)
            assert mine.cash == real.cash  # as doubles, to the last bit
        assert ours[-1].cash == theirs[-1].cash


@pytest.mark.timeout(400)
@pytest.mark.proof
def test_the_same_call_goes_on_after_each_kill(whole, us, published, tmp_path):
    desk = Desk(published, us, tmp_path / "agents")
    with OpenAIStub(desk) as server:
        for place in KILLED_AT:
            assert desk.trade(server, kill_at=place)[0] == -signal.SIGKILL
        status, _, err = desk.trade(server)
        asked = len(server.requests)
        assert status == 0, err
        assert desk.trade(server)[0] == 0
        assert len(server.requests) == asked  # what is done is left alone
    files = files_of(desk.folder)
    assert len(files) == 2 * (1 + 21)
    assert files == files_of(whole[0].folder)
