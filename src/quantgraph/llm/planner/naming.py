"""Names of signals, and how many sessions a rule needs."""

from __future__ import annotations

from quantgraph._util.canonical_json import content_hash
from quantgraph.llm.planner.describe import figure
from quantgraph.llm.planner.rules import (
    AllOf,
    AnyOf,
    Average,
    Band,
    Bar,
    Compare,
    Condition,
    Cross,
    Extreme,
    Indicator,
    Kdj,
    Macd,
    Not,
    Number,
    Rank,
    Return,
    Rsi,
    Rule,
    Scaled,
    Value,
    leaves_of,
    opposite,
)

__all__ = ["lookback_of", "name_of", "slug"]

_LONGEST_NAME = 80


def slug(value: float) -> str:
    """A number as part of a name."""
    return figure(value).replace(".", "p").replace("-", "minus")


def _sessions_of(value: Value) -> int:
    match value:
        case Average(period=period) | Band(period=period) | Kdj(period=period):
            return period
        case Scaled(value=average):
            return average.period
        case Macd(part="dif", fast=fast, slow=slow):
            return max(fast, slow)
        case Macd(fast=fast, slow=slow, signal=signal):
            return max(fast, slow) + signal - 1
        case Rsi(period=period) | Return(period=period) | Extreme(period=period):
            return period + 1
    return 1


def lookback_of(rule: Rule) -> int:
    """Sessions up to and including the first one that can have a signal."""
    longest = 1
    for leaf in (*leaves_of(rule.entry), *leaves_of(rule.exit)):
        if isinstance(leaf, Rank):
            longest = max(longest, _sessions_of(leaf.value))
        else:
            needs = max(_sessions_of(leaf.left), _sessions_of(leaf.right))
            longest = max(longest, needs + isinstance(leaf, Cross))
    return longest


def _value_name(value: Value) -> str:  # noqa: C901, PLR0911 - one case a node
    match value:
        case Number(value=number):
            return slug(number)
        case Bar(field=name) | Indicator(field=name):
            return name
        case Average(kind=kind, period=period, field=name):
            return f"{'vol_' if name == 'vol' else ''}{kind}_{period}"
        case Scaled(factor=factor, value=average):
            return f"{slug(factor)}x_{_value_name(average)}"
        case Macd(part=part, fast=fast, slow=slow, signal=signal):
            return f"{part}_{fast}_{slow}" + (f"_{signal}" if part == "dea" else "")
        case Rsi(period=period):
            return f"rsi_{period}"
        case Band(side=side, period=period, width=width):
            return f"boll_{side}_{period}_{slug(width)}"
        case Kdj(part=part, period=n, smooth_k=m, smooth_d=d):
            return f"{part}_{n}_{m}_{d}"
        case Return(period=period):
            return f"return_{period}"
        case Extreme(side=side, period=period):
            return f"{side}_{period}"


_OPERATOR_NAMES = {">": "above", "<": "below", ">=": "at_least", "<=": "at_most"}


def _condition_name(condition: Condition) -> str:  # noqa: C901, PLR0911 - one case a node
    match condition:
        case Cross(left=Average(kind=kind, field="close", period=a), right=Average(kind=other, period=b)) if (
            kind == other
        ):
            return f"{kind}_cross_{a}_{b}" + _down(condition)
        case Cross(left=Macd(part="dif"), right=Macd(fast=fast, slow=slow, signal=signal)):
            return f"macd_cross_{fast}_{slow}_{signal}" + _down(condition)
        case Cross(left=Kdj(part="k"), right=Kdj(part="d", period=n, smooth_k=m, smooth_d=d)):
            return f"kdj_cross_{n}_{m}_{d}" + _down(condition)
        case Cross(left=left, direction=direction, right=right):
            return f"{_value_name(left)}_cross_{direction}_{_value_name(right)}"
        case Compare(left=Bar(field="close"), op=op, right=Extreme(side=side, period=period)):
            return f"{_OPERATOR_NAMES[op]}_{period}_day_{side}"
        case Compare(left=left, op=op, right=right):
            return f"{_value_name(left)}_{_OPERATOR_NAMES[op]}_{_value_name(right)}"
        case Rank(value=value, side=side, amount=amount, unit=unit):
            return f"{side}_{slug(amount)}{'_percent' if unit == 'percent' else ''}_by_{_value_name(value)}"
        case Not(part=part):
            return f"not_{_condition_name(part)}"
        case AllOf(parts=parts):
            return "_and_".join(map(_condition_name, parts))
        case AnyOf(parts=parts):
            return "_or_".join(map(_condition_name, parts))


def _down(cross: Cross) -> str:
    return "" if cross.direction == "up" else "_down"


def name_of(rule: Rule) -> str:
    """Descriptive name of a rule's signal, at most 80 letters; the exit is named if it is no opposite."""
    name = _condition_name(rule.entry)
    if rule.exit != opposite(rule.entry):
        name = f"{name}_exit_{_condition_name(rule.exit)}"
    if len(name) <= _LONGEST_NAME:
        return name
    digest = content_hash(name, size=4)
    return f"{name[: _LONGEST_NAME - 9].rstrip('_')}_{digest}"
