"""The sessions on which a trade plan buys, sells by the signal, and rebalances."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd

from quantgraph.broker._plan import Schedule
from quantgraph.errors import BadWindow
from quantgraph.market import sessions as sessions_of

_NEW_WEEK = 3
"""Days from the Monday before 1970-01-01, a Thursday."""
_EXCHANGES = {"cn": "XSHG", "us": "XNYS"}


def trade_days(
    sessions: Any, when: Schedule, rows: Any, *, started: pd.Timestamp | None = None, market: str = "cn"
) -> Any:
    """Whether each of ascending sessions is one of a schedule; an array of bool.

    Parameters
    ----------
    sessions, rows
        Sessions of the data, and of the signal's rows, as arrays of ``datetime64``. The session after
        the first row is the first that can be decided: it stands in for the beginning of a period between the
        run's start and it, and a number of sessions counts from it.
    started
        The run's first session. Default: the first of the data.
    market
        ``cn`` or ``us``: the calendar for the session before the first of the data.

    Examples
    --------
    >>> days = np.array(["2024-01-30", "2024-01-31", "2024-02-01", "2024-02-05"], "datetime64[us]")
    >>> trade_days(days, "month_start", days[1:]).tolist()
    [False, False, True, False]
    >>> trade_days(days, 2, days).tolist()
    [False, True, False, True]
    """
    begun = 0 if started is None else int(np.searchsorted(sessions, started.to_datetime64()))
    after = int(np.searchsorted(sessions, rows[0])) + 1 if len(rows) else 0
    place = max(begun, min(after, len(sessions) - 1))
    if isinstance(when, int):
        places = np.arange(len(sessions)) - place
        return (places >= 0) & (places % when == 0)
    if when == "every":
        return np.ones(len(sessions), np.bool_)
    before = _session_before(sessions[0], _EXCHANGES[market])
    starts = np.diff(_periods(np.concatenate([[before], sessions]), when)) != 0
    if starts[begun : place + 1].any():
        starts[place : place + 1] = True
    return starts


def days_without_entries(
    sessions: Any, when: Mapping[str, Sequence[int]] | None, *, market: str = "cn"
) -> Any:
    """Whether a plan's ``no_entry_on`` has each of ascending sessions; an array of bool.

    The n-th session of a month is that of the exchange's calendar, whatever sessions the data have.

    >>> days = np.array(["2024-04-30", "2024-05-06", "2024-05-31"], "datetime64[us]")
    >>> days_without_entries(days, {"weekdays": [5], "sessions": [1]}).tolist()
    [False, True, True]
    """
    if when is None:
        return np.zeros(len(sessions), np.bool_)
    days = pd.DatetimeIndex(sessions)
    found = np.isin(days.day_of_week + 1, when.get("weekdays", ())) | np.isin(
        days.month, when.get("months", ())
    )
    if "sessions" not in when:
        return found
    end = days[-1] + pd.offsets.BMonthEnd(0)  # a weekday: a calendar ends with a session
    known = sessions_of(days[0].replace(day=1), end, exchange=_EXCHANGES[market])
    of_month = pd.Series(0, known).groupby([known.year, known.month])
    for places in (of_month.cumcount() + 1, -1 - of_month.cumcount(ascending=False)):
        found |= np.isin(places.reindex(days), when["sessions"])
    return found


def last_of_each(rows: Any) -> Any:
    """The last 1 or -1 of each column, 0 without one."""
    backwards = rows[::-1]
    places = (np.abs(backwards) == 1).argmax(axis=0)
    found = backwards[places, np.arange(rows.shape[1])]
    return np.where(np.abs(found) == 1, found, 0)


def _periods(sessions: Any, when: Schedule) -> Any:
    days = sessions.astype("datetime64[D]")
    if when == "week_start":
        return (days.astype(np.int64) + _NEW_WEEK) // 7
    months = days.astype("datetime64[M]").astype(np.int64)
    return months if when == "month_start" else months // 3


@lru_cache(maxsize=64)
def _session_before(session: Any, exchange: str) -> Any:
    """The exchange's session before one; the same one where the calendar does not reach."""
    day = pd.Timestamp(session)
    try:
        known = sessions_of(day - pd.Timedelta(days=20), day - pd.Timedelta(days=1), exchange=exchange)
    except BadWindow:
        return session
    return known[-1].to_datetime64() if len(known) else session
