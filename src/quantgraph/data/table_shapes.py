"""Shapes of tables: wide ones and those with an index are made long, a row a symbol and session."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import pandas as pd

from quantgraph.data.column_names import column_names
from quantgraph.errors import BadFile

__all__ = ["long_table"]

_SYMBOL, _DATE = "Ticker", "Date"
"""Names of the columns that are made of a header's tickers and of an index of dates."""


def long_table(table: pd.DataFrame, file: str) -> pd.DataFrame:
    """Rows of sessions, or of symbols and sessions, with one header and a plain index.

    An index of dates, or of symbols and dates, becomes columns. Of a header of two levels, as yfinance gives
    it, one level has the fields and the other the tickers, which become a column.

    >>> prices = pd.DataFrame({"Close": [1.0, 2.0]}, index=pd.to_datetime(["2024-01-02", "2024-01-03"]))
    >>> long_table(prices, "prices").columns.tolist()
    ['Date', 'Close']

    Raises
    ------
    BadFile
        If the header has more levels, or none of them has the fields of daily bars.
    """
    if isinstance(table.columns, pd.MultiIndex):
        table = _stacked(table, file)
    names = _index_names(table.index)
    if not names:
        return table if _is_plain(table.index) else table.reset_index(drop=True)
    return table.set_axis(_index_of(table.index, names), axis=0).reset_index()


def _is_plain(index: pd.Index) -> bool:
    return isinstance(index, pd.RangeIndex) and index.start == 0 and index.step == 1


def _index_names(index: pd.Index) -> list[Hashable]:
    """Names of the columns that an index is turned into; none for one that only counts rows."""
    if isinstance(index, pd.MultiIndex):
        unnamed = [_DATE if _has_dates(index.get_level_values(level)) else _SYMBOL for level in (0, 1)]
        return [name if name is not None else unnamed[place] for place, name in enumerate(index.names[:2])]
    if index.name is not None and not isinstance(index, pd.RangeIndex):
        return [index.name]
    return [_DATE] if _has_dates(index) else []


def _index_of(index: pd.Index, names: Sequence[Hashable]) -> pd.Index:
    if isinstance(index, pd.MultiIndex):
        return index.droplevel(list(range(2, index.nlevels))).set_names(list(names))
    return index.rename(names[0])


def _has_dates(index: pd.Index) -> bool:
    return isinstance(index, (pd.DatetimeIndex, pd.PeriodIndex)) or pd.api.types.is_datetime64_any_dtype(
        index
    )


def _stacked(table: pd.DataFrame, file: str) -> pd.DataFrame:
    columns = table.columns
    levels = range(columns.nlevels) if columns.nlevels == 2 else ()
    fields = next((level for level in levels if _is_bars(columns.get_level_values(level))), None)
    if fields is None:
        shown = ", ".join(map(str, columns[:3]))
        raise BadFile(
            f"{file}: its header has {columns.nlevels} levels ({shown} …); valid: one level, or one of "
            "fields (open, high, low, close, volume) and one of symbols",
            file=file,
        )
    tickers = columns.get_level_values(1 - fields)
    parts = []
    for ticker in tickers.unique():
        part = table.loc[:, tickers == ticker]
        part = part.set_axis(part.columns.get_level_values(fields), axis=1).dropna(how="all")
        parts.append(part.assign(**{_SYMBOL: str(ticker)}))
    long: pd.DataFrame = pd.concat(parts)
    long.index.name, long.columns.name = table.index.name or _DATE, None
    return long


def _is_bars(names: pd.Index) -> bool:
    return {"open", "high", "low", "close"} <= set(column_names(names.unique()).fields)
