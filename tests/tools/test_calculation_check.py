"""A model's own numbers against formulas by hand: right ones match, wrong ones are told TA-Lib's number."""

from __future__ import annotations

import json
import random
from collections import Counter
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from decision_views import tools_at
from indicator_formulas import seeded_ema, wilder

from quantgraph.sandbox import default_runner
from quantgraph.tools import call_tool
from quantgraph.tools._calculations import check_calculation
from quantgraph.tools._prices import get_kline_data

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
    return tools_at(panel, "2024-02-01", runner=default_runner())


def checked(context, kind, result, *, formula="", inputs=None, **options):
    calculation = {
        "calculation_type": kind, "formula": formula, "inputs": inputs or {}, "intermediate_result": result
    }  # fmt: skip
    return check_calculation(calculation, context, SYMBOL, **options)


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


@pytest.mark.parametrize("kind", RIGHT)
def test_the_right_number_matches(context, kind):
    rounded = {line: round(value, 2) for line, value in RIGHT[kind].items()}
    result = checked(context, kind, rounded)
    assert (result["checked"], result["matches"]) == (True, True), result["why"]
    assert result["talib"] == pytest.approx(RIGHT[kind], abs=1e-5)
    assert result["model"] == rounded


@pytest.mark.parametrize("kind", RIGHT)
def test_a_wrong_number_is_flagged_with_talibs(context, kind):
    line = list(RIGHT[kind])[-1]
    wrong = RIGHT[kind] | {line: RIGHT[kind][line] * 1.05 + 0.5}
    result = checked(context, kind, wrong)
    assert (result["checked"], result["matches"]) == (True, False)
    assert result["talib"][line] == pytest.approx(RIGHT[kind][line], abs=1e-5)
    assert result["why"].startswith(f"does not match: {line}=")
    assert f"TA-Lib has {line}={RIGHT[kind][line]:.4g}"[:-1] in result["why"]


def test_the_documents_example_of_ma30(context):
    ma30 = round(KNOWN.tail(30).mean(), 2)
    found = {"ma30": ma30, "current_price": float(KNOWN.iloc[-1]), "price_above_ma": True}
    options = {"formula": "MA30 = sum(close[-30:]) / 30", "inputs": {"period": 30, "data": "kline_data"}}
    result = checked(context, "MA", found, **options)
    assert (result["matches"], result["model"]) == (True, {"ma30": ma30})
    assert not checked(context, "MA", found | {"ma30": 50200}, **options)["matches"]


def test_the_documents_example_of_rsi(context):
    found = {"rsi": round(rsi(KNOWN)), "is_oversold": False, "is_overbought": False}
    options = {"formula": "RSI(14) = ...", "inputs": {"period": 14, "data": "kline_data"}}
    result = checked(context, "RSI", found, **options)
    assert (result["matches"], result["tolerance"]) == (True, {"rsi": 0.5})
    assert not checked(context, "RSI", found | {"rsi": found["rsi"] + 2}, **options)["matches"]


@pytest.mark.parametrize(
    ("kind", "formula", "inputs"),
    [
        ("MA", "", {"window": 30}),
        ("MA30", "", {}),
        ("SMA(30)", "", {}),
        ("30日均线", "", {}),
        ("MA", "MA30 = sum(close[-30:]) / 30", {}),
        ("moving average", "", {"n": "30"}),
        ("price against the MA", "MA(30)", {}),
    ],
)
def test_the_period_may_be_said_anywhere(context, kind, formula, inputs):
    result = checked(context, kind, {"ma": round(KNOWN.tail(30).mean(), 2)}, formula=formula, inputs=inputs)
    assert result["matches"], result


VOLUME_MEAN = float(VOLUME.iloc[:-1].tail(5).mean())
EARLIER = KNOWN.iloc[:-1].tail(20).mean()


@pytest.mark.parametrize(
    ("kind", "formula", "found"),
    [
        ("VOL_MA", "VOL_MA5 = mean(volume[-5:])", {"vol_ma5": VOLUME_MEAN}),
        ("volume MA", "sum(volume[-5:]) / 5", {"ma": VOLUME_MEAN}),
        ("average volume", "avg(volume[-5:])", {"average_volume": VOLUME_MEAN}),
        ("MA of high", "MA20 = sum(high[-20:]) / 20", {"ma20": KNOWN_HIGH.tail(20).mean()}),
        ("MA", "MA20 yesterday = sum(close[-21:-1]) / 20", {"ma20": EARLIER}),
        ("MA", "sum(close[-21:-1]) / 20", {"ma20_prev": EARLIER}),
        ("MA", "MA20 = sum(close[-10:]) / 10", {"ma20": KNOWN.tail(10).mean()}),
        ("5日均量", "sum(volume[-5:]) / 5", {"均量": VOLUME_MEAN}),
    ],
)
def test_what_the_formula_says_is_what_is_compared(context, kind, formula, found):
    (key,) = found
    right = checked(context, kind, {key: round(found[key], 2)}, formula=formula)
    assert right["matches"], right
    assert right["formula"] == {key: pytest.approx(found[key], abs=1e-5)}
    assert checked(context, kind, {key: round(1.1 * found[key], 2)}, formula=formula)["matches"] is not True


@pytest.mark.parametrize(
    ("kind", "formula", "found", "says"),
    [
        ("MA", "MA5(volume)", {"ma5": VOLUME_MEAN}, "it reads volume"),
        ("MA", "the five-day mean of the volume", {"ma5": VOLUME_MEAN}, "it reads volume"),
        ("MA", "MA5", {"vol_ma5": VOLUME_MEAN}, "vol_ma5 is not the last MA"),
        ("MA", "MA20", {"ma20_prev": EARLIER}, "ma20_prev is not the last MA"),
        ("MA", "MA20 = sum(close[-20:]) / 20", {"ma20_prev": EARLIER}, "ma20_prev is not the last MA"),
        ("mean", "sum(close[-20:]) / 20", {"mean_prev": EARLIER}, "mean_prev is of an earlier session"),
        ("MA", "the mean of the last ten closes", {"ma": KNOWN.tail(10).mean()}, "no period of the MA"),
    ],
)
def test_what_cannot_be_compared_is_no_mismatch(context, kind, formula, found, says):
    result = checked(context, kind, found, formula=formula)
    assert (result["checked"], result["matches"]) == (False, None), result
    assert says in result["why"]


def test_what_the_inputs_say_of_the_data_counts_too(context):
    result = checked(context, "MA", {"ma5": VOLUME_MEAN}, inputs={"data": "volume", "period": 5})
    assert (result["checked"], result["matches"]) == (False, None), result


def test_what_was_not_compared_does_not_pass_as_right(context):
    found = {"rsi": round(rsi(KNOWN), 2), "is_oversold": True, "current_price": 500, "x": {"y\n": None}}
    result = checked(context, "RSI", found)
    assert result["matches"]
    assert result["model"] == {"rsi": found["rsi"]}
    assert result["not_compared"] == ["is_oversold", "current_price", "x y\n"]
    assert result["why"].endswith("; not compared: is_oversold, current_price, x y\\n")


def test_two_averages_have_their_own_periods(context):
    found = {"ma5": round(KNOWN.tail(5).mean(), 2), "ma20": 1.0}
    result = checked(context, "MA cross", found, inputs={"period": 20})
    assert result["talib"] == pytest.approx({"ma5": KNOWN.tail(5).mean(), "ma20": KNOWN.tail(20).mean()})
    assert "ma20=1" in result["why"]
    assert "ma5" not in result["why"]


@pytest.mark.parametrize(
    ("kind", "found", "line"),
    [
        ("MACD", lambda: {"DIF": macd()["dif"], "DEA": macd()["dea"], "MACD": 2 * macd()["hist"]}, "MACD"),
        ("MACD", lambda: {"macd": macd()["dif"], "signal": macd()["dea"]}, "macd"),
        ("MACD", lambda: {"macd": {"dif": macd()["dif"], "histogram": macd()["hist"]}}, "macd histogram"),
        ("BOLL", lambda: {"boll_upper": boll()["upper"], "中轨": boll()["middle"]}, "中轨"),
        ("KDJ", lambda: {"K值": kdj()["k"], "slow_d": kdj()["d"]}, "K值"),
        ("RSI", lambda: {"rsi_14": rsi(KNOWN)}, "rsi_14"),
        ("RSI(6)", lambda: {"value": rsi(KNOWN, 6)}, "value"),
        ("RSI", lambda: rsi(KNOWN), "result"),
        ("RSI", lambda: f"{rsi(KNOWN):.2f}", "result"),
    ],
)
def test_a_number_is_found_under_the_names_that_models_give_it(context, kind, found, line):
    result = checked(context, kind, found())
    assert result["matches"], result["why"]
    assert line in result["model"]


def test_the_bars_that_the_model_was_shown_count_too(context):
    """An exponential average over forty bars is not the one over all."""
    shown = call_tool(get_kline_data, {"symbol": SYMBOL, "limit": 27}, context, timeout=5)
    ema = seeded_ema(KNOWN.tail(27).to_numpy(), 26)[-1]
    found, params = {"ema": round(ema, 4)}, {"period": 26}
    assert not checked(context, "EMA", found, inputs=params)["matches"]
    for rows in (shown, ["(100 earlier entries left out)", *shown]):
        assert checked(context, "EMA", found, inputs=params, shown=rows)["matches"]
    assert not checked(context, "EMA", found, inputs=params, shown="[...]")["matches"]


def test_another_symbol_is_held_against_its_own_bars():
    other = 2 * CLOSE
    close = pd.DataFrame({SYMBOL: CLOSE, "000001.SZ": other})
    context = tools_at({"open": close, "close": close}, "2024-02-01")
    found = {"ma": round(other.iloc[:-1].tail(20).mean(), 2)}
    assert checked(context, "MA", found, inputs={"symbol": "000001.SZ"})["matches"]
    assert not checked(context, "MA", found, inputs={"symbol": "nothing"})["matches"]


def test_weeks_are_held_against_weeks(context):
    weeks = KNOWN.resample("W-SUN").last()
    for close in (weeks, weeks.iloc[:-1]):  # with and without the running one
        result = checked(context, "MA", {"ma": close.tail(4).mean()}, inputs={"period": 4, "timeframe": "1w"})
        assert result["matches"]


@pytest.mark.parametrize(
    ("result", "exact", "matches"),
    [
        (65, 65.49, True),
        (65, 65.6, False),
        ("65.0", 65.04, True),
        ("65.00", 65.08, False),
        (50_000.123, 50_004, True),
        (50_000.123, 50_040, False),
    ],
)
def test_how_near_a_number_must_be(context, result, exact, matches):
    """Half a unit of its last decimal, or a hundredth of a percent: by a formula whose number is exact."""
    assert (
        checked(context, "sum", result, formula="a + b", inputs={"a": exact - 1, "b": 1})["matches"]
        is matches
    )


def test_any_other_formula_is_computed(context):
    change = float(Decimal(str(KNOWN.iloc[-1])) / Decimal(str(KNOWN.iloc[-2])) - 1)
    found = checked(
        context, "return", {"change": round(change, 4)}, formula="change = close[-1] / close[-2] - 1"
    )
    assert (found["checked"], found["matches"]) == (True, True)
    assert found["formula"]["change"] == pytest.approx(change, abs=1e-6)
    wrong = checked(context, "mean", 7, formula="sum(inputs['x']) / len(x)", inputs={"x": [1, 2, 3]})
    assert wrong["why"].startswith("does not match: result=7, the formula gives 2 ")


@pytest.mark.parametrize(
    ("formula", "says"),
    [
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("RATIO(14) = ...", "the formula is not a Python expression that gives a number"),
        ("high minus low", "the formula is not a Python expression"),
        ("", "there is no formula"),
        ("alpha * 2", "the formula reads alpha, which is not among the inputs"),
        ("__import__('os').getpid()", "the formula reads __import__, which is not among the inputs"),
        ("x = y = 3", "the formula is not a Python expression"),
        ("close", "TypeError"),
        ("1e308 * 10", "the formula gives inf"),
        ("(lambda: 1)()", "the formula is not a Python expression that gives a number"),
        ("1 +" * 500, "the formula has 1500 characters; at most 1000 are checked"),
    ],
)
def test_a_formula_that_gives_no_number_is_one_line_and_no_exception(context, formula, says):
    result = checked(context, "ratio", {"ratio": 1.5}, formula=formula)
    assert (result["checked"], result["matches"]) == (False, None)
    assert says in result["why"]
    assert "\n" not in result["why"]


def test_a_formula_leaves_nothing_in_the_session(context):
    checked(context, "ratio", 2, formula="x + 1", inputs={"x": 1})
    assert context.cells == []


@pytest.mark.parametrize(
    ("kind", "result", "says"),
    [
        ("RSI", None, "a number is missing"),
        ("RSI", {"is_oversold": True}, "a number is missing"),
        ("RSI", {"rsi": float("nan")}, "a number is missing"),
        (
            "KDJ",
            {"price": 5, "volume": 7},
            'intermediate_result has no number of the KDJ: {"k": ..., "d": ..., "j": ...}',
        ),
        ("MA(900)", {"ma": 5}, "bad_option: params period='900' of MA; must be a whole number from 2 to 500"),
        ("MA(400)", {"ma": 5}, "no_data: MA(period=400) needs 400 bars"),
        ("spread", {"a": 1, "b": 2}, "several numbers and none with the formula's name"),
    ],
)
def test_what_is_not_checked_says_why(context, kind, result, says):
    found = checked(context, kind, result, formula="1 + 1" if kind == "spread" else "")
    assert (found["checked"], found["matches"]) == (False, None)
    assert says in found["why"]


WILD = [
    "", None, True, 0, -1, 14, "14", 2.5, float("nan"), 10**400, "1d", "1h", SYMBOL, [], [1], {}, {"period": 3},
    {"k": "x"}, "\x00", "\ud800", "a" * 5000, {"x": {"y": 1}}, "9" * 500, "MA" * 3000, "(((((", "MA(1,2,3,4)", "1e999",
]  # fmt: skip
KINDS = ["MA", "MA30", "MACD", "RSI(14)", "KDJ", "BOLL", "EMA cross", "ATR", "x"]
LINES = ["ma", "ma30", "rsi", "k", "dif", "macd", "upper", "atr", "value", "ema"]
SHOWN = [
    (),
    None,
    "x",
    [1],
    [{"close": None}],
    [{"close": 1, "time": "x"}],
    {"last": 3},
    [{"time": 1e300, "close": 10**400}],
]


def test_whatever_a_model_writes_is_checked_or_not_and_never_raises(context):
    rng = random.Random(5)
    verdicts = Counter()
    for _ in range(3000):
        result = (
            {rng.choice(LINES): rng.choice(WILD) for _ in range(3)}
            if rng.random() < 0.7
            else rng.choice(WILD)
        )
        inputs = {rng.choice(["period", "n", "k", "fast", "timeframe", "symbol"]): rng.choice(WILD)}
        found = checked(
            context,
            rng.choice([*KINDS, *WILD]),
            result,
            formula=rng.choice(["", None, SYMBOL, [], {}, "\x00", "\ud800", "a" * 5000, "(((((", "x = ..."]),
            inputs=inputs if rng.random() < 0.7 else rng.choice(WILD),
            shown=rng.choice(SHOWN),
        )
        assert len(json.dumps(found, allow_nan=False)) < 5000
        verdicts[found["matches"]] += 1
    assert min(verdicts[None], verdicts[False]) > 50
