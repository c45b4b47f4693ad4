"""The planner as a trader: five symbols, sales before purchases, and an end, whatever the tools answer."""

from __future__ import annotations

import pytest
from small_market import SmallMarket
from trader_play import TraderDay

from quantgraph.agents.trader._keyless import next_move
from quantgraph.broker import Account
from quantgraph.llm import KeylessPlanner
from quantgraph.market import Rulebook

STOP = "<FINISH_SIGNAL>"


def day(positions, opens, *, rule=""):
    rows = [f"{name},{held},,null,{opens[name]}" for name, held in positions.items() if name != "CASH"]
    table = ["symbol,held,cost,last_close,open", f"CASH,{positions['CASH']}", *rows]
    return "\n\n".join(["Positions:", "\n".join(table), *([f"Rule: {rule}"] if rule else [])])


def bars(*closes):
    return {"bars": [{"close": close} for close in closes]}


RISING, FALLING = bars(*range(1, 21)), bars(*range(20, 0, -1))


def played(text, results):
    """The moves of a day whose tools answer ``results``."""
    moves, answers = [], []
    while True:
        move = next_move(text, STOP, answers)
        moves.append(move)
        if not move.tool:
            return moves
        answers.append(results[len(answers)] if len(answers) < len(results) else {"error": "no"})


def calls(moves):
    return [(move.tool, *move.args.values()) for move in moves if move.tool]


def test_what_falls_is_sold_and_what_rises_is_bought_for_a_fifth_less_one_percent():
    text = day({"AAPL": 10, "MSFT": 0, "CASH": 9_000.0}, {"AAPL": 100.0, "MSFT": 50.0})
    moves = played(text, [FALLING, RISING])
    # worth 10,000: a fifth is 2,000, of which 99 % buys 39 at 50
    assert calls(moves)[2:] == [("sell", "AAPL", 10), ("buy", "MSFT", 39)]
    assert moves[-1].text.endswith(STOP)


def test_mainland_shares_are_bought_in_lots_of_a_hundred_and_at_least_two_hundred_of_688():
    text = day({"600000.SH": 0, "688981.SH": 0, "CASH": 10_000.0}, {"600000.SH": 10.0, "688981.SH": 15.0})
    assert calls(played(text, [RISING, RISING]))[2:] == [("buy", "600000.SH", 100)]


def test_what_is_held_is_looked_at_first_and_five_at_most():
    names = [f"S{place}" for place in range(8)]
    positions = dict.fromkeys(names, 0) | {"S6": 5, "CASH": 1.0}
    moves = played(day(positions, dict.fromkeys(names, 10.0)), [bars()] * 5)
    assert [call[1] for call in calls(moves)] == ["S6", "S0", "S1", "S2", "S3"]


@pytest.mark.parametrize("answer", [{"error": "x"}, {}, [], None, "cut…", bars(1, 2), bars(*[5] * 20)])
def test_a_symbol_that_tells_nothing_is_left_alone(answer):
    moves = played(day({"AAPL": 3, "CASH": 100.0}, {"AAPL": 10.0}), [answer])
    assert len(calls(moves)) == 1


def test_a_refused_order_is_not_sent_again():
    moves = played(day({"AAPL": 0, "CASH": 100.0}, {"AAPL": 1.0}), [RISING, {"error": "cash"}])
    assert [call[0] for call in calls(moves)] == ["get_price_history", "buy"]
    assert "1 refused" in moves[-1].text


def test_each_text_says_that_it_is_a_rule_and_that_a_rule_in_words_is_not_executed():
    moves = played(day({"AAPL": 0, "CASH": 100.0}, {"AAPL": 1.0}, rule="buy low"), [RISING])
    assert all(move.text.startswith("keyless rule: ") for move in moves)
    assert "the rule in words is not executed" in moves[-1].text


@pytest.mark.parametrize("text", ["", "symbol,held", "symbol,held,open\nCASH,1\nAAPL,0,null"])
def test_a_day_that_tells_nothing_ends_at_once(text):
    assert calls(played(text, [])) == []


@pytest.mark.parametrize("results_as", ["messages", "text"])
def test_it_trades_a_day_through_the_tools(results_as):
    market = SmallMarket({"AAPL": range(100, 125), "MSFT": range(125, 100, -1)})
    played = TraderDay(market.view(), [], results_as=results_as, model=KeylessPlanner())
    assert [(order.side, order.symbol) for order in played.market.orders] == [("buy", "AAPL")]
    assert played.state["ended"] == "stop_signal"


def test_its_orders_are_of_a_size_that_the_mainland_takes():
    market = SmallMarket({"600000.SH": range(10, 35)})
    played = TraderDay(
        market.view(), [], rules=Rulebook.mainland(), account=Account.opening(100_000), model=KeylessPlanner()
    )
    assert [order.quantity for order in played.market.orders] == [500]  # 19,800 at 34, in lots
