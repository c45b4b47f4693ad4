"""Reading takes time in proportion to the text, and numbers have a greatest length."""

from __future__ import annotations

import time
from contextlib import suppress

import pytest

from quantgraph._util.files import MAX_TEXT_LENGTH
from quantgraph.errors import BadWindow
from quantgraph.sentences._request import RequestContext, read_request
from quantgraph.sentences._text import longest_number

CONTEXT = RequestContext(
    first_session="20230103", last_session="20251231", names={"贵州茅台": "600519.SH"}, examples=("合成30",)
)
SHORT, LONG = 2_500, MAX_TEXT_LENGTH
QUADRATIC = (LONG / SHORT) ** 2
MEASURABLE = 0.05
"""Seconds of processor time; less says nothing of the growth."""

PATTERNS = {
    "digits": ("", "7", ""),
    "number words": ("", "一", ""),
    "words of buying": ("", "buy ", ""),
    "买入": ("", "买入", ""),
    "and": ("", "and ", ""),
    "brackets": ("", "(", ""),
    "spaces behind a number": ("5", " ", "x"),
    "ideographic spaces": ("5", "\u3000", "x"),
    "commas": ("", ",", ""),
    "commas between actions": ("买入 RSI低于30", ",", "卖出"),
    "crosses": ("", "20日均线上穿", ""),
    "not": ("", "不", ""),
    "no rule between actions": ("买入", "以来", "卖出"),
    "words not read, in English": ("buy when ", "半年", " sell"),
    "months": ("", "1个月", ""),
    "months without a year": ("", "3月", ""),
    "years": ("5", "去年", ""),
    "ranges": ("5日", "30到", "均线"),
    "headings": ("", "低pe", "5日均线上穿20日均线买入"),
    "names": ("全部", "贵州茅台", "股票"),
    "codes": ("全部", "600519.SH ", "股票"),
    "use": ("", "use ", "macd"),
    "lines": ("", "x\n", ""),
    "lines that buy": ("", "买入\n", ""),
    "lines of averages": ("", "5日均线\n", ""),
    "lines of months and years": ("", "3月到5月\n2024年\n", ""),
    "one character for eighteen": ("", "ﷺ", ""),
    "emoji": ("", "😀", ""),
}


def repeated(name: str, length: int) -> str:
    """A pattern with its middle repeated up to a length."""
    begin, unit, end = PATTERNS[name]
    return (begin + unit * length)[: length - len(end)] + end


def seconds(text: str) -> float:
    """Processor time of reading a text."""
    begun = time.process_time()
    with suppress(BadWindow):
        read_request(text, CONTEXT)
    return time.process_time() - begun


@pytest.mark.proof
@pytest.mark.parametrize("name", PATTERNS)
def test_four_times_the_text_takes_about_four_times_as_long(name: str) -> None:
    text = repeated(name, LONG)
    assert len(text) == LONG
    long = seconds(text)
    if long < MEASURABLE:
        return
    short = seconds(repeated(name, SHORT))
    if long >= QUADRATIC / 2 * short:  # once more, since a busy machine disturbs the measure
        long = min(long, seconds(text))
    assert long < 3.0
    assert long < QUADRATIC / 2 * short


LONG_NUMBERS = {
    "9" * 400 + "日均线上穿20日均线买入": "400 位数字，最多读 15 位",
    "RSI低于0.1234567890123456买入": "16 位数字，最多读 15 位",
    "涨幅超过" + "1" * 16 + "%买入": "16 位数字，最多读 15 位",
    "buy the top " + "1" * 400 + " by PE": "400 digits, at most 15 are read",
    "buy when RSI is between 5 and " + "7" * 5_000: "5000 digits, at most 15 are read",
    "buy when volume exceeds " + "3" * 99 + " billion": "99 digits, at most 15 are read",
}


@pytest.mark.parametrize("text", LONG_NUMBERS)
def test_a_number_of_more_than_fifteen_digits_is_named_as_not_read(text: str) -> None:
    request = read_request(f"合成30 2024年 {text}" if "日" in text else f"SYN30 2024 {text}", CONTEXT)
    assert request.strategy is None
    assert any(LONG_NUMBERS[text] in word for word in request.unparsed), request.unparsed


@pytest.mark.parametrize(
    "text", ["一" * 5_000 + "日均线上穿20日均线买入", "百分之" + "一" * 5_000, "1" * 5_000 + "成"]
)
def test_number_words_without_end_are_not_read(text: str) -> None:
    """int() refuses thousands of digits."""
    assert read_request(f"合成30 2024年 {text}买入", CONTEXT).strategy is None


def test_fifteen_digits_are_read_exactly() -> None:
    request = read_request("合成30 2024年 成交量高于123456789012345手买入", CONTEXT)
    assert "volume > 12345678901234500" in request.strategy.expressions
    assert longest_number("0.000123456789012345 007") == 15


@pytest.mark.parametrize("count", ["9999", "99999999999999999999", "9" * 5_000])
@pytest.mark.parametrize("words", ["过去{}年", "last {} days", "最近{}个月"])
def test_a_period_before_the_year_1_is_an_error(words: str, count: str) -> None:
    if (words, count) == ("last {} days", "9999"):
        return  # it began in 1998
    if (words, count) == ("最近{}个月", "9999"):
        return  # in 1192
    with pytest.raises(BadWindow, match="beyond the year 1"):
        read_request(f"合成30 {words.format(count)} 5日均线上穿20日均线买入", CONTEXT)


def test_spaces_do_not_change_what_is_read() -> None:
    plain = read_request("合成30 2024年 5日均线 上穿 20日均线 买入", CONTEXT)
    assert plain.strategy is not None
    wide = read_request("合成30   2024年\t\t5日均线\u3000\u3000上穿    20日均线 \t 买入", CONTEXT)
    assert wide == plain
