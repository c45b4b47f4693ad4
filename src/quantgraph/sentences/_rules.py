"""Trees of the rule language as the reader needs them: their values, their ranks, their opposites, their cells."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from quantgraph.data.symbols import is_index_code
from quantgraph.rules import ROWS, Node, Rule, make, number

CLOSE, VOLUME, NEVER = make("close"), make("volume"), make("never")
HELD = make("gt", CLOSE, number(0.0))
"""Buy and hold: nothing is left out, since it has no exit."""
AVERAGES = ("sma", "ema")
BANDS = ("boll_upper", "boll_lower")
MACD_LINES = ("dif", "dea")
KDJ_LINES = ("kdj_j", "kdj_k", "kdj_d")
"""The fastest first."""
_REVERSED = {
    "gt": "lt",
    "ge": "lt",
    "lt": "gt",
    "le": "gt",
    "cross_up": "cross_down",
    "cross_down": "cross_up",
}
_OTHER_SIDE = {"boll_upper": "boll_lower", "boll_lower": "boll_upper"}
_JOINTS = ("and", "or", "not", "index")


def average(period: float, kind: str = "sma", of: Node = CLOSE) -> Node:
    """A moving average."""
    return make(kind, of, float(period))


def extreme(word: str, period: float) -> Node:
    """The ``high`` or the ``low`` of the sessions before today's."""
    return make("ago", make("highest" if word == "high" else "lowest", make(word), float(period)), 1.0)


def is_extreme(value: Node) -> bool:
    """Whether a value is the high or the low of the sessions before today's."""
    return value.name == "ago" and value.operands[0].name in ("highest", "lowest")


def line_of(value: Node) -> Node:
    """What a multiple is of; any other value itself."""
    return value.operands[1] if value.name == "mul" else value


def is_channel(value: Node) -> bool:
    """Whether a value, or what it is a multiple of, is a band or a high or low of some sessions."""
    return line_of(value).name in (*BANDS, "highest", "lowest") or is_extreme(line_of(value))


def period_of(line: Node) -> float:
    """The sessions of an average or of a return."""
    period = line.args[1]
    return period if isinstance(period, float) else 0.0


def field_of(value: Node) -> str:
    """``close`` or ``volume`` for these, their averages, and multiples of those; empty for any other value."""
    line = line_of(value)
    if line.name in AVERAGES:
        return line.operands[0].name
    return line.name if line in (CLOSE, VOLUME) else ""


def is_field(value: Node) -> bool:
    """Whether a value is a daily indicator of the data."""
    return (
        not value.args
        and value.name in ROWS
        and not ROWS[value.name].formula
        and value.unit not in ("price", "volume")
    )


def nodes_of(node: Node) -> Iterator[Node]:
    """All nodes of a tree."""
    yield node
    for each in node.operands:
        yield from nodes_of(each)


def leaves_of(condition: Node) -> Iterator[Node]:
    """The conditions that a condition joins, in reading order."""
    if condition.name in _JOINTS:
        for part in condition.operands:
            yield from leaves_of(part)
    else:
        yield condition


def values_in(condition: Node) -> Iterator[Node]:
    """The values that a condition compares or ranks, in reading order; multiples as what they are of."""
    for each in condition.operands:
        if each.unit == "truth" or each.name in ("rank", "rank_percent", "neg", "mul"):
            yield from values_in(each)
        elif each.unit != "number":
            yield each


def of_closes(condition: Node) -> bool:
    """Whether a condition needs closes alone, which an index has, and no other security."""
    rows = [ROWS[each.name] for each in nodes_of(condition) if each.name in ROWS]
    fields = {name for row in rows for name in (row.inputs if row.formula else (row.name,))}
    return fields <= {"close"} and not any(row.across for row in rows)


def rank_of(leaf: Node) -> tuple[Node, bool] | None:
    """The value that a leaf ranks, and whether it is of its highest; None for other leaves."""
    if leaf.name != "le" or leaf.operands[0].name not in ("rank", "rank_percent"):
        return None
    (value,) = leaf.operands[0].operands
    return (value.operands[0], False) if value.name == "neg" else (value, True)


def is_comparison(leaf: Node) -> bool:
    """Whether a leaf compares two values: no cross, and no rank."""
    return leaf.name in ("gt", "ge", "lt", "le") and rank_of(leaf) is None


def ranked(value: Node, *, top: bool, amount: float, unit: str) -> Node:
    """The best or the worst of all by a value: a share in ``percent``, or a ``count``."""
    place = make("rank" if unit == "count" else "rank_percent", value if top else make("neg", value))
    return make("le", place, number(amount))


def _ranks_of(condition: Node, *, negated: bool) -> Iterator[tuple[Node, bool]]:
    if condition.name in _JOINTS:
        for part in condition.operands:
            yield from _ranks_of(part, negated=negated != (condition.name == "not"))
    elif rank_of(condition):
        yield condition, negated


def bought_count(rule: Rule) -> int | None:
    """How many symbols a ranking of the entry picks; None if there is none by number."""
    ranks = list(_ranks_of(rule.entry, negated=False))
    picked = [rank.operands[1].constant for rank, negated in ranks if not negated]
    is_count = {rank.operands[0].name for rank, _ in ranks} == {"rank"}
    return int(max(picked)) if picked and is_count else None


def contradicts(entry: Node, exit_: Node) -> bool:
    """Whether the exit sells what is bought: at once, or what is not in the opposite end of the entry's ranking.

    The lowest 10 are hardly ever in the top 20, so *not in the top 20* would sell them at once.
    """
    bought = {rank_of(rank) for rank, negated in _ranks_of(entry, negated=False) if not negated}
    kept = {rank_of(rank) for rank, negated in _ranks_of(exit_, negated=False) if negated}
    turned = {(found[0], not found[1]) for found in kept if found}
    return entry == exit_ or (bool(turned & bought) and not kept & bought)


def has_event(condition: Node) -> bool:
    """Whether a cross is part of the condition."""
    return any(leaf.name.startswith("cross") for leaf in leaves_of(condition))


def is_bullish(condition: Node) -> bool:
    """Whether a condition alone is an event that means a purchase.

    The price or the shorter average crosses above the longer average, the faster line of MACD or KDJ above
    the slower line, DIF above zero, or the price breaks above a high.
    """
    match condition:
        case Node("gt", (Node("close"), Node() as right)):
            return is_extreme(right) and right.operands[0].name == "highest"
        case Node("cross_up", (Node() as left, Node() as right)):
            pass
        case _:
            return False
    if left.name in AVERAGES and right.name in AVERAGES:
        return field_of(left) == "close" and period_of(left) < period_of(right)
    if left.name in KDJ_LINES and right.name in KDJ_LINES:
        return KDJ_LINES.index(left.name) < KDJ_LINES.index(right.name)
    if left.name == "dif":
        return right.name in MACD_LINES or right == number(0.0)
    return left == CLOSE and field_of(right) == "close"


def fields_of(rule: Rule) -> tuple[str, ...]:
    """Daily indicators that the rule needs, in reading order. Bars are implied."""
    values = (each for side in (rule.entry, rule.exit) for each in values_in(side))
    return tuple(dict.fromkeys(each.name for each in values if is_field(each)))


def _opposite_compare(leaf: Node) -> Node:
    left, right = leaf.operands
    rises = leaf.name in ("gt", "ge")
    if left.name in ("rsi", *KDJ_LINES) and right.name == "number":
        right = number(100.0 - right.constant)
    elif right.name == ("boll_upper" if rises else "boll_lower"):
        right = make(_OTHER_SIDE[right.name], *right.args)
    elif is_extreme(right) and right.operands[0].name == ("highest" if rises else "lowest"):
        right = extreme("low" if rises else "high", period_of(right.operands[0]))
    return make(_REVERSED[leaf.name], left, right)


def _has_range(parts: tuple[Node, ...]) -> bool:
    """Whether two parts are levels of one value in opposite directions, which have no opposites one by one."""
    levels = [part for part in parts if is_comparison(part) and part.operands[1].name == "number"]
    pairs = ((one, other) for one in levels for other in levels)
    return any(one.operands[0] == other.operands[0] and one.name[0] != other.name[0] for one, other in pairs)


def opposite(condition: Node) -> Node | None:
    """The exit of a rule without an exit; None if there is no natural one.

    A cross reverses; a comparison reverses strictly, an oscillator goes to its other end (``RSI < 30`` to
    ``RSI > 70``), a channel to its other side; a rank becomes "no longer in it".
    """
    if rank_of(condition):
        return make("not", condition)
    if condition == HELD:
        return NEVER
    match condition.name:
        case "cross_up" | "cross_down":
            return make(_REVERSED[condition.name], *condition.args)
        case "gt" | "ge" | "lt" | "le":
            return _opposite_compare(condition)
        case "not":
            return condition.operands[0]
        case "and":
            return _opposite_of_all(condition.operands)
        case "or" if not has_event(condition):
            parts = condition.operands
            return make("not", condition) if _has_range(parts) else _join("and", parts)
    return None


def _opposite_of_all(parts: tuple[Node, ...]) -> Node | None:
    """Any one opposite is enough; beside an event the rest is a filter of entries, as is what an index does."""
    own = tuple(part for part in parts if part.name != "index")
    events = tuple(part for part in own if has_event(part))
    if not events and _has_range(own):
        return make("not", make("and", *own))
    return _join("or", events or own) if own else None


def _join(name: str, parts: tuple[Node, ...]) -> Node | None:
    turned = [other for part in parts if (other := opposite(part)) is not None]
    if len(turned) < len(parts):
        return None
    return turned[0] if len(turned) == 1 else make(name, *turned)


@dataclass(frozen=True, kw_only=True)
class Watched:
    """The one security that a rule watches while others are traded; an index is in the panel ``index``."""

    code: str
    traded: tuple[str, ...]

    def rule(self, rule: Rule) -> Rule:
        """The rule of the watched security."""
        kind = "index" if is_index_code(self.code) else "of"
        exit_ = rule.exit if rule.exit == NEVER else make(kind, self.code, rule.exit)
        return Rule(make(kind, self.code, rule.entry), exit_)


@dataclass(frozen=True, kw_only=True)
class Code:
    """A rule, the source of its cell, and the name of the signal that this hands over."""

    source: str
    name: str
    rule: Rule


def write_code(rule: Rule, watched: Watched | None = None) -> Code:
    """The cell that computes a rule's signal, of the securities that are traded, and hands it over."""
    whole = watched.rule(rule) if watched else rule
    return Code(source=whole.cell(whole.name, watched.traded if watched else ()), name=whole.name, rule=whole)
