"""A rule in words, in Chinese or English, and as a cell with the name of its signal."""

from __future__ import annotations

from dataclasses import dataclass

from quantgraph._util.canonical_json import content_hash
from quantgraph._util.texts import Language
from quantgraph.rules import Rule, in_words, number_text
from quantgraph.sentences import _rules as tree
from quantgraph.sentences._trees import Watched, condition_of, rule_of, value_of

_LONGEST_NAME = 80


def slug(value: float) -> str:
    """A number as part of a name: ``1p5`` for 1.5."""
    return number_text(value).replace(".", "p").replace("-", "minus")


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


def _value_name(value: tree.Value) -> str:  # noqa: C901, PLR0911 - one case a node
    match value:
        case tree.Number(value=number):
            return slug(number)
        case tree.Bar(field=name) | tree.Indicator(field=name):
            return name
        case tree.Average(kind=kind, period=period, field=name):
            return f"{'vol_' if name == 'vol' else ''}{kind}_{period}"
        case tree.Scaled(factor=factor, value=average):
            return f"{slug(factor)}x_{_value_name(average)}"
        case tree.Macd(part=part, fast=fast, slow=slow, signal=signal):
            return f"{part}_{fast}_{slow}" + (f"_{signal}" if part == "dea" else "")
        case tree.Rsi(period=period):
            return f"rsi_{period}"
        case tree.Band(side=side, period=period, width=width):
            return f"boll_{side}_{period}_{slug(width)}"
        case tree.Kdj(part=part, period=n, smooth_k=m, smooth_d=d):
            return f"{part}_{n}_{m}_{d}"
        case tree.Return(period=period):
            return f"return_{period}"
        case tree.Extreme(side=side, period=period):
            return f"{side}_{period}"


_OPERATOR_NAMES = {">": "above", "<": "below", ">=": "at_least", "<=": "at_most"}


def _condition_name(condition: tree.Condition) -> str:  # noqa: C901, PLR0911 - one case a node
    match condition:
        case tree.Cross(
            left=tree.Average(kind=kind, field="close", period=a), right=tree.Average(kind=other, period=b)
        ) if kind == other:
            return f"{kind}_cross_{a}_{b}" + _down(condition)
        case tree.Cross(left=tree.Macd(part="dif"), right=tree.Macd(fast=fast, slow=slow, signal=signal)):
            return f"macd_cross_{fast}_{slow}_{signal}" + _down(condition)
        case tree.Cross(left=tree.Kdj(part="k"), right=tree.Kdj(part="d", period=n, smooth_k=m, smooth_d=d)):
            return f"kdj_cross_{n}_{m}_{d}" + _down(condition)
        case tree.Cross(left=left, direction=direction, right=right):
            return f"{_value_name(left)}_cross_{direction}_{_value_name(right)}"
        case tree.Compare(left=tree.Bar(field="close"), op=op, right=tree.Extreme(side=side, period=period)):
            return f"{_OPERATOR_NAMES[op]}_{period}_day_{side}"
        case tree.Compare(left=left, op=op, right=right):
            return f"{_value_name(left)}_{_OPERATOR_NAMES[op]}_{_value_name(right)}"
        case tree.Rank(value=value, side=side, amount=amount, unit=unit):
            return f"{side}_{slug(amount)}{'_percent' if unit == 'percent' else ''}_by_{_value_name(value)}"
        case tree.Not(part=part):
            return f"not_{_condition_name(part)}"
        case tree.OfIndex(part=part):
            return f"index_{_condition_name(part)}"
        case tree.AllOf(parts=parts):
            return "_and_".join(map(_condition_name, parts))
        case tree.AnyOf(parts=parts):
            return "_or_".join(map(_condition_name, parts))


def _down(cross: tree.Cross) -> str:
    return "" if cross.direction == "up" else "_down"


def name_of(rule: tree.TradingRule) -> str:
    """Name of a rule's signal, at most 80 characters; it includes the exit unless that is the opposite."""
    name = _condition_name(rule.entry)
    if rule.exit != tree.opposite(rule.entry):
        name = f"{name}_exit_{'never' if rule.exit == tree.NEVER else _condition_name(rule.exit)}"
    if len(name) <= _LONGEST_NAME:
        return name
    digest = content_hash(name, size=4)
    return f"{name[: _LONGEST_NAME - 9].rstrip('_')}_{digest}"


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
