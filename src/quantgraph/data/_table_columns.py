"""Columns of a table: their names, and the fields and units that these mean."""

from __future__ import annotations

import datetime as dt
import re
import unicodedata
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np
import pandas as pd

from quantgraph.data._source import BAR_FIELDS, INDICATOR_FIELDS
from quantgraph.errors import BadFile


def row_name(table: pd.DataFrame | pd.Series, position: int) -> str:
    """Name of a row in messages: counted from 1 below the header, or its own label."""
    label = table.index[position]
    if isinstance(label, tuple):
        return " ".join(f"{each:%Y-%m-%d}" if isinstance(each, dt.datetime) else str(each) for each in label)
    return f"row {label + 1}" if isinstance(label, (int, np.integer)) else str(label)


def bad_cell(file: str, column: pd.Series, position: int, reason: str) -> BadFile:
    """The error about one cell: file, row, column, and the reason with what would be valid."""
    where = row_name(column, position)
    return BadFile(
        f"{file}, {where}, column {column.name}: {reason}", file=file, row=where, column=column.name
    )


def open_choice(problem: str, parameter: str, choices: Sequence[str], **data: object) -> BadFile:
    """The error about what a table does not tell and a setting of ``[tables]`` settles."""
    valid = " or ".join(f"{parameter}={choice}" for choice in choices)
    return BadFile(
        f"{problem}; say {valid}, with --table or in [tables] of the settings",
        **data,
        parameter=parameter,
        choices=tuple(choices),
    )


TEXT_FIELDS = frozenset(
    {"ts_code", "trade_date", "index_code", "con_code", "name", "stock_name", "start_date"}
)
"""Fields that are read as text: ``000001`` keeps its zeros, and ``NA`` is a symbol."""

_SPELLINGS: dict[str, tuple[str, ...]] = {
    "ts_code": ("ts_code", "symbol", "ticker", "code", "股票代码", "证券代码", "代码"),
    "trade_date": ("trade_date", "date", "datetime", "timestamp", "日期", "交易日期", "交易时间", "时间"),
    "open": ("open", "开盘", "开盘价", "今开"),
    "high": ("high", "最高", "最高价"),
    "low": ("low", "最低", "最低价"),
    "close": ("close", "收盘", "收盘价", "close/last", "price"),
    "pre_close": ("pre_close", "preclose", "昨收", "昨收价", "前收盘", "前收盘价"),
    "vol": ("vol", "volume", "成交量", "vol.", "<vol>", "总手"),
    "amount": ("amount", "成交额", "成交金额", "金额", "总金额"),
    "turnover_rate": ("turnover_rate", "换手率", "换手%", "换手率%"),
    "name": ("name", "名称", "股票名称", "证券名称"),
}
"""Names of each field, in small letters; of several in a table the first counts."""

_SHARES = "股票代码"
_UNIT = re.compile(r"(.+?)\s*[(\[]\s*([^()\[\]]+?)\s*[)\]]")
_OF_PRICES = re.compile(r"(?<=[开收高低盘价])\s*[(\[](?:元|前复权|后复权|不复权|qfq|hfq)[)\]]$")
_UNITS: dict[str, Mapping[str, float]] = {
    "vol": {"股": 1, "shares": 1, "手": 100, "hands": 100, "lots": 100},
    "amount": {"元": 1, "yuan": 1, "cny": 1, "千元": 1e3, "万元": 1e4, "亿元": 1e8},
}
_CUSTOMS: dict[str, float] = {"vol": 100, "volume": 1, "vol.": 1, "<vol>": 1, "总手": 100}
"""Shares in a unit of a column of volumes, by its name: tushare's is in hands."""
_TUSHARE_AMOUNT = 1e3
_AKSHARE = frozenset({"股票代码", "成交量", "成交额", "振幅", "涨跌幅", "涨跌额", "换手率"})
"""Columns of akshare's ``stock_zh_a_hist``, in hands and yuan."""


@dataclass(frozen=True, kw_only=True)
class ColumnNames:
    """Fields of a table's columns.

    ``stated`` are units in a column's name, such as ``成交量(手)``: shares in a unit of ``vol``, currency
    units in one of ``amount``. ``customary`` are units of documented columns: tushare's ``vol`` in hands of
    100 shares and ``amount`` in thousands, ``volume`` in shares, akshare's A shares in hands and yuan.
    """

    columns: Mapping[str, str]
    ignored: tuple[str, ...] = ()
    stated: Mapping[str, float] = field(default_factory=dict)
    customary: Mapping[str, float] = field(default_factory=dict)
    shares_only: bool = False

    @property
    def fields(self) -> Collection[str]:
        """Fields that the table has."""
        return self.columns.keys()


def column_names(columns: Iterable[object]) -> ColumnNames:
    """Read the header of a table.

    >>> names = column_names(["Date", "开盘", "成交量(手)", "Adj Close"])
    >>> dict(names.columns), dict(names.stated), names.ignored
    ({'trade_date': 'Date', 'open': '开盘', 'vol': '成交量(手)'}, {'vol': 100}, ('Adj Close',))
    """
    listed = [str(column) for column in columns]
    plain = {column: _plain_name(column) for column in listed}
    found: dict[str, str] = {}
    stated: dict[str, float] = {}
    for name in (*_SPELLINGS, *TEXT_FIELDS, *BAR_FIELDS, *INDICATOR_FIELDS):
        column, unit = _column_of(name, plain, listed)
        if column is not None and name not in found:
            found[name] = column
            if unit is not None:
                stated[name] = unit
    ordered = {name: column for column in listed for name, each in found.items() if each == column}
    return ColumnNames(
        columns=MappingProxyType(ordered),
        ignored=tuple(column for column in listed if column not in found.values()),
        stated=stated,
        customary=_customary({field: plain[column] for field, column in found.items()}, plain.values()),
        shares_only=plain.get(found.get("ts_code", ""), "") == _SHARES,
    )


def _plain_name(column: str) -> str:
    """A heading in small letters, without ``<>`` and what says that prices are in yuan or adjusted."""
    name = unicodedata.normalize("NFKC", column).strip().lower()
    return name if name in _CUSTOMS else _OF_PRICES.sub("", name.strip("<>"))


def _customary(names: Mapping[str, str], listed: Collection[str]) -> dict[str, float]:
    """Units by field, of columns with these names in small letters."""
    if _AKSHARE.issubset(listed):
        return {"vol": 100, "amount": 1}
    volume = names.get("vol", "vol")
    customary = {"vol": _CUSTOMS[volume]} if volume in _CUSTOMS else {}
    if names.get("amount") == "amount" and volume == "vol":
        customary["amount"] = _TUSHARE_AMOUNT
    return customary


def _column_of(name: str, plain: Mapping[str, str], listed: Sequence[str]) -> tuple[str | None, float | None]:
    """The column of a field, and the unit that its name says."""
    units = _UNITS.get(name, {})
    for spelling in _SPELLINGS.get(name, (name,)):
        for column in listed:
            if plain[column] == spelling:
                return column, None
            match = _UNIT.fullmatch(plain[column]) if units else None
            if match and match[1] == spelling and match[2] in units:
                return column, units[match[2]]
    return None, None
