"""SignalRule, market and ledger agree to the cent with an independent implementation."""

import os
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quantgraph.agents._signal_rule import SignalRule
from quantgraph.broker import Market, Rejection, TradePlan
from quantgraph.broker.ledger import Ledger
from quantgraph.broker.session import run_sessions
from quantgraph.market import Rulebook
from quantgraph.state import DataState

CODES = ["000001.SZ", "300750.SZ", "301001.SZ", "600000.SH", "600036.SH", "688981.SH", "920002.BJ"]


def cents(frame):
    return [[None if np.isnan(x) else round(x * 100) for x in row] for row in frame.to_numpy()]


def run_both(  # noqa: PLR0917
    plain,
    folder,
    opens,
    closes,
    before,
    signal,
    cash_cents,
    *,
    weights=None,
    max_positions=None,
    percent=None,
    reserve=(0, 1),
):
    """Both accounts over the same market; asserts equality, returns the plain one's fills and rejections."""
    store = DataState()
    store.update("ohlcv", {"open": opens, "close": closes, "pre_close": before})
    ref = store.update("signal", {"s": signal})
    shared = {code: n / d for code, (n, d) in (weights or {}).items()}
    size = {"weights": shared} if weights else {"percent": percent[0] / percent[1]} if percent else None
    plan = TradePlan(size=size, max_positions=max_positions, cash_reserve=reserve[0] / reserve[1])
    days = [f"{day:%Y-%m-%d}" for day in opens.index]
    cash, shares, values, fills, rejections = plain.trade(
        days,
        list(opens.columns),
        cents(opens),
        cents(closes),
        cents(before),
        signal.to_numpy().tolist(),
        cash_cents,
        weights=weights,
        max_positions=max_positions,
        percent=percent,
        reserve=reserve,
    )
    with Ledger(folder / "ledger.db") as ledger:
        market = Market(store=store, data_ref=ref, rules=Rulebook.mainland(), blocks_from=0)
        account = run_sessions(
            market,
            opens.index,
            SignalRule(),
            cash=Decimal(cash_cents) / 100,
            ledger=ledger,
            run_id="run",
            plan=plan,
        )
        ledger.check("run")
        outcomes = ledger.order_records("run")
        recorded = ledger.values("run")
    assert account.cash == Decimal(cash) / 100
    assert {code: position.quantity for code, position in account.positions.items()} == shares
    assert recorded.tolist() == [float(Decimal(value) / 100) for value in values]
    ours = [
        (f"{o.session:%Y-%m-%d}", o.order.symbol, o.order.side, o.quantity, int(o.price * 100))
        for o in outcomes
        if not isinstance(o, Rejection)
    ]
    assert ours == fills
    refused = [
        (f"{o.session:%Y-%m-%d}", o.order.symbol, o.code) for o in outcomes if isinstance(o, Rejection)
    ]
    assert sorted(refused) == sorted(rejections)
    return fills, rejections


def random_market(seed, sessions=45):
    """Prices in cents with suspensions, opens at and beyond the limits, missing closes, and a noisy signal."""
    rng = np.random.default_rng(seed)
    index = pd.bdate_range("2023-08-01", periods=sessions).as_unit("us")
    count = len(CODES)
    closes = (
        np.exp(rng.normal(0, 0.03, (sessions, count)).cumsum(axis=0)) * rng.uniform(0.5, 60, count)
    ).round(2)
    closes = np.maximum(closes, 0.05)
    before = np.vstack([closes[:1], closes[:-1]])
    gaps = np.where(
        rng.random(closes.shape) < 0.15,
        rng.choice([-0.35, 0.35], closes.shape),
        rng.normal(0, 0.03, closes.shape),
    )
    opens = np.maximum((before * (1 + gaps)).round(2), 0.01)
    away = rng.random(closes.shape) < 0.08
    opens[away] = np.nan
    closes_seen = np.where(away, np.nan, closes)
    closes_seen[0] = closes[0]
    signal = rng.choice([1.0, -1.0, 0.0, np.nan], closes.shape, p=[0.12, 0.12, 0.5, 0.26])
    return [pd.DataFrame(values, index, CODES) for values in (opens, closes_seen, before, signal)]


OPTIONS = st.fixed_dictionaries(
    {
        "max_positions": st.sampled_from([None, 1, 2, 3, 5]),
        "percent": st.sampled_from([None, (1, 10), (1, 4)]),
        "reserve": st.sampled_from([(0, 1), (1, 10), (1, 4), (17, 20)]),
        "weights": st.sampled_from(
            [
                None,
                {"600000.SH": (1, 2), "300750.SZ": (1, 4), "920002.BJ": (1, 8)},
                dict.fromkeys(CODES, (1, 8)),
            ]
        ),
    }
)


@settings(
    max_examples=25 if os.environ.get("WHOLE") else 10,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(seed=st.integers(0, 2**32 - 1), cash=st.integers(10_000, 300_000_000), options=OPTIONS)
def test_random_markets_agree_to_the_cent(plain, tmp_path_factory, seed, cash, options):
    run_both(plain, tmp_path_factory.mktemp("run"), *random_market(seed), cash, **options)


def test_the_random_markets_hold_every_case(plain, tmp_path):
    seen = set()
    for seed in range(6):
        fills, rejections = run_both(
            plain, tmp_path / str(seed), *random_market(seed), 50_000_000, reserve=(1, 10)
        )
        seen |= {side for _, _, side, _, _ in fills} | {code for _, _, code in rejections}
        assert {day < "2023-08-28" for day, _, side, _, _ in fills if side == "sell"} == {True, False}
    assert seen == {"buy", "sell", "suspended", "limit_up", "limit_down"}


@pytest.fixture(scope="module")
def sse50(a_share):
    file = a_share / "daily_prices_sse_50_20250102_20251031.csv"
    rows = pd.read_csv(file, dtype={"trade_date": str})
    rows["trade_date"] = pd.to_datetime(rows["trade_date"])
    return {
        name: rows.pivot(index="trade_date", columns="ts_code", values=name)
        for name in ("open", "close", "pre_close")
    }


def crossings(closes):
    """+1 on the day the 5-day mean rises above the 20-day one, -1 on the day it falls below; whole cents, no rounding."""
    prices = (closes * 100).round()
    above = 4 * prices.rolling(5).sum() > prices.rolling(20).sum()
    known = prices.rolling(20).sum().notna()
    before = above.shift(fill_value=False) & known.shift(fill_value=False)
    fresh = known & known.shift(fill_value=False)
    return (above & ~before & fresh).astype(float) - (~above & before & fresh).astype(float)


@pytest.mark.parametrize(
    "options", [{}, {"max_positions": 8, "reserve": (1, 20)}], ids=["ten slots", "eight with reserve"]
)
def test_sse_50_crossover_agrees_to_the_cent(plain, tmp_path, sse50, options):
    opens, closes, before = sse50["open"], sse50["close"], sse50["pre_close"].ffill().bfill()
    assert opens.shape == (200, 50)
    fills, _ = run_both(plain, tmp_path, opens, closes, before, crossings(closes), 100_000_000, **options)
    assert len(fills) > 100
