"""A trader that is killed after each reply and each call of a tool: resumed, paid once, and replayed by the command."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from load_script import load_script
from trader_play import STOP, buys, says, sells

from quantgraph.testing import OpenAIStub

pytestmark = pytest.mark.proof

HERE = Path(__file__).parent
FIRST, SECOND = "000341.SZ", "600958.SH"
DAYS = {
    "2025-01-02": [
        says("look", ("get_positions", {}), ("get_price_local", {"symbol": FIRST, "date": "2025-01-02"})),
        says("trade", ("buy", {"symbol": FIRST, "amount": 300}), ("buy", {"symbol": FIRST, "amount": 50})),
        buys(SECOND, 100),
        says(STOP),
    ],
    "2025-01-03": [sells(FIRST, 100), sells(FIRST, 100), sells(FIRST, 100, STOP)],
}
REPLIES = 4 + 3
EVENTS = REPLIES + 2 + 2 + 1 + 3
"""Replies, and calls of tools."""
FIRST_DAY = 4 + 2 + 2 + 1


class Model:
    """A server that plays the days, and counts what each run asked for."""

    def __init__(self):
        self.asked = Counter()

    def answer(self, request):
        texts = [str(each["content"]) for each in request.messages]
        day = texts[1].partition("(")[2].partition(")")[0]
        given = sum(each["role"] == "assistant" for each in request.messages)
        self.asked[request.model, day, given] += 1
        return DAYS[day][given]

    def times(self, run):
        return {(day, given): times for (model, day, given), times in self.asked.items() if model == run}


def environment(url):
    given = {"OPENAI_BASE_URL": url, "OPENAI_API_KEY": "k", "QUANTGRAPH_MODEL": "keyless"}
    return os.environ | given


def played(folder, points, *database):
    model = Model()
    with OpenAIStub(model.answer) as stub:
        done = subprocess.run(
            [sys.executable, HERE / "trader_child.py", folder, ",".join(map(str, points)), *database],
            env=environment(stub.base_url),
            capture_output=True,
            text=True,
            check=False,
        )
        assert not stub.errors
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    return model, {int(point): each for point, each in told.items()}, done.stderr


def check(model, runs, errors):
    whole = runs.pop(0)
    assert whole["ends"] == [0, 0], errors
    assert [len(day) for day in whole["logs"]] == [4, 3]
    for point, run in runs.items():
        assert run["ends"] == [-9, 0, 0], (point, errors)
        assert run["sessions"] == whole["sessions"], point
        assert run["logs"] == whole["logs"], point
    for point in (0, *runs):
        paid = model.times(f"point-{point}")
        assert len(paid) == REPLIES
        assert set(paid.values()) == {1}, (point, paid)


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    return played(tmp_path_factory.mktemp("killed"), [*range(FIRST_DAY + 1), EVENTS])


@pytest.mark.timeout(300)
def test_killed_after_each_event_it_has_the_same_ledger_and_no_reply_is_paid_twice(killed):
    model, runs, errors = killed
    check(model, dict(runs), errors)


@pytest.mark.timeout(300)
def test_it_is_replayed_by_the_command_alone(killed):
    _, runs, _ = killed
    run = runs[FIRST_DAY // 2]["run"]
    done = subprocess.run(
        [Path(sys.executable).with_name("quantgraph"), "replay", run],
        env=environment("http://127.0.0.1:1/v1"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "identical" in done.stdout


@pytest.mark.timeout(300)
def test_so_it_is_on_postgresql(tmp_path):
    with load_script(HERE.parents[1] / "broker" / "postgres.py").server() as server:
        check(*played(tmp_path, (0, 5, EVENTS), server.database()))
