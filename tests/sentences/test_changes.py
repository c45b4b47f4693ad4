"""A message against the request before it: what it changes in its text."""

from __future__ import annotations

import pytest

from quantgraph.rules import in_words
from quantgraph.sentences._request import RequestContext, read_request
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
    assert change("2024") == f"{RULE}\n2024", "a year is not the rule's only period"


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


def rule_after(message: str, rule: str = TWO_PERIODS) -> str:
    context = RequestContext(names={"大盘": "000016.SH"})
    strategy = read_request(changed_request({"strategy_desc": rule}, message, context), context).strategy
    return "" if strategy is None else f"{in_words(strategy.entry, 'en')} | {in_words(strategy.exit, 'en')}"


CROSS, CROSS_OUT = "5-day average crosses above 20-day average", "5-day average crosses below 20-day average"
CHANGES = {
    "5日均线改成10日": "10-day average crosses above 20-day average | 10-day average crosses below 20-day average",
    "change the 20-day average to 30 days": "5-day average crosses above 30-day average | 5-day average crosses below 30-day average",
    "再加一个条件：成交量大于5日均量": f"{CROSS} and volume > 5-day average volume | {CROSS_OUT}",
    "add a condition: volume above its 5-day average": f"{CROSS} and volume > 5-day average volume | {CROSS_OUT}",
    "再加一个条件：大盘在60日线上方": f"{CROSS} and (index 000016.SH: close > 60-day average) | {CROSS_OUT}",
    "5日均线改成10日，再加一个条件：RSI低于70": "10-day average crosses above 20-day average and RSI(14) < 70 | 10-day average crosses below 20-day average",
    "再加一个条件：放量": "",
    "再加一个条件：RSI低于70，跌破10日线卖出": "",
}


@pytest.mark.parametrize("message", CHANGES)
def test_one_thing_changes_and_the_rest_stays(message):
    assert rule_after(message) == CHANGES[message]


def test_a_condition_that_was_added_stays_in_the_next_turn():
    rule = f"{TWO_PERIODS}\n再加一个条件：RSI低于70"
    assert rule_after("换成601318.SH", rule) == f"{CROSS} and RSI(14) < 70 | {CROSS_OUT}"
    assert change("均线改成30日，再加一个条件：RSI低于70").splitlines()[0] == RULE.replace("20日", "30日")
