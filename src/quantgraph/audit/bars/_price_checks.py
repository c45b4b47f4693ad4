"""Prices by themselves: above zero, in order, and moving."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from quantgraph.audit.bars._bar_arrays import BAR, TICK, BarArrays
from quantgraph.audit.findings import Finding

__all__ = [
    "adjustment_factor",
    "bar_order",
    "extreme_returns",
    "price_limits",
    "prices_above_zero",
    "reference_prices",
    "stale_prices",
]

OWN_SHARES = 0.1
"""Shares that a company holds itself get no dividend, and the exchange takes what the others get over all
shares; it may hold a tenth of them (Company Law of the PRC, article 162, in force since 2024-07-01)."""

FACTOR_ROUNDING = 1e-3
"""Factors near 1 are given with three decimals."""

_SLACK = 1e-6


def reference_prices(cells: BarArrays) -> Iterator[Finding]:
    """``pre_close`` is the close before, less what dividends and splits take, to a tick.

    Without any dividend, split or factor in the data, a lower one is an ex-date that the data does not know
    the action of. A higher one is an error of the data in any case: nothing but a reverse split does that.
    """
    given = cells["pre_close"]
    if np.isnan(given).all():
        return
    before, expected = cells.at_last(cells["close"]), cells.theoretical()
    room = TICK + _SLACK + OWN_SHARES * np.abs(before - expected)
    off = np.abs(given - expected) > room
    if "adj_factor" in cells and off.any():
        off &= np.abs(given - before / _step(cells)) > TICK + FACTOR_ROUNDING * given
    silent = not any(name in cells for name in ("dividend", "split", "adj_factor"))
    lower = off & (given < expected) & silent
    if lower.any():
        yield cells.finding(
            "warning",
            "no_actions",
            lower,
            "pre_close is below the close before on {n} bars, the first at {place}, and the data has no "
            "dividends, splits or adj_factor to say why",
        )
    off &= ~lower
    if off.any():
        yield cells.finding(
            "warning",
            "pre_close_break",
            off,
            f"pre_close is {given[off][0]:g} at {{place}}; the close before and the actions since then make "
            f"it {expected[off][0]:g}; so on {{n}} bars",
        )
        cells.drop(off, "pre_close")


def adjustment_factor(cells: BarArrays) -> Iterator[Finding]:
    """``adj_factor`` steps as the close before over ``pre_close``, and without that never down.

    Nothing but a reverse split makes it smaller.
    """
    if "adj_factor" not in cells:
        return
    step, given = _step(cells), cells["pre_close"]
    wanted = cells.at_last(cells["close"]) / given
    odd = np.abs(step - wanted) > FACTOR_ROUNDING * wanted + TICK / given
    odd |= np.isnan(wanted) & (step < 1 - FACTOR_ROUNDING) & ~(cells["split"] < 1)
    if odd.any():
        yield cells.finding(
            "warning",
            "bad_factor",
            odd,
            f"adj_factor steps by {step[odd][0]:g} at {{place}}, and neither pre_close nor a split does; "
            "so on {n} bars",
        )


def _step(cells: BarArrays) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """``adj_factor`` over that at the last bar before."""
    factor = cells["adj_factor"]
    return factor / cells.at_last(factor)


def price_limits(cells: BarArrays) -> Iterator[Finding]:
    """The lower limit is below the upper one, and prices are within them."""
    up, down = cells["up_limit"], cells["down_limit"]
    wrong = down >= up
    if wrong.any():
        yield cells.finding(
            "error",
            "bad_limit",
            wrong,
            f"down_limit is {down[wrong][0]:g} at {{place}}, not below up_limit, which is "
            f"{up[wrong][0]:g}; so on {{n}} bars",
        )
        cells.drop(wrong, "up_limit", "down_limit")
    for name in ("high", "low", "open", "close", "pre_close"):
        price, up, down = cells[name], cells["up_limit"], cells["down_limit"]
        outside = (price > up + _SLACK) | (price < down - _SLACK)
        if outside.any():
            value, low, high = price[outside][0], down[outside][0], up[outside][0]
            yield cells.finding(
                "warning",
                "outside_limits",
                outside,
                f"{name} is {value:g} at {{place}}, its limits are {low:g} and {high:g}; so on {{n}} bars",
            )
            cells.drop(outside, "up_limit", "down_limit")


EXTREME_RETURN = 0.5
"""Beyond every price limit, and beyond what a share moves in a day without news."""

STALE_SESSIONS = 10
"""Four equal closes in a row are the most that 50 large A-shares had in ten months of 2025; a share of one
yuan, which closes unchanged one day in five, has ten once in two million sessions."""


def prices_above_zero(cells: BarArrays) -> Iterator[Finding]:
    """Prices are above zero."""
    for name in (*BAR, "pre_close"):
        wrong = cells[name] <= 0
        if wrong.any():
            value = cells[name][wrong][0]
            yield cells.finding(
                "error", "bad_price", wrong, f"{name} is {value:g} at {{place}}; prices are above 0"
            )
            if name == "pre_close":
                cells.drop(wrong, name)
            else:
                cells.drop_bars(wrong)


def bar_order(cells: BarArrays) -> Iterator[Finding]:
    """The high of a bar is not below any of its prices, nor the low above one."""
    for name, other, word in (
        ("high", "open", "below"),
        ("high", "close", "below"),
        ("high", "low", "below"),
        ("low", "open", "above"),
        ("low", "close", "above"),
    ):
        wrong = cells[name] < cells[other] if word == "below" else cells[name] > cells[other]
        if wrong.any():
            value = cells[name][wrong][0]
            yield cells.finding(
                "error", "bad_bar", wrong, f"{name} is {value:g} at {{place}}, {word} {other}"
            )
            cells.drop_bars(wrong)


def extreme_returns(cells: BarArrays) -> Iterator[Finding]:
    """Returns since ``pre_close``, or without it since the close before and the actions since then.

    Not of the first bar of a symbol: a listing may double, and no price before it speaks against it.
    """
    before, unknown = cells["pre_close"], np.isnan(cells["pre_close"])
    if (unknown & cells.traded).any():
        before = np.where(unknown, cells.theoretical(), before)
    returns = cells["close"] / np.where(before > 0, before, np.nan) - 1
    wild = (np.abs(returns) > EXTREME_RETURN) & (cells.last >= 0)
    if wild.any():
        yield cells.finding(
            "warning",
            "extreme_return",
            wild,
            f"{{n}} returns are beyond {EXTREME_RETURN:.0%}, the first is {returns[wild][0]:g} at {{place}}",
        )


def stale_prices(cells: BarArrays) -> Iterator[Finding]:
    """Bars that repeat the one before, volume included, and closes that stand still while shares trade."""
    bars = [cells[name] for name in (*BAR, "vol")]
    still = bars[3][1:] == bars[3][:-1]
    still &= cells["vol"][1:] > 0
    repeated = np.zeros(cells.shape, dtype=np.bool_)
    repeated[1:] = still & np.logical_and.reduce([bar[1:] == bar[:-1] for bar in bars])
    if repeated.any():
        yield cells.finding(
            "warning",
            "repeated_bar",
            repeated,
            "{n} bars have the prices and the volume of the one before, the first at {place}",
        )
    length = len(still) - STALE_SESSIONS + 2
    if length < 1:
        return
    run = np.logical_and.reduce([still[row : row + length] for row in range(STALE_SESSIONS - 1)])
    run &= ~np.logical_and.reduce([repeated[1 + row : 1 + row + length] for row in range(STALE_SESSIONS - 1)])
    if run.any():
        starts = run.copy()
        starts[1:] &= ~run[:-1]
        yield cells.finding(
            "warning",
            "stale_price",
            starts,
            f"{{n}} times the close stands still for {STALE_SESSIONS} sessions or more while shares trade, "
            "the first from {place}",
        )
