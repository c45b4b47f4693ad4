"""Reading records from files: news as JSON lines, quarterly filings as a table."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import Any

import numpy as np
import pandas as pd

from quantgraph._util.texts import Note
from quantgraph._util.values import is_number
from quantgraph.data._checked_tables import read_codes
from quantgraph.data._table_dates import read_dates
from quantgraph.data._table_numbers import read_numbers
from quantgraph.data.symbols._codes import is_code
from quantgraph.errors import BadFile
from quantgraph.market import FeedZones, instant_of, local_zone
from quantgraph.market.rules import find_board
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
_LATIN = re.compile(r"[\x80-\xff]")  # "é"
_DAY = re.compile(r"\d{4}-?\d{2}-?\d{2}")  # "2024-01-02"
_TIME = re.compile(r"\d{4}-?\d{2}-?\d{2}[T ]\d{2}:?\d{2}.*")  # "2024-01-02 15:00"
_STOCKBENCH = {"MarketWatch": "America/New_York", "Yahoo": "UTC"}
"""What StockBench's news prove of their feeds, where the vendor says nothing of them.

MarketWatch's stamps have a ``Z`` and are wall time of New York: all its headlines of a drop or rally of the
Dow lie between 09:45 and 15:55, before and after the change to summer time. A story of Yahoo stands in a
second feed with the same second.
"""
_OF_STOCKBENCH = "published_utc_as_stored"
"""A key that StockBench's news alone have."""
_VALID_TIME = 'write 2025-03-03T08:30:00Z, or a date, or "epoch" in seconds since 1970'


@dataclass(frozen=True, kw_only=True)
class FileRecord:
    """A record as a file has it: its stamp, and what is declared of the zones of stamps."""

    kind: RecordKind
    stamp: date | None
    zones: FeedZones
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


def read_feed(documents: Iterable[tuple[str, Any]], file: str, zones: FeedZones) -> tuple[FileRecord, ...]:
    """News of a feed, one for each share that an article's ``ticker_sentiment`` names.

    The vendor does not say in which zone its times are. Currencies (``CRYPTO:BTC``) and codes of exchanges
    that are not known are left out. What the feed says of sentiment is not read: nothing tells when it was
    computed.
    """
    items = (
        (f"{where}, feed item {place}", each)
        for where, document in documents
        for place, each in enumerate(_feed_of(document, f"{file}, {where}", file), 1)
    )
    plain = ((where, each) for where, item in items for each in _of_article(item, f"{file}, {where}", file))
    return read_news(plain, file, zones)


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
    return ":" not in ticker and (not is_code(ticker) or bool(find_board(ticker)))  # no code is an error


def read_news(documents: Iterable[tuple[str, Any]], file: str, zones: FeedZones) -> tuple[FileRecord, ...]:
    """News items, one a document."""
    return tuple(_news(document, f"{file}, {where}", file, zones) for where, document in documents)


def _news(document: Any, place: str, file: str, zones: FeedZones) -> FileRecord:
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
        stamp=_stamp(document, place, file),
        zones=FeedZones({**_STOCKBENCH, **zones.zones}) if _OF_STOCKBENCH in document else zones,
        symbol=symbol,
        body={name: _text(document.get(name), name, place, file) for name in _TEXTS},
        place=place,
    )


def _text(value: Any, name: str, place: str, file: str) -> str:
    if value is not None and (isinstance(value, bool) or not isinstance(value, str | int)):
        raise BadFile(f"{place}: {name} must be a text", file=file)
    if isinstance(value, str) and len(value) > _TEXT_LIMIT:
        raise BadFile(f"{place}: {name} has more than {_TEXT_LIMIT:,} characters", file=file)
    return "" if value is None else _mended(str(value))


def _mended(text: str) -> str:
    """A text whose UTF-8 was read as Latin-1, as it was written; any other one as it is.

    >>> _mended("S&P 500Â®"), _mended("KILZ® paint")
    ('S&P 500®', 'KILZ® paint')
    """
    if not _LATIN.search(text):
        return text
    try:
        return text.encode("latin-1").decode("utf-8")
    except UnicodeError:
        return text


def _stamp(document: dict[str, Any], place: str, file: str) -> date | None:
    """The time of an item as it is written: an instant with a zone or without, a day, or None."""
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
        return datetime.fromisoformat(text)
    except ValueError as error:
        raise BadFile(f"{where} is not a time of the calendar; {_VALID_TIME}", file=file) from error


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
        records.append(
            FileRecord(
                kind="filing", stamp=known, zones=FeedZones.EXCHANGE_TIME, symbol=code, body=body, place=where
            )
        )
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


def to_records(found: Iterable[FileRecord], symbols: Collection[str]) -> tuple[Record, ...]:
    """Records, dated by what their stamps prove in the local time of their symbol's exchange.

    One about no symbol has the latest of the local times of ``symbols``.
    """
    everywhere = {local_zone(symbol) for symbol in symbols}
    return tuple(Record(each.kind, _known(each, everywhere), each.symbol, dict(each.body)) for each in found)


def _known(record: FileRecord, everywhere: Collection[tzinfo]) -> date | None:
    stamp, zones = record.stamp, [local_zone(record.symbol)] if record.symbol else everywhere
    if stamp is None:
        return None
    feed = record.body.get("publisher") or ""
    try:
        return max((record.zones.known(feed, stamp, zone) for zone in zones), key=instant_of)
    except OverflowError as error:
        file = record.place.partition(",")[0]
        raise BadFile(f"{record.place}: {stamp} is not a time of the calendar", file=file) from error


_FIRST, _LAST = time(9, 30), time(16)
"""Hours of an exchange, about: New York's."""
_OF_SESSION = re.compile(  # "午盘"
    r"\d-point (?:drop|rally|climb|jump|gain|loss|fall)|\b(?:gains|losses) lead\b|\bmidday\b|午盘|盘中",
    re.IGNORECASE,
)
_OF_CLOSE = re.compile(r"\b(?:closes|ends|finishes) (?:at|up|down|higher|lower)\b|收盘|收于", re.IGNORECASE)
_FEWEST_STAMPS, _FEWEST_TEXTS = 20, 2
_FAR_AHEAD = timedelta(days=7)


def stamp_notes(file: str, records: Sequence[FileRecord], last: date) -> Iterator[Note]:
    """What is strange about the stamps of news, by publisher: nothing is shown or hidden for it.

    Parameters
    ----------
    last
        The last session of the data.
    """
    feeds: dict[str, list[FileRecord]] = {}
    for each in records:
        if each.kind == "news" and isinstance(each.stamp, datetime):
            feeds.setdefault(each.body["publisher"], []).append(each)
    for feed, items in sorted(feeds.items()):
        yield from _feed_notes(f"{file}: {feed}" if feed else file, items, last + _FAR_AHEAD)
    found = sum(map(len, feeds.values()))
    unknown = {feed: len(items) for feed, items in sorted(feeds.items()) if not _declared(items[0])}
    if unknown:
        count, names = sum(unknown.values()), ", ".join(filter(None, unknown)) or "-"
        yield Note(
            zh=f"{file}：{found} 条新闻中有 {count} 条未声明时区（{names}），当日结束才算已知；"
            "可用 record_zone 声明",
            en=f"{file}: {count} of {found} news are of publishers whose time zone is not declared ({names}) "
            "and are known at the end of their day; record_zone declares one",
        )


def _feed_notes(name: str, items: Sequence[FileRecord], latest: date) -> Iterator[Note]:
    speaking = [each for each in items if _OF_SESSION.search(_title(each)) or _OF_CLOSE.search(_title(each))]
    outside = [each for each in speaking if _is_outside(each)]
    if len(outside) >= max(_FEWEST_TEXTS, len(speaking) / 4):
        yield Note(
            zh=f"{name}：{len(speaking)} 条讲到交易时段的新闻有 {len(outside)} 条不在时段内，"
            f"例如 {_example(outside[0])}；请检查 record_zone",
            en=f"{name}: {len(outside)} of {len(speaking)} news that speak of the session are stamped out "
            f"of its hours, such as {_example(outside[0])}; is record_zone right?",
        )
    if len(items) >= _FEWEST_STAMPS and all(map(_looks_local, items)):
        yield Note(
            zh=f"{name}：写作 UTC 的 {len(items)} 个时间都在 09:30 到 16:00 内，可能是当地时间，"
            f"例如 {_example(items[0])}",
            en=f"{name}: all {len(items)} stamps, written as UTC, lie between 09:30 and 16:00; they "
            f"may be local time of the exchange, such as {_example(items[0])}",
        )
    if ahead := [each for each in items if _read(each).date() > latest]:
        yield Note(
            zh=f"{name}：{len(ahead)} 条新闻的时间晚于最后一个交易日一周以上，例如 {_example(ahead[0])}",
            en=f"{name}: {len(ahead)} news are stamped more than a week after the last session, such as "
            f"{_example(ahead[0])}",
        )


def _example(record: FileRecord) -> str:
    return f"“{_title(record)[:80]}” ({_read(record):%Y-%m-%d %H:%M})"


def _declared(record: FileRecord) -> bool:
    return isinstance(_known(record, [UTC]), datetime)


def _read(record: FileRecord) -> datetime:
    """A stamp in local time as it is declared, else as it is written."""
    known, at = _known(record, [UTC]), record.stamp
    if isinstance(known, datetime) or not isinstance(at, datetime):
        return instant_of(known)
    return at.astimezone(local_zone(record.symbol)).replace(tzinfo=None) if at.tzinfo else at


def _is_outside(record: FileRecord) -> bool:
    """Whether news of the session are stamped out of its hours, and news of its close before it."""
    at = _read(record).time()
    return at < _FIRST or (at > _LAST and not _OF_CLOSE.search(_title(record)))


def _looks_local(record: FileRecord) -> bool:
    """Whether a stamp that is written as UTC, and read so, would be in the exchange's hours as local time."""
    at = record.stamp
    if not isinstance(at, datetime) or at.utcoffset() != timedelta(0):
        return False
    return _FIRST <= at.time() <= _LAST and _read(record) != at.replace(tzinfo=None)


def _title(record: FileRecord) -> str:
    return str(record.body["title"])
