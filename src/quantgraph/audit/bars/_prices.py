"""Prices by themselves: above zero, in order, and moving."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from quantgraph.audit.bars._cells import BAR, Cells
from quantgraph.audit.findings import Finding

__all__ = ["bar_order", "extreme_returns", "prices_above_zero", "stale_prices"]

EXTREME_RETURN = 0.5
"""Beyond every price limit, and beyond what a share moves in a day without news."""

STALE_SESSIONS = 10
"""Four equal closes in a row are the most that 50 large A-shares had in ten months of 2025; a share of one
yuan, which closes unchanged one day in five, has ten once in two million sessions."""


def prices_above_zero(cells: Cells) -> Iterator[Finding]:
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


def bar_order(cells: Cells) -> Iterator[Finding]:
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


def extreme_returns(cells: Cells) -> Iterator[Finding]:
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


def stale_prices(cells: Cells) -> Iterator[Finding]:
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
