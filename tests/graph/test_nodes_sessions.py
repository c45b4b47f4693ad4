"""The trading nodes as plain functions: each returns what changed, and the ledger is what counts."""

from __future__ import annotations

import copy
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from decimal import Decimal

import pandas as pd
import pytest
from deciders import OneByOne
from langchain_core.messages import HumanMessage
from states import grouped, then

from quantgraph._util.files import new_run_id
from quantgraph.agents import SignalRule
from quantgraph.errors import LedgerConflict, NoSignal, UnknownCommit, UnknownSymbol
from quantgraph.graph import daily_loop_node, decision_node, report_node
from quantgraph.graph._loop import begin_node
from quantgraph.graph._trading import Trading
from quantgraph.market import Rulebook
from quantgraph.runtime import Resources, open_resources
from quantgraph.runtime.endings import end_update
from quantgraph.settings import load_settings
from quantgraph.state import DataState
from quantgraph.state._commits import write_commit

DAYS = pd.to_datetime(["2024-01-02", "2024-01-03", "2024-01-04", "2024-01-05"])
CODE = "600519.SH"


def column(*values):
    return pd.DataFrame({CODE: values}, index=DAYS, dtype=float)


@pytest.fixture
def data_ref(store):
    """Buy known after the first session, sell after the third."""
    ref = store.update("ohlcv", {"open": column(10, 11, 12, 13), "close": column(10.5, 11.5, 12.5, 13.5)})
    return store.update("signal", {"s": column(1, 0, -1, 0)}, base=ref)


@pytest.fixture
def trading(store, tmp_path):
    settings = load_settings(runs_dir=tmp_path / "runs")
    return Trading(
        resources=open_resources(Resources(store=store, settings=settings)),
        decider=OneByOne(),
        rules=Rulebook.mainland(),
        cash=Decimal("100000.00"),
    )


@pytest.fixture
def state(data_ref):
    return grouped(
        {
            "messages": [],
            "data_ref": data_ref,
            "strategy": {"name": "s", "code_hash": "abc"},
            "request": {"start": "20240102", "end": "20240105"},
            "run_id": "r",
        }
    )


def walk(state, trading):
    """The loop by hand: yields the session of each turn."""
    while True:
        state |= daily_loop_node(state, trading=trading)
        if state["session"] is None:
            return
        yield state["session"]
        assert decision_node(state, trading=trading) == {}


def test_one_session_a_turn_then_none(state, trading):
    assert list(walk(state, trading)) == ["20240102", "20240103", "20240104", "20240105"]
    assert state["session"] is None
    trading.close("r")


def test_the_signal_of_a_session_is_traded_at_the_next_open(state, trading):
    for _ in walk(state, trading):
        pass
    fills = trading.ledger_of("r").fill_records("r")
    assert [(fill.order.side, f"{fill.session:%m%d}", float(fill.price)) for fill in fills] == [
        ("buy", "0103", 11.0),
        ("sell", "0105", 13.0),
    ]
    trading.close("r")


def test_a_window_inside_the_data_is_all_that_is_traded(state, trading):
    state = grouped({**state, "request": {"start": "20240103", "end": "20240104"}})
    assert list(walk(state, trading)) == ["20240103", "20240104"]
    trading.close("r")


def test_a_step_may_be_several_sessions_each_a_transaction_of_its_own(state, trading, monkeypatch):
    wide = replace(trading, decider=SignalRule())
    monkeypatch.setattr("quantgraph.graph._loop.BLOCK_SESSIONS", 3)
    assert list(walk(state, wide)) == ["20240102", "20240105"]
    by_steps = list(wide.ledger_of("r").results("r"))
    wide.close("r")
    other = {**state, "run_id": "one"}
    assert len(list(walk(other, trading))) == 4
    assert list(trading.ledger_of("one").results("one")) == by_steps
    trading.close("one")


def test_holdings_are_marked_where_the_desk_is_told(state, trading):
    early = replace(trading, mark_at="open")
    for _ in walk(state, early):
        pass
    _, marks = early.ledger_of("r").holdings("r")
    assert marks[CODE].dropna().tolist() == [11.0, 12.0]
    early.close("r")
    with pytest.raises(LedgerConflict, match="'r'"):
        daily_loop_node(state, trading=trading)
    trading.close("r")


def test_a_symbol_of_another_market_is_named_before_the_first_session(state, trading):
    with pytest.raises(
        UnknownSymbol, match=r"no board for 600519\.SH; it knows codes such as AAPL.*--market cn"
    ):
        daily_loop_node(state, trading=replace(trading, rules=Rulebook.us()))
    trading.close("r")


def test_the_way_to_the_us_market_is_said_in_code_and_on_the_command_line(state, trading):
    data_ref = trading.resources.store.update(
        "ohlcv", {"open": column(1, 2, 3, 4).rename(columns={CODE: "AAPL"})}
    )
    with pytest.raises(UnknownSymbol, match=r"rules=Rulebook\.us\(\), on the command line --market us"):
        daily_loop_node(state | {"data_ref": data_ref}, trading=trading)
    trading.close("r")


def test_nodes_leave_their_state_alone(state, trading):
    before = copy.deepcopy(state)
    update = daily_loop_node(state, trading=trading)
    assert state == before
    assert set(update) == {"run_id", "session"}
    now = {**state, **update}
    before = copy.deepcopy(now)
    decision_node(now, trading=trading)
    assert now == before
    for _ in walk(now, trading):
        pass
    before = copy.deepcopy(now)
    assert set(report_node(now, trading=trading)) == {"summary", "session", "messages"}
    assert now == before


def test_deciding_a_session_again_records_it_once(state, trading):
    state = then(state, daily_loop_node(state, trading=trading))
    for _ in range(3):
        decision_node(state, trading=trading)
    assert trading.ledger_of("r").sessions("r") == [DAYS[0]]
    trading.close("r")


def test_the_loop_goes_on_after_the_ledgers_last_session_whatever_the_state_says(state, trading):
    turns = walk(state, trading)
    for _ in range(3):
        next(turns)  # two sessions are committed, the third is set
    behind = {**state, "session": "20240102"}
    assert daily_loop_node(behind, trading=trading)["session"] == "20240104"
    assert decision_node(behind, trading=trading) == {}
    assert len(trading.ledger_of("r").sessions("r")) == 2
    trading.close("r")


def test_a_lost_ledger_begins_again_from_the_first_session(state, trading):
    later = {**state, "session": "20240104"}
    assert daily_loop_node(later, trading=trading)["session"] == "20240102"
    trading.close("r")


def test_a_new_request_is_a_new_run_and_the_same_request_is_not(state):
    asked = {**state, "messages": [HumanMessage("buy")], "run_id": "mine"}
    closed = [*asked["messages"], *end_update(asked, "done")["messages"], HumanMessage("sell")]
    unclosed = [*asked["messages"], *end_update(asked, "needs_answer")["messages"], HumanMessage("of all")]
    assert begin_node(asked)["run_id"] == begin_node({**asked, "messages": unclosed})["run_id"] == "mine"
    assert begin_node({**asked, "messages": closed})["run_id"] != "mine"
    assert begin_node({**asked, "messages": closed, "run_id": "next"})["run_id"] == "next"


@pytest.mark.parametrize("node", [daily_loop_node, decision_node])
def test_a_run_of_that_name_with_another_strategy_is_a_conflict(node, state, trading):
    state = then(state, daily_loop_node(state, trading=trading))
    other = grouped({**state, "strategy": {"name": "s", "code_hash": "other"}})
    with pytest.raises(LedgerConflict, match="'r'"):
        node(other, trading=trading)
    assert trading.ledger_of("r").sessions("r") == []
    trading.close("r")


def test_no_strategy_and_no_data_say_so(state, trading):
    with pytest.raises(NoSignal, match="run the signal subgraph first"):
        daily_loop_node(grouped({**state, "strategy": {}}), trading=trading)
    with pytest.raises(UnknownCommit):
        daily_loop_node({**state, "data_ref": "0" * 32}, trading=trading)


def test_the_report_adds_up_and_closes_the_ledger(state, trading):
    for _ in walk(state, trading):
        pass
    update = report_node({**state, "messages": []}, trading=trading)
    account = update["summary"]["account"]
    # 9,000 shares: 99,000 and fees at 11, back at 13; commission 2.5 and transfer 0.1 per 10,000, duty 5 per 10,000.
    bought, sold = Decimal(9000 * 11), Decimal(9000 * 13)
    cash = Decimal(100_000) - bought - Decimal("24.75") - Decimal("0.99")
    cash += sold - Decimal("29.25") - Decimal("1.17") - Decimal("58.50")
    assert account["final_value"] == float(cash)
    assert account["trades"] == 2
    assert f"{float(cash) / 100_000 - 1:.2%}" in update["messages"][0].text
    assert trading._open == {}


def test_every_thread_gets_the_one_ledger_of_a_run(trading):
    with ThreadPoolExecutor(16) as pool:
        ledgers = list(pool.map(lambda _: trading.ledger_of("r"), range(64)))
    assert len({id(ledger) for ledger in ledgers}) == 1
    trading.close("r")
    trading.close("r")


def test_run_names_are_unique_and_sort_by_time():
    names = [new_run_id() for _ in range(100)]
    assert len(set(names)) == 100
    assert sorted(names, key=lambda name: name[:15]) == names


def test_a_desk_reads_a_spilled_commit_in_another_store(state, trading, store, tmp_path):
    write_commit(tmp_path / "data", *store._find(state["data_ref"]))
    elsewhere = Trading(
        resources=replace(trading.resources, store=DataState(tmp_path / "data")),
        decider=trading.decider,
        rules=trading.rules,
        cash=trading.cash,
    )
    assert len(list(walk(state, elsewhere))) == 4
    elsewhere.close("r")
