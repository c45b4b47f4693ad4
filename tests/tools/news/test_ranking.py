"""Ranking: the formula by hand, Chinese and English, recency, and always the same order."""

from __future__ import annotations

import math

import pytest

from quantgraph.tools.news._gate import ranked, ranked_text, terms_of


def test_terms():
    assert dict(terms_of("NVDA's Q3: record, record revenue")) == {
        "nvda": 1,
        "s": 1,
        "q3": 1,
        "record": 2,
        "revenue": 1,
    }
    assert dict(terms_of("茅台涨价")) == {"茅台": 1, "台涨": 1, "涨价": 1}
    assert dict(terms_of("涨")) == {"涨": 1}
    assert terms_of("the latest news of the stock") == {}
    assert terms_of("\ud800\x00<>") == {}


def test_the_rarer_term_wins_by_the_formula():
    """Three texts of one word; a term in one of them weighs ln(1 + 2.5/1.5), one in two of them ln(1 + 1.5/2.5)."""
    texts = [ranked_text("", word) for word in ("chip", "oil", "oil")]
    assert math.log(1 + 2.5 / 1.5) > math.log(1 + 1.5 / 2.5)
    assert ranked("oil chip", texts) == [0, 2, 1]


@pytest.mark.parametrize(
    ("query", "best"),
    [
        ("Moutai raises its prices", 0),
        ("贵州茅台提价", 0),
        ("new AI features at Apple", 1),
        ("苹果公司人工智能", 1),
        ("688981", 2),
        ("688981.SH", 2),
    ],
)
def test_either_language_finds(query, best):
    texts = [
        ranked_text("贵州茅台宣布提价 / Moutai raises prices", "出厂价上调 / ex-factory price up"),
        ranked_text("苹果发布人工智能功能 / Apple unveils AI features", "at its event"),
        ranked_text("688981.SH 中芯国际 / SMIC expands", "capacity"),
    ]
    assert ranked(query, texts)[0] == best


def test_a_title_counts_more_than_a_text():
    assert ranked("oil", [ranked_text("oil up", "much said"), ranked_text("much said", "oil up")])[0] == 0


def test_an_older_one_has_to_be_better_and_among_equals_the_newer_is_first():
    texts = [ranked_text("oil", "", published=day) for day in (0.0, 30.0, 60.0)]
    assert ranked("oil", texts, now=60.0) == [2, 1, 0]
    assert ranked("oil", [texts[0]] * 3, now=60.0) == [2, 1, 0]


def test_what_has_nothing_to_do_with_it_is_left_out():
    assert ranked("gold", [ranked_text("oil", "")]) == []
    assert ranked("", [ranked_text("oil", "")]) == []
    assert ranked("gold", []) == []
    assert ranked("gold", [ranked_text("", "")], boosts={0: 1.0}) == [0]
