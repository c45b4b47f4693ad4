"""AI-Trader's JSON: one document a symbol, ``Meta Data`` and ``Time Series (Daily)``.

The daily bar's keys are Alpha Vantage's (``1. open``) or AI-Trader's own (``1. buy price``). Its
newest bar may hold the open only: that is what is known of a day that has just opened.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from quantgraph.errors import BadFile

__all__ = ["is_series", "read_series", "series_note"]

_DAILY = "Time Series (Daily)"
_KEYS: dict[str, tuple[str, ...]] = {
    "open": ("1. open", "1. buy price"),
    "high": ("2. high",),
    "low": ("3. low",),
    "close": ("4. close", "4. sell price"),
    "volume": ("5. volume",),
}


def is_series(document: Any) -> bool:
    """Whether a JSON document is a symbol's daily series."""
    return (
        isinstance(document, dict)
        and isinstance(document.get("Meta Data"), dict)
        and isinstance(document.get(_DAILY), dict)
    )


def series_note(documents: Sequence[tuple[str, Any]]) -> str:
    """Why documents are not daily series, naming the first that is not."""
    where, document = next((place, each) for place, each in documents if not is_series(each))
    keys = ", ".join(map(str, list(document)[:4])) if isinstance(document, dict) else type(document).__name__
    return f'{where} has no "Meta Data" and "{_DAILY}" (it has: {keys})'


def read_series(documents: Sequence[tuple[str, Any]], file: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Bars (``ts_code, trade_date, open .. close, volume``) and names (``ts_code, name``).

    Rows are labelled by symbol and date, for messages about their cells.

    Raises
    ------
    BadFile
        If a document has no symbol or no bar, or a bar is no object with an open.
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
