"""A reading held against its sentence: years, spans and codes, by what the sentence says."""

from __future__ import annotations

import pandas as pd
import pytest

from quantgraph.market import sessions
from quantgraph.subgraphs.signal._agents import ReflectionReply
from quantgraph.subgraphs.signal._slips import is_echo, names_no_dates, reading_slips

YEAR = sessions("2025-01-02", "2025-11-19")
MOUTAI = {"贵州茅台": "600519.SH"}


def slips(text: str, code: str, start: str, end: str, sessions: pd.DatetimeIndex = YEAR, **more) -> list[str]:
    names = {name: symbol for name, symbol in MOUTAI.items() if name in text}
    params = {"ts_code": code, "start_date": start, "end_date": end} | more
    return [slip.note.en for slip in reading_slips(params, text, sessions=sessions, names=names, fixed={})]


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
        ("moutai and 601318.SH, golden cross, 2025", "600519.SH,601318.SH", ("20250101", "20251231")),
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
            "moutai and 601318.SH, golden cross, 2025",
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
    assert reading_slips(fixed, "600519.SH 2025年", sessions=YEAR, names={}, fixed=fixed) == []
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
