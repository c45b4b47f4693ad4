"""Bars that cannot be: a price that is not above zero, or one outside of its low and high."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from quantgraph.audit.bars._bar_arrays import PRICES


def impossible_bars(
    bars: Mapping[str, pd.DataFrame], *, symbols: Sequence[str], sessions: pd.DatetimeIndex
) -> dict[str, str]:
    """Return the first session, ``YYYY-MM-DD``, with a bar that cannot be, of each symbol that has one.

    Parameters
    ----------
    bars
        Frames of open, high, low and close, sessions x symbols; NaN and a missing field contradict nothing.
    """
    prices = {
        name: bars[name].reindex(index=sessions, columns=list(symbols)).to_numpy(dtype=np.float64)
        for name in PRICES
        if name in bars
    }
    wrong = np.zeros((len(sessions), len(symbols)), dtype=np.bool_)
    for price in prices.values():
        wrong |= price <= 0
    for price in prices.values():
        wrong |= price > prices.get("high", np.nan)
        wrong |= price < prices.get("low", np.nan)
    return {
        symbol: f"{sessions[int(wrong[:, column].argmax())]:%Y-%m-%d}"
        for column, symbol in enumerate(symbols)
        if wrong[:, column].any()
    }
