"""The endpoints of tushare that are used here: their columns, and how many rows one reply may hold."""

from __future__ import annotations

from dataclasses import dataclass

from quantgraph.data.protocol import INDICATOR_FIELDS

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
    "SUSPEND_D",
    "TRADE_CAL",
    "Endpoint",
]

_UNDOCUMENTED = 2000
"""Rows asked for where the documentation states no limit: few enough for every known endpoint, so
that a shorter page is the last one."""


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """One endpoint.

    ``row_limit`` is the largest number of rows of one reply (tushare.pro, the document of each
    endpoint); ``key`` is the parameter and column that names a series, ``on`` the column of
    its days, which ``start_date`` and ``end_date`` cut; an endpoint that is not ``windowed`` does not know
    these two and answers with the whole series.
    """

    name: str
    text: tuple[str, ...]
    dates: tuple[str, ...] = ("trade_date",)
    numbers: tuple[str, ...] = ()
    row_limit: int = _UNDOCUMENTED
    key: str = "ts_code"
    on: str = "trade_date"
    windowed: bool = True

    @property
    def fields(self) -> tuple[str, ...]:
        """Columns asked for, in the order in which frames have them."""
        return self.text + self.dates + self.numbers


_PRICES = ("open", "high", "low", "close", "pre_close", "change", "pct_chg", "vol", "amount")

DAILY = Endpoint(name="daily", text=("ts_code",), numbers=_PRICES, row_limit=6000)
DAILY_BASIC = Endpoint(
    name="daily_basic", text=("ts_code",), numbers=("close", *INDICATOR_FIELDS), row_limit=6000
)
ADJ_FACTOR = Endpoint(name="adj_factor", text=("ts_code",), numbers=("adj_factor",))
STK_LIMIT = Endpoint(
    name="stk_limit", text=("ts_code",), numbers=("pre_close", "up_limit", "down_limit"), row_limit=5800
)
SUSPEND_D = Endpoint(name="suspend_d", text=("ts_code", "suspend_timing", "suspend_type"), row_limit=5000)
INDEX_DAILY = Endpoint(name="index_daily", text=("ts_code",), numbers=_PRICES, row_limit=8000)
INDEX_WEIGHT = Endpoint(
    name="index_weight", text=("index_code", "con_code"), numbers=("weight",), key="index_code"
)
TRADE_CAL = Endpoint(
    name="trade_cal",
    text=("exchange",),
    dates=("cal_date", "pretrade_date"),
    numbers=("is_open",),
    key="exchange",
    on="cal_date",
)
NAMECHANGE = Endpoint(
    name="namechange",
    text=("ts_code", "name", "change_reason"),
    dates=("start_date", "end_date", "ann_date"),
    row_limit=10000,
    on="ann_date",
)
DIVIDEND = Endpoint(
    name="dividend",
    text=("ts_code", "div_proc"),
    dates=("end_date", "imp_ann_date", "record_date", "ex_date", "pay_date"),
    numbers=("stk_div", "cash_div_tax"),
    on="ex_date",
    windowed=False,
)
STOCK_BASIC = Endpoint(
    name="stock_basic",
    text=("ts_code", "name", "market", "list_status"),
    dates=("list_date", "delist_date"),
    on="list_date",
)
INDEX_BASIC = Endpoint(name="index_basic", text=("ts_code", "name", "market"), dates=(), on="")

ENDPOINTS: dict[str, Endpoint] = {
    endpoint.name: endpoint
    for endpoint in (
        DAILY,
        DAILY_BASIC,
        ADJ_FACTOR,
        STK_LIMIT,
        SUSPEND_D,
        INDEX_DAILY,
        INDEX_WEIGHT,
        TRADE_CAL,
        NAMECHANGE,
        DIVIDEND,
        STOCK_BASIC,
        INDEX_BASIC,
    )
}
"""All of them by name."""
