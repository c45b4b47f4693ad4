"""Clauses without a comparison or an *and*, and similar ones that are asked about."""

from __future__ import annotations

import pytest

from quantgraph.rules import in_words
from quantgraph.sentences._request import ParsedRequest, RequestContext, read_request

REVERSION = "close < lower Bollinger band (20, 2) | close > upper Bollinger band (20, 2)"
LOW_PE_MOMENTUM = "top 10% by 20-day return and PE < 30"


def read(text: str) -> ParsedRequest:
    return read_request(text, RequestContext(last_session="20251231"))


def rule(text: str) -> str:
    strategy = read(text).strategy
    return "" if strategy is None else f"{in_words(strategy.entry, 'en')} | {in_words(strategy.exit, 'en')}"


CROSS = "5-day average crosses above 20-day average | 5-day average crosses below 20-day average"
STATE = "5-day average crosses above 20-day average | 5-day average < 20-day average"

READ = {
    "5-day average crosses above the 20-day average buy, below sell": CROSS,
    "buy when the 5-day average crosses above the 20-day average, sell when below": CROSS,
    "buy when the 5-day average crosses above the 20-day average, sell when under": CROSS,
    "buy when the 5-day average crosses above the 20-day average, sell when it is below": STATE,
    "布林带下轨买入上轨卖出": REVERSION,
    "600519.SH 2024年，布林带下轨买入，上轨卖出": REVERSION,
    "触及布林带下轨买入、触及上轨卖出": REVERSION,
    "股价触及布林带下轨买入，触及上轨卖出": REVERSION,
    "触及布林带下轨买入，突破上轨卖出": REVERSION,
    "跌破布林带下轨买入，触及上轨卖出": REVERSION,
    "布林带策略：下轨买入，上轨卖出": REVERSION,
    "buy at the lower Bollinger band, sell at the upper band, from 2024-01-01 to 2024-12-31": REVERSION,
    "buy when price touches the lower Bollinger band, sell when it touches the upper band": REVERSION,
    "布林带(10,3)下轨买入上轨卖出": "close < lower Bollinger band (10, 3) | close > upper Bollinger band (10, 3)",
    "触及布林带下轨买入，中轨卖出": "close < lower Bollinger band (20, 2) | close > 20-day average",
    "股价在60日均线之上买入，之下卖出": "close > 60-day average | close < 60-day average",
    "股价在60日均线下方买入，上方卖出": "close < 60-day average | close > 60-day average",
    "5日均线在20日均线之上买入，之下卖出": "5-day average > 20-day average | 5-day average < 20-day average",
    "buy the top 10% by 20-day momentum with PE < 30, sell the rest": f"{LOW_PE_MOMENTUM} | not ({LOW_PE_MOMENTUM})",
    "不在RSI高于70时，站上20日均线买入，跌破20日均线卖出": "not (RSI(14) > 70) and close > 20-day average | close < 20-day average",
}


@pytest.mark.parametrize(("sentence", "wanted"), READ.items(), ids=list(READ))
def test_a_shortened_clause_reads_to_its_rule(sentence: str, wanted: str) -> None:
    assert rule(sentence) == wanted
    assert read(sentence).unparsed == ()


@pytest.mark.parametrize(
    "sentence",
    [
        "布林带上轨买入下轨卖出",
        "下轨买入上轨卖出",
        "触及布林带下轨买入",
        "触及布林带下轨买入，跌破下轨卖出",
        "触及布林带下轨买入，未触及上轨卖出",
        "触及布林带下轨买入，RSI高于70卖出",
        "不触及布林带下轨买入，触及上轨卖出",
        "进入布林带下轨内买入，上轨卖出",
        "布林带(10,2)下轨买入，布林带(20,2)上轨卖出",
        "触及20日均线买入，跌破卖出",
        "5日均线上穿20日均线买入，之下卖出",
        "股价在60日均线之上买入，之上卖出",
        "股价在60日均线之上且RSI低于30买入，之下卖出",
        "RSI低于30买入，之上卖出",
        "buy the top 10% by 20-day momentum with PE < 30 or PB < 2, sell the rest",
        "buy the top 10% by 20-day momentum with the lowest 10% by PE, sell the rest",
        "buy the top 10% by 20-day momentum with PE, sell the rest",
        "不在RSI高于70时，站上20日均线买入",
        "不在RSI高于70时，站上20日均线，突破布林带上轨买入，跌破20日均线卖出",
        "不在RSI高于70且PE低于30时，站上20日均线买入，跌破20日均线卖出",
        "RSI高于70时，站上20日均线买入，跌破20日均线卖出",
    ],
)
def test_a_clause_that_needs_a_guess_is_asked_about(sentence: str) -> None:
    request = read(sentence)
    assert request.strategy is None
    assert request.unparsed != ()
