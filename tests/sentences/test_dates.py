"""Windows of dates in every form, relative to the last session and never to a clock."""

from __future__ import annotations

import pandas as pd
import pytest

from quantgraph.errors import BadWindow
from quantgraph.sentences._request import RequestContext, read_request
from quantgraph.subgraphs.signal._updates import default_window

LAST = "20250831"

FORMS = {
    "20240101到20241231": ("20240101", "20241231"),
    "20240101-20241231": ("20240101", "20241231"),
    "20240101 20241231": ("20240101", "20241231"),
    "2024-01-01 to 2024-06-30": ("20240101", "20240630"),
    "2024/1/1至2024/6/30": ("20240101", "20240630"),
    "2024/1/1": ("20240101", LAST),
    "2024年1月5日": ("20240105", LAST),
    "2024年1月5日到2月10日": ("20240105", "20240210"),
    "从2024年1月5日起": ("20240105", LAST),
    "2024年": ("20240101", "20241231"),
    "2024年全年": ("20240101", "20241231"),
    "2024年3月到9月": ("20240301", "20240930"),
    "2024年3月至2025年2月": ("20240301", "20250228"),
    "2024年2月": ("20240201", "20240229"),
    "2023年2月": ("20230201", "20230228"),
    "2024Q2": ("20240401", "20240630"),
    "Q4 2024": ("20241001", "20241231"),
    "2024年二季度": ("20240401", "20240630"),
    "2024年第三季度": ("20240701", "20240930"),
    "2024上半年": ("20240101", "20240630"),
    "2024年下半年": ("20240701", "20241231"),
    "上半年": ("20250101", "20250630"),
    "下半年": ("20250701", "20251231"),
    "H1 2025": ("20250101", "20250630"),
    "second half of 2024": ("20240701", "20241231"),
    "去年": ("20240101", "20241231"),
    "去年下半年": ("20240701", "20241231"),
    "今年": ("20250101", LAST),
    "今年以来": ("20250101", LAST),
    "last year": ("20240101", "20241231"),
    "year to date": ("20250101", LAST),
    "最近一年": ("20240901", LAST),
    "past year": ("20240901", LAST),
    "over the last year": ("20240901", LAST),
    "近三个月": ("20250601", LAST),
    "last 6 months": ("20250301", LAST),
    "全部历史": ("19000101", LAST),
    "所有数据": ("19000101", LAST),
    "full history": ("19000101", LAST),
    "all available data": ("19000101", LAST),
    "最近半年": ("20250301", LAST),
    "过去60天": ("20250703", LAST),
    "past 2 weeks": ("20250818", LAST),
    "上个月": ("20250701", "20250731"),
    "last quarter": ("20250401", "20250630"),
    "in 2024": ("20240101", "20241231"),
    "in 2024.": ("20240101", "20241231"),
    "from Jan to Oct 2025": ("20250101", "20251031"),
    "January 2025 to October 2025": ("20250101", "20251031"),
    "Mar 5, 2024 to April 2, 2024": ("20240305", "20240402"),
    "5 March 2024 until 2 April 2024": ("20240305", "20240402"),
    "2024-01 to 2024-06": ("20240101", "20240630"),
    "202401到202406": ("20240101", "20240630"),
    "between 2023-01-01 and 2023-12-31": ("20230101", "20231231"),
    "since 2024-03-01": ("20240301", LAST),
    "2024年至今": ("20240101", LAST),
    "since 2024-03-01 until 2024-06": ("20240301", "20240630"),
    "start_date=20240101, end_date=20240630": ("20240101", "20240630"),
    "开始日期20240101，结束日期20240630": ("20240101", "20240630"),
    "until 2024-06": (None, "20240630"),
    "截至2024年6月30日": (None, "20240630"),
    "20240231到20240301": ("20240231", "20240301"),
    "20241231到20240101": ("20241231", "20240101"),
    "23年到24年": ("20230101", "20241231"),
    "23到24年": ("20230101", "20241231"),
    "24年": ("20240101", "20241231"),
    "24年下半年": ("20240701", "20241231"),
    "24年3月到25年2月": ("20240301", "20250228"),
    "2024年，三月到五月": ("20240301", "20240531"),
    "3/1/2025 - 10/31/2025": ("20250301", "20251031"),
    "from 31/1/2025 to 30/4/2025": ("20250131", "20250430"),
    "31.1.2025-30.4.2025": ("20250131", "20250430"),
    "since 3/15/2025": ("20250315", LAST),
    "3/3/2025 to 5/5/2025": ("20250303", "20250505"),
    "01/2024 - 06/2024": ("20240101", "20240630"),
    "20年": (None, None),
    "３月到９月": (None, None),
    "最近20个交易日": (None, None),
    "一些日子": (None, None),
}


def test_each_form_of_date_gives_its_window(subtests: pytest.Subtests) -> None:
    for text, window in FORMS.items():
        with subtests.test(text=text):
            request = read_request(f"600519 {text}", RequestContext(last_session=LAST))
            assert (request.start, request.end) == window
            assert ("window" in request.missing) == (None in window)


def test_a_window_does_not_disturb_the_rule_beside_it(subtests: pytest.Subtests) -> None:
    for text in [form for form in FORMS if None not in FORMS[form]]:
        with subtests.test(text=text):
            for sentence in (
                f"600519，{text}，5日均线上穿20日均线买入，下穿卖出",
                f"buy 600519 when SMA(5) crosses above SMA(20), {text}",
            ):
                request = read_request(sentence, RequestContext(last_session=LAST))
                assert (request.start, request.end) == FORMS[text]
                assert request.missing == ()


@pytest.mark.parametrize(
    "text", ["2024-13-01", "2024-01-32", "2024年13月", "2024011", "202401011", "20241345"]
)
def test_a_malformed_date_is_one_clear_line(text: str) -> None:
    with pytest.raises(BadWindow) as caught:
        read_request(f"600519 {text} MACD金叉买入", RequestContext(last_session=LAST))
    assert "\n" not in str(caught.value)
    assert "2024" in str(caught.value)


def test_relative_dates_without_a_last_session_are_asked_for() -> None:
    for text in ("去年", "最近一年", "last 6 months", "since 2024-03-01", "上半年"):
        assert "window" in read_request(f"600519 {text} MACD金叉买入", RequestContext()).missing


def test_the_rule_beside_a_window_reads_the_same_without_a_last_session(subtests: pytest.Subtests) -> None:
    for text in [*FORMS, "去年3月到9月", "今年一季度"]:
        with subtests.test(text=text):
            sentence = f"600519，{text}，5日均线上穿20日均线买入，下穿卖出"
            plain, known = (
                read_request(sentence, context)
                for context in (RequestContext(), RequestContext(last_session=LAST))
            )
            assert plain.strategy == known.strategy
            assert plain.unparsed == known.unparsed


def test_a_look_back_of_a_strategy_is_no_window() -> None:
    for text in (
        "过去20日涨幅超过5%买入",
        "突破前20日最高价买入",
        "buy when the return over the last 20 days is above 5%",
    ):
        request = read_request(f"600519 {text}", RequestContext(last_session=LAST))
        assert (request.start, request.strategy is not None) == (None, True)


def test_a_later_end_completes_an_earlier_start() -> None:
    request = read_request("600519 since 2024-03-01\nuntil 2024-06", RequestContext(last_session=LAST))
    assert (request.start, request.end) == ("20240301", "20240630")


@pytest.mark.parametrize(
    ("text", "last", "start"),
    [
        ("最近一年", "20251231", "20250101"),
        ("past year", "20251231", "20250101"),
        ("最近两年", "20251231", "20240101"),
        ("最近3个月", "20251231", "20251001"),
        ("last 6 months", "20251231", "20250701"),
        ("last 1 month", "20250331", "20250301"),
        ("最近1个月", "20250330", "20250301"),
        ("last 2 weeks", "20251231", "20251218"),
        ("最近1天", "20251231", "20251231"),
        ("过去30天", "20251231", "20251202"),
        ("最近一年", "20240229", "20230301"),
        ("最近一年", "20250228", "20240229"),
        ("最近一年", "20250301", "20240302"),
    ],
)
def test_a_rolling_window_starts_the_day_after_the_same_day_so_long_before(
    text: str, last: str, start: str
) -> None:
    request = read_request(f"600519 {text}", RequestContext(last_session=last))
    assert (request.start, request.end) == (start, last)


@pytest.mark.parametrize("last", ["20251231", "20250831", "20240229", "20250228", "20250301"])
def test_the_last_year_is_the_default_window_of_the_host(last: str) -> None:
    sessions = pd.DatetimeIndex([pd.Timestamp("2020-01-02"), pd.Timestamp(last)])
    request = read_request("600519 最近一年", RequestContext(last_session=last))
    assert (request.start, request.end) == default_window(sessions)


@pytest.mark.parametrize(
    "text",
    [
        "3/1/2025 to 4/1/2025",
        "3/1/2025",
        "31.1.2025 - 3/15/2025",
        "13/32/2025",
        "3/1/25 - 10/31/25",
        "3/1 - 10/31",
        "3月到5月",
    ],
)
def test_an_ambiguous_date_is_asked_about(text: str) -> None:
    request = read_request(f"600519 {text} MACD金叉买入", RequestContext(last_session=LAST))
    assert request.missing == ("window",)
    assert request.unparsed == (text,)


@pytest.mark.parametrize("lines", ["三月到五月\n2024年", "2024年\n三月到五月"])
def test_months_take_the_year_that_another_line_names(lines: str) -> None:
    request = read_request(f"600519 MACD金叉买入\n{lines}", RequestContext(last_session=LAST))
    assert (request.start, request.end, request.unparsed) == ("20240301", "20240531", ())
