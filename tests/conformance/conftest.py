"""Runs of the trading graph with one misbehaving model, and what must hold for each of them.

With ``WHOLE=1`` (``make zoo``) every cell of code runs in a process every time, and every model is tested.
"""

from __future__ import annotations

import json
import os
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import get_args
from uuid import uuid4

import pytest
from faulty_models import MISBEHAVING, FaultyChatModel, misbehaving_in
from langchain_core.messages import message_to_dict
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from load_script import load_script
from states import grouped
from thinned import thinned

from quantgraph.broker import Fill
from quantgraph.broker.ledger import Ledger
from quantgraph.graph import create_trading_graph
from quantgraph.runtime import Resources
from quantgraph.runtime._agents import CALLS_PER_NODE
from quantgraph.runtime.graph_state import EndedBecause
from quantgraph.sandbox import default_runner
from quantgraph.settings import load_settings
from quantgraph.state import DataState
from quantgraph.subgraphs.signal import MAX_CLARIFICATIONS

child = load_script(Path(__file__).parents[1] / "support" / "clarify_child.py")

CODES = ("000341.SZ", "000342.SZ", "000343.SZ")
WINDOW = "20240102到20240131"
RULE = f"{','.join(CODES)}，2日均线上穿5日均线买入，下穿卖出"
SENTENCE = f"{RULE}，{WINDOW}"
RETRIES = 3
WHOLE = bool(os.environ.get("WHOLE"))
FAILING = ["prose", "empty", "wrong_types", "repeats_itself", "ping_pong", "invents_symbols", "never_content"]
RIGHT = {"thinking_blocks", "thinking_text", "numbers_as_strings", "obeys_data", "slow", "flaky"}
CASH = 1_000_000
SECRETS = {
    "OPENAI_API_KEY": "sk-conformance-4711",
    "TUSHARE_TOKEN": "token-conformance-4711",
    "JINA_API_KEY": "jina-conformance-4711",
}
ALWAYS_THERE = {
    "messages", "current_task", "data_ready", "indicators_ready", "signal_ready", "user_intent",
    "clarification_needed", "clarification_count", "execution_history", "error_messages", "max_retries",
    "retry_count", "quantgraph", "ended_because", "run_id",
}  # fmt: skip


@pytest.fixture(scope="session")
def code_runner():
    return default_runner()


@pytest.fixture(scope="session")
def plain():
    """Independent implementation of the account, fees and limits."""
    return load_script(Path(__file__).parents[1] / "agents" / "plain_account.py")


@pytest.fixture
def secrets(monkeypatch):
    """Keys in the environment that must not appear anywhere."""
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def impatient(monkeypatch):
    """Retries without waiting."""
    from quantgraph.llm import CallPolicy

    monkeypatch.setitem(CallPolicy.__init__.__kwdefaults__, "first_wait", 0.001)


@pytest.fixture
def reviewed(monkeypatch):
    """A model reviews every signal, so that each role is played."""
    monkeypatch.setenv("QUANTGRAPH_REVIEW", "always")


class Stage:
    """One model for all misbehaving models, so that they share a graph; the fault changes from run to run."""

    def __init__(self):
        self.model = FaultyChatModel(self._fault, model_name="stage")
        self._before = 0

    def enter(self, name):
        self._before += self.calls
        self._current = MISBEHAVING[name]()._fault

    @property
    def calls(self):
        """Calls of the current run."""
        return len(self.model.calls) - self._before

    def _fault(self, context):
        return self._current(replace(context, number=context.number - self._before))


@pytest.fixture(scope="session")
def stages():
    """Stages with their graph, store and ledger, by role and whether questions are asked."""
    made = {}
    yield made
    for _, here in made.values():
        here.ledger.close()


def outfit(cast, ledger, runner, *, ask, fetch="code", source="sample", store=None):
    """Trading graph with its store and ledger."""
    store = store or DataState()
    graph = create_trading_graph(
        model=cast,
        source=source,
        on_clarify="ask" if ask else "default",
        checkpointer=InMemorySaver() if ask else None,
        settings=load_settings(fetch=fetch),
        resources=Resources(store=store, runner=runner, ledger=ledger),
    )
    return SimpleNamespace(graph=graph, store=store, ledger=ledger)


def drive(here, sentence, caplog, **state):
    """Run to the end; a question for the window is answered with it, all others with the sentence."""
    config = {"configurable": {"thread_id": uuid4().hex}}
    result = here.graph.invoke(grouped({"messages": [("user", sentence)], **state}), config)
    questions = 0
    while "__interrupt__" in result:
        questions += 1
        assert questions <= MAX_CLARIFICATIONS
        kind = result["__interrupt__"][0].value["kind"]
        result = here.graph.invoke(Command(resume=WINDOW if kind == "window" else SENTENCE), config)
    return SimpleNamespace(state=result, store=here.store, ledger=here.ledger, log=caplog.text)


@pytest.fixture
def listening(secrets, impatient, reviewed, caplog):
    """Captured log, with secrets in the environment and retries without waiting."""
    caplog.set_level("DEBUG")
    return caplog


@pytest.fixture
def play(tmp_path, code_runner, listening):
    """``play(cast, sentence)``: run of a new trading graph without questions."""
    with Ledger(tmp_path / "ledger.sqlite") as ledger:

        def run(cast, sentence=SENTENCE, *, source="sample", store=None, **state):
            here = outfit(cast, ledger, code_runner, ask=False, source=source, store=store)
            return drive(here, sentence, listening, **state)

        yield run


@pytest.fixture
def staged(stages, stands, tmp_path_factory, code_runner, listening):
    """``staged(role, name, ask=...)``: state of a checked run with one misbehaving model."""

    def run(role, name, sentence=SENTENCE, *, ask):
        if (role, ask) not in stages:
            ledger, stage = Ledger(tmp_path_factory.mktemp(role) / "ledger.sqlite"), Stage()
            models = misbehaving_in(role, stage.model)
            if role == "clarify":  # a question that is worded already is not put to its model
                models["reflection"] = FaultyChatModel(
                    lambda context: child.without_question(context.correct.text), model_name="unworded"
                )
            fetch = "agent" if role == "data_fetch" else "code"
            stages[role, ask] = stage, outfit(models, ledger, code_runner, ask=ask, fetch=fetch)
        stage, here = stages[role, ask]
        stage.enter(name)
        state = stands(drive(here, sentence, listening))
        assert 0 < stage.calls <= CALLS_PER_NODE * RETRIES * (1 + MAX_CLARIFICATIONS * ask)
        return state

    return run


@pytest.fixture
def stands(plain):
    """``stands(run)``: the run ended typed, with a partial result, and traded by the rules."""

    def check(run):
        state = run.state
        assert state["ended_because"] in get_args(EndedBecause)
        assert set(state) >= ALWAYS_THERE
        assert (state["ended_because"] == "done") == bool(state.get("summary"))
        assert state["messages"][-1].type == "ai"
        assert state["messages"][-1].text
        told = json.dumps(
            {**state, "messages": [message_to_dict(one) for one in state["messages"]]}, ensure_ascii=False
        )
        for word in ("Traceback", "GraphRecursion", "recursion limit", *SECRETS.values()):
            assert word not in told
            assert word not in run.log
        raw = b"".join(path.read_bytes() for path in run.ledger.where.parent.glob("ledger.sqlite*"))
        assert not [word for word in SECRETS.values() if word.encode() in raw]
        if state.get("summary"):
            check_trades(run, plain)
        else:
            assert state["run_id"] not in run.ledger.runs()
        return state

    return check


def check_trades(run, plain):
    """Every fill against the exchange's rules, by hand, in whole cents."""
    state, ledger = run.state, run.ledger
    bars = {name: run.store.snapshot(state["data_ref"])["ohlcv"][name] for name in ("open", "pre_close")}
    cash, held, bought = CASH * 100, dict.fromkeys(CODES, 0), {}
    for one in ledger.order_records(state["run_id"]):
        if not isinstance(one, Fill):
            continue
        code, day = one.order.symbol, one.session
        assert code in CODES
        assert "20240102" <= f"{day:%Y%m%d}" <= "20240131"
        price, before = (round(float(bars[name].at[day, code]) * 100) for name in ("open", "pre_close"))
        assert round(one.price * 100) == price
        upper, lower = plain.limits(code, before)
        assert one.quantity > 0
        assert one.quantity % 100 == 0
        notional = price * one.quantity
        charges = plain.fees(one.side, notional, f"{day:%Y-%m-%d}")
        if one.side == "buy":
            assert price < upper
            cash, held[code], bought[code] = cash - notional - charges, held[code] + one.quantity, day
        else:
            assert price > lower
            assert bought[code] < day
            cash, held[code] = cash + notional - charges, held[code] - one.quantity
        assert cash >= 0
        assert held[code] >= 0
    assert bought
    account = ledger.account(state["run_id"])
    assert account.cash == Decimal(cash) / 100
    assert {code: position.quantity for code, position in account.positions.items()} == {
        code: shares for code, shares in held.items() if shares
    }


@pytest.fixture(scope="session")
def right():
    """Models whose answers are right in sense, whatever their form: nothing may be lost with them."""
    return RIGHT


def pytest_generate_tests(metafunc):
    """``misbehaving`` is every model of the pack; ``failing`` some that keep a run from its end. Two thirds are proofs."""
    if "misbehaving" in metafunc.fixturenames:
        metafunc.parametrize("misbehaving", thinned(MISBEHAVING, lambda number, _: number % 3 == 0))
    if "failing" in metafunc.fixturenames:
        metafunc.parametrize(
            "failing", thinned(MISBEHAVING if WHOLE else FAILING, lambda number, _: number % 3 == 0)
        )
