"""The trade plan of a reading: as models write it, sent back once, and in no code."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from sentence_play import SentenceModel, clause, reading

from quantgraph.agents import SignalRule
from quantgraph.llm._keyless_replies import _understood
from quantgraph.runtime import Resources
from quantgraph.runtime.graph_state import dialogue_of, request_of
from quantgraph.sentences import RequestContext, read_request
from quantgraph.state import DataState
from quantgraph.subgraphs.signal import create_signal_subgraph
from quantgraph.subgraphs.signal._agents import ModelClause
from quantgraph.subgraphs.signal._plan import executed_plan, with_plan
from quantgraph.subgraphs.signal.understanding import not_done_words

ALL = SignalRule().executes


@pytest.mark.parametrize(
    ("said", "planned"),
    [
        ({"trade_on": "first trading day of each month"}, {"trade_on": "month_start"}),
        ({"trade_on": "每周一"}, {"trade_on": "week_start"}),
        ({"trade_on": "每月1日"}, {"trade_on": "month_start"}),
        ({"rebalance": "quarterly"}, {"rebalance": "quarter_start"}),
        ({"trade_on": "every 5 sessions"}, {"trade_on": 5}),
        ({"trade_on": "每5个交易日"}, {"trade_on": 5}),
        ({"trade_on": "daily"}, {}),
        ({"size": {"percent": 30}}, {"size": {"percent": "0.3"}}),
        ({"size": {"percent": "30%"}}, {"size": {"percent": "0.3"}}),
        ({"size": {"weights": {"600519.SH": 60}}}, {"size": {"weights": {"600519.SH": "0.6"}}}),
        (
            {"accumulate": {"percent": 20, "on": "rise", "by": "5%"}},
            {"accumulate": {"percent": "0.2", "on": "rise", "by": "0.05"}},
        ),
    ],
)
def test_values_are_read_as_models_write_them(said, planned):
    assert executed_plan(said, ALL) == (planned, {})


@pytest.mark.parametrize(
    "said",
    [
        {"trade_on": "every 2 weeks"},
        {"stop_loss": "soon"},
        {"size": {"percent": 300}},
        {"max_positions": 0},
        {"accumulate": {"amount": 5000, "on": "payday"}},
        {"size": "equal_weight", "accumulate": {"amount": 5000, "on": "schedule"}},
    ],
)
def test_a_value_that_no_plan_has_is_refused_by_its_name(said):
    (why,) = executed_plan(said, ALL)[1].values()
    assert any(name in why for name in said)
    assert set(executed_plan(said, ())[1].values()) == {
        ""
    }  # what the decider does not execute is asked about


def test_leverage_is_not_done_beside_a_plan_that_is():
    """A schedule has no number, and two positions have that of the leverage: neither says it."""
    quotes = ("2x leverage", "every month", "stop loss 8%")
    said = [ModelClause(quote=each, part="plan").model_dump() for each in quotes]
    plan = {"trade_on": "month_start", "max_positions": 2, "stop_loss": 0.08}
    params = with_plan({"plan": plan, "clauses": said}, ALL)
    assert [each["status"] for each in params["clauses"]] == ["not_done", "done", "done"]


RULE = "600036.SH：收盘价上穿20日均线买入，下穿卖出，隔周调仓，2025年5月6日到10月31日"


def read(schedule: str) -> dict:
    return reading(
        "600036.SH",
        ("20250506", "20251031"),
        clause("收盘价上穿20日均线买入", "entry", "收盘价上穿20日均线时买入"),
        clause("下穿卖出", "exit", "收盘价下穿20日均线时卖出"),
        clause("隔周调仓", "plan", "每隔10个交易日调仓") | {"plan": {"trade_on": schedule}},
    )


def ask(shared_data, *readings: dict, text: str = RULE) -> tuple[dict, SentenceModel]:
    cast = SentenceModel(readings=readings, cells=["pass"])
    resources = Resources(store=DataState(), model=cast.model, checkpointer=InMemorySaver())
    graph = create_signal_subgraph(
        source=Path(shared_data, "ai-trader", "a_share"), on_clarify="fail", resources=resources
    )
    return graph.invoke({"messages": [("user", text)]}, {"configurable": {"thread_id": "t"}}), cast


def test_a_value_that_no_plan_has_goes_back_to_the_model_once(shared_data):
    state, cast = ask(shared_data, read("every 2 weeks"), read("10"))
    assert "misread: plan：trade_on='every 2 weeks'; must be every, week_start" in cast.asked["reading"][1]
    assert request_of(state)["understanding"]["plan"] == {"trade_on": 10}


def test_a_value_that_stays_is_asked_about_in_the_persons_words(shared_data):
    state, cast = ask(shared_data, read("every 2 weeks"))
    assert len(cast.asked["reading"]) == 2
    assert state["ended_because"] == "needs_answer"
    assert "隔周调仓" in dialogue_of(state)["open_question"]["reason"]


def test_a_clause_of_the_plan_without_a_value_goes_back_and_is_then_named(shared_data):
    lost = read("10")
    lost["user_intent"]["params"]["clauses"].append(clause("止损8%", "plan", "比买入价跌8%时止损"))
    text = RULE.replace("，隔周", "，止损8%，隔周")
    state, cast = ask(shared_data, lost, text=text)
    assert "没有什么执行「止损8%」" in cast.asked["reading"][1]
    assert state["ended_because"] == "needs_answer"
    assert "止损8%" in dialogue_of(state)["open_question"]["reason"]


CROSSES = {
    "600036.SH，2024年：5日均线上穿20日均线买入，下穿卖出，{}，{}": (
        "止损8% 3倍ATR止损 止盈20% 移动止损10% 最多持有20天 三成仓 每只两万 最多5只 滑点0.1% 每周一调仓 每月第一个交易日调仓 每5个交易日调仓 等权 每涨5%加两成仓",
        "2倍杠杆 手续费5% 手续费5元 T+0 前复权 60分钟线 收盘价成交 网格交易 每笔风险2% 5分钟线",
    ),
    "600036.SH, 2024: buy when the close crosses above its 20-day average, sell when it crosses below, {}, {}": (
        "stop_loss_8% 3x_ATR_trailing_stop hold_at_most_20_days 30%_of_the_account_each_time $20,000_per_stock at_most_5_positions rebalance_monthly equal_weight",
        "2x_leverage 5%_commission T+0 60-minute_bars grid_trading 2%_risk_per_trade",
    ),
}


@pytest.mark.parametrize("sentence", CROSSES)
def test_without_a_model_nothing_that_is_refused_hides_behind_a_plan(sentence):
    """Whatever the plan has beside it, its number too, what no run does is named in the person's words."""
    plans, refused = (words.split() for words in CROSSES[sentence])
    for plan, other in itertools.product(plans, refused):
        text = sentence.format(plan.replace("_", " "), other.replace("_", " "))
        request = read_request(text, RequestContext())
        params = {"strategy_desc": request.entry, **_understood(request, text)}
        clauses = [ModelClause.model_validate(each).model_dump() for each in params["clauses"]]
        read = with_plan({**params, "clauses": clauses}, ALL)
        assert read["plan"], text
        assert not_done_words(read) == [clause.words for clause in request.open] != [], text
