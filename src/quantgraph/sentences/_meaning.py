"""Resolve clauses to conditions: complete omitted parts from the sentence so far, and check units.

A clause that needs a guess resolves to None, and the planner asks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from quantgraph.sentences import _rules as tree
from quantgraph.sentences._grammar import (
    BandSide,
    Bare,
    Clause,
    CompareClause,
    CrossClause,
    Falling,
    Group,
    Histogram,
    JoinedClause,
    Level,
    NegatedClause,
    Operand,
    RankClause,
    StateClause,
)

PERCENT_FIELDS = ("turnover_rate", "dv_ratio")
CAP_FIELDS = ("total_mv", "circ_mv")
TEN_THOUSANDS_PER_YI = 10_000.0
"""``total_mv`` is in ten thousand CNY; the usual unit 亿 is a hundred million."""

_OPERATORS: dict[str, tree.Operator] = {
    "ABOVE": ">", "BELOW": "<", "GE": ">=", "LE": "<=", "BREAK_UP": ">", "BREAK_DOWN": "<",
}  # fmt: skip
_STATES = {
    "POSITIVE": ("ABOVE", 0.0), "NEGATIVE": ("BELOW", 0.0),
    "TURNS_UP": ("CROSS_UP", 0.0), "TURNS_DOWN": ("CROSS_DOWN", 0.0),
    "OVERSOLD": ("BELOW", 30.0), "OVERBOUGHT": ("ABOVE", 70.0),
}  # fmt: skip
_MIRRORED: dict[tree.Operator, tree.Operator] = {">": "<", "<": ">", ">=": "<=", "<=": ">="}


Subject = tree.Value | Histogram | Falling
"""What a later clause may refer to."""


@dataclass(frozen=True, kw_only=True)
class Memory:
    """What a later part of the sentence may leave out."""

    left: Subject | None = None
    right: tree.Value | None = None
    crossed: tuple[tree.Value, tree.Value] | None = None
    ranked: tree.Value | Falling | None = None
    band: tree.Band | None = None
    mixed: bool = False
    price_line: tree.Average | tree.Band | None = None
    cross_count: int = 0
    rank: tree.Rank | None = None
    ascending: tree.Value | Falling | None = None


Resolved = tuple[tree.Condition, Memory]


def remember(memory: Memory, left: tree.Value, right: tree.Value | None = None) -> Memory:
    """The memory after a comparison of ``left`` with ``right``, or after naming ``left``."""
    band = next((value for value in (right, left) if isinstance(value, tree.Band)), memory.band)
    ranked = left if isinstance(left, tree.Return | tree.Indicator) else memory.ranked
    crossed = memory.crossed if right is None else (left, right)
    return replace(
        memory,
        left=left,
        right=right,
        crossed=crossed,
        ranked=ranked,
        band=band,
        mixed=False,
        price_line=None,
    )


def after_clause(condition: tree.Condition, memory: Memory) -> Memory:
    """The memory after a clause: it keeps only what the clause names once."""
    leaves = list(tree.leaves_of(condition))
    if len(leaves) == 1:
        return memory
    lefts = {leaf.value if isinstance(leaf, tree.Rank) else leaf.left for leaf in leaves}
    crossed = {(leaf.left, leaf.right) for leaf in leaves if isinstance(leaf, tree.Cross)}
    ranked = (
        set()
        if isinstance(memory.ranked, Falling)
        else {leaf.value for leaf in leaves if isinstance(leaf, tree.Rank)}
    )
    price_lines = {
        leaf.right
        for leaf in leaves
        if not isinstance(leaf, tree.Rank)
        and leaf.left == tree.Bar()
        and isinstance(leaf.right, tree.Average | tree.Band)
    }
    ranks = {leaf for leaf in leaves if isinstance(leaf, tree.Rank)}
    mixed = len(lefts) > 1
    return replace(
        memory,
        price_line=price_lines.pop() if mixed and len(price_lines) == 1 else None,
        rank=memory.rank if len(ranks) == 1 else None,
        left=None if mixed else memory.left,
        right=None,
        crossed=crossed.pop() if len(crossed) == 1 else None,
        ranked=ranked.pop() if len(ranked) == 1 else None,
        mixed=mixed,
    )


def _average_of(bare: Bare, partner: Operand | None) -> Operand | None:
    return replace(partner, period=bare.period) if isinstance(partner, tree.Average) else None


def _fill(left: Operand | None, word: str, right: Operand | None, memory: Memory) -> Operand | None:
    """The left side, completed if the sentence leaves it out."""
    if left is not None:
        return left
    if right is None and word.startswith("CROSS"):
        return memory.crossed[0] if memory.crossed else None
    if right is None or isinstance(right, Level):
        return memory.left
    if (
        isinstance(right, tree.Average | tree.Scaled)
        and (right if isinstance(right, tree.Average) else right.value).field == "vol"
    ):
        return tree.Bar(field="vol")
    if isinstance(right, tree.Average | tree.Scaled | tree.Band | BandSide | tree.Extreme | Bare | Group):
        if word.startswith("BREAK"):
            return tree.Bar()
        if memory.mixed:
            return None
        return memory.left if isinstance(memory.left, tree.Average | tree.Bar) else tree.Bar()
    return None


def _number(left: tree.Value, level: Level) -> tree.Number | None:
    """A constant in the unit of the left side; None if the unit does not fit."""
    zero = level.unit == "zero" or level.value == 0
    plain = level.unit == "plain" or zero
    match left:
        case tree.Return():
            ok = level.unit == "percent" or zero
            return tree.Number(value=level.value / 100.0) if ok else None
        case tree.Indicator(field=field) if field in CAP_FIELDS:
            return tree.Number(value=level.value * TEN_THOUSANDS_PER_YI) if level.unit == "yi" else None
        case tree.Indicator(field=field) if field in PERCENT_FIELDS:
            return tree.Number(value=level.value) if plain or level.unit == "percent" else None
        case tree.Rsi() | tree.Kdj(part="k" | "d"):
            return tree.Number(value=level.value) if plain and 0 <= level.value <= 100 else None
        case tree.Bar(field="vol") | tree.Average(field="vol"):  # a number alone may be of shares or of hands
            return tree.Number(value=level.value) if level.unit == "hands" else None
        case tree.Indicator() | tree.Kdj() | tree.Macd() | tree.Bar():
            return tree.Number(value=level.value) if plain else None
    return None


def _fits(left: tree.Value, right: tree.Value) -> bool:
    """Whether two values can be compared at all."""
    if left == right:
        return False
    match left, right:
        case _, tree.Number():
            return True
        case tree.Bar(field="close"), tree.Band() | tree.Extreme():
            return True
        case tree.Bar() | tree.Average(), tree.Bar() | tree.Average():
            return left.field == right.field
        case tree.Bar() | tree.Average(), tree.Scaled(value=value):
            return left.field == value.field and left != value
        case tree.Macd(), tree.Macd():
            return replace(left, part="dif") == replace(right, part="dif")
        case tree.Kdj(), tree.Kdj():
            return replace(left, part="k") == replace(right, part="k")
    return isinstance(left, tree.Rsi) and isinstance(right, tree.Rsi)


def _right_value(left: tree.Value, word: str, right: Operand | None, memory: Memory) -> tree.Value | None:
    match right:
        case None if word.startswith("CROSS"):
            return memory.crossed[1] if memory.crossed and memory.crossed[0] == left else None
        case None:
            known = memory.left == left and not isinstance(memory.right, tree.Extreme)
            return memory.right if known else None
        case Level():
            return _number(left, right)
        case BandSide(side=side):
            return replace(memory.band, side=side) if memory.band else None
        case tree.Average(field="close") if left == tree.Bar(field="vol"):
            return replace(right, field="vol")
        case tree.Scaled(value=tree.Average(field="close")) if left == tree.Bar(field="vol"):
            return replace(right, value=replace(right.value, field="vol"))
        case Bare() | Falling() | Group() | Histogram():
            return None
    return right


def _comparison(left: tree.Value, word: str, right: tree.Value) -> tree.Condition:
    lines = isinstance(left, tree.Average | tree.Macd | tree.Kdj | tree.Rsi) and isinstance(
        right, tree.Average | tree.Macd | tree.Kdj | tree.Rsi
    )
    level = isinstance(left, tree.Macd | tree.Kdj | tree.Rsi) and isinstance(right, tree.Number)
    if word.startswith("CROSS") or (word.startswith("BREAK") and (lines or level)):
        return tree.Cross(left=left, direction="up" if word.endswith("UP") else "down", right=right)
    return tree.Compare(left=left, op=_OPERATORS[word], right=right)


def _compare(clause: CompareClause, memory: Memory) -> Resolved | None:
    if (
        isinstance(clause.left, Group)
        and isinstance(clause.left.left, tree.Band)
        and isinstance(clause.right, BandSide)
    ):
        memory = replace(memory, band=clause.left.left)
        clause = replace(clause, left=tree.Bar())
    elif clause.left is None and clause.right is None and clause.word.startswith("BREAK"):
        # ``跌破卖出``: the price and the only line that the previous clause compares it with
        clause = (
            clause if memory.price_line is None else replace(clause, left=tree.Bar(), right=memory.price_line)
        )
    left, right = _fill(clause.left, clause.word, clause.right, memory), clause.right
    if isinstance(left, Bare):
        left = _average_of(left, right)
    elif isinstance(right, Bare) and (right := _average_of(right, left)) is None:
        return None
    return _of_sides(left, clause.word, right, memory)


def _of_sides(left: Operand | None, word: str, right: Operand | None, memory: Memory) -> Resolved | None:
    if isinstance(left, Histogram):
        is_zero = isinstance(right, Level) and right.value == 0
        return _histogram(left, word, memory) if is_zero else None
    if isinstance(left, Falling):
        return _fallen(left, word, right, memory)
    if isinstance(left, Group):
        return _group_line(left, word, right, memory)
    if left is None or isinstance(left, BandSide | Level | tree.Band | tree.Extreme | tree.Scaled | Bare):
        return None
    value = _right_value(left, word, right, memory)
    if value is None or not _fits(left, value):
        return None
    return _comparison(left, word, value), remember(memory, left, value)


def _lines(lines: Group, word: str, memory: Memory) -> Resolved:
    return _comparison(lines.left, word, lines.right), remember(memory, lines.left, lines.right)


def _histogram(histogram: Histogram, word: str, memory: Memory) -> Resolved:
    condition, seen = _lines(histogram.lines, word, memory)
    return condition, replace(seen, left=histogram, right=None)


def _group_line(group: Group, word: str, right: Operand | None, memory: Memory) -> Resolved | None:
    """``MACD crosses above its signal line``; in ``MACD above the zero line`` MACD is the DIF.

    MACD against a number is ambiguous (DIF or histogram), so None.
    """
    if not isinstance(group.left, tree.Macd):
        return None
    if right == group.right:
        return _lines(group, word, memory)
    if isinstance(right, Level) and right.unit == "zero":
        zero = tree.Number(value=0.0)
        return _comparison(group.left, word, zero), remember(memory, group.left, zero)
    return None


def _fallen(falling: Falling, word: str, right: Operand | None, memory: Memory) -> Resolved | None:
    """A fall of more than x is a return below -x."""
    if not isinstance(right, Level) or right.unit != "percent" or word not in _OPERATORS:
        return None
    left, value = tree.Return(period=falling.period), tree.Number(value=-right.value / 100.0)
    seen = replace(remember(memory, left, value), left=falling, right=None, ranked=falling)
    return tree.Compare(left=left, op=_MIRRORED[_OPERATORS[word]], right=value), seen


def _state(clause: StateClause, memory: Memory) -> Resolved | None:
    left = memory.left if clause.left is None else clause.left
    word, level = _STATES[clause.state]
    signed = clause.state not in ("OVERSOLD", "OVERBOUGHT")
    if not isinstance(left, tree.Return | tree.Macd | Histogram if signed else tree.Rsi):
        return None
    return _compare(CompareClause(left=left, word=word, right=Level(value=level, unit="plain")), memory)


def _turn(clause: CrossClause, memory: Memory) -> Resolved | None:
    if clause.left is None and memory.cross_count > 1:
        return None
    left, right = (memory.crossed or (None, None)) if clause.left is None else (clause.left, clause.right)
    if isinstance(left, tree.Average) and isinstance(right, tree.Average):
        if left.period == right.period:
            return None
        left, right = sorted((left, right), key=lambda average: average.period)
    elif not isinstance(left, tree.Macd | tree.Kdj) or not isinstance(right, tree.Macd | tree.Kdj):
        return None
    if not _fits(left, right):
        return None
    return tree.Cross(left=left, direction="up" if clause.up else "down", right=right), remember(
        memory, left, right
    )


_OTHER_END: dict[Literal["top", "bottom"], Literal["top", "bottom"]] = {"top": "bottom", "bottom": "top"}


def _rank(clause: RankClause, memory: Memory, *, negated: bool) -> Resolved | None:
    """A rank. ``前20`` behind ``市盈率最低的10只`` is the lowest 20, which cannot be an exit unless negated."""
    subject = clause.value if clause.value is not None else memory.ranked
    value, side = subject, clause.side
    if clause.place and clause.value is None and memory.ascending is not None and memory.ascending == subject:
        if clause.amount is None or (clause.side == "top" and not negated):
            return None
        side = _OTHER_END[side]
        ascending: tree.Value | Falling | None = memory.ascending
    else:
        ascending = None
    if isinstance(subject, Falling):
        value, side = tree.Return(period=subject.period), _OTHER_END[side]
    if not isinstance(value, tree.Return | tree.Indicator | tree.Rsi) and value != tree.Bar(field="vol"):
        return None
    ranked = subject if isinstance(subject, Falling) else value
    if clause.side == "bottom" and not clause.place:
        ascending = ranked
    if clause.amount is not None:
        rank = tree.Rank(value=value, side=side, amount=clause.amount, unit=clause.unit)
    elif memory.rank is not None and memory.rank.value == value and memory.rank.side != side:
        rank = replace(memory.rank, side=side)
    else:
        return None
    return rank, replace(memory, left=ranked, right=None, ranked=ranked, rank=rank, ascending=ascending)


def _join(clause: JoinedClause, memory: Memory) -> Resolved | None:
    parts: list[tree.Condition] = []
    for part in clause.parts:
        found = resolve(part, memory)
        if found is None:
            return None
        condition, memory = found
        parts.append(condition)
    return (tree.AllOf if clause.word == "and" else tree.AnyOf)(parts=tuple(parts)), memory


def resolve(clause: Clause, memory: Memory) -> Resolved | None:
    """The condition of a clause and the memory after it; None if it is ambiguous."""
    match clause:
        case CompareClause():
            return _compare(clause, memory)
        case StateClause():
            return _state(clause, memory)
        case CrossClause():
            return _turn(clause, memory)
        case RankClause():
            return _rank(clause, memory, negated=False)
        case NegatedClause(part=part):
            found = (
                _rank(part, memory, negated=True) if isinstance(part, RankClause) else resolve(part, memory)
            )
            return None if found is None else (tree.Not(part=found[0]), found[1])
        case JoinedClause():
            return _join(clause, memory)
