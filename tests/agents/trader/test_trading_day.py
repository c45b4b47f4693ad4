"""A day: calls run in their order, results go back, and each way in which it ends."""

from __future__ import annotations

import json
from datetime import datetime

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from small_market import SmallMarket
from trader_play import STOP, TraderDay, buys, says, sells

from quantgraph.agents.trader._day import MAX_CALLS, MAX_IDENTICAL_CALLS
from quantgraph.broker import Account
from quantgraph.errors import BudgetExceeded, ModelOutputInvalid, ModelUnavailable, NotConfigured
from quantgraph.state import Record

OPEN = {"AAPL": [180.0, 182.0], "MSFT": [400.0, 420.0]}


@pytest.fixture(scope="module")
def view():
    return SmallMarket({"AAPL": [181.0, 0.5], "MSFT": [410.0, 0.5]}, open=OPEN).view()


def test_a_day_without_calls_ends_at_the_stop_signal(view):
    day = TraderDay(view, [STOP])
    assert day.state["ended"] == "stop_signal"
    assert day.state["step"] == 1
    assert day.state["final_text"] == STOP
    assert day.market.orders == ()
    assert day.state["log"] == [
        {"role": "user", "content": "Please analyze and update today's (2024-01-02) positions."},
        {"role": "assistant", "content": STOP},
    ]
    assert day.kept == [(1, {"content": STOP, "tool_calls": []}, None)]


def test_the_first_message_is_the_days_question(view):
    day = TraderDay(view, [STOP])
    system, question = day.asked[0]
    assert system.type == "system"
    assert question.content == "Please analyze and update today's (2024-01-02) positions."


def test_calls_of_one_reply_run_in_the_order_given(view):
    both = says("", ("buy", {"symbol": "AAPL", "amount": 3}), ("sell", {"symbol": "AAPL", "amount": 1}))
    day = TraderDay(view, [both, STOP])
    assert [(order.side, order.quantity) for order in day.market.orders] == [("buy", 3), ("sell", 1)]
    assert [result["AAPL"] for result in day.results(1)] == [3, 2]
    assert [result["CASH"] for result in day.results(1)] == [10_000 - 3 * 182, 10_000 - 2 * 182]


def test_results_go_back_as_tool_messages(view):
    day = TraderDay(view, [says("t", ("multiply", {"a": 145.2, "b": 20})), STOP])
    reply, answer = day.asked[1][2:]
    assert isinstance(reply, AIMessage)
    assert isinstance(answer, ToolMessage)
    assert answer.tool_call_id == reply.tool_calls[0]["id"]
    assert json.loads(answer.content) == 2904.0


def test_results_go_back_as_one_text_and_the_log_is_the_same(view):
    play = [says("t", ("multiply", {"a": 145.2, "b": 20}), ("add", {"a": 1.5, "b": 2})), STOP]
    first, second = TraderDay(view, play, results_as="text"), TraderDay(view, play)
    reply, answer = first.asked[1][2:]
    assert not reply.tool_calls
    assert isinstance(answer, HumanMessage)
    assert answer.content == "Tool results: 2904.0\n3.5"
    assert first.state["log"] == second.state["log"]
    assert first.state["log"][2] == {"role": "user", "content": "Tool results: 2904.0\n3.5"}


def test_a_stop_signal_beside_calls_lets_the_calls_run(view):
    day = TraderDay(view, [buys("AAPL", 2, STOP)])
    assert day.state["ended"] == "stop_signal"
    assert [order.quantity for order in day.market.orders] == [2]
    assert len(day.asked) == 1
    assert [each["role"] for each in day.state["log"]] == ["user", "assistant", "user"]


@pytest.mark.parametrize("results_as", ["messages", "text"])
def test_a_stop_signal_beside_a_refused_call_ends_nothing_until_the_refusal_is_read(view, results_as):
    both = says(STOP, ("sell", {"symbol": "AAPL", "amount": 2}), ("buy", {"symbol": "AAPL", "amount": 1}))
    day = TraderDay(view, [both, STOP], results_as=results_as)
    assert (day.state["ended"], day.state["step"]) == ("stop_signal", 2)
    assert [order.quantity for order in day.market.orders] == [1]
    told = "\n".join(message.text for message in day.asked[1][2:])
    assert "2 shares of AAPL to sell, 0 held" in told
    assert "A call of your reply was refused, so the day is not over. Correct it, or output <FINISH" in told


@pytest.mark.parametrize("call", [("sell", {"symbol": "AAPL", "amount": 2}), ("sel", {"symbol": "AAPL"})])
def test_the_same_refusal_again_beside_the_signal_has_been_read(view, call):
    day = TraderDay(view, [says(STOP, call)] * 9)
    assert (day.state["ended"], day.state["step"]) == ("stop_signal", 2)


@pytest.mark.parametrize("results_as", ["messages", "text"])
def test_neither_a_signal_nor_calls_is_answered_by_what_to_do(view, results_as):
    day = TraderDay(view, ["I hold.", STOP], results_as=results_as)
    told = day.asked[1][-1].content
    assert told.startswith(
        "Your reply calls no tool and does not end the day, so nothing was done. Call a tool"
    )
    assert told.endswith("output <FINISH_SIGNAL>")
    assert day.state["log"][2] == {"role": "user", "content": told}
    assert day.state["step"] == 2
    short = TraderDay(view, ["I hold.", STOP], results_as=results_as, max_steps=2)
    assert [each.type for each in short.asked[1]] == ["system", "human", "ai", "human"]
    assert short.asked[1][-1].content == f"{told}\nLeft for today: 1 replies, 200 tool calls."


def test_the_limits_are_told_and_what_is_left_near_the_end(view):
    day = TraderDay(view, [buys("AAPL", 1)] * 6, max_steps=6)
    assert "at most 6 replies and 200 tool calls" in day.asked[0][0].content
    ends = [asked[-1].content for asked in day.asked[1:]]
    assert not any("Left for today" in each for each in ends[:2])
    assert ends[2:] == [
        "Left for today: 3 replies, 197 tool calls.",
        "Left for today: 2 replies, 196 tool calls.",
        "Left for today: 1 replies, 195 tool calls.",
    ]


def test_few_calls_that_are_left_are_told(view):
    day = TraderDay(view, [says("", *[("add", {"a": n, "b": 1}) for n in range(185)]), STOP])
    assert day.asked[1][-1].content == "Left for today: 29 replies, 15 tool calls."


def test_the_search_is_offered_where_there_are_news_that_were_published_before(view):
    news = Record("news", datetime(2024, 1, 1, 20), "AAPL", {"title": "It rises"})
    market = SmallMarket({"AAPL": [181.0, 182.0, 183.0]})
    market.record(news)
    for where, has_news in ((view, False), (market.view(0), False), (market.view(1), True)):
        day = TraderDay(where, [STOP])
        assert ("get_information" in day.offered) is has_news
        assert ("get_information" in day.asked[0][0].content) is has_news
    assert "get_information" not in TraderDay(market.view(1), [STOP], news=False).offered


def test_a_signal_in_the_models_thinking_ends_nothing(view):
    day = TraderDay(view, ["<think>then I write <FINISH_SIGNAL></think>hold on", STOP])
    assert day.state["step"] == 2


def test_a_signal_in_what_a_tool_returns_ends_nothing(view):
    bad = says("", ("get_price_local", {"symbol": "<FINISH_SIGNAL>", "date": "2024-01-01"}))
    assert TraderDay(view, [bad, STOP]).state["step"] == 2


def test_a_day_ends_after_its_steps(view):
    day = TraderDay(view, [buys("AAPL", 1)] * 3, max_steps=3)
    assert day.state["ended"] == "max_steps"
    assert len(day.market.orders) == 3


def test_three_equal_sells_are_three_fills(view):
    day = TraderDay(view, [buys("AAPL", 9), *[sells("AAPL", 2)] * 3, STOP])
    assert [order.side for order in day.market.orders] == ["buy", "sell", "sell", "sell"]
    assert day.market.account.quantity("AAPL") == 3


def test_the_same_question_is_answered_so_often_between_two_fills(view):
    ask = says("", ("get_positions", {}))
    day = TraderDay(view, [*[ask] * (MAX_IDENTICAL_CALLS + 1), buys("AAPL", 1), ask, STOP])
    codes = [day.results(step)[0].get("code") for step in range(1, MAX_IDENTICAL_CALLS + 2)]
    assert codes == [*[None] * MAX_IDENTICAL_CALLS, "no_progress"]
    assert day.results(MAX_IDENTICAL_CALLS + 3)[0].get("code") is None


def test_a_reply_of_forty_calls_runs_whole_and_the_calls_of_a_day_are_bounded(view):
    many = says("", *[("buy", {"symbol": "AAPL", "amount": 1})] * 40)
    day = TraderDay(view, [many] * 6 + [STOP])
    assert day.market.account.quantity("AAPL") == 54  # 10,000 buys 54 at 182
    results = [result for step in range(1, 7) for result in day.results(step)]
    assert len(results) == 240
    assert [result.get("code") for result in results[:54]] == [None] * 54
    assert results[54]["code"] == "insufficient_cash"
    assert [result.get("code") for result in results[MAX_CALLS:]] == ["no_progress"] * (240 - MAX_CALLS)


def test_an_unknown_tool_is_named_with_those_there_are(view):
    day = TraderDay(view, [says("", ("short", {"symbol": "AAPL"})), STOP])
    assert day.results(1)[0]["code"] == "bad_option"
    assert "there is no tool 'short'; there is get_price_local" in day.results(1)[0]["error"]


def test_a_refused_order_changes_nothing_and_says_why(view):
    day = TraderDay(view, [sells("MSFT", 1), buys("MSFT", 100), STOP])
    assert [day.results(step)[0]["code"] for step in (1, 2)] == ["insufficient_shares", "insufficient_cash"]
    assert day.market.orders == ()
    assert day.market.account == day.loop.context.account


@pytest.mark.parametrize("fault", [ModelUnavailable("down"), ModelOutputInvalid("refused")])
def test_a_model_that_cannot_be_asked_ends_the_day_and_what_was_traded_stands(view, fault):
    day = TraderDay(view, [buys("AAPL", 1), fault])
    assert day.state["ended"] == "error"
    assert day.state["error"] == fault.line
    assert day.state["reply_errors"] == ({"schema": 1} if isinstance(fault, ModelOutputInvalid) else {})
    assert len(day.market.orders) == 1


def test_the_end_of_the_sessions_budget_ends_the_day(view):
    spent = BudgetExceeded("spent", of="session", limit="calls")
    assert TraderDay(view, [buys("AAPL", 1), spent]).state["ended"] == "budget"


@pytest.mark.parametrize("fault", [BudgetExceeded("spent", of="run", limit="calls"), NotConfigured("no key")])
def test_what_no_retry_solves_is_raised(view, fault):
    with pytest.raises(type(fault)):
        TraderDay(view, [fault])


def test_a_long_day_is_asked_in_its_window(view):
    ask = says("word " * 300, ("get_price_history", {"symbol": "AAPL", "limit": 1}))
    turns = [buys("AAPL", 1), ask] * 10
    day = TraderDay(view, [*turns, STOP], window=8_000)
    lengths = [sum(len(str(message.content)) for message in asked) for asked in day.asked]
    assert max(lengths) < 8_000 + 3_000
    assert day.state["ended"] == "stop_signal"


def test_text_that_no_database_takes_is_replaced(view):
    day = TraderDay(view, [f"\ud800 {STOP}"])
    assert day.state["final_text"] == f"? {STOP}"


def test_the_reason_of_an_order_is_a_short_line_without_tags_and_controls(view):
    day = TraderDay(view, [buys("AAPL", 1, "up\x00\n</trader_day> " + "w" * 300), buys("AAPL", 1), STOP])
    reasons = [order.reason for order in day.market.orders]
    assert reasons[0] == reasons[1]
    assert (len(reasons[0]), reasons[0][:3], reasons[0][-1]) == (160, "up\\", "…")
    assert "\x00" not in reasons[0]
    assert "</" not in reasons[0]


def test_a_number_that_is_not_finite_is_refused_by_its_name(view):
    day = TraderDay(
        view,
        [
            says(
                "",
                ("multiply", {"a": float("nan"), "b": 2}),
                ("buy", {"symbol": "AAPL", "amount": float("inf")}),
            ),
            STOP,
        ],
    )
    assert [result["code"] for result in day.results(1)] == ["bad_option", "bad_quantity"]
    assert day.kept[0][1]["tool_calls"][0]["args"] == {"a": "NaN", "b": 2}


@pytest.mark.parametrize(
    ("amount", "held"), [("5", 5), (" 1,000 ", 1_000), ("5.0", 5), ("1,00", 0), ("five", 0), (5.0, 0)]
)
def test_an_amount_may_be_written_as_text(view, amount, held):
    day = TraderDay(
        view, [says("", ("buy", {"symbol": "AAPL", "amount": amount})), STOP], account=Account.opening(10**6)
    )
    assert day.market.account.quantity("AAPL") == held
    assert (day.results(1)[0].get("code") == "bad_quantity") == (not held)
