"""Which board a symbol is on, and which kind of fund it is, by its code.

What an order must satisfy: price band, tick, lots, size, day of resale, halts.
"""

from __future__ import annotations

import datetime as dt
import math
import re
import tomllib
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any, Generic, Literal, TypeVar, get_args

from quantgraph._util.canonical_json import content_hash
from quantgraph.errors import BadOption, BadWindow, UnknownSymbol

MarketCode = Literal["cn", "us"]
Row = Mapping[str, Any]
T = TypeVar("T")

_FILES: dict[MarketCode, str] = {"cn": "mainland.toml", "us": "us.toml"}


_assumed: ContextVar[dict[str, dt.date] | None] = ContextVar("assumed", default=None)


@contextmanager
def assumptions() -> Iterator[dict[str, dt.date]]:
    """Collect what is asked for a day before it is known, with the day since which it is."""
    found = dict[str, dt.date]()
    token = _assumed.set(found)
    try:
        yield found
    finally:
        _assumed.reset(token)


class DatedValues(Generic[T]):
    """Values of one table by the day since which they hold."""

    __slots__ = ("_since", "_values", "_what")

    def __init__(
        self, what: str, market: MarketCode, path: tuple[str, ...], read: Callable[[Row], T]
    ) -> None:
        rows: Any = load_rules(market)
        for name in path:
            rows = rows[name]
        self._what = what
        self._since: list[dt.date] = [row["since"] for row in rows]
        self._values = [read(row) for row in rows]

    def on(self, day: dt.date) -> T:
        """Value in force on a day; before the first row its value, see :func:`assumptions`."""
        place = bisect_right(self._since, day)
        if not place and (found := _assumed.get()) is not None:
            found[self._what] = self._since[0]
        return self._values[max(0, place - 1)]


def dated(what: str, market: MarketCode, path: tuple[str, ...], read: Callable[[Row], T]) -> DatedValues[T]:
    """:class:`DatedValues`, each read once."""
    return _dated(what, market, path, read)


_dated = cache(DatedValues)


def decimal_value(row: Row) -> Decimal:
    """The ``value`` of a row."""
    return Decimal(row["value"])


@cache
def load_rules(market: MarketCode) -> dict[str, Any]:
    """Tables of a market's rule file; must not be changed by the caller."""
    file = files("quantgraph.market").joinpath("_rules", _FILES[market])
    return tomllib.loads(file.read_text(encoding="utf-8"))


@cache
def rules_digest(market: MarketCode) -> str:
    """Short hash of a market's tables: equal digests are equal rules."""
    return content_hash(repr(load_rules(market)), size=8)


Board = Literal["main", "chinext", "star", "bse", "fund", "us"]

FundKind = Literal["stock", "stock_20", "bond", "gold", "commodity", "cross_border"]
"""``bond`` includes money-market funds; ``stock_20`` tracks only shares with a 20 % band."""

_US = re.compile(r"[A-Z]{1,5}([.-](?!(?<=\.)L$)(P?[A-Z]|PR[A-Z]|WS|WT|RT))?")
"""A class such as BRK.B; .L is London."""
_LONGEST_FIRST = (6, 3, 2)


@lru_cache(maxsize=2**14)
def board_of(symbol: str) -> Board:
    """Board of a symbol by its code.

    Mainland symbols are six digits and an exchange. US symbols are up to five capital letters, with a
    class, preferred share, warrant or right after a dot or hyphen where there is one.

    >>> [board_of(code) for code in ("600519.SH", "301001.SZ", "688981.SH", "920002.BJ", "510300.SH")]
    ['main', 'chinext', 'star', 'bse', 'fund']
    >>> board_of("AAPL"), board_of("BRK.B")
    ('us', 'us')
    """
    entry = _entry(symbol)
    if entry:
        return entry[0]
    if _US.fullmatch(symbol):
        return "us"
    raise UnknownSymbol(
        f"{symbol!r} is on no board of the rulebook; shares are written like 600519.SH, 000001.SZ, "
        "300750.SZ, 688981.SH, 920002.BJ, funds like 510300.SH, US symbols like AAPL or BRK.B",
        symbol=symbol,
    )


def find_board(symbol: str) -> Board | None:
    """Board of a symbol by its code, None if it is on none.

    >>> find_board("600519.SH"), find_board("000016.SH")
    ('main', None)
    """
    try:
        return board_of(symbol)
    except UnknownSymbol:
        return None


_ABROAD = "an exchange outside of mainland China and the US"
_ELSEWHERE = {
    r"\d{4,5}\.HK": ("Hong Kong", "HKD"),
    r"\d{4}\.TWO?": ("Taiwan", "TWD"),
    r"\d{4}\.T": ("Tokyo", "JPY"),
    r"\d{6}\.K[SQ]": ("Korea", "KRW"),
    r"[A-Z]{1,6}\.L": (_ABROAD, "GBP"),
    r"[A-Z]{1,6}\.(?:DE|F|PA|MI)": (_ABROAD, "EUR"),
    r"[A-Z]{1,6}\.(?:TO|V)": (_ABROAD, "CAD"),
    r"[A-Z]{1,6}\.AX": (_ABROAD, "AUD"),
    r"[A-Z]{1,6}\.SW": (_ABROAD, "CHF"),
    r"[A-Z0-9]{2,10}-USDT?": ("crypto", "USD"),
    r"[A-Z0-9]{2,10}-EUR": ("crypto", "EUR"),
    r"[A-Z0-9]{2,10}-BTC": ("crypto", "BTC"),
    r"900\d{3}\.SH": ("B shares", "USD"),
    r"200\d{3}\.SZ": ("B shares", "HKD"),
    r"1[0-3]\d{4}\.S[HZ]": ("bonds", "CNY"),
}
"""Codes of markets without rules here, with the market and its currency."""


def market_elsewhere(symbol: str) -> tuple[str, str] | None:
    """The market of a symbol and its currency, if there are no rules of it; None of others.

    >>> market_elsewhere("0700.HK"), market_elsewhere("BTC-USD"), market_elsewhere("AAPL")
    (('Hong Kong', 'HKD'), ('crypto', 'USD'), None)
    """
    if find_board(symbol):
        return None
    return next((market for code, market in _ELSEWHERE.items() if re.fullmatch(code, symbol)), None)


def fund_kind(symbol: str) -> FundKind:
    """Kind of a fund by its code; ``UnknownSymbol`` if its code segment holds funds of many kinds.

    >>> fund_kind("510300.SH"), fund_kind("510900.SH"), fund_kind("588000.SH")
    ('stock', 'cross_border', 'stock_20')
    """
    entry = _entry(symbol)
    kind = entry[1] if entry else None
    if kind is None:
        raise UnknownSymbol(
            f"the code of {symbol} does not tell what kind of fund it is; say it when the rulebook is made: "
            f"funds={{{symbol!r}: 'stock'}}, one of {', '.join(get_args(FundKind))}",
            symbol=symbol,
        )
    return kind


def exchange_of(symbol: str) -> str:
    """Exchange of a mainland symbol as the names of tables have it: ``sh``, ``sz``, ``bj``."""
    return symbol[-2:].lower()


def _entry(symbol: str) -> tuple[Board, FundKind | None] | None:
    digits, _, exchange = symbol.partition(".")
    if len(digits) != 6 or not (digits.isascii() and digits.isdecimal()):
        return None
    codes = _codes()
    found = (codes.get((exchange, digits[:length])) for length in _LONGEST_FIRST)
    return next(filter(None, found), None)


@cache
def _codes() -> dict[tuple[str, str], tuple[Board, FundKind | None]]:
    codes: dict[tuple[str, str], tuple[Board, FundKind | None]] = {}
    for row in load_rules("cn")["codes"]:
        kind = row.get("kind")
        entry = row["board"], None if kind == "unknown" else kind
        codes |= {(row["exchange"], prefix): entry for prefix in row["prefixes"]}
    return codes


OrderType = Literal["open", "close", "limit", "stop"]
"""In the opening auction, in the closing auction, with a limit price, or once a price is reached."""

Band = tuple[Decimal, Decimal]
"""Fractions of the previous close, up and down."""


@dataclass(frozen=True, kw_only=True)
class ListingStatus:
    """What the data says of a symbol on a day; sessions count from 1.

    Attributes
    ----------
    st
        ST or *ST on that day.
    listing_day
        1 on the first session after the listing; None if it is long ago or not known.
    delisting_day
        1 on the first session of the delisting period; None outside of it.
    """

    st: bool = False
    listing_day: int | None = None
    delisting_day: int | None = None

    @classmethod
    def of(cls, values: Mapping[str, float]) -> ListingStatus:
        """The status by ``is_st``, ``listing_day`` and ``delisting_day`` of a bar, NaN where unknown."""
        days = {name: values.get(name, math.nan) for name in ("listing_day", "delisting_day")}
        known = {name: None if math.isnan(value) else int(value) for name, value in days.items()}
        return cls(st=values.get("is_st") == 1, **known)

    def __post_init__(self) -> None:
        for name in ("listing_day", "delisting_day"):
            day = getattr(self, name)
            if day is not None and day < 1:
                raise BadOption(f"{name}={day} must be >= 1: sessions count from 1", parameter=name)


@dataclass(frozen=True, kw_only=True)
class Lots:
    """The smallest buy, and the step above it; what is left below it is sold in one piece."""

    first: int | Decimal
    step: int | Decimal


def limits(
    symbol: str, day: dt.date, pre_close: Decimal, status: ListingStatus, kind: FundKind | None
) -> tuple[Decimal, Decimal] | None:
    """Upper and lower limit: ``pre_close * (1 ± band)``, half up to the tick; None without a band.

    Where the rules say so a limit is at least one tick away from ``pre_close`` (SZSE since 2011-02-28, SSE
    since 2023-04-10); the lower one is never below one tick. ``kind`` is the fund's, None for shares.
    """
    if pre_close <= 0:
        raise BadOption(f"pre_close={pre_close} of {symbol} must be > 0", parameter="pre_close")
    board = board_of(symbol)
    venue = f"main_{exchange_of(symbol)}" if board == "main" else board
    band = _fund_band(symbol, day, kind) if kind else _share_band(board, venue, day, status)
    if band is None:
        return None
    step = tick(symbol, day)
    upper, lower = (
        (pre_close * factor).quantize(step, rounding=ROUND_HALF_UP) for factor in (1 + band[0], 1 - band[1])
    )
    if _at_least_one_tick(exchange_of(symbol), day, delisting=status.delisting_day is not None):
        upper, lower = max(upper, pre_close + step), min(lower, pre_close - step)
    return upper, max(lower, step)


def tick(symbol: str, day: dt.date) -> Decimal:
    """Smallest step of a mainland price, in CNY."""
    name = "fund" if board_of(symbol) == "fund" else "stock"
    return dated(f"tick of {name}", "cn", ("tick", name), decimal_value).on(day)


def us_tick(day: dt.date, price: Decimal) -> Decimal:
    """Smallest step of a US price, in USD (SEC Rule 612)."""
    from_one, below_one = dated("tick", "us", ("tick",), _us_ticks).on(day)
    return from_one if price >= 1 else below_one


def lots(symbol: str, day: dt.date) -> Lots:
    """Lots of a mainland symbol."""
    board = board_of(symbol)
    return dated(f"lots of {board}", "cn", ("lots", board), _lots).on(day)


def order_cap(symbol: str, day: dt.date) -> int:
    """Most shares in one limit order of a mainland symbol; auctions take limit orders alone."""
    board = board_of(symbol)
    return dated(f"largest order of {board}", "cn", ("cap", board), _integer).on(day)


def t_plus(symbol: str, day: dt.date, kind: FundKind | None) -> int:
    """Sessions between buying and selling a mainland symbol; ``kind`` is the fund's, None for shares."""
    name = "stock" if kind is None else f"fund_{kind.removesuffix('_20')}"
    if kind == "commodity":
        name = f"{name}_{exchange_of(symbol)}"
    return dated(f"day of resale of {name}", "cn", ("t_plus", name), _integer).on(day)


def market_halted(day: dt.date, type: OrderType) -> bool:  # noqa: A002 - the word for it
    """Whether the mainland's market was halted to the close, so that the closing price could not be traded.

    The circuit breaker of 2016-01-04 and 2016-01-07 came after the opening auction. A limit order meets the
    prices of the session, and those are all from before the halt.
    """
    return type == "close" and day in halt_days()


def _share_band(board: str, venue: str, day: dt.date, status: ListingStatus) -> Band | None:
    if status.delisting_day is not None:
        rule = dated(
            f"price band of {venue} in a delisting period", "cn", ("delisting", venue), _delisting_bands
        )
        first, later = rule.on(day)
        return _delisting_band(first if status.delisting_day == 1 else later, venue, day)
    if status.listing_day is not None:
        new = dated(f"price band of {venue} after a listing", "cn", ("listing", venue), _first_sessions)
        rule_of_day = new.on(day)
        if rule_of_day.covers(status.listing_day, day):
            return rule_of_day.band
    return _usual_band(f"{board}_st" if status.st and board in {"main", "chinext"} else board, day)


def _fund_band(symbol: str, day: dt.date, kind: FundKind) -> Band:
    return _usual_band(f"fund_20_{exchange_of(symbol)}" if kind == "stock_20" else "fund", day)


def _usual_band(name: str, day: dt.date) -> Band:
    band = dated(f"price band of {name}", "cn", ("band", name), decimal_value).on(day)
    return band, band


def _delisting_band(text: str, venue: str, day: dt.date) -> Band | None:
    if text == "unknown":
        raise BadWindow(
            f"the band of {venue} in a delisting period on {day} depends on when the period began, which the "
            "rulebook does not know; give up_limit and down_limit in the data",
            day=str(day),
        )
    return None if text == "none" else (Decimal(text), Decimal(text))


def _at_least_one_tick(exchange: str, day: dt.date, *, delisting: bool) -> bool:
    tables = load_rules("cn")["one_tick"]
    names = (exchange, f"{exchange}_delisting") if delisting else (exchange,)
    return any(row["since"] <= day for name in names for row in tables.get(name, ()))


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


def _first_sessions(row: Mapping[str, Any]) -> _FirstSessions:
    band = (Decimal(row["up"]), Decimal(row["down"])) if "up" in row else None
    return _FirstSessions(since=row["since"], sessions=row["sessions"], band=band)


def _delisting_bands(row: Mapping[str, Any]) -> tuple[str, str]:
    return row["first"], row["later"]


def _us_ticks(row: Mapping[str, Any]) -> tuple[Decimal, Decimal]:
    return Decimal(row["value"]), Decimal(row["below_one"])


def _lots(row: Mapping[str, Any]) -> Lots:
    return Lots(first=row["first"], step=row["step"])


def _integer(row: Mapping[str, Any]) -> int:
    return int(row["value"])


@cache
def halt_days() -> frozenset[dt.date]:
    """Days on which the mainland's market was halted."""
    return frozenset(row["day"] for row in load_rules("cn")["halts"])
