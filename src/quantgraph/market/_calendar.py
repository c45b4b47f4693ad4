"""Sessions of an exchange, from ``exchange_calendars``; past their end an error."""

from __future__ import annotations

import threading
import warnings
from functools import lru_cache
from typing import Any

import pandas as pd

from quantgraph.errors import BadOption, BadWindow
from quantgraph.market._moment import session_of

_SAME_SESSIONS = {"XSHE": "XSHG", "BJSE": "XSHG"}
"""Shenzhen and Beijing trade on Shanghai's days; the library has no calendars of theirs."""

_START_WITHOUT_BOUND = "1990-01-01"


def sessions(start: object, end: object, *, exchange: str = "XSHG") -> pd.DatetimeIndex:
    """Sessions from ``start`` to ``end``, both inclusive.

    Parameters
    ----------
    start, end
        Anything :func:`~quantgraph.market.session_of` reads; they need not be sessions.
    exchange
        Market identifier code: ``XSHG``, ``XSHE``, ``BJSE``, ``XNYS``, ...

    Returns
    -------
    pandas.DatetimeIndex
        Naive ``datetime64[us]``, ascending, named ``trade_date``; empty if there is none.

    Raises
    ------
    BadWindow
        If the window is reversed, or outside of the calendar.
    BadOption
        If the exchange is not known.

    Examples
    --------
    >>> [f"{day:%m-%d}" for day in sessions("2025-09-29", "2025-10-10")]
    ['09-29', '09-30', '10-09', '10-10']
    """
    first, last = session_of(start, name="start"), session_of(end, name="end")
    if first > last:
        raise BadWindow(f"start={first:%Y-%m-%d} is after end={last:%Y-%m-%d}", parameter="start")
    known = _known(exchange)
    for name, day in (("start", first), ("end", last)):
        if not known[0] <= day <= known[-1]:
            raise BadWindow(
                f"{name}={day:%Y-%m-%d} is outside what the {exchange} calendar knows; it runs from "
                f"{known[0]:%Y-%m-%d} to {known[-1]:%Y-%m-%d}",
                parameter=name,
            )
    return known[known.searchsorted(first) : known.searchsorted(last, side="right")]


def _known(exchange: str) -> pd.DatetimeIndex:
    with _LOADING:
        return _load(exchange)


# Loading takes half a second and changes warning filters, which belong to the whole process.
_LOADING = threading.Lock()


@lru_cache(maxsize=16)
def _load(exchange: str) -> pd.DatetimeIndex:
    import exchange_calendars  # half a second that only calendar questions pay
    from exchange_calendars.errors import InvalidCalendarName

    name = _SAME_SESSIONS.get(exchange, exchange)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # the library's own, about pandas 4
            # Without a start the library begins twenty years before today.
            bound: Any = exchange_calendars.get_calendar(name).bound_min()
            calendar = exchange_calendars.get_calendar(name, start=bound or _START_WITHOUT_BOUND)
    except InvalidCalendarName as error:
        raise BadOption(
            f"exchange={exchange!r} is not a known market identifier code; for example XSHG, XSHE, XNYS",
            parameter="exchange",
        ) from error
    return pd.DatetimeIndex(calendar.sessions.to_numpy().astype("datetime64[us]"), name="trade_date")
