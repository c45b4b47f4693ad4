"""get_position and get_rules: the account and the rules of the day, by hand and by the exchanges' own numbers."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from decision_views import tools_at

from quantgraph.broker import Account
from quantgraph.broker.accounts import Position
from quantgraph.errors import UnknownSymbol
from quantgraph.tools import call_tool
from quantgraph.tools.trading._account import get_position, get_rules

DAYS = pd.to_datetime(["2024-01-02", "2024-01-03", "2024-01-04"])
SYMBOLS = ["600519.SH", "300750.SZ", "688981.SH"]


def wide(*columns):
    return pd.DataFrame(dict(zip(SYMBOLS, columns, strict=True)), index=DAYS)


PANEL = {
    "open": wide([9.0, 10.0, 12.0], [20.0, 20.0, np.nan], [30.0, 30.0, 30.0]),
    "close": wide([10.0, 11.0, 13.0], [20.0, 21.0, np.nan], [30.0, 30.0, 30.0]),
    "pre_close": wide([9.0, 10.0, 11.0], [20.0, 20.0, 21.0], [30.0, 30.0, 30.0]),
}
HELD = Account(
    cash=Decimal("1000.00"),
    positions={
        "600519.SH": Position(
            quantity=300, sellable=200, cost=Decimal("3000.60"), entered=pd.Timestamp("2024-01-02")
        ),
        "300750.SZ": Position(
            quantity=100, sellable=100, cost=Decimal(2000), entered=pd.Timestamp("2024-01-02")
        ),
    },
)


@pytest.fixture
def context():
    return tools_at(PANEL, "2024-01-04", account=HELD)


def asked(tool, context, symbol):
    return call_tool(tool, {"symbol": symbol}, context, timeout=5)


def test_a_position_is_valued_at_the_open_of_today(context):
    # 300 at 12 are 3600, 100 at the last open of 20 are 2000, with the cash 6600.
    assert asked(get_position, context, "600519.SH") == {
        "symbol": "600519.SH", "shares": 300, "sellable": 200, "average_cost": 10.002, "price": 12.0,
        "price_is": "open", "value": 3600.0, "weight": 0.5455, "cash": 1000.0, "total_assets": 6600.0,
    }  # fmt: skip


def test_without_an_open_it_is_valued_at_the_price_before(context):
    found = asked(get_position, context, "300750")
    assert (found["price"], found["price_is"], found["value"]) == (20.0, "earlier", 2000.0)


def test_without_shares_everything_is_nothing(context):
    found = asked(get_position, context, "688981.SH")
    assert (found["shares"], found["average_cost"], found["value"], found["cash"]) == (0, None, 0.0, 1000.0)


@pytest.mark.parametrize(
    ("symbol", "lot", "band"),
    [
        ("600519.SH", "at least 100 shares in steps of 100", "9.90 to 12.10"),  # 11 ± 10 %
        ("300750.SZ", "at least 100 shares in steps of 100", "16.80 to 25.20"),  # 21 ± 20 %
        ("688981.SH", "at least 200 shares in steps of 1", "24.00 to 36.00"),  # 30 ± 20 %
    ],
)
def test_lots_and_bands_are_those_of_the_boards(context, symbol, lot, band):
    found = asked(get_rules, context, symbol)
    assert lot in found["lot"]
    assert found["price_band_today"].startswith(band)
    assert (found["tick"], found["currency"]) == (0.01, "CNY")
    assert "(T+1)" in found["resale"]


def test_fees_are_told_by_an_example(context):
    """Commission 0.025 %, at least 5; stamp duty 0.05 % on sales since 2023-08-28; transfer fee 0.001 %."""
    fees = asked(get_rules, context, "600519.SH")["fees"]
    assert "a buy for 100000 CNY costs 26.00 (commission 25.00, transfer fee 1.00)" in fees
    assert "a sale costs 76.00 (commission 25.00, stamp duty 50.00, transfer fee 1.00)" in fees
    assert fees.endswith("an order costs at least 5.00")


def test_a_symbol_without_an_open_is_suspended(context):
    found = asked(get_rules, context, "300750.SZ")
    assert (found["suspended_today"], found["open"]) == (True, None)
    assert not asked(get_rules, context, "600519.SH")["suspended_today"]


def test_without_a_close_before_there_is_no_band():
    panel = {name: frame for name, frame in PANEL.items() if name != "pre_close"}
    assert asked(get_rules, tools_at(panel, "2024-01-04"), "600519.SH")["price_band_today"] == "none"


@pytest.mark.parametrize("tool", [get_position, get_rules])
def test_a_symbol_that_is_not_there_is_refused(context, tool):
    with pytest.raises(UnknownSymbol, match=r"'000001\.SZ' is not in the data"):
        asked(tool, context, "000001.SZ")
