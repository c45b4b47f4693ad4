"""A model's reading as trees: what was said is what trades, on real prices, with one call or two."""

from __future__ import annotations

from pathlib import Path

import plain_prices
import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from sentence_play import SentenceModel, reading

from quantgraph.broker.ledger import Ledger
from quantgraph.graph import create_trading_graph
from quantgraph.runtime import Resources
from quantgraph.runtime.graph_state import progress_of, request_of
from quantgraph.state import DataState
from quantgraph.subgraphs.signal import create_signal_subgraph

YEAR, SPAN = ("20250102", "20251031"), "，2025年1月2日到10月31日"
CONFIG = {"configurable": {"thread_id": "t"}, "recursion_limit": 400}


def condition(name, quote, rule, **more):
    return {"name": name, "quote": quote, "rule": rule, **more}


@pytest.fixture
def traded(shared_data, tmp_path):
    """``traded(text, codes, clauses, entry, exit)``: the state, the fills and the model of a run."""

    def run(text, codes, *readings, on_clarify="fail", answers=(), seconds=((),)):
        cast = SentenceModel(readings=readings, cells=["pass"], reviews=seconds)
        ledger = Ledger(tmp_path / "ledger.sqlite")
        graph = create_trading_graph(
            source=Path(shared_data, "ai-trader", "a_share"),
            on_clarify=on_clarify,
            checkpointer=InMemorySaver(),
            resources=Resources(store=DataState(), model=cast.model, ledger=ledger),
        )
        state = graph.invoke({"messages": [("user", text + SPAN)]}, CONFIG)
        for answer in answers:
            state = graph.invoke(Command(resume=answer), CONFIG)
        fills = ledger.fills(state["run_id"]) if state.get("ended_because") == "done" else None
        return state, fills, cast

    return run


def read(codes, *clauses, **sides):
    return reading(codes, YEAR, *clauses, **sides)


UP = condition("up", "20日线上方买入", "close > sma(close, 20)")
DOWN = condition("down", "跌到下方卖出", "close < sma(close, 20)")


def test_days_without_purchases_are_judged_on_the_day_of_the_fill(traded):
    friday = {"quote": "周五不开新仓", "plan": {"no_entry_on": {"weekdays": [5]}}}
    text = "600036.SH 20日线上方买入，跌到下方卖出，周五不开新仓"
    state, fills, cast = traded(
        text, "600036.SH", read("600036.SH", UP, DOWN, friday, entry="up", exit="down")
    )
    assert state["ended_because"] == "done", state["error_messages"]
    bought = fills[fills["side"] == "buy"]
    assert len(bought) > 2
    assert 4 not in set(bought["trade_date"].dt.day_of_week)
    assert "code" not in cast.asked, "no model writes code for a rule that was read"


def test_an_exit_by_the_index_does_not_wait_for_the_day_on_which_a_ranking_changes(traded):
    text = "上证50每周一换仓，20天涨幅前5，指数收在20日线下就全部空仓"
    weekly = {"quote": "每周一换仓", "plan": {"trade_on": "week_start", "max_positions": 5}}
    top = condition("top", "20天涨幅前5", "rank(change(close, 20)) <= 5", acts="trade_day")
    weak = condition("weak", "指数收在20日线下就全部空仓", 'index("000016.SH", close < sma(close, 20))')
    given = read("000016.SH", weekly, top, weak, entry="top and not weak", exit="not top or weak")
    state, fills, _ = traded(text, "000016.SH", given)
    assert state["ended_because"] == "done", state["error_messages"]
    assert request_of(state)["understanding"]["plan"]["exit_on"] == "every"
    assert 'left("week") == 0' in request_of(state)["checked"]["trees"][1]
    days = fills["trade_date"].drop_duplicates()
    first = days.groupby(days.dt.to_period("W")).transform("min")
    bought, sold = (set(fills.loc[fills["side"] == side, "trade_date"]) for side in ("buy", "sell"))
    assert bought <= set(first), "entries wait for the first session of a week"
    assert sold - set(first), "the market's exit does not"


def test_without_a_key_the_same_parts_of_an_exit_wait(shared_data):
    text = "上证50里每周一开盘换仓，持有过去20天涨幅最大的5只，指数收在20日线下面就全部空仓"
    graph = create_signal_subgraph(source=Path(shared_data, "ai-trader", "a_share"), on_clarify="fail")
    state = graph.invoke({"messages": [("user", text + SPAN)]}, CONFIG)
    assert state["ended_because"] == "done", state["error_messages"]
    rank, market = request_of(state)["checked"]["trees"][1].split(" or ")
    assert 'left("week") == 0' in rank
    assert 'left("week")' not in market
    plan = request_of(state)["understanding"]["plan"]
    assert (plan["exit_on"], plan["entry_row"]) == ("every", "last")


def test_a_rank_buys_by_the_session_before_the_trade_day_alone(traded):
    """By prices as traded, whose ranks differ from those of adjusted ones by a dividend at most."""
    text = "上证50每月第一个交易日买20天涨幅前3，跌破50日线就卖"
    monthly = {"quote": "每月第一个交易日买", "plan": {"trade_on": "month_start", "max_positions": 3}}
    top = condition("top", "20天涨幅前3", "rank(change(close, 20)) <= 3")
    out = condition("out", "跌破50日线就卖", "close < sma(close, 50)")
    given = read("000016.SH", monthly, top, out, entry="top", exit="out")
    state, fills, cast = traded(text, "000016.SH", given)
    assert state["ended_because"] == "done", state["error_messages"]
    assert "code" not in cast.asked
    ranks = plain_prices.a_share()["close"].pct_change(20, fill_method=None).rank(axis=1, ascending=False)
    bought = fills[fills["side"] == "buy"]
    before = ranks.shift(1).stack()[[*zip(bought["trade_date"], bought["ts_code"], strict=True)]]
    assert len(before) > 8
    assert before.max() <= 4


def test_regular_buying_is_a_rule_without_code(traded):
    regular = {"quote": "定投5000块", "plan": {"accumulate": {"amount": 5000, "on": "schedule"}}}
    monthly = {"quote": "每月1号", "plan": {"trade_on": "month_start"}}
    given = read("600900.SH", monthly, regular, entry="", exit="")
    again = {"plan": {"trade_on": "month_start", "accumulate": {"amount": 5000, "on": "schedule"}}}
    state, fills, cast = traded("600900.SH每月1号定投5000块", "600900.SH", given, seconds=[again])
    assert state["ended_because"] == "done", state["error_messages"]
    assert "code" not in cast.asked
    assert len(fills) == 10, "one a month"
    assert set(fills["side"]) == {"buy"}


def test_a_state_is_judged_by_the_last_row_and_a_clause_may_have_a_rule_and_a_plan(traded):
    monthly = condition(
        "up", "每月第一个交易日，站上20日线就买", "close > sma(close, 20)", plan={"trade_on": "month_start"}
    )
    out = condition("out", "RSI(6)高于90或亏5%卖", "rsi(6) > 90", plan={"stop_loss": 0.05})
    given = read("600036.SH", monthly, out, entry="up", exit="out")
    state, fills, _ = traded(
        "600036.SH 每月第一个交易日，站上20日线就买，RSI(6)高于90或亏5%卖", "600036.SH", given
    )
    assert state["ended_because"] == "done", state["error_messages"]
    plan = request_of(state)["understanding"]["plan"]
    assert plan == {"trade_on": "month_start", "exit_on": "every", "entry_row": "last", "stop_loss": "0.05"}
    close = plain_prices.a_share()["close"]["600036.SH"].dropna()
    above = (close > close.rolling(20).mean()).shift(1)
    bought = fills[fills["side"] == "buy"]["trade_date"]
    assert above[bought].all()
    assert len(bought) > 1


def test_each_clause_says_which_fill_it_changed_first(traded):
    never = condition("cheap", "但股价低于一元不买", "close < 1")
    stop = {"quote": "亏60%止损", "plan": {"stop_loss": 0.6}}
    few = {"quote": "每次买1000股", "plan": {"size": {"shares": 1000}}}
    text = "600036.SH 20日线上方买入，但股价低于一元不买，跌到下方卖出，亏60%止损，每次买1000股"
    given = read("600036.SH", UP, never, DOWN, stop, few, entry="up and not cheap", exit="down")
    state, fills, _ = traded(text, "600036.SH", given)
    assert state["ended_because"] == "done", state["error_messages"]
    told = {each["words"]: each["mattered"] for each in request_of(state)["understanding"]["clauses"]}
    bought, sold = (
        f"{fills[fills['side'] == side]['trade_date'].iloc[0]:%Y-%m-%d}" for side in ("buy", "sell")
    )
    assert told["但股价低于一元不买"]["zh"] == told["亏60%止损"]["zh"] == "在这个区间里没有改变成交"
    assert told["每次买1000股"]["zh"].startswith(f"首次改变成交：{bought} 600036.SH，有它 1000 股，没有它 ")
    changed = f"first changes a fill: {sold} 600036.SH, -1000 shares with it, 0 without"
    assert told["跌到下方卖出"]["en"] == changed


def test_a_number_that_was_not_said_goes_back_and_then_to_the_person_in_their_words(traded):
    text = "600036.SH 20日线上方买入，跌到下方卖出"
    wrong = condition("up", "20日线上方买入", "close > sma(close, 60)")
    given = read("600036.SH", wrong, DOWN, entry="up", exit="down")
    state, _, cast = traded(text, "600036.SH", given, on_clarify="ask")
    assert len(cast.asked["reading"]) == 2
    assert "misread: 「20日线上方买入」：20 没有进入规则或计划" in cast.asked["reading"][1]
    (question,) = (each.value for each in state["__interrupt__"])
    assert "目前读成“收盘价 > 60日均线”" in question["question"]
    assert question["options"] == ["就按读到的做"]


def test_an_expression_that_the_language_does_not_have_is_answered_with_the_nodes_signature(traded):
    text = "600036.SH 20日线上方买入，跌到下方卖出"
    slip = condition("up", "20日线上方买入", "close > sma(20)")
    right = read("600036.SH", UP, DOWN, entry="up", exit="down")
    state, _, cast = traded(text, "600036.SH", read("600036.SH", slip, DOWN, entry="up", exit="down"), right)
    assert state["ended_because"] == "done", state["error_messages"]
    assert "sma is written sma(x, n)" in cast.asked["reading"][1] or "sma needs n" in cast.asked["reading"][1]


@pytest.mark.parametrize(
    ("clauses", "entry", "exit_", "found"),
    [
        (
            [condition("up", "60日线上方买入", "close > sma(close, 60)"), DOWN],
            "up",
            "down",
            "原话里没有这几个字",
        ),
        ([UP, DOWN], "up", "", "entry 和 exit 都没有用到条款 down"),
        ([UP, DOWN], "up", "up", "entry and exit are the same"),
        ([UP, DOWN], "up and calm", "down", "'calm' is no name of the language"),
    ],
)
def test_readings_that_do_not_hold_together_go_back_with_what_is_wrong(traded, clauses, entry, exit_, found):
    text = "600036.SH 20日线上方买入，跌到下方卖出"
    right = read("600036.SH", UP, DOWN, entry="up", exit="down")
    state, _, cast = traded(text, "600036.SH", read("600036.SH", *clauses, entry=entry, exit=exit_), right)
    assert state["ended_because"] == "done", state["error_messages"]
    assert found in cast.asked["reading"][1]


def test_a_second_reading_that_trades_otherwise_is_one_question_with_the_first_day(traded):
    """The keyless reader reads the words whole: the average is of 20 days, as said, and the model's of the volume."""
    text = "600036.SH 收盘价上穿20日均线买入，收盘价下穿20日均线卖出"
    up = condition("up", "收盘价上穿20日均线买入", "cross_up(close, sma(open, 20))")
    down = condition("down", "收盘价下穿20日均线卖出", "cross_down(close, sma(open, 20))")
    given = read("600036.SH", up, down, entry="up", exit="down")
    state, _, cast = traded(text, "600036.SH", given, on_clarify="ask")
    (question,) = (each.value for each in state["__interrupt__"])
    assert question["kind"] == "meaning"
    assert "收盘价上穿20日均线买入" in question["question"]
    assert "2025-" in question["question"]
    assert "review" not in cast.asked


LIMIT = "昨天涨停、今天没封住但收高就买"
OPENED = condition("opened", LIMIT, "was(limit_up()) and not limit_up() and close > ago(close)")
THREE = {"quote": "拿3天", "plan": {"max_holding": 3}}
LIMITS = read("600150.SH", OPENED, THREE, entry="opened", exit="")
SAME = {"entry": "close > ago(close) and was(limit_up()) and not limit_up()", "plan": {"max_holding": 3}}


def test_a_second_reading_that_trades_the_same_needs_no_question_and_two_calls(traded):
    state, fills, cast = traded(f"600150.SH {LIMIT}，拿3天", "600150.SH", LIMITS, seconds=[SAME])
    assert state["ended_because"] == "done", state["error_messages"]
    assert len(fills)
    assert [len(each) for each in cast.asked.values()] == [1, 1]
    assert "limit_up" not in cast.asked["review"][0].split("</validate>")[0], "it sees the words alone"


@pytest.mark.parametrize(
    ("second", "says"),
    [
        ({**SAME, "entry": "limit_up()"}, "2025-"),
        ({**SAME, "plan": {"max_holding": 5}}, "max_holding 一种读法是 3，另一种是 5"),
        ({"entry": SAME["entry"]}, "max_holding 一种读法是 3，另一种是 -"),
        ({"entry": "", "plan": SAME["plan"]}, "另一种读法里没有规则"),
    ],
)
def test_a_second_reading_that_trades_otherwise_is_asked_about_before_anything_is_traded(
    traded, second, says
):
    state, fills, cast = traded(f"600150.SH {LIMIT}，拿3天", "600150.SH", LIMITS, seconds=[second])
    assert (state["ended_because"], fills) == ("meaning_failed", None)
    assert says in state["error_messages"][-1]
    assert len(cast.asked["reading"]) == 1


def test_the_person_takes_one_of_two_readings(traded):
    wrong = condition("opened", LIMIT, "limit_up()")
    first = read("600150.SH", wrong, THREE, entry="opened", exit="")
    other = traded(
        f"600150.SH {LIMIT}，拿3天", "600150.SH", first, LIMITS, on_clarify="ask", seconds=[SAME],
        answers=["2"],
    )  # fmt: skip
    state, fills, cast = other
    assert state["ended_because"] == "done", state["error_messages"]
    assert [len(cast.asked[role]) for role in ("reading", "review")] == [2, 2]
    assert "按另一种读法：" in cast.asked["reading"][1]
    assert "unparsed" not in [each["status"] for each in request_of(state)["understanding"]["clauses"]]
    assert len(fills)


def test_a_second_reading_that_is_none_is_said_to_be_none(traded):
    none = {"entry": "surge(close, 3)"}
    state, _, cast = traded(f"600150.SH {LIMIT}，拿3天", "600150.SH", LIMITS, seconds=[none])
    assert state["ended_because"] == "done", state["error_messages"]
    assert "not_compared" in [each["code"] for each in progress_of(state)["validation"]["issues_found"]]
    assert "surge" in cast.asked["review"][1]
