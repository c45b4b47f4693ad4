"""The common rule: what every tool is asked to do, as like as it can.

At the open of session *t* the signal's row of *t - 1* is acted on, sells before buys, on one pool of cash:

1. Every held symbol whose last opinion (1 or -1) since its entry is -1 is sold whole. One without an open or
   at its lower limit is kept, and tried again in the next session.
2. Symbols with a 1 in the row that were not held in the morning are entered in ascending order, each with a
   ticket of 100,000 CNY, or with an equal share of the cash, floored to the cent, when that is less. The
   quantity is the largest multiple of 100 whose notional and fees fit the ticket. Without an open, or at the
   upper limit, nothing is bought, and no other ticket grows by it.
3. Fees, each half up to the cent: commission 0.025 %, at least 5 CNY; stamp duty on sells 0.1 %, since
   2023-08-28 0.05 %; transfer fee 0.002 %, since 2022-04-29 0.001 %.
4. The equity is the cash and the holdings at their last close.

No share is sold in the session it was bought in (T+1), because all sells come first. Money is in whole cents.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba.extending import register_jitable
from peers.panel import Panel

if TYPE_CHECKING:
    from quantgraph.broker import TradePlan

TICKET = 100_000
LOT = 100
COMMISSION, COMMISSION_MIN = 25, 500
"""In 1e-5 of the notional, and in cents."""


def cash_of(panel: Panel) -> int:
    """Opening cash in CNY: so little that tickets have to shrink at times."""
    return TICKET * max(10, len(panel.symbols) // 4)


def plan_of(panel: Panel) -> TradePlan:
    """The rule's sizes as a plan."""
    from quantgraph.broker import TradePlan

    return TradePlan(size={"cash": TICKET}, max_positions=len(panel.symbols))


def rates_of(panel: Panel) -> tuple[np.ndarray, np.ndarray]:
    """Stamp duty and transfer fee of each session, in 1e-5 of the notional."""
    stamp = np.where(panel.days < np.datetime64("2023-08-28"), 100, 50)
    transfer = np.where(panel.days < np.datetime64("2022-04-29"), 2, 1)
    return stamp, transfer


@register_jitable
def fees_of(notional: int, stamp: int, transfer: int) -> int:
    """Fees of a fill in cents; ``stamp`` is 0 for a buy."""
    commission = max((notional * COMMISSION + 50_000) // 100_000, COMMISSION_MIN)
    return commission + (notional * stamp + 50_000) // 100_000 + (notional * transfer + 50_000) // 100_000


@register_jitable
def largest_buy(price: int, ticket: int, transfer: int) -> int:
    """Shares that a ticket buys at a price, both in cents."""
    lots = ticket // (price * LOT)
    while lots > 0 and price * LOT * lots + fees_of(price * LOT * lots, 0, transfer) > ticket:
        lots -= 1
    return lots * LOT


class Rule:
    """The rule in plain Python, for tools that call the user's code once a session and fill what it says."""

    def __init__(self, panel: Panel) -> None:
        self._panel = panel
        self._stamp, self._transfer = (rates.tolist() for rates in rates_of(panel))
        self._opinions: dict[int, int] = {}
        self._held: dict[int, int] = {}

    def orders(self, t: int, cash: float) -> list[tuple[int, int, float]]:
        """Symbol, shares (negative to sell) and open of each order of session ``t``; ``cash`` is in CNY."""
        if t == 0:
            return []
        row = self._panel.signal[t - 1]
        news = {j: int(row[j]) for j in np.flatnonzero(row).tolist()}
        wanted = [j for j, opinion in news.items() if opinion > 0 and j not in self._held]
        self._opinions |= news
        sells = self._sells(t)
        left = round(cash * 100) + sum(self._proceeds(t, -shares, price) for _, shares, price in sells)
        return sells + self._buys(t, wanted, left)

    def fees(self, t: int, shares: float, price: float) -> float:
        """Fees of a fill of session ``t`` in CNY; a sell has negative shares."""
        notional = round(abs(shares) * price * 100)
        return fees_of(notional, self._stamp[t] if shares < 0 else 0, self._transfer[t]) / 100

    def _sells(self, t: int) -> list[tuple[int, int, float]]:
        opens, down = self._panel.open[t], self._panel.down_limit[t]
        leaving = [j for j in sorted(self._held) if self._opinions[j] < 0 and opens[j] > down[j]]
        return [(j, -self._held.pop(j), float(opens[j])) for j in leaving]

    def _proceeds(self, t: int, shares: int, price: float) -> int:
        return round(shares * price * 100) - round(self.fees(t, -shares, price) * 100)

    def _buys(self, t: int, wanted: list[int], cash: int) -> list[tuple[int, int, float]]:
        opens, up = self._panel.open[t], self._panel.up_limit[t]
        ticket = min(TICKET * 100, cash // len(wanted)) if wanted else 0
        buys = [
            (j, largest_buy(round(opens[j] * 100), ticket, self._transfer[t]), float(opens[j]))
            for j in wanted
            if opens[j] < up[j]
        ]
        buys = [buy for buy in buys if buy[1]]
        self._held |= {j: shares for j, shares, _ in buys}
        return buys
