"""Places of a ranking, sentences in capitals, headings, and common phrases."""

from __future__ import annotations

import pytest

from quantgraph.rules import Rule, in_words, make, read_condition
from quantgraph.sentences._request import ParsedRequest, RequestContext, read_request
from quantgraph.sentences._rules import opposite

MACD = "DIF crosses above DEA | DIF crosses below DEA"
SMA = "5-day average crosses above 20-day average | 5-day average crosses below 20-day average"
LOWEST_10 = "bottom 10 by PE | not (bottom 10 by PE)"


def read(text: str) -> ParsedRequest:
    return read_request(text, RequestContext(last_session="20251231"))


def rule(text: str) -> str:
    strategy = read(text).strategy
    return "" if strategy is None else f"{in_words(strategy.entry, 'en')} | {in_words(strategy.exit, 'en')}"


READ = {
    "买入市盈率最低的10只，跌出前20卖出": "bottom 10 by PE | not (bottom 20 by PE)",
    "买入市盈率最低的10只\n跌出前20卖出": "bottom 10 by PE | not (bottom 20 by PE)",
    "市净率最低的30%买入，跌出前50%卖出": "bottom 30% by PB | not (bottom 50% by PB)",
    "市净率最低的30%买入，后30%卖出": "bottom 30% by PB | top 30% by PB",
    "买入流通市值最小的5只，跌出前10只卖出": "bottom 5 by floating market value | not (bottom 10 by floating market value)",
    "20日跌幅最大的10只买入，跌出前20卖出": "bottom 10 by 20-day return | not (bottom 20 by 20-day return)",
    "20日跌幅最小的10只买入，跌出前20卖出": "top 10 by 20-day return | not (top 20 by 20-day return)",
    "买入20日涨幅前10，跌出前20卖出": "top 10 by 20-day return | not (top 20 by 20-day return)",
    "动量后20%买入，前20%卖出": "bottom 20% by 20-day return | top 20% by 20-day return",
    "低市盈率选股：PE最低的10只": LOWEST_10,
    "帮我做个低市盈率选股：PE最低的10只": LOWEST_10,
    "low PE strategy: lowest 10 by PE": LOWEST_10,
    "低市盈率选股：PE最低的10只，跌出前20卖出": "bottom 10 by PE | not (bottom 20 by PE)",
    "高股息策略，股息率最高的5只": "top 5 by dividend yield | not (top 5 by dividend yield)",
    "小市值策略，流通市值最小的10只": "bottom 10 by floating market value | not (bottom 10 by floating market value)",
    "海龟交易：20日突破买入，10日跌破卖出": "close > previous 20-day high | close < previous 10-day low",
    "我想看看MACD金叉买入，死叉卖出的效果": MACD,
    "用MACD做": MACD,
    "MACD策略": MACD,
    "classic MACD strategy": MACD,
    "MACD strategy\ngolden cross": MACD,
    "双均线策略 5日 20日": SMA,
    "双均线策略(5,20)": SMA,
    "5-day/20-day golden cross": SMA,
    "5 and 20 day golden cross": SMA,
    "5日和20日金叉买入，死叉卖出": SMA,
    "双均线(5,20)": SMA,
    "buy the top 10 stocks with the lowest PE": LOWEST_10,
    "buy when it breaks through a new 20-day high, exit when it breaks the low of the last 10 days": "close > previous "
    "20-day high | close < previous 10-day low",
    "buy the top 10% by 3-month momentum": "top 10% by 63-day return | not (top 10% by 63-day return)",
    "3个月涨幅超过5%买入": "63-day return > 5% | 63-day return < 5%",
    "RSI在30到50之间买入，高于70卖出": "RSI(14) > 30 and RSI(14) < 50 | RSI(14) > 70",
    "buy when RSI is between 30 and 50": "RSI(14) > 30 and RSI(14) < 50 | not (RSI(14) > 30 and RSI(14) < 50)",
    "MACD柱由负转正买入，由正转负卖出": MACD,
    "buy when the MACD histogram turns positive": MACD,
    "20日动量由负转正买入": "20-day return crosses above 0 | 20-day return crosses below 0",
    "buy below the lower Bollinger band, exit at the middle band": "close < lower Bollinger band (20, 2)"
    " | close > 20-day average",
    "buy when price crosses its 50-day EMA from below, sell when it crosses from above": "close crosses above EMA(50)"
    " | close crosses below EMA(50)",
}


def test_a_phrase_reads_to_its_rule(subtests: pytest.Subtests) -> None:
    for sentence, wanted in READ.items():
        with subtests.test(sentence=sentence):
            assert rule(sentence) == wanted
            assert read(sentence).unparsed == ()


@pytest.mark.parametrize(
    ("sentence", "word"),
    [
        ("买入市盈率最低的10只，跌出市盈率前20卖出", "跌出市盈率前20"),
        ("buy the lowest 10 by PE, sell when not in the top 20 by PE", "not in the top 20 by PE"),
        ("buy the lowest 10 by PE, sell when not in the top 20", "not in the top 20"),
        ("买入市盈率最低的10只；前20卖出", "买入市盈率最低的10只;前20卖出"),
        ("小市值策略，PE最低的10只", "小市值策略"),
        ("双均线策略 10日 30日 60日", "10日 30日 60日"),
        ("RSI低于30买入并持有，高于70卖出", "RSI低于30买入并持有,高于70"),
        (
            "buy when volume is 2 std below its 20-day mean",
            "volume is below the lower Bollinger band (20, 2)",
        ),
        ("buy when price is 2 standard deviations below the mean", "deviations"),
    ],
)
def test_a_contradictory_rule_is_asked_about(sentence: str, word: str) -> None:
    request = read(sentence)
    assert request.strategy is None
    assert word in request.unparsed


def test_the_opposite_of_two_levels_of_one_value_is_where_they_do_not_hold() -> None:
    ends = read_condition("rsi(14) < 30 or rsi(14) > 70")
    assert opposite(ends) == make("not", ends)


@pytest.mark.parametrize("name", ["990030.SH", "合成30"])
def test_a_sentence_in_capitals_names_no_tickers_and_is_english(name: str) -> None:
    request = read(f"BUY WHEN THE 5-DAY AVERAGE CROSSES ABOVE THE 20-DAY AVERAGE, {name}, 2025")
    assert (request.symbols, request.language, request.missing) == (("990030.SH",), "en", ())


def test_an_unknown_word_of_a_sentence_in_capitals_is_named() -> None:
    request = read("BUY AAPL WHEN MACD CROSSES ABOVE ITS SIGNAL LINE, 2025")
    assert request.symbols == ()
    assert "AAPL" in request.unparsed


@pytest.mark.parametrize("ahead", ["过去20日", "最近3个月"])
def test_a_look_back_right_behind_a_code_leaves_the_code_alone(ahead: str) -> None:
    request = read(f"2025年 600519{ahead}涨幅超过5%买入")
    assert (request.symbols, request.missing) == (("600519.SH",), ())


@pytest.mark.parametrize(
    "text",
    [
        "RSI rises above 30 buy, falls below 70 sell",
        "buy when RSI goes above 30, sell when it drops below 70",
        "buy when RSI breaks above 30, sell when RSI breaks below 70",
        "RSI突破30买入，跌破70卖出",
        "RSI回升到30以上买入，跌回70以下卖出",
        "RSI上升超过30买入，回落到70以下卖出",
    ],
)
def test_an_oscillator_that_moves_through_a_level_is_an_event(text: str) -> None:
    rule = read_request(f"600519.SH {text}，2025年", RequestContext()).strategy
    assert rule == Rule.read("cross_up(rsi(14), 30)", "cross_down(rsi(14), 70)")


def test_a_price_or_a_return_that_breaks_a_level_stays_a_state() -> None:
    rule = read_request("600519.SH 股价突破1500买入，跌破1400卖出，2025年", RequestContext()).strategy
    assert rule == Rule.read("close > 1500", "close < 1400")
