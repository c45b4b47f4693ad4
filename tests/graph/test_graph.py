"""The main graph: a sentence becomes trades, can be stopped between any two sessions, and is small on disk."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from deciders import OneByOne
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite import SqliteSaver
from states import flat

from quantgraph.agents import SignalRule
from quantgraph.broker import Decider, Market, ModelDecider, TradePlan
from quantgraph.broker.ledger import Ledger
from quantgraph.broker.session import BLOCK_SESSIONS, run_sessions
from quantgraph.data.sample import SampleSource
from quantgraph.errors import BadOption, LedgerConflict, NoSignal, UnknownCommit
from quantgraph.graph._graph import create_trading_graph, route_after_signal
from quantgraph.graph._loop import route_after_daily_loop
from quantgraph.market import Rulebook
from quantgraph.runtime import Resources
from quantgraph.settings import load_settings
from quantgraph.state import DataState

CODES = "000341.SZ,000342.SZ,000343.SZ"
RULE = "5日均线上穿20日均线买入，下穿卖出"
SENTENCE = f"{CODES}，{RULE}，2024年1月到3月"
OTHER = "000344.SZ，RSI(14)低于40买入，高于60卖出，2024年1月到3月"
START, END = pd.Timestamp("2024-01-02"), pd.Timestamp("2024-03-29")
THREAD = {"configurable": {"thread_id": "t"}}


def ask(text, **more):
    return {"messages": [("user", text)], **more}


def sessions_of_window() -> list[pd.Timestamp]:
    sessions = SampleSource().sessions()
    return list(sessions[(sessions >= START) & (sessions <= END)])


def journal(ledger, run_id):
    """All that a ledger says about a run."""
    return (
        ledger.sessions(run_id),
        ledger.order_records(run_id),
        list(ledger.values(run_id)),
        ledger.account(run_id),
    )


@pytest.fixture
def ledger(tmp_path):
    with Ledger(tmp_path / "ledger.sqlite") as opened:
        yield opened


class Stops(OneByOne):
    """The signal rule of a machine that is switched off in the middle of its n-th session."""

    def __init__(self, at: int) -> None:
        super().__init__()
        self._left = at

    def decide(self, context):
        self._left -= 1
        if self._left < 0:
            raise RuntimeError("switched off")
        return super().decide(context)


# Routes ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "target"),
    [
        ({"ended_because": "done", "signal_ready": True}, "daily_loop"),
        ({"ended_because": "done", "signal_ready": False}, "__end__"),
        ({"ended_because": "needs_answer", "signal_ready": True}, "__end__"),
        ({"ended_because": "max_retries"}, "__end__"),
        ({}, "__end__"),
    ],
)
def test_only_a_validated_signal_is_traded(state, target):
    before = dict(state)
    assert route_after_signal(state) == target
    assert state == before


@pytest.mark.parametrize(
    ("state", "target"),
    [({"session": "20240102"}, "decision"), ({"session": None}, "report"), ({}, "report")],
)
def test_the_daily_loop_goes_on_while_there_is_a_session(state, target):
    assert route_after_daily_loop(state) == target


# The whole way -----------------------------------------------------------------------------------


@pytest.mark.parametrize("step", [1, 8, None])
def test_every_session_of_the_window_is_in_the_ledger_once(store, ledger, step, monkeypatch):
    decider = OneByOne() if step == 1 else None
    if step:
        monkeypatch.setattr("quantgraph.graph._loop.BLOCK_SESSIONS", step)
    given = Resources(store=store, ledger=ledger)
    graph = create_trading_graph(source="sample", decider=decider, resources=given)
    updates = graph.stream(ask(SENTENCE, run_id="r"), stream_mode="updates")
    steps = [update["daily_loop"].get("session") for update in updates if "daily_loop" in update]
    expected = sessions_of_window()
    firsts = expected[:: step or BLOCK_SESSIONS]
    assert steps == [*(f"{day:%Y%m%d}" for day in firsts), None]
    assert ledger.sessions("r") == expected
    ledger.check("r")


@pytest.mark.parametrize(
    ("kind", "plan", "steps"), [(ModelDecider, {}, 58), (Decider, {}, 10), (Decider, {"max_holding": 9}, 20)]
)
def test_a_step_is_a_session_where_models_are_asked_else_by_size(kind, plan, steps, ledger, monkeypatch):
    for name, value in {"_STEP_CELLS": 18, "_TOGETHER_SECONDS": -1}.items():  # three symbols, a slow machine
        monkeypatch.setattr(f"quantgraph.broker.session._simulate.{name}", value)

    class Own(kind):
        name, executes = "own", frozenset({"max_holding"})

        def decide(self, context):
            return []

    given = Resources(store=DataState(), ledger=ledger)
    graph = create_trading_graph(source="sample", decider=Own(), plan=TradePlan(**plan), resources=given)
    nodes = [next(iter(step)) for step in graph.stream(ask(SENTENCE, run_id="r"), stream_mode="updates")]
    assert len(sessions_of_window()) == len(ledger.sessions("r")) == 58
    assert nodes.count("decision") == steps


def test_holdings_are_marked_where_the_graph_is_told(store, ledger):
    graph = create_trading_graph(
        source="sample", mark_at="open", resources=Resources(store=store, ledger=ledger)
    )
    state = graph.invoke(ask(SENTENCE, run_id="r"))
    opens = store.snapshot(state["data_ref"])["ohlcv"]["open"]
    _, marks = ledger.holdings("r")
    marks, opens = marks.to_numpy(), opens.reindex(marks.index, columns=marks.columns).to_numpy()
    held = ~np.isnan(marks) & ~np.isnan(opens)
    assert held.any()
    assert (marks[held] == opens[held]).all()


def test_the_graph_trades_what_the_plain_loop_trades(store, ledger):
    state = create_trading_graph(
        source="sample", cash=300_000, resources=Resources(store=store, ledger=ledger)
    ).invoke(ask(SENTENCE, run_id="graph"))
    market = Market(store=store, data_ref=state["data_ref"], rules=Rulebook.mainland())
    account = run_sessions(
        market, sessions_of_window(), SignalRule(), cash=300_000, ledger=ledger, run_id="plain"
    )
    assert journal(ledger, "graph") == journal(ledger, "plain")
    assert account.cash != 300_000, "something was traded"
    assert state["summary"]["account"]["trades"] == len(ledger.fill_records("plain"))


def test_a_run_has_a_folder_of_its_own_and_leaves_no_ledger_open(store, tmp_path):
    state = create_trading_graph(source="sample", resources=Resources(store=store)).invoke(ask(SENTENCE))
    (file,) = (tmp_path / "runs").rglob("ledger.sqlite")
    assert file.parent.name == state["run_id"] == state["summary"]["run_id"]
    with Ledger(file) as ledger:
        assert len(ledger.sessions(state["run_id"])) == len(sessions_of_window())


def test_a_request_that_does_not_end_well_is_not_traded(store, tmp_path):
    graph = create_trading_graph(source="sample", on_clarify="fail", resources=Resources(store=store))
    steps = [next(iter(step)) for step in graph.stream(ask("你好"), stream_mode="updates")]
    assert steps == ["begin", "signal"]
    state = graph.invoke(ask("999999.SH，" + RULE + "，2024年"))
    assert state["ended_because"] != "done"
    assert not Ledger(tmp_path / "runs" / state["run_id"] / "ledger.sqlite").runs()


def test_data_alone_is_not_traded(store, tmp_path):
    state = create_trading_graph(source="sample", resources=Resources(store=store)).invoke(
        ask("获取000341.SZ 2024年1月的日线数据")
    )
    assert (state["ended_because"], state["data_ready"]) == ("done", True)
    assert state["summary"] == {}
    assert not Ledger(tmp_path / "runs" / state["run_id"] / "ledger.sqlite").runs()


# Stop and go -------------------------------------------------------------------------------------


@pytest.mark.parametrize("durability", ["sync", "exit"])
@pytest.mark.parametrize("at", [0, 50])
def test_a_run_that_was_stopped_ends_with_the_same_ledger(tmp_path, at, durability):
    with Ledger(tmp_path / "whole.sqlite") as whole:
        create_trading_graph(source="sample", resources=Resources(store=DataState(), ledger=whole)).invoke(
            ask(SENTENCE, run_id="r")
        )
        expected = journal(whole, "r")

    def opened(decider=None):
        connection = sqlite3.connect(tmp_path / "checkpoints.sqlite", check_same_thread=False)
        ledger = Ledger(tmp_path / "stopped.sqlite")
        graph = create_trading_graph(
            source="sample",
            decider=decider,
            checkpointer=SqliteSaver(connection),
            resources=Resources(store=DataState(tmp_path / "data"), ledger=ledger),
        )
        return graph, ledger, connection

    graph, ledger, connection = opened(Stops(at))
    with closing(connection), ledger, pytest.raises(RuntimeError, match="switched off"):
        graph.invoke(ask(SENTENCE, run_id="r"), THREAD, durability=durability)
    graph, ledger, connection = opened()
    with closing(connection), ledger:
        assert len(ledger.sessions("r")) == at
        state = graph.invoke(None, THREAD, durability=durability)
        assert journal(ledger, "r") == expected
        ledger.check("r")
    assert state["summary"]["run_id"] == "r"


@pytest.mark.parametrize("step", ["daily_loop", "decision"])
def test_a_checkpoint_that_lags_behind_the_ledger_trades_nothing_twice(store, ledger, step):
    """As after a kill: the ledger has fifty sessions, the newest checkpoint that was written knows of fewer."""
    resources = Resources(store=store, ledger=ledger)
    options = {"source": "sample", "checkpointer": InMemorySaver(), "resources": resources}
    create_trading_graph(source="sample", resources=Resources(store=store, ledger=ledger)).invoke(
        ask(SENTENCE, run_id="whole")
    )
    graph = create_trading_graph(**options, decider=Stops(50))
    with pytest.raises(RuntimeError):
        graph.invoke(ask(SENTENCE, run_id="r"), THREAD)
    assert ledger.order_records("r"), "there is something that could be done twice"
    old = [
        entry
        for entry in graph.get_state_history(THREAD)
        if entry.next == (step,) and entry.values.get("session")
    ]
    final = create_trading_graph(**options).invoke(None, old[10].config)
    assert journal(ledger, "r") == journal(ledger, "whole")
    assert final["summary"]["run_id"] == "r"


@pytest.mark.parametrize("other", [{"decider": "named"}, {"cash": 5_000_000}])
def test_a_run_is_not_resumed_with_other_money_or_another_decider(store, ledger, other):
    class Named(SignalRule):
        name = "another"

    resources = Resources(store=store, ledger=ledger)
    options = {"source": "sample", "checkpointer": InMemorySaver(), "resources": resources}
    with pytest.raises(RuntimeError):
        create_trading_graph(**options, decider=Stops(5)).invoke(ask(SENTENCE, run_id="r"), THREAD)
    changed = {"decider": Named()} if "decider" in other else other
    graph = create_trading_graph(**options, **changed)
    before = journal(ledger, "r")
    with pytest.raises(LedgerConflict, match="'r'"):
        graph.invoke(None, THREAD)
    assert journal(ledger, "r") == before


def test_a_second_request_on_a_thread_is_a_second_run(store, ledger):
    graph = create_trading_graph(
        source="sample", checkpointer=InMemorySaver(), resources=Resources(store=store, ledger=ledger)
    )
    first = graph.invoke(ask(SENTENCE), THREAD)
    second = graph.invoke(ask(OTHER), THREAD)
    assert first["run_id"] != second["run_id"] == second["summary"]["run_id"]
    assert ledger.sessions(first["run_id"]) == ledger.sessions(second["run_id"]) == sessions_of_window()
    assert {outcome.order.symbol for outcome in ledger.order_records(second["run_id"])} == {"000344.SZ"}


def test_a_new_request_after_a_stop_does_not_go_on_with_the_stopped_run(store, ledger):
    saver = InMemorySaver()
    resources = Resources(store=store, ledger=ledger)
    options = {"source": "sample", "checkpointer": saver, "resources": resources}
    with pytest.raises(RuntimeError):
        create_trading_graph(**options, decider=Stops(30)).invoke(ask(SENTENCE, run_id="stopped"), THREAD)
    before = journal(ledger, "stopped")
    state = create_trading_graph(**options).invoke(ask(OTHER), THREAD)
    assert state["run_id"] != "stopped"
    assert journal(ledger, "stopped") == before
    assert ledger.sessions(state["run_id"]) == sessions_of_window()


def test_a_second_request_may_name_its_run(store, ledger):
    graph = create_trading_graph(
        source="sample", checkpointer=InMemorySaver(), resources=Resources(store=store, ledger=ledger)
    )
    graph.invoke(ask(SENTENCE, run_id="one"), THREAD)
    assert graph.invoke(ask(OTHER, run_id="two"), THREAD)["summary"]["run_id"] == "two"


def test_another_strategy_under_the_same_run_id_is_a_conflict(store, ledger):
    graph = create_trading_graph(source="sample", resources=Resources(store=store, ledger=ledger))
    graph.invoke(ask(SENTENCE, run_id="r"))
    with pytest.raises(LedgerConflict, match="'r'"):
        graph.invoke(ask(OTHER, run_id="r"))


def test_the_same_run_id_and_strategy_is_the_run_that_is_there(store, ledger):
    graph = create_trading_graph(source="sample", resources=Resources(store=store, ledger=ledger))
    first = graph.invoke(ask(SENTENCE, run_id="r"))
    before = journal(ledger, "r")
    again = graph.invoke(ask(SENTENCE, run_id="r"))
    assert journal(ledger, "r") == before
    assert again["summary"] == first["summary"]


def test_trading_nodes_without_a_strategy_say_so(store, ledger):
    graph = create_trading_graph(source="sample", resources=Resources(store=store, ledger=ledger))
    with pytest.raises(NoSignal, match="run the signal subgraph first"):
        graph.nodes["daily_loop"].invoke(ask("x"))


# On disk -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def sse50(a_share, tmp_path_factory):
    """Checkpoints of a run over the real SSE 50, 200 sessions of 50 stocks, with the ledger's sessions."""
    saver = InMemorySaver()
    folder = tmp_path_factory.mktemp("sse50")
    with Ledger(folder / "ledger.sqlite") as ledger:
        graph = create_trading_graph(
            source=a_share,
            checkpointer=saver,
            decider=OneByOne(),
            resources=Resources(store=DataState(), ledger=ledger),
        )
        state = graph.invoke(ask(f"用上证50成分股，{RULE}，2025年1月到10月", run_id="r"), THREAD)
        sessions = ledger.sessions("r")
        ledger.check("r")
    return saver, state, sessions


def test_the_real_sse_50_is_traded_in_every_session_that_counts(sse50, a_share):
    _, state, sessions = sse50
    rows = pd.read_csv(a_share / "daily_prices_sse_50_20250102_20251031.csv", usecols=["trade_date"])
    days = [str(day) for day in sorted(rows["trade_date"].unique())]
    # A mean of 20 sessions, its crossing one more, and the first row that counts is traded at the next open.
    assert [f"{day:%Y%m%d}" for day in sessions] == days[21:]
    assert state["ended_because"] == "done"
    assert state["summary"]["account"]["trades"] > 100
    assert "幸存者偏差" in flat(state)["request"]["notes"][0]


def test_a_checkpoint_of_the_daily_loop_is_under_twenty_kilobytes(sse50):
    saver, _, sessions = sse50
    saved = list(saver.list(THREAD))
    sizes = [
        len(saver.serde.dumps_typed(entry.checkpoint)[1])
        + sum(len(saver.serde.dumps_typed(value)[1]) for *_, value in entry.pending_writes or ())
        for entry in saved
    ]
    assert len(sizes) > 2 * len(sessions), "one checkpoint a step"
    loop = [
        size
        for size, entry in zip(sizes, saved, strict=True)
        if entry.checkpoint["channel_values"].get("session")
    ]
    assert max(loop) < 20_000 < max(sizes) < 25_000, "the last ones have the summary"
    assert max(loop) - min(loop) < 1_000, "a checkpoint does not grow from session to session"


def test_every_key_of_the_state_survives_strict_serialisation(sse50):
    saver, state, _ = sse50
    serde = JsonPlusSerializer(allowed_msgpack_modules=None)  # nothing of ours is allowed: plain data only
    keys = set()
    for entry in list(saver.list(THREAD))[::20] + list(saver.list(THREAD))[-5:]:
        for key, value in entry.checkpoint["channel_values"].items():
            keys.add(key)
            assert serde.loads_typed(serde.dumps_typed(value)) == value, key
    assert keys >= {"messages", "quantgraph", "summary", "session", "data_ref"}
    plain = {key: value for key, value in state.items() if key != "messages"}
    assert _only_json(plain)
    assert all(isinstance(message, HumanMessage) or message.type == "ai" for message in state["messages"])


def _only_json(value) -> bool:
    if isinstance(value, dict):
        return all(type(key) is str and _only_json(each) for key, each in value.items())
    if isinstance(value, list):
        return all(_only_json(each) for each in value)
    assert value is None or type(value) in {str, int, float, bool}, repr(value)
    return True


# What a host may do ------------------------------------------------------------------------------


async def _collected(graph, given):
    return [step async for step in graph.astream(given, stream_mode="updates")]


def test_asynchronous_calls_trade_what_synchronous_ones_do(store, tmp_path):
    def graph(name):
        opened = Ledger(tmp_path / f"{name}.sqlite")
        return create_trading_graph(source="sample", resources=Resources(store=store, ledger=opened)), opened

    ways = {
        "invoke": lambda g: g.invoke(ask(SENTENCE, run_id="r")),
        "ainvoke": lambda g: asyncio.run(g.ainvoke(ask(SENTENCE, run_id="r"))),
        "astream": lambda g: asyncio.run(_collected(g, ask(SENTENCE, run_id="r"))),
    }
    journals = []
    for name, way in ways.items():
        made, opened = graph(name)
        with opened:
            way(made)
            journals.append(journal(opened, "r"))
    assert journals[0] == journals[1] == journals[2]
    assert len(journals[0][0]) == len(sessions_of_window())


def test_a_run_is_not_resumed_with_other_options_of_the_same_decider(store, ledger):
    saver = InMemorySaver()
    stopped = create_trading_graph(
        source="sample", decider=Stops(5), checkpointer=saver, resources=Resources(store=store, ledger=ledger)
    )
    with pytest.raises(RuntimeError, match="switched off"):
        stopped.invoke(ask(SENTENCE, run_id="r"), THREAD)
    other = create_trading_graph(
        source="sample",
        decider=SignalRule(),
        plan=TradePlan(max_positions=1),
        checkpointer=saver,
        resources=Resources(store=store, ledger=ledger),
    )
    with pytest.raises(LedgerConflict, match="max_positions"):
        other.invoke(None, THREAD)


def test_an_empty_run_id_is_none(store, tmp_path):
    graph = create_trading_graph(
        source="sample", settings=load_settings(runs_dir=tmp_path / "runs"), resources=Resources(store=store)
    )
    state = graph.invoke(ask(SENTENCE, run_id=""))
    assert (tmp_path / "runs" / state["run_id"] / "ledger.sqlite").exists()


@pytest.mark.parametrize("run_id", ["../../esc", "a/b", ".hidden", " ", "x" * 201, "a\nb", 5])
def test_a_run_id_is_a_plain_name_of_a_folder(store, tmp_path, run_id):
    graph = create_trading_graph(
        source="sample", settings=load_settings(runs_dir=tmp_path / "runs"), resources=Resources(store=store)
    )
    with pytest.raises(BadOption, match="run_id"):
        graph.invoke(ask(SENTENCE, run_id=run_id))
    assert not list(tmp_path.rglob("ledger.sqlite"))


def test_a_second_request_that_fails_does_not_show_the_first_ones_result(store, ledger):
    graph = create_trading_graph(
        source="sample",
        on_clarify="fail",
        checkpointer=InMemorySaver(),
        resources=Resources(store=store, ledger=ledger),
    )
    first = graph.invoke(ask(SENTENCE), THREAD)
    assert first["summary"]["account"]
    second = graph.invoke(ask("777777.SH，RSI(14)低于40买入，高于60卖出，2024年"), THREAD)
    assert second["ended_because"] != "done"
    assert (second["summary"], flat(second)["strategy"], flat(second)["validation"]) == ({}, {}, {})
    assert second["messages"][-1].text.startswith("未完成")


@pytest.mark.parametrize(("lost", "ending"), [(1, "done"), (99, "repeated_error")])
def test_a_commit_that_is_gone_is_fetched_again_and_not_for_ever(tmp_path, lost, ending):
    left = [lost]

    class Forgets(DataState):
        def view(self, moment, ref=None):
            if self.snapshot(ref)["ohlcv"] and left[0] > 0:
                left[0] -= 1
                raise UnknownCommit("commit is gone")
            return super().view(moment, ref)

    graph = create_trading_graph(
        source="sample",
        on_clarify="fail",
        settings=load_settings(runs_dir=tmp_path),
        resources=Resources(store=Forgets()),
    )
    state = graph.invoke(ask(SENTENCE))
    assert state["ended_because"] == ending
    assert state["error_messages"] == ([] if ending == "done" else ["unknown_commit: commit is gone"])


class Undecided:
    name = "undecided"


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (
            {"rules": "us"},
            r"rules must be a Rulebook, such as Rulebook\.mainland\(\) or Rulebook\.us\(\), not 'us'",
        ),
        ({"rules": Rulebook.us}, "rules must be a Rulebook"),
        (
            {"decider": SignalRule},
            r"decider must be an instance, SignalRule\(\.\.\.\), not the class SignalRule",
        ),
        (
            {"decider": Undecided()},
            r"decider must be an instance of quantgraph\.broker\.Decider, which .* is not$",
        ),
        ({"decider": "buy"}, r"decider='buy' must be one of .*, or FILE\.py:CLASS"),
        ({"mark_at": "high"}, "mark_at must be 'close' or 'open', not 'high'"),
        ({"mark_at": None}, "mark_at must be .* not None"),
    ],
)
def test_an_argument_of_another_kind_is_refused_when_the_graph_is_made(options, text):
    with pytest.raises(BadOption, match=text) as caught:
        create_trading_graph(**options)
    assert caught.value.data["parameter"] in options


def test_a_ledger_of_another_kind_is_refused_when_the_graph_is_made():
    text = "ledger must be a Ledger, or the file or database URL of one, not 5"
    with pytest.raises(BadOption, match=text) as caught:
        create_trading_graph(resources=Resources(ledger=5))
    assert caught.value.data == {"parameter": "ledger"}


def test_an_option_that_is_given_twice_is_refused():
    with pytest.raises(BadOption, match=r"source= and resources\.source are both set") as caught:
        create_trading_graph(source="sample", resources=Resources(source="sample"))
    assert caught.value.data == {"parameter": "source"}


@pytest.mark.parametrize("form", [str, Path, "sqlite:///{}".format])
def test_a_ledger_may_be_named_by_its_file_or_url(store, tmp_path, form):
    file = tmp_path / "mine.sqlite"
    graph = create_trading_graph(source="sample", resources=Resources(store=store, ledger=form(file)))
    state = graph.invoke(ask(SENTENCE, run_id="r"))
    with Ledger(file) as ledger:
        assert ledger.runs() == ["r"]
        assert ledger.sessions("r") == sessions_of_window()
    assert state["summary"]["account"]["final_value"] > 0
    assert not (tmp_path / "runs").exists()
