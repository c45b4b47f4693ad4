"""The stepwise agent by the commands alone: its model errs in every way, the run is killed, resumed and replayed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections import Counter

import pytest

from quantgraph.broker.ledger import Ledger
from quantgraph.llm.messages import read
from quantgraph.testing import OpenAIStub

pytestmark = pytest.mark.proof

STOCKS = ("000341.SZ", "000342.SZ", "000343.SZ", "600958.SH")
DAYS = ("20250102", "20250103", "20250106", "20250107", "20250108", "20250109")
SENTENCE = f"execution agent on {', '.join(STOCKS)}, {DAYS[0]} to {DAYS[-1]}"
KILLED_IN = DAYS[3]
PARALLEL = 4
"""Symbols that the agent decides at the same time: as many questions may be on their way."""


def act(kind, intermediate_result=None, **payload):
    told = {"type": kind, "reasoning": "because", "action": payload}
    return json.dumps({**told, "intermediate_result": intermediate_result})


def call(tool_name, **params):
    return act("tool_call", tool_name=tool_name, params=params)


def decide(action, confidence=0.5):
    return act("decision", action=action, reason="as told", confidence=confidence)


BARS = call("get_kline_data", symbol="SYMBOL", timeframe="1d", limit=5)
RATIO = act("calculation", {"ratio": 1}, calculation_type="ratio", formula="1 / 0", inputs={})
HOLD = decide("hold")
PLANS = {
    # The replies, one after the other; the action that is decided, why it is held, and the steps in the log.
    "buys": ([BARS, decide("buy", 0.8)], ("buy", None, 2)),
    "no type": (['{"reasoning": "x", "action": {}}', BARS, HOLD], ("hold", "model", 2)),
    "two actions": ([f"{BARS}\n{HOLD}", HOLD], ("hold", "model", 1)),
    "no such tool": ([call("get_weather", city="Rome"), HOLD], ("hold", "model", 2)),
    "parameters of another": (
        [call("get_position", symbol="SYMBOL", timeframe="1d"), HOLD],
        ("hold", "model", 2),
    ),
    "no such symbol": (
        [call("get_kline_data", symbol="999999.SH", timeframe="1d", limit=5), HOLD],
        ("hold", "model", 2),
    ),
    "bad confidences": (
        [decide("buy", 0), decide("buy", 7), decide("buy", "about 0.5")],
        ("hold", "malformed", 1),
    ),
    "division by zero": ([RATIO, HOLD], ("hold", "model", 2)),
    "sells": ([call("get_position", symbol="SYMBOL"), decide("sell", 0.9)], ("sell", None, 2)),
    "ten rounds of one call": ([BARS] * 10, ("hold", "rounds", 11)),
    "buy of nothing": ([decide("buy 0"), HOLD], ("hold", "model", 1)),
    "no JSON": (["later"] * 3, ("hold", "malformed", 1)),
}


def plan_of(session, symbol):
    """Each plan is played twice in the 24 executions; what is bought is sold two sessions later."""
    place = DAYS.index(session) * len(STOCKS) + STOCKS.index(symbol)
    return PLANS[list(PLANS)[place % len(PLANS)]]


class Server:
    """The model; it kills the command at the first answer of a session that has an observation."""

    def __init__(self, folder):
        self.folder, self.asked, self.kill_in, self.child = folder, [], None, None
        self.lock = threading.Lock()

    def answer(self, request):
        facts = json.loads(read("execution_facts", str(request.messages[0]["content"])))
        session, symbol = facts["session"].replace("-", ""), facts["symbol"]
        replies = sum(message["role"] == "assistant" for message in request.messages)
        with self.lock:
            self.asked.append((session, symbol, json.dumps(request.messages)))
            if self.kill_in == session and replies:
                os.kill(self.child.pid, signal.SIGKILL)
                self.kill_in = None
        return plan_of(session, symbol)[0][replies].replace("SYMBOL", symbol)

    def command(self, *arguments, url, model="execution"):
        environment = {
            "QUANTGRAPH_MODEL": "keyless",
            "QUANTGRAPH_MODELS": json.dumps({"execution": model}),
            "OPENAI_BASE_URL": url,
        }
        self.child = subprocess.Popen(
            [os.path.join(os.path.dirname(sys.executable), "quantgraph"), *arguments],
            cwd=self.folder,
            env={**os.environ, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        out, err = self.child.communicate(timeout=240)
        return self.child.returncode, out, err


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A run that was killed in its fourth session, and resumed by the command."""
    server = Server(tmp_path_factory.mktemp("desk"))
    with OpenAIStub(server.answer) as stub:
        server.kill_in = KILLED_IN
        server.killed = server.command(
            "run", SENTENCE, "--decider", "execution", "--headless", url=stub.base_url
        )
        server.resumed = server.command("resume", "--json", url=stub.base_url)
        server.errors = stub.errors
        yield server


@pytest.fixture(scope="module")
def results(server):
    (folder,) = (server.folder / "runs").glob("2*")
    with Ledger(folder / "ledger.sqlite") as book:
        book.check(folder.name)
        return list(book.results(folder.name))


@pytest.mark.proof
def test_it_is_killed_and_resumed_and_no_answered_question_is_asked_again(server, results):
    assert server.killed[0] == -signal.SIGKILL, server.killed
    code, out, err = server.resumed
    assert (code, json.loads(out)["ended_because"]) == (0, "done"), err
    assert not server.errors
    assert [f"{result.session:%Y%m%d}" for result in results] == list(DAYS)
    again = [each for each, times in Counter(server.asked).items() if times > 1]
    assert 1 <= len(again) <= PARALLEL
    assert len(server.asked) == len(set(server.asked)) + len(again)
    # They were on their way when it was killed: one of a symbol.
    assert {session for session, _, _ in again} == {KILLED_IN}
    assert len({symbol for _, symbol, _ in again}) == len(again)


def test_each_mistake_is_a_hold_that_says_why_and_changes_no_other_symbol(results):
    for result in results:
        told = result.notes["executions"]
        assert list(told) == list(STOCKS)
        for symbol, note in told.items():
            expected = plan_of(f"{result.session:%Y%m%d}", symbol)[1]
            assert (note["action"], note.get("hold_reason"), note["steps"]) == expected
    fills = [
        (f"{result.session:%Y%m%d}", fill.order.symbol, fill.side)
        for result in results
        for fill in result.fills
    ]
    # Plan 1 of 12 is the first symbol's in sessions 1 and 4, plan 9 its own in sessions 3 and 6.
    assert fills == [
        (DAYS[place], STOCKS[0], side)
        for place, side in enumerate(["buy", "", "sell", "buy", "", "sell"])
        if side
    ]


def test_the_log_has_each_step_once(server):
    code, out, err = server.command("logs", "--json", url="http://127.0.0.1:1")
    assert code == 0, err
    executions = json.loads(out)["executions"]
    there = {(each["session"], each["symbol"]): [one["step"] for one in each["steps"]] for each in executions}
    assert len(executions) == len(there) == len(DAYS) * len(STOCKS)
    for (session, symbol), steps in there.items():
        assert steps == list(range(1, plan_of(session, symbol)[1][2] + 1))


def test_it_is_replayed_by_the_command_alone(server):
    before = len(server.asked)
    code, out, err = server.command("replay", url="http://127.0.0.1:1")
    assert (code, "identical" in out) == (0, True), (out, err)
    assert len(server.asked) == before


def test_without_a_key_it_says_that_no_language_model_decided(server):
    given = ("run", SENTENCE, "--decider", "execution", "--headless", "--json", "--out", "keyless")
    code, out, err = server.command(*given, url="http://127.0.0.1:1", model="keyless")
    assert code == 0, err
    told = json.loads(out)
    assert told["ended_because"] == "done"
    assert any(note.startswith("no language model decides") for note in told["notes"])
