"""A message against the request before it: what it changes in its text."""

from __future__ import annotations

import pytest

from quantgraph.sentences._request import RequestContext
from quantgraph.sentences.phrases._phrases import changed_request

RULE = "600519.SH，收盘价上穿20日均线买入，下穿卖出，止损5%，2025年"
TWO_PERIODS = "600519.SH，5日均线上穿20日均线买入，下穿卖出，2025年"


def change(message: str, rule: str = RULE) -> str:
    return changed_request({"strategy_desc": rule}, message, RequestContext())


@pytest.mark.parametrize(
    "message", ["改成30天", "用30日", "now use 30 days", "make it 30 days instead", "30日均线吧"]
)
def test_the_only_period_is_replaced(message):
    assert change(message) == RULE.replace("20日", "30日")


def test_one_of_two_periods_is_not_guessed():
    assert change("改成30天", TWO_PERIODS) == f"{TWO_PERIODS}\n30天"


@pytest.mark.parametrize("message", ["去掉止损", "不要止损了", "取消止损吧"])
def test_a_clause_is_dropped(message):
    assert change(message) == "600519.SH，收盘价上穿20日均线买入，下穿卖出，2025年"


def test_what_is_not_there_cannot_be_dropped():
    assert change("去掉止盈") == f"{RULE}\n去掉止盈"


def test_a_sum_is_the_capital_and_other_words_are_a_line_of_their_own():
    assert change("改成50万").endswith("\n50万本金")
    assert change("把它换成601318.SH").endswith("\n601318.SH")
    assert change("2024年呢？").endswith("\n2024年")


def test_a_whole_request_stands_for_itself_and_without_one_before_there_is_nothing_to_change():
    whole = "601318.SH，RSI低于30买入，高于70卖出，2024年"
    assert change(whole) == whole
    assert changed_request({}, "改成30天", RequestContext()) == "改成30天"


def test_symbols_and_span_that_the_rule_does_not_name_are_added():
    last = {
        "strategy_desc": "5日均线上穿20日均线买入，下穿卖出",
        "ts_code": "600519.SH",
        "start_date": "20250101",
        "end_date": "20250630",
    }
    lines = changed_request(last, "换成601318.SH", RequestContext()).splitlines()
    assert lines == ["5日均线上穿20日均线买入，下穿卖出", "600519.SH", "20250101到20250630", "601318.SH"]
