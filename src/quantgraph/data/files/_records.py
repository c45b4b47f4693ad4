"""Reading records from files: news as JSON lines, quarterly filings as a table."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd

from quantgraph._util.values import is_number
from quantgraph.data._checked_tables import read_codes
from quantgraph.data._table_dates import read_dates
from quantgraph.data._table_numbers import read_numbers
from quantgraph.data.symbols._codes import is_code
from quantgraph.errors import BadFile, UnknownSymbol
from quantgraph.market import exchange_time, exchange_zone, in_zone
from quantgraph.state import Record, RecordKind

FILING_NUMBERS: tuple[str, ...] = (
    "revenues",
    "net_income_loss",
    "basic_earnings_per_share",
    "diluted_earnings_per_share",
    "basic_average_shares",
    "diluted_average_shares",
)
"""Numbers of a filing's body."""

_SYMBOLS = ("ts_code", "symbol", "ticker")
_TIMES = ("published_at", "epoch", "published_utc", "datetime", "time_published")
"""Keys of a news item's time; the first one that has a value counts."""
_TEXTS = ("title", "description", "publisher", "id")
_TEXT_LIMIT = 100_000
_FILED = ("filing_date", "annual_filing_date")
_FILING_COLUMNS = ("fiscal_year", "fiscal_period", "start_date", "end_date", *_FILED, *FILING_NUMBERS)
_DAY = re.compile(r"\d{4}-?\d{2}-?\d{2}")
_TIME = re.compile(r"\d{4}-?\d{2}-?\d{2}[T ]\d{2}:?\d{2}.*")
_VALID_TIME = 'write 2025-03-03T08:30:00Z, or a date, or "epoch" in seconds since 1970'


@dataclass(frozen=True, kw_only=True)
class FileRecord:
    """A record as a file has it: an instant has a zone, which may differ from the exchange's."""

    kind: RecordKind
    known: date | None
    symbol: str
    body: Mapping[str, Any]
    place: str


def is_news(documents: Sequence[tuple[str, Any]]) -> bool:
    """Whether JSON documents are news: the first one has a title, and a symbol or a time."""
    first = documents[0][1]
    return isinstance(first, dict) and "title" in first and bool({*_SYMBOLS, *_TIMES} & first.keys())


def is_feed(documents: Sequence[tuple[str, Any]]) -> bool:
    """Whether JSON documents are answers of Alpha Vantage's ``NEWS_SENTIMENT``, as AI-Trader keeps them."""
    first = documents[0][1]
    return isinstance(first, dict) and isinstance(first.get("feed"), list)


def read_feed(
    documents: Iterable[tuple[str, Any]], file: str, zone: ZoneInfo | None
) -> tuple[FileRecord, ...]:
    """News of a feed, one for each share that an article's ``ticker_sentiment`` names.

    The vendor does not say in which zone its times are. Of UTC and New York the latter is later, so that no
    story is known too early. Currencies (``CRYPTO:BTC``) and codes of exchanges that are not known are left
    out. What the feed says of sentiment is not read: nothing tells when it was computed.
    """
    items = (
        (f"{where}, feed item {place}", each)
        for where, document in documents
        for place, each in enumerate(_feed_of(document, f"{file}, {where}", file), 1)
    )
    plain = ((where, each) for where, item in items for each in _of_article(item, f"{file}, {where}", file))
    return read_news(plain, file, zone or ZoneInfo("America/New_York"))


def _feed_of(document: Any, place: str, file: str) -> list[Any]:
    feed = document.get("feed") if isinstance(document, dict) else None
    if not isinstance(feed, list):
        raise BadFile(f'{place}: it has no list "feed"', file=file)
    return feed


def _of_article(item: Any, place: str, file: str) -> list[dict[str, Any]]:
    """An article as a news item for each of its shares, or for none."""
    named = item.get("ticker_sentiment", []) if isinstance(item, dict) else None
    if not isinstance(named, list) or not all(isinstance(each, dict) for each in named):
        raise BadFile(f'{place}: an article needs "title", "time_published", "ticker_sentiment"', file=file)
    article = {
        **{name: item[name] for name in ("title",) if name in item},
        "description": item.get("summary"),
        "publisher": item.get("source"),
        "id": item.get("url"),
        "time_published": item.get("time_published"),
    }
    tickers = [each["ticker"] for each in named if each.get("ticker") is not None]
    for ticker in tickers:
        if not isinstance(ticker, str):
            raise BadFile(f"{place}: ticker={ticker!r:.60} is not a code", file=file)
    shares = [each for each in dict.fromkeys(tickers) if _is_known_share(each)]
    return [{**article, "ticker": each} for each in shares or [None]]


def _is_known_share(ticker: str) -> bool:
    if ":" in ticker:
        return False
    try:
        return bool(exchange_zone(ticker)) if is_code(ticker) else True  # what is not a code is an error
    except UnknownSymbol:
        return False


def read_news(
    documents: Iterable[tuple[str, Any]], file: str, zone: ZoneInfo | None
) -> tuple[FileRecord, ...]:
    """News items, one a document."""
    return tuple(_news(document, f"{file}, {where}", file, zone) for where, document in documents)


def _news(document: Any, place: str, file: str, zone: ZoneInfo | None) -> FileRecord:
    if not isinstance(document, dict) or "title" not in document:
        raise BadFile(f'{place}: a news item needs a "title"', file=file)
    key = next((name for name in _SYMBOLS if name in document), None)
    if key is None:
        raise BadFile(
            f'{place}: a news item needs a "ticker", "symbol" or "ts_code"; null if it is about none',
            file=file,
        )
    symbol = document[key] or ""
    if not isinstance(symbol, str) or (symbol and not is_code(symbol)):
        raise BadFile(f"{place}: {key}={symbol!r:.40} is not a code; write 600519.SH or AAPL", file=file)
    return FileRecord(
        kind="news",
        known=_known(document, place, file, zone),
        symbol=symbol,
        body={name: _text(document.get(name), name, place, file) for name in _TEXTS},
        place=place,
    )


def _text(value: Any, name: str, place: str, file: str) -> str:
    if value is not None and (isinstance(value, bool) or not isinstance(value, str | int)):
        raise BadFile(f"{place}: {name} must be a text", file=file)
    if isinstance(value, str) and len(value) > _TEXT_LIMIT:
        raise BadFile(f"{place}: {name} has more than {_TEXT_LIMIT:,} characters", file=file)
    return "" if value is None else str(value)


def _known(document: dict[str, Any], place: str, file: str, zone: ZoneInfo | None) -> date | None:
    """When an item was published: an instant in UTC, a day, or None if it has no time."""
    key = next((name for name in _TIMES if document.get(name) not in (None, "")), None)
    if key is None:
        return None
    value, where = document[key], f"{place}: {key}={document[key]!r:.40}"
    if is_number(value):
        return _of_epoch(value, where, file)
    text = value.strip() if isinstance(value, str) else ""
    day, time = _DAY.fullmatch(text), _TIME.fullmatch(text)
    if not (day or time):
        raise BadFile(f"{where} is not a time; {_VALID_TIME}", file=file)
    try:
        if day:
            return date.fromisoformat(text)
        instant = datetime.fromisoformat(text)
        if instant.tzinfo is not None:
            return instant.astimezone(UTC)
        if zone is not None:
            return in_zone(instant, zone)
    except (ValueError, OverflowError) as error:
        raise BadFile(f"{where} is not a time of the calendar; {_VALID_TIME}", file=file) from error
    raise BadFile(
        f'{where} has no time zone; write one behind it, such as "Z" or "+08:00", or say which one is meant: '
        'record_zone="Asia/Shanghai" in [tables] of the settings',
        file=file,
    )


def _of_epoch(value: float, where: str, file: str) -> datetime:
    try:
        if value > 0:
            return datetime.fromtimestamp(value, UTC)
    except (ValueError, OverflowError, OSError):
        pass
    raise BadFile(f"{where} is not a time in seconds since 1970", file=file)


def filing_columns(columns: Sequence[object]) -> dict[str, str]:
    """Columns of a table of filings by their meaning; ``symbol`` is the code's."""
    lower = {str(column).strip().lower(): str(column) for column in columns}
    found = {name: lower[name] for name in _FILING_COLUMNS if name in lower}
    code = next((name for name in _SYMBOLS if name in lower), None)
    return found if code is None else {"symbol": lower[code], **found}


def is_filing_table(columns: Sequence[object]) -> bool:
    """Whether the columns are a symbol, a fiscal period or a filing date, and a number of a filing."""
    found = filing_columns(columns).keys()
    dated = {"fiscal_period", *_FILED} & found
    return "symbol" in found and bool(dated) and bool({*FILING_NUMBERS} & found)


def read_filings(table: pd.DataFrame, file: str) -> tuple[FileRecord, ...]:
    """Quarterly filings, one a row: known at the end of their filing date.

    That is ``filing_date``, else ``annual_filing_date``; with neither, or with one that is not after the end
    of the period, a filing is never known.
    """
    if table.empty:
        raise BadFile(f"{file} has a header and no row", file=file)
    names = filing_columns(list(table.columns))
    rows = table[list(names.values())].set_axis(list(names), axis=1)
    codes = read_codes(rows["symbol"], file)
    days = {name: _days(rows, name, file) for name in ("start_date", "end_date", *_FILED)}
    numbers = {name: _numbers(rows, name, file) for name in ("fiscal_year", *FILING_NUMBERS)}
    periods = rows["fiscal_period"].fillna("").astype("str").str.strip() if "fiscal_period" in rows else None
    records = []
    for place, code in enumerate(codes):
        where, end = f"{file}, row {place + 1}", days["end_date"][place]
        filed = days["filing_date"][place] or days["annual_filing_date"][place]
        body: dict[str, Any] = {
            "fiscal_year": _year(numbers["fiscal_year"][place], where, file),
            "fiscal_period": "" if periods is None else periods.iloc[place],
            **{name: str(days[name][place] or "") for name in ("start_date", "end_date")},
            **{name: numbers[name][place] for name in FILING_NUMBERS},
        }
        known = None if filed is None or (end is not None and filed <= end) else filed
        records.append(FileRecord(kind="filing", known=known, symbol=code, body=body, place=where))
    return tuple(records)


def _days(rows: pd.DataFrame, name: str, file: str) -> list[date | None]:
    days: list[date | None] = [None] * len(rows)
    if name in rows:
        filled = rows[name].notna() & (rows[name].astype("str").str.strip() != "")
        for place, day in zip(np.flatnonzero(filled), read_dates(rows[name][filled], file), strict=True):
            days[place] = day.date()
    return days


def _numbers(rows: pd.DataFrame, name: str, file: str) -> list[float | None]:
    if name not in rows:
        return [None] * len(rows)
    return [None if np.isnan(number) else number for number in read_numbers(rows[name], file).tolist()]


def _year(number: float | None, where: str, file: str) -> int | None:
    if number is not None and not number.is_integer():
        raise BadFile(f"{where}, column fiscal_year: {number:g} is not a year", file=file)
    return None if number is None else int(number)


def to_records(found: Iterable[FileRecord], symbols: Iterable[str]) -> tuple[Record, ...]:
    """Records whose instants are in the local time of their symbol's exchange.

    One about no symbol has the latest of the local times of ``symbols``.
    """
    zones: dict[str, tuple[ZoneInfo, ...]] = {}
    records = []
    for each in found:
        known = each.known
        if isinstance(known, datetime):
            if each.symbol not in zones:
                zones[each.symbol] = _zones([each.symbol] if each.symbol else symbols, each)
            known = max(exchange_time(known, zone) for zone in zones[each.symbol])
        records.append(Record(each.kind, known, each.symbol, dict(each.body)))
    return tuple(records)


def _zones(symbols: Iterable[str], of: FileRecord) -> tuple[ZoneInfo, ...]:
    try:
        return tuple({zone.key: zone for zone in map(exchange_zone, symbols)}.values())
    except UnknownSymbol as error:
        raise BadFile(
            f"{of.place}: the time zone of the exchange of {error.data.get('symbol')} is not known, so its "
            "records can be dated by days only",
            file=of.place.partition(",")[0],
        ) from error
