"""A rule in words, in Chinese or English, and as a cell with the name of its signal."""

from __future__ import annotations

from dataclasses import dataclass

from quantgraph._util.canonical_json import content_hash
from quantgraph._util.texts import Language
from quantgraph.rules import Rule, in_words, short_name
from quantgraph.sentences import _rules as tree
from quantgraph.sentences._trees import Watched, condition_of, rule_of, value_of

_LONGEST_NAME = 80


@dataclass(frozen=True, kw_only=True)
class Code:
    """A rule of the language, the source of its cell, and the name of the signal that this hands over."""

    source: str
    name: str
    rule: Rule


def write_code(rule: tree.TradingRule, watched: Watched | None = None) -> Code:
    """The cell that computes a rule's signal, of the securities that are traded, and hands it over."""
    whole, name = rule_of(rule, watched), name_of(rule)
    return Code(source=whole.cell(name, watched.traded if watched else ()), name=name, rule=whole)


def name_of(rule: tree.TradingRule) -> str:
    """Name of a rule's signal, at most 80 characters; it has the exit unless that is the opposite.

    >>> five, twenty = tree.Average(period=5), tree.Average(period=20)
    >>> cross = tree.Cross(left=five, direction="up", right=twenty)
    >>> name_of(tree.TradingRule(entry=cross, exit=tree.opposite(cross)))
    'cross_up_sma_5_sma_20'
    """
    name = short_name(condition_of(rule.entry), _LONGEST_NAME)
    if rule.exit != tree.opposite(rule.entry):
        name = f"{name}_exit_{short_name(condition_of(rule.exit), _LONGEST_NAME)}"
    if len(name) <= _LONGEST_NAME:
        return name
    return f"{name[: _LONGEST_NAME - 9].rstrip('_')}_{content_hash(name, size=4)}"


def describe_value(value: tree.Value, language: Language) -> str:
    """A value as one phrase.

    >>> describe_value(tree.Average(kind="ema", period=12), "en")
    'EMA(12)'
    """
    return in_words(value_of(value), language)


def describe(condition: tree.Condition, language: Language) -> str:
    """A condition as one phrase.

    >>> describe(tree.Compare(left=tree.Rsi(period=14), op="<", right=tree.Number(value=30.0)), "en")
    'RSI(14) < 30'
    """
    return in_words(condition_of(condition), language)
