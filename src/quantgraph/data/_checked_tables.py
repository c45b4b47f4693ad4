"""Long tables with checked cells, merged, and corporate actions placed on the sessions of the bars.

Every error names the file, the row and the column.

Known tables are tushare's ``dividend``, Polygon's exports, and bars with such columns of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pandas as pd

from quantgraph._util.texts import Note
from quantgraph.data._source import EVENT_FIELDS, Panel, long_to_panel, session_index
from quantgraph.data._table_columns import bad_cell, row_name
from quantgraph.data._table_dates import read_dates
from quantgraph.data._table_numbers import read_numbers
from quantgraph.data.symbols._codes import (
    is_code,
    is_index_code,
    mainland_code,
    possible_codes,
    standard_code,
)
from quantgraph.errors import BadFile
from quantgraph.market.actions import actions_of
from quantgraph.state import Record

PRICE_TOLERANCE = 1e-4
"""Largest relative difference between two files' prices of one symbol and session."""

TableKind = Literal["bars", "extras", "events", "indicators", "members", "names"]

_KEYS = ["ts_code", "trade_date"]
_NO_ROWS = pd.DataFrame({"ts_code": pd.Series(dtype="str"), "trade_date": pd.Series(dtype="datetime64[us]")})
_PRICES = ("open", "high", "low", "close", "pre_close", "up_limit", "down_limit", *EVENT_FIELDS[:3])
_VALID_CODE = "write a code such as 600519.SH"


@dataclass(frozen=True, kw_only=True)
class CheckedTable:
    """Checked rows of one kind, under tushare's column names, and the file they came from.

    ``read_as`` says which column was taken for what, and in which unit it was; ``withheld`` are fields that
    are not read, with the error for who needs them.
    """

    kind: TableKind
    file: str
    rows: pd.DataFrame
    read_as: tuple[Note, ...] = ()
    withheld: Mapping[str, BadFile] = field(default_factory=dict)


def read_codes(column: pd.Series, file: str, *, shares_only: bool = False) -> pd.Series:
    """Symbols in tushare's form, from any of the usual ones; six bare digits by the exchanges' numbering."""
    if pd.api.types.is_float_dtype(column) and (column.dropna() % 1 == 0).all():
        column = column.astype("Int64")
    codes = column.astype("str").str.strip().str.removeprefix("'")  # it makes Excel keep the zeros
    empty = np.flatnonzero(column.isna().to_numpy() | (codes == "").to_numpy(dtype=bool))
    if len(empty):
        raise bad_cell(file, column, int(empty[0]), f"is empty; {_VALID_CODE}")
    written = codes.unique()
    meant: dict[str, str] = {}
    for code in written:
        found = full_codes(code, shares_only=shares_only) if is_code(code) else ()
        if len(found) != 1:
            reason = f"may be {' or '.join(found)}; write which" if found else _no_code(code)
            raise bad_cell(file, column, int((codes == code).argmax()), f"{code!r:.40} {reason}")
        meant[code] = found[0]
    if all(code == full for code, full in meant.items()):
        return codes
    return codes.map(meant)


def hold_codes(column: pd.Series) -> bool:
    """Whether all cells but empty ones are codes with an exchange of China: such a column is the symbol."""
    if pd.api.types.is_numeric_dtype(column) or column.isna().all():
        return False
    return all(isinstance(code, str) and mainland_code(code) for code in column.dropna().unique())


def full_codes(code: str, *, shares_only: bool = False) -> tuple[str, ...]:
    """Codes that a text may mean; none if its zeros are lost. Codes of other markets stay as written.

    >>> [full_codes(code) for code in ("sz000001", "000001", "1", "brk-b", "HK.00700")]
    [('000001.SZ',), ('000001.SZ', '000001.SH'), (), ('brk-b',), ('00700.HK',)]
    """
    standard = standard_code(code)
    if standard != code.upper() or mainland_code(code):  # it was written in another form
        return (standard,)
    if code.isascii() and code.isdecimal():
        codes = possible_codes(code) if len(code) == 6 else ()
        if shares_only:
            codes = tuple(each for each in codes if not is_index_code(each))
        return codes or ((code,) if len(code) >= 6 else ())
    return (code,)


def _no_code(code: str) -> str:
    if is_code(code):
        return f"is not a code: has it lost its leading zeros? {_VALID_CODE}"
    return f"is not a code; {_VALID_CODE}"


def unique_rows(table: pd.DataFrame, keys: Sequence[str], file: str, valid: str) -> pd.DataFrame:
    """Drop repeated equal rows. ``valid`` ends the message about two rows that differ."""
    if not table.duplicated(subset=list(keys)).any():
        return table
    table = table.drop_duplicates()
    repeated = np.flatnonzero(table.duplicated(subset=list(keys)).to_numpy())
    if not len(repeated):
        return table
    second = int(repeated[0])
    same = (table[list(keys)] == table[list(keys)].iloc[second]).all(axis=1)
    first = int(np.argmax(same.to_numpy()))
    one, other = table.iloc[first].astype("object"), table.iloc[second].astype("object")
    differing = [
        str(name) for name in table.columns[(one.ne(other) & ~(one.isna() & other.isna())).to_numpy()]
    ]
    key = " ".join(f"{x:%Y-%m-%d}" if isinstance(x, pd.Timestamp) else str(x) for x in other[list(keys)])
    raise BadFile(
        f"{file}, {row_name(table, first)} and {row_name(table, second)}: {key} is there twice with "
        f"different {', '.join(differing)}; {valid}",
        file=file,
        columns=tuple(differing),
    )


def merge_tables(tables: Sequence[CheckedTable]) -> tuple[pd.DataFrame, tuple[Note, ...]]:
    """One row a (symbol, session); each cell from the first table that has it."""
    if not tables:
        return _NO_ROWS, ()
    if len(tables) == 1:
        return tables[0].rows, ()
    files = [table.file for table in tables]
    rows = pd.concat(
        [table.rows.assign(_file=number) for number, table in enumerate(tables)], ignore_index=True
    )
    shared = rows.duplicated(subset=_KEYS, keep=False)
    if not shared.any():
        return rows.drop(columns="_file"), ()
    common = rows[shared]
    notes = _disagreements(common, files)
    merged = common.drop(columns="_file").groupby(_KEYS, sort=False, as_index=False).first()
    return pd.concat([rows[~shared].drop(columns="_file"), merged], ignore_index=True), notes


def _disagreements(common: pd.DataFrame, files: Sequence[str]) -> tuple[Note, ...]:
    notes = []
    groups = common.groupby(_KEYS, sort=False)
    for name in common.columns.difference([*_KEYS, "_file"], sort=False):
        values = common[name]
        first = groups[name].transform("first")
        differs = ((values - first).abs() > PRICE_TOLERANCE * first.abs()).to_numpy()
        if not differs.any():
            continue
        other = common.iloc[int(np.argmax(differs))]
        if name in _PRICES:
            raise _price_conflict(common, other, name, files)
        cell = f"{other['ts_code']} {other['trade_date']:%Y-%m-%d}"
        count, file = int(differs.sum()), files[other["_file"]]
        notes.append(
            Note(
                zh=f"有 {count} 行的 {name} 各文件不同，例如 {file} 中的 {cell}；采用文件名在前的",
                en=f"{name} of {count} rows differs between files, for example {cell} in {file}; the first "
                "file by name is used",
            )
        )
    return tuple(notes)


def _price_conflict(common: pd.DataFrame, other: pd.Series, field: str, files: Sequence[str]) -> BadFile:
    same = (common["ts_code"] == other["ts_code"]) & (common["trade_date"] == other["trade_date"])
    one = common[same & common[field].notna()].iloc[0]
    return BadFile(
        f"{files[one['_file']]} and {files[other['_file']]} disagree: {field} of {other['ts_code']} on "
        f"{other['trade_date']:%Y-%m-%d} is {one[field]:g} and {other[field]:g}; keep one of the two",
        files=(files[one["_file"]], files[other["_file"]]),
        cell=(other["ts_code"], other["trade_date"], field),
    )


_AMOUNTS = EVENT_FIELDS[:3]  # fields that make an event; the others are its dates
_DATES = {
    "action_declared": ("imp_ann_date", "declaration_date", "ann_date"),
    "action_record": ("record_date",),
    "action_pay": ("pay_date",),
}
_COLUMN_NAMES: dict[str, tuple[str, ...]] = {
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
_IMPLEMENTED = "实施"
_VISIBLE_SPLIT = 1.5  # from this ratio on the open of the ex-date tells whether prices are adjusted for it

# Rounded: sums and products of decimals are decimals again (0.1 + 0.2 is 0.3).
_COMBINE: dict[str, Callable[[Any], pd.Series]] = {
    **dict.fromkeys(EVENT_FIELDS, lambda group: group.max()),
    "dividend": lambda group: group.sum(min_count=1).round(10),
    "split": lambda group: group.prod(min_count=1).round(12),
}


def event_columns(columns: Sequence[object]) -> dict[str, str]:
    """Columns of an event table by their meaning; columns without a meaning are left out."""
    lower = {str(column).strip().lower(): str(column) for column in columns}
    found = {
        meaning: lower[next(name for name in names if name in lower)]
        for meaning, names in _COLUMN_NAMES.items()
        if any(name in lower for name in names)
    }
    # Tushare's ann_date is the announcement of the plan, which has no ex-date yet.
    if "div_proc" in found and "imp_ann_date" not in lower:
        found.pop("action_declared", None)
    return found


def is_event_table(columns: Sequence[object]) -> bool:
    """Whether the columns are a symbol, an ex-date and an amount."""
    found = event_columns(columns).keys()
    amount = {"dividend", "split", "stk_div"} & found or {"split_from", "split_to"} <= found
    daily = {"trade_date", "date"} & {str(column).strip().lower() for column in columns}
    return {*_KEYS} <= found and bool(amount) and not daily


def events_from_table(table: pd.DataFrame, file: str) -> list[pd.DataFrame]:
    """Dividends and splits of an event table, one frame per amount, one row a symbol and ex-date.

    Columns ``ts_code``, ``trade_date`` (the ex-date), one of ``dividend``, ``split``, ``delisting``, and the
    ``action_*`` dates of the table (numbers ``YYYYMMDD``, NaN if unknown). Of tushare's table only
    implemented rows count (``div_proc`` 实施).
    """
    names = event_columns(list(table.columns))
    rows = table.drop_duplicates()[list(names.values())].set_axis(list(names), axis=1)
    if "div_proc" in rows:
        rows = rows[rows["div_proc"].astype("str").str.strip() == _IMPLEMENTED]
    currencies = sorted(set(rows["currency"].dropna())) if "currency" in rows else []
    if len(currencies) > 1:
        raise BadFile(f"{file} has amounts in {', '.join(currencies)}; keep one currency", file=file)
    return events_from_rows(rows[_fill_gaps(rows["trade_date"])], file)


def events_from_rows(rows: pd.DataFrame, file: str) -> list[pd.DataFrame]:
    """Events of rows in canonical columns: ``trade_date`` is the ex-date, dates are ``action_*``.

    Returns and raises as :func:`events_from_table`.
    """
    keys = {
        "ts_code": read_codes(rows["ts_code"], file, shares_only=True),
        "trade_date": read_dates(rows["trade_date"], file),
    }
    dates = {name: _day_numbers(rows[name], file) for name in _DATES if name in rows}
    amounts = {"dividend": _cash(rows, file), "split": _ratio(rows, file)}
    if "delisting" in rows:
        amounts["delisting"] = read_numbers(rows["delisting"], file, "quantity")
    return [
        combine_events(pd.DataFrame(keys | {field: values} | dates)[values.notna()])
        for field, values in amounts.items()
        if values is not None
    ]


def combine_events(rows: pd.DataFrame) -> pd.DataFrame:
    """Combine events of one symbol and day: cash adds up, ratios multiply.

    The record and pay dates are the latest ones, and so is the declaration; it is unknown when that of one
    of the events is.
    """
    groups = rows.fillna({"action_declared": np.inf}).groupby(_KEYS, sort=False)
    columns = {field: combine(groups[field]) for field, combine in _COMBINE.items() if field in rows}
    return pd.DataFrame(columns).replace({np.inf: np.nan}).reset_index()


def events_on_sessions(
    tables: Sequence[CheckedTable], sessions: pd.DatetimeIndex, symbols: Sequence[str]
) -> tuple[pd.DataFrame, tuple[Note, ...]]:
    """Events of the symbols inside the sessions' window, one row a symbol and session, and notes.

    An ex-date that is not a session counts on the next one.
    """
    rows, notes = _merge(tables, symbols)
    rows, late = _without_late_dates(rows[rows["trade_date"].between(sessions[0], sessions[-1])])
    if late:
        notes.append(
            Note(
                zh=f"{late} 个事件的公告日晚于除权除息日，公告日未采用",
                en=f"{late} actions are declared after their ex-date; that date is left out",
            )
        )
    rows = rows.assign(trade_date=sessions[sessions.searchsorted(rows["trade_date"])])
    return combine_events(rows), tuple(notes)


def events_off_sessions(
    tables: Sequence[CheckedTable], sessions: pd.DatetimeIndex, symbols: Sequence[str]
) -> Panel:
    """Events of the symbols before and after the sessions' window, as a panel over their ex-dates."""
    rows, _ = _merge(tables, symbols)
    rows, _ = _without_late_dates(rows[~rows["trade_date"].between(sessions[0], sessions[-1])])
    return long_to_panel(combine_events(rows), EVENT_FIELDS, session_index(rows["trade_date"]), symbols)


def action_records(panel: Panel) -> tuple[Record, ...]:
    """Dividends and splits of a panel as records, each known from its declaration on, or from its ex-date.

    What a run fetches of the panel ends with its window; a record is fetched as soon as it is known.
    """
    return tuple(
        Record(
            "action",
            action.ex.to_pydatetime()
            if action.declared is None or action.declared >= action.ex
            else action.declared.date(),
            action.symbol,
            {"ex": f"{action.ex:%Y-%m-%d}", "cash": str(action.cash), "ratio": str(action.ratio)},
        )
        for action in actions_of(panel)
        if action.cash or action.ratio != 1
    )


def _merge(tables: Sequence[CheckedTable], symbols: Sequence[str]) -> tuple[pd.DataFrame, list[Note]]:
    """The rows of the symbols of all tables, and notes on where the tables disagree."""
    parts: list[pd.DataFrame] = []
    notes: list[Note] = []
    for name in _AMOUNTS:
        merged, disagreements = merge_tables([table for table in tables if name in table.rows])
        parts.append(merged)
        notes += disagreements
    rows = pd.concat([part for part in parts if len(part.columns) > 2] or parts, ignore_index=True)
    return rows[rows["ts_code"].isin(symbols)], notes


def _without_late_dates(rows: pd.DataFrame) -> tuple[pd.DataFrame, int]:
    """The rows without declarations after the ex-date, which are impossible, and how many there were."""
    if "action_declared" not in rows:
        return rows, 0
    late = rows["action_declared"] > _as_number(rows["trade_date"])
    return rows.assign(action_declared=rows["action_declared"].mask(late)), int(late.sum())


def drop_adjusted_splits(rows: pd.DataFrame, bars: Panel) -> tuple[pd.DataFrame, tuple[Note, ...]]:
    """Drop splits that the prices are already adjusted for, with a note that lists them.

    Adjusted prices do not move by the split on its ex-date: the open is nearer to the previous close than to
    the split price. A ratio below 3:2 looks like a market move and stays.
    """
    if "split" not in rows:
        return rows, ()
    before, after = bars["close"].ffill().shift(), bars["open"].bfill()
    place = (
        before.index.get_indexer(pd.DatetimeIndex(rows["trade_date"])),
        before.columns.get_indexer(pd.Index(rows["ts_code"])),
    )
    expected = np.log(rows["split"].to_numpy())
    moved = np.log(before.to_numpy()[place] / after.to_numpy()[place])
    adjusted = (np.abs(expected) >= np.log(_VISIBLE_SPLIT) - 1e-12) & (moved / expected < 1 / 2)
    if not adjusted.any():
        return rows, ()
    listed = ", ".join(f"{row.ts_code} {row.trade_date:%Y-%m-%d}" for row in rows[adjusted].itertuples())
    note = Note(
        zh=f"价格已按这些拆分复权，因此没有采用它们：{listed}",
        en=f"prices are adjusted already for these splits, which are left out: {listed}",
    )
    kept = rows.assign(split=rows["split"].mask(adjusted))
    return kept[kept[[field for field in _AMOUNTS if field in rows]].notna().any(axis=1)], (note,)


def _fill_gaps(column: pd.Series) -> pd.Series:
    return column.notna() & (column.astype("str").str.strip() != "")


def _day_numbers(column: pd.Series, file: str) -> pd.Series:
    return _as_number(read_dates(column[_fill_gaps(column)], file)).reindex(column.index)


def _as_number(dates: pd.Series) -> pd.Series:
    """``YYYYMMDD`` as float64."""
    numbers: pd.Series = (dates.dt.year * 10_000 + dates.dt.month * 100 + dates.dt.day).astype("float64")
    return numbers


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
