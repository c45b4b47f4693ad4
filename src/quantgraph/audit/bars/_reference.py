"""``pre_close``, ``adj_factor`` and price limits, against the close before and each other."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from quantgraph.audit.bars._cells import TICK, Cells
from quantgraph.audit.findings import Finding

__all__ = ["adjustment_factor", "price_limits", "reference_prices"]

OWN_SHARES = 0.1
"""Shares that a company holds itself get no dividend, and the exchange takes what the others get over all
shares; it may hold a tenth of them (Company Law of the PRC, article 162, in force since 2024-07-01)."""

FACTOR_ROUNDING = 1e-3
"""Factors near 1 are given with three decimals."""

_SLACK = 1e-6


def reference_prices(cells: Cells) -> Iterator[Finding]:
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


def adjustment_factor(cells: Cells) -> Iterator[Finding]:
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


def _step(cells: Cells) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """``adj_factor`` over that at the last bar before."""
    factor = cells["adj_factor"]
    return factor / cells.at_last(factor)


def price_limits(cells: Cells) -> Iterator[Finding]:
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
