"""What the rule language cannot say is code of a model for that condition alone; the rest is what was read."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from langgraph.checkpoint.memory import InMemorySaver
from sentence_play import SentenceModel, reading

from quantgraph.errors import UnknownField
from quantgraph.rules import Rule, RuleEvaluator
from quantgraph.runtime import Resources
from quantgraph.runtime.endings import last_request
from quantgraph.runtime.graph_state import request_of, strategy_of
from quantgraph.state import DataState
from quantgraph.subgraphs.signal import create_signal_subgraph

TEXT = "600036.SH和601318.SH 收盘价的个位数是偶数、且站在20日线上方买入，跌到20日线下方卖出，2025年1月2日到10月31日"
CLAUSES = (
    {"name": "even", "quote": "收盘价的个位数是偶数", "code": "收盘价取整后的个位数是偶数"},
    {"name": "up", "quote": "站在20日线上方买入", "rule": "close > sma(close, 20)"},
    {"name": "down", "quote": "跌到20日线下方卖出", "rule": "close < sma(close, 20)"},
)
READ = reading("600036.SH,601318.SH", ("20250102", "20251031"), *CLAUSES, entry="even and up", exit="down")
EVEN = """close = GLOBAL_DATA_STATE.snapshot()["ohlcv"]["close"]
even = (close // 1 % 2 == 0).astype(float).where(close.notna())
GLOBAL_DATA_STATE.update("signal", {{"{name}": even}})"""
LEAKS = EVEN.replace("close // 1", "close.shift(-1) // 1")


@pytest.fixture
def coded(shared_data):
    """``coded(*cells)``: the state, the model, and the store of a run in which a model writes these cells."""

    def run(*cells, **options):
        cast, store = SentenceModel(readings=[READ], cells=cells, **options), DataState()
        graph = create_signal_subgraph(
            source=Path(shared_data, "ai-trader", "a_share"),
            on_clarify="fail",
            checkpointer=InMemorySaver(),
            resources=Resources(store=store, model=cast.model),
        )
        state = graph.invoke({"messages": [("user", TEXT)]}, {"configurable": {"thread_id": "t"}})
        return state, cast, store

    return run


def test_a_condition_is_code_and_the_rest_is_computed_as_it_was_read(coded):
    state, cast, store = coded(EVEN.format(name="even"))
    assert state["ended_because"] == "done", state["error_messages"]
    (prompt,) = (each for each in cast.asked["code"] if "<conditions>" in each)
    assert '{"even":"收盘价取整后的个位数是偶数"}' in prompt
    assert "close < sma(close, 20)" in prompt

    strategy, snapshot = strategy_of(state), store.snapshot(state["data_ref"])
    close = store.snapshot(strategy["data_ref"])["ohlcv"]["close"]["600036.SH"]
    adjusted = store.snapshot(strategy["data_ref"]).adjusted("close")["600036.SH"]
    mean = adjusted.rolling(20).mean()
    buys = (close.astype(int) % 2 == 0) & (adjusted > mean)
    expected = buys.astype(float).mask(adjusted < mean, -1.0).where(mean.notna())
    made = snapshot["signal"][strategy["name"]]["600036.SH"]
    assert made.equals(expected.loc[made.index[0] :].rename(made.name))
    assert {1.0, 0.0, -1.0} <= set(made), "days on which only one of two conditions holds are among them"
    assert strategy["signals"] == [strategy["name"]]


RARE = EVEN.replace("close // 1 % 2 == 0", "close > 9 * close.rolling(60).mean()")


@pytest.mark.parametrize(
    ("cell", "need"), [(EVEN, 20), (RARE.replace("close.notna()", "close.rolling(60).count() == 60"), 60)]
)
def test_a_row_needs_what_the_rule_and_each_condition_by_itself_need(coded, cell, need):
    state, _, _ = coded(cell.format(name="even"))
    assert strategy_of(state)["warm_up"] == need


def test_what_was_not_compared_is_named_and_the_rest_is_not(coded):
    state, _, _ = coded(EVEN.format(name="even"))
    (line,) = (
        each["zh"]
        for each in state["quantgraph"]["progress"]["validation"]["issues_found"]
        if each["code"] == "not_compared"
    )
    assert "收盘价的个位数是偶数" in line
    assert "20日线" not in line
    rule = request_of(state)["understanding"]["rule"]
    assert rule["entry"] == "「收盘价取整后的个位数是偶数」（代码） 且 收盘价 > 20日均线"
    assert rule["exit"] == "收盘价 < 20日均线"


WRONG = {
    "no signal named even": EVEN.replace("{name}", "even_close"),
    "not_a_condition: even has -1": EVEN.replace("even}})", "even * 2 - 1}})"),
    "even lacks columns of close: 601318.SH": EVEN.replace("even}})", 'even[["600036.SH"]]}})'),
}


@pytest.mark.parametrize(("line", "wrong"), WRONG.items())
def test_what_is_no_condition_of_that_name_goes_back_to_the_model(coded, wrong, line):
    state, cast, _ = coded(wrong.format(name="even"), EVEN.format(name="even"))
    assert state["ended_because"] == "done", state["error_messages"]
    assert any(line in each for each in cast.asked["code"])


def test_code_that_reads_the_next_session_is_found(coded):
    state, _, _ = coded(LEAKS.format(name="even"))
    assert state["ended_because"] == "causality_failed"


def test_a_message_after_the_end_has_the_model_s_code_and_not_the_product_s(coded):
    state, _, _ = coded(EVEN.format(name="even"))
    assert last_request(state)["last_cells"] == [EVEN.format(name="even")]


def test_a_rule_without_the_code_that_it_names_is_refused():
    close = pd.DataFrame({"600036.SH": [40.0, 41.0]}, index=pd.to_datetime(["2025-01-02", "2025-01-03"]))
    store = DataState()
    view = store.snapshot(store.update("ohlcv", {"close": close}))
    with pytest.raises(UnknownField, match="even"):
        RuleEvaluator(view).signal(Rule.read('given("even")'))
