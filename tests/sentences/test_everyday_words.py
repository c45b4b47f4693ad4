"""Everyday words beside the rules that they mean, and sentences like them that must be asked about."""

from __future__ import annotations

import pytest

from quantgraph.sentences._request import ParsedRequest, RequestContext, read_request

NAMES = {"招商银行": "600036.SH", "大盘": "000300.SH", "the market": "000300.SH"}
UP, DOWN = "close > ago(close, 1)", "close < ago(close, 1)"
GOLDEN = "cross_up(kdj_k(9, 3), kdj_d(9, 3, 3))"
DEATH = "cross_down(kdj_k(9, 3), kdj_d(9, 3, 3))"
FIVE = "cross_up(sma(close, 5), sma(close, 20))"


def read(text: str) -> ParsedRequest:
    return read_request(f"600519.SH {text}, 2025", RequestContext(last_session="20251231", names=NAMES))


RULES = {
    "三连阳买 三连阴卖": "streak(close > open, 3) | streak(close < open, 3)",
    "连跌三天买入，连涨了2天卖出": f"streak({DOWN}, 3) | streak({UP}, 2)",
    "连续4天下跌后买入，连续2天上涨后卖出": f"streak({DOWN}, 4) | streak({UP}, 2)",
    "连续3日收跌且RSI低于30买入，RSI高于70卖出": f"streak({DOWN}, 3) and rsi(14) < 30 | rsi(14) > 70",
    "RSI连续两天低于30且在60日均线上方买入，RSI高于70卖出": "streak(rsi(14) < 30, 2) and close > sma(close, 60) | rsi(14) > 70",
    "三阴一阳买，跌破10日线走人": "was(streak(close < open, 3), 1) and close > open | close < sma(close, 10)",
    "连续3天收在20日线上方买入，跌破20日线就走": "streak(close > sma(close, 20), 3) | close < sma(close, 20)",
    "buy after it drops 3 days in a row, sell after two green days": f"streak({DOWN}, 3) | streak({UP}, 2)",
    "three red candles buy, three green candles sell": "streak(close < open, 3) | streak(close > open, 3)",
    "closes lower for 3 straight sessions buy, RSI above 70 sell": f"streak({DOWN}, 3) | rsi(14) > 70",
    "RSI低于30低吸，高于70跑路": "rsi(14) < 30 | rsi(14) > 70",
    "跌破1400买，涨到1600卖": "close < 1400 | close >= 1600",
    "跌到布林下轨买，涨到中轨卖": "close <= boll_lower(20, 2) | close >= sma(close, 20)",
    "5日线上穿20日线买，但是RSI已经过了70就别追了，跌破20日线走人": f"{FIVE} and not rsi(14) > 70 | close < sma(close, 20)",
    "RSI below 30 grab, get out when RSI is above 60": "rsi(14) < 30 | rsi(14) > 60",
    "scoop it up when it is back above the 50-day average, dump it when it falls back below": "close > sma(close, 50) | close < sma(close, 50)",
    "golden cross of 10 and 30 day EMAs, exit on the death cross": "cross_up(ema(close, 10), ema(close, 30)) | cross_down(ema(close, 10), ema(close, 30))",
    "buy when it breaks above its 50 day, sell when it loses the 50 day": "close > sma(close, 50) | close < sma(close, 50)",
    "低于60日均线10%买入，高于10%卖出": "close < 0.9 * sma(close, 60) | close > 1.1 * sma(close, 60)",
    "比20日高点回落8%买入，站上20日线卖出": "close < 0.92 * highest(high, 20) | close > sma(close, 20)",
    "buy when it is at least 5% below the 10-day high, sell when it is 10% above its 50-day average": "close <= 0.95 * highest(high, 10) | close > 1.1 * sma(close, 50)",
    "buy when it drops 8% from its 20-day high, sell when it is above its 20-day average": "close < 0.92 * highest(high, 20) | close > sma(close, 20)",
    "成交量高于5日均量50%买入，RSI高于70卖出": "volume > 1.5 * sma(volume, 5) | rsi(14) > 70",
    "KDJ 20以下金叉买入，80以上死叉卖出": f"{GOLDEN} and kdj_k(9, 3) < 20 and kdj_d(9, 3, 3) < 20 | {DEATH} and kdj_k(9, 3) > 80 and kdj_d(9, 3, 3) > 80",
    "buy on a KDJ golden cross below 20, sell when J is above 100": f"{GOLDEN} and kdj_k(9, 3) < 20 and kdj_d(9, 3, 3) < 20 | kdj_j(9, 3, 3) > 100",
    "放量1.5倍突破20日高点买入，跌破10日线卖出": "volume > 1.5 * sma(volume, 20) and close > ago(highest(high, 20), 1) | close < sma(close, 10)",
    "buy when it closes above its 20 day high on volume at least 2x its 10-day average, RSI above 80 sell": "close > ago(highest(high, 20), 1) and volume >= 2 * sma(volume, 10) | rsi(14) > 80",
    "大盘跌破60日线空仓，站上满仓": 'index("000300.SH", close > sma(close, 60)) | index("000300.SH", close < sma(close, 60))',
    "all in when the market is above its 200 day, in cash otherwise": 'index("000300.SH", close > sma(close, 200)) | index("000300.SH", close < sma(close, 200))',
    "RSI below 30 buy, above 70 sell, go to cash when the market closes below its 50-day average": 'rsi(14) < 30 | rsi(14) > 70 or index("000300.SH", close < sma(close, 50))',
    "涨停买入，RSI高于80卖出": "limit_up() | rsi(14) > 80",
}  # fmt: skip


@pytest.mark.parametrize("text", RULES)
def test_everyday_words_have_the_rule_that_they_mean(text: str) -> None:
    request = read(text)
    assert (request.missing, request.unparsed, request.open) == ((), (), ())
    assert request.strategy is not None
    assert " | ".join(request.strategy.expressions) == RULES[text]


PLANS = {
    "创20日新高买入，回撤8%止损，最多拿15天": {"trailing_stop": 0.08, "max_holding": 15},
    "连跌5天买入，拿3天": {"max_holding": 3},
    "breaks above its 20-day high buy, sell below the 10-day low or after 30 days": {"max_holding": 30},
}


@pytest.mark.parametrize("text", PLANS)
def test_everyday_words_have_the_plan_that_they_mean(text: str) -> None:
    request = read(text)
    assert (request.missing, request.unparsed, request.plan) == ((), (), PLANS[text])


ASKED = (
    "三连阳", "三连阳买入", "连续上涨买入，RSI高于70卖出", "连续3天放量买入，RSI高于70卖出", "3连板买入，RSI高于70卖出", "连续3天上涨超过5%买入，RSI高于70卖出",
    "三阴两阴买入，RSI高于70卖出", "连续3天金叉买入，死叉卖出", "after 3 days buy, RSI above 70 sell", "buy when it drops, sell above 70",
    "放量突破20日高点买入，跌破10日线卖出", "不放量1.5倍突破20日高点买入，跌破10日线卖出", "breaks out on volume buy, RSI above 70 sell", "buy above the 20-day high not on 1.5x volume, RSI above 70 sell",
    "不低于60日均线10%买入，RSI高于70卖出", "低于60日均线10%买入，高于卖出", "低于60日均线10%-15%买入，RSI高于70卖出", "buy when it is less than 5% below the 10-day high, RSI above 70 sell",
    "buy when it is within 5% of the 10-day high, RSI above 70 sell", "低于60日均线120%买入，RSI高于70卖出", "从20日高点回落8%止损，RSI低于30买入，高于70卖出",
    "RSI 20以下金叉买入，死叉卖出", "20以下金叉买入，死叉卖出", "5日和20日均线20以下金叉买入，死叉卖出", "KDJ 20以下不金叉买入，死叉卖出", "KDJ 120以下金叉买入，死叉卖出",
    "RSI低于30买入，不过20日均线要向上", "20日涨幅低于-5%买入，涨到10%卖出", "EMA20高于EMA60买入，loses the 50 day sell", "when volume picks up and RSI below 30, sell above 70",
    "大盘跌破60日线空仓", "大盘跌破60日线空仓，跌破满仓", "大盘跌破60日线空仓，站上满仓，缩量减仓", "大盘放量空仓，站上60日线满仓", "RSI高于70就别追", "RSI低于30买入，量价背离就别追，高于70卖出",
    "连续3天RSI低于30且收盘价低于20日均线买入，RSI高于70卖出", "buy when RSI is below 30 and price is below its 20-day average for 3 days, RSI above 70 sell",
    "MACD金叉买入，跌破30卖出", "buy below the 10-day low or after 30 days, RSI above 70 sell", "拿3天涨幅前5的", "涨停次日买入，跌停卖出", "昨天涨停买入，RSI高于70卖出",
)  # fmt: skip


@pytest.mark.parametrize("text", ASKED)
def test_what_could_mean_something_else_is_asked_about(text: str) -> None:
    request = read(text)
    assert request.missing or request.unparsed or request.open, request.strategy


def test_a_default_of_everyday_words_is_named() -> None:
    for text in ("三连阳买 三连阴卖", "放量1.5倍突破20日高点买入，跌破10日线卖出", "two red days buy, RSI above 70 sell", "比20日高点回落8%买入，站上20日线卖出"):  # fmt: skip
        assert any(each.status == "default" and each.words for each in read(text).clauses), text


@pytest.mark.parametrize(
    ("text", "code"),
    [("茅台", "600519.SH"), ("宁王", "300750.SZ"), ("招行", "600036.SH"), ("nvidia", "NVDA"), ("the qs", "QQQ"), ("Moutai", "600519.SH")],
)  # fmt: skip
def test_a_nickname_of_a_well_known_security_is_its_code(text: str, code: str) -> None:
    assert read_request(f"{text} RSI低于30买入，高于70卖出", RequestContext()).symbols == (code,)
    assert read_request(f"{text} RSI低于30买入", RequestContext(listed={"1.SH"})).symbols in ((), ("1.SH",))


@pytest.mark.parametrize("text", ["成交行情", "平安", "上海康复", "pineapple", "分工行为", "茅台酒"])
def test_a_word_that_has_a_nickname_in_it_is_no_security(text: str) -> None:
    assert read_request(f"{text} RSI低于30买入，高于70卖出", RequestContext()).symbols == ()
