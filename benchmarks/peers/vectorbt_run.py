"""vectorbt: whole arrays through ``Portfolio.from_signals``.

Like the rule: shared cash with sells first, lots of 100, open of the next session (signals shifted by a row),
rates of each session, limits and missing bars by masks, retried exits, equity at the close. Unlike it: no
least commission, no rounding to the cent, and when the cash is short the entries take the rest one by one.
"""

from __future__ import annotations

import numpy as np
import vectorbt as vbt
from peers.measure import Figures, measure
from peers.panel import Panel
from peers.rule import COMMISSION, LOT, TICKET, cash_of, rates_of


def vectorbt(panel: Panel) -> Figures:
    """Signals, masks and rates are made before the clock starts."""
    entries, exits = _orders(panel)
    stamp, transfer = (rates[:, None] / 1e5 for rates in rates_of(panel))
    both = COMMISSION / 1e5 + transfer
    fees = panel.frame(np.where(exits, both + stamp, both))
    opens, closes = panel.frame(panel.open), panel.frame(panel.close)
    entries, exits = panel.frame(entries), panel.frame(exits)

    def once() -> tuple[int, float]:
        portfolio = vbt.Portfolio.from_signals(
            closes,
            entries,
            exits,
            price=opens,
            size=TICKET / (1 + both.mean()),
            size_type="value",
            size_granularity=LOT,
            fees=fees,
            init_cash=cash_of(panel),
            cash_sharing=True,
            group_by=True,
            call_seq="auto",
            freq="1D",
        )
        return len(portfolio.order_records), portfolio.value().iloc[-1]

    return measure(once, compiles=True)


def _orders(panel: Panel) -> tuple[np.ndarray, np.ndarray]:
    """Entries and exits that the open lets happen; an exit stands until the next 1."""
    rows = np.where(panel.signal != 0, np.arange(len(panel.days), dtype=np.int32)[:, None], 0)
    opinions = np.take_along_axis(panel.signal, np.maximum.accumulate(rows, axis=0), axis=0)
    entries, exits = np.zeros(panel.signal.shape, dtype=bool), np.zeros(panel.signal.shape, dtype=bool)
    entries[1:] = (panel.signal[:-1] == 1) & (panel.open[1:] < panel.up_limit[1:])
    exits[1:] = (opinions[:-1] == -1) & (panel.open[1:] > panel.down_limit[1:])
    return entries, exits
