"""The bounds of rolling windows, computed once for all columns of a frame.

pandas computes where each window begins and ends anew for every column, although that depends on nothing but
the number of rows and the window: with 5,000 columns that is a third to a half of a rolling mean's time.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pandas.core.indexers import objects

_KEPT = 16
Bounds = tuple[NDArray[np.int64], NDArray[np.int64]]


def remember_window_bounds() -> None:
    """Let this process's pandas remember the bounds of fixed windows; results keep every bit.

    A pandas without this class computes them as it always does.
    """
    indexer: Any = getattr(objects, "FixedWindowIndexer", None)
    if indexer is None:
        return
    computed = indexer.get_window_bounds

    @lru_cache(maxsize=_KEPT)
    def bounds(window: int, *options: Any, **named: Any) -> Bounds:
        found: Bounds = computed(indexer(window_size=window), *options, **named)
        return found

    def get_window_bounds(self: Any, *options: Any, **named: Any) -> Bounds:
        start, end = bounds(self.window_size, *options, **named)
        return start.copy(), end.copy()  # whoever writes into them writes into his own

    indexer.get_window_bounds = get_window_bounds
