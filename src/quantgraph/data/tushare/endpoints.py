"""The endpoints of tushare: columns, keys and row limits, from each endpoint's page on tushare.pro."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from quantgraph.data.market_data import INDICATOR_FIELDS


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
        Parameters of the requests that together give a list; of a series the first one's.
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

_ENDPOINTS = (
    Endpoint(name="daily", numbers=_PRICES, row_limit=6000),
    Endpoint(name="daily_basic", numbers=("close", *INDICATOR_FIELDS), row_limit=6000),
    Endpoint(name="adj_factor", numbers=("adj_factor",)),
    Endpoint(name="stk_limit", numbers=("pre_close", "up_limit", "down_limit"), row_limit=5800),
    Endpoint(
        name="suspend_d",
        text=("ts_code", "suspend_timing", "suspend_type"),
        row_limit=5000,
        may_be_empty=True,
    ),
    Endpoint(
        name="dividend",
        text=("ts_code", "div_proc"),
        dates=("end_date", "imp_ann_date", "record_date", "ex_date", "pay_date"),
        numbers=("stk_div", "cash_div_tax"),
        order=("ex_date", "ts_code"),
        windowed=False,
        may_be_empty=True,
    ),
    Endpoint(
        name="anns_d",
        text=("ts_code", "title", "url", "rec_time"),
        dates=("ann_date",),
        order=("ann_date", "ts_code"),
        access="series",
        may_be_empty=True,
    ),
    Endpoint(
        name="income",
        text=("ts_code", "report_type"),
        dates=("ann_date", "f_ann_date", "end_date"),
        numbers=("basic_eps", "diluted_eps", "total_revenue", "n_income_attr_p"),
        order=("ann_date", "end_date"),
        access="series",
        windowed=False,
        may_be_empty=True,
        parts=({"report_type": "2"},),  # of single quarters, consolidated
    ),
    Endpoint(name="index_daily", numbers=_PRICES, row_limit=8000, access="series"),
    Endpoint(
        name="index_weight",
        text=("index_code", "con_code"),
        numbers=("weight",),
        key="index_code",
        order=("trade_date", "con_code"),
        access="series",
    ),
    Endpoint(
        name="trade_cal",
        text=("exchange",),
        dates=("cal_date", "pretrade_date"),
        numbers=("is_open",),
        key="exchange",
        order=("cal_date",),
        access="series",
    ),
    Endpoint(
        name="namechange",
        text=("ts_code", "name", "change_reason"),
        dates=("start_date", "end_date", "ann_date"),
        row_limit=10000,
        order=("start_date",),
        access="list",
        may_be_empty=True,
    ),
    Endpoint(
        name="stock_basic",
        text=("ts_code", "name", "market", "list_status"),
        dates=("list_date", "delist_date"),
        order=("list_date",),
        access="list",
        parts=({"list_status": "L"}, {"list_status": "D"}, {"list_status": "P"}),
    ),
    Endpoint(
        name="index_basic",
        text=("ts_code", "name", "market"),
        dates=(),
        order=("ts_code",),
        access="list",
        parts=({"market": "SSE"}, {"market": "SZSE"}, {"market": "CSI"}),
    ),
)
ENDPOINTS: dict[str, Endpoint] = {endpoint.name: endpoint for endpoint in _ENDPOINTS}
"""All endpoints by name."""
