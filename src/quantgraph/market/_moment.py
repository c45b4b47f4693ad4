"""Moments: a session and a phase of it, at which data becomes known and orders are made.

Phases are ``pre_open < open < close < post_close``. Two tables decide what is known: ``KNOWN_FROM`` has the
phase of its own session from which a row of a field is known, ``PHASE_TIME`` the time of day before which a
text must be published.

Instants in the local time of the exchange on which a symbol is traded.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from typing import ClassVar, Literal, get_args
from zoneinfo import ZoneInfo

import pandas as pd

from quantgraph._util.texts import NewsUntil
from quantgraph.errors import BadOption, BadWindow, UnknownSymbol
from quantgraph.market.rules._order_rules import board_of

Phase = Literal["pre_open", "open", "close", "post_close"]
PHASES: tuple[Phase, ...] = get_args(Phase)

EVENT_AND_STATUS_FIELDS: tuple[str, ...] = (
    "dividend",
    "split",
    "delisting",
    "action_declared",
    "action_record",
    "action_pay",
    "is_st",
    "listing_day",
    "delisting_day",
)
"""Sparse fields of the ``ohlcv`` panel: events and status of a symbol."""

KNOWN_FROM: dict[tuple[str, str], Phase] = {
    ("ohlcv", "pre_close"): "pre_open",
    ("ohlcv", "up_limit"): "pre_open",
    ("ohlcv", "down_limit"): "pre_open",
    ("ohlcv", "adj_factor"): "pre_open",
    ("ohlcv", "open"): "open",
    ("index", "open"): "open",
    **{("ohlcv", name): "pre_open" for name in EVENT_AND_STATUS_FIELDS},
}
_KNOWN_FROM_DEFAULT: dict[str, Phase] = {
    "ohlcv": "close",
    "indicators": "post_close",
    "index": "close",
    "signal": "post_close",
}

PHASE_TIME: dict[Phase, timedelta] = {
    "pre_open": timedelta(0),
    "open": timedelta(hours=9),
    "close": timedelta(hours=15),
    "post_close": timedelta(days=1),
}
"""Time of day of each phase at the exchange: what was published before it is known in the phase.

Early on purpose: a text is not known before it could have been acted on. Mainland: the opening call auction
begins at 09:15, the closing one ends at 15:00 (Shanghai and Shenzhen trading rules 2023, chapter 3). New York
trades from 09:30 to 16:00. The day is over at midnight.
"""

_DAY = re.compile(r"\d{8}|\d{4}([-/])\d{1,2}\1\d{1,2}([ T]00:00:00)?")


def known_from(panel: str, field: str) -> Phase:
    """Phase of session *t* from which row *t* of ``panel[field]`` is known.

    >>> known_from("ohlcv", "open"), known_from("ohlcv", "close"), known_from("indicators", "pe")
    ('open', 'close', 'post_close')
    """
    return KNOWN_FROM.get((panel, field), _KNOWN_FROM_DEFAULT.get(panel, "post_close"))


def session_of(value: object, *, name: str = "session") -> pd.Timestamp:
    """Read a session label: ``20240102``, ``"2024-01-02"``, a date or a naive timestamp.

    Raises
    ------
    BadWindow
        If it is not a date, or carries a time zone or a time of day.
    """
    text = str(value).strip() if isinstance(value, int | str) else value
    try:
        # pandas reads "2024" as its first day and "January" as a day of the year 1.
        if isinstance(text, str) and not _DAY.fullmatch(text):
            raise ValueError(text)
        stamp = pd.Timestamp(text)  # type: ignore[arg-type]
    except (ValueError, TypeError) as error:
        raise BadWindow(
            f"{name}={value!r} is not a date; write YYYYMMDD or YYYY-MM-DD", parameter=name
        ) from error
    if pd.isna(stamp) or stamp.tz is not None or stamp != stamp.normalize():
        raise BadWindow(
            f"{name}={value!r} is not a plain date; sessions are naive dates at midnight, "
            "for example 2024-01-02",
            parameter=name,
        )
    return stamp.as_unit("us")


def instant_of(value: object, *, name: str = "known") -> datetime:
    """The instant from which a publication is known; of a date alone the last microsecond of the day.

    Parameters
    ----------
    value
        A naive ``datetime`` in the exchange's local time, or a ``date``.

    Raises
    ------
    BadOption
        If it is neither, or has a time zone.
    """
    if isinstance(value, datetime) and value.tzinfo is not None:
        raise BadOption(
            f"{name}={value.isoformat()} must be in the exchange's local time, without a time zone: "
            "value.astimezone(ZoneInfo('Asia/Shanghai')).replace(tzinfo=None), or the zone of that exchange",
            parameter=name,
        )
    if not isinstance(value, date) or pd.isna(value):
        raise BadOption(
            f"{name}={value!r:.60} must be a datetime in the exchange's local time or a date", parameter=name
        )
    if isinstance(value, pd.Timestamp):
        return value.ceil("us").to_pydatetime()
    return value if isinstance(value, datetime) else datetime.combine(value, time.max)


def sessions_between(sessions: pd.Index, first: pd.Timestamp, last: pd.Timestamp) -> pd.DatetimeIndex:
    """The part of ascending sessions from ``first`` to ``last``, both inclusive."""
    return pd.DatetimeIndex(sessions[(sessions >= first) & (sessions <= last)])


@dataclass(frozen=True, order=False)
class Moment:
    """A session and a phase of it.

    >>> Moment.at("20240102", "open") < Moment.at("20240102", "close") < Moment.at("20240103", "pre_open")
    True
    """

    session: pd.Timestamp
    phase: Phase = "post_close"

    def __post_init__(self) -> None:
        if self.phase not in PHASES:
            raise BadOption(f"phase={self.phase!r} is not one of {', '.join(PHASES)}")

    @classmethod
    def at(cls, session: object, phase: Phase = "post_close") -> Moment:
        """Moment from anything :func:`session_of` reads."""
        return cls(session_of(session), phase)

    @property
    def _key(self) -> tuple[pd.Timestamp, int]:
        return self.session, PHASES.index(self.phase)

    def __lt__(self, other: Moment) -> bool:
        return self._key < other._key

    def __le__(self, other: Moment) -> bool:
        return self._key <= other._key

    def __str__(self) -> str:
        return f"{self.session:%Y-%m-%d} {self.phase}"

    @property
    def timestamp(self) -> pd.Timestamp:
        """Its time in the exchange's local time, see :data:`PHASE_TIME`."""
        return self.session + PHASE_TIME[self.phase]

    def knows_published(self, published: date) -> bool:
        """Whether a publication of an instant or a day is known: it is strictly before the moment.

        >>> Moment.at("20240103", "open").knows_published(datetime(2024, 1, 3, 8, 59))
        True
        >>> Moment.at("20240103", "close").knows_published(date(2024, 1, 3))
        False

        Raises
        ------
        BadOption
            See :func:`instant_of`.
        """
        return bool(instant_of(published) < self.timestamp)

    def of_news(self, until: NewsUntil) -> Moment:
        """The moment before which a text must be published to be shown at this one.

        >>> str(Moment.at("20240103", "open").of_news("previous_day"))
        '2024-01-03 pre_open'
        """
        own_day_is_shown = until == "open" or self.phase == "post_close"
        return self if own_day_is_shown else Moment(self.session, "pre_open")

    def knows(self, panel: str, field: str) -> bool:
        """Whether this session's row of ``panel[field]`` is known at this moment."""
        return PHASES.index(known_from(panel, field)) <= PHASES.index(self.phase)


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
