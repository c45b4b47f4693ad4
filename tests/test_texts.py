"""Texts for people: what a terminal would obey is shown, all else comes out as it went in."""

from __future__ import annotations

import unicodedata

import pytest

from quantgraph._texts import escape_controls
from quantgraph.errors import BadFile

UNCHANGED = [
    "合成30成分股，5日均线上穿20日均线买入；“下穿”卖出——2025年！？《均线》（示例）￥1,234.56",
    "RSI(14) below 30: buy — “sell” above 70 … café naïve 50 % ≥ 3σ C:\\data\\x",
    "日本語 한국어 Ελληνικά кириллица עברית العربية हिन्दी ไทย 𠮷野家 ｆｕｌｌ　ｗｉｄｔｈ",
    "📈🚀 👨‍👩‍👧‍👦 🏳️‍🌈 ❤️‍🔥 👩🏽‍💻 🇨🇳 1️⃣ ☎️",
    "│ ╰─ ⢕⣿ ■ → ±",
    "",
]


@pytest.mark.parametrize("text", UNCHANGED)
def test_what_people_write_stays_as_it_is(text):
    assert escape_controls(text) == text
    assert escape_controls(f"{text}\n\t{text}", multiline=True) == f"{text}\n\t{text}"


def test_every_control_character_of_unicode_is_shown():
    """Categories Cc, Cs, Zl, Zp, and the marks of direction, which the database of Python knows."""
    turning = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
    marks = {"\u200e", "\u200f", "\u061c", "\u200b", "\u200c", "\u200d", "\ufeff"}
    for number in range(0x110000):
        character = chr(number)
        obeyed = unicodedata.category(character) in {"Cc", "Cs", "Zl", "Zp"}
        if obeyed or unicodedata.bidirectional(character) in turning or character in marks:
            shown = escape_controls(f"a{character}b")
            assert shown.isprintable(), ascii(character)
            assert shown[1] == "\\"


def test_escapes_are_those_of_python():
    assert escape_controls("\x1b[2J\x9b\x7f\u202e\udcff\n") == r"\x1b[2J\x9b\x7f\u202e\udcff\n"
    assert escape_controls("\r\n\t\u2028", multiline=True) == "\\r\n\t\\u2028"


def test_a_joiner_that_joins_no_emoji_is_shown():
    assert escape_controls("a\u200db \u200d👧 👧\u200d") == r"a\u200db \u200d👧 👧\u200d"


def test_the_line_of_an_error_is_one_line_that_is_not_obeyed():
    error = BadFile("a.csv: no date: \x1b[1A\ncausal: proved")
    assert error.line == r"bad_file: a.csv: no date: \x1b[1A\ncausal: proved"
    assert error.message == "a.csv: no date: \x1b[1A\ncausal: proved"
