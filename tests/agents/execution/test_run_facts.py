"""What an execution is told of its run: sizes, the plan, earlier decisions with prices by hand; errors of replies."""

import json

import pytest
from execution_play import call, decide

from quantgraph.agents.execution import ExecutionAgent
from quantgraph.broker import Account, Market, RunContext, TradePlan
from quantgraph.broker.session import advance
from quantgraph.llm.messages import read
from quantgraph.market import Rulebook
from quantgraph.testing import ScriptedChatModel

SYMBOL, OTHER = "AAPL", "JPM"
FIRST = 30
OPENS = [100.0] * (FIRST + 1) + [110.0, 99.0, 55.0, 66.0]  # two for one before the 55


@pytest.fixture
def market(small_market):
    market = small_market({SYMBOL: OPENS})
    market.act("split", SYMBOL, FIRST + 3, 2.0, declared=FIRST)
    return market


def play(market, replies, *, cash=1_000_000, plan=None, language="en", **options):
    """Trade the last sessions; ``replies`` has those of each session. Return the results and all facts by session."""
    told, left = {}, [list(each) for each in replies]
    sessions = list(market.days[-len(replies) :])

    def answer(messages):
        facts = json.loads(read("execution_facts", messages[0].text))
        told[facts["session"], facts["symbol"]] = facts
        session = left[[f"{each:%Y-%m-%d}" for each in sessions].index(facts["session"])]
        return session.pop(0) if isinstance(session[0], str) else session[0][facts["symbol"]].pop(0)

    model, done = ScriptedChatModel(answer), []
    run = RunContext(
        model=lambda _role: model, history=lambda: done, plan=plan or TradePlan(), language=language
    )
    where = Market(store=market.store, data_ref=market.ref, rules=Rulebook.zero_cost("us"))
    agent = ExecutionAgent(parallel=1, **options)
    for result in advance(where, sessions, agent, account=Account.opening(cash), run=run):
        done.append(result)
    return done, list(told.values())


def test_earlier_decisions_have_their_orders_and_the_adjusted_change_since(market):
    sell = decide("sell", 0.9, "below its average")
    replies = [[decide("buy", 0.5, "up")], [decide("hold", 0.3)], [sell], [sell, sell], [decide()]]
    _, told = play(market, replies)
    assert "earlier_decisions" not in told[0]
    # 66 is 132 before the split. Half of 1,000,000 at 100 is 5,000 shares.
    assert told[-1]["earlier_decisions"] == [
        "02-12 buy 0.5; bought 5000 at 100; since +32.0%: up",
        "02-13 hold 0.3; since +20.0%: as told",
        "02-14 sell 0.9; sold 5000 at 99; since +33.3%: below its average",
        "02-15 sell 0.9; no order: nothing held; since +20.0%: below its average",
    ]
    assert told[1]["earlier_decisions"] == ["02-12 buy 0.5; bought 5000 at 100; since +10.0%: up"]


def test_a_buy_that_adds_less_than_the_least_is_told_as_no_order(small_market):
    _, told = play(
        small_market({SYMBOL: [100.0] * 40}), [[decide("buy", 0.5)], [decide("buy", 0.50005)], [decide()]]
    )
    # 500,000 are held; 0.50005 of 1,000,000 is 50 more, less than the 100 of a share.
    assert [len(each.get("earlier_decisions", [])) for each in told] == [0, 1, 2]
    assert told[2]["earlier_decisions"][1].endswith(
        " buy 0.50005; no order: below the least buy; since +0.0%: as told"
    )


def test_the_last_five_decisions_are_told_in_the_users_language(small_market):
    market = small_market({SYMBOL: [100.0] * 40})
    _, told = play(market, [[decide("buy", 0.0000001, "x" * 200)] * 2, *[[decide()]] * 6], language="zh")
    assert [len(each.get("earlier_decisions", [])) for each in told] == [0, 1, 2, 3, 4, 5, 5]
    (line,) = told[1]["earlier_decisions"]
    assert "；" not in line
    assert line.startswith("02-15 buy 1e-07; 被拒绝：")
    assert line.endswith("x…")
    assert len(line) < 250


def test_an_order_of_the_plan_is_told_with_its_reason_and_exits_in_words(small_market):
    market = small_market({SYMBOL: [100.0] * 32 + [85.0, 85.0]})
    plan = TradePlan(stop_loss=0.1, max_holding=20)
    _, told = play(market, [[decide("buy", 0.5)], [decide()], [decide()]], plan=plan)
    assert told[0]["plan"] == "carried out by code: stop loss 10%, held at most 20 sessions"
    assert f"sold by code at this open, do not sell again: {SYMBOL}" in told[1]["plan"]
    assert "sold 5000 at 85 (stop_loss 20240213)" in told[2]["earlier_decisions"][1]


def test_without_exits_there_is_no_plan(market):
    _, told = play(market, [[decide()]], language="zh")
    assert "plan" not in told[0]


def test_the_size_is_told_with_the_least_buy(market):
    _, told = play(market, [[decide()]], share=0.25)
    assert told[0]["order_size"] == (
        "a buy raises the position to 250000.00 x confidence; least buy: 1 shares, 66.00 with fees, "
        "from confidence 0.01"
    )
    # The last close of 55 is of the session of the split; before it 99, 49.5 of today.
    status = {"last_close": 55, "open": 66, "shares": 0, "cash": 1_000_000, "total_assets": 1_000_000}
    status["past_returns"] = {"1": 11.1, "5": 10, "20": 10, "60": None}
    assert {name: told[0]["runtime_status"].get(name) for name in status} == status
    assert told[0]["session"] == "2024-02-16"


WRONG_MEAN = json.dumps(
    {
        "type": "calculation",
        "action": {"calculation_type": "MA", "formula": "MA20 = sum(close[-20:]) / 20"},
        "intermediate_result": {"ma20": 1},
    }
)


@pytest.mark.parametrize(
    ("replies", "errors"),
    [
        ([decide()], {}),
        (["what?", decide("buy", 7), decide()], {"replies": 3, "schema": 2}),
        ([decide("buy", 0), decide()], {"replies": 2, "logic": 1}),
        ([WRONG_MEAN, decide()], {"replies": 2}),
        ([call("get_moon"), call("get_rules", code="A"), decide()], {"replies": 3, "schema": 2}),
        ([call("get_rules", symbol="TSLA"), decide()], {"replies": 2, "logic": 1}),
        ([*[call("get_rules", symbol=SYMBOL)] * 3, decide()], {"replies": 4, "logic": 1}),
        ([decide("sell"), decide()], {"replies": 2, "logic": 1}),
        ([decide("buy", 0.00001), decide("buy", 0.5)], {"replies": 2, "logic": 1}),
        ([decide("sell")] * 2, {"replies": 2, "logic": 2}),  # it has read that, and stands
        (["?"] * 3, {"replies": 3, "schema": 3}),
    ],
)
def test_errors_of_replies_are_counted_by_kind(market, replies, errors):
    (result,), _ = play(market, [replies])
    expected = {"replies": 1, "schema": 0, "logic": 0, "cash": 0} | errors
    assert result.notes["reply_errors"] == expected


def test_a_buy_that_the_cash_does_not_reach_is_told_and_decided_once_more(small_market):
    market = small_market({SYMBOL: [100.0] * 40, OTHER: [100.0] * 40})
    first = {SYMBOL: [decide("buy", 1)], OTHER: [decide()]}
    second = {SYMBOL: [decide()], OTHER: [decide("buy", 1), decide("hold", 0.2, "no cash")]}
    third = {SYMBOL: [decide("sell", 1)], OTHER: [decide("buy", 1)]}
    done, _ = play(market, [[first], [second], [third]], share=1.0, cash=10_050)
    assert [each.notes["reply_errors"]["cash"] for each in done] == [0, 1, 0]
    assert [each.notes["reply_errors"]["replies"] for each in done] == [2, 3, 2]
    assert done[1].notes["executions"][OTHER]["reason"] == "no cash"
    assert done[1].outcomes == ()
    assert [fill.side for fill in done[2].fills] == ["sell", "buy"]


def test_buys_of_equal_confidence_that_do_not_fit_together_share_the_cash(small_market):
    market = small_market({SYMBOL: [100.0] * 40, OTHER: [100.0] * 40})
    first = {SYMBOL: [decide()], OTHER: [decide("buy", 1)]}
    swap = {SYMBOL: [decide("buy", 1)], OTHER: [decide("sell", 1)]}
    done, _ = play(market, [[first], [swap]], share=1.0, cash=10_050)
    assert [each.notes["reply_errors"]["cash"] for each in done] == [0, 0]
    both = {SYMBOL: [decide("buy", 0.8)], OTHER: [decide("buy", 0.8)]}
    (result,), _ = play(market, [[both]], share=1.0, cash=10_050)
    assert [(each.order.symbol, each.quantity) for each in result.fills] == [(SYMBOL, 50), (OTHER, 50)]


def test_a_trade_of_what_has_no_open_is_told(small_market):
    market = small_market({SYMBOL: [100.0] * 39 + [None], OTHER: [100.0] * 40})
    (result,), told = play(market, [[{SYMBOL: [decide("buy"), decide()], OTHER: [decide()]}]])
    assert told[0]["runtime_status"]["open"] is None
    assert "least buy" not in told[0]["order_size"]
    assert result.notes["reply_errors"]["logic"] == 1
