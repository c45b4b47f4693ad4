"""The embedded default source: sixty invented stocks, three years, every board, with news and filings.

Reports come out on the evening before the sessions from which the table has them: in April for the last
quarter of the year before and of the first one, in August of the second, in October of the third. Profits and
sales of the last four quarters sum up to ``profit_ttm`` and ``sales_ttm`` of the table at every moment. News
tells of a report, of a close at the price limit, or of what a hash of the code and the day picks, in both
languages.

The files in ``market/`` hold what cannot be derived; ``scripts/make_sample.py`` makes them and documents how.
Price limits and daily indicators are derived here, so that they always agree with prices, volumes,
share counts and accounts. Indicators have four decimals, like tushare's.
"""

from __future__ import annotations

import json
import threading
import zlib
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import cache
from importlib.resources import files
from itertools import chain
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from quantgraph._util.canonical_json import content_hash
from quantgraph._util.texts import Note
from quantgraph.data._frame_source import DatedName, FrameSource, MarketTables, MemberList
from quantgraph.data._source import (
    BAR_FIELDS,
    INDICATOR_FIELDS,
    LEVEL_FIELDS,
    columns_to_panel,
    session_index,
)
from quantgraph.state import Record

_UNIT = 10_000
"""The table counts in ten thousands, records in ones."""
_QUARTER_ENDS = ((3, 31), (6, 30), (9, 30), (12, 31))
_REPORTED_FROM = ((4, 27), (8, 28), (10, 29), (4, 27))
_QUARTERS = ("一季度", "上半年", "前三季度", "全年")
_PERIODS = ("the first quarter", "the first half", "three quarters", "the year")
_SECTORS = {
    "银行": "Bank", "科技": "Tech", "医药": "Pharma", "消费": "Consumer",
    "能源": "Energy", "制造": "Machinery", "材料": "Materials", "地产": "Property",
}  # fmt: skip
_PUBLISHER = "合成通讯 Synthetic Wire"
_EVERY = 40
"""A stock has news of its own on one of so many days."""
_TIMES = ((8, 10), (8, 55), (9, 40), (11, 35), (14, 20), (18, 30), (21, 5))
_STORIES = (
    (("签下一笔大额订单", "wins a large order"), ("管理层预计增长加快", "management expects growth")),
    (("推出新产品", "launches a new product"), ("首批订单好于预期", "first orders beat expectations")),
    (("上调全年目标", "raises its target for the year"), ("需求强劲", "demand is strong")),
    (("回购公司股份", "buys back shares"), ("董事会批准了方案", "the board has approved the plan")),
    (("更换财务负责人", "changes its head of finance"), ("公司称业务不受影响", "business goes on as before")),
    (("召开股东大会", "holds its shareholder meeting"), ("各项议案获得通过", "all proposals are passed")),
    (("下调全年目标", "cuts its target for the year"), ("成本上升，需求疲弱", "costs rise, demand is weak")),
    (("一处工厂停产", "halts a plant"), ("预计损失有限", "losses are expected to be small")),
    (("卷入合同诉讼", "faces a lawsuit over a contract"), ("公司称将应诉", "it will defend itself")),
    (("股东计划减持", "is told that a large holder sells"), ("减持将在半年内进行", "over half a year")),
)
"""What happened and a comment on it, each in both languages."""

Numbers = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class StockRows:
    """Traded sessions of one stock, ascending; ``names`` are first day and text of its names, ascending."""

    code: str
    sector: str
    names: tuple[tuple[date, str], ...]
    newcomer: bool
    days: tuple[date, ...]
    profit: Numbers
    sales: Numbers
    shares: Numbers
    limits: NDArray[np.int64]

    def title(self, day: date) -> tuple[str, str]:
        """Its name on a day, in both languages."""
        name = next((text for first, text in reversed(self.names) if first <= day), self.names[0][1])
        return name, f"Synthetic {_SECTORS[self.sector]} {name[-2:]}"


def sample_records(stocks: Iterable[StockRows]) -> tuple[Record, ...]:
    """All news and filings of some stocks."""
    return tuple(
        chain.from_iterable(chain(_reports(each), _limit_news(each), _stories(each)) for each in stocks)
    )


def _reports(stock: StockRows) -> Iterator[Record]:
    first, last = stock.days[0], stock.days[-1]
    books = {"profit": _Quarters(stock.profit[0]), "sales": _Quarters(stock.sales[0])}
    begun = [place for place in _quarters(first.year - 2, first.year) if _report_day(place) <= first][-4:]
    for place in begun:
        for book in books.values():
            book.begin(place)
        filed = first if stock.newcomer else _report_day(place)
        yield _filing(stock, place, filed - timedelta(days=1), books, stock.shares[0])
    before = float(stock.profit[0])
    for place in _quarters(first.year - 1, last.year):
        reported = _report_day(place)
        if place <= begun[-1] or reported > last:
            continue
        row = bisect_left(stock.days, reported)
        books["profit"].add(place, stock.profit[row])
        books["sales"].add(place, stock.sales[row])
        evening = reported - timedelta(days=1)
        yield _filing(stock, place, evening, books, stock.shares[row])
        if place % 4 != 3:  # in April, the first quarter is published with the year
            yield _report_news(stock, place, evening, before, float(stock.profit[row]))
            before = float(stock.profit[row])


class _Quarters:
    """Amounts by quarter, of which the last four sum up to a trailing year."""

    def __init__(self, year: float) -> None:
        self._quarter = year / 4
        self.amounts: dict[int, float] = {}

    def begin(self, place: int) -> None:
        self.amounts[place] = self._quarter

    def add(self, place: int, year: float) -> None:
        if place % 4 == 0:  # reported with the last quarter, which has brought the year to its sum
            self.amounts[place] = self.amounts[place - 4]
        else:
            self.amounts[place] = year - sum(self.amounts[place - back] for back in (1, 2, 3))


def _quarters(first_year: int, last_year: int) -> range:
    """Quarters of some years, counted: the year times four, and 0 to 3."""
    return range(first_year * 4, last_year * 4 + 4)


def _report_day(place: int) -> date:
    """The day from which a quarter is in the table."""
    year, quarter = divmod(place, 4)
    return date(year + (quarter == 3), *_REPORTED_FROM[quarter])


def _filing(
    stock: StockRows, place: int, filed: date, books: Mapping[str, _Quarters], shares: float
) -> Record:
    year, quarter = divmod(place, 4)
    profit = books["profit"].amounts[place]
    count, share = round(shares * _UNIT), round(profit / shares, 4)
    start = date(year, quarter * 3 + 1, 1)
    body: dict[str, Any] = {
        "fiscal_year": year,
        "fiscal_period": f"Q{quarter + 1}",
        "start_date": f"{start}",
        "end_date": f"{date(year, *_QUARTER_ENDS[quarter])}",
        "revenues": round(books["sales"].amounts[place] * _UNIT, 2),
        "net_income_loss": round(profit * _UNIT, 2),
        "basic_earnings_per_share": share,
        "diluted_earnings_per_share": share,
        "basic_average_shares": float(count),
        "diluted_average_shares": float(count),
    }
    return Record("filing", filed, stock.code, body)


def _report_news(stock: StockRows, place: int, evening: date, before: float, profit: float) -> Record:
    year, quarter = divmod(place, 4)
    change = (profit - before) / abs(before)
    chinese, english = stock.title(evening)
    moved = ("增长", "up") if change >= 0 else ("下降", "down")
    return _news(
        stock,
        datetime.combine(evening, datetime.min.time()) + timedelta(hours=19, minutes=30),
        (
            f"{chinese}：{year}年{_QUARTERS[quarter]}，近四季净利润{moved[0]}{abs(change):.1%}",
            f"{english}: trailing profit {moved[1]} {abs(change):.1%} after {_PERIODS[quarter]}",
        ),
        (f"近四季净利润{profit / _UNIT:.2f}亿元", f"profit of four quarters: {profit / 100:.2f}m CNY"),
    )


def _limit_news(stock: StockRows) -> Iterator[Record]:
    for row in np.flatnonzero(stock.limits):
        day, up = stock.days[row], stock.limits[row] > 0
        chinese, english = stock.title(day)
        yield _news(
            stock,
            datetime(day.year, day.month, day.day, 15, 30),  # noqa: DTZ001 - local, as all instants here
            (
                f"{chinese}收盘{'涨停' if up else '跌停'}",
                f"{english} closes at its {'upper' if up else 'lower'} price limit",
            ),
            ("买盘踊跃", "heavy buying") if up else ("卖压沉重", "heavy selling"),
        )


def _stories(stock: StockRows) -> Iterator[Record]:
    day = stock.days[0]
    while day <= stock.days[-1]:
        drawn = zlib.crc32(f"{stock.code} {day}".encode())
        if drawn % _EVERY == 0:
            hour, minute = _TIMES[drawn // _EVERY % len(_TIMES)]
            story, about_it = _STORIES[drawn // _EVERY // len(_TIMES) % len(_STORIES)]
            chinese, english = stock.title(day)
            at = datetime(day.year, day.month, day.day, hour, minute)  # noqa: DTZ001 - local
            yield _news(stock, at, (chinese + story[0], f"{english} {story[1]}"), about_it)
        day += timedelta(days=1)


def _news(stock: StockRows, at: datetime, title: tuple[str, str], text: tuple[str, str]) -> Record:
    body = {
        "title": " / ".join(title),
        "description": " / ".join(text),
        "publisher": _PUBLISHER,
        "id": f"{zlib.crc32(f'{stock.code} {at} {title[0]}'.encode()):08x}",
    }
    return Record("news", at, stock.code, body)


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

    synthetic: Final = True  # no stock or price in it is real
    name: Final = "sample"

    def opens(self) -> str:
        """``sample``."""
        return self.name

    def fingerprint(self) -> Mapping[str, str]:
        """Hash of each file of the package."""
        folder = files("quantgraph.data.sample") / "market"
        return {each.name: content_hash(each.read_bytes()) for each in folder.iterdir() if each.is_file()}

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
