"""Reading one table of a file or of the caller, whatever its shape, into long form."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import pandas as pd

from quantgraph._util.texts import Note
from quantgraph.data._checked_tables import (
    CheckedTable,
    TableKind,
    events_from_rows,
    events_from_table,
    full_codes,
    hold_codes,
    is_event_table,
    read_codes,
    unique_rows,
)
from quantgraph.data._source import BAR_FIELDS, EVENT_FIELDS, INDICATOR_FIELDS, LEVEL_FIELDS, STATUS_FIELDS
from quantgraph.data._table_adjusted import BY_YAHOO, actions_in, adjusted_note, reference_of, traded_rows
from quantgraph.data._table_columns import TEXT_FIELDS, ColumnNames, bad_cell, column_names, is_harmless
from quantgraph.data._table_dates import DateOrder, are_day_numbers, dates_in_order, hold_dates
from quantgraph.data._table_names import NamedSymbol, symbol_in
from quantgraph.data._table_numbers import NumberKind, plain_numbers, read_numbers
from quantgraph.data._table_units import TableUnits, unit_changes, units_of
from quantgraph.data.symbols._codes import mainland_code
from quantgraph.errors import BadFile
from quantgraph.market.rules import find_board
from quantgraph.settings import TableOptions

_EXTRAS = BAR_FIELDS[7:]
_BARS = tuple(field for field in BAR_FIELDS if field not in EVENT_FIELDS)
_ACTIONS = ("dividend", "split")
_TAKEN_AS = {
    "twin": Note(zh="复权收盘价；按成交价交易", en="adjusted closes; orders trade at the prices as traded"),
    "dividend": Note(zh="每股现金分红", en="cash a share"),
    "split": Note(zh="拆分后的股数", en="shares after the split of one"),
    "change": Note(zh="与收盘价核对", en="held against the closes"),
    "pct_chg": Note(zh="与收盘价核对", en="held against the closes"),
}
"""What is not a field of bars, and what it is taken for."""
_NOT_PAID = {
    **_TAKEN_AS,
    **dict.fromkeys(
        (*_ACTIONS, "adj_factor"),
        Note(zh="复权价中已有，不再计算", en="in adjusted prices already; not paid again"),
    ),
}
_QUANTITIES = frozenset({"vol", "amount", *_ACTIONS, *STATUS_FIELDS})
_MEMBER_KEYS = ("index_code", "con_code", "trade_date")
_SHARES_PER_HAND, _THOUSAND = 100, 1000
_MOST_PRICE = 1e9
"""The dearest is a bitcoin in won, of some hundred million."""
_SHOWN = 8
_TICKER_OF_STOOQ = "<TICKER>"
_ONE_ROW = "keep one row a symbol and session"


@dataclass(frozen=True, kw_only=True)
class TableReading:
    """Tables that one table holds, or none and the reason why it was not recognised."""

    tables: tuple[CheckedTable, ...] = ()
    ignored_because: str = ""


def read_table(
    table: pd.DataFrame,
    file: str,
    options: TableOptions | None = None,
    *,
    symbol: NamedSymbol | None = None,
    notes: Sequence[Note] = (),
    about: str = "",
) -> TableReading:
    """Recognise a table by its columns, and check its cells.

    ``symbol`` is of all rows of bars without a column of symbols; ``about`` are words around the table, which
    may say that its prices are adjusted.
    """
    if is_event_table(list(table.columns)):
        return TableReading(tables=_event_tables(events_from_table(table, file), file))
    table, changed = _closes_by_symbol(*_named_by_content(table))
    names = column_names(table.columns)
    have = set(names.fields)
    named = symbol is not None and "ts_code" not in have and "bars" in table_kinds({*have, "ts_code"})
    if named:
        have.add("ts_code")
    kinds = table_kinds(have)
    if "bars" not in kinds and _looks_like_bars(have) and not (kinds and not have & {"open", "high", "low"}):
        raise _incomplete({*have, "ts_code"} if symbol else have, file)
    if not kinds and "bars" in table_kinds({*have, "ts_code"}):
        raise _incomplete(have, file)
    if not kinds:
        return TableReading(ignored_because=_unknown_columns(table, have))
    if table.empty:
        raise BadFile(f"{file} has a header and no row", file=file)
    adjusted = adjusted_note(table, names, about) if "bars" in kinds else None
    reader = _Reader(
        file,
        table,
        names,
        options or TableOptions(),
        symbol if named else None,
        adjusted=adjusted is not None,
    )
    reader.notes += [*notes, *changed, *([adjusted] if adjusted else [])]
    return TableReading(tables=tuple(reader.checked(kinds)))


def _named_by_content(table: pd.DataFrame) -> tuple[pd.DataFrame, list[Note]]:
    """Name a column of dates, or of codes of an exchange, whose heading says neither."""
    names, notes = column_names(table.columns), []
    twice = set(table.columns[table.columns.duplicated()])
    for field, holds, zh, en in (
        ("trade_date", hold_dates, "日期", "dates"),
        ("ts_code", hold_codes, "代码", "codes"),
    ):
        if field in names.fields:
            continue
        heads = (each for each in names.ignored if each in table and each not in twice)
        head = next((each for each in heads if holds(table[each])), None)
        if head is None:
            continue
        table = table.rename(columns={head: field})
        shown = ("没有名称的首列", "the first column, which has no name")
        if head.strip() and not head.startswith("Unnamed: "):
            shown = (f"{head}（{zh}）", f"{head}, whose cells are {en}")
        notes.append(Note(zh=f"{field} = {shown[0]}", en=f"{field} = {shown[1]}"))
    return table, notes


def _closes_by_symbol(table: pd.DataFrame, notes: list[Note]) -> tuple[pd.DataFrame, list[Note]]:
    """Rows by session and symbol of a table with a column of closes for each symbol."""
    names = column_names(table.columns)
    if set(names.fields) != {"trade_date"} or not names.ignored:
        return table, notes
    codes = {head: symbol_in(head) for head in names.ignored}
    if not all(codes.values()) or len({*codes.values()}) < len(codes):
        return table, notes
    date = names.columns["trade_date"]
    long = table.melt(date, list(codes), var_name="ts_code", value_name="close").dropna(subset="close")
    long["ts_code"] = long["ts_code"].map(codes)
    rows = pd.MultiIndex.from_arrays([long[date].astype("str"), long["ts_code"]])
    note = Note(zh="每列为一只证券的收盘价", en="each column has the closes of a symbol")
    return long.set_axis(rows), [*notes, note]


def table_kinds(fields: Collection[str]) -> tuple[TableKind, ...]:
    """Kinds of table that these fields make."""
    have = set(fields)
    if have.issuperset(_MEMBER_KEYS):
        return ("members",)
    if have.issuperset(("ts_code", "trade_date")):
        kinds: list[TableKind] = []
        if not _missing_for_bars(have):
            kinds.append("bars")
        elif have & set(_EXTRAS):
            kinds.append("extras")
        if have & set(INDICATOR_FIELDS):
            kinds.append("indicators")
        if not kinds and "close" in have and not have & {"open", "high", "low"}:
            kinds.append("bars")  # closes alone
        return tuple(kinds)
    return ("names",) if have.issuperset(("ts_code", "name")) else ()


def _missing_for_bars(have: Collection[str]) -> list[str]:
    volume = ("vol",) if "amount" in have else ()  # an amount alone may be the volume
    return [name for name in ("ts_code", "trade_date", *LEVEL_FIELDS, *volume) if name not in have]


def _looks_like_bars(have: set[str]) -> bool:
    """Tushare's ``daily_basic`` has a close too, so a close alone is not enough."""
    return bool(have & {"open", "high", "low"}) or (have >= {"ts_code", "trade_date", "close"})


def _unknown_columns(table: pd.DataFrame, have: Collection[str]) -> str:
    shown = ", ".join(map(str, table.columns[:6]))
    if sum(map(_is_number, table.columns)) > len(table.columns) / 2:
        return f"its first row ({shown}) is of data: put one with the names date, open, high, … above it"
    reason = f"columns ({shown}) are not those of bars, events, filings, indicators, members or names"
    by_symbol = "; head a column of closes by its code, such as AAPL or 600519.SH"
    return reason + (by_symbol if set(have) == {"trade_date"} else "")


def _is_number(head: object) -> bool:
    return re.fullmatch(r"-?\d[\d.:/-]*", str(head).strip()) is not None  # "2024-01-02"


def _incomplete(have: Collection[str], file: str) -> BadFile:
    missing = _missing_for_bars(have)
    if "bars" in table_kinds({*have, "ts_code"}):
        missing = ["ts_code"]
    hint = ""
    if missing == ["ts_code"]:
        hint = (
            "; name a file of one symbol by it (AAPL.csv), or say it: --symbols AAPL; "
            "a frame so: {'AAPL': frame}"
        )
    if missing == ["vol"]:
        hint = "; the amount may be the volume, as Tencent's was: then name it vol or volume"
    return BadFile(
        f"{file} misses the column(s) {', '.join(missing)}; daily bars need ts_code (or symbol), "
        "trade_date (or date), open, high, low, close and, beside an amount, vol (hands) or volume (shares)"
        f"{hint}",
        file=file,
        columns=tuple(missing),
    )


class _Reader:
    """One recognised table, column by column."""

    def __init__(
        self,
        file: str,
        table: pd.DataFrame,
        names: ColumnNames,
        options: TableOptions,
        symbol: NamedSymbol | None,
        *,
        adjusted: bool,
    ) -> None:
        self._adjusted = adjusted
        self._file, self._table, self._names, self._options = file, table, names, options
        self._symbol = symbol
        self.notes: list[Note] = []
        """Notes beside the columns."""

    def checked(self, kinds: Sequence[TableKind]) -> list[CheckedTable]:
        """Tables of these kinds, and of the names and events among their columns."""
        has_events = bool({"bars", "extras"} & set(kinds)) and not self._adjusted
        events = self._actions(is_bars="bars" in kinds) if has_events else ()  # first: bars tell their notes
        tables = [*(self._of_kind(kind) for kind in kinds), *events]
        if "members" in kinds and "stock_name" in self._names.fields:
            names = {"ts_code": self._codes("con_code", shares_only=True), "name": self._texts("stock_name")}
            tables.append(self._as("names", pd.DataFrame(names)))
        return tables

    def _actions(self, *, is_bars: bool) -> tuple[CheckedTable, ...]:
        """Dividends, splits and delistings of the rows."""
        rows = self._table.rename(columns={head: field for field, head in self._names.columns.items()})
        if not {"twin", *_ACTIONS, "split_from", "stk_div", "delisting"} & {*rows.columns}:
            return ()
        keys = {"ts_code": self._symbols, "trade_date": self._sessions[0]}
        rows = rows.assign(**keys)
        fields = [field for field in ("close", "twin", *_ACTIONS) if field in self._names.fields]
        if is_bars and {"twin", *_ACTIONS} & {*fields}:
            checked = pd.DataFrame(keys | self._numbers(fields)).dropna(subset="close")
            found, notes = actions_in(checked, self._table, self._names, self._file)
            self.notes += notes
            rows = rows.assign(**{field: found[field] for field in _ACTIONS if field in found})
        return _event_tables(events_from_rows(rows, self._file), self._file)

    def _of_kind(self, kind: TableKind) -> CheckedTable:
        if kind == "bars":
            return self._bars()
        if kind == "members":
            codes = {name: self._codes(name, shares_only=name == "con_code") for name in _MEMBER_KEYS[:2]}
            rows = pd.DataFrame({**codes, "trade_date": self._sessions[0]}).drop_duplicates()
            return self._as(kind, rows)
        if kind == "names":
            columns = {"ts_code": self._symbols, "name": self._texts("name")}
            if "start_date" in self._names.fields:
                columns["start_date"] = self._dates("start_date")[0]
            return self._as(kind, pd.DataFrame(columns))
        fields = INDICATOR_FIELDS if kind == "indicators" else ("pre_close", *_BARS[7:])
        return self._as(kind, self._daily(fields))

    def _bars(self) -> CheckedTable:
        unused = "adj_factor" if self._adjusted else None
        rows = self._daily([field for field in (*_BARS, "change", "pct_chg") if field != unused])
        if rows["close"].median() > _MOST_PRICE:
            reason = f"{rows['close'].iloc[0]:g} is no price: is it in a smaller unit, such as a billionth?"
            raise bad_cell(self._file, self._column("close"), 0, f"{reason} Divide the prices")
        if all(find_board(code) not in {None, "us"} for code in rows["ts_code"].unique()):
            reference, notes = reference_of(rows, self._names)
            self.notes += notes
            rows = rows if reference is None else rows.assign(pre_close=reference)
        for field in {"change", "pct_chg"} & {*rows.columns}:
            del rows[field]
        numbers = {field: rows[field] for field in ("low", "high", "vol", "amount") if field in rows}
        units = units_of(
            self._names,
            numbers,
            self._file,
            options={"volume_unit": self._options.volume_unit, "amount_unit": self._options.amount_unit},
            is_us=all(find_board(code) == "us" for code in rows["ts_code"].unique()),
        )
        rows = rows.drop(columns=[*units.withheld])
        if {"vol", "high", "low"} <= {*rows.columns} and rows["vol"].notna().any():
            flat = rows["vol"].isna() & (rows["high"] == rows["low"])  # nothing was traded
            rows = rows.assign(vol=rows["vol"].mask(flat, 0.0))
        if {"low", "high", "vol", "amount"} <= {*rows.columns}:
            mend = self._options.unit_change == "mend"
            rows, notes = unit_changes(self._names, rows, units, self._file, mend=mend)
            self.notes += notes
        if "vol" in rows and units.volume != _SHARES_PER_HAND:
            rows = rows.assign(vol=rows["vol"] * units.volume / _SHARES_PER_HAND)
        if "amount" in rows and units.amount != _THOUSAND:
            rows = rows.assign(amount=rows["amount"] * units.amount / _THOUSAND)
        read_as = self._read_as(rows, units)
        return CheckedTable(kind="bars", file=self._file, rows=rows, read_as=read_as, withheld=units.withheld)

    def _daily(self, fields: Sequence[str]) -> pd.DataFrame:
        columns = {"ts_code": self._symbols, "trade_date": self._sessions[0]}
        columns |= self._numbers([field for field in fields if field in self._names.fields])
        valid = "keep one row a session, or give each row its symbol" if self._symbol else _ONE_ROW
        rows = unique_rows(pd.DataFrame(columns), ("ts_code", "trade_date"), self._file, valid)
        if repeated := len(columns["ts_code"]) - len(rows):
            zh, en = f"未采用 {repeated} 个重复行", f"repeated rows left out: {repeated}"
            self.notes.append(Note(zh=zh, en=en))
        return rows

    def _numbers(self, fields: Sequence[str]) -> dict[str, pd.Series]:
        """Checked numbers by field, without rows that have no price."""
        written = {field: self._written[field] for field in fields}
        plain = {field: read_numbers(column, self._file) for field, column in written.items()}
        keep = self._options.adjusted == "keep"
        kept, notes = traded_rows(plain, self._table, self._file, keep=keep)
        if notes:
            self.notes += notes
            written = {field: column[kept] for field, column in written.items()}
            if "pre_close" in written:
                written["pre_close"] = plain["pre_close"][kept].where(plain["pre_close"] > 0)
        return {field: read_numbers(each, self._file, _number_kind(field)) for field, each in written.items()}

    @cached_property
    def _written(self) -> dict[str, pd.Series]:
        """Number columns by field, without the marks of writing."""
        columns = {field: self._column(field) for field in self._names.fields if field not in TEXT_FIELDS}
        written = plain_numbers(columns, self._file, self._options.decimal)
        shown: dict[tuple[Note, ...], list[str]] = {}
        for field, marks in written.notes.items():
            if marks:
                shown.setdefault(marks, []).append(self._names.columns[field])
        for marks, heads in shown.items():
            zh, en = "、".join(mark.zh for mark in marks), ", ".join(mark.en for mark in marks)
            self.notes.append(Note(zh=f"{'、'.join(heads)}：{zh}", en=f"{', '.join(heads)}: {en}"))
        return dict(written.columns)

    def _as(self, kind: TableKind, rows: pd.DataFrame) -> CheckedTable:
        return CheckedTable(kind=kind, file=self._file, rows=rows)

    def _column(self, field: str) -> pd.Series:
        """The column of a field, under its own name, for messages."""
        column: pd.Series = self._table[self._names.columns[field]]
        return column

    @cached_property
    def _symbols(self) -> pd.Series:
        if self._symbol is None:
            return self._codes("ts_code", shares_only=self._names.shares_only)
        meant = full_codes(self._symbol.code)
        if len(meant) > 1:
            raise BadFile(
                f"{self._file}: its name {self._symbol.code!r} may be {' or '.join(meant)}; write which, or "
                f"say it: --symbols {meant[0]}",
                file=self._file,
            )
        (code,) = read_codes(pd.Series([self._symbol.code], name="(its name)"), self._file)
        return pd.Series(code, index=self._table.index, dtype="str")

    def _codes(self, field: str, *, shares_only: bool = False) -> pd.Series:
        column = self._column(field)
        if str(column.name).strip().upper() == _TICKER_OF_STOOQ:
            column = column.str.removesuffix(".US")
        if field == "ts_code" and "exchange" in self._names.fields:
            listed = self._texts(field) + "." + self._texts("exchange")
            codes = listed.map({text: mainland_code(text) for text in listed.unique()})
            column = column.where(codes.isna(), codes)
        return read_codes(column, self._file, shares_only=shares_only)

    def _texts(self, field: str) -> pd.Series:
        return self._column(field).astype("str").str.strip()

    @cached_property
    def _sessions(self) -> tuple[pd.Series, DateOrder | None]:
        return self._dates("trade_date")

    def _dates(self, field: str) -> tuple[pd.Series, DateOrder | None]:
        return dates_in_order(self._column(field), self._file, self._options.date_order)

    def _read_as(self, rows: pd.DataFrame, units: TableUnits) -> tuple[Note, ...]:
        """Which column was taken for what, where its name alone does not say it."""
        about = {**units.notes, "ts_code": self._code_note(rows), "trade_date": self._order_note()}
        about |= _NOT_PAID if self._adjusted else _TAKEN_AS
        notes = []
        if self._symbol is not None:
            by = self._symbol.origin
            notes.append(Note(zh=f"ts_code = {by.zh}", en=f"ts_code = {by.en}"))
        for field, head in self._names.columns.items():
            note = about.get(field)
            if (field in rows or field in about) and (note or head.lower() != field):
                read = f"{field} = {head.strip()}"
                zh, en = (f"（{note.zh}）", f" ({note.en})") if note else ("", "")
                notes.append(Note(zh=read + zh, en=read + en))
        ignored = [head for head in self._names.ignored if not head.startswith("Unnamed: ")]
        unknown = [head for head in ignored if not is_harmless(head)]
        first = _named_columns(unknown, "不认识的列，未使用", "unknown, so not used:")
        known = [head for head in ignored if head not in unknown]
        notes = [*first, *notes, *_named_columns(known, "未使用", "not used:")]
        return (*notes, *dict.fromkeys(self.notes))

    def _code_note(self, rows: pd.DataFrame) -> Note | None:
        written = None if self._symbol else str(self._column("ts_code").iloc[0]).strip()
        if written in {None, rows["ts_code"].iloc[0]}:
            return None
        return Note(zh="补全为 600519.SH 的写法", en="written as 600519.SH is")

    def _order_note(self) -> Note | None:
        order = self._sessions[1]
        if are_day_numbers(self._column("trade_date")):
            return Note(zh="Excel 的日期序号", en="day numbers of Excel")
        if order is None:
            return None
        return Note(zh="月在前" if order == "month_first" else "日在前", en=order.replace("_", " "))


def _named_columns(heads: Sequence[str], zh: str, en: str) -> list[Note]:
    """A note with the first of some headings; none without any."""
    shown = ", ".join(heads[:_SHOWN]) + (" …" if len(heads) > _SHOWN else "")
    return [Note(zh=f"{zh} {shown}", en=f"{en} {shown}")] if heads else []


def _event_tables(frames: Iterable[pd.DataFrame], file: str) -> tuple[CheckedTable, ...]:
    return tuple(CheckedTable(kind="events", file=file, rows=frame) for frame in frames)


def _number_kind(field: str) -> NumberKind:
    if field in _QUANTITIES:
        return "quantity"
    return "price" if field in BAR_FIELDS or field == "twin" else "number"


_LEVELS = 2
_YAHOOS_LEVELS = {"Price", "Ticker"}


def long_table(table: pd.DataFrame, file: str) -> pd.DataFrame:
    """Bring dates and symbols from the index, and from above the columns, into columns.

    The index may hold dates, or symbols and dates.
    """
    if isinstance(table.columns, pd.MultiIndex):
        table = _with_one_header(table, file)
    twice = table.columns[table.columns.duplicated()]
    if len(twice):
        raise BadFile(f"{file}: column {twice[0]} is there twice; keep one", file=file, column=str(twice[0]))
    return _with_plain_index(table)


def _with_one_header(table: pd.DataFrame, file: str) -> pd.DataFrame:
    """Rows by session and symbol of a table whose columns are fields and symbols."""
    columns = table.columns
    known = [len(column_names(columns.unique(level)).fields) for level in range(columns.nlevels)]
    if len(known) != _LEVELS or not max(known):
        raise BadFile(
            f"{file}: its columns have {len(known)} levels, such as {columns[0]}; valid are two levels, one "
            "of fields (open, high, low, close, volume) and one of symbols",
            file=file,
        )
    of_symbols = _LEVELS - 1 - known.index(max(known))
    if not any(columns.get_level_values(of_symbols)):
        return table.droplevel(of_symbols, axis="columns")
    keys = [each for each in columns if "" in each]
    if keys:  # reset_index() has put the dates there
        table = table.set_index(keys).rename_axis(index=["".join(each) for each in keys])
    names = ["ts_code" if level == of_symbols else "field" for level in range(_LEVELS)]
    long = table.rename_axis(columns=names).stack(level="ts_code")  # noqa: PD013 (melt would lose the fields)
    long = pd.DataFrame(long).dropna(how="all")
    long.attrs[BY_YAHOO] = {*columns.names} == _YAHOOS_LEVELS
    return long


def _with_plain_index(table: pd.DataFrame) -> pd.DataFrame:
    if isinstance(table.index, pd.RangeIndex) and table.index.name is None:
        return table.reset_index(drop=True)
    names = _level_names(table.index, set(column_names(table.columns).fields))
    levels = {name: table.index.get_level_values(level) for level, name in names.items()}
    if table.index.nlevels == 1:
        table = table.reset_index(drop=True)
    else:  # its names would be the columns'
        table = table.rename_axis([None] * table.index.nlevels)
    for position, (name, values) in enumerate(levels.items()):
        if name not in table.columns:
            table.insert(position, name, pd.Series(values, index=table.index))
    return table


def _level_names(index: pd.Index, have: Collection[str]) -> dict[int, str]:
    """Names of the levels to keep: their own, else the field that the level must be."""
    names = {level: str(name) for level, name in enumerate(index.names) if name is not None}
    have = {*have, *column_names(names.values()).fields}
    missing = [key for key in ("ts_code", "trade_date") if key not in have]
    unnamed = {level: index.get_level_values(level) for level in range(index.nlevels) if level not in names}
    for level, values in unnamed.items():
        if isinstance(values, pd.DatetimeIndex) and "trade_date" in missing:
            names[level] = "trade_date"
            missing.remove("trade_date")
    for level, values in unnamed.items():
        if level not in names and missing and "close" in have and not pd.api.types.is_numeric_dtype(values):
            names[level] = missing.pop(0) if index.nlevels > 1 else missing.pop()
    return dict(sorted(names.items()))
