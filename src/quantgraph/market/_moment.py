"""Moments: a session and a phase of it, at which data becomes known and orders are made.

Phases are ``pre_open < open < close < post_close``. Two tables decide what is known: ``KNOWN_FROM`` has the
phase of its own session from which a row of a field is known, ``PHASE_TIME`` the time of day before which a
text must be published.

Instants in the local time of the exchange on which a symbol is traded.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from typing import Literal, get_args

import pandas as pd

from quantgraph._util.texts import NewsUntil
from quantgraph.errors import BadOption, BadWindow

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
    **dict.fromkeys(("signal", "weights", "score"), "post_close"),
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

_DAY = re.compile(r"\d{8}|\d{4}([-/])\d{1,2}\1\d{1,2}([ T]00:00:00)?")  # "2024-01-02"


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
