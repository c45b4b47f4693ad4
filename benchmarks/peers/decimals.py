"""The common rule once more, slow and plain: exact decimals in dicts.

It shares nothing but the panel with the bare loop, and checks it fill by fill and session by session.
"""

from __future__ import annotations

import datetime as dt
import math
from decimal import ROUND_DOWN, ROUND_HALF_UP, Decimal
from typing import NamedTuple

import numpy as np
from peers.bare import prepare
from peers.measure import Figures, measure
from peers.panel import Panel

CENT = Decimal("0.01")


class Fill(NamedTuple):
    """One fill; a sell has negative shares."""

    session: int
    symbol: int
    shares: int
    price: Decimal
    fees: Decimal


def decimals(panel: Panel) -> Figures:
    """Measure the plain ledger."""

    def once() -> tuple[int, float]:
        fills, equity = simulate(panel)
        return len(fills), float(equity[-1])

    return measure(once)


def check(panel: Panel) -> None:
    """Hold the bare loop against this one.

    Raises
    ------
    AssertionError
        If a fill or the equity of a session differs.
    """
    fills, equity = simulate(panel)
    trades, cents = prepare(panel)()
    same = [(*fill[:3], int(fill.price * 100), int(fill.fees * 100)) for fill in fills]
    assert same == list(zip(*(column.tolist() for column in trades), strict=True)), "the fills differ"
    assert [int(value * 100) for value in equity] == cents.tolist(), "the equity differs"


def simulate(panel: Panel) -> tuple[list[Fill], list[Decimal]]:
    """Return the fills in order, and the equity of each session."""
    cash = Decimal(100_000) * max(10, len(panel.symbols) // 4)
    held: dict[int, int] = {}
    since: dict[int, list[int]] = {}
    closes: dict[int, Decimal] = {}
    fills: list[Fill] = []
    equity: list[Decimal] = []
    for t, day in enumerate(panel.index.date):
        row = panel.signal[t - 1].tolist() if t else []
        opens, up, down, close = (
            _prices(field[t]) for field in (panel.open, panel.up_limit, panel.down_limit, panel.close)
        )
        entries = [j for j, opinion in enumerate(row) if opinion == 1 and j not in held]
        for j in sorted(held):
            since[j] += [row[j]] if row[j] else []
            if since[j][-1:] == [-1] and j in opens and opens[j] > down[j]:
                shares = held.pop(j)
                fees = _fees("sell", shares * opens[j], day)
                cash += shares * opens[j] - fees
                fills.append(Fill(t, j, -shares, opens[j], fees))
        for j, ticket in zip(entries, _tickets(len(entries), cash), strict=True):
            shares = _largest(opens[j], ticket, day) if j in opens and opens[j] < up[j] else 0
            if shares:
                fees = _fees("buy", shares * opens[j], day)
                cash -= shares * opens[j] + fees
                fills.append(Fill(t, j, shares, opens[j], fees))
                held[j], since[j] = shares, []
        closes |= close
        equity.append(cash + sum(shares * closes[j] for j, shares in held.items()))
    return fills, equity


def _prices(row: np.ndarray) -> dict[int, Decimal]:
    return {j: Decimal(str(price)) for j, price in enumerate(row.tolist()) if not math.isnan(price)}


def _tickets(count: int, cash: Decimal) -> list[Decimal]:
    """Hundred thousand each, all shrunk by the same factor when the cash is less, floored to the cent."""
    if 100_000 * count <= cash:
        return [Decimal(100_000)] * count
    return [(cash / count).quantize(CENT, rounding=ROUND_DOWN)] * count


def _largest(price: Decimal, ticket: Decimal, day: dt.date) -> int:
    shares = 0
    while price * (shares + 100) + _fees("buy", price * (shares + 100), day) <= ticket:
        shares += 100
    return shares


def _fees(side: str, notional: Decimal, day: dt.date) -> Decimal:
    stamp = Decimal("0.001") if day < dt.date(2023, 8, 28) else Decimal("0.0005")
    transfer = Decimal("0.00002") if day < dt.date(2022, 4, 29) else Decimal("0.00001")
    parts = [max(Decimal(5), notional * Decimal("0.00025")), notional * transfer]
    parts += [notional * stamp] if side == "sell" else []
    return sum(part.quantize(CENT, rounding=ROUND_HALF_UP) for part in parts)
