"""Whose rules hold follows from the codes."""

from __future__ import annotations

import pandas as pd
import pytest

from quantgraph import Rulebook, open_source, run_strategy
from quantgraph.data.symbols._resolution import rules_of
from quantgraph.errors import BadOption, UnknownSymbol
from quantgraph.market.rules import market_elsewhere
from quantgraph.runs import run_signal

pytestmark = pytest.mark.proof


def source(*symbols):
    row = {"open": 1.0, "high": 1.0, "low": 1.0, "close": 1.0, "volume": 1}
    days = {"date": "2024-01-02"}
    return open_source(pd.DataFrame([{"symbol": symbol, **days, **row} for symbol in symbols]))


@pytest.mark.parametrize(
    ("held", "wanted", "market"),
    [
        (["AAPL", "BRK-B"], [], "us"),
        (["600519.SH"], [], "cn"),
        (["AAPL", "600519.SH"], ["AAPL"], "us"),
        (["AAPL"], ["some name"], "us"),
        (["AAPL"], ["600519.SH"], "cn"),
    ],
)
def test_the_market_is_that_of_all_codes(held, wanted, market):
    assert rules_of(source(*held), wanted).market == market


@pytest.mark.parametrize(
    ("said", "market"),
    [
        ("buy when it falls, only AAPL.", "us"),
        ("buy 600519 below 1000", "cn"),
        ("sh600519, RSI<30 buy", "cn"),
    ],
)
def test_of_two_markets_the_one_that_is_said_counts(said, market):
    assert rules_of(source("AAPL", "600519.SH"), (), said).market == market


@pytest.mark.parametrize(
    ("symbols", "said"), [([], "buy all stocks"), ([], "600519.SH or AAPL"), (["AAPL", "600519.SH"], "")]
)
def test_two_markets_that_nothing_tells_apart_are_an_error(symbols, said):
    with pytest.raises(
        BadOption, match=r"are of two markets; say which market's rules hold: .*--market cn or us"
    ):
        rules_of(source("AAPL", "600519.SH"), symbols, said)
    assert rules_of(source("AAPL", "600519.SH"), symbols, said, traded=False).market == "cn"


def test_the_sample_is_of_the_mainland():
    assert rules_of(open_source("sample")).market == "cn"


@pytest.mark.parametrize(
    ("code", "market"),
    [
        ("0700.HK", "Hong Kong"),
        ("2330.TW", "Taiwan"),
        ("7203.T", "Tokyo"),
        ("005930.KS", "Korea"),
        ("BTC-USD", "crypto"),
        ("900901.SH", "B shares"),
        ("113050.SH", "bonds"),
        ("SAP.DE", "an exchange outside of mainland China and the US"),
        ("BRK-B", None),
        ("600519.SH", None),
        ("510300.SH", None),
        ("nothing", None),
    ],
)
def test_codes_of_markets_without_rules_are_known(code, market):
    assert (market_elsewhere(code) or [None])[0] == market


@pytest.mark.parametrize(
    ("code", "currency"),
    [
        ("0700.HK", "HKD"),
        ("2330.TW", "TWD"),
        ("7203.T", "JPY"),
        ("VOD.L", "GBP"),
        ("BTC-USD", "USD"),
        ("900901.SH", "USD"),
    ],
)
def test_a_market_without_rules_here_trades_under_plain_ones(code, currency, tmp_path):
    days = pd.bdate_range("2024-01-02", periods=6)
    price = [10.0, 10.0, 11.0, 12.0, 13.0, 14.0]
    prices = {"open": price, "high": price, "low": price, "close": price}
    table = pd.DataFrame({"symbol": code, "date": days, "volume": 1e6} | prices)
    rule = f"{code}, buy when the close is above the 2-day average, sell below it"
    refused = run_strategy(rule, source=table, model="keyless", out=tmp_path)
    assert f"(--costs none, in Python rules=Rulebook.plain('{currency}'))" in refused["error"]
    book = Rulebook.plain(currency)
    assert (book.currency, book.name) == (currency, f"plain {currency}")
    assert (book.t_plus(code, "2024-01-02"), book.lots(code, "2024-01-02").first) == (0, 1)
    assert book.limits(code, "2024-01-02", 10) is None
    with pytest.raises(UnknownSymbol, match="on no board"):
        book.board("600519.SH")
    run = run_strategy(rule, rules=book, cash=1005, source=table, model="keyless", out=tmp_path)
    own = run_signal(pd.DataFrame({code: 1.0}, index=days), prices=table, rules=book, cash=1005, out=tmp_path)
    assert own["equity"]["account"][-1] == 100 * 14 + 5
    # 11 is above 10.5: 83 shares at the next open of 12 leave 9, and are worth 14 each in the end.
    assert run["equity"]["account"][-1] == 83 * 14 + 9
