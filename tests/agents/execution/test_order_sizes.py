"""Decisions become orders: in the order of the symbols, in sizes of arithmetic by hand."""

from decimal import Decimal

import pytest

from quantgraph.agents.execution._decider import orders_of
from quantgraph.agents.execution._steps import ExecutionOptions
from quantgraph.broker import Account, DecisionContext
from quantgraph.broker.accounts import Position
from quantgraph.errors import BadOption

CLOSES = {"600000.SH": [10.0] * 3, "600001.SH": [20.0] * 3, "600002.SH": [50.0] * 3}


@pytest.fixture
def morning(small_market):
    """A context at the last open, with cash and shares."""
    market = small_market(CLOSES)

    def make(cash=100_000, **shares):
        held = {
            f"{name[1:]}.SH": Position(
                quantity=count, sellable=count, cost=Decimal(count), entered=market.days[0]
            )
            for name, count in shares.items()
        }
        account = Account(cash=Account.opening(cash).cash, positions=held)
        return DecisionContext(market.view(), account)

    return make


def decided(**actions):
    """Decisions of the symbols by their last figure, ``s0=("buy", 0.5)``."""
    return {
        f"60000{name[1:]}.SH": {"action": action, "confidence": confidence, "reason": "why"}
        for name, (action, confidence) in actions.items()
    }


def told(orders):
    return [(order.symbol, order.target_value, order.sequence) for order in orders]


def test_a_buy_aims_at_its_share_of_the_account_times_its_confidence(morning):
    # 90,000 + 1,000 shares at 10 = 100,000; a third of it, times the confidence, rounded down to the cent.
    context = morning(90_000, s600000=1_000)
    decisions = decided(s0=("hold", 0.9), s1=("buy", 0.5), s2=("buy", 1.0))
    assert told(orders_of(decisions, context, ExecutionOptions())) == [
        ("600001.SH", Decimal("16666.66"), 1),
        ("600002.SH", Decimal("33333.33"), 2),
    ]
    (order,) = orders_of(decided(s1=("buy", 0.75)), context, ExecutionOptions(share=0.2))
    assert (order.target_value, order.reason) == (Decimal("15000.00"), "why")


def test_a_fixed_size_is_its_cash_whatever_the_confidence(morning):
    orders = orders_of(
        decided(s0=("buy", 0.1), s2=("buy", 1.0)), morning(), ExecutionOptions(size="fixed", cash=12_500.5)
    )
    assert {order.target_value for order in orders} == {Decimal("12500.50")}


def test_a_sell_sells_all_and_what_is_not_held_is_not_sold(morning):
    decisions = decided(s0=("sell", 0.2), s1=("sell", 0.9))
    assert told(orders_of(decisions, morning(s600000=300), ExecutionOptions())) == [
        ("600000.SH", Decimal(0), 1)
    ]


def test_a_position_of_the_size_is_left_alone_and_a_smaller_one_is_raised(morning):
    size = ExecutionOptions(size="fixed", cash=10_000)
    assert not orders_of(decided(s0=("buy", 1.0)), morning(s600000=1_000), size)
    assert not orders_of(decided(s0=("buy", 1.0)), morning(s600000=2_000), size)  # nothing is sold by a buy
    # One lot of 100 shares at 10 needs 1,000 and charges: 1,050 are enough, 1,000 are not.
    assert not orders_of(decided(s0=("buy", 1.0)), morning(s600000=900), size)
    raised = orders_of(
        decided(s0=("buy", 1.0)), morning(s600000=900), ExecutionOptions(size="fixed", cash=10_050)
    )
    assert told(raised) == [("600000.SH", Decimal("10050.00"), 1)]


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
