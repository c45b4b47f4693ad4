"""Anchors of a text: which words they are, and which of them mean the same."""

from __future__ import annotations

import pytest

from quantgraph.sentences.coverage import find_anchors, plain


def numbers(text):
    return [each for each in find_anchors(plain(text)) if each.kind == "number"]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("三成", "30%"),
        ("三成", "0.3"),
        ("百分之五", "5%"),
        ("1.5倍", "150%"),
        ("一半", "50%"),
        ("a fifth", "20%"),
        ("twice", "2x"),
        ("two weeks", "10 sessions"),
        ("年线", "250日均线"),
        ("fifth day", "5 days"),
        ("2000亿", "200000000000"),
    ],
)
def test_numbers_with_their_units_that_mean_the_same_meet(one, other):
    assert any(left.meets(right) for left in numbers(one) for right in numbers(other))


@pytest.mark.parametrize(
    ("one", "other"), [("三成", "20%"), ("10%", "10 days"), ("5日", "50日"), ("两周", "10%")]
)
def test_numbers_that_mean_another_thing_do_not_meet(one, other):
    assert numbers(one)
    assert numbers(other)
    assert not any(left.meets(right) for left in numbers(one) for right in numbers(other))


@pytest.mark.parametrize(
    "text", ["第二天开盘", "两者都满足", "2025年3月到9月", "q3 2025", "a stock", "一只股票", "January 2024"]
)
def test_what_counts_nothing_is_no_number(text):
    assert numbers(text) == []


@pytest.mark.parametrize(
    ("text", "kind", "values"),
    [
        ("每个月第一个交易日", "schedule", {"month"}),
        ("on Mondays", "schedule", {"week"}),
        ("大盘", "market", {"market"}),
        ("the market", "market", {"market"}),
        ("换手率", "field", {"turnover_rate"}),
        ("P/E ratio", "field", {"pe"}),
        ("上穿", "direction", {"up", "cross"}),
        ("falls below", "direction", {"down", "cross"}),
        ("新低", "extreme", {"down"}),
        ("清仓", "side", {"sell"}),
        ("bail", "side", {"sell"}),
        ("除非", "not", {"not"}),
        ("unless", "not", {"not"}),
        ("首次", "modifier", {"first"}),
        ("连续3天", "modifier", {"consecutive"}),
        ("at least", "modifier", {"at-least"}),
        ("移动止损", "plan", {"trailing"}),
        ("做空", "plan", {"short"}),
    ],
)
def test_words_of_both_languages_are_of_one_class(text, kind, values):
    assert [set(each.values) for each in find_anchors(plain(text)) if each.kind == kind] == [values]


@pytest.mark.parametrize(
    "text", ["不错", "no matter what", "no-brainer", "帮我看看", "please run this for me"]
)
def test_a_word_that_changes_no_trade_is_no_anchor(text):
    assert find_anchors(plain(text)) == ()
