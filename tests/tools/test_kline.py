"""get_kline_data: complete bars, in today's prices, by session, week and month; what it refuses."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from decision_views import tools_at

from quantgraph.errors import BadOption, UnknownSymbol
from quantgraph.tools import call_tool
from quantgraph.tools.trading._prices import get_kline_data, get_price_history
from quantgraph.tools.trading._symbol_bars import bars_by, known_bars

DAYS = pd.to_datetime(["2024-01-25", "2024-01-26", "2024-01-29", "2024-01-30", "2024-01-31", "2024-02-01"])


def wide(*columns):
    return pd.DataFrame(dict(zip(["600519.SH", "000001.SZ"], columns, strict=True)), index=DAYS)


@pytest.fixture
def panel():
    close = wide([10.0, 11, 12, 13, 14, 15], [5.0, np.nan, 6, 6, 7, 8])
    return {"open": close - 0.5, "high": close + 1, "low": close - 1, "close": close, "vol": close * 100}


def kline(panel, day="2024-02-01", **params):
    return call_tool(get_kline_data, {"symbol": "600519.SH", **params}, tools_at(panel, day), timeout=5)


def test_a_row_has_the_documents_fields_and_the_last_one_is_of_the_session_before(panel):
    assert kline(panel, limit=1) == [
        {
            "time": 1706659200,
            "date": "2024-01-31",
            "open": 13.5,
            "high": 15.0,
            "low": 13.0,
            "close": 14.0,
            "volume": 1400.0,
        }
    ]  # date -u -d 2024-01-31 +%s
    assert [row["close"] for row in kline(panel)] == [10.0, 11.0, 12.0, 13.0, 14.0]


def test_a_session_without_a_price_is_left_out(panel):
    assert [row["close"] for row in kline(panel, symbol="000001.SZ")] == [5.0, 6.0, 6.0, 7.0]


def test_a_week_is_joined_and_the_one_of_today_is_running(panel):
    past, running = kline(panel, timeframe="1w")
    assert past == {
        "time": 1706140800, "date": "2024-01-25", "open": 9.5, "high": 12.0, "low": 9.0, "close": 11.0, "volume": 2100.0
    }  # fmt: skip  # 2024-01-25
    assert running == {
        "time": 1706486400, "date": "2024-01-29", "open": 11.5, "high": 15.0, "low": 11.0, "close": 14.0, "volume": 3900.0,
        "running": True,
    }  # fmt: skip  # 2024-01-29


def test_on_a_monday_the_week_before_is_over(panel):
    assert ["running" in row for row in kline(panel, "2024-01-29", timeframe="1w")] == [False]


def test_a_month_is_over_at_the_open_of_the_next(panel):
    assert [(row["close"], "running" in row) for row in kline(panel, timeframe="1mo")] == [(14.0, False)]
    assert [(row["close"], "running" in row) for row in kline(panel, "2024-01-31", timeframe="1mo")] == [
        (13.0, True)
    ]


def test_weeks_and_months_are_those_of_pandas():
    days = pd.bdate_range("2022-12-01", "2024-03-15").astype("datetime64[us]")
    rng = np.random.default_rng(7)
    close = pd.DataFrame({"600519.SH": rng.uniform(9, 11, len(days))}, index=days)
    panel = {"open": close * 0.99, "high": close * 1.02, "low": close * 0.97, "close": close, "vol": close}
    context = tools_at(panel, "2024-03-15")
    bars = known_bars(context, "600519.SH")
    for timeframe, rule in (("1w", "W-SUN"), ("1mo", "ME")):
        mine = bars_by(bars, timeframe, context.moment)
        how = {"open": "first", "high": "max", "low": "min", "close": "last", "vol": "sum"}
        for field, agg in how.items():
            theirs = panel[field]["600519.SH"].iloc[:-1].resample(rule).agg(agg).to_numpy()
            np.testing.assert_allclose(mine.values["volume" if field == "vol" else field], theirs)


def test_prices_are_in_todays_shares(panel):
    split = wide([np.nan] * 4 + [2.0, np.nan], [np.nan] * 6)
    rows = kline(panel | {"split": split})
    # Ex-date 31 January, two for one: what was before counts half.
    assert [row["close"] for row in rows] == [5.0, 5.5, 6.0, 6.5, 14.0]
    assert [row["high"] for row in rows] == [5.5, 6.0, 6.5, 7.0, 15.0]
    assert [row["volume"] for row in rows] == [1000.0, 1100.0, 1200.0, 1300.0, 1400.0]


def test_without_the_other_prices_they_are_null(panel):
    (row,) = kline({"open": panel["open"], "close": panel["close"]}, limit=1)
    assert (row["date"], row["open"], row["close"]) == ("2024-01-31", 13.5, 14.0)
    assert (row["high"], row["low"], row["volume"]) == (None, None, None)


def test_the_volume_of_a_us_symbol_is_in_shares(panel):
    hundreds = {name: frame.rename(columns={"600519.SH": "AAPL"}) for name, frame in panel.items()}
    context = tools_at(hundreds, "2024-02-01")
    (bar,) = call_tool(get_kline_data, {"symbol": "AAPL", "limit": 1}, context, timeout=5)
    # The data has 1,400 hands of a hundred, as it has of 600519.SH above.
    assert bar["volume"] == 140_000
    told = call_tool(get_price_history, {"symbol": "AAPL", "limit": 1}, context, timeout=5)
    assert told["bars"][0]["volume"] == 140_000
    assert "in shares of a US symbol" in " ".join(get_kline_data.description.split())


@pytest.mark.parametrize("exchange", ["", "SH", "sh", "SSE", "上交所", " XSHG "])
def test_an_exchange_may_be_said_in_many_ways(panel, exchange):
    assert len(kline(panel, exchange=exchange)) == 5


@pytest.mark.parametrize("symbol", ["600519", "600519.sh", " 600519.SH "])
def test_a_code_may_lack_its_suffix(panel, symbol):
    assert len(kline(panel, symbol=symbol, exchange="SSE")) == 5


@pytest.mark.parametrize(
    ("params", "says"),
    [
        ({"exchange": "SZ"}, r"exchange='SZ' is not that of 600519\.SH; write SH, SSE, or leave it empty"),
        ({"exchange": "NASDAQ"}, r"exchange='NASDAQ' is not that of 600519\.SH"),
        ({"exchange": "Binance"}, r"exchange='Binance' is not one of this data, which has shares"),
        ({"timeframe": "1h"}, r"timeframe='1h'; valid are 1d, 1w, 1mo: the data has one bar a session"),
        ({"limit": 0}, r"limit=0; must be 1 to 250"),
        ({"limit": 251}, r"limit=251; must be 1 to 250"),
    ],
)
def test_what_it_refuses(panel, params, says):
    with pytest.raises(BadOption, match=says):
        kline(panel, **params)


def test_a_symbol_that_is_not_there_is_told_what_is(panel):
    with pytest.raises(
        UnknownSymbol, match=r"symbol='BTCUSDT' is not in the data; there is 600519.SH, 000001.SZ"
    ):
        kline(panel, symbol="BTCUSDT", exchange="Binance")
    with pytest.raises(UnknownSymbol, match=r"did you mean 600519\.SH\?"):
        kline(panel, symbol="600518.SH")
