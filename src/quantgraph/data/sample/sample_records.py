"""Invented news and filings of the sample, derived from its table: the same in every process.

Reports come out on the evening before the sessions from which the table has them: in April that of the last
quarter of the year before and of the first one, in August of the second, in October of the third. Profits and
sales of the last four quarters sum up to ``profit_ttm`` and ``sales_ttm`` of the table at every moment. News
tells of a report, of a close at the price limit, or of what a hash of the code and the day picks, in both
languages.
"""

from __future__ import annotations

import zlib
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantgraph.state.records import Record

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
    (
        ("下调全年目标", "cuts its target for the year"),
        ("成本上升，需求疲弱", "costs rise, demand is weak"),
    ),
    (("一处工厂停产", "halts a plant"), ("预计损失有限", "losses are expected to be small")),
    (("卷入合同诉讼", "faces a lawsuit over a contract"), ("公司称将应诉", "it will defend itself")),
    (
        ("股东计划减持", "is told that a large holder sells"),
        ("减持将在半年内进行", "over half a year"),
    ),
)
"""What happened and what is said about it, each in both languages."""

Numbers = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class StockRows:
    """Traded sessions of one stock, ascending.

    Attributes
    ----------
    names
        First day and text of each of its names, ascending.
    newcomer
        Whether it was listed on its first day: all that it had to report was published on the eve.
    limits
        1 where it closed at the upper price limit, -1 at the lower one, else 0.
    """

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
    begun = [place for place in _quarters(first.year - 2, first.year) if _reported(place) <= first][-4:]
    for place in begun:
        for book in books.values():
            book.begin(place)
        filed = first if stock.newcomer else _reported(place)
        yield _filing(stock, place, filed - timedelta(days=1), books, stock.shares[0])
    before = float(stock.profit[0])
    for place in _quarters(first.year - 1, last.year):
        reported = _reported(place)
        if place <= begun[-1] or reported > last:
            continue
        row = bisect_left(stock.days, reported)
        books["profit"].add(place, stock.profit[row])
        books["sales"].add(place, stock.sales[row])
        evening = reported - timedelta(days=1)
        yield _filing(stock, place, evening, books, stock.shares[row])
        if place % 4 != 3:  # in April, the first quarter is told with the year
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


def _reported(place: int) -> date:
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
            said, about_it = _STORIES[drawn // _EVERY // len(_TIMES) % len(_STORIES)]
            chinese, english = stock.title(day)
            at = datetime(day.year, day.month, day.day, hour, minute)  # noqa: DTZ001 - local
            yield _news(stock, at, (chinese + said[0], f"{english} {said[1]}"), about_it)
        day += timedelta(days=1)


def _news(stock: StockRows, at: datetime, title: tuple[str, str], text: tuple[str, str]) -> Record:
    body = {
        "title": " / ".join(title),
        "description": " / ".join(text),
        "publisher": _PUBLISHER,
        "id": f"{zlib.crc32(f'{stock.code} {at} {title[0]}'.encode()):08x}",
    }
    return Record("news", at, stock.code, body)
