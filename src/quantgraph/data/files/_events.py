"""Reading dividends and splits from tables with an ex-date: tushare's ``dividend``, Polygon's, or alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from quantgraph.data.files._cells import read_codes, read_dates, read_numbers
from quantgraph.data.protocol import EVENT_FIELDS
from quantgraph.errors import BadFile

__all__ = ["AMOUNTS", "combined", "event_columns", "events_of", "is_events", "read_events"]

AMOUNTS: tuple[str, ...] = EVENT_FIELDS[:3]
"""Fields that make an event; the others are its dates."""

_DATES = {
    "action_declared": ("imp_ann_date", "declaration_date", "ann_date"),
    "action_record": ("record_date",),
    "action_pay": ("pay_date",),
}
_NAMES: dict[str, tuple[str, ...]] = {
    "ts_code": ("ts_code", "symbol", "ticker"),
    "trade_date": ("ex_date", "ex_dividend_date", "execution_date"),
    "dividend": ("dividend", "cash", "cash_amount", "cash_div_tax"),
    "split": ("split",),
    "split_from": ("split_from",),
    "split_to": ("split_to",),
    "stk_div": ("stk_div",),
    "currency": ("currency",),
    "div_proc": ("div_proc",),
    **_DATES,
}
_CARRIED_OUT = "实施"
_KEYS = ["ts_code", "trade_date"]


def event_columns(columns: Sequence[object]) -> dict[str, str]:
    """Meaning and column of those that mean something in a table of events."""
    lower = {str(column).strip().lower(): str(column) for column in columns}
    found = {
        meaning: lower[next(name for name in names if name in lower)]
        for meaning, names in _NAMES.items()
        if any(name in lower for name in names)
    }
    # Tushare's ann_date is that of the plan, which has no ex-date yet.
    if "div_proc" in found and "imp_ann_date" not in lower:
        found.pop("action_declared", None)
    return found


def is_events(columns: Sequence[object]) -> bool:
    """Whether columns are a symbol, an ex-date and an amount."""
    found = event_columns(columns).keys()
    amount = {"dividend", "split", "stk_div"} & found or {"split_from", "split_to"} <= found
    daily = {"trade_date", "date"} & {str(column).strip().lower() for column in columns}
    return {*_KEYS} <= found and bool(amount) and not daily


def read_events(table: pd.DataFrame, file: str) -> list[pd.DataFrame]:
    """Dividends and splits of a table, one frame for each amount that it speaks of.

    Of tushare's table the rows that are carried out (``div_proc`` 实施) count. Rows without an ex-date
    cannot be placed and are left out. Several of one symbol and ex-date are :func:`combined`; a row that
    repeats another in every column is the same event. A dividend of 0 and a split of 0 or 1 are none.

    Returns
    -------
    list of DataFrame
        Columns ``ts_code``, ``trade_date`` (the ex-date), one of :data:`AMOUNTS`, and ``action_*`` as far
        as the table has such dates (numbers ``YYYYMMDD``, NaN if unknown); one row a symbol and ex-date.

    Raises
    ------
    BadFile
        At the first cell that is no code, date or possible amount, or if there are two currencies.
    """
    names = event_columns(list(table.columns))
    rows = table.drop_duplicates()[list(names.values())].set_axis(list(names), axis=1)
    if "div_proc" in rows:
        rows = rows[rows["div_proc"].astype("str").str.strip() == _CARRIED_OUT]
    currencies = sorted(set(rows["currency"].dropna())) if "currency" in rows else []
    if len(currencies) > 1:
        raise BadFile(f"{file} has amounts in {', '.join(currencies)}; keep one currency", file=file)
    return events_of(rows[_filled(rows["trade_date"])], file)


def events_of(rows: pd.DataFrame, file: str) -> list[pd.DataFrame]:
    """Do the same for rows whose ``trade_date`` is the ex-date, and whose dates are called ``action_*``."""
    keys = {"ts_code": read_codes(rows["ts_code"], file), "trade_date": read_dates(rows["trade_date"], file)}
    dates = {name: _day_numbers(rows[name], file) for name in _DATES if name in rows}
    amounts = {"dividend": _cash(rows, file), "split": _ratio(rows, file), "delisting": _paid(rows, file)}
    frames = (
        pd.DataFrame(keys | {field: values} | dates)[values.notna()]
        for field, values in amounts.items()
        if values is not None
    )
    return [combined(frame) for frame in frames]


def combined(rows: pd.DataFrame) -> pd.DataFrame:
    """Put events of one symbol and day together.

    Cash adds up and ratios multiply. Paid is on the later date; declared as well, and on no known date
    if that of one of them is unknown.
    """
    groups = rows.fillna({"action_declared": np.inf}).groupby(_KEYS, sort=False)
    # Sums of decimals are decimals again: 0.1 + 0.2 is 0.3.
    how: dict[str, Any] = {
        "dividend": lambda column: column.sum(min_count=1).round(10),
        "split": lambda column: column.prod(min_count=1).round(12),
    }
    columns = {
        field: how[field](groups[field]) if field in how else groups[field].max()
        for field in EVENT_FIELDS
        if field in rows
    }
    return pd.DataFrame(columns).replace({np.inf: np.nan}).reset_index()


def _day_numbers(column: pd.Series, file: str) -> pd.Series:
    days = read_dates(column[_filled(column)], file).dt
    numbers: pd.Series = (days.year * 10_000 + days.month * 100 + days.day).astype("float64")
    return numbers.reindex(column.index)


def _filled(column: pd.Series) -> pd.Series:
    return column.notna() & (column.astype("str").str.strip() != "")


def _cash(rows: pd.DataFrame, file: str) -> pd.Series | None:
    if "dividend" not in rows:
        return None
    cash = read_numbers(rows["dividend"], file, "quantity")
    return cash.where(cash > 0)


def _ratio(rows: pd.DataFrame, file: str) -> pd.Series | None:
    if {"split_from", "split_to"} <= set(rows):
        after, before = (read_numbers(rows[name], file, "price") for name in ("split_to", "split_from"))
        ratio = after / before
    elif "split" in rows:
        ratio = read_numbers(rows["split"], file, "quantity")
    elif "stk_div" in rows:
        ratio = 1 + read_numbers(rows["stk_div"], file, "quantity")
    else:
        return None
    return ratio.where((ratio != 1) & (ratio > 0))


def _paid(rows: pd.DataFrame, file: str) -> pd.Series | None:
    return read_numbers(rows["delisting"], file, "quantity") if "delisting" in rows else None
