"""Sentences become requests: symbols, intent, missing parts, without guesses."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quantgraph.errors import BadWindow
from quantgraph.rules import in_words
from quantgraph.sentences._request import ParsedRequest, RequestContext, read_request
from quantgraph.sentences._rules import write_code

CONTEXT = RequestContext(
    first_session="20220104",
    last_session="20250630",
    names={"贵州茅台": "600519.SH", "平安银行": "000001.SZ", "Kweichow Moutai": "600519.SH"},
)


def read(text: str) -> ParsedRequest:
    return read_request(text, CONTEXT)


def rule(text: str) -> str:
    """The rule in words; empty without a rule."""
    strategy = read(text).strategy
    return "" if strategy is None else f"{in_words(strategy.entry, 'en')} | {in_words(strategy.exit, 'en')}"


SMA = "5-day average crosses above 20-day average | 5-day average crosses below 20-day average"
MACD = "DIF crosses above DEA | DIF crosses below DEA"
RSI = "RSI(14) < 30 | RSI(14) > 70"
KDJ = "K crosses above D | K crosses below D"
BANDS = "close < lower Bollinger band (20, 2) | close > upper Bollinger band (20, 2)"
MOMENTUM = "top 20% by 20-day return | bottom 20% by 20-day return"
BREAKOUT = "close > previous 20-day high | close < previous 10-day low"

READ = {
    "600519.SH RSI低于30买入，一直拿着不卖": "RSI(14) < 30 | never",
    "600519.SH RSI低于30买入，2025年，长期持有": "RSI(14) < 30 | never",
    "600519.SH buy when RSI is below 30, never sell": "RSI(14) < 30 | never",
    "buy 600519.SH when RSI is below 30 and hold forever": "RSI(14) < 30 | never",
    "600519.SH RSI低于30买入\n不卖": "RSI(14) < 30 | never",
    "600519.SH buy when RSI is below 30; never sell at a loss": "",
    "600519.SH MACD大于0，不卖，RSI低于30买入": "",
    "600519.SH MACD大于0时不卖，RSI低于30买入": "",
    "buy 600519.SH when RSI is below 30, if MACD is above 0, never sell": "",
    "600519.SH RSI低于30买入，高于70不卖": "",
    "600519.SH RSI低于30买入，高于70卖出，长期持有": "",
    "600519.SH RSI低于30买入，不卖，除非跌破60日线": "",
    "5日均线上穿20日均线买入，下穿卖出": SMA,
    "５日均线上穿２０日均线买入，下穿卖出": SMA,
    "五日均线上穿二十日均线买入，反之卖出": SMA,
    "当5日均线上穿20日均线时买入，当5日均线下穿20日均线时卖出。": SMA,
    "双均线策略：5日均线上穿20日均线买入": SMA,
    "MA5上穿MA20买入，MA5下穿MA20卖出": SMA,
    "5日线上穿20日线买入，下穿卖出": SMA,
    "5日上穿20日均线买入，死叉卖出": SMA,
    "用5日和20日均线，金叉买入，死叉卖出": SMA,
    "20日和5日均线金叉买入": SMA,
    "5日均线突破20日均线买入，跌破卖出": SMA,
    "买入：5日均线上穿20日均线；卖出：5日均线下穿20日均线": SMA,
    "生成交易信号：5日均线上穿20日均线买入，下穿卖出": SMA,
    "a 5/20 SMA crossover strategy": SMA,
    "SMA(5) crosses over SMA(20): buy, crosses under: sell": SMA,
    "go long when the five-day moving average crosses above the twenty-day moving average, exit when it crosses below": SMA,
    "Buy if SMA5 crosses above SMA20; sell if SMA5 crosses below SMA20.": SMA,
    "buy on the golden cross of the 5 and 20 day average, sell on the death cross": SMA,
    "5日EMA上穿20日EMA买入": "EMA(5) crosses above EMA(20) | EMA(5) crosses below EMA(20)",
    "12日指数均线上穿26日指数均线买入": "EMA(12) crosses above EMA(26) | EMA(12) crosses below EMA(26)",
    "buy when the 12-day exponential moving average is above the 26-day EMA, sell when below": "EMA(12) > EMA(26) | EMA(12) < EMA(26)",
    "EMA cross 12 and 26": "EMA(12) crosses above EMA(26) | EMA(12) crosses below EMA(26)",
    "收盘价在20日均线之上买入": "close > 20-day average | close < 20-day average",
    "站上20日均线买入，跌破10日均线卖出": "close > 20-day average | close < 10-day average",
    "股价高于60日均线买入，低于60日均线卖出": "close > 60-day average | close < 60-day average",
    "buy when price is above its 60-day average": "close > 60-day average | close < 60-day average",
    "buy: close > sma(20); sell: close < sma(20)": "close > 20-day average | close < 20-day average",
    "MACD金叉买入，死叉卖出": MACD,
    "MACD策略，金叉买入，死叉卖出": MACD,
    "MACD金叉死叉策略": MACD,
    "DIF上穿DEA买入，下穿卖出": MACD,
    "MACD(12，26，9)金叉买入": MACD,
    "当MACD出现金叉时产生买入信号，出现死叉时产生卖出信号": MACD,
    "买入信号：MACD金叉；卖出信号：MACD死叉": MACD,
    "MACD crosses above its signal line buy, below it sell": MACD,
    "Buy when MACD crosses above its signal line and sell when it crosses below.": MACD,
    "MACD柱为正买入，为负卖出": "DIF > DEA | DIF < DEA",
    "MACD柱上穿0买入，下穿卖出": MACD,
    "MACD柱大于0买入，MACD柱小于0卖出": "DIF > DEA | DIF < DEA",
    "buy when the MACD line is above the zero line": "DIF > 0 | DIF < 0",
    "RSI(14)低于30买入，高于70卖出": RSI,
    "RSI14<30买入，RSI14>70卖出": RSI,
    "RSI在30以下买入，70以上卖出": RSI,
    "RSI策略：低于30买入，高于70卖出": RSI,
    "用RSI(14)，低于30买入，高于70卖出": RSI,
    "当RSI指标低于30的时候买入，当RSI指标高于70的时候卖出": RSI,
    "RSI超卖买入，超买卖出": RSI,
    "RSI(14) 30/70 策略": RSI,
    "RSI低于30买入": RSI,
    "Buy when RSI(14) < 30; sell when RSI(14) > 70.": RSI,
    "RSI(14) below 30 buy above 70 sell": RSI,
    "buy when the RSI falls below 30 and sell when it rises above 70": "RSI(14) crosses below 30 | RSI(14) crosses above 70",
    "RSI不低于30买入，不高于20卖出": "RSI(14) >= 30 | RSI(14) <= 20",
    "buy when RSI is at most 30, sell when RSI is at least 70": "RSI(14) <= 30 | RSI(14) >= 70",
    "6日RSI上穿20买入，下穿80卖出": "RSI(6) crosses above 20 | RSI(6) crosses below 80",
    "布林带(20,2)跌破下轨买入，突破上轨卖出": BANDS,
    "布林带策略：跌破下轨买入，突破上轨卖出": BANDS,
    "股价低于布林线下轨买入": BANDS,
    "Bollinger reversion: buy below the lower band, sell above the upper band": BANDS,
    "布林带(30，2.5)，跌破下轨买入，突破中轨卖出": "close < lower Bollinger band (30, 2.5) | close > 30-day average",
    "KDJ金叉买入，死叉卖出": KDJ,
    "K线上穿D线买入，K线下穿D线卖出": KDJ,
    "KDJ策略：金叉买入，死叉卖出": KDJ,
    "KDJ(9,3,3) golden cross buy, death cross sell": KDJ,
    "J小于0买入": "J < 0 | J > 100",
    "KDJ的J值低于20买入，高于80卖出": "J < 20 | J > 80",
    "动量前20%买入，后20%卖出": MOMENTUM,
    "20日动量排名前20%买入，排名后20%卖出": MOMENTUM,
    "按20日涨幅排名，买入前20%，卖出后20%": MOMENTUM,
    "过去20天涨幅最高的20%买入，最低的20%卖出": MOMENTUM,
    "买入20日涨幅前百分之二十，卖出后百分之二十": MOMENTUM,
    "Buy the top 20% by return over the last 20 days and sell the bottom 20%": MOMENTUM,
    "rank stocks by 20-day return; buy the top 20%, sell the bottom 20%": MOMENTUM,
    "If the 20-day momentum is in the top 20% buy, if it is in the bottom 20% sell": MOMENTUM,
    "20日动量前20%持有，否则卖出": "top 20% by 20-day return | not (top 20% by 20-day return)",
    "hold the top ten by 60-day return": "top 10 by 60-day return | not (top 10 by 60-day return)",
    "买入20日涨幅排名前10的股票，跌出前50%卖出": "top 10 by 20-day return | not (top 50% by 20-day return)",
    "20日涨幅超过5%买入": "20-day return > 5% | 20-day return < 5%",
    "20日涨幅低于-5%买入": "20-day return < -5% | 20-day return > -5%",
    "20日跌幅超过10%买入，20日涨幅为正卖出": "20-day return < -10% | 20-day return > 0%",
    "20日跌幅超过10%买入，小于5%卖出": "20-day return < -10% | 20-day return > -5%",
    "20日跌幅最大的20%买入，最小的20%卖出": "bottom 20% by 20-day return | top 20% by 20-day return",
    "buy when the 20-day return exceeds 5 percent, sell when it is negative": "20-day return > 5% | 20-day return < 0%",
    "突破20日新高买入，跌破10日新低卖出": BREAKOUT,
    "收盘价创20日新高买入，创10日新低卖出": BREAKOUT,
    "股价突破20日最高价买入，跌破10日最低价卖出": BREAKOUT,
    "close makes a new 20-day high buy, close makes a new 10-day low sell": BREAKOUT,
    "buy when price breaks above the high of the last 20 days, sell when it falls below the low of the last 10 days": BREAKOUT,
    "成交量大于5日均量的2倍买入": "volume > 2x 5-day average volume | volume < 2x 5-day average volume",
    "成交量是5日均量的两倍以上买入": "volume > 2x 5-day average volume | volume < 2x 5-day average volume",
    "buy when volume is above twice its 5-day average": "volume > 2x 5-day average volume | volume < 2x 5-day average volume",
    "成交量最大的前10只股票买入": "top 10 by volume | not (top 10 by volume)",
    "市盈率低于15买入，高于30卖出": "PE < 15 | PE > 30",
    "PB < 1 buy, PB > 3 sell": "PB < 1 | PB > 3",
    "市净率（PB）低于1买入": "PB < 1 | PB > 1",
    "滚动市盈率小于20买入": "trailing PE < 20 | trailing PE > 20",
    "换手率大于3%买入": "turnover rate > 3% | turnover rate < 3%",
    "总市值小于50亿买入，大于100亿卖出": "market value < 5000000000 | market value > 10000000000",
    "buy when market cap is below 5 billion, sell when above 10 billion": "market value < 5000000000 | market value > 10000000000",
    "市盈率最低的20%买入，最高的20%卖出": "bottom 20% by PE | top 20% by PE",
    "buy the lowest 30% by PB": "bottom 30% by PB | not (bottom 30% by PB)",
    "the cheapest 20% by PE buy, the highest 20% sell": "bottom 20% by PE | top 20% by PE",
    "市盈率低于15且市净率低于1.5买入": "PE < 15 and PB < 1.5 | PE > 15 or PB > 1.5",
    "市盈率低于15或市净率低于1买入": "PE < 15 or PB < 1 | PE > 15 and PB > 1",
    "MACD金叉且成交量大于20日均量的1.5倍买入": "DIF crosses above DEA and volume > 1.5x 20-day average volume"
    " | DIF crosses below DEA",
    "5日均线上穿20日均线且RSI低于70买入，下穿卖出": "5-day average crosses above 20-day average and RSI(14) < 70 | 5-day average crosses below 20-day average",
    "not (RSI above 70) buy": "not (RSI(14) > 70) | RSI(14) > 70",
    "buy when the 5 day moving average is above the 20 day moving average, otherwise sell": "5-day average > 20-day average | not (5-day average > 20-day average)",
    "RSI低于30买入，高于70卖出，其他时间持有": RSI,
    "RSI高于30且低于50买入，高于70卖出": "RSI(14) > 30 and RSI(14) < 50 | RSI(14) > 70",
    "RSI低于30或J低于0且市盈率低于20买入，RSI高于70卖出": "RSI(14) < 30 or (J < 0 and PE < 20) | RSI(14) > 70",
}

BULLISH = {
    "5日均线上穿20日均线": SMA,
    "600519.SH 5日均线上穿20日均线 2024年": SMA,
    "5-day average crosses above the 20-day average, 2025, 600519.SH": SMA,
    "MACD金叉": MACD,
    "MACD golden cross": MACD,
    "KDJ金叉": KDJ,
    "DIF上穿零轴": "DIF crosses above 0 | DIF crosses below 0",
    "收盘价上穿20日均线": "close crosses above 20-day average | close crosses below 20-day average",
    "突破20日新高": "close > previous 20-day high | close < previous 20-day low",
    "price breaks above the 20-day high": "close > previous 20-day high | close < previous 20-day low",
    "golden cross": "50-day average crosses above 200-day average | 50-day average crosses below 200-day average",
    "buy on a golden cross, sell on a death cross": "50-day average crosses above 200-day average | 50-day average crosses below 200-day average",
    "RSI高于70卖出\nMACD金叉": "DIF crosses above DEA | RSI(14) > 70",
    "5日均线上穿20日均线\n下穿60日均线卖出": "5-day average crosses above 20-day average | 5-day average crosses below 60-day average",
}

WITHOUT_A_VERB = (
    "RSI below 30",
    "RSI上穿30",
    "跌破20日均线",
    "站上20日均线",
    "收盘价高于20日最高价",
    "price is above its 60-day average",
    "MACD死叉",
    "death cross",
    "5日均线下穿20日均线",
    "20日均线上穿5日均线",
    "20日均线上穿收盘价",
    "DEA上穿DIF",
    "突破上轨",
    "成交量突破20日均量",
    "未突破20日新高",
    "5日均线上穿20日均线且RSI低于70",
    "只在MACD金叉",
    "金叉",
    "bullish crossover",
    "golden cross of the moving averages",
    "buy when RSI is below 30 and golden cross",
    "MACD",
    "MACD均值回归策略",
    "小市值策略",
    "卖出：\nMACD金叉",
    "卖出规则：\n5日均线上穿20日均线",
    "获取MACD金叉的数据",
)

ASKED = (
    "MACD大于0买入",
    "连续三天上涨买入，下跌卖出",
    "RSI低于30时，成交量放大买入",
    "buy when RSI is below 30 for 3 consecutive days",
    "buy when RSI < 30 unless PE > 50",
    "only buy when RSI below 30, sell above 70",
    "RSI低于30买入，高于70卖出，不交易ST股票",
    "RSI低于30买入，高于70卖出。手续费5元",
    "在最低点买入，最高点卖出",
    "buy low sell high",
    "buy the dip",
    "5日均线向上且价格高于20日均线买入",
    "MACD金叉后3天内RSI低于50买入",
    "5日均线和20日均线交叉时买入",
    "均线金叉买入，死叉卖出",
    "做多动量前20%，做空后20%",
    "5日均线上穿20日均线或MACD金叉买入",
    "5日均线上穿20日均线买入，否则卖出",
    "RSI低于30且市盈率低于15买入，高于70卖出",
    "MACD金叉且KDJ金叉买入，死叉卖出",
    "5日均线上穿20日均线且RSI低于70买入，下穿60日均线卖出",
    "RSI低于30，或J低于0且市盈率低于20买入",
    "RSI低于300买入",
    "RSI为正买入",
    "RSI低于30%买入",
    "RSI = 30 买入",
    "市盈率低于15%买入",
    "20日涨幅大于0.05买入",
    "总市值小于50买入",
    "涨幅超过5%买入",
    "5日均线上穿5日均线买入",
    "5周均线上穿20周均线买入",
    "MACD由负转正买入",
    "小市值策略，PE最低的10只",
    "低市盈率选股：PE最高的10只",
    "成交量高于20日均线价买入",
    "跌破下轨买入，突破上轨卖出",
    "RSI高于70卖出",
    "RSI低于30买入，RSI低于20买入",
    "RSI低于30",
    "用一个神奇的策略交易",
    "trade with the moon phase",
    "动量前0%买入",
    "动量前2.5只买入",
    "RSI(1)低于30买入",
    "MACD(12,12,9)金叉买入",
    "RSI回升到30买入",
    "价格接近20日均线买入",
    "bitcoin style hodl strategy",
)


def test_a_sentence_of_the_family_reads_to_its_rule(subtests: pytest.Subtests) -> None:
    for sentence, wanted in READ.items():
        with subtests.test(sentence=sentence):
            assert rule(sentence) == wanted


@pytest.mark.parametrize(("sentence", "wanted"), BULLISH.items(), ids=list(BULLISH))
def test_a_bullish_event_without_a_verb_is_a_purchase(sentence: str, wanted: str) -> None:
    assert rule(sentence) == wanted
    assert read(sentence).unparsed == ()


@pytest.mark.parametrize("sentence", WITHOUT_A_VERB)
def test_anything_else_without_a_verb_is_asked_about(sentence: str) -> None:
    request = read(f"600519 2024年 {sentence}")
    assert request.missing[0] in ("strategy", "plan")
    assert (request.strategy is None) == ("strategy" in request.missing)
    assert request.unparsed or request.open


@pytest.mark.parametrize(
    ("sentence", "wanted"),
    [
        ("获取600519.SH从20240901到20240930的数据，然后生成一个简单的5日和20日均线交叉策略信号", SMA),
        ("帮我写个经典的双均线策略：5日均线上穿20日均线买入，下穿卖出", SMA),
        ("please give me a basic 5/20 SMA crossover strategy", SMA),
        ("做个基础的MACD金叉策略", MACD),
        ("design some classic RSI 30/70 strategy", RSI),
        ("帮我做个策略", ""),
        ("来个简单的均线策略", ""),
        ("please write a simple strategy", ""),
    ],
)
def test_polite_and_empty_words_have_no_content(sentence: str, wanted: str) -> None:
    assert rule(sentence) == wanted
    assert read(sentence).unparsed == ()


@pytest.mark.parametrize(
    ("sentence", "word"),
    [
        ("未来5日涨幅超过5%买入", "未来5日"),
        ("typical price crosses above the 20-day average, buy", "typical"),
        ("MACD金叉买入一次", "一次"),
        ("小市值买入", "小市值买入"),
        ("下一个交易日MACD金叉买入", "下1个交易日"),
        ("开盘价高于20日均线买入", "开盘价高于20日均线"),
    ],
)
def test_words_close_to_fillers_still_count(sentence: str, word: str) -> None:
    request = read(sentence)
    assert request.strategy is None
    assert word in request.unparsed


def test_an_unread_word_is_asked_about_and_never_guessed(subtests: pytest.Subtests) -> None:
    for sentence in ASKED:
        with subtests.test(sentence=sentence):
            request = read(f"600519 2024年 {sentence}")
            assert request.missing[0] in ("strategy", "plan")
            assert (request.strategy is None) == ("strategy" in request.missing)


def with_stranger(sentence: str) -> str:
    """A sentence with one unknown word."""
    for known, strange in (
        ("买入", "大幅放量买入"),
        ("buy", "sharply buy"),
        ("Buy", "Sharply buy"),
        ("策略", "神奇策略"),
    ):
        if known in sentence:
            return sentence.replace(known, strange, 1)
    return f"{sentence} sharply"


def test_one_unknown_word_is_enough_to_ask(subtests: pytest.Subtests) -> None:
    for sentence in [sentence for sentence, wanted in (READ | BULLISH).items() if wanted]:
        with subtests.test(sentence=sentence):
            request = read(with_stranger(sentence))
            assert request.strategy is None
            assert "strategy" in request.missing
            assert request.unparsed


PIECES = st.sampled_from(
    [
        *"5日均线 20 上穿 下穿 RSI ( ) 14 低于 30% 买入 卖出 ， 且 或 不 MACD 金叉 死叉 动量 前 2024 年 去年 布林带 下轨 J K 0 轴".split(),
        *"buy sell when above below SMA crosses the 20-day return top 10 by PE and or not otherwise 600519 1.5x - / .".split(),
    ]
)


@settings(max_examples=300, deadline=None)
@given(st.lists(PIECES, max_size=14), st.sampled_from(["", " "]))
def test_no_mixture_of_words_breaks_the_reader(pieces: list[str], gap: str) -> None:
    try:
        request = read(gap.join(pieces))
    except BadWindow:
        return
    if request.strategy is not None:
        compile(write_code(request.strategy).source, "cell", "exec")
        assert "strategy" not in request.missing


@pytest.mark.parametrize(
    ("sentence", "word"),
    [
        ("600519 2024年 RSI低于30买入，北向流入", "北向流入"),
        ("600519 in 2024: buy when RSI < 30 unless PE > 50", "unless"),
        ("600519 2024年 RSI低于30买入，高于70卖出，不交易ST股票", "不交易ST"),
        ("600519 2024年 MACD大于0买入", "MACD大于0"),
        ("600519 2024年 MACD金叉且KDJ金叉买入，死叉卖出", "死叉"),
        ("600519 最近20个交易日 MACD金叉买入", "最近20个交易日"),
    ],
)
def test_the_words_that_were_not_read_are_named(sentence: str, word: str) -> None:
    assert word in read(sentence).unparsed


@pytest.mark.parametrize(
    ("text", "symbols"),
    [
        ("600519.SH", ("600519.SH",)),
        ("600519.sh", ("600519.SH",)),
        ("SH600519 sz000001", ("600519.SH", "000001.SZ")),
        ("600519", ("600519.SH",)),
        ("600519、000001和300750", ("600519.SH", "000001.SZ", "300750.SZ")),
        ("688981,920002", ("688981.SH", "920002.BJ")),
        ("贵州茅台和平安银行", ("600519.SH", "000001.SZ")),
        ("贵州茅台(600519)", ("600519.SH",)),
        ("Kweichow Moutai", ("600519.SH",)),
        ("上证50成分股", ("000016.SH",)),
        ("SSE 50", ("000016.SH",)),
        ("SSE50 members", ("000016.SH",)),
        ("沪深300指数成分股", ("000300.SH",)),
        ("constituents of the CSI 300", ("000300.SH",)),
        ("all stocks in the CSI 300 index", ("000300.SH",)),
        ("中证500", ("000905.SH",)),
        ("中证1000", ("000852.SH",)),
        ("科创50", ("000688.SH",)),
        ("创业板指", ("399006.SZ",)),
        ("深证成指", ("399001.SZ",)),
        ("SYN30", ("990030.SH",)),
        ("合成30成分股", ("990030.SH",)),
        ("HS300", ("000300.SH",)),
        ("000300.SH成分股", ("000300.SH",)),
        ("全部股票", ("ALL",)),
        ("全市场", ("ALL",)),
        ("所有股票", ("ALL",)),
        ("all stocks", ("ALL",)),
        ("ALL", ("ALL",)),
        ("all symbols", ("ALL",)),
        ("the whole market", ("ALL",)),
        ("AAPL and MSFT", ("AAPL", "MSFT")),
        ("BRK.B", ("BRK.B",)),
        ("MACD RSI KDJ SMA EMA PE PB PS MA BUY SELL ETF", ()),
        ("777777", ()),
        ("20240101", ()),
    ],
)
def test_symbols_are_read_in_every_form(text: str, symbols: tuple[str, ...]) -> None:
    assert read(text).symbols == symbols
    assert read(f"{text} 2024年 MACD金叉买入，死叉卖出").symbols == symbols


@pytest.mark.parametrize(
    ("text", "intent", "missing", "fields"),
    [
        ("获取600519.SH 2024年的日线和市盈率数据", "data_fetch", (), ("pe",)),
        ("fetch daily bars of 600519.SH in 2024 with pe and pb", "data_fetch", (), ("pe", "pb")),
        ("下载沪深300成分股的行情", "data_fetch", ("window",), ()),
        ("获取2024年的最高价和最低价数据", "data_fetch", ("symbols",), ()),
        ("获取600519 2024年的估值指标", "data_fetch", (), ("pe", "pb", "ps")),
        ("合成30成分股2024年收盘价", "data_fetch", (), ()),
        ("990030.SH 2024年行情", "data_fetch", (), ()),
        ("closes of 990030.SH in 2024", "data_fetch", (), ()),
        ("daily bars of 600519.SH for 2024", "data_fetch", (), ()),
        ("600519.SH 2024年的市盈率和换手率", "data_fetch", (), ("pe", "turnover_rate")),
        ("opening prices and volume of 600519.SH in 2024", "data_fetch", (), ()),
        ("600519.SH 2024年K线", "data_fetch", (), ()),
        ("收盘价", "data_fetch", ("symbols", "window"), ()),
        ("600519 2024年收盘价突破", "signal_gen", ("strategy",), ()),
        ("600519 2024年收盘价策略", "signal_gen", ("strategy",), ()),
        ("600519 2024年收盘价买入", "signal_gen", ("strategy",), ()),
        ("closes of 600519 in 2024 and a signal", "signal_gen", ("strategy",), ()),
        ("600519 2024年市盈率15以下", "unclear", ("strategy",), ("pe",)),
        ("600519 2024年 MACD金叉买入", "signal_gen", (), ()),
        ("600519 2024年 市盈率低于15且换手率大于1%买入", "signal_gen", (), ("pe", "turnover_rate")),
        ("MACD金叉买入", "signal_gen", ("symbols", "window"), ()),
        ("获取600519 2024年的数据，然后MACD金叉买入", "mixed", (), ()),
        ("获取600519 2024年的市盈率数据，市盈率低于15买入", "mixed", (), ("pe",)),
        ("获取600519 2024年的数据并生成均线信号", "mixed", ("strategy",), ()),
        ("fetch the data of 600519 in 2024 and buy on a MACD golden cross", "mixed", (), ()),
        ("回测600519", "signal_gen", ("window", "strategy"), ()),
        ("你好", "unclear", ("symbols", "window", "strategy"), ()),
        ("600519", "unclear", ("window", "strategy"), ()),
    ],
)
def test_intent_missing_parts_and_fields(
    text: str, intent: str, missing: tuple[str, ...], fields: tuple[str, ...]
) -> None:
    request = read(text)
    assert (request.intent, request.missing, request.fields) == (intent, missing, fields)


@pytest.mark.parametrize(
    ("text", "unparsed"),
    [
        ("获取600519 2024年的龙虎榜数据", ("龙虎榜",)),
        ("获取600519 2024年收盘价100以上的数据", ("100", "以上")),
        ("600519 2024年市盈率15以下", ("15", "以下")),
        ("老干妈2024年收盘价", ("老干妈",)),
        ("777777 2024年收盘价", ("777777",)),
    ],
)
def test_other_words_in_a_data_request_are_listed(text: str, unparsed: tuple[str, ...]) -> None:
    assert read(text).unparsed == unparsed


def test_a_later_line_answers_an_earlier_one() -> None:
    asked = "5日均线上穿20日均线买入，下穿卖出"
    assert read(asked).missing == ("symbols", "window")
    assert read(f"{asked}\n600519").missing == ("window",)
    full = read(f"{asked}\n600519\n2024年")
    assert (full.symbols, full.start, full.end, full.missing) == (("600519.SH",), "20240101", "20241231", ())
    assert rule(f"{asked}\n600519\n2024年") == SMA


def test_a_later_line_overrides_symbols_window_and_rule() -> None:
    text = (
        "600519 2024年 5日均线上穿20日均线买入，下穿卖出\n换成000001\n2023年\n改成RSI低于30买入，高于70卖出"
    )
    request = read(text)
    assert (request.symbols, request.start, request.end) == (("000001.SZ",), "20230101", "20231231")
    assert rule(text) == RSI


def test_a_later_sell_clause_replaces_only_the_exit() -> None:
    text = "5日均线上穿20日均线买入，下穿卖出\n卖出改为跌破20日均线"
    assert rule(text) == "5-day average crosses above 20-day average | close < 20-day average"


def test_clauses_on_lines_of_their_own_make_one_rule() -> None:
    assert rule("标的：600519\n时间：2024年\n买入：RSI低于30\n卖出：RSI高于70") == RSI
    assert rule("sell when RSI > 70\nbuy when RSI < 30") == RSI


def test_a_full_rule_replaces_an_unreadable_one_and_its_unread_words() -> None:
    request = read("600519 2024年 用神奇策略交易\nMACD金叉买入，死叉卖出")
    assert request.missing == ()
    assert request.unparsed == ()


def test_unread_words_behind_a_rule_are_asked_about() -> None:
    request = read("600519 2024年 MACD金叉买入，死叉卖出\n只在大盘上涨的时候交易")
    assert request.strategy is None
    assert request.missing == ("strategy",)


def test_an_unknown_name_before_the_date_asks_for_the_symbol_first_and_then_goes_on() -> None:
    asked = "老干妈2024年5日均线上穿20日均线买入，下穿卖出"
    assert read(asked).missing == ("symbols",)
    assert read(asked).unparsed == ("老干妈",)
    assert read(f"{asked}\n600519.SH").missing == ()


@pytest.mark.parametrize("answer", ["再试一次", "try again", "好的", "retry, ok", "换成000001"])
def test_an_answer_without_a_rule_leaves_the_rule_alone(answer: str) -> None:
    assert read(f"600519 2024年 RSI低于30买入，高于70卖出\n{answer}").missing == ()


@pytest.mark.parametrize(
    "plan",
    [
        "全部股票，20240701到20250630，5日均线上穿20日均线买入，下穿卖出",
        "all stocks, from 20240701 to 20250630, "
        "buy when the 5-day average crosses above the 20-day average, sell when it crosses below",
    ],
)
def test_a_default_plan_in_one_line_answers_everything(plan: str) -> None:
    request = read(f"茅台 用神奇策略交易\n{plan}")
    assert (request.symbols, request.start, request.end) == (("ALL",), "20240701", "20250630")
    assert request.missing == ()
    assert rule(plan) == SMA


def test_a_malformed_date_is_refused_until_a_later_line_answers_it() -> None:
    with pytest.raises(BadWindow, match="2024-13-01 is not a date"):
        read("600519 2024-13-01 MACD金叉买入")
    answered = read("600519 2024-13-01 MACD金叉买入\n2024年")
    assert (answered.start, answered.end, answered.missing) == ("20240101", "20241231", ())


def test_the_language_is_that_of_the_words_and_not_of_a_name() -> None:
    assert read("buy 贵州茅台 when MACD golden cross").language == "en"
    assert read("MACD金叉买入").language == "zh"
    assert read("600519").language == "en"


def test_chinese_and_english_write_the_same_code() -> None:
    pairs = [
        (
            "收盘价站上60日均线买入，跌破卖出",
            "buy when price is above its 60-day average, sell when it is below",
        ),
        ("市净率最低的30%买入", "buy the lowest 30% by PB"),
        (
            "MACD金叉且RSI低于70买入，死叉卖出",
            "buy on a MACD golden cross and RSI below 70, sell on a death cross",
        ),
    ]
    for chinese, english in pairs:
        ours, theirs = read(chinese).strategy, read(english).strategy
        assert ours is not None
        assert theirs is not None
        assert write_code(ours) == write_code(theirs)


@pytest.mark.proof
@pytest.mark.parametrize(
    "text",
    [
        "(" * 400 + "RSI低于30买入",
        "非" * 300 + "RSI低于30买入",
        "RSI低于30且" * 60 + "RSI低于20买入",
        "(RSI低于30或J低于0)且" * 5 + "RSI低于20买入",
        "2024年" * 200,
        "买入" * 500,
        "a" * 20_000,
        "今天天气" * 2_000,
    ],
)
def test_a_hostile_sentence_is_answered_at_once(text: str) -> None:
    begin = time.process_time()
    read(text)
    assert time.process_time() - begin < 3
