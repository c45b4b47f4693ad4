"""Decisions become orders: in sizes of arithmetic by hand, tried alone, and settled by the cash of all together."""

from decimal import Decimal

import pytest

from quantgraph.agents.execution._orders import Orders
from quantgraph.agents.execution._steps import ExecutionOptions
from quantgraph.agents.loop._facts import facts_at_open
from quantgraph.broker import Account, DecisionContext
from quantgraph.broker.accounts import Position
from quantgraph.errors import BadOption
from quantgraph.market import Rulebook

CLOSES = {"600000.SH": [10.0] * 3, "600001.SH": [20.0] * 3, "600002.SH": [50.0] * 3}


@pytest.fixture
def morning(small_market):
    """The orders of the last open, with cash and shares."""

    def make(cash=100_000, closes=CLOSES, rules=None, options=None, **shares):
        market = small_market(closes)
        held = {
            f"{name[1:]}.SH": Position(
                quantity=count, sellable=count, cost=Decimal(count), entered=market.days[0]
            )
            for name, count in shares.items()
        }
        account = Account(cash=Account.opening(cash).cash, positions=held)
        context = DecisionContext(market.view(), account, rules=rules)
        options = options or ExecutionOptions()
        return Orders(context=context, facts=facts_at_open(context), options=options)

    return make


def decided(**actions):
    """Decisions of the symbols by their last figure, ``s0=("buy", 0.5)``."""
    return {
        f"60000{name[1:]}.SH": {"action": action, "confidence": confidence, "reason": "why"}
        for name, (action, confidence) in actions.items()
    }


def told(orders, **decisions):
    sent, lost = orders.settled(decided(**decisions))
    assert not lost
    return [(order.symbol, order.target_value, order.sequence) for order in sent]


def test_a_buy_aims_at_its_share_of_the_account_times_its_confidence(morning):
    # 90,000 + 1,000 shares at 10 = 100,000; a third of it, times the confidence, rounded down to the cent.
    orders = morning(90_000, s600000=1_000)
    assert told(orders, s0=("hold", 0.9), s1=("buy", 0.5), s2=("buy", 1.0)) == [
        ("600002.SH", Decimal("33333.33"), 1),
        ("600001.SH", Decimal("16666.66"), 2),
    ]
    (order,) = morning(options=ExecutionOptions(share=0.2)).settled(decided(s1=("buy", 0.75)))[0]
    assert (order.target_value, order.reason) == (Decimal("15000.00"), "why")


def test_a_fixed_size_is_its_cash_whatever_the_confidence(morning):
    orders = morning(options=ExecutionOptions(size="fixed", cash=12_500.5))
    sent, _ = orders.settled(decided(s0=("buy", 0.1), s2=("buy", 1.0)))
    assert {order.target_value for order in sent} == {Decimal("12500.50")}


def test_a_sell_sells_all_and_what_is_not_held_is_told(morning):
    orders, decisions = morning(s600000=300), decided(s0=("sell", 0.2), s1=("sell", 0.9))
    assert told(orders, s0=("sell", 0.2), s1=("sell", 0.9)) == [("600000.SH", Decimal(0), 1)]
    answers = [orders.tried(symbol, each) for symbol, each in decisions.items()]
    assert answers == [None, {"error": "no 600001.SH is held to sell"}]


def test_a_position_of_the_size_is_left_alone_and_a_smaller_one_is_raised(morning):
    size = ExecutionOptions(size="fixed", cash=10_000)
    for held in (1_000, 2_000):  # nothing is sold by a buy
        orders = morning(s600000=held, options=size)
        assert not told(orders, s0=("buy", 1.0))
        assert orders.tried("600000.SH", decided(s0=("buy", 1.0))["600000.SH"]) is None
    # One lot of 100 shares at 10 needs 1,000 and charges: 1,050 are enough, 1,000 are not.
    assert not told(morning(s600000=900, options=size), s0=("buy", 1.0))
    raised = morning(s600000=900, options=ExecutionOptions(size="fixed", cash=10_050))
    assert told(raised, s0=("buy", 1.0)) == [("600000.SH", Decimal("10050.00"), 1)]


def test_a_buy_below_a_lot_is_told_with_the_least_buy_and_the_confidence_that_reaches_it(morning):
    """A lot of 100 at 50 is 5,000 and 5.05 of charges: of a third of 30,000 that is 0.5006, and so 0.51."""
    orders = morning(30_000)
    assert orders.size_text("600002.SH") == (
        "a buy raises the position to 9999.99 x confidence; least buy: 100 shares, 5005.05 with fees, "
        "from confidence 0.51"
    )
    below, enough = decided(s2=("buy", 0.5)), decided(s2=("buy", 0.51))
    answer = orders.tried("600002.SH", below["600002.SH"])["error"]
    assert "less than a lot" in answer
    assert answer.endswith("least buy: 100 shares, 5005.05 with fees, from confidence 0.51")
    assert orders.tried("600002.SH", enough["600002.SH"]) is None
    assert morning(9_000).size_text("600002.SH").endswith("which it does not reach")


def test_what_the_open_does_not_tell_is_told_as_pending(small_market):
    market = small_market({"600000.SH": [10.0] * 3}, vol={"600000.SH": [1e6] * 3})
    rules = Rulebook.mainland(volume_share=Decimal("0.1"))
    context = DecisionContext(market.view(), Account.opening(100_000), rules=rules)
    orders = Orders(context=context, facts=facts_at_open(context), options=ExecutionOptions())
    answer = orders.tried("600000.SH", decided(s0=("buy", 1.0))["600000.SH"])
    assert set(answer) == {"pending"}


def free(morning, cash, closes, **held):
    options = ExecutionOptions(size="fixed", cash=6_000)
    return morning(cash, closes, Rulebook.zero_cost("cn"), options, **held)


def shares(orders, late=(), **decisions):
    sent, lost = orders.settled(decided(**decisions), late)
    market = orders.context.market.copy(pending=False)
    market.batch(sent)
    return {name[5]: each.quantity for name, each in market.account.positions.items()}, [
        name[5] for name in lost
    ]


def test_buys_beyond_the_cash_are_kept_by_their_confidence_and_the_last_one_has_what_is_left(morning):
    orders = free(morning, 10_000, {"600000.SH": [10.0], "600001.SH": [10.0], "600002.SH": [50.0]})
    assert shares(orders, s0=("buy", 0.2), s1=("buy", 0.9)) == ({"0": 400, "1": 600}, [])
    # 4,000 are left, and a lot of 600002 is 5,000: it has nothing, and the third has the rest.
    assert shares(orders, s0=("buy", 0.2), s1=("buy", 0.9), s2=("buy", 0.5)) == ({"0": 400, "1": 600}, ["2"])
    # One that was told comes after those that stand.
    assert shares(orders, late=["600001.SH"], s0=("buy", 0.2), s1=("buy", 0.9)) == ({"0": 600, "1": 400}, [])


def test_buys_of_equal_confidence_share_the_cash_in_proportion(morning):
    orders = free(morning, 10_000, {"600000.SH": [10.0], "600001.SH": [10.0], "600002.SH": [70.0]})
    assert shares(orders, s0=("buy", 0.5), s1=("buy", 0.5)) == ({"0": 500, "1": 500}, [])
    # 3,000 of the position are held: 3,000 and 6,000 are asked, of 6,000 there is a third and two thirds.
    held = free(morning, 6_000, {"600000.SH": [10.0], "600001.SH": [10.0]}, s600000=300)
    assert shares(held, s0=("buy", 0.5), s1=("buy", 0.5)) == ({"0": 500, "1": 400}, [])


def test_sales_pay_for_buys_and_the_order_of_the_symbols_changes_nothing(morning):
    orders = free(morning, 0, {"600000.SH": [10.0], "600001.SH": [10.0], "600002.SH": [10.0]}, s600002=900)
    decisions = {"s0": ("buy", 0.5), "s1": ("buy", 0.5), "s2": ("sell", 0.1)}
    expected = ({"0": 400, "1": 400}, [])  # 9,000 in two parts of 4,500, in lots of 1,000
    assert shares(orders, **decisions) == expected
    assert shares(orders, **dict(reversed(decisions.items()))) == expected


def test_a_part_that_buys_no_lot_is_told_with_what_is_left(morning):
    orders = free(morning, 1_500, {"600000.SH": [10.0], "600001.SH": [10.0]})
    _, lost = orders.settled(decided(s0=("buy", 0.5), s1=("buy", 0.5)))
    assert list(lost) == ["600000.SH", "600001.SH"]
    assert "a buy of 600000.SH takes 6000.00; 1500.00 is left" in lost["600000.SH"]
    assert "least buy: 100 shares, 1000.00 with fees" in lost["600000.SH"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"size": "half"}, "size='half'; must be one of confidence, fixed"),
        ({"share": 0}, "share=0; must be a number above 0, at most 1"),
        ({"share": float("nan")}, "share=nan; must be"),
        ({"cash": 5_000}, "cash= belongs to size='fixed'"),
        ({"size": "fixed"}, "size='fixed' needs cash="),
        ({"size": "fixed", "cash": -1}, "cash=-1; must be a number above 0"),
        ({"size": "fixed", "cash": 1, "share": 0.5}, "no share="),
    ],
)
def test_a_size_out_of_its_range_is_refused(given, said):
    with pytest.raises(BadOption, match=said):
        ExecutionOptions(**given)
