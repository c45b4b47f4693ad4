"""How much of the market's volume a run took, and would take with more cash."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

_SHARES_PER_HAND = 100
TIMES = (1, 10, 100)


@dataclass(frozen=True, kw_only=True)
class Room:
    """Share of the session's volume that a fill took: fractions, by how many times the cash."""

    median: Mapping[str, float]
    most: Mapping[str, float]
    """Of 95 of 100 fills at most."""
    largest: Mapping[str, float]


def room_of(fills: pd.DataFrame, bars: Mapping[str, pd.DataFrame]) -> Room | None:
    """The room of fills (``trade_date``, ``ts_code``, ``quantity``); None without volumes."""
    if "vol" not in bars or fills.empty:
        return None
    volumes = bars["vol"]
    rows = volumes.index.get_indexer(pd.Index(fills["trade_date"]))
    columns = volumes.columns.get_indexer(pd.Index(fills["ts_code"]))
    traded = volumes.to_numpy(np.float64)[rows, columns] * _SHARES_PER_HAND
    shares = (fills["quantity"].to_numpy(np.float64) / traded)[traded > 0]
    if not len(shares):
        return None
    found = {
        name: {str(times): float(np.quantile(shares, part) * times) for times in TIMES}
        for name, part in (("median", 0.5), ("most", 0.95), ("largest", 1.0))
    }
    return Room(**found)
