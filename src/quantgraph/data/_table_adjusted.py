"""Whether prices are adjusted for dividends and splits, and which rows have none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import pandas as pd

from quantgraph._util.texts import Note
from quantgraph.data._source import LEVEL_FIELDS
from quantgraph.data._table_columns import open_choice, row_name
from quantgraph.data._table_names import says_adjusted
from quantgraph.errors import BadFile

_FLAGS = {"1": Note(zh="后复权", en="backward-adjusted"), "2": Note(zh="前复权", en="forward-adjusted")}
"""Of baostock's column ``adjustflag``; 3 is unadjusted."""
_IDLE = ("open", "high", "low", "vol")
_DOWNLOADED = ["Close", "High", "Low", "Open", "Volume"]
"""Columns in the order of yfinance's ``download``, which adjusts unless there is an ``Adj Close``, too."""


def adjusted_note(table: pd.DataFrame, about: str) -> Note | None:
    """What the headings and the words ``about`` a table say about adjusted prices; None if nothing."""
    heads = {str(column).strip().lower(): column for column in table.columns}
    if "adjustflag" in heads:
        flags = table[heads["adjustflag"]].astype("str").str.strip().str.removesuffix(".0").unique()
        found = [_FLAGS[flag] for flag in flags if flag in _FLAGS]
        return _warn(found[0].zh, f"{found[0].en}, by adjustflag") if found else None
    by_yahoo = [head for head in map(str, table.columns) if head in _DOWNLOADED] == _DOWNLOADED
    if (by_yahoo or {"dividends", "stock splits"} <= heads.keys()) and "adj close" not in heads:
        return _warn("雅虎已复权", "adjusted by Yahoo for dividends and splits, which are not paid again")
    if "adj close" in heads:
        return Note(
            zh="采用 Close 而不用 Adj Close：雅虎的 Close 只按拆分复权",
            en="Close is taken and not Adj Close: Yahoo's Close is adjusted for splits only",
        )
    named = next((text for text in (about, *heads) if says_adjusted(text)), None)
    return None if named is None else _warn("按名称为复权价", "adjusted, as the name says")


def _warn(zh: str, en: str) -> Note:
    return Note(zh=f"价格{zh}，按复权价成交", en=f"prices are {en}; orders trade at adjusted prices")


def traded_rows(
    numbers: Mapping[str, pd.Series], table: pd.DataFrame, file: str, *, keep: bool
) -> tuple[pd.Series, list[Note]]:
    """Which rows of bars have prices, and notes about the others.

    A day without trading may be written with zeros, and adjusted prices may fall below 0: these rows are left
    out if the caller keeps adjusted prices, else ``BadFile``.
    """
    prices = [numbers[field] for field in LEVEL_FIELDS if field in numbers]
    below = _all(price < 0 for price in prices)
    if below is not None and below.any():  # one bad price alone is an error of its cell
        if not keep:
            raise _below_zero(prices[0], int(np.argmax(below.to_numpy())), table, file)
        kept = ~pd.concat(prices, axis="columns").le(0).any(axis="columns")
        count = int((~kept).sum())
        return kept, [
            Note(
                zh=f"价格为前复权，按复权价成交；未采用价格不大于 0 的 {count} 行",
                en=f"prices are forward-adjusted, orders trade at them; left out rows not above 0: {count}",
            )
        ]
    zeros = [numbers[field] == 0 for field in _IDLE if field in numbers]
    idle = _all(zeros) if len(zeros) == len(_IDLE) else None
    if idle is None or not idle.any():
        return pd.Series(data=True, index=table.index), []
    count = int(idle.sum())
    return ~idle, [
        Note(
            zh=f"未采用没有成交的 {count} 行（开高低为 0）",
            en=f"rows without trading left out, whose prices are 0: {count}",
        )
    ]


def _all(conditions: Iterable[pd.Series]) -> pd.Series | None:
    """Where all conditions hold; None if there is none."""
    listed = list(conditions)
    return pd.concat(listed, axis="columns").all(axis="columns") if listed else None


def _below_zero(price: pd.Series, position: int, table: pd.DataFrame, file: str) -> BadFile:
    where = row_name(table, position)
    return open_choice(
        f"{file}, {where}, column {price.name}: {price.iloc[position]:g} is below 0, as forward-adjusted "
        "(前复权) prices may be; get unadjusted ones (akshare: adjust=''), or, to trade at adjusted prices "
        "without such rows",
        "adjusted",
        ("keep",),
        file=file,
        row=where,
        column=price.name,
    )
