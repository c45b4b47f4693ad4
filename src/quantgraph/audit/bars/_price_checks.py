"""Prices: positive, in order, moving, and consistent with ``pre_close``, ``adj_factor`` and price limits."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from quantgraph.audit.bars._bar_arrays import PRICES, TICK, BarArrays, Floats
from quantgraph.audit.findings import Finding

EXTREME_RETURN = 0.5
"""Beyond every price limit, and beyond what a share moves in a day without news."""

STALE_SESSIONS = 10
"""Four equal closes in a row are the most that 50 large A-shares had in ten months of 2025; a share of one
yuan, which closes unchanged one day in five, has ten once in two million sessions."""

OWN_SHARES = 0.1
"""A company's own shares get no dividend, and the exchange spreads the others' dividend over all shares; a
company may hold a tenth of its shares (Company Law of the PRC, article 162, in force since 2024-07-01)."""

FACTOR_ROUNDING = 1e-3
"""Factors near 1 have three decimals."""

_SLACK = 1e-6


def prices_above_zero(bars: BarArrays) -> Iterator[Finding]:
    """Check that prices are above zero."""
    for name in (*PRICES, "pre_close"):
        wrong = bars[name] <= 0
        if wrong.any():
            message = f"{name} is {{value}} at {{place}}; prices are above 0"
            yield from bars.findings("error", "bad_price", wrong, message, value=bars[name])
            if name == "pre_close":
                bars.drop(wrong, name)
            else:
                bars.drop_bars(wrong)


def bar_order(bars: BarArrays) -> Iterator[Finding]:
    """Check that a high is not below any price of its bar, nor a low above one."""
    for name, other, word in (
        ("high", "open", "below"),
        ("high", "close", "below"),
        ("high", "low", "below"),
        ("low", "open", "above"),
        ("low", "close", "above"),
    ):
        wrong = bars[name] < bars[other] if word == "below" else bars[name] > bars[other]
        if wrong.any():
            message = f"{name} is {{value}} at {{place}}, {word} {other}"
            yield from bars.findings("error", "bad_bar", wrong, message, value=bars[name])
            bars.drop_bars(wrong)


def extreme_returns(bars: BarArrays) -> Iterator[Finding]:
    """Find extreme returns since ``pre_close``, or without it since the close before and later actions.

    The first bar of a symbol is exempt: a new share may double, and it has no price before.
    """
    before, unknown = bars["pre_close"], np.isnan(bars["pre_close"])
    if (unknown & bars.traded).any():
        before = np.where(unknown, bars.theoretical(), before)
    returns = bars["close"] / np.where(before > 0, before, np.nan) - 1
    wild = (np.abs(returns) > EXTREME_RETURN) & (bars.last >= 0)
    message = f"{{n}} returns are beyond {EXTREME_RETURN:.0%}, the first is {{value}} at {{place}}"
    yield from bars.findings("warning", "extreme_return", wild, message, value=returns)


def stale_prices(bars: BarArrays) -> Iterator[Finding]:
    """Find bars that repeat the one before, volume included, and closes that stand still under trading."""
    fields = [bars[name] for name in (*PRICES, "vol")]
    still = fields[3][1:] == fields[3][:-1]
    still &= bars["vol"][1:] > 0
    repeated = np.zeros(bars.shape, dtype=np.bool_)
    repeated[1:] = still & np.logical_and.reduce([field[1:] == field[:-1] for field in fields])
    message = "{n} bars have the prices and the volume of the one before, the first at {place}"
    yield from bars.findings("warning", "repeated_bar", repeated, message)
    length = len(still) - STALE_SESSIONS + 2
    if length < 1:
        return
    run = np.logical_and.reduce([still[row : row + length] for row in range(STALE_SESSIONS - 1)])
    run &= ~np.logical_and.reduce([repeated[1 + row : 1 + row + length] for row in range(STALE_SESSIONS - 1)])
    starts = run.copy()
    starts[1:] &= ~run[:-1]
    message = (
        f"{{n}} times the close stands still for {STALE_SESSIONS} sessions or more while shares trade, "
        "the first from {place}"
    )
    yield from bars.findings("warning", "stale_price", starts, message)


def reference_prices(bars: BarArrays) -> Iterator[Finding]:
    """Check that ``pre_close`` is the close before, less dividends and splits, to a tick.

    If the data has no dividend, split or factor at all, a lower ``pre_close`` is an ex-date of an action that
    is not in the data. A higher one is an error of the data: only a reverse split raises it.
    """
    given = bars["pre_close"]
    if np.isnan(given).all():
        return
    before, expected = bars.at_last(bars["close"]), bars.theoretical()
    room = TICK + _SLACK + OWN_SHARES * np.abs(before - expected)
    off = np.abs(given - expected) > room
    if "adj_factor" in bars and off.any():
        off &= np.abs(given - before / _factor_step(bars)) > TICK + FACTOR_ROUNDING * given
    silent = not any(name in bars for name in ("dividend", "split", "adj_factor"))
    lower = off & (given < expected) & silent
    message = (
        "pre_close is below the close before on {n} bars, the first at {place}, and the data has no "
        "dividends, splits or adj_factor to say why"
    )
    yield from bars.findings("warning", "no_actions", lower, message)
    off &= ~lower
    message = (
        "pre_close is {given} at {place}; the close before and the actions since then make it {expected}; "
        "so on {n} bars"
    )
    yield from bars.findings("warning", "pre_close_break", off, message, given=given, expected=expected)
    if off.any():
        bars.drop(off, "pre_close")


def adjustment_factor(bars: BarArrays) -> Iterator[Finding]:
    """Check that ``adj_factor`` steps as the close before over ``pre_close``, and without that never down.

    Only a reverse split makes it smaller.
    """
    if "adj_factor" not in bars:
        return
    step, given = _factor_step(bars), bars["pre_close"]
    expected = bars.at_last(bars["close"]) / given
    odd = np.abs(step - expected) > FACTOR_ROUNDING * expected + TICK / given
    odd |= np.isnan(expected) & (step < 1 - FACTOR_ROUNDING) & ~(bars["split"] < 1)
    message = "adj_factor steps by {step} at {place}, and neither pre_close nor a split does; so on {n} bars"
    yield from bars.findings("warning", "bad_factor", odd, message, step=step)


def _factor_step(bars: BarArrays) -> Floats:
    """``adj_factor`` over that at the last bar before."""
    factor = bars["adj_factor"]
    return factor / bars.at_last(factor)


def price_limits(bars: BarArrays) -> Iterator[Finding]:
    """Check that the lower limit is below the upper one, and that prices are within them."""
    up, down = bars["up_limit"], bars["down_limit"]
    wrong = down >= up
    if wrong.any():
        message = "down_limit is {down} at {place}, not below up_limit, which is {up}; so on {n} bars"
        yield from bars.findings("error", "bad_limit", wrong, message, down=down, up=up)
        bars.drop(wrong, "up_limit", "down_limit")
    for name in ("high", "low", "open", "close", "pre_close"):
        price, up, down = bars[name], bars["up_limit"], bars["down_limit"]
        outside = (price > up + _SLACK) | (price < down - _SLACK)
        if outside.any():
            message = (
                f"{name} is {{price}} at {{place}}, its limits are {{down}} and {{up}}; so on {{n}} bars"
            )
            yield from bars.findings(
                "warning", "outside_limits", outside, message, price=price, down=down, up=up
            )
            bars.drop(outside, "up_limit", "down_limit")
