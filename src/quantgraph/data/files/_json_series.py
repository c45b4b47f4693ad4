"""JSON documents, and the daily series that some of them are.

A daily bar has Alpha Vantage's keys (``1. open``) or AI-Trader's own (``1. buy price``). The newest bar may
hold the open only: of a day that has just opened, nothing else is known.
"""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from quantgraph.data.files._unpacked import open_unpacked
from quantgraph.errors import BadFile

SURROGATE = re.compile(r"[\ud800-\udfff]")
"""Half of a surrogate pair: text that cannot be written as UTF-8."""

_DAILY = "Time Series (Daily)"
_KEYS: dict[str, tuple[str, ...]] = {
    "open": ("1. open", "1. buy price"),
    "high": ("2. high",),
    "low": ("3. low",),
    "close": ("4. close", "4. sell price"),
    "volume": ("5. volume",),
}


def read_documents(path: Path, max_bytes: int, *, lines: bool) -> list[tuple[str, Any]]:
    """Each JSON document of a file with its position, for messages; ``lines`` means one document a line."""
    documents = list(_documents(path, max_bytes, lines=lines))
    if not documents:
        raise BadFile(f"{path.name} is empty", file=path.name, unreadable=True)
    return documents


def is_daily_series(document: Any) -> bool:
    """Whether a JSON document is a symbol's daily series."""
    return (
        isinstance(document, dict)
        and isinstance(document.get("Meta Data"), dict)
        and isinstance(document.get(_DAILY), dict)
    )


def missing_keys(documents: Sequence[tuple[str, Any]]) -> str:
    """Message about the first document that is not a daily series."""
    where, document = next((place, each) for place, each in documents if not is_daily_series(each))
    keys = ", ".join(map(str, list(document)[:4])) if isinstance(document, dict) else type(document).__name__
    return f'{where} has no "Meta Data" and "{_DAILY}" (it has: {keys})'


def read_daily_series(documents: Sequence[tuple[str, Any]], file: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Bars (``ts_code, trade_date, open .. close, volume``) and names (``ts_code, name``).

    Rows are labelled by symbol and date, for messages about their cells.
    """
    records: list[dict[str, Any]] = []
    names: list[dict[str, str]] = []
    for where, document in documents:
        meta = document["Meta Data"]
        symbol = str(meta.get("2. Symbol") or "").strip()
        if not symbol:
            raise BadFile(f'{file}, {where}: "Meta Data" has no "2. Symbol"', file=file)
        if not document[_DAILY]:
            raise BadFile(f'{file}, {where}: "{_DAILY}" of {symbol} is empty', file=file)
        records.extend(_bar(symbol, date, bar, file) for date, bar in document[_DAILY].items())
        if meta.get("2.1. Name"):
            names.append({"ts_code": symbol, "name": str(meta["2.1. Name"])})
    labels = [f"{record['ts_code']} {record['trade_date']}" for record in records]
    return pd.DataFrame(records, index=labels), pd.DataFrame(names, columns=["ts_code", "name"])


def _bar(symbol: str, date: str, bar: Any, file: str) -> dict[str, Any]:
    if not isinstance(bar, dict) or not any(key in bar for key in _KEYS["open"]):
        raise BadFile(
            f'{file}, {symbol} {date}: a bar needs "1. open" or "1. buy price"; '
            'valid too: "2. high", "3. low", "4. close" or "4. sell price", "5. volume"',
            file=file,
        )
    values = {field: next((bar[key] for key in keys if key in bar), None) for field, keys in _KEYS.items()}
    return {"ts_code": symbol, "trade_date": date, **values}


def _documents(path: Path, max_bytes: int, *, lines: bool) -> Iterator[tuple[str, Any]]:
    text = _text(path, max_bytes)
    # Not splitlines(): a text in JSON may hold other separators of lines than this one.
    pieces = enumerate(text.split("\n"), 1) if lines else iter([(0, text)])
    for number, piece in pieces:
        where = f"line {number}" if lines else "the document"
        if not piece.strip():
            continue
        try:
            document = json.loads(piece)
        except json.JSONDecodeError as error:
            place = f"line {number if lines else error.lineno}"
            raise BadFile(f"{path.name}, {place}: not JSON: {error.msg}", file=path.name) from error
        except (ValueError, RecursionError) as error:  # a number of thousands of digits, or brackets
            raise BadFile(f"{path.name}, {where}: not readable: {error}", file=path.name) from error
        if "\\ud" in piece.lower() and SURROGATE.search(json.dumps(document, ensure_ascii=False)):
            raise BadFile(f"{path.name}, {where}: a \\u escape is half of a surrogate pair", file=path.name)
        yield where, document


def _text(path: Path, max_bytes: int) -> str:
    try:
        with open_unpacked(path, max_bytes) as file:
            return file.read().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadFile(f"{path.name} is not UTF-8 text; save it as UTF-8", file=path.name) from error
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise BadFile(f"{path.name} is not a complete gzip file", file=path.name) from error
