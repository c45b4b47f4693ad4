"""What the columns of a table are called: the fields that they hold, and the units that their names say."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from quantgraph.data.market_data import BAR_FIELDS, INDICATOR_FIELDS

TEXT_FIELDS = frozenset(
    {"ts_code", "trade_date", "index_code", "con_code", "name", "stock_name", "start_date"}
)
"""Fields that are read as text: ``000001`` keeps its zeros, and ``NA`` is a symbol."""

_SPELLINGS: dict[str, tuple[str, ...]] = {
    "ts_code": ("ts_code", "symbol", "ticker", "code", "股票代码", "证券代码", "代码"),
    "trade_date": ("trade_date", "date", "datetime", "日期", "交易日期"),
    "open": ("open", "开盘", "开盘价"),
    "high": ("high", "最高", "最高价"),
    "low": ("low", "最低", "最低价"),
    "close": ("close", "收盘", "收盘价"),
    "pre_close": ("pre_close", "preclose", "昨收", "昨收价", "前收盘", "前收盘价"),
    "vol": ("vol", "volume", "成交量"),
    "amount": ("amount", "成交额", "成交金额"),
    "turnover_rate": ("turnover_rate", "换手率"),
    "name": ("name", "名称", "股票名称", "证券名称"),
}
"""Names of each field, in small letters; of several in a table the first counts."""

_SHARES = "股票代码"
_UNIT = re.compile(r"(.+?)\s*[(\[]\s*([^()\[\]]+?)\s*[)\]]")
_UNITS: dict[str, Mapping[str, float]] = {
    "vol": {"股": 1, "shares": 1, "手": 100, "hands": 100, "lots": 100},
    "amount": {"元": 1, "yuan": 1, "cny": 1, "千元": 1e3, "万元": 1e4, "亿元": 1e8},
}
_CUSTOMS: dict[str, float] = {"vol": 100, "volume": 1}
"""Shares in a unit of a column of volumes, by its name: tushare's is in hands."""
_TUSHARE_AMOUNT = 1e3
_AKSHARE = frozenset({"股票代码", "成交量", "成交额", "振幅", "涨跌幅", "涨跌额", "换手率"})
"""Columns of akshare's ``stock_zh_a_hist``, in hands and yuan."""


@dataclass(frozen=True, kw_only=True)
class ColumnNames:
    """Fields of a table's columns.

    Attributes
    ----------
    columns
        Column by field.
    ignored
        Columns that are not read, in the table's order.
    stated
        Units that a column's name says, such as ``成交量(手)``: shares in a unit of ``vol``, currency units
        in one of ``amount``.
    customary
        Units of documented columns: tushare's ``vol`` in hands of 100 shares and ``amount`` in thousands,
        ``volume`` in shares, akshare's bars of A shares in hands and yuan.
    shares_only
        Whether the column of symbols holds shares, not indices.
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
    plain = {column: unicodedata.normalize("NFKC", column).strip().lower() for column in listed}
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
