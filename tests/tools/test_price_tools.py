"""get_price_local, get_price_history, get_indicators: AI-Trader's shape, and nothing of what is later."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from decision_views import trading_tools_at

from quantgraph.broker import Account
from quantgraph.errors import BadOption, BadWindow, NoData, UnknownSymbol
from quantgraph.market import Moment, Rulebook
from quantgraph.state import DataState
from quantgraph.tools import ToolContext, call_tool, tools_of
from quantgraph.tools._results import shortened

# The week of China's National Day holiday: 2025-10-01 to 2025-10-08 are no sessions.
DAYS = pd.to_datetime(["2025-09-29", "2025-09-30", "2025-10-09", "2025-10-10", "2025-10-13", "2025-10-14"])
TODAY = "2025-10-10"
A, B, LATE = "600519.SH", "000001.SZ", "688981.SH"
NAN = float("nan")


def frame(a, b, late):
    return pd.DataFrame({A: a, B: b, LATE: late}, index=DAYS, dtype="float64")


OPEN = frame([10, 11, 12, 13, 14, 15], [20, 21, NAN, 23, 24, 25], [NAN, NAN, 5, 5.5, 6, 7])
PANEL = {
    "open": OPEN,
    "high": OPEN + 1,
    "low": OPEN - 1,
    "close": OPEN + 0.5,
    "vol": OPEN * 0 + 528_476.5,  # in hands of 100
}


def context(day=TODAY, **fields):
    return trading_tools_at(PANEL | fields, day, rules=Rulebook.mainland())


def price(symbol, date, at=None):
    return call_tool(
        tools_of("trader")["get_price_local"], {"symbol": symbol, "date": date}, at or context(), timeout=5
    )


def test_a_past_bar_has_the_seeds_shape_and_plain_numbers():
    answer = price(A, "2025-10-09")
    assert json.dumps(answer) == (
        '{"date": "2025-10-09", "open": 12.0, "high": 13.0, "low": 11.0, "close": 12.5, "volume": 52847650}'
    )


@pytest.mark.parametrize("spelled", [TODAY, "today", "20251010", "2025/10/10", "2025-10-10T00:00"])
def test_of_today_the_open_is_known(spelled):
    assert price(A, spelled) == {
        "date": TODAY,
        "open": 13.0,
        "high": None,
        "low": None,
        "close": None,
        "volume": None,
        "reason": "the session is not over: of today only the open is known",
    }


def test_every_later_date_has_one_answer():
    """A session to come, a weekend, a day after the data, and one far away."""
    answers = [
        price(A, each) for each in ("2025-10-13", "2025-10-11", "2025-10-14", "2025-10-15", "2900-01-01")
    ]
    assert answers == [{"error": f"there is no bar of {A} on that date", "code": "no_data", "symbol": A}] * 5


def test_days_of_the_past_without_a_bar_are_told_apart():
    expected = {
        (A, "2025-10-08"): ("not_a_session", "2025-10-08 was not a session of the exchange"),
        (A, "2025-10-04"): ("not_a_session", "2025-10-04 was not a session of the exchange"),
        (B, "2025-10-09"): ("suspended", f"{B} did not trade on 2025-10-09"),
        (LATE, "2025-09-30"): ("no_data", f"{LATE} has no bar on 2025-09-30; its first one is of 2025-10-09"),
        (A, "2020-01-02"): ("no_data", f"{A} has no bar on 2020-01-02; its first one is of 2025-09-29"),
    }
    for (symbol, date), (code, text) in expected.items():
        assert price(symbol, date) == {"error": text, "code": code, "symbol": symbol, "date": date}
    assert price(LATE, "2025-09-29", context("2025-09-30"))["error"] == f"no bar of {LATE} is known"
    assert price(LATE, "today", context("2025-09-30"))["error"] == f"no bar of {LATE} is known"
    assert price(B, "today", context("2025-10-09"))["error"] == f"{B} has no price today"


def test_wrong_symbols_and_dates_are_refused_as_they_are():
    unknown = price("60051.SH", "2025-10-09")
    assert unknown["code"] == "unknown_symbol"
    assert "did you mean 600519.SH?" in unknown["error"]
    assert price("AAPL", "2025-10-13")["code"] == "unknown_symbol"
    assert price("600519", "2025-10-09")["close"] == 12.5
    assert price(" 600519.sh ", "2025-10-09")["close"] == 12.5
    bad = price(A, "10/09/2025")
    assert (bad["code"], bad["error"]) == ("bad_window", "date='10/09/2025' is not a date; write YYYY-MM-DD")


def test_prices_are_those_of_the_day():
    """A split of two for one on the day: the close before stays what it was, and the history is adjusted."""
    split = frame([NAN] * 6, [NAN] * 6, [NAN] * 6)
    split.loc[TODAY, A] = 2.0
    at = context(split=split)
    assert price(A, "2025-10-09", at)["close"] == 12.5
    answer = history(at, symbol=A, limit=1)
    assert answer["adjusted"] is True
    assert answer["bars"][0]["close"] == 6.25


def test_the_session_after_a_holiday_has_the_last_session_before_it():
    at = context("2025-10-09")
    assert price(A, "2025-09-30", at)["close"] == 11.5
    assert [each["date"] for each in history(at, symbol=A)["bars"]] == ["2025-09-29", "2025-09-30"]


def test_a_bar_that_the_data_cut_is_not_a_bar_of_today():
    """Data whose last row has an open alone: on the day before, its close is not null but not there."""
    cut = PANEL | {name: PANEL[name].iloc[:-1] for name in ("high", "low", "close", "vol")}
    at = trading_tools_at(cut, "2025-10-14", rules=Rulebook.mainland())
    assert price(A, "2025-10-14", at)["open"] == 15.0
    assert price(A, "2025-10-13", at)["close"] == 14.5


def history(at=None, **params):
    return call_tool(tools_of("trader")["get_price_history"], params, at or context(), timeout=5)


def test_history_has_past_bars_and_not_todays():
    answer = history(symbol=A)
    assert answer == {
        "symbol": A,
        "adjusted": False,
        "bars": [
            {"date": "2025-09-29", "open": 10.0, "high": 11.0, "low": 9.0, "close": 10.5, "volume": 52847650},
            {
                "date": "2025-09-30",
                "open": 11.0,
                "high": 12.0,
                "low": 10.0,
                "close": 11.5,
                "volume": 52847650,
            },
            {
                "date": "2025-10-09",
                "open": 12.0,
                "high": 13.0,
                "low": 11.0,
                "close": 12.5,
                "volume": 52847650,
            },
        ],
    }


def dates(**params):
    answer = history(symbol=A, **params)
    return [each["date"][5:] for each in answer["bars"]], answer.get("left_out", 0)


def test_a_window_is_cut_from_its_end():
    assert dates(limit=2) == (["09-30", "10-09"], 1)
    assert dates(start="2025-09-30") == (["09-30", "10-09"], 0)
    assert dates(end="2025-10-05") == (["09-29", "09-30"], 0)
    assert dates(start="20250930", end="today") == (["09-30", "10-09"], 0)
    assert dates(start="2025-09-29", end="2025-09-30", limit=1) == (["09-30"], 1)
    assert dates(end="2900-01-01") == dates()


def test_an_empty_window_has_one_answer():
    for window in ({"start": TODAY}, {"start": "2025-10-13"}, {"start": "2900-01-01"}, {"end": "2020-01-01"},
                   {"start": "2025-10-01", "end": "2025-10-08"}):  # fmt: skip
        with pytest.raises(NoData, match=f"^there is no bar of {A} in that window$"):
            history(symbol=A, **window)


def test_a_wrong_window_is_refused():
    with pytest.raises(BadWindow, match="start='2025-10-09' is after end='2025-09-30'"):
        history(symbol=A, start="2025-10-09", end="2025-09-30")
    with pytest.raises(BadWindow, match="end='soon' is not a date; write YYYY-MM-DD"):
        history(symbol=A, end="soon")
    with pytest.raises(BadOption, match="limit=101; must be 1 to 100"):
        history(symbol=A, limit=101)
    with pytest.raises(UnknownSymbol):
        history(symbol="AAPL")


def indicators(*names, limit=1, at=None):
    params = {"symbol": A, "indicators": list(names), "limit": limit}
    return call_tool(tools_of("trader")["get_indicators"], params, at or context(), timeout=5)


def test_indicators_by_hand():
    """Means of the closes 10.5, 11.5, 12.5, of which the last one is of the session before today."""
    answer = indicators("MA2", "ma3", limit=2)
    assert answer["symbol"] == A
    assert answer["adjusted"] is False
    assert answer["values"] == {
        "MA2": [{"date": "2025-09-30", "ma": 11.0}, {"date": "2025-10-09", "ma": 12.0}],
        "ma3": [{"date": "2025-10-09", "ma": 11.5}],
    }


def test_names_in_one_text_are_read_as_a_list():
    tool = tools_of("trader")["get_indicators"]
    answer = call_tool(tool, {"symbol": A, "indicators": "MA2, MA3"}, context(), timeout=5)
    assert answer == indicators("MA2", "MA3")
    assert tool.tool_call_schema.model_json_schema()["properties"]["indicators"]["type"] == "array"


def test_one_that_cannot_be_computed_leaves_the_others():
    values = indicators("MA2", "MACD", "MA1", "XYZ", "KDJ5", "")["values"]
    assert values["MA2"] == [{"date": "2025-10-09", "ma": 12.0}]
    assert values["MACD"]["code"] == "no_data"
    assert "needs 34 bars; 3 are known" in values["MACD"]["error"]
    assert {name: values[name]["code"] for name in ("MA1", "XYZ", "KDJ5", "")} == dict.fromkeys(
        ("MA1", "XYZ", "KDJ5", ""), "bad_option"
    )
    assert values["KDJ5"]["error"] == "KDJ has no period; write 'KDJ'"


def test_indicators_are_bounded():
    for names in ((), ["MA5"] * 11):
        with pytest.raises(BadOption, match=r"indicators has \d+ names; must be 1 to 10"):
            indicators(*names)
    with pytest.raises(BadOption, match="limit=21; must be 1 to 20"):
        indicators("MA5", limit=21)
    assert indicators("MA99999999999999999999")["values"]["MA99999999999999999999"]["code"] == "bad_option"


def test_an_index_has_prices_too():
    store = DataState()
    store.update("ohlcv", PANEL)
    levels = pd.DataFrame({"000016.SH": np.arange(6) + 2000.0}, index=DAYS)
    store.update("index", {"open": levels, "close": levels})
    view = store.view(Moment.at(TODAY, "open"))
    at = ToolContext(view, Account.opening(1), Rulebook.mainland())
    assert price("000016.SH", "2025-10-09", at)["close"] == 2002.0
    assert price("000016.SH", "today", at)["open"] == 2003.0
    assert history(at, symbol="000016.SH", limit=1)["bars"][0]["volume"] is None


def test_the_longest_history_is_shown_whole():
    """The trader cuts an answer to 12,000 characters of JSON, by the same function."""
    days = pd.bdate_range("2024-01-01", periods=300)
    prices = pd.DataFrame({A: 1234.567891 + np.arange(300) % 7}, index=days)
    panel = dict.fromkeys(("open", "high", "low", "close"), prices) | {"vol": prices * 1000}
    at = trading_tools_at(panel, f"{days[-1]:%Y-%m-%d}", rules=Rulebook.mainland())
    longest = history(at, symbol=A, limit=100)
    assert len(longest["bars"]) == 100
    assert shortened(longest, 12_000) == longest
