"""TA-Lib's numbers beside a model's own: by formulas by hand, of the same inputs, and without a verdict."""

from __future__ import annotations

import json
import random

import numpy as np
import pandas as pd
import pytest
from decision_views import tools_at
from indicator_formulas import seeded_ema, wilder

from quantgraph.tools.trading import talib_values

DAYS = pd.bdate_range("2023-06-01", "2024-02-01").astype("datetime64[us]")
RNG = np.random.default_rng(11)
CLOSE = pd.Series(100 * np.exp(RNG.normal(0, 0.02, len(DAYS)).cumsum()), index=DAYS).round(2)
HIGH = (CLOSE * (1 + RNG.uniform(0, 0.02, len(DAYS)))).round(2)
LOW = (CLOSE * (1 - RNG.uniform(0, 0.02, len(DAYS)))).round(2)
VOLUME = pd.Series(RNG.integers(1_000, 9_000, len(DAYS)).astype(float), index=DAYS)
KNOWN, KNOWN_HIGH, KNOWN_LOW = (series.iloc[:-1] for series in (CLOSE, HIGH, LOW))
SYMBOL = "600519.SH"


@pytest.fixture(scope="module")
def context():
    fields = {"open": CLOSE, "high": HIGH, "low": LOW, "close": CLOSE, "vol": VOLUME}
    panel = {name: series.to_frame(SYMBOL) for name, series in fields.items()}
    return tools_at(panel, "2024-02-01")


def beside(context, kind, result, *, formula="", inputs=None, **options):
    calculation = {
        "calculation_type": kind, "formula": formula, "inputs": inputs or {}, "intermediate_result": result
    }  # fmt: skip
    return talib_values(calculation, context, SYMBOL, **options)


def mean(series, count):
    return pytest.approx(series.tail(count).mean(), abs=1e-5)


def rsi(close, period=14):
    change = close.diff().to_numpy()[1:]
    up, down = (wilder(np.maximum(side * change, 0), period) for side in (1, -1))
    return 100 * up / (up + down)


def boll():
    last = KNOWN.tail(20)
    return {
        name: last.mean() + n * last.std(ddof=0) for name, n in (("upper", 2), ("middle", 0), ("lower", -2))
    }


def macd():
    close = KNOWN.to_numpy()
    dif = seeded_ema(close, 12, start=25) - seeded_ema(close, 26)
    dea = seeded_ema(dif, 9)[-1]
    return {"dif": dif[-1], "dea": dea, "hist": dif[-1] - dea}


def kdj():
    bottom, top = KNOWN_LOW.rolling(9).min(), KNOWN_HIGH.rolling(9).max()
    k = ((KNOWN - bottom) / (top - bottom) * 100).rolling(3).mean()
    d = k.rolling(3).mean()
    return {"k": k.iloc[-1], "d": d.iloc[-1], "j": 3 * k.iloc[-1] - 2 * d.iloc[-1]}


def atr():
    before = KNOWN.shift()
    parts = [KNOWN_HIGH - KNOWN_LOW, (KNOWN_HIGH - before).abs(), (KNOWN_LOW - before).abs()]
    return wilder(pd.concat(parts, axis=1).max(axis=1).to_numpy()[1:], 14)


RIGHT = {
    "MA": {"ma": KNOWN.tail(20).mean()},
    "EMA": {"ema": seeded_ema(KNOWN.to_numpy(), 20)[-1]},
    "RSI": {"rsi": rsi(KNOWN)},
    "BOLL": boll(),
    "MACD": macd(),
    "KDJ": kdj(),
    "ATR": {"atr": atr()},
}


USUAL = {"MA": "20", "EMA": "20", "RSI": "14", "BOLL": "20,2", "MACD": "12,26,9", "KDJ": "9,3,3", "ATR": "14"}


@pytest.mark.parametrize("kind", RIGHT)
@pytest.mark.parametrize("error", [0, 0.05])
def test_the_number_of_the_data_stands_beside_a_right_and_a_wrong_one(context, kind, error):
    numbers = {line: value * (1 + error) for line, value in RIGHT[kind].items()}
    inputs = {"period": 20} if kind in ("MA", "EMA") else {}
    expected = {f"{line}({USUAL[kind]})": value for line, value in RIGHT[kind].items()}
    assert beside(context, kind, numbers, inputs=inputs) == pytest.approx(expected, abs=1e-5)


def test_the_documents_examples(context):
    average = {"ma30": 50200, "current_price": 50500, "price_above_ma": True}
    data = {"data": "kline_data"}
    found = beside(
        context, "MA", average, formula="MA30 = sum(close[-30:]) / 30", inputs={"period": 30, **data}
    )
    assert found == {"ma(30)": mean(KNOWN, 30)}
    strength = {"rsi": 65, "is_oversold": False, "is_overbought": False}
    found = beside(context, "RSI", strength, formula="RSI(14) = ...", inputs={"period": 14, **data})
    assert found == {"rsi(14)": pytest.approx(rsi(KNOWN), abs=1e-5)}


@pytest.mark.parametrize(
    ("kind", "formula", "inputs", "key"),
    [
        ("MA", "", {"window": 30}, "ma"),
        ("MA30", "", {}, "ma"),
        ("SMA(30)", "", {}, "value"),
        ("30日均线", "", {}, "均线"),
        ("30-day moving average", "", {}, "average"),
        ("MA", "MA30 = sum(close[-30:]) / 30", {}, "ma"),
        ("MA", "SMA(close, 30)", {}, "ma"),
        ("moving average", "", {"n": "30"}, "ma"),
        ("MA", "", {}, "sma_30"),
        ("the price against its mean", "", {}, "ma30"),
    ],
)
def test_the_period_may_be_said_anywhere(context, kind, formula, inputs, key):
    assert beside(context, kind, {key: 1.5}, formula=formula, inputs=inputs) == {"ma(30)": mean(KNOWN, 30)}


def test_two_averages_have_their_own_periods(context):
    found = beside(context, "MA cross", {"ma5": 1.0, "ma20": 2.0}, inputs={"period": 20})
    assert found == {"ma(5)": mean(KNOWN, 5), "ma(20)": mean(KNOWN, 20)}


def test_parameters_of_an_indicator_with_several(context):
    found = beside(context, "BOLL(10, 1.5)", {"upper": 1})
    last = KNOWN.tail(10)
    upper, lower = (last.mean() + side * 1.5 * last.std(ddof=0) for side in (1, -1))
    assert found == pytest.approx(
        {"upper(10,1.5)": upper, "middle(10,1.5)": last.mean(), "lower(10,1.5)": lower}, abs=1e-5
    )


@pytest.mark.parametrize(
    ("kind", "formula", "key"),
    [
        ("VOL_MA", "VOL_MA5 = mean(volume[-5:])", "vol_ma5"),
        ("volume MA", "sum(volume[-5:]) / 5", "ma5"),
        ("MA5 of high", "", "ma5"),
        ("MA", "MA5(volume)", "ma5"),
        ("MA", "MA5", "vol_ma5"),
        ("5日均量", "sum(volume[-5:]) / 5", "均量5"),
        ("MA20", "MA20 yesterday = sum(close[-21:-1]) / 20", "ma20"),
        ("MA20", "sum(close[-21:-1]) / 20", "ma20"),
        ("MA", "MA20", "ma20_prev"),
        ("MA", "the mean of the last ten closes", "ma"),
        ("return", "close[-1] / close[-2] - 1", "change"),
        ("MA(900)", "", "ma"),
        ("MA(400)", "", "ma"),
        ("", "", "x"),
    ],
)
def test_nothing_stands_beside_what_ta_lib_has_not(context, kind, formula, key):
    assert beside(context, kind, {key: 1.5}, formula=formula) == {}


def test_the_series_that_inputs_name_counts(context):
    assert beside(context, "MA", {"ma5": 1}, inputs={"data": "volume", "period": 5}) == {}


def test_the_inputs_are_the_bars_that_the_model_was_shown(context):
    """An exponential average over 27 bars is not the one over all."""
    inputs = {"period": 26}
    found = beside(context, "EMA", 1.0, inputs=inputs, shown=27)
    assert found == {"ema(26)": pytest.approx(seeded_ema(KNOWN.tail(27).to_numpy(), 26)[-1], abs=1e-5)}
    whole = {"ema(26)": pytest.approx(seeded_ema(KNOWN.to_numpy(), 26)[-1], abs=1e-5)}
    assert found != whole
    assert beside(context, "EMA", 1.0, inputs=inputs) == whole
    assert beside(context, "EMA", 1.0, inputs=inputs, shown=25) == {}


def test_another_symbol_has_its_own_bars():
    other = 2 * CLOSE
    close = pd.DataFrame({SYMBOL: CLOSE, "000001.SZ": other})
    context = tools_at({"open": close, "close": close}, "2024-02-01")
    found = beside(context, "MA20", 1, inputs={"symbol": "000001.SZ"}, shown=5)
    assert found == {"ma(20)": mean(other.iloc[:-1], 20)}
    assert beside(context, "MA20", 1, inputs={"symbol": "nothing"}) == {}


def test_weeks_are_of_weeks(context):
    """The week of the moment is running: it is among the bars that were shown."""
    weeks = KNOWN.resample("W-SUN").last()
    whole = {"ma(4)": mean(weeks.iloc[:-1], 4)}
    assert beside(context, "MA4", 1, inputs={"timeframe": "1w"}, shown=9) == whole
    assert beside(context, "MA4", 1, timeframe="1w") == whole
    assert beside(context, "MA4", 1, timeframe="1w", shown=9) == {"ma(4)": mean(weeks, 4)}
    assert beside(context, "MA4", 1, inputs={"timeframe": "1h"}) == {}


WILD = [
    "", None, True, 0, -1, 14, "14", 2.5, float("nan"), 10**400, "1d", "1h", SYMBOL, [], [1], {}, {"period": 3},
    {"k": "x"}, "\x00", "\ud800", "a" * 5000, {"x": {"y": 1}}, "9" * 500, "MA" * 3000, "(((((", "MA(1,2,3,4)", "1e999",
    "ma " * 3000, "日" * 5000, "close[" * 1000, " " * 8000,
]  # fmt: skip
KINDS = ["MA", "MA30", "MACD", "RSI(14)", "KDJ", "BOLL", "EMA cross", "ATR", "x"]
KEYS = ["ma", "ma30", "rsi", "k", "dif", "macd", "upper", "atr", "value", "ema"]


def test_whatever_a_model_writes_has_numbers_beside_it_or_not_and_never_raises(context):
    rng = random.Random(5)
    counts = {True: 0, False: 0}
    for _ in range(2000):
        few = {rng.choice(KEYS): rng.choice(WILD) for _ in range(3)}
        inputs = {rng.choice(["period", "n", "k", "fast", "timeframe", "symbol"]): rng.choice(WILD)}
        found = beside(
            context,
            rng.choice([*KINDS, *WILD]),
            few if rng.random() < 0.7 else rng.choice(WILD),
            formula=rng.choice(["", None, SYMBOL, [], {}, *WILD, "x = ..."]),
            inputs=inputs if rng.random() < 0.7 else rng.choice(WILD),
            shown=rng.choice([0, 3, 40]),
        )
        assert len(json.dumps(found, allow_nan=False)) < 500
        counts[bool(found)] += 1
    assert min(counts.values()) > 50
