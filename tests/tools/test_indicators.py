"""get_indicator against formulas by hand and of pandas, and what it refuses."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from decision_views import tools_at
from indicator_formulas import seeded_ema, wilder

from quantgraph.errors import BadOption, NoData
from quantgraph.tools import call_tool
from quantgraph.tools.trading._prices import get_indicator

DAYS = pd.bdate_range("2023-06-01", "2024-02-01").astype("datetime64[us]")
RNG = np.random.default_rng(3)
CLOSE = pd.Series(100 * np.exp(RNG.normal(0, 0.02, len(DAYS)).cumsum()), index=DAYS).round(2)
HIGH = (CLOSE * (1 + RNG.uniform(0, 0.02, len(DAYS)))).round(2)
LOW = (CLOSE * (1 - RNG.uniform(0, 0.02, len(DAYS)))).round(2)
PANEL = {
    name: series.to_frame("600519.SH")
    for name, series in {"open": CLOSE, "high": HIGH, "low": LOW, "close": CLOSE}.items()
}
KNOWN = slice(None, -1)
"""At the open of the last day its own bar is not known."""


@pytest.fixture(scope="module")
def context():
    return tools_at(PANEL, "2024-02-01")


def indicator(context, name, **params):
    return call_tool(get_indicator, {"symbol": "600519.SH", "name": name, **params}, context, timeout=5)


def test_ma_by_hand():
    panel = {name: frame.iloc[:0] for name, frame in PANEL.items()}
    days = DAYS[:6]
    close = pd.DataFrame({"600519.SH": [1.0, 2, 3, 4, 5, 6]}, index=days)
    panel = {"open": close, "close": close}
    context = tools_at(panel, f"{days[-1]:%Y-%m-%d}")
    rows = indicator(context, "MA", params={"period": 3}, limit=2)
    assert [row["ma"] for row in rows] == [3.0, 4.0]  # (2+3+4)/3, (3+4+5)/3
    assert [pd.Timestamp(row["time"], unit="s") for row in rows] == list(days[3:5])
    assert [row["ma"] for row in indicator(context, "MA", params={"period": 3}, limit=250)] == [2.0, 3.0, 4.0]


def test_ma_is_the_mean(context):
    assert indicator(context, "MA")[0]["ma"] == pytest.approx(CLOSE[KNOWN].tail(20).mean(), abs=1e-6)


def test_ema_begins_with_the_mean(context):
    want = seeded_ema(CLOSE[KNOWN].to_numpy(), 12)[-1]
    assert indicator(context, "EMA", params={"period": 12})[0]["ema"] == pytest.approx(want, abs=1e-6)


def test_rsi_is_wilders(context):
    change = CLOSE[KNOWN].diff().to_numpy()[1:]
    up, down = (wilder(np.maximum(side * change, 0), 14) for side in (1, -1))
    assert indicator(context, "RSI")[0]["rsi"] == pytest.approx(100 * up / (up + down), abs=1e-6)


def test_boll_has_the_populations_deviation(context):
    (row,) = indicator(context, "BOLL")
    last = CLOSE[KNOWN].tail(20)
    for name, times in (("upper", 2), ("middle", 0), ("lower", -2)):
        assert row[name] == pytest.approx(last.mean() + times * last.std(ddof=0), abs=1e-6)


def test_atr_is_wilders(context):
    high, low, close = (series[KNOWN] for series in (HIGH, LOW, CLOSE))
    before = close.shift()
    ranges = pd.concat([high - low, (high - before).abs(), (low - before).abs()], axis=1).max(axis=1)
    assert indicator(context, "ATR")[0]["atr"] == pytest.approx(wilder(ranges.to_numpy()[1:], 14), abs=1e-6)


def test_macd_begins_both_averages_at_the_same_bar(context):
    close = CLOSE[KNOWN].to_numpy()
    dif = seeded_ema(close, 12, start=25) - seeded_ema(close, 26)
    dea = seeded_ema(dif, 9)
    (row,) = indicator(context, "MACD")
    assert row["dif"] == pytest.approx(dif[-1], abs=1e-6)
    assert row["dea"] == pytest.approx(dea[-1], abs=1e-6)
    assert row["hist"] == pytest.approx(dif[-1] - dea[-1], abs=2e-6)


def test_kdj_is_smoothed_by_simple_averages(context):
    high, low, close = (series[KNOWN] for series in (HIGH, LOW, CLOSE))
    bottom, top = low.rolling(9).min(), high.rolling(9).max()
    k = ((close - bottom) / (top - bottom) * 100).rolling(3).mean()
    d = k.rolling(3).mean()
    (row,) = indicator(context, "KDJ")
    assert row["k"] == pytest.approx(k.iloc[-1], abs=1e-6)
    assert row["d"] == pytest.approx(d.iloc[-1], abs=1e-6)
    assert row["j"] == pytest.approx(3 * k.iloc[-1] - 2 * d.iloc[-1], abs=1e-5)


def test_a_running_week_does_not_count(context):
    weeks = CLOSE[KNOWN].resample("W-SUN").last()
    assert indicator(context, "MA", timeframe="1w", params={"period": 4})[0]["ma"] == pytest.approx(
        weeks.iloc[-5:-1].mean(),
        abs=1e-6,  # 2024-02-01 is a Thursday
    )


def test_parameters_have_the_names_that_models_use(context):
    for given in ({"period": "30"}, {"window": 30}, {"timeperiod": 30.0}):
        assert indicator(context, "ma", params=given)[0]["ma"] == pytest.approx(
            CLOSE[KNOWN].tail(30).mean(), abs=1e-6
        )


@pytest.mark.parametrize(
    ("name", "params", "says"),
    [
        ("OBV", {}, "name='OBV' is not an indicator; valid are MA, EMA, MACD, RSI, BOLL, KDJ, ATR"),
        ("MA", {"fast": 3}, "params has 'fast'; MA has period"),
        ("MA", {"period": 0}, "params period=0.0 of MA; must be a whole number from 2 to 500"),
        ("MA", {"period": 2.5}, "params period=2.5 of MA; must be a whole number"),
        ("MA", {"period": "many"}, "get_indicator has params.period='many': .*valid number"),
        ("BOLL", {"std": 11}, "params deviations=11.0 of BOLL; must be a number from 0.1 to 10"),
        ("MACD", {"fast": 26, "slow": 12}, "params fast=26 must be < slow=12"),
    ],
)
def test_what_it_refuses(context, name, params, says):
    with pytest.raises(BadOption, match=says):
        indicator(context, name, params=params)


@pytest.mark.parametrize(
    ("name", "needed"),
    [("MA", 20), ("EMA", 20), ("RSI", 15), ("BOLL", 20), ("ATR", 15), ("MACD", 34), ("KDJ", 13)],
)
def test_with_too_few_bars_it_says_how_many_it_needs(name, needed):
    def at(bars):
        panel = {field: frame.iloc[: bars + 1] for field, frame in PANEL.items()}
        return tools_at(panel, f"{DAYS[bars]:%Y-%m-%d}")

    with pytest.raises(NoData, match=rf"{name}\(.*\) needs {needed} bars; {needed - 1} are known"):
        indicator(at(needed - 1), name)
    assert len(indicator(at(needed), name, limit=250)) == 1


def test_what_needs_the_high_says_so():
    panel = {"open": PANEL["open"], "close": PANEL["close"]}
    with pytest.raises(NoData, match="ATR needs high, low, close; the data lacks high"):
        indicator(tools_at(panel, "2024-02-01"), "ATR")
