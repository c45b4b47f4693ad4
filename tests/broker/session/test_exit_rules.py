"""Exit rules that a decider gives for a position, in place of the plan's: sessions worked by hand."""

from __future__ import annotations

from decimal import Decimal

import pytest
from bars_market import FLAT, ONE, market_of

from quantgraph.broker import Account, Decider, Decision, ExitRule, Order, TradePlan
from quantgraph.broker.ledger import Ledger
from quantgraph.broker.session import run_sessions
from quantgraph.broker.session._simulate import simulate
from quantgraph.errors import BadOption
from quantgraph.market import Rulebook

BUY = {1: [Order(symbol=ONE, side="buy", quantity=500, sequence=1)]}


class Scripted(Decider):
    """Sends orders and gives rules by the number of the session."""

    name = "scripted"

    def __init__(self, orders, rules):
        self.orders, self.rules, self.seen = orders, rules, {}

    def decide(self, context):
        now = len(context.view["ohlcv"].frozen("open").sessions) - 1
        self.seen[now] = {symbol: held.rule.to_json() for symbol, held in context.followed.items()}
        return Decision(self.orders.get(now, []), exits=self.rules.get(now, []))


def sales(rows, rules, *, plan=None, orders=None, **options):
    market, days = market_of(rows, **options)
    decider = Scripted(orders or BUY, rules)
    results = list(simulate(market, days, decider, account=Account.opening(10_000), plan=plan))
    return [
        (days.get_loc(fill.session), fill.price, fill.order.type, fill.order.reason)
        for result in results
        for fill in result.fills
        if fill.side == "sell"
    ], decider


def rule(**words):
    return ExitRule(symbol=ONE, **words)


DIP = [FLAT, FLAT, (9.8, 9.9, 9.1, 9.5), FLAT]
STOPPED = (2, Decimal("9.20"), "stop", "stop_loss 9.20, 8% below 10")


def test_a_rule_given_with_the_purchase_stops_the_position():
    found, decider = sales(DIP, {1: [rule(stop_loss=0.08)]})
    assert found == [STOPPED]
    assert decider.seen == {0: {}, 1: {}, 2: {ONE: {"symbol": ONE, "stop_loss": "0.08"}}, 3: {}}


def test_a_rule_counts_in_the_session_in_which_it_is_given():
    assert sales(DIP, {2: [rule(stop_loss=0.08)]})[0] == [STOPPED]


def test_an_open_beyond_the_level_of_a_new_rule_sells_at_that_open():
    rows = [FLAT, FLAT, (9.0, 9.3, 8.9, 9.1), FLAT]
    ((day, price, _, reason),) = sales(rows, {2: [rule(stop_loss=0.08)]})[0]
    assert (day, price, reason) == (2, Decimal(9), "stop_loss 9.20, 8% below 10")


def test_a_rule_is_in_place_of_the_plan_and_an_empty_one_lets_the_position_be():
    plan = TradePlan(stop_loss=0.05)
    assert sales(DIP, {}, plan=plan)[0] == [(2, Decimal("9.50"), "stop", "stop_loss 9.50, 5% below 10")]
    assert sales(DIP, {1: [rule(stop_loss=0.08)]}, plan=plan)[0] == [STOPPED]
    assert sales(DIP, {1: [rule()]}, plan=plan)[0] == []


def test_a_later_position_has_the_plan_again():
    rows = [FLAT] * 3 + [(9.4, 9.4, 9.4, 9.4)]
    sell = [Order(symbol=ONE, side="sell", quantity=500, sequence=1)]
    plan = TradePlan(stop_loss=0.05)
    found, decider = sales(
        [*rows, *rows],
        {1: [rule()]},
        plan=plan,
        orders={**BUY, 4: sell, 5: [Order(symbol=ONE, side="buy", quantity=100, sequence=1)]},
    )
    assert decider.seen[4] == {ONE: {"symbol": ONE}}
    assert decider.seen[6] == {ONE: {"symbol": "any", "stop_loss": "0.05"}}
    assert [(day, reason) for day, *_, reason in found] == [(4, ""), (7, "stop_loss 9.50, 5% below 10")]


def test_the_basis_of_a_rule_takes_the_place_of_the_fill():
    found = sales(DIP, {1: [rule(stop_loss=0.08, basis=Decimal("10.2"))]})[0]
    assert found == [(2, Decimal("9.38"), "stop", "stop_loss 9.38, 8% below 10.2")]


def test_holding_and_target_of_a_rule():
    rows = [FLAT, FLAT, (10.1, 10.6, 10.0, 10.2), FLAT, FLAT]
    assert sales(rows, {1: [rule(take_profit=0.05)]})[0] == [
        (2, Decimal("10.50"), "limit", "take_profit 10.50, 5% above 10")
    ]
    assert sales(rows, {1: [rule(max_holding=2)]})[0] == [(3, Decimal(10), "open", "max_holding 2")]


def test_a_rule_for_what_is_not_held_after_the_session_is_dropped():
    assert sales([FLAT, *DIP], {0: [rule(stop_loss=0.08)]}, orders={2: BUY[1]})[0] == []


def test_a_rule_that_is_changed_afterwards_is_the_one_that_was_given():
    """What a decider holds of it, and what it is shown of it, are copies."""
    given, changed = rule(stop_loss={"atr": 1, "window": 2}), []

    class Changes(Scripted):
        def decide(self, context):
            for held in context.followed.values():
                held.rule.stop_loss["atr"] = Decimal(9)
            decision = super().decide(context)
            if decision.exits:
                changed.append(decision.exits[0])
            elif changed:
                given.stop_loss["atr"] = Decimal(9)
            return decision

    rows = [
        FLAT,
        (10.0, 10.5, 9.5, 10.0),
        (10.0, 10.5, 9.5, 10.0),
        (10.0, 10.0, 9.6, 9.9),
        (9.8, 9.8, 8.9, 9.0),
    ]
    market, days = market_of(rows)
    decider = Changes({3: BUY[1]}, {3: [given]})
    results = list(simulate(market, days, decider, account=Account.opening(10_000)))
    # True ranges 1.0 and 1.0, so their average over two sessions is 1.
    assert [fill.price for fill in results[4].fills] == [Decimal(9)]
    assert [fill.order.reason for fill in results[4].fills] == ["stop_loss 9.00, 1 ATR 1 below 10"]


@pytest.mark.parametrize("given_on", [2, 3])
@pytest.mark.parametrize(
    "words", [{"stop_loss": {"atr": 1, "window": 1}}, {"trailing_stop": {"atr": 1, "window": 1}}]
)
def test_a_level_by_the_true_range_is_in_the_prices_of_the_session_of_a_split(words, given_on):
    """The range before is 1.0; two for one leaves 0.5 below an open and a basis of 5: 4.50, reached by 4.45."""
    whole = (10.0, 10.5, 9.5, 10.0)
    rows = [FLAT, whole, whole, (5.0, 5.1, 4.45, 4.9), (4.9, 4.9, 4.9, 4.9)]
    market, days = market_of(
        rows, split=[float("nan")] * 3 + [2.0, float("nan")], rules=Rulebook.zero_cost("us"), symbol="AAPL"
    )
    orders = {1: [Order(symbol="AAPL", side="buy", quantity=500, sequence=1)]}
    decider = Scripted(orders, {given_on: [ExitRule(symbol="AAPL", **words)]})
    results = list(simulate(market, days, decider, account=Account.opening(10_000)))
    assert [fill.price for fill in results[3].fills] == [Decimal("4.5")]


def test_a_rule_takes_back_no_exit_that_was_reached():
    nan = float("nan")
    rows = [FLAT, FLAT, FLAT, (nan, nan, nan, nan), (11.0, 11.0, 11.0, 11.0)]
    found = sales(rows, {3: [rule()]}, plan=TradePlan(max_holding=2))[0]
    assert found == [(4, Decimal(11), "open", "max_holding 2, tried again")]


@pytest.mark.parametrize("stop", [1, 2, 3])
def test_a_run_that_goes_on_in_another_process_has_the_same_lines(stop, tmp_path):
    rows = [FLAT, FLAT, (9.8, 9.9, 9.5, 9.6), (9.7, 9.8, 9.1, 9.3), FLAT]
    market, days = market_of(rows)

    def journal(folder, *parts):
        for upto in parts:
            with Ledger(tmp_path / f"{folder}.db") as ledger:
                decider = Scripted(BUY, {2: [rule(stop_loss=0.08)]})
                run_sessions(market, days[:upto], decider, cash=10_000, ledger=ledger, run_id="r")
        with Ledger(tmp_path / f"{folder}.db") as ledger:
            ledger.check("r")
            return list(ledger.journal("r"))

    whole = journal("whole", 5)
    assert journal("parts", stop, 5) == whole
    assert [line["body"] for line in whole if line["kind"] == "exits"] == [
        [{"symbol": ONE, "stop_loss": "0.08"}]
    ]
    assert [
        (line["body"]["price"], line["body"]["trigger"]) for line in whole if "trigger" in line["body"]
    ] == [("9.2", f"stop_loss {days[1]:%Y%m%d}")]


@pytest.mark.parametrize(
    ("make", "parameter", "said"),
    [
        (lambda: rule(stop_loss=1.5), "exits.stop_loss", "stop_loss="),
        (lambda: rule(max_holding=0), "exits.max_holding", "max_holding=0"),
        (lambda: rule(basis=Decimal(0)), "exits.basis", "basis="),
        (lambda: ExitRule(symbol=""), "exits.symbol", "symbol=''"),
        (lambda: ExitRule.of({"symbol": ONE, "stop": 1}), "a word of the plan", "stop_loss"),
        (lambda: sales(DIP, {1: [rule(), rule()]}), "exits", "one a symbol"),
        (lambda: sales(DIP, {1: ["stop"]}), "exits", "a list of ExitRule"),
        (lambda: sales(DIP, {1: rule()}), "exits", "a list of ExitRule"),
        (lambda: sales(DIP, {1: 5}), "exits", "a list of ExitRule"),
        (lambda: ExitRule(symbol="A\ud800"), "exits.symbol", "symbol="),
        (lambda: ExitRule(symbol="A\nB"), "exits.symbol", "symbol="),
        (lambda: rule(take_profit=Decimal("1e30")), "exits.take_profit", "at most 1,000,000,000"),
        (lambda: rule(stop_loss=0.1, basis=Decimal("1e30")), "exits.basis", "at most 1,000,000,000"),
        (lambda: rule(stop_loss={"atr": 1e30}), "exits.stop_loss.atr", "at most 1,000,000,000"),
    ],
)
def test_bad_rules(make, parameter, said):
    with pytest.raises(BadOption, match=said) as caught:
        make()
    assert caught.value.data["parameter"] == parameter
