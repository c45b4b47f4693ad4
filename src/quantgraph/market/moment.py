"""Moments: when something becomes known or is done.

A moment is a session and a phase of it, ``pre_open < open < close < post_close``. The table
``KNOWN_FROM`` says from which phase of its own session a row of a field may be seen; it is the
only place where this is decided.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, get_args

import pandas as pd

from quantgraph.errors import BadOption, BadWindow

__all__ = ["KNOWN_FROM", "PHASES", "Moment", "Phase", "between", "known_from", "session_of"]

Phase = Literal["pre_open", "open", "close", "post_close"]
PHASES: tuple[Phase, ...] = get_args(Phase)

_EVENTS_AND_STATUS = (
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
KNOWN_FROM: dict[tuple[str, str], Phase] = {
    ("ohlcv", "pre_close"): "pre_open",
    ("ohlcv", "up_limit"): "pre_open",
    ("ohlcv", "down_limit"): "pre_open",
    ("ohlcv", "adj_factor"): "pre_open",
    ("ohlcv", "open"): "open",
    **{("ohlcv", name): "pre_open" for name in _EVENTS_AND_STATUS},
}
_KNOWN_FROM_DEFAULT: dict[str, Phase] = {
    "ohlcv": "close",
    "indicators": "post_close",
    "signal": "post_close",
}


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
        # Pandas reads "2024" as its first day and "January" as one of the year 1: neither is meant.
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


def between(sessions: pd.Index, first: pd.Timestamp, last: pd.Timestamp) -> pd.DatetimeIndex:
    """Those of ascending sessions that lie from ``first`` to ``last``, both inclusive."""
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

    def knows(self, panel: str, field: str) -> bool:
        """Whether the row of this very session of ``panel[field]`` is known at this moment."""
        return PHASES.index(known_from(panel, field)) <= PHASES.index(self.phase)
