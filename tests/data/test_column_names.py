"""The header of a table names its fields, in the words of vendors."""

from __future__ import annotations

import pytest

from quantgraph.data._table_columns import column_names


@pytest.mark.parametrize(
    ("header", "fields"),
    [
        ("ts_code trade_date open high low close vol", "ts_code trade_date open high low close vol"),
        ("Date Open High Low Close Volume", "trade_date open high low close vol"),
        ("Datetime Ticker CLOSE", "trade_date ts_code close"),
        ("日期 股票代码 开盘 收盘 最高 最低 成交量", "trade_date ts_code open close high low vol"),
        ("成交额 换手率 名称", "amount turnover_rate name"),
    ],
)
def test_fields_in_the_order_of_the_columns(header: str, fields: str) -> None:
    names = column_names(header.split())
    assert list(names.fields) == fields.split()
    assert names.ignored == ()


def test_of_two_names_of_a_field_the_vendors_own_counts() -> None:
    names = column_names(["symbol", "ts_code", "Adj Close", "close"])
    assert dict(names.columns) == {"ts_code": "ts_code", "twin": "Adj Close", "close": "close"}
    assert names.ignored == ("symbol",)


@pytest.mark.parametrize(
    ("header", "stated", "customary"),
    [
        ("vol amount", {}, {"vol": 100, "amount": 1000}),
        ("volume amount", {}, {"vol": 1}),
        ("成交量(手) 成交额（万元）", {"vol": 100, "amount": 10_000}, {}),
        ("Volume(shares) amount", {"vol": 1}, {}),
        ("成交量 成交额", {}, {}),
        ("股票代码 成交量 成交额 振幅 涨跌幅 涨跌额 换手率", {}, {"vol": 100, "amount": 1}),
    ],
)
def test_units_that_names_say(header: str, stated: dict[str, float], customary: dict[str, float]) -> None:
    names = column_names(header.split())
    assert dict(names.stated) == stated
    assert dict(names.customary) == customary
