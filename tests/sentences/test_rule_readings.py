"""The readings of a rule: the first is what the planner codes, the others what the words leave open."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pandas as pd
import pytest
from signal_panels import market_panel
from tests.sentences.cell_panels import Panels, signal_of

from quantgraph.audit.meaning._check import compare_positions
from quantgraph.rules import RuleEvaluator, in_words
from quantgraph.sentences._describe import write_code
from quantgraph.sentences._request import RequestContext, read_request
from quantgraph.sentences._rules import TradingRule
from quantgraph.sentences.evaluation import RuleData, rule_readings

SENTENCES = [
    "5日均线上穿20日均线买入，下穿卖出",
    "收盘价上穿20日均线买入，下穿卖出",
    "EMA12上穿EMA26买入，下穿卖出",
    "MACD金叉买入，死叉卖出",
    "KDJ金叉且J小于20买入，死叉卖出",
    "RSI(14)低于30买入，高于70卖出",
    "收盘价跌破布林带下轨(20,2)买入，突破上轨卖出",
    "突破20日新高买入，跌破10日新低卖出",
    "成交量大于2倍20日均量且收盘价高于20日均线买入，收盘价低于20日均线卖出",
    "20日涨幅前3买入，其余卖出",
    "20日涨幅最大的40%买入，其余卖出",
    "市盈率最低的2只股票买入，跌出前3卖出",
    "20日涨幅大于5%买入，小于-5%卖出",
]


def rule_of(sentence: str) -> TradingRule:
    request = read_request(sentence, RequestContext())
    assert request.strategy is not None, request.unparsed
    return request.strategy


@pytest.fixture(scope="module")
def frames():
    return market_panel(suspended=True)


def panel_of(frames) -> RuleData:
    return RuleData(bars=frames["ohlcv"], indicators=frames["indicators"])


@pytest.mark.parametrize("sentence", SENTENCES)
def test_the_first_reading_is_the_signal_of_the_planners_code(sentence):
    rule, frames = rule_of(sentence), market_panel()
    reading = next(next(rule_readings(rule, panel_of(frames))))
    expected = signal_of(write_code(rule).source, frames)
    known = reading.signal.notna()
    pd.testing.assert_frame_equal(reading.signal, expected.where(known), check_freq=False)
    assert not (expected.where(~known) == 1).any(axis=None), "an exit may be known before its entry"


def differs(sentence: str, code: str, frames) -> bool:
    signal = signal_of(code, frames)
    readings = rule_readings(rule_of(sentence), panel_of(frames))
    return compare_positions(signal, frames["ohlcv"]["close"], readings).difference is not None


HEAD = """\
import talib
o = snapshot["ohlcv"]
close, high, low = o["close"], o["high"], o["low"]
def out(buy, sell):
    signal = pd.DataFrame(0.0, index=close.index, columns=close.columns).mask(buy, 1.0).mask(sell, -1.0)
    GLOBAL_DATA_STATE.update("signal", {"one": signal})
def each(function):
    return close.apply(lambda s: pd.Series(function(s.dropna().to_numpy()), index=s.dropna().index).reindex(s.index))
"""


@pytest.mark.parametrize(
    ("sentence", "code"),
    [
        ("收盘价跌破布林带下轨(20,2)买入，突破上轨卖出",
         "m, s = close.rolling(20).mean(), close.rolling(20).std()\nout(close < m - 2 * s, close > m + 2 * s)"),
        ("RSI(14)低于30买入，高于70卖出",
         "d = close.diff()\nu = d.clip(lower=0).rolling(14).mean()\nv = (-d.clip(upper=0)).rolling(14).mean()\n"
         "r = 100 - 100 / (1 + u / v)\nout(r < 30, r > 70)"),
        ("EMA12上穿EMA26买入，下穿卖出",
         "a, b = (each(lambda s, n=n: talib.EMA(s, n)) for n in (12, 26))\n"
         "out((a > b) & (a.shift() <= b.shift()), (a < b) & (a.shift() >= b.shift()))"),
        ("MACD金叉买入，死叉卖出",
         "h = each(lambda s: talib.MACD(s)[2])\nout((h > 0) & (h.shift() <= 0), (h < 0) & (h.shift() >= 0))"),
        ("突破20日新高买入，跌破10日新低卖出",
         "out(close > close.shift(1).rolling(20).max(), close < close.shift(1).rolling(10).min())"),
        ("突破20日新高买入，跌破10日新低卖出",
         "out(close >= close.rolling(20).max(), close <= close.rolling(10).min())"),
        ("收盘价上穿20日均线买入，下穿卖出",
         "m = close.rolling(20).mean()\nout(close > m, close < m)"),
    ],
)  # fmt: skip
def test_a_convention_that_the_words_leave_open_is_right(sentence, code):
    assert not differs(sentence, HEAD + code, market_panel())


@pytest.mark.parametrize(
    "mean",
    [
        "close.rolling(20).mean()",
        "close.ffill().rolling(20).mean().where(close.notna())",
        "each(lambda s: talib.SMA(s, 20))",
    ],
)
def test_a_suspension_may_be_treated_in_three_ways(mean, frames):
    code = f"{HEAD}m = {mean}\nout(close > m, close < m)"
    assert not differs("收盘价高于20日均线买入，低于20日均线卖出", code, frames)


def test_a_period_that_was_not_said_is_found_with_both_values(frames):
    sentence = "收盘价上穿20日均线买入，下穿卖出"
    code = "m = close.rolling(30).mean()\nout((close > m) & (close.shift() <= m.shift()), (close < m))"
    signal = signal_of(HEAD + code, frames)
    found = compare_positions(
        signal, frames["ohlcv"]["close"], rule_readings(rule_of(sentence), panel_of(frames))
    ).difference
    close = frames["ohlcv"]["close"][found.symbol]
    mean = close.rolling(20).mean()
    assert f"close {close[found.session]:.6g} (" in found.explanation.en
    assert f"20-day average {mean[found.session]:.6g} (" in found.explanation.en
    assert "buy when close crosses above 20-day average" in found.explanation.en
    assert f"20日均线 {mean[found.session]:.6g}（前一日 " in found.explanation.zh


def test_adjusted_prices_are_a_convention_where_they_differ(frames):
    adjusted = {name: frames["ohlcv"][name] * 0.9 for name in ("high", "low", "close")}
    panel = RuleData(bars=frames["ohlcv"], adjusted=adjusted)
    groups = rule_readings(rule_of("收盘价上穿20日均线买入，下穿卖出"), panel)
    assert len(list(islice(groups, 5))) == 2


def test_the_values_that_a_rule_compares_are_in_the_prices_of_each_session(frames):
    """A split of two for one in the middle: a mean of adjusted closes, in the prices of each session."""
    close = frames["ohlcv"]["close"]
    raw = close.mul(np.where(np.arange(len(close)) < len(close) // 2, 2.0, 1.0), axis=0)
    panels = Panels(ohlcv={"close": raw})
    panels.adjusted = lambda name: {"close": close}[name]
    mean = close.apply(lambda s: s.dropna().rolling(20).mean().reindex(s.index))
    by_hand = {"close": raw, "20-day average": mean * raw / close}
    compared = RuleEvaluator(panels).compared(write_code(rule_of("收盘价上穿20日均线买入，下穿卖出")).rule)
    assert [in_words(node, "en") for node in compared] == list(by_hand)
    for node, frame in compared.items():
        plain = by_hand[in_words(node, "en")]
        pd.testing.assert_frame_equal(frame, plain, check_freq=False, check_names=False)


@pytest.mark.parametrize(
    ("said", "hands"),
    [
        ("volume is above 2 million shares", 20_000.0),
        ("volume is above 5m shares", 50_000.0),
        ("volume is above 300 lots", 300.0),
        ("volume is above 100 shares", 1.0),
        ("成交量大于30万手", 300_000.0),
        ("成交量大于1000万股", 100_000.0),
        ("成交量大于2亿股", 2_000_000.0),
        ("volume is above 13000000", None),
        ("成交量大于30000000", None),
    ],
)
def test_a_number_of_volume_has_its_unit_or_is_not_read(said, hands):
    chinese = said.startswith("成")
    text = (
        f"600000.SH 2024年，{said}时买入，跌破20日线卖出"
        if chinese
        else f"KO, 2024, buy when the {said}, sell when the close is below the 20-day average"
    )
    request = read_request(text, RequestContext(first_session="20200101", last_session="20251231"))
    if hands is None:
        assert request.strategy is None
        assert any(said.split()[-1] in word or said in word for word in request.unparsed)
    else:
        assert request.strategy is not None
        assert f"Number(value={hands})" in repr(request.strategy)
