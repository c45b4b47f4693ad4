"""Laws that hold for whatever was earned."""

import math
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quantgraph.report._round_trips import Entitlement, Trade, round_trips
from quantgraph.report.metrics._metrics import (
    alpha,
    beta,
    calmar_ratio,
    correlation,
    downside_deviation,
    information_ratio,
    max_drawdown,
    session_returns,
    sharpe_ratio,
    sortino_ratio,
    total_return,
    volatility,
)

START = pd.Timestamp("2024-01-01")
numbers = st.floats(0.01, 1e6)
returned = st.floats(-0.2, 0.2).map(lambda value: round(value, 6))


def series(items):
    return pd.Series(items, index=pd.date_range(START, periods=len(items)), dtype="float64")


values_of_a_run = st.lists(numbers, min_size=1, max_size=40).map(series)
returns_of_a_run = st.lists(returned, min_size=1, max_size=40).map(series)


@st.composite
def two_runs(draw):
    length = draw(st.integers(2, 30))
    one = st.lists(returned, min_size=length, max_size=length).map(series)
    return draw(one), draw(one)


@given(values_of_a_run, st.integers(-20, 20))
def test_the_unit_of_money_changes_nothing(values, power):
    scaled = values * 2.0**power  # a power of two is exact
    assert total_return(scaled) == total_return(values)
    assert max_drawdown(scaled) == max_drawdown(values)
    for ratio in (sharpe_ratio, sortino_ratio, volatility):
        assert ratio(session_returns(scaled)) == pytest.approx(
            ratio(session_returns(values)), rel=0, abs=0, nan_ok=True
        )
    assert calmar_ratio(scaled, periods_per_year=2) == pytest.approx(
        calmar_ratio(values, periods_per_year=2), rel=0, abs=0, nan_ok=True
    )


@given(values_of_a_run)
def test_a_drawdown_lies_between_the_total_loss_and_nothing(values):
    fall = max_drawdown(values)
    assert -1 < fall.depth <= min(0.0, total_return(values))
    assert (fall.depth == 0) == values.is_monotonic_increasing
    if fall.peak is None:
        return
    assert values[fall.trough] / values[fall.peak] - 1 == fall.depth
    assert (fall.trough - fall.peak).days == fall.falling > 0
    after = values[fall.trough :]
    assert (fall.recovery is None) == (after.max() < values[fall.peak])
    if fall.recovery is not None:
        assert (fall.recovery - fall.trough).days == fall.recovering > 0
        assert values[fall.recovery] >= values[fall.peak]


@given(values_of_a_run)
def test_the_depth_is_the_worst_purchase_and_sale(values):
    array = values.to_numpy()
    worst = min(array[late] / array[early] - 1 for late in range(len(array)) for early in range(late + 1))
    assert max_drawdown(values).depth == pytest.approx(worst, abs=1e-15)


@given(returns_of_a_run)
def test_sharpe_and_sortino_have_the_sign_of_the_mean(returns):
    mean = math.fsum(returns) / len(returns)
    for ratio in (sharpe_ratio(returns), sortino_ratio(returns)):
        if not math.isnan(ratio) and abs(mean) > 1e-12:
            assert math.copysign(1, ratio) == math.copysign(1, mean)


@given(returns_of_a_run)
def test_the_deviations_keep_their_order(returns):
    # over fewer sessions the same squares weigh more; a spread around the mean is below the root mean square
    whole = downside_deviation(returns, downside="rms_all")
    if (returns < 0).any():
        assert whole <= downside_deviation(returns, downside="rms_losses") * (1 + 1e-12)
    assert downside_deviation(returns, downside="std_zeroed", ddof=0) <= whole * (1 + 1e-12)
    assert whole**2 <= ((returns**2).mean() * 252) * (1 + 1e-12)


@given(two_runs())
def test_a_run_beside_itself_and_the_bounds_of_correlation(runs):
    ours, theirs = runs
    if ours.std() > 1e-9:
        assert beta(ours, ours) == pytest.approx(1.0, abs=1e-12)
        assert alpha(ours, ours, risk_free=0.03) == pytest.approx(0.0, abs=1e-12)
        assert correlation(ours, ours) == pytest.approx(1.0, abs=1e-9)
        assert math.isnan(information_ratio(ours, ours))
    if ours.std() > 1e-9 and theirs.std() > 1e-9:
        between = correlation(ours, theirs)
        assert abs(between) <= 1 + 1e-9
        assert beta(ours, theirs) * beta(theirs, ours) == pytest.approx(between**2, abs=1e-9)


cents = st.integers(0, 10**6).map(lambda number: Decimal(number) / 100)


@st.composite
def closed_positions(draw):
    """Purchases, sales and entitlements of one symbol, in days, with nothing held at the end."""
    trades, entitlements, held = [], [], 0
    for day in range(draw(st.integers(1, 12))):
        session = START + pd.Timedelta(days=day)
        if held and draw(st.booleans()):
            shares = draw(st.integers(1 - held, held))
            entitlements.append(Entitlement(session=session, symbol="X", shares=shares, cash=draw(cents)))
            held += shares
        side = draw(st.sampled_from(["buy", "sell"] if held else ["buy"]))
        quantity = draw(st.integers(1, 1000 if side == "buy" else held))
        held += quantity if side == "buy" else -quantity
        trades.append(
            Trade(
                session=session, symbol="X", side=side, quantity=quantity, price=draw(cents), cost=draw(cents)
            )
        )
    if held:
        last = START + pd.Timedelta(days=99)
        trades.append(
            Trade(session=last, symbol="X", side="sell", quantity=held, price=draw(cents), cost=draw(cents))
        )
    return trades, entitlements


@given(closed_positions(), st.sampled_from(["fifo", "average"]))
@settings(max_examples=200)
def test_the_profits_add_up_to_the_cash_that_came_in(position, basis):
    trades, entitlements = position
    cash = sum((entitlement.cash for entitlement in entitlements), Decimal(0))
    for trade in trades:
        cash += (trade.notional if trade.side == "sell" else -trade.notional) - trade.cost
    trips = round_trips(trades, entitlements, basis=basis)
    assert len(trips) == sum(trade.side == "sell" for trade in trades)
    assert math.fsum(trip.profit for trip in trips) == pytest.approx(float(cash), rel=1e-12, abs=1e-6)
    assert all(trip.opened <= trip.closed for trip in trips)


def test_profits_are_labelled_in_numbers_not_objects():
    trip = round_trips(
        [
            Trade(
                session=START,
                symbol="X",
                side="buy",
                quantity=np.int64(3),
                price=np.float64(0.1),
                cost=Decimal("0.01"),
            ),
            Trade(session=START, symbol="X", side="sell", quantity=3, price=0.2, cost=0.0),
        ]
    )[0]
    assert {type(number) for number in (trip.quantity, trip.cost, trip.proceeds, trip.profit)} == {float}
    assert (trip.cost, trip.proceeds) == (0.31, 0.6)
