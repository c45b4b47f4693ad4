"""The embedded default source: sixty invented stocks, three years, every board. Synthetic.

The files in ``market/`` hold what cannot be derived; ``scripts/make_sample.py`` makes them and documents how.
Price limits and daily indicators are derived here, so that they always agree with prices, volumes,
share counts and accounts. Indicators have four decimals, like tushare's.
"""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np
import pandas as pd

from quantgraph._util.texts import Note
from quantgraph.data.frame_source import DatedName, FrameSource, MarketTables, MemberList
from quantgraph.data.market_data import (
    BAR_FIELDS,
    INDICATOR_FIELDS,
    LEVEL_FIELDS,
    columns_to_panel,
    session_index,
)
from quantgraph.data.sample.sample_records import StockRows, sample_records
from quantgraph.state.records import Record

NO_LIMIT: tuple[float, float] = (99999.99, 0.01)
"""Limit prices (CNY), upper and lower, of sessions without a price limit: the first after a listing."""

_NOTE = Note(
    zh="合成数据：股票和价格都是虚构的，不代表任何公司；由 scripts/make_sample.py 生成",
    en="synthetic: invented stocks and prices, no real company; made by scripts/make_sample.py",
)
_FILES = files("quantgraph.data.sample") / "market"
_RATIO_SESSIONS = 5
_loading = threading.Lock()  # one thread parses the shipped files

Column = np.ndarray[Any, np.dtype[Any]]


class SampleSource(FrameSource):
    """The embedded synthetic A-share market. No key, no network; loaded once per process.

    XSHG sessions from 2023-01-03 to 2025-12-31; 60 stocks named 合成银行01 and so on, with suspensions,
    sessions at the limit, ST, ex-dividend sessions and three late listings; the index 合成30
    (``990030.SH``) with member lists by half-year; news and quarterly filings. Units and field names are
    tushare's. The codes lie in the exchanges' numbering ranges, so that each board's rules apply, and denote
    no real company.
    """

    @property
    def name(self) -> str:
        """``sample``."""
        return "sample"

    @property
    def synthetic(self) -> bool:
        """True: no stock or price in it is real."""
        return True

    def _load(self) -> MarketTables:
        with _loading:
            return _market()

    def _records(self) -> tuple[Record, ...]:
        with _loading:
            return _all_records()


@cache
def _all_records() -> tuple[Record, ...]:
    """News and filings, made when they are first asked for: most runs need none."""
    facts, table = _facts(), _daily()
    table = table.rows(np.isin(table.codes, list(facts["sectors"])))
    names = _dated_names(facts["names"])
    up, down = _limits(table["pre_close_fen"].astype("int64"), table["band"].astype("int64"))
    close = table["close_fen"] / 100
    limits = np.where(close >= up, 1, np.where(close <= down, -1, 0))
    codes, begins = np.unique(table.codes, return_index=True)
    ends = [*begins[1:], len(table.codes)]
    return sample_records(
        StockRows(
            code=code,
            sector=facts["sectors"][code],
            names=tuple((first.date(), name) for first, name in names[code]),
            newcomer=bool(table.dates[begin] > table.dates.min()),
            days=tuple(table.dates[begin:end].astype("datetime64[D]").tolist()),
            profit=table["profit_ttm"][begin:end],
            sales=table["sales_ttm"][begin:end],
            shares=table["total_share"][begin:end],
            limits=limits[begin:end],
        )
        for code, begin, end in zip(codes.tolist(), begins, ends, strict=True)
    )


@cache
def _market() -> MarketTables:
    facts, table = _facts(), _daily()
    index_code = next(iter(facts["members"]))
    of_index = table.codes == index_code
    index, stocks = table.rows(of_index), table.rows(~of_index)
    sessions, symbols = session_index(stocks.dates), sorted(set(stocks.codes))
    levels = pd.DataFrame({field: index[f"{field}_fen"] / 100 for field in LEVEL_FIELDS}, index=index.dates)
    panel = columns_to_panel(
        stocks.codes, stocks.dates, _bars(stocks) | _indicators(stocks), sessions, symbols
    )
    return MarketTables(
        bars={field: panel[field] for field in BAR_FIELDS if field in panel},
        indicators={field: panel[field] for field in INDICATOR_FIELDS},
        levels={index_code: levels.set_axis(session_index(levels.index))},
        lists={code: _lists(by_date) for code, by_date in facts["members"].items()},
        names={code: name for code, name, _ in facts["names"]},
        dated_names=_dated_names(facts["names"]),
        notes=(_NOTE,),
    )


@dataclass(frozen=True)
class _Table:
    """Shipped table: columns by name, rows in order of code and session."""

    codes: Column
    dates: Column
    columns: dict[str, Column]

    def __getitem__(self, name: str) -> Column:
        return self.columns[name]

    def rows(self, chosen: Column) -> _Table:
        columns = {name: values[chosen] for name, values in self.columns.items()}
        return _Table(self.codes[chosen], self.dates[chosen], columns)


def _daily() -> _Table:
    import pyarrow as pa
    import pyarrow.parquet as pq

    content = _FILES.joinpath("daily.parquet").read_bytes()
    table = pq.read_table(pa.BufferReader(content), read_dictionary=["ts_code"])
    codes = table.column("ts_code").combine_chunks()
    columns = {name: table.column(name).to_numpy() for name in table.column_names[2:]}
    dates = table.column("trade_date").to_numpy().astype("datetime64[us]")
    return _Table(
        np.array(codes.dictionary.to_pylist(), dtype=object)[codes.indices.to_numpy()], dates, columns
    )


@cache
def _facts() -> dict[str, Any]:
    content = _FILES.joinpath("market.json").read_text(encoding="utf-8")
    facts: dict[str, Any] = json.loads(content)
    return facts


def _lists(by_date: dict[str, list[str]]) -> tuple[MemberList, ...]:
    return tuple(
        MemberList(listed_on=pd.Timestamp(day), symbols=tuple(symbols))
        for day, symbols in sorted(by_date.items())
    )


def _dated_names(names: list[list[str]]) -> dict[str, tuple[DatedName, ...]]:
    dated: dict[str, tuple[DatedName, ...]] = {}
    for code, name, start in names:
        dated[code] = (*dated.get(code, ()), (pd.Timestamp(start), name))
    return dated


def _bars(table: _Table) -> dict[str, Column]:
    prices = {field: table[f"{field}_fen"] / 100 for field in (*LEVEL_FIELDS, "pre_close")}
    up, down = _limits(table["pre_close_fen"].astype("int64"), table["band"].astype("int64"))
    others = {"vol": table["vol"], "amount": table["amount_yuan"] / 1000, "adj_factor": table["adj_factor"]}
    return prices | others | {"up_limit": up, "down_limit": down} | _payouts(table)


def _payouts(table: _Table) -> dict[str, Column]:
    """Cash (CNY, three decimals) and bonus shares that turn the last close into the next ``pre_close``."""
    before = np.r_[0, table["close_fen"][:-1]]
    ex = np.r_[False, table.codes[1:] == table.codes[:-1]] & (table["pre_close_fen"] != before)
    shares = np.r_[1.0, table["total_share"][:-1]]
    return {
        "dividend": np.where(ex, np.round(table["dividend_year"] / shares, 3), np.nan),
        "split": np.where(
            ex & (table["total_share"] > shares), np.round(table["total_share"] / shares, 1), np.nan
        ),
    }


def _limits(pre_close: Column, band: Column) -> tuple[Column, Column]:
    """Limit prices (CNY) from fen and percent: half up to the tick, at least one tick away.

    SSE trading rules 2023, 3.3.15 and 3.3.16; the other exchanges' are the same.
    """
    up = np.maximum((2 * pre_close * (100 + band) + 100) // 200, pre_close + 1)
    down = np.maximum(np.minimum((2 * pre_close * (100 - band) + 100) // 200, pre_close - 1), 1)
    return np.where(band > 0, up / 100, NO_LIMIT[0]), np.where(band > 0, down / 100, NO_LIMIT[1])


def _indicators(table: _Table) -> dict[str, Column]:
    close, vol = table["close_fen"] / 100, table["vol"].astype("float64")
    value = close * table["total_share"]
    columns = {
        "turnover_rate": vol / table["float_share"],
        "turnover_rate_f": vol / table["free_share"],
        "volume_ratio": _volume_ratio(table.codes, vol),
        "pe": _multiple(value, table["profit_year"]),
        "pe_ttm": _multiple(value, table["profit_ttm"]),
        "pb": _multiple(value, table["equity"]),
        "ps": _multiple(value, table["sales_year"]),
        "ps_ttm": _multiple(value, table["sales_ttm"]),
        "dv_ratio": 100 * table["dividend_year"] / value,
        "dv_ttm": 100 * table["dividend_ttm"] / value,
        "total_share": table["total_share"],
        "float_share": table["float_share"],
        "free_share": table["free_share"],
        "total_mv": value,
        "circ_mv": close * table["float_share"],
    }
    return {field: np.round(values, 4) for field, values in columns.items()}


def _multiple(value: Column, figure: Column) -> Column:
    """Market value over an accounting figure; NaN where the figure is not positive."""
    return value / np.where(figure > 0, figure, np.nan)


def _volume_ratio(codes: Column, vol: Column) -> Column:
    """Volume over the mean of the previous five traded sessions; NaN in a stock's first five."""
    total = np.concatenate([[0.0], np.cumsum(vol)])
    row = np.arange(len(vol))
    first = np.maximum.accumulate(np.where(np.r_[True, codes[1:] != codes[:-1]], row, 0))
    before = total[row] - total[np.maximum(row - _RATIO_SESSIONS, 0)]
    return np.where(
        row - first >= _RATIO_SESSIONS, _RATIO_SESSIONS * vol / np.where(before > 0, before, np.nan), np.nan
    )
