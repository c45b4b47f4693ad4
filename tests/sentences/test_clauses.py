"""A row of the table of clauses is looked for only in a text that has one of its words."""

from __future__ import annotations

import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quantgraph.sentences import _clauses as clauses
from quantgraph.sentences._clauses import find_clauses


@pytest.mark.parametrize("row", clauses._ROWS, ids=lambda row: f"{row[0]}-{row[2].split()[0]}")
def test_a_text_that_a_row_matches_has_one_of_its_words(row: clauses._Row) -> None:
    _, _, words, pattern, _ = row
    alone = re.sub(r"\(\?<?[=!][^()]*\)", "", pattern)  # what is around a clause is no part of it

    @settings(max_examples=12, suppress_health_check=list(HealthCheck), database=None)
    @given(st.from_regex(re.compile(alone, re.IGNORECASE | re.ASCII), fullmatch=True))
    def holds(text: str) -> None:
        assert any(word in text.lower() for word in words.split()), text

    holds()


def test_a_text_without_clauses_compiles_none_of_them() -> None:
    clauses._pattern.cache_clear()
    assert find_clauses("5日均线上穿20日均线买入,下穿卖出") == ((), "5日均线上穿20日均线买入,下穿卖出")
    assert clauses._pattern.cache_info().currsize == 0
