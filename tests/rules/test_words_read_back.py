"""The keyless reader's rules of all sentences in the banks, put in words and read back."""

import ast
import json
from contextlib import suppress
from functools import cache
from pathlib import Path

import pytest

from quantgraph.errors import QuantGraphError
from quantgraph.sentences import RequestContext, read_request

TESTS = Path(__file__).parents[1]
BANKS = (
    *sorted((TESTS / "data" / "sentences").glob("*.jsonl")),
    *sorted((TESTS / "sentences").rglob("*.py")),
)


def sentences(path, text):
    """Texts of a bank: of its lines, or of a test's literals."""
    if path.suffix == ".jsonl":
        return [json.loads(line)["text"] for line in text.splitlines()]
    literals = (node.value for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Constant))
    return [each for each in literals if isinstance(each, str) and 6 <= len(each) <= 300]


@cache
def rules():
    """Each rule that the reader reads in the banks, with one of its sentences."""
    found = {}
    for path in BANKS:
        for text in sentences(path, path.read_text(encoding="utf-8")):
            with suppress(QuantGraphError):  # such as of an impossible date
                if rule := read_request(text, RequestContext()).strategy:
                    found.setdefault(rule, text)
    return found


@pytest.mark.parametrize("text", ["MACD(26,12,9)金叉买入，死叉卖出", "收盘价上穿3000日均线买入，下穿卖出"])
def test_what_is_beyond_the_bounds_of_expressions_is_read_as_before(text):
    rule = read_request(f"600519.SH，{text}，2025年", RequestContext()).strategy
    assert all(rule.words("zh"))
    assert rule.lookback == (35 - 1 if "MACD" in text else 3000)


def test_the_reader_reads_enough_rules_to_compare():
    assert len(rules()) > 100


@pytest.mark.parametrize("language", ["zh", "en"])
def test_nine_of_ten_rules_in_words_are_read_back_and_none_as_another(language):
    read = 0
    plain = [rule for rule in rules() if not rule.indices and rule.exit.name != "never"]
    own = ("streak(", "* highest(")  # the language has words for these that no person types
    plain = [rule for rule in plain if not any(each in " ".join(rule.expressions) for each in own)]
    for rule in plain:
        buys, sells = rule.words(language)
        words = f"{buys}时买入，{sells}时卖出" if language == "zh" else f"buy when {buys}, sell when {sells}"
        found = read_request(words, RequestContext()).strategy
        assert found is None or found == rule, words
        read += found is not None
    assert read > 0.9 * len(plain), (read, len(plain))
