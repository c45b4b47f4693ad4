"""The endpoints of tushare: columns, keys and row limits, from each endpoint's page on tushare.pro."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from quantgraph.data.market_data import INDICATOR_FIELDS

__all__ = [
    "ADJ_FACTOR",
    "DAILY",
    "DAILY_BASIC",
    "DIVIDEND",
    "ENDPOINTS",
    "INDEX_BASIC",
    "INDEX_DAILY",
    "INDEX_WEIGHT",
    "NAMECHANGE",
    "STK_LIMIT",
    "STOCK_BASIC",
    "TRADE_CAL",
    "Endpoint",
]


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """One endpoint and how it is requested.

    Attributes
    ----------
    name
        Tushare's name.
    text, dates, numbers
        Columns by type.
    row_limit
        Largest number of rows of one reply. Where the vendor states none, a number small enough for every
        known endpoint, so that a shorter page is the last one.
    key
        Parameter and column that names a series: a code, or an exchange.
    order
        Columns by which rows are sorted; the first one holds the day.
    access
        ``market``: by code or, of all codes, by session. ``series``: one key only. ``list``: a whole list as
        of today.
    windowed
        Whether the endpoint knows ``start_date`` and ``end_date``; if not, it answers with the whole series.
    may_be_empty
        Whether no row is a valid answer.
    parts
        Parameters of the requests that together give a list.
    """

    name: str
    text: tuple[str, ...] = ("ts_code",)
    dates: tuple[str, ...] = ("trade_date",)
    numbers: tuple[str, ...] = ()
    row_limit: int = 2000
    key: str = "ts_code"
    order: tuple[str, ...] = ("trade_date", "ts_code")
    access: Literal["market", "series", "list"] = "market"
    windowed: bool = True
    may_be_empty: bool = False
    parts: tuple[Mapping[str, str], ...] = ({},)

    @property
    def fields(self) -> tuple[str, ...]:
        """Requested columns, in the order of the frames."""
        return self.text + self.dates + self.numbers

    @property
    def day(self) -> str:
        """Column of the day."""
        return self.order[0]


_PRICES = ("open", "high", "low", "close", "pre_close", "change", "pct_chg", "vol", "amount")

DAILY = Endpoint(name="daily", numbers=_PRICES, row_limit=6000)
DAILY_BASIC = Endpoint(name="daily_basic", numbers=("close", *INDICATOR_FIELDS), row_limit=6000)
ADJ_FACTOR = Endpoint(name="adj_factor", numbers=("adj_factor",))
STK_LIMIT = Endpoint(name="stk_limit", numbers=("pre_close", "up_limit", "down_limit"), row_limit=5800)
_SUSPEND_D = Endpoint(
    name="suspend_d",
    text=("ts_code", "suspend_timing", "suspend_type"),
    row_limit=5000,
    may_be_empty=True,
)
DIVIDEND = Endpoint(
    name="dividend",
    text=("ts_code", "div_proc"),
    dates=("end_date", "imp_ann_date", "record_date", "ex_date", "pay_date"),
    numbers=("stk_div", "cash_div_tax"),
    order=("ex_date", "ts_code"),
    windowed=False,
    may_be_empty=True,
)
INDEX_DAILY = Endpoint(name="index_daily", numbers=_PRICES, row_limit=8000, access="series")
INDEX_WEIGHT = Endpoint(
    name="index_weight",
    text=("index_code", "con_code"),
    numbers=("weight",),
    key="index_code",
    order=("trade_date", "con_code"),
    access="series",
)
TRADE_CAL = Endpoint(
    name="trade_cal",
    text=("exchange",),
    dates=("cal_date", "pretrade_date"),
    numbers=("is_open",),
    key="exchange",
    order=("cal_date",),
    access="series",
)
NAMECHANGE = Endpoint(
    name="namechange",
    text=("ts_code", "name", "change_reason"),
    dates=("start_date", "end_date", "ann_date"),
    row_limit=10000,
    order=("start_date",),
    access="list",
    may_be_empty=True,
)
STOCK_BASIC = Endpoint(
    name="stock_basic",
    text=("ts_code", "name", "market", "list_status"),
    dates=("list_date", "delist_date"),
    order=("list_date",),
    access="list",
    parts=({"list_status": "L"}, {"list_status": "D"}, {"list_status": "P"}),
)
INDEX_BASIC = Endpoint(
    name="index_basic",
    text=("ts_code", "name", "market"),
    dates=(),
    order=("ts_code",),
    access="list",
    parts=({"market": "SSE"}, {"market": "SZSE"}, {"market": "CSI"}),
)

ENDPOINTS: dict[str, Endpoint] = {
    endpoint.name: endpoint
    for endpoint in (
        *(DAILY, DAILY_BASIC, ADJ_FACTOR, STK_LIMIT, _SUSPEND_D, DIVIDEND),
        *(INDEX_DAILY, INDEX_WEIGHT, TRADE_CAL, NAMECHANGE, STOCK_BASIC, INDEX_BASIC),
    )
}
"""All endpoints by name."""
