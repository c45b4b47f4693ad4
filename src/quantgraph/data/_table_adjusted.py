"""Whether prices are adjusted for dividends and splits, which of these a table says, rows without prices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import pandas as pd

from quantgraph._util.texts import Note
from quantgraph.data._source import LEVEL_FIELDS, Panel
from quantgraph.data._table_columns import ColumnNames, bad_cell, further_columns, open_choice, row_name
from quantgraph.data._table_names import says_adjusted
from quantgraph.errors import BadFile
from quantgraph.market.actions import action_between

_FLAGS = {"1": Note(zh="后复权", en="backward-adjusted"), "2": Note(zh="前复权", en="forward-adjusted")}
"""Of baostock's column ``adjustflag``; 3 is unadjusted."""
_IDLE = ("open", "high", "low", "vol")
BY_YAHOO = "by_yahoo"
"""Attribute of a table that had yfinance's header of two rows."""
_STOCK_SPLITS = "stock splits"
_LEAST_SPLIT = 0.2
"""A smaller step of the ratio of adjusted to traded closes is a dividend."""
_LEAST_STEP = 5e-4
"""Of a factor with three decimals near 1."""
_DENOMINATOR = 60.0
"""Splits are fractions of small numbers."""
_ROOM = 1.5
_LOOKED_AT = 1000
_FEW, _MOST_STEPS = 5, 0.2
"""Actions by the ratio of two closes; more of them is another thing."""
_MOST_ACTIONS = 0.05
"""Part of the rows that may follow an action."""
_DOWNLOADED = ["Close", "High", "Low", "Open", "Volume"]
"""Columns in the order of yfinance's ``download``, which adjusts unless there is an ``Adj Close``, too."""


def adjusted_note(table: pd.DataFrame, names: ColumnNames, about: str) -> Note | None:
    """What says that the prices are adjusted for dividends, too; None if nothing does.

    That is the headings of prices and the words ``about`` a table; beside a column of adjusted closes the
    other one is what was traded.
    """
    heads = {str(column).strip().lower(): column for column in table.columns}
    if "adjustflag" in heads:
        flags = table[heads["adjustflag"]].astype("str").str.strip().str.removesuffix(".0").unique()
        found = [_FLAGS[flag] for flag in flags if flag in _FLAGS]
        return _warn(found[0].zh, f"{found[0].en}, by adjustflag") if found else None
    if "twin" in names.fields:
        return None
    downloaded = [head for head in map(str, table.columns) if head in _DOWNLOADED] == _DOWNLOADED
    if downloaded or table.attrs.get(BY_YAHOO) or {"dividends", "stock splits"} <= heads.keys():
        return _warn("雅虎已复权", "adjusted by Yahoo for dividends and splits, which are not paid again")
    prices = [names.columns[field] for field in LEVEL_FIELDS if field in names.fields]
    named = next((text for text in (about, *prices) if says_adjusted(text)), None)
    return None if named is None else _warn("按名称为复权价", "adjusted, as the name says")


def actions_in(
    rows: pd.DataFrame, table: pd.DataFrame, names: ColumnNames, file: str
) -> tuple[pd.DataFrame, list[Note]]:
    """Dividends and splits that the columns of raw bars say, in the columns ``dividend`` and ``split``.

    Without such columns the ratio of adjusted to traded closes has them: it steps by a split, or by a
    dividend over the close before.

    Parameters
    ----------
    rows
        Checked numbers of bars: ``ts_code``, ``trade_date``, ``close``, and what there is of ``twin``,
        ``dividend`` and ``split``.
    table
        The table as it came, for the message about a dividend that is not below the close before.
    """
    rows = rows.sort_values(["ts_code", "trade_date"], kind="stable")
    before = rows.groupby("ts_code", sort=False)["close"].shift()
    for field in {"dividend", "split"} & {*rows.columns}:
        for other in further_columns(names, field):
            _same_actions(table, names.columns[field], other, file)
    if "dividend" in rows and (wrong := rows["dividend"] >= before).any():
        place = int(table.index.get_indexer(pd.Index([wrong.idxmax()]))[0])
        much = rows["dividend"][wrong].iloc[0]
        reason = f"{much:g} is not below the close before; is it in another currency or unit?"
        raise bad_cell(file, table[names.columns["dividend"]], place, reason)
    steps = _steps(rows) if "twin" in rows else None
    if "split" in rows:
        rows, notes = _with_shown_splits(rows, steps, names.columns["split"])
        return rows, notes
    if steps is None or "dividend" in rows:
        return rows, []
    by_split = (steps - 1).abs() >= _LEAST_SPLIT
    ratio = (steps * _DENOMINATOR).round() / _DENOMINATOR
    cash = (before * (1 - 1 / steps)).round(4)
    found = {"split": ratio.where(by_split & (steps > 0)), "dividend": cash.where(~by_split & (steps > 1))}
    head, count = names.columns["twin"], int(steps.notna().sum())
    if count > max(_FEW, _MOST_STEPS * len(rows)):
        zh, en = (
            f"{head} 与收盘价之比变动 {count} 次，未采用",
            f"{head} over the close moves {count} times; not used",
        )
        return rows, [Note(zh=zh, en=en)]
    if not count:
        return rows, []
    note = Note(
        zh=f"由 {head} 与收盘价之比得出 {count} 次分红或拆分",
        en=f"{count} dividends or splits are from the ratio of {head} to the close",
    )
    return rows.assign(**found), [note]


def _same_actions(table: pd.DataFrame, head: str, other: str, file: str) -> None:
    """See that two columns of actions say the same: 0, 1 and empty cells are none."""
    one, two = (
        pd.to_numeric(table[each], errors="coerce").replace({0.0: np.nan, 1.0: np.nan})
        for each in (head, other)
    )
    if (off := (one != two) & (one.notna() | two.notna())).any():
        place = int(off.to_numpy().argmax())
        raise bad_cell(
            file, table[other], place, f"{two.iloc[place]:g}, where {head} has {one.iloc[place]:g}; keep one"
        )


def actions_of_factor(bars: Panel) -> tuple[Panel, tuple[Note, ...]]:
    """Dividends and splits that an adjustment factor of raw prices says, where nothing else says any.

    The factor steps by the close before over the reference price, which ``pre_close`` has to the tick.
    """
    close, factor = bars["close"], bars["adj_factor"]
    before, steps = close.ffill().shift().to_numpy(), (factor / factor.ffill().shift()).to_numpy()
    with np.errstate(divide="ignore", invalid="ignore"):
        rows, columns = np.nonzero((np.abs(steps - 1) > _LEAST_STEP) & (before > 0))
    if not 0 < len(rows) <= max(3, _MOST_ACTIONS * steps.size):  # else it is another thing
        return {}, ()
    found = {name: np.full(close.shape, np.nan) for name in ("dividend", "split")}
    stated = bars["pre_close"].to_numpy() if "pre_close" in bars else np.full(close.shape, np.nan)
    for row, column in zip(rows.tolist(), columns.tolist(), strict=True):
        price, step = float(before[row, column]), float(steps[row, column])
        reference = stated[row, column] if 0 < stated[row, column] < price else price / step
        split, cash = action_between(price, float(reference)) if step > 1 else (_nearby_split(step), 0.0)
        found["split"][row, column] = split if split != 1 else np.nan
        found["dividend"][row, column] = cash or np.nan
    note = Note(
        zh=f"由 adj_factor 得出 {len(rows)} 次分红或送转",
        en=f"{len(rows)} dividends or splits are from adj_factor",
    )
    frames = {name: pd.DataFrame(values, close.index, close.columns) for name, values in found.items()}
    return {name: frame for name, frame in frames.items() if frame.notna().to_numpy().any()}, (note,)


def _nearby_split(step: float) -> float:
    return round(step * _DENOMINATOR) / _DENOMINATOR


def _with_shown_splits(
    rows: pd.DataFrame, steps: pd.Series | None, head: str
) -> tuple[pd.DataFrame, list[Note]]:
    """The rows with the splits that their prices are not adjusted for: the ratio of the two closes moves."""
    split = rows["split"].where((rows["split"] != 0) & (rows["split"] != 1))
    if steps is not None:
        shown = split.where(np.log(steps) / np.log(split) > 1 / 2)
    else:  # Yahoo's prices are always adjusted for them
        shown = split * np.nan if head.strip().lower() == _STOCK_SPLITS else split
    if not (gone := int((split.notna() & shown.isna()).sum())):
        return rows.assign(split=shown), []
    note = Note(
        zh=f"价格已按 {gone} 次拆分复权，未再计算",
        en=f"prices are adjusted already for {gone} splits, left out",
    )
    return rows.assign(split=shown), [note]


def _steps(rows: pd.DataFrame) -> pd.Series:
    """By how much the adjusted close gains on the traded one since the row before; NaN if by rounding."""
    ratio = rows["twin"] / rows["close"]
    room = (_unit(rows["twin"]) / rows["twin"] + _unit(rows["close"]) / rows["close"]) / 2
    codes = rows["ts_code"]
    step = ratio / ratio.groupby(codes, sort=False).shift() - 1
    jumps = step.abs() > (room + room.groupby(codes, sort=False).shift()) * _ROOM
    # Between jumps the ratio is one number, which its mean tells better than a rounded row.
    level = ratio.groupby([codes, jumps.groupby(codes, sort=False).cumsum()], sort=False).transform("mean")
    return (level / level.groupby(codes, sort=False).shift()).where(jumps)


def _unit(column: pd.Series) -> float:
    """The last digit with which the numbers are written, at most six behind the point."""
    numbers = column.dropna().to_numpy()[:_LOOKED_AT]
    digits = (d for d in range(7) if np.allclose(numbers, numbers.round(d), rtol=0, atol=1e-9))
    return float(10.0 ** -next(digits, 6))


def reference_of(rows: pd.DataFrame, names: ColumnNames) -> tuple[pd.Series | None, list[Note]]:
    """The previous closes that a column of changes, or of changes in percent, states; None if it does not.

    It is the close of the row before but where an action was between them. A column that says so for many
    rows is another thing, and is named.
    """
    stated = next((field for field in ("change", "pct_chg") if field in rows), None)
    if stated is None:
        return None, []
    if "pre_close" in rows:
        order, before = rows, rows["pre_close"]
    else:
        order = rows.sort_values(["ts_code", "trade_date"], kind="stable")
        before = order.groupby("ts_code", sort=False)["close"].shift()
    if stated == "change":
        implied = order["close"] - order["change"]
        room: pd.Series | float = _unit(order["change"]) * 1.5
    else:
        percent = order["pct_chg"] / (1.0 if _are_fractions(order, before) else 100.0)
        implied, room = order["close"] / (1 + percent), order["close"] * 2e-4 + 0.01
    off = ((implied - before).abs() > room) & before.notna()
    if "pre_close" in rows or (off.mean() > _MOST_ACTIONS and off.sum() > 1):
        if not off.any():
            return None, []
        first, head = f"{order['trade_date'][off].iloc[0]:%Y-%m-%d}", names.columns[stated]
        return None, [
            Note(
                zh=f"{head} 与 {int(off.sum())} 行的收盘价不符（如 {first}），未采用",
                en=f"{head} contradicts the closes of {int(off.sum())} rows, the first on {first}; not used",
            )
        ]
    return implied.round(2).where(off | before.isna(), before).reindex(rows.index), []


def _are_fractions(rows: pd.DataFrame, before: pd.Series) -> bool:
    """Whether changes are written as 0.01 and not as 1 percent."""
    real = (rows["close"] / before - 1).abs().median()
    return bool(abs(rows["pct_chg"].abs().median() - real) < abs(rows["pct_chg"].abs().median() - 100 * real))


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
