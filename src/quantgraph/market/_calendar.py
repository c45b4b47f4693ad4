"""Sessions of an exchange, from ``exchange_calendars``, past their end an error; and its clock.

Texts are dated in the local time of an exchange, as far as the zone of their stamps is known.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from functools import lru_cache
from typing import Any, ClassVar, Literal
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd

from quantgraph.errors import BadOption, BadWindow, UnknownSymbol
from quantgraph.market._moment import session_of
from quantgraph.market.rules._order_rules import board_of

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


Bar = Literal["daily", "weekly", "monthly", "irregular"]
"""What one row of bars is of."""
_DAY_GAPS, _WEEK_GAPS, _MONTH_GAPS = (0, 4), (5, 9), (25, 38)  # calendar days from a row to the next
_CALENDAR_YEAR, DAYS_IN_A_YEAR = 365.25, 252
_FEWEST_GAPS, _MOST_OTHERS = 6, 0.2


def bar_of(sessions: pd.DatetimeIndex) -> Bar:
    """What one row is of, by the days between the rows; a few rows are taken for days.

    >>> bar_of(pd.date_range("2024-01-05", periods=20, freq="W-FRI"))
    'weekly'
    """
    gaps = np.diff(sessions.to_numpy()) / np.timedelta64(1, "D")
    if len(gaps) < _FEWEST_GAPS:
        return "daily"
    kinds: tuple[tuple[Bar, tuple[int, int]], ...] = (
        ("daily", _DAY_GAPS),
        ("weekly", _WEEK_GAPS),
        ("monthly", _MONTH_GAPS),
    )
    for bar, (least, most) in kinds:
        if np.mean((gaps < least) | (gaps > most)) <= _MOST_OTHERS:
            return bar
    return "irregular"


def sessions_in_a_year(sessions: pd.DatetimeIndex) -> int:
    """Periods of yearly numbers: 252 of daily bars, as is usual, else as many as the rows make.

    >>> sessions_in_a_year(pd.date_range("2020-01-03", periods=260, freq="W-FRI"))
    52
    """
    if bar_of(sessions) == "daily":
        return DAYS_IN_A_YEAR
    days = (sessions[-1] - sessions[0]).days
    return max(1, round((len(sessions) - 1) * _CALENDAR_YEAR / days))


_MAINLAND = (".SH", ".SZ", ".BJ")


def exchange_zone(symbol: str) -> ZoneInfo:
    """Time zone of a symbol's exchange: mainland stocks and indices, or US symbols.

    Raises
    ------
    UnknownSymbol
        If the code belongs to none of these exchanges.

    Examples
    --------
    >>> exchange_zone("600519.SH").key, exchange_zone("000300.SH").key, exchange_zone("AAPL").key
    ('Asia/Shanghai', 'Asia/Shanghai', 'America/New_York')
    """
    if not symbol.endswith(_MAINLAND):
        board_of(symbol)  # of what has no mainland exchange, it knows the US alone
    return ZoneInfo("Asia/Shanghai" if symbol.endswith(_MAINLAND) else "America/New_York")


def local_zone(symbol: str) -> tzinfo:
    """Zone of a symbol's exchange; where it is not known, that in which a time of day is reached first."""
    try:
        return exchange_zone(symbol)
    except UnknownSymbol:
        return _FIRST_ZONE


_FIRST_ZONE, _LAST_ZONE = timezone(timedelta(hours=14)), timezone(timedelta(hours=-12))
"""Where the clocks of the world are ahead of all others, and behind."""


def surely_known(stamp: date, zone: tzinfo | Literal["stamp"] | None, exchange: tzinfo) -> date:
    """When a text is surely known at an exchange: a naive local instant, or a day, at whose end it is.

    A stamp proves an instant only with a zone that its source declares: there are feeds that write the wall
    time of New York with a ``Z``. A stamp that has another zone written behind it is read in both, and the
    later one counts; with ``"stamp"`` the one that is written counts alone.

    All else is known at the end of a day. In a declared zone that is the exchange's day in which the stamp's
    day ends there. In an unknown one nothing later can be meant than the stamp in ``UTC-12``, where clocks
    are behind all others: that instant is not before the true one, so the end of the exchange's day in which
    it lies is not either. The end of the day that is written may be: 20:00 of New York is tomorrow in
    Shanghai.

    Raises
    ------
    OverflowError
        If the calendar ends before.

    Examples
    --------
    >>> new_york, stamp = ZoneInfo("America/New_York"), datetime(2025, 3, 10, 9, 45, tzinfo=UTC)
    >>> surely_known(stamp, UTC, new_york), surely_known(stamp, new_york, new_york)
    (datetime.datetime(2025, 3, 10, 5, 45), datetime.datetime(2025, 3, 10, 9, 45))
    >>> surely_known(stamp, None, new_york), surely_known(stamp.replace(hour=16), None, new_york)
    (datetime.date(2025, 3, 10), datetime.date(2025, 3, 11))
    """
    at = stamp if isinstance(stamp, datetime) else datetime.combine(stamp, time.max)
    is_written = at.tzinfo is not None
    is_declared = zone is not None and (is_written or zone != "stamp")
    readings = [at] if is_written else []
    if not is_written or zone != "stamp":
        readings.append(in_zone(at.replace(tzinfo=None), zone if isinstance(zone, tzinfo) else _LAST_ZONE))
    local = exchange_time(max(readings), exchange)
    return local if is_declared and isinstance(stamp, datetime) else local.date()


@dataclass(frozen=True)
class FeedZones:
    """In which time zone the stamps of each feed are: what a source of texts declares of itself.

    Parameters
    ----------
    zones
        By feed, which is a publisher's name, or by ``"*"`` for all others: the name of a time zone;
        ``exchange``, the local time of the symbol's exchange; or ``stamp``, the one that is written behind
        each stamp. The zone of a feed that is not there is unknown.

    Raises
    ------
    BadOption
        If a zone is something else.
    """

    zones: Mapping[str, str] = field(default_factory=dict)
    EXCHANGE_TIME: ClassVar[FeedZones]
    """Of a source whose records have the local time of their exchange already."""

    def __post_init__(self) -> None:
        for zone in {*self.zones.values()} - {"exchange", "stamp"}:
            time_zone(zone, "record_zone")

    def known(self, feed: str, stamp: date, exchange: tzinfo) -> date:
        """When a text of a feed is known, see :func:`surely_known`."""
        name = self.zones.get(feed, self.zones.get("*"))
        zone = exchange if name == "exchange" else ZoneInfo(name) if name and name != "stamp" else None
        return surely_known(stamp, "stamp" if name == "stamp" else zone, exchange)


FeedZones.EXCHANGE_TIME = FeedZones({"*": "exchange"})


def exchange_time(instant: datetime, zone: tzinfo) -> datetime:
    """An instant with a zone as naive local time of an exchange.

    >>> exchange_time(datetime(2025, 3, 10, 13, 0, tzinfo=UTC), exchange_zone("AAPL"))
    datetime.datetime(2025, 3, 10, 9, 0)
    """
    return instant.astimezone(zone).replace(tzinfo=None, fold=0)


def in_zone(local: datetime, zone: tzinfo) -> datetime:
    """The instant of a naive local time; where the clock is set back or forth, the later one of two.

    >>> in_zone(datetime(2025, 11, 2, 1, 30), exchange_zone("AAPL"))
    datetime.datetime(2025, 11, 2, 6, 30, tzinfo=datetime.timezone.utc)
    """
    return max(local.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1))


def time_zone(name: str, parameter: str) -> ZoneInfo:
    """The time zone of a name.

    Raises
    ------
    BadOption
        If there is none.
    """
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        raise BadOption(
            f"{parameter}={name!r:.60} is not a time zone; valid is a name such as Asia/Shanghai or UTC",
            parameter=parameter,
        ) from error
