"""A reading held against its sentence: years, spans and codes, by what the sentence says."""

from __future__ import annotations

import pytest

from quantgraph.market import sessions
from quantgraph.subgraphs.signal._agents import ReflectionReply
from quantgraph.subgraphs.signal._checks import Misreading, is_echo, names_no_dates, reading_errors

YEAR = sessions("2025-01-02", "2025-11-19")
NAMES = {
    "贵州茅台": "600519.SH",
    "紫金矿业": "601899.SH",
    "招商银行": "600036.SH",
    "中国平安": "601318.SH",
    "长江电力": "600900.SH",
}
LISTED = {*NAMES.values(), "601398.SH", "601288.SH", "601012.SH", "AAPL", "MSFT", "NVDA", "AMD", "TSLA"}


def found_in(text: str, code: str, start: str, end: str, **more) -> list[Misreading]:
    names = {name: symbol for name, symbol in NAMES.items() if name in text}
    params = {"ts_code": code, "start_date": start, "end_date": end} | more
    return reading_errors(params, text, sessions=YEAR, names=names, listed=LISTED, fixed={})


def slips(*reading: str, **more) -> list[str]:
    return [slip.note.en for slip in found_in(*reading, **more)]


@pytest.mark.parametrize(
    ("text", "code", "window"),
    [
        ("600519.SH 2025年 金叉买入", "600519.SH", ("20250101", "20251231")),
        ("600519.SH 2025年 金叉买入", "600519.SH", ("20250102", "20251119")),  # its sessions alone
        ("600519.SH 2023年 金叉买入", "600519.SH", ("20230101", "20231231")),  # a span without data
        ("贵州茅台 2025年 金叉买入", "600519.SH", ("20250101", "20251231")),
        ("贵州茅台 2025年 金叉买入", "贵州茅台", ("20250101", "20251231")),
        (
            "moutai, golden cross, 2025",
            "600519.SH",
            ("20250101", "20251231"),
        ),  # a name that rules do not know
        ("上证50里的贵州茅台，2025年", "600519.SH", ("20250101", "20251231")),
        ("除了600519.SH，上证50，2025年", "000016.SH", ("20250101", "20251231")),
        ("maotai and 601318.SH, golden cross, 2025", "600519.SH,601318.SH", ("20250101", "20251231")),
        ("601318.SH、茅台，金叉买入，2025年", "600519.SH,601318.SH", ("20250101", "20251231")),
        ("600519.SH since the crash", "600519.SH", ("20250401", "20251119")),
    ],
)
def test_a_reading_that_says_what_the_sentence_says_has_no_slip(text, code, window):
    assert slips(text, code, *window) == []


@pytest.mark.parametrize(
    ("text", "code", "window", "found"),
    [
        (
            "601398/601988 pairs, 2025",
            "601398.SH,601988.SH",
            ("20240101", "20241231"),
            "20250101-20251231, not 2024",
        ),
        (
            "600519.SH 2025年",
            "601318.SH",
            ("20250101", "20251231"),
            "does not name 601318.SH; it names 600519.SH",
        ),
        ("贵州茅台 2025年", "000016.SH", ("20250101", "20251231"), "does not name 000016.SH"),
        ("600519.SH和601318.SH，2025年", "600519.SH", ("20250101", "20251231"), "names 601318.SH, which"),
        (
            "上证50站上均线买入600519.SH，2025年",
            "600519.SH",
            ("20250101", "20251231"),
            "names 000016.SH, which",
        ),
        ("600519.SH 2025年1月和3月", "600519.SH", ("20250101", "20250331"), "several spans"),
        (
            "maotai and 601318.SH, golden cross, 2025",
            "600519.SH,601318.SH,600036.SH",
            ("20250101", "20251231"),
            "does not name 600519.SH, 600036.SH",
        ),
    ],
)
def test_a_slip_says_what_the_sentence_has(text, code, window, found):
    assert found in " ".join(slips(text, code, *window))


def test_spans_that_are_listed_are_compared_too():
    text, year = "600519.SH 2025年1月和3月", ("20250101", "20251231")
    right = [("20250101", "20250131"), ("20250301", "20250331")]
    assert slips(text, "600519.SH", *year, windows=right) == []
    (found,) = slips(text, "600519.SH", *year, windows=[right[0], ("20250601", "20250630")])
    assert found.endswith("not 20250101-20250131, 20250601-20250630")
    (found,) = slips("600519.SH 2025年", "600519.SH", *year, windows=right)
    assert found.startswith("the sentence says 20250101-20251231, not")
    assert slips("600519.SH 2025年", "600519.SH", *year, windows=[year]) == []


def test_a_symbol_that_is_only_watched_is_not_to_be_traded():
    text = "when 601318.SH closes above its 20-day average, buy 600519.SH, 2025"
    year = ("20250101", "20251231")
    (found,) = slips(text, "601318.SH,600519.SH", *year)
    assert found.startswith("the sentence only watches 601318.SH and trades others;")
    assert slips(text, "601318.SH,600519.SH", *year, watch="601318.SH", trade="600519.SH") == []
    assert slips(text, "601318.SH,600519.SH", *year, watch="601318.SH") == []
    assert slips("601318.SH和600519.SH金叉买入，2025年", "601318.SH,600519.SH", *year) == []


def test_what_the_caller_fixed_is_not_compared_and_an_index_in_watch_is_named():
    fixed = {"ts_code": "601318.SH", "start_date": "20240101", "end_date": "20241231"}
    assert (
        reading_errors(fixed, "600519.SH 2025年", sessions=YEAR, names={}, listed=LISTED, fixed=fixed) == []
    )
    watched = {"watch": "上证50", "trade": "600519.SH"}
    text = "上证50站上均线买入600519.SH，2025年"
    assert slips(text, "600519.SH", "20250101", "20251231", **watched) == []


@pytest.mark.parametrize(
    "text", ["过去20日波动率最低的5只，2025年5月到10月", "raised in the last month, 2025-05-01 to 2025-10-31"]
)
def test_the_length_of_an_indicator_is_no_span(text):
    assert slips(text, "600519.SH", "20250501", "20251031") == []
    assert slips("选过去20日波动率最低的5只", "600519.SH", "20250102", "20251119") == []


def test_an_answer_that_names_another_symbol_takes_the_place_of_the_first():
    assert slips("999999.SZ 2025年\n600519.SH", "600519.SH", "20250101", "20251231") == []


def test_an_echo_of_the_template_says_nothing_of_the_sentence():
    def reply(analysis, **params):
        intent = {"type": "mixed", "params": params}
        return ReflectionReply(task_type="mixed", analysis=analysis, user_intent=intent)

    assert is_echo(reply("one or two sentences"))
    assert not is_echo(reply("It crosses."))
    read = {"ts_code": "600519.SH", "strategy_desc": "buy after an up day"}
    assert not is_echo(reply("one or two sentences", **read))
    assert names_no_dates("600519.SH golden cross")
    assert not names_no_dates("600519.SH last quarter")


ALL_2025, TO_TODAY = ("20250101", "20251231"), ("20250101", "20251119")
INDEX = {"watch": "000016.SH"}
ORDINARY = [
    ("600036.SH, RSI(6) under 20 buy, over 70 sell, Q2 and Q3 2025", "600036.SH", ("20250401", "20250930"), {}),
    ("招商银行，2025年二季度和三季度，MACD金叉买入，死叉卖出", "600036.SH", ("20250401", "20250930"), {}),
    (
        "招商银行，2025年二季度和三季度，MACD金叉买入，死叉卖出",
        "600036.SH",
        ("20250401", "20250930"),
        {"windows": [("20250401", "20250630"), ("20250701", "20250930")]},
    ),
    (
        "601398.SH and 601288.SH: hold whichever had the better last month, H2 2025",
        "601398.SH,601288.SH",
        ("20250701", "20251231"),
        {},
    ),
    ("紫金矿业过去一年的走势里，创60日新高买，跌破20日线卖，2025年", "601899.SH", ALL_2025, {}),
    ("Buy ICBC (601398.SH) when it lags 601288.SH by 3 points, 2025", "601398.SH,601288.SH", ALL_2025, {"watch": "601288.SH", "trade": "601398.SH"}),
    ("buy AAPL on a 3% dip from its ATH, sell at a new high, YTD", "AAPL", TO_TODAY, {}),
    ("AI hype: buy NVDA when it gaps up 3%, out after 5 days, 2025", "NVDA", ALL_2025, {}),
    ("sell TSLA if the CEO resigns, otherwise hold above its 50-day average, 2025", "TSLA", ALL_2025, {}),
    (
        "if CATL... sorry, 601012.SH gaps up more than 2% at the open and closes above the open, buy; "
        "get out after it closes under the prior day's low. Q2 and Q3",
        "601012.SH",
        ("20250401", "20250930"),
        {},
    ),
    ("2025年，中国平安站上20日线买，跌破卖", "601318.SH", ALL_2025, {}),
    ("买入过去20日涨幅前5的上证50成分股，每月换一次，2025年", "000016.SH", ALL_2025, {}),
    ("上证50收在60日线上时买600519.SH，跌破就卖，2025年上半年", "600519.SH", ("20250101", "20250630"), INDEX),
    ("招商银行最近一年KDJ金叉买入死叉卖出", "600036.SH", ("20241120", "20251119"), {}),
    ("AAPL and MSFT, 5/20 SMA cross, since June 2025", "AAPL,MSFT", ("20250601", "20251119"), {}),
    ("NVDA golden cross, past 6 months", "NVDA", ("20250520", "20251119"), {}),
    ("长江电力近3年分红稳定，跌到60日线买，2025年3月到10月", "600900.SH", ("20250301", "20251031"), {}),
    ("600519今年以来，上周放量就买，缩量就卖", "600519.SH", TO_TODAY, {}),
    ("Between 2025-03-03 and 2025-09-30 buy 600036.SH on a weekly close above the last quarter's high", "600036.SH", ("20250303", "20250930"), {}),
    ("不要贵州茅台，换成中国平安，2025年，金叉买", "601318.SH", ALL_2025, {}),
    ("工行601398.SH，比上月均价低5%买入，2025年", "601398.SH", ALL_2025, {}),
    ("MSFT: EMA(12) over EMA(26) and ADX > 25, exit under VWAP, Jan to Oct 2025", "MSFT", ("20250101", "20251031"), {}),
    ("2025年7月和8月，紫金矿业，RSI低于30买，高于60卖", "601899.SH", ("20250701", "20250831"), {}),
    ("hold 601288.SH in 2025 while its return over the past year beats 5%", "601288.SH", ALL_2025, {}),
    ("IPO后一直拿着601012.SH不卖，2025年", "601012.SH", ALL_2025, {}),
    ("AMD, YTD, buy after EPS day if it closes up, sell two days later", "AMD", TO_TODAY, {}),
    ("茅台、招商银行 2025Q1和2025Q2 布林下轨买中轨卖", "600519.SH,600036.SH", ("20250101", "20250630"), {}),
    ("TSLA 2025-06-10 to 2025-10-30, DCA every month, never sell", "TSLA", ("20250610", "20251030"), {}),
]  # fmt: skip
"""28 ordinary sentences with the right reading."""


@pytest.mark.parametrize(("text", "code", "window", "more"), ORDINARY)
def test_an_ordinary_sentence_that_is_read_right_has_no_slip(text, code, window, more):
    assert slips(text, code, *window, **more) == []


@pytest.mark.parametrize(("text", "code", "window", "more"), ORDINARY)
def test_a_wrong_year_or_code_of_an_ordinary_sentence_is_found_and_never_believed(text, code, window, more):
    start, end = (f"{int(day[:4]) - 1}{day[4:]}" for day in window)
    read = found_in(text, code, start, end, **more | {"windows": []})
    assert [slip.certain for slip in read if slip.kind == "window"] == [True]
    assert any(slip.certain for slip in found_in(text, "600000.SH", *window))


def test_only_a_code_that_the_words_may_mean_is_believed_when_it_is_read_again():
    lagging = "Buy ABCD when it lags 601288.SH by 3 points, 2025"
    (slip,) = found_in(lagging, "601398.SH,601288.SH", *ALL_2025)
    assert not slip.certain
    (slip,) = found_in("AAPL and GOOG, golden cross, 2025", "AAPL", *ALL_2025)
    assert (slip.certain, "names GOOG" in slip.note.en) == (False, True)
    (slip,) = found_in("AAPL on a dip from its ATH, 2025", "AAPL,MSFT", *ALL_2025)
    assert slip.certain


def test_months_that_a_clause_quotes_are_no_window():
    text = "紫金矿业 MACD金叉就买、死叉就卖，除了财报月（4月、8月、10月）不开新仓，2025年"
    months = {
        "quote": "除了财报月（4月、8月、10月）不开新仓",
        "rule": "",
        "plan": {"no_entry_on": {"months": [4, 8, 10]}},
    }
    assert slips(text, "601899.SH", *ALL_2025, clauses=[months]) == []
    assert slips(text, "601899.SH", "20240101", "20241231", clauses=[months])
