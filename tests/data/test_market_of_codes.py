"""Whose rules hold follows from the codes."""

from __future__ import annotations

import pandas as pd
import pytest

from quantgraph import open_source
from quantgraph.data.market_of_codes import rules_of


def source(*symbols):
    row = {"open": 1.0, "high": 1.0, "low": 1.0, "close": 1.0, "volume": 1}
    days = {"date": "2024-01-02"}
    return open_source(pd.DataFrame([{"symbol": symbol, **days, **row} for symbol in symbols]))


@pytest.mark.parametrize(
    ("held", "wanted", "market"),
    [
        (["AAPL", "BRK-B"], [], "us"),
        (["600519.SH"], [], "cn"),
        (["AAPL", "600519.SH"], [], "cn"),  # a US code is refused there, with the option to say
        (["AAPL", "600519.SH"], ["AAPL"], "us"),
        (["AAPL"], ["some name"], "us"),
        (["AAPL"], ["600519.SH"], "cn"),
    ],
)
def test_the_market_is_that_of_all_codes(held, wanted, market):
    assert rules_of(source(*held), wanted).market == market


def test_the_sample_and_slippage():
    assert rules_of(open_source("sample"), slippage_bps=5).slippage_bps == 5
    assert rules_of(open_source("sample")).market == "cn"
