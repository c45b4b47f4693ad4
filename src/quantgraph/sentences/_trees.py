"""The reader's rules as trees of the rule language."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from quantgraph.data.symbols import is_index_code
from quantgraph.rules import UNITS, Node, Rule, make, number
from quantgraph.sentences import _rules as tree
from quantgraph.sentences._rules import TradingRule

_OPERATORS = {">": "gt", "<": "lt", ">=": "ge", "<=": "le"}
_SCALES = {"vol": UNITS["volume"], **UNITS}
"""What a number beside a field of the data is multiplied with to be in shares or in money."""


@dataclass(frozen=True, kw_only=True)
class Watched:
    """The one security that a rule watches while others are traded; an index is in the panel ``index``."""

    code: str
    traded: tuple[str, ...]


def rule_of(rule: TradingRule, watched: Watched | None = None) -> Rule:
    """The same rule as a tree of the language; with ``watched`` all of it is of that security."""

    def of_one(condition: Node) -> Node:
        if watched is None or condition.name == "never":
            return condition
        return make("index" if is_index_code(watched.code) else "of", watched.code, condition)

    return Rule(of_one(condition_of(rule.entry)), of_one(condition_of(rule.exit)))


def condition_of(condition: tree.Condition) -> Node:
    """A condition as a node."""
    if condition == tree.NEVER:
        return make("never")
    match condition:
        case tree.Compare(left=left, op=op, right=right):
            return make(_OPERATORS[op], *_sides(left, right))
        case tree.Cross(left=left, direction=direction, right=right):
            return make(f"cross_{direction}", *_sides(left, right))
        case tree.Rank(value=value, side=side, amount=amount, unit=unit):
            ranked = value_of(value) if side == "top" else make("neg", value_of(value))
            return make("le", make("rank" if unit == "count" else "rank_percent", ranked), number(amount))
        case tree.Not(part=part):
            return make("not", condition_of(part))
        case tree.AllOf(parts=parts):
            return make("and", *map(condition_of, parts))
        case tree.AnyOf(parts=parts):
            return make("or", *map(condition_of, parts))
        case tree.OfIndex(code=code, part=part):
            return make("index", code, condition_of(part))


def _sides(left: tree.Value, right: tree.Value) -> tuple[Node, Node]:
    """Both sides of a comparison, numbers in the unit of the other."""
    fields = {getattr(each, "field", "") for each in (left, right)}
    scale = prod(_SCALES.get(name, 1.0) for name in fields)
    return value_of(left, scale), value_of(right, scale)


def value_of(value: tree.Value, scale: float = 1.0) -> Node:  # noqa: C901, PLR0911 - one case a node
    """A value as a node; a number is multiplied with ``scale``."""
    match value:
        case tree.Number(value=plain):
            return number(plain * scale)
        case tree.Bar(field=field):
            return make("volume" if field == "vol" else field)
        case tree.Average(kind=kind, period=period, field=field):
            return make(kind, value_of(tree.Bar(field=field)), float(period))
        case tree.Scaled(factor=factor, value=average):
            return make("mul", number(factor), value_of(average))
        case tree.Rsi(period=period):
            return make("rsi", float(period))
        case tree.Macd(part=part, fast=fast, slow=slow, signal=signal):
            return make(part, *map(float, (fast, slow) if part == "dif" else (fast, slow, signal)))
        case tree.Band(side="middle", period=period):
            return make("sma", make("close"), float(period))
        case tree.Band(side=side, period=period, width=width):
            return make(f"boll_{side}", float(period), float(width))
        case tree.Kdj(part=part, period=period, smooth_k=k, smooth_d=d):
            return make(f"kdj_{part}", *map(float, (period, k) if part == "k" else (period, k, d)))
        case tree.Return(period=period):
            return make("change", make("close"), float(period))
        case tree.Extreme(side=side, period=period):
            farthest = make("highest" if side == "high" else "lowest", make(side), float(period))
            return make("ago", farthest, 1.0)
        case tree.Indicator(field=field):
            return make(field)
