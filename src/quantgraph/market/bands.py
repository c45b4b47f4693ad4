"""Price bands of the mainland exchanges: the limits of a session by board, day and status."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from functools import cache
from typing import Any

from quantgraph.errors import BadOption, BadWindow
from quantgraph.market.boards import FundKind, board_of, exchange_of
from quantgraph.market.dated_rules import DatedValues, load_rules

__all__ = ["ListingStatus", "limits", "tick"]

Band = tuple[Decimal, Decimal]
"""Shares of the previous close, up and down."""


@dataclass(frozen=True, kw_only=True)
class ListingStatus:
    """What the data says of a symbol on a day; sessions count from 1.

    Attributes
    ----------
    st
        ST or *ST on that day.
    listing_day
        1 on the first session after the listing; None when it is long ago or not known.
    delisting_day
        1 on the first session of the delisting period; None outside of it.
    """

    st: bool = False
    listing_day: int | None = None
    delisting_day: int | None = None

    def __post_init__(self) -> None:
        for name in ("listing_day", "delisting_day"):
            day = getattr(self, name)
            if day is not None and day < 1:
                raise BadOption(f"{name}={day}; sessions count from 1", parameter=name)


@dataclass(frozen=True, kw_only=True)
class _FirstSessions:
    """The band of new shares: for so many sessions, where the listing is not before ``since``."""

    since: dt.date
    sessions: int
    band: Band | None

    def covers(self, listing_day: int, day: dt.date) -> bool:
        # Shares listed before the row keep the rules of their listing. Each row that speaks of several
        # sessions begins on a Monday of a full week, so days and sessions since it are the same number.
        return listing_day <= min(self.sessions, (day - self.since).days + 1)


def limits(
    symbol: str, day: dt.date, pre_close: Decimal, status: ListingStatus, kind: FundKind | None
) -> tuple[Decimal, Decimal] | None:
    """Upper and lower limit: ``pre_close * (1 ± band)``, half up to the tick; None without a band.

    Where the rules say so a limit is at least one tick away from ``pre_close`` (SZSE since 2011-02-28, SSE
    since 2023-04-10); the lower one is never below one tick. ``kind`` is the fund's, None for shares.

    Raises
    ------
    BadWindow
        If a table does not reach back to the day, or does not know the answer on it.
    BadOption
        If ``pre_close`` is not above 0.
    """
    if pre_close <= 0:
        raise BadOption(f"pre_close={pre_close} of {symbol}; above 0 is wanted", parameter="pre_close")
    board = board_of(symbol)
    venue = f"main_{exchange_of(symbol)}" if board == "main" else board
    band = _fund(symbol, day, kind) if kind else _share(board, venue, day, status)
    if band is None:
        return None
    step = tick(symbol, day)
    upper, lower = (
        (pre_close * factor).quantize(step, rounding=ROUND_HALF_UP) for factor in (1 + band[0], 1 - band[1])
    )
    if _one_tick(exchange_of(symbol), day, delisting=status.delisting_day is not None):
        upper, lower = max(upper, pre_close + step), min(lower, pre_close - step)
    return upper, max(lower, step)


def tick(symbol: str, day: dt.date) -> Decimal:
    """Smallest step of a price, in CNY."""
    return _decimals("tick", "fund" if board_of(symbol) == "fund" else "stock").on(day)


def _share(board: str, venue: str, day: dt.date, status: ListingStatus) -> Band | None:
    if status.delisting_day is not None:
        first, later = _delisting(venue).on(day)
        return _known(first if status.delisting_day == 1 else later, venue, day)
    if status.listing_day is not None:
        new = _listing(venue).on(day)
        if new.covers(status.listing_day, day):
            return new.band
    band = _decimals("band", f"{board}_st" if status.st and board in {"main", "chinext"} else board).on(day)
    return band, band


def _fund(symbol: str, day: dt.date, kind: FundKind) -> Band:
    name = f"fund_20_{exchange_of(symbol)}" if kind == "stock_20" else "fund"
    band = _decimals("band", name).on(day)
    return band, band


def _known(text: str, venue: str, day: dt.date) -> Band | None:
    if text == "unknown":
        raise BadWindow(
            f"the band of {venue} in a delisting period on {day} depends on when the period began, which the "
            "rulebook does not know; give up_limit and down_limit in the data",
            day=str(day),
        )
    return None if text == "none" else (Decimal(text), Decimal(text))


def _one_tick(exchange: str, day: dt.date, *, delisting: bool) -> bool:
    tables = load_rules("cn")["one_tick"]
    names = (exchange, f"{exchange}_delisting") if delisting else (exchange,)
    return any(row["since"] <= day for name in names for row in tables.get(name, ()))


@cache
def _decimals(table: str, name: str) -> DatedValues[Decimal]:
    what = "price band" if table == "band" else table
    return DatedValues(f"{what} of {name}", load_rules("cn")[table][name], lambda row: Decimal(row["value"]))


@cache
def _delisting(venue: str) -> DatedValues[tuple[str, str]]:
    rows = load_rules("cn")["delisting"][venue]
    return DatedValues(
        f"price band of {venue} in a delisting period", rows, lambda row: (row["first"], row["later"])
    )


@cache
def _listing(venue: str) -> DatedValues[_FirstSessions]:
    return DatedValues(
        f"price band of {venue} after a listing", load_rules("cn")["listing"][venue], _first_sessions
    )


def _first_sessions(row: Mapping[str, Any]) -> _FirstSessions:
    band = (Decimal(row["up"]), Decimal(row["down"])) if "up" in row else None
    return _FirstSessions(since=row["since"], sessions=row["sessions"], band=band)
