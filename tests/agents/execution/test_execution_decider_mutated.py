"""Mutated replies through whole executions and sessions: nothing is raised, and one bad symbol changes no other."""

from __future__ import annotations

import json
import math
import random
import threading
from functools import partial

import pytest
from execution_play import call, decide, execution_of, run_execution
from langchain_core.messages import AIMessage
from mutated_replies import mutated_calls, mutated_reply

from quantgraph.agents.execution import ExecutionAgent
from quantgraph.broker import Market, RunContext
from quantgraph.broker.ledger import Ledger
from quantgraph.broker.session import commit_sessions, open_market_run
from quantgraph.llm.messages import read
from quantgraph.market import Rulebook
from quantgraph.runs import replay, run_strategy
from quantgraph.testing import ScriptedChatModel

pytestmark = pytest.mark.proof

BAD, GOOD = "600000.SH", ("600001.SH", "600002.SH", "600003.SH")
SESSIONS = 40
CASH = 100_000_000
CALLING = ("json", "native")
HOLDS = {"model", "malformed", "rounds"}


@pytest.fixture(scope="module")
def market(small_market):
    rng = random.Random(4)
    days = SESSIONS + 30
    return small_market({name: [10 + rng.random() for _ in range(days)] for name in (BAD, *GOOD)})


def mutated(rng):
    """A reply as text, or as native calls."""
    return mutated_reply(rng) if rng.random() < 0.8 else AIMessage("", tool_calls=mutated_calls(rng))


def is_valid(state):
    decision, history = state["decision"], state["execution_history"]
    assert decision["action"] in {"buy", "sell", "hold"}
    assert math.isfinite(decision["confidence"])
    assert 0 <= decision["confidence"] <= 1
    assert (decision["action"] == "hold") == ("hold_reason" in decision)
    assert decision.get("hold_reason", "model") in HOLDS
    assert [each["step"] for each in history] == list(range(1, len(history) + 1))
    assert len(history) <= 11
    assert history[-1]["type"] == "decision"
    json.dumps(history, allow_nan=False).encode()


def test_an_execution_of_mutated_replies_ends_with_a_decision(market):
    rng, asked, endings = random.Random(20251103), 0, set()

    def play(_messages):
        nonlocal asked
        asked += 1
        return mutated(rng)

    while asked < 4_000:
        state = run_execution(execution_of(market, BAD, play, calling=CALLING[asked % 10 == 0]))
        is_valid(state)
        endings.add(state["decision"].get("hold_reason", state["decision"]["action"]))
    assert endings >= {"buy", "sell", "model", "malformed"}


class Players:
    """A good symbol looks, and then buys or sells by the session; ``bad`` symbols send mutated replies."""

    def __init__(self, bad, seed):
        self.bad, self.seed, self.asked = bad, seed, 0
        self.rngs, self.lock = {}, threading.Lock()
        self.model = ScriptedChatModel(self.play)

    def play(self, messages):
        facts = json.loads(read("execution_facts", messages[0].text))
        symbol, session = facts["symbol"], facts["session"]
        if symbol in self.bad:
            with self.lock:
                self.asked += 1
                rng = self.rngs.setdefault(
                    (symbol, session), random.Random(f"{self.seed} {symbol} {session}")
                )
                return mutated(rng)
        if symbol == BAD:
            return decide("hold")
        step = json.loads(read("execution_step", messages[-1].text))["current_step"]
        if step == 1:
            return call("get_position", symbol=symbol)
        place = int(session[-2:]) + GOOD.index(symbol)
        return decide(("buy", "hold", "sell")[place % 3], 0.6)


def traded(market, players, folder, parallel=4):
    """The sessions of a run in order, as the ledger has them."""
    trading = Market(store=market.store, data_ref=market.ref, rules=Rulebook.mainland())
    decider = ExecutionAgent(size="fixed", cash=50_000, parallel=parallel)
    with Ledger(folder / "ledger.sqlite") as ledger:
        open_market_run(ledger, "run", trading, decider, cash=CASH, end="")
        run = RunContext(
            rule="buy dips",
            model=lambda _role: players.model,
            history=partial(ledger.history, "run"),
            log_step=partial(ledger.log_step, "run"),
        )
        days = list(market.days[-SESSIONS:])
        commit_sessions(trading, days, decider, ledger=ledger, run_id="run", run=run)
        ledger.check("run")
        return list(ledger.results("run")), list(ledger.executions("run"))


def outcomes_of(results, symbols):
    """Orders, fills and notes of some symbols, by session; without the numbers that orders of others shift."""
    return [
        [
            (type(each).__name__, each.order.symbol, each.order.target_value, vars_of(each))
            for each in result.outcomes
            if each.order.symbol in symbols
        ]
        + [result.notes["executions"][symbol] for symbol in symbols]
        for result in results
    ]


def vars_of(outcome):
    names = ("side", "quantity", "price", "cost", "code", "message")
    return [str(getattr(outcome, name, "")) for name in names]


def test_one_bad_symbol_changes_no_other_and_makes_no_invalid_order(market, tmp_path):
    """The bad symbol is the first: its orders come before those of the others."""
    (tmp_path / "calm").mkdir()
    (tmp_path / "wild").mkdir()
    calm, _ = traded(market, Players((), 1), tmp_path / "calm")
    wild, executions = traded(market, players := Players((BAD,), 1), tmp_path / "wild", parallel=2)
    assert len(wild) == SESSIONS
    assert outcomes_of(wild, GOOD) == outcomes_of(calm, GOOD)
    assert players.asked > 100
    assert_orders_are_valid(wild)
    assert len(executions) == 4 * SESSIONS


def assert_orders_are_valid(results):
    for result in results:
        orders = [each.order for each in result.outcomes]
        assert len({each.symbol for each in orders}) == len(orders)
        assert result.notes["executions"].keys() == {BAD, *GOOD}


def test_four_bad_symbols_end_no_run(market, tmp_path):
    players = Players((BAD, *GOOD), 2)
    results, executions = traded(market, players, tmp_path)
    assert len(results) == SESSIONS
    assert players.asked > 400
    assert_orders_are_valid(results)
    for each in executions:
        assert [step.step for step in each.steps] == list(range(1, len(each.steps) + 1))


@pytest.mark.parametrize("calling", CALLING)
def test_a_run_of_mutated_replies_replays(calling, tmp_path):
    symbols = ("000341.SZ", "600958.SH")
    players = Players(symbols, 3)
    done = run_strategy(
        f"execution agent on {', '.join(symbols)}, 20250102 to 20250108",
        decider=ExecutionAgent(calling=calling),
        model={"execution": players.model},
        out=tmp_path,
    )
    assert done["ended_because"] == "done"
    asked = players.asked
    replayed = replay(done["run_dir"], decider=ExecutionAgent(calling=calling, parallel=1))
    assert replayed.identical, replayed.differences
    assert players.asked == asked > 20
