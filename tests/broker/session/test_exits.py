"""Exits of a trade plan: sessions worked by hand, and an account in plain Python beside the broker's."""

from __future__ import annotations

import math
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from bars_market import BARS, FLAT, ONE, market_of

from quantgraph.agents import SignalRule
from quantgraph.broker import Account, Decider, Market, Order, TradePlan
from quantgraph.broker.ledger import Ledger
from quantgraph.broker.session import run_sessions
from quantgraph.broker.session._simulate import simulate
from quantgraph.errors import BadOption
from quantgraph.market import Rulebook
from quantgraph.state import DataState

pytestmark = pytest.mark.proof


def sales(rows, plan, signal=(1,), **options):
    """What is sold: session, price, type and reason; the signal of the first session buys at the second open."""
    market, days = market_of(rows, signal, **options)
    results = list(simulate(market, days, SignalRule(), account=Account.opening(10_000), plan=plan))
    return [
        (days.get_loc(fill.session), fill.price, fill.order.type, fill.order.reason)
        for result in results
        for fill in result.fills
        if fill.side == "sell"
    ]


def test_a_stop_is_filled_at_its_level_within_the_session():
    rows = [FLAT, FLAT, (9.8, 9.9, 9.1, 9.5), FLAT]
    assert sales(rows, TradePlan(stop_loss=0.08)) == [
        (2, Decimal("9.20"), "stop", "stop_loss 9.20, 8% below 10")
    ]


def test_a_session_that_opens_below_the_stop_sells_at_its_open():
    rows = [FLAT, FLAT, (9.0, 9.9, 8.8, 9.5), FLAT]
    assert sales(rows, TradePlan(stop_loss="0.08")) == [
        (2, Decimal(9), "open", "stop_loss 9.20, 8% below 10")
    ]


def test_under_t_plus_one_a_level_of_the_entry_session_is_sold_at_the_next_open_whatever_it_is():
    rows = [FLAT, (10.0, 10.0, 9.0, 9.9), (10.4, 10.5, 10.3, 10.4), FLAT]
    ((day, price, kind, reason),) = sales(rows, TradePlan(stop_loss=0.08))
    assert (day, price, kind) == (2, Decimal("10.4"), "open")
    assert reason == "stop_loss 9.20, 8% below 10, reached in the entry session"


def test_under_t_plus_zero_it_is_sold_in_the_entry_session():
    rows = [FLAT, (10.0, 10.0, 9.0, 9.9), FLAT]
    plan, rules = TradePlan(stop_loss=0.08), Rulebook.zero_cost("us")
    ((day, price, kind, _),) = sales(rows, plan, symbol="AAPL", rules=rules)
    assert (day, price, kind) == (1, Decimal("9.20"), "stop")


def test_a_stop_of_more_ranges_than_the_price_is_none():
    rows = [(0.1, 0.2, 0.05, 0.1)] * 4  # a range of 0.15
    assert sales(rows, TradePlan(stop_loss={"atr": 2, "window": 2}), symbol="AAPL", rules=Rulebook.us()) == []


def test_a_target_is_a_limit_rounded_up_and_a_session_that_reaches_both_counts_as_stopped():
    plan = TradePlan(stop_loss=0.08, take_profit="0.1001")
    ((day, price, kind, reason),) = sales([FLAT, FLAT, (10.5, 11.2, 10.4, 11.0), FLAT], plan)
    assert (day, price, kind) == (2, Decimal("11.01"), "limit")  # 11.001 up to the tick
    assert reason.startswith("take_profit 11.01, 10.01% above 10")
    ((_, price, kind, _),) = sales([FLAT, FLAT, (10.5, 11.2, 9.1, 11.0), FLAT], plan)
    assert (price, kind) == (Decimal("9.20"), "stop")
    ((_, price, kind, _),) = sales([FLAT, FLAT, (11.5, 11.8, 11.2, 11.6), FLAT], plan)
    assert (price, kind) == (Decimal("11.5"), "open")  # the open is better than the limit


def test_a_trailing_stop_follows_the_highest_close_that_is_known():
    rows = [FLAT, (10.0, 11.0, 10.0, 11.0), (11.2, 13.0, 11.0, 12.0), (11.5, 11.6, 10.7, 11.0), FLAT]
    # the high of 13 within the session before does not count; 12 * 0.9 = 10.80
    ((day, price, kind, reason),) = sales(rows, TradePlan(trailing_stop=0.1))
    assert (day, price, kind) == (3, Decimal("10.80"), "stop")
    assert reason == "trailing_stop 10.80, 10% below 12"


def test_a_position_is_sold_at_the_open_of_the_last_session_it_may_be_held():
    assert sales([FLAT] * 6, TradePlan(max_holding=2)) == [(3, Decimal(10), "open", "max_holding 2")]


def test_a_refused_exit_is_tried_at_every_open_with_the_same_trigger():
    fallen = (9.0, 9.0, 9.0, 9.0)
    rows = [FLAT, FLAT, fallen, fallen, (9.6, 9.8, 9.5, 9.7), FLAT]
    limits = [9.0, 9.0, 9.0, 9.0, 8.1, 9.0]
    market, days = market_of(rows, down_limit=limits)
    results = list(
        simulate(market, days, SignalRule(), account=Account.opening(10_000), plan=TradePlan(stop_loss=0.08))
    )
    tries = [
        (days.get_loc(result.session), getattr(outcome, "code", "filled"), outcome.order.trigger)
        for result in results
        for outcome in result.outcomes
        if outcome.order.trigger
    ]
    trigger = "stop_loss 20240103"
    assert tries == [(2, "limit_down", trigger), (3, "limit_down", trigger), (4, "filled", trigger)]


def test_levels_move_with_a_dividend_before_anything_is_compared():
    rows = [FLAT, FLAT, (8.9, 9.0, 8.5, 8.9), (8.9, 9.0, 8.2, 8.5), FLAT]
    dividend = [0.0, 0.0, 1.0, 0.0, 0.0]
    # (10 - 1) * 0.92 = 8.28: not reached by 8.5, reached by 8.2
    ((day, price, _, reason),) = sales(rows, TradePlan(stop_loss=0.08), dividend=dividend)
    assert (day, price) == (3, Decimal("8.28"))
    assert reason == "stop_loss 8.28, 8% below 9"


def test_after_an_exit_a_symbol_waits_for_a_new_signal():
    rows = [FLAT, FLAT, (9.8, 9.9, 9.1, 9.5), *[FLAT] * 6]

    def buys(signal, **options):
        market, days = market_of(rows, signal)
        plan = TradePlan(stop_loss=0.08, **options)
        results = simulate(market, days, SignalRule(), account=Account.opening(10_000), plan=plan)
        return [days.get_loc(each.session) for each in results if any(f.side == "buy" for f in each.fills)]

    assert buys([1] * 9) == [1]
    assert buys([1, 1, 1, 1, 0, 1, 0, 0, 0]) == [1, 6]
    assert buys([1] * 9, reentry="any") == [1, 3]


def test_the_cash_of_an_exit_within_the_session_buys_from_the_next_one():
    days = pd.bdate_range("2024-01-02", periods=5, name="trade_date").as_unit("us")
    flat = [10.0] * 5
    opens = pd.DataFrame({ONE: [10.0, 10.0, 9.8, 10.0, 10.0], "600036.SH": flat}, index=days)
    lows = pd.DataFrame({ONE: [10.0, 10.0, 9.0, 10.0, 10.0], "600036.SH": flat}, index=days)
    frames = {"open": opens, "high": opens, "low": lows, "close": opens}
    signal = pd.DataFrame({ONE: [1.0, 0, 0, 0, 0], "600036.SH": [0.0, 1, 1, 0, 0]}, index=days)
    store = DataState()
    store.update("ohlcv", frames)
    market = Market(
        store=store, data_ref=store.update("signal", {"demo": signal}), rules=Rulebook.zero_cost("cn")
    )
    plan = TradePlan(size={"percent": 1}, stop_loss=0.08)
    results = simulate(market, days, SignalRule(), account=Account.opening(10_000), plan=plan)
    fills = [(days.get_loc(f.session), f.order.symbol, f.side) for each in results for f in each.fills]
    assert fills == [(1, ONE, "buy"), (2, ONE, "sell"), (3, "600036.SH", "buy")]


def test_a_plan_that_the_data_cannot_carry_out_is_refused():
    market, days = market_of([FLAT] * 3)
    bars = {name: market.store.snapshot(market.data_ref)["ohlcv"][name] for name in ("open", "close")}
    store = DataState()
    ref = store.update("ohlcv", bars)
    short = Market(store=store, data_ref=ref, rules=market.rules)
    with pytest.raises(BadOption, match="need the fields high and low"):
        next(simulate(short, days, SignalRule(), account=Account.opening(1), plan=TradePlan(stop_loss=0.1)))


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"stop_loss": 8}, r"stop_loss=8; must be a fraction in \(0, 1\)"),
        ({"stop_loss": -0.1}, "stop_loss=-0.1"),
        ({"take_profit": 0}, "take_profit=0"),
        ({"trailing_stop": math.nan}, "plan.trailing_stop"),
        ({"max_holding": 0}, "max_holding=0; must be a whole number >= 1"),
        ({"reentry": "later"}, "reentry='later'; must be new_signal, any"),
    ],
)
def test_bad_plans_are_refused_in_one_line(values, said):
    with pytest.raises(BadOption, match=said):
        TradePlan(**values)


class BuysAtRandom(Decider):
    """Buys 100 shares of what it does not hold, in sessions that a seed chooses."""

    name = "buys_at_random"
    uses_signal = False

    def __init__(self, buys):
        self.buys = buys

    def decide(self, context):
        due = {order.symbol for order in context.exits}
        held = set(context.account.positions)
        wanted = [name for name in self.buys.get(context.session, ()) if name not in held | due]
        return [
            Order(symbol=name, side="buy", quantity=100, sequence=at, reason="random")
            for at, name in enumerate(wanted, 1)
        ]


def random_case(seed, symbols):
    rng = np.random.default_rng(seed)
    days = pd.bdate_range("2024-01-02", periods=80, name="trade_date").as_unit("us")
    close = (20 * np.exp(np.cumsum(rng.normal(0, 0.03, (80, len(symbols))), axis=0))).round(2)
    opens = (close * (1 + rng.normal(0, 0.015, close.shape))).round(2)
    high = (np.maximum(opens, close) * (1 + abs(rng.normal(0, 0.01, close.shape)))).round(2)
    low = (np.minimum(opens, close) * (1 - abs(rng.normal(0, 0.01, close.shape)))).round(2)
    frames = {
        name: pd.DataFrame(values, index=days, columns=symbols)
        for name, values in zip(BARS, (opens, high, low, close), strict=True)
    }
    buys = {day: [name for name in symbols if rng.random() < 0.2] for day in days}
    return days, frames, buys


def plain_account(  # noqa: PLR0912 - one account, read from top to bottom
    days, frames, buys, *, stop, target, trail, holding, same_day
):
    """The sales of one symbol after the other, in floats and whole cents: no code of the broker's."""

    def cents(value):
        return round(value * 100, 6)

    found = []
    for name in frames["open"].columns:
        bars = list(zip(*(frames[field][name] for field in BARS), strict=True))
        entry = basis = peak = None
        wait = False
        for at, (opened, high, low, close) in enumerate(bars):
            sold = False
            if entry is not None:
                levels = [math.floor(cents(basis * (1 - stop))) / 100] if stop else []
                if trail and entry < at:
                    levels.append(math.floor(cents(peak * (1 - trail))) / 100)
                floor = max(levels, default=None)
                ceiling = math.ceil(cents(basis * (1 + target))) / 100 if target else None
                price = None
                if (
                    wait
                    or (floor is not None and opened <= floor)
                    or (ceiling is not None and opened >= ceiling)
                ):
                    price = opened
                elif holding and at - entry >= holding:
                    price = opened
                elif floor is not None and low <= floor:
                    price = floor
                elif ceiling is not None and high >= ceiling:
                    price = ceiling
                if price is not None:
                    found.append((days[at], name, price))
                    entry, wait, sold = None, False, True
                else:
                    peak = max(peak, close)
            if entry is None and not sold and name in buys[days[at]]:
                entry, basis, peak, wait = at, opened, opened, False
                floor = math.floor(cents(basis * (1 - stop))) / 100 if stop else None
                ceiling = math.ceil(cents(basis * (1 + target))) / 100 if target else None
                reached = floor if floor is not None and low <= floor else None
                if reached is None and ceiling is not None and high >= ceiling:
                    reached = ceiling
                if reached is not None and same_day:
                    found.append((days[at], name, reached))
                    entry = None
                else:
                    wait, peak = reached is not None, max(peak, close)
    return sorted(found)


PLANS = [
    {"stop": 0.05},
    {"target": 0.06},
    {"trail": 0.07},
    {"holding": 5},
    {"stop": 0.04, "target": 0.08},
    {"stop": 0.08, "trail": 0.06, "target": 0.2},
    {"stop": 0.03, "target": 0.05, "trail": 0.05, "holding": 7},
]


@pytest.mark.parametrize("rules", ["cn", "us"])
@pytest.mark.parametrize("said", PLANS, ids=str)
def test_the_sales_are_those_of_an_account_in_plain_python(said, rules):
    symbols = ["600000.SH", "600036.SH", "601398.SH"] if rules == "cn" else ["AAPL", "MSFT", "NVDA"]
    plan = TradePlan(
        stop_loss=said.get("stop"),
        take_profit=said.get("target"),
        trailing_stop=said.get("trail"),
        max_holding=said.get("holding"),
    )
    whole = {"stop": None, "target": None, "trail": None, "holding": None} | said
    count = 0
    for seed in range(8):
        days, frames, buys = random_case(seed, symbols)
        store = DataState()
        market = Market(store=store, data_ref=store.update("ohlcv", frames), rules=Rulebook.zero_cost(rules))
        results = simulate(market, days, BuysAtRandom(buys), account=Account.opening(10**7), plan=plan)
        sold = sorted(
            (fill.session, fill.order.symbol, float(fill.price))
            for result in results
            for fill in result.fills
            if fill.side == "sell"
        )
        assert sold == plain_account(days, frames, buys, **whole, same_day=rules == "us")
        count += len(sold)
    assert count > 40


def test_a_run_that_is_stopped_anywhere_goes_on_with_the_same_lines(tmp_path):
    days, frames, buys = random_case(1, ["600000.SH", "600036.SH"])
    store = DataState()
    market = Market(store=store, data_ref=store.update("ohlcv", frames), rules=Rulebook.mainland())
    plan = TradePlan(stop_loss=0.04, trailing_stop=0.06, take_profit=0.03, max_holding=9)

    def run(ledger, name, parts):
        for part in parts:
            run_sessions(
                market, days[:part], BuysAtRandom(buys), cash=10**6, ledger=ledger, run_id=name, plan=plan
            )
        return list(ledger.journal(name))

    with Ledger(tmp_path / "one.sqlite") as one, Ledger(tmp_path / "many.sqlite") as many:
        whole = run(one, "run", [80])
        assert run(many, "run", [1, 2, 3, 17, 18, 50, 80]) == whole
        assert many.check("run") > 80
        orders = many.orders("run")
        assert {"stop", "limit", "open"} <= set(orders["type"])


def test_what_a_session_does_later_changes_nothing_that_is_decided_at_its_open():
    days, frames, buys = random_case(2, ["600000.SH", "600036.SH"])
    plan, at = TradePlan(stop_loss=0.04, take_profit=0.06), 40

    def seen(frames):
        told = []

        class Watching(BuysAtRandom):
            def decide(self, context):
                orders = super().decide(context)
                if context.session == days[at]:
                    told.append((context.exits, orders, context.account, dict(context.exited)))
                return orders

        store = DataState()
        market = Market(store=store, data_ref=store.update("ohlcv", frames), rules=Rulebook.zero_cost("cn"))
        list(simulate(market, days[: at + 1], Watching(buys), account=Account.opening(10**6), plan=plan))
        return told

    changed = {name: frame.copy() for name, frame in frames.items()}
    for name, factor in (("high", 1.3), ("low", 0.7), ("close", 0.9)):
        changed[name].iloc[at] *= factor
    assert seen(frames) == seen(changed)


def test_a_decider_cannot_say_that_a_plan_sold():
    class Claims(BuysAtRandom):
        def decide(self, context):
            return [replace(order, trigger="stop_loss 20240101") for order in super().decide(context)]

    market, days = market_of([FLAT] * 3)
    decider = Claims({days[1]: [ONE]})
    (fill,) = [
        fill
        for result in simulate(market, days, decider, account=Account.opening(10_000))
        for fill in result.fills
    ]
    assert fill.order.trigger == ""
