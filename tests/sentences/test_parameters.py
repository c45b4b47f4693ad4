"""Parameters, lines and shares that a sentence names once; ambiguous ones are asked about."""

from __future__ import annotations

import pytest

from quantgraph.rules import in_words
from quantgraph.sentences._request import ParsedRequest, RequestContext, read_request


def read(text: str) -> ParsedRequest:
    return read_request(text, RequestContext(last_session="20251231"))


def rule(text: str) -> str:
    strategy = read(text).strategy
    return "" if strategy is None else f"{in_words(strategy.entry, 'en')} | {in_words(strategy.exit, 'en')}"


RSI_6 = "RSI(6) < 30 | RSI(6) > 70"
MACD_6 = "DIF(6,13) crosses above DEA(6,13,5) | DIF(6,13) crosses below DEA(6,13,5)"
KDJ_14 = "KDJ(14,3).K crosses above KDJ(14,3,3).D and KDJ(14,3,3).J < 30"
KDJ_14_DOWN = "KDJ(14,3).K crosses below KDJ(14,3,3).D"
BANDS_10 = "close < lower Bollinger band (10, 1.5) | close > upper Bollinger band (10, 1.5)"
BANDS_20 = "close < lower Bollinger band (20, 2) | close > upper Bollinger band (20, 2)"
BREAKOUT_20 = "close > upper Bollinger band (20, 2) | close < 20-day average"
MOMENTUM_60 = "top 20% by 60-day return | bottom 20% by 60-day return"
ABOVE_60 = "close > 60-day average | close < 60-day average"

INHERITED = {
    "RSI(6)低于30买入，RSI高于70卖出": RSI_6,
    "RSI6低于30买入，RSI高于70卖出": RSI_6,
    "6日RSI低于30买入，RSI高于70卖出": RSI_6,
    "RSI(6)低于30买入\nRSI高于70卖出": RSI_6,
    "RSI(6)30以下买入，RSI 70以上卖出": RSI_6,
    "RSI低于30买入，RSI(6)高于70卖出": RSI_6,
    "RSI(6)超卖买入，RSI超买卖出": RSI_6,
    "buy when RSI(6) is below 30, sell when RSI is above 70": RSI_6,
    "buy when the 6-day RSI is oversold, sell when RSI is overbought": RSI_6,
    "RSI 6以下买入，RSI 90以上卖出": "RSI(14) < 6 | RSI(14) > 90",
    "RSI(6)低于30买入，RSI(14)高于70卖出": "RSI(6) < 30 | RSI(14) > 70",
    "RSI(6)低于30买入，高于70卖出\n改成RSI低于20买入，RSI高于80卖出": "RSI(6) < 20 | RSI(6) > 80",
    "RSI(6)低于30买入，高于70卖出\n改成RSI(14)低于30买入，RSI高于70卖出": "RSI(14) < 30 | RSI(14) > 70",
    "KDJ(14,3,3)金叉且J值低于30买入，死叉卖出": f"{KDJ_14} | {KDJ_14_DOWN}",
    "KDJ(14,3,3)金叉且J值低于30买入，J高于100卖出": f"{KDJ_14} | KDJ(14,3,3).J > 100",
    "KDJ(14,3,3) golden cross and J below 30 buy, death cross sell": f"{KDJ_14} | {KDJ_14_DOWN}",
    "J低于0买入，KDJ(14,3,3)的J值高于100卖出": "KDJ(14,3,3).J < 0 | KDJ(14,3,3).J > 100",
    "MACD(6,13,5)金叉买入，MACD死叉卖出": MACD_6,
    "MACD(6,13,5)金叉买入，DIF下穿DEA卖出": MACD_6,
    "buy when MACD(6,13,5) crosses above its signal line, sell when MACD crosses below its signal line": MACD_6,
    "MACD(6,13,5)金叉且DIF大于0买入，死叉卖出": "DIF(6,13) crosses above DEA(6,13,5) and DIF(6,13) > 0"
    " | DIF(6,13) crosses below DEA(6,13,5)",
    "60日动量前20%买入，动量后20%卖出": MOMENTUM_60,
    "60日涨幅前20%买入，动量后20%卖出": MOMENTUM_60,
    "60日涨幅前20%买入，涨幅后20%卖出": MOMENTUM_60,
    "buy the top 20% by 60-day momentum, sell the bottom 20% by momentum": MOMENTUM_60,
    "跌破布林带(10,1.5)下轨买入，突破布林带上轨卖出": BANDS_10,
    "布林带(10,1.5)跌破下轨买入，布林带突破上轨卖出": BANDS_10,
    "buy below the lower Bollinger band (10, 1.5), sell above the upper Bollinger band": BANDS_10,
    "站上60日均线买入，跌破卖出": ABOVE_60,
    "站上60日均线买入，跌破均线卖出": ABOVE_60,
    "buy when price is above its 60-day average, sell when it is below the average": ABOVE_60,
    "EMA(60)上方买入，跌破均线卖出": "close > EMA(60) | close < EMA(60)",
    "价格高于60日均线且RSI低于70买入，跌破卖出": "close > 60-day average and RSI(14) < 70 | close < 60-day average",
    "收盘价上穿60日均线买入，跌破卖出": "close crosses above 60-day average | close < 60-day average",
    "EMA12上穿EMA26且MACD柱大于0买入，下穿卖出": "EMA(12) crosses above EMA(26) and DIF > DEA"
    " | EMA(12) crosses below EMA(26)",
    "MACD金叉且收盘价高于60日均线买入，死叉卖出": "DIF crosses above DEA and close > 60-day average"
    " | DIF crosses below DEA",
}

FAMILY = {
    "布林带均值回归": BANDS_20,
    "布林带均值回归策略": BANDS_20,
    "布林带(10,1.5)均值回归": BANDS_10,
    "a Bollinger mean reversion strategy": BANDS_20,
    "Bollinger mean reversion (10, 1.5)": BANDS_10,
    "布林带突破 20日 2倍": BREAKOUT_20,
    "布林带突破策略": BREAKOUT_20,
    "Bollinger breakout (20, 2)": BREAKOUT_20,
    "布林带突破 10日 1.5倍": BREAKOUT_20.replace("(20, 2)", "(10, 1.5)").replace("20-day", "10-day"),
    "top 10% by 20-day momentum buy, bottom sell": "top 10% by 20-day return | bottom 10% by 20-day return",
    "买入动量最高的10只，卖出最低的": "top 10 by 20-day return | bottom 10 by 20-day return",
    "市盈率最低的20%买入，最高的卖出": "bottom 20% by PE | top 20% by PE",
    "换手率排名前20%买入，其余卖出": "top 20% by turnover rate | not (top 20% by turnover rate)",
    "换手率排名前20%买入，卖出其余股票": "top 20% by turnover rate | not (top 20% by turnover rate)",
    "buy the top 20% by turnover rate, sell the rest": "top 20% by turnover rate | not (top 20% by turnover rate)",
    "buy when not (RSI above 70) or J below 0, sell when RSI above 80": "not (RSI(14) > 70) or J < 0 | RSI(14) > 80",
    "非(RSI高于70)或J低于0买入，RSI高于80卖出": "not (RSI(14) > 70) or J < 0 | RSI(14) > 80",
    "not (RSI above 70 or J above 100) buy, RSI above 80 sell": "not (RSI(14) > 70 or J > 100) | RSI(14) > 80",
}

OPEN = {
    "RSI(6)低于30且RSI(14)低于40买入，RSI高于70卖出": "RSI (6 / 14)",
    "buy when RSI(6) crosses above RSI(14), sell when RSI is above 70": "RSI (6 / 14)",
    "MACD(6,13,5)金叉或MACD(12,26,9)金叉买入，DIF小于0卖出": "DIF (6,13,5 / 12,26,9)",
    "突破布林带(20,2)上轨且高于布林带(10,1.5)上轨买入，跌破中轨卖出": "中轨 (10,1.5 / 20,2)",
    "20日动量前20%且60日动量前20%买入，动量后20%卖出": "动量 (20 / 60)",
    "EMA12上穿EMA26且MACD柱大于0买入，死叉卖出": "死叉",
    "MACD柱大于0且EMA12上穿EMA26买入，死叉卖出": "死叉",
    "MACD金叉且J低于20买入，死叉卖出": "死叉",
    "MACD金叉且5日均线高于20日均线买入，死叉卖出": "死叉",
    "buy when EMA(12) crosses above EMA(26) and the MACD histogram is positive, sell on a death cross": "death cross",
    "5日均线上穿20日均线买入，跌破均线卖出": "跌破均线",
    "突破20日新高买入，跌破卖出": "跌破",
    "站上5日均线且站上20日均线买入，跌破卖出": "跌破",
    "20日涨幅前20%买入，涨幅超过5%卖出": "涨幅超过5%",
    "RSI低于30买入，最高的卖出": "最高",
    "布林带突破，均值回归": "布林带突破",
}

LEGIBLE = {
    "RSI高于70做空": ("RSI高于70", "做空"),
    "做空动量后20%": ("做空动量后20%",),
    "每周一买": ("买",),
    "60分钟MACD金叉买入": ("60分钟",),
    "Ichimoku": ("Ichimoku",),
    "5周均线上穿20周均线买入": ("5周均线", "20周均线"),
    "MACD金叉买入，要观察": ("要观察",),
    "小市值买入": ("小市值买入",),
    "周线MACD金叉买入": ("周线",),
    "buy every Monday": ("buy",),
    "60-minute MACD golden cross buy": ("60-minute",),
    "short when RSI is above 70": ("short when RSI is above 70",),
}


@pytest.mark.parametrize(("sentence", "wanted"), INHERITED.items(), ids=list(INHERITED))
def test_a_bare_name_takes_what_the_request_names_for_it(sentence: str, wanted: str) -> None:
    assert rule(sentence) == wanted
    assert read(sentence).unparsed == ()


@pytest.mark.parametrize(("sentence", "wanted"), FAMILY.items(), ids=list(FAMILY))
def test_a_short_sentence_of_the_family_reads_to_its_rule(sentence: str, wanted: str) -> None:
    assert rule(sentence) == wanted
    assert read(sentence).unparsed == ()


@pytest.mark.parametrize(("sentence", "word"), OPEN.items(), ids=list(OPEN))
def test_an_ambiguous_name_is_asked_about_and_listed(sentence: str, word: str) -> None:
    request = read(f"600519 2024年 {sentence}")
    assert request.strategy is None
    assert request.missing == ("strategy",)
    assert word in request.unparsed


@pytest.mark.parametrize(("sentence", "words"), LEGIBLE.items(), ids=list(LEGIBLE))
def test_words_outside_the_family_are_named_whole(sentence: str, words: tuple[str, ...]) -> None:
    request = read(f"600519 2024年 {sentence}")
    assert request.missing
    assert (*request.unparsed, *(clause.words for clause in request.open)) == words


def test_a_data_request_with_an_indicator_stays_a_data_request() -> None:
    request = read("KDJ(14,3,3)金叉买入\n600519 2024年 K线")
    assert request.missing == ()
    assert request.unparsed == ()
