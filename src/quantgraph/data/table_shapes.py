"""Tables of every shape turned into long ones: a row a symbol and session, a column a field."""

from __future__ import annotations

from collections.abc import Collection

import pandas as pd

from quantgraph.data.column_names import column_names
from quantgraph.errors import BadFile

_LEVELS = 2


def long_table(table: pd.DataFrame, file: str) -> pd.DataFrame:
    """Bring dates and symbols from the index, and from above the columns, into columns.

    The index may hold dates, or symbols and dates. Of two rows of headers, such as those of ``yf.download``,
    one has the fields and the other the symbols. Rows of the result are counted from 0, or are labelled by
    symbol and date.

    Raises
    ------
    BadFile
        If the columns have more than two levels or none with fields, or two columns have one name.
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
    return pd.DataFrame(long).dropna(how="all")


def _with_plain_index(table: pd.DataFrame) -> pd.DataFrame:
    if isinstance(table.index, pd.RangeIndex) and table.index.name is None:
        return table.reset_index(drop=True)
    have = set(column_names(table.columns).fields)
    names = _level_names(table.index, have)
    levels = {name: table.index.get_level_values(level) for level, name in names.items()}
    if table.index.nlevels == 1:
        table = table.reset_index(drop=True)
    else:  # its names would be those of the columns
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
