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

from quantgraph._util.texts import table_beside
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
    {"ts_code", "exchange", "trade_date", "index_code", "con_code", "name", "stock_name", "start_date"}
)
"""Fields that are read as text: ``000001`` keeps its zeros, and ``NA`` is a symbol."""

_SPELLINGS: dict[str, tuple[str, ...]] = {
    field: tuple(names) for field, *names in table_beside(__file__, "spellings.csv")
}
"""Names of each field, as they are folded; of several in a table the first counts.

``twin`` is a close that is adjusted, beside the one that was traded.
"""

_HARMLESS = re.compile(  # "adj_open"
    r"(?:adj|adjusted)_(?:open|high|low|volume|vol)|v?wap|vw|(?:trade|tick)s?_?(?:count|num)?|tickvol|num_trades"
    r"|transactions|振幅|amplitude|openint|open_interest|interval|gateway_name"
    r"|year|month|hour|minute|weekday|per|currency|unnamed.*|"
)
"""Headings of what a daily bar does not need."""

_SHARES = "股票代码"
_UNIT = re.compile(r"(.+?)\s*[(\[]\s*([^()\[\]]+?)\s*[)\]]")  # "volume (shares)"
_OF_PRICES = re.compile(r"(?<=[开收高低盘价])\s*[(\[](?:元|前复权|后复权|不复权|qfq|hfq)[)\]]$")  # "价(元)"
_SCALES = {
    "": 1.0,
    "百": 1e2,
    "千": 1e3,
    "万": 1e4,
    "十万": 1e5,
    "百万": 1e6,
    "千万": 1e7,
    "亿": 1e8,
    "k": 1e3,
    "thousand": 1e3,
    "m": 1e6,
    "mn": 1e6,
    "million": 1e6,
    "bn": 1e9,
    "billion": 1e9,
}
_MEASURES: dict[str, Mapping[str, float]] = {
    "vol": {"股": 1, "shares": 1, "手": 100, "hands": 100, "lots": 100},
    "amount": {"元": 1, "yuan": 1, "cny": 1, "rmb": 1, "usd": 1, "$": 1, "": 1},
}
_CUSTOMS: dict[str, float] = {"vol": 100, "volume": 1, "vol.": 1, "<vol>": 1, "总手": 100, "px_volume": 1}
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

    >>> names = column_names(["Date", "成交量(万股)", "AdjClose", "Note"])
    >>> dict(names.columns), dict(names.stated), names.ignored
    ({'trade_date': 'Date', 'vol': '成交量(万股)', 'twin': 'AdjClose'}, {'vol': 10000.0}, ('Note',))
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
    """A heading in small letters with ``_`` between words, without ``<>`` and the words about its prices.

    >>> [_plain_name(head) for head in ("Adj Close", "adjClose", "<CLOSE>", "收盘价(元)")]
    ['adj_close', 'adj_close', 'close', '收盘价']
    """
    name = unicodedata.normalize("NFKC", column).strip()
    if name.lower() in _CUSTOMS:
        return name.lower()
    parted = re.sub(r"(?<=[a-z])(?=[A-Z])|[\s.-]+", "_", name.strip("<>"))  # "Adj Close"
    return _OF_PRICES.sub("", parted.lower())


def further_columns(names: ColumnNames, field: str) -> list[str]:
    """Columns without a field that are named as this one is, too."""
    return [head for head in names.ignored if _plain_name(head) in _SPELLINGS[field]]


def is_harmless(head: str) -> bool:
    """Whether a heading names what changes nothing of a daily bar, such as a count of trades."""
    return _HARMLESS.fullmatch(_plain_name(head)) is not None


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
    units = _MEASURES.get(name, {})
    for spelling in _SPELLINGS.get(name, (name,)):
        for column in listed:
            if plain[column] == spelling:
                return column, None
            match = _UNIT.fullmatch(plain[column]) if units else None
            if match and match[1].strip("_") == spelling and (size := _size(match[2], units)):
                return column, size
    return None, None


def _size(unit: str, measures: Mapping[str, float]) -> float | None:
    """The size of a written unit, of a scale and a measure: ``万股``, ``百万``, ``m usd``; None of others."""
    sizes = (
        scale * measure
        for word, scale in _SCALES.items()
        for name, measure in measures.items()
        if unit.replace("_", "").replace(" ", "") == word + name
    )
    return next(sizes, None)
