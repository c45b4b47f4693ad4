"""Texts for people: what a terminal would obey is shown, all else comes out as it went in."""

from __future__ import annotations

import ast
import unicodedata
from pathlib import Path

import pytest

import quantgraph
from quantgraph._util.texts import escape_controls
from quantgraph.errors import BadFile, ModelUnavailable
from quantgraph.llm import CallPolicy, ModelFacts
from quantgraph.sandbox import code_error

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


def test_an_error_that_generated_code_tells_of_is_harmless_as_a_message_too():
    told = {
        "type": "E\x1b[2J",
        "line": 3,
        "text": "raise E # \x9b2J",
        "message": "\x1b]0;x\x07",
        "code": "code_failed",
    }
    error = code_error(told, "full")
    assert str(error) == r"line 3 (raise E # \x9b2J): E\x1b[2J: \x1b]0;x\x07"
    assert error.data["type"] == r"E\x1b[2J"


def _call_and_time_out(attempts):
    for attempt in attempts:
        with attempt:
            raise TimeoutError


def test_a_line_of_the_log_is_harmless(caplog):
    caplog.set_level("INFO")
    policy = CallPolicy(max_attempts=2, sleep=lambda _: None)
    facts = ModelFacts(name="model\x1b[2J\n")
    with pytest.raises(ModelUnavailable):
        _call_and_time_out(policy.attempts(facts=facts, what="reflection", check=lambda _: None))
    assert r"model\x1b[2J\n: it did not answer in time" in caplog.records[0].getMessage()


def test_whatever_is_logged_is_escaped():
    found = 0
    for path in sorted(Path(quantgraph.__file__).parent.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(getattr(node.func, "value", None), "id", "") == "_log":
                found += 1
                assert "escape_controls" in ast.unparse(node), f"{path}:{node.lineno}"
    assert found
