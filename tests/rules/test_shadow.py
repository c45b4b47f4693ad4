"""The keyless reader's rules as trees beside another program that evaluates them, cell by cell.

On prices without suspensions, ex-dates and ties they are the same wherever the other one's is known. What
differs on other prices is what the language says of those three.
"""

import ast
import json
from contextlib import suppress
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from quantgraph.errors import QuantGraphError
from quantgraph.rules import ROWS, RuleEvaluator
from quantgraph.sentences import RequestContext, read_request
from quantgraph.sentences._trees import rule_of
from quantgraph.sentences.evaluation import RuleData, rule_readings
from quantgraph.state import DataState

TESTS = Path(__file__).parents[1]
BANKS = (
    *sorted((TESTS / "data" / "sentences").glob("*.jsonl")),
    *sorted((TESTS / "sentences").rglob("*.py")),
)
DAYS = pd.bdate_range("2024-01-02", periods=300).as_unit("us")
CODES = [f"{number:06}.SZ" for number in range(1, 25)]
INDICES = ("000001.SH", "000016.SH", "000300.SH", "000905.SH", "000852.SH", "399001.SZ", "399006.SZ")


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


@pytest.fixture(scope="module")
def snapshot():
    """Prices of a random walk, each its own number."""
    random, shape = np.random.default_rng(5), (len(DAYS), len(CODES))

    def frame(values):
        return pd.DataFrame(values, DAYS, CODES)

    close = frame(20 * np.exp(np.cumsum(random.normal(0, 0.02, shape), axis=0)))
    bars = {
        "open": close * (1 + random.normal(0, 0.005, shape)),
        "high": close * (1.001 + 0.02 * random.random(shape)),
        "low": close * (0.999 - 0.02 * random.random(shape)),
        "close": close,
        "vol": frame(np.exp(random.normal(10, 0.6, shape))),
    }
    store = DataState()
    store.update("ohlcv", bars)
    daily = [
        row.name for row in ROWS.values() if not row.formula and row.name not in {*bars, "volume", "amount"}
    ]
    store.update("indicators", {name: frame(60 * random.random(shape)) for name in daily})
    levels = 3000 * np.exp(np.cumsum(random.normal(0, 0.01, (len(DAYS), len(INDICES))), axis=0))
    store.update("index", {"close": pd.DataFrame(levels, DAYS, list(INDICES))})
    return store.snapshot()


def as_evaluated(rule, snapshot):
    """The signal of the rule under the conventions of raw closes."""
    return next(next(rule_readings(rule, RuleData.of(snapshot, CODES)))).signal


@pytest.mark.parametrize("text", ["MACD(26,12,9)金叉买入，死叉卖出", "收盘价上穿3000日均线买入，下穿卖出"])
def test_what_is_beyond_the_bounds_of_expressions_is_read_as_before(text):
    rule = rule_of(read_request(f"600519.SH，{text}，2025年", RequestContext()).strategy)
    assert all(rule.words("zh"))
    assert rule.lookback == (35 - 1 if "MACD" in text else 3000)


def test_the_reader_reads_enough_rules_to_compare():
    assert len(rules()) > 100


def test_a_rule_as_a_tree_has_the_signal_of_another_program(snapshot):
    data, cells = RuleEvaluator(snapshot), 0
    for rule, text in rules().items():
        today, ours = as_evaluated(rule, snapshot), data.signal(rule_of(rule))
        known = today.notna()
        differ = (today != ours) & known
        assert not differ.to_numpy().any(), (text, int(differ.to_numpy().sum()))
        only_ours = ours.notna() & ~known  # a known exit decides before the entry is known
        assert not (only_ours & (ours == 1)).to_numpy().any(), text
        cells += int(known.to_numpy().sum())
    assert cells > 500_000


@pytest.mark.parametrize("language", ["zh", "en"])
def test_nine_of_ten_rules_in_words_are_read_back_and_none_as_another(language):
    read, plain = 0, [rule_of(rule) for rule in rules()]
    plain = [rule for rule in plain if not rule.indices and rule.exit.name != "never"]
    for rule in plain:
        buys, sells = rule.words(language)
        words = f"{buys}时买入，{sells}时卖出" if language == "zh" else f"buy when {buys}, sell when {sells}"
        found = read_request(words, RequestContext()).strategy
        assert found is None or rule_of(found) == rule, words
        read += found is not None
    assert read > 0.9 * len(plain), (read, len(plain))
