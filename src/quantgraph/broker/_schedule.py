"""The sessions on which a trade plan buys, sells by the signal, and rebalances."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from quantgraph.broker._plan import Schedule

_NEW_WEEK = 3
"""Days from the Monday before 1970-01-01, a Thursday."""


def trade_days(sessions: Any, when: Schedule, start: pd.Timestamp | None) -> Any:
    """Whether each of ascending sessions (an array of ``datetime64``) is one of a schedule; an array of bool.

    The first session of the data begins no week, month or quarter: what came before it is not known. A number
    counts from ``start``, the run's first session, or else from the first of the data.

    Examples
    --------
    >>> days = np.array(["2024-01-30", "2024-01-31", "2024-02-01", "2024-02-05"], "datetime64[us]")
    >>> trade_days(days, "month_start", None).tolist(), trade_days(days, "week_start", None).tolist()
    ([False, False, True, False], [False, False, False, True])
    """
    if isinstance(when, int):
        first = 0 if start is None else int(np.searchsorted(sessions, start.to_datetime64()))
        places = np.arange(len(sessions)) - first
        return (places >= 0) & (places % when == 0)
    if when == "every":
        return np.ones(len(sessions), np.bool_)
    days = sessions.astype("datetime64[D]")
    if when == "week_start":
        periods = (days.astype(np.int64) + _NEW_WEEK) // 7
    else:
        months = days.astype("datetime64[M]").astype(np.int64)
        periods = months if when == "month_start" else months // 3
    return np.diff(periods, prepend=periods[:1]) != 0
