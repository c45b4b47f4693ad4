"""Resolve clauses to conditions: complete omitted parts from the sentence so far, and check units.

A clause that needs a guess resolves to None, and the planner asks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from quantgraph.rules import UNITS, Node, make, number
from quantgraph.sentences._grammar import (
    BandSide,
    Bare,
    Clause,
    CompareClause,
    CrossClause,
    Group,
    Level,
    NodeClause,
    Operand,
    RankClause,
    band_side,
)
from quantgraph.sentences._rules import (
    AVERAGES,
    BANDS,
    CLOSE,
    KDJ_LINES,
    MACD_LINES,
    VOLUME,
    average,
    field_of,
    has_event,
    is_channel,
    is_extreme,
    is_field,
    leaves_of,
    line_of,
    period_of,
    rank_of,
    ranked,
)

PERCENT_FIELDS = ("turnover_rate", "dv_ratio")
CAP_FIELDS = ("total_mv", "circ_mv")
_YI = 1e8

_OPERATORS = {"ABOVE": "gt", "BELOW": "lt", "GE": "ge", "LE": "le", "BREAK_UP": "gt", "BREAK_DOWN": "lt"}
_PRICE_WORDS = ("BREAK_UP", "BREAK_DOWN", "GE", "LE")
"""Words that a number alone follows where no value was named before: it is of the price."""
_MIRRORED = {"gt": "lt", "lt": "gt", "ge": "le", "le": "ge"}


@dataclass(frozen=True, kw_only=True)
class Memory:
    """What a later part of the sentence may leave out.

    ``mixed`` says that the last clause named several values, ``averaged`` that an average was one of them.
    """

    left: Node | None = None
    right: Node | None = None
    crossed: tuple[Node, Node] | None = None
    ranked: Node | None = None
    band: Node | None = None
    mixed: bool = False
    averaged: bool = False
    price_line: Node | None = None
    cross_count: int = 0
    rank: Node | None = None
    ascending: Node | None = None
    far: Node | None = None
    """The line from which the last comparison measured a distance in percent."""


Resolved = tuple[Node, Memory]


def remember(memory: Memory, left: Node, right: Node | None = None) -> Memory:
    """The memory after a comparison of ``left`` with ``right``, or after naming ``left``."""
    return replace(
        memory,
        left=left,
        right=right,
        crossed=memory.crossed if right is None else (left, right),
        ranked=left if left.name in ("change", "neg") or is_field(left) else memory.ranked,
        band=next((each for each in (right, left) if each and each.name in BANDS), memory.band),
        mixed=False,
        averaged=False,
        price_line=None,
        far=None,
    )


def after_clause(condition: Node, memory: Memory) -> Memory:
    """The memory after a clause: it keeps only what the clause names once."""
    leaves = list(leaves_of(condition))
    if len(leaves) == 1:
        return memory
    ranks = {leaf: found[0] for leaf in leaves if (found := rank_of(leaf))}
    plain = [leaf for leaf in leaves if leaf not in ranks and leaf.operands]
    lefts = {*ranks.values(), *(leaf.operands[0] for leaf in plain)}
    crossed = {leaf.operands for leaf in leaves if leaf.name.startswith("cross")}
    values = set() if memory.ranked and memory.ranked.name == "neg" else {*ranks.values()}
    price_lines = {
        leaf.operands[1]
        for leaf in plain
        if leaf.operands[0] == CLOSE and leaf.operands[1].name in (*AVERAGES, *BANDS)
    }
    mixed = len(lefts) > 1
    pair = crossed.pop() if len(crossed) == 1 else None
    return replace(
        memory,
        price_line=price_lines.pop() if mixed and len(price_lines) == 1 else None,
        rank=memory.rank if len(ranks) == 1 else None,
        left=None if mixed else memory.left,
        right=None,
        crossed=(pair[0], pair[1]) if pair else None,
        ranked=values.pop() if len(values) == 1 else None,
        mixed=mixed,
        averaged=mixed and any(left.name in AVERAGES for left in lefts),
    )


def _average_of(bare: Bare, partner: Operand | None) -> Operand | None:
    if not isinstance(partner, Node) or partner.name not in AVERAGES:
        return None
    return average(bare.period, partner.name, partner.operands[0])


def _fill(left: Operand | None, word: str, right: Operand | None, memory: Memory) -> Operand | None:
    """The left side, completed if the sentence leaves it out."""
    if left is not None:
        return left
    if right is None and word.startswith("CROSS"):
        return memory.crossed[0] if memory.crossed else None
    if right is None or isinstance(right, Level):
        return memory.left
    if isinstance(right, Node) and field_of(right) == "volume":
        return None if right == VOLUME else VOLUME
    if isinstance(right, Node) and is_channel(right):
        return CLOSE
    if not _beside_a_price(right) or (memory.averaged and not word.startswith("BREAK")):
        return None
    remembered = isinstance(memory.left, Node) and _is_line(memory.left) and not word.startswith("BREAK")
    return memory.left if remembered else CLOSE


def _beside_a_price(right: Operand) -> bool:
    """Whether a right side alone is compared with the price: an average or a side of a band."""
    if isinstance(right, Node):
        return right != CLOSE and field_of(right) == "close"
    return isinstance(right, BandSide | Bare | Group)


def _is_line(value: Node) -> bool:
    """Whether a value is the price, the volume or an average of them."""
    return field_of(value) != "" and value.name != "mul"


def _number(left: Node, level: Level) -> Node | None:
    """A constant in the unit of the left side; None if the unit does not fit."""
    if level.unit in ("sign", "zone"):
        wanted = ("rsi",) if level.unit == "zone" else ("change", *MACD_LINES)
        return number(level.value) if left.name in wanted else None
    zero = level.unit == "zero" or level.value == 0
    plain = level.unit == "plain" or zero
    fits, value = plain, level.value
    if left.name == "change":
        fits, value = level.unit == "percent" or zero, level.value / 100.0
    elif left.name == "neg":
        fits, value = level.unit == "percent", level.value / 100.0
    elif left.name in CAP_FIELDS:
        fits, value = level.unit == "yi", level.value * _YI
    elif left.name in PERCENT_FIELDS:
        fits = plain or level.unit == "percent"
    elif left.name in ("rsi", "kdj_k", "kdj_d"):
        fits = plain and 0 <= level.value <= 100
    elif field_of(left) == "volume":  # a number alone may be of shares or of hands
        fits, value = level.unit == "hands", level.value * UNITS["volume"]
    elif left != CLOSE and not is_field(left) and left.name not in ("kdj_j", *MACD_LINES):
        return None
    return number(value) if fits else None


def _fits(left: Node, right: Node) -> bool:
    """Whether two values can be compared at all."""
    if left == right:
        return False
    if right.name == "number":
        return True
    if is_channel(right):
        return left == CLOSE
    if _is_line(left):
        return field_of(left) == field_of(right) and left != line_of(right)
    for lines in (MACD_LINES, KDJ_LINES):
        if left.name in lines and right.name in lines:
            return all(one == other for one, other in zip(left.args, right.args, strict=False))
    return left.name == right.name == "rsi"


def _right_value(left: Node, word: str, right: Operand | None, memory: Memory) -> Node | None:
    match right:
        case None if word.startswith("CROSS"):
            return memory.crossed[1] if memory.crossed and memory.crossed[0] == left else None
        case None:
            known = memory.left == left and memory.right is not None and not is_extreme(memory.right)
            return memory.right if known and memory.far is None else None
        case Level(unit="percent") if memory.far and memory.left == left:
            return _beyond(memory.far, word, right.value)
        case Level():
            return _number(left, right)
        case BandSide(side=side):
            return None if memory.band is None else band_side(side, memory.band)
        case Node():
            return _of_volume(right) if left == VOLUME and field_of(right) == "close" else right
    return None


def _beyond(line: Node, word: str, percent: float) -> Node | None:
    """A line moved by a percentage; a fall is measured from a high with today's, a rise from such a low."""
    if not 0 < percent < 100 or line.name in ("number", "mul"):
        return None
    below = word in ("BELOW", "LE", "BREAK_DOWN")
    if is_extreme(line) and (line.operands[0].name == "highest") == below:
        line = line.operands[0]
    return make("mul", number(round(1 - percent / 100 if below else 1 + percent / 100, 10)), line)


def _of_volume(line: Node) -> Node:
    """An average of prices, or a multiple of one, as that of the volume."""
    if line.name == "mul":
        return make("mul", line.operands[0], _of_volume(line.operands[1]))
    return average(period_of(line), line.name, VOLUME) if line.name in AVERAGES else line


def _comparison(left: Node, word: str, right: Node) -> Node:
    of_lines = (*AVERAGES, *MACD_LINES, *KDJ_LINES, "rsi")
    lines = left.name in of_lines and right.name in of_lines
    level = left.name in of_lines and left.name not in AVERAGES and right.name == "number"
    if word.startswith("CROSS") or (word.startswith("BREAK") and (lines or level)):
        return make("cross_up" if word.endswith("UP") else "cross_down", left, right)
    if left.name == "neg":  # a fall of more than x is a return below -x
        return make(_MIRRORED[_OPERATORS[word]], left.operands[0], number(-right.constant))
    return make(_OPERATORS[word], left, right)


def _compare(clause: CompareClause, memory: Memory) -> Resolved | None:
    named = clause.left.left if isinstance(clause.left, Group) else None
    if named and named.name in BANDS and isinstance(clause.right, BandSide):
        memory, clause = replace(memory, band=named), replace(clause, left=CLOSE)
    elif memory.price_line and clause.word.startswith("BREAK") and clause.left is clause.right is None:
        # ``跌破卖出``: the price and the only line that the previous clause compares it with
        clause = replace(clause, left=CLOSE, right=memory.price_line)
    left, right = _fill(clause.left, clause.word, clause.right, memory), clause.right
    if left is None and isinstance(right, Level) and right.unit == "plain" and clause.word in _PRICE_WORDS:
        left = None if memory.mixed else CLOSE  # 茅台跌破1400买
    elided = clause.left is None and isinstance(left, Node) and left.name in MACD_LINES
    if elided and isinstance(right, Level) and right.value != 0:
        return None  # MACD金叉买入，跌破30卖出: hardly of a line that was not named
    if isinstance(left, Bare):
        left = _average_of(left, right)
    elif isinstance(right, Bare) and (right := _average_of(right, left)) is None:
        return None
    return _of_sides(left, clause.word, right, memory, clause.percent)


def _of_sides(
    left: Operand | None, word: str, right: Operand | None, memory: Memory, percent: float | None
) -> Resolved | None:
    if percent is not None and not (isinstance(left, Node) and isinstance(right, Node | BandSide)):
        return None
    if isinstance(left, Group):
        return _group_line(left, word, right, memory)
    if not isinstance(left, Node) or left.name in (*BANDS, "mul") or is_extreme(left):
        return None
    if left.name == "macd":  # the bar has the sign of dif - dea
        is_zero = isinstance(right, Level) and right.value == 0
        seen = remember(memory, make("dif", *left.args[:2]), make("dea", *left.args))
        crossed = seen.crossed if is_zero else None
        return (
            (_comparison(crossed[0], word, crossed[1]), replace(seen, left=left, right=None))
            if crossed
            else None
        )
    if left.name == "neg" and word not in _OPERATORS:
        return None
    value = line = _right_value(left, word, right, memory)
    if value is not None and percent is not None:
        value = _beyond(value, word, percent)
    if value is None or not _fits(left, value):
        return None
    again = isinstance(right, Level) and right.unit == "percent" and value.name == "mul"
    far = memory.far if again else line if percent is not None else None
    return _comparison(left, word, value), replace(remember(memory, left, value), far=far)


def _group_line(group: Group, word: str, right: Operand | None, memory: Memory) -> Resolved | None:
    """``MACD crosses above its signal line``; in ``MACD above the zero line`` MACD is the DIF.

    MACD against a number is ambiguous (DIF or histogram), so None.
    """
    if group.left.name not in MACD_LINES:
        return None
    is_zero = isinstance(right, Level) and right.unit == "zero"
    line = number(0.0) if is_zero else group.right
    if not is_zero and right != line:
        return None
    return _comparison(group.left, word, line), remember(memory, group.left, line)


def _turn(clause: CrossClause, memory: Memory) -> Resolved | None:
    if clause.left is None and memory.cross_count > 1:
        return None
    left, right = (memory.crossed or (None, None)) if clause.left is None else (clause.left, clause.right)
    if not isinstance(left, Node) or not isinstance(right, Node):
        return None
    if left.name in AVERAGES and right.name in AVERAGES:
        if period_of(left) == period_of(right):
            return None
        left, right = sorted((left, right), key=period_of)
    elif {left.name, right.name} - {*MACD_LINES, *KDJ_LINES}:
        return None
    if not _fits(left, right):
        return None
    cross, seen = make("cross_up" if clause.up else "cross_down", left, right), remember(memory, left, right)
    if clause.beyond is None:
        return cross, seen
    word, level = clause.beyond
    if level.unit != ("zero" if left.name in MACD_LINES else "plain") and level.value != 0:
        return None
    values = [_number(line, level) for line in (left, right)]
    both = [
        make(_OPERATORS[word], line, value)
        for line, value in zip((left, right), values, strict=True)
        if value
    ]
    return (make("and", cross, *both), seen) if len(both) == 2 and left.name not in AVERAGES else None


def _rank(clause: RankClause, memory: Memory, *, negated: bool) -> Resolved | None:
    """A rank. ``前20`` behind ``市盈率最低的10只`` is the lowest 20, which cannot be an exit unless negated."""
    subject = clause.value if clause.value is not None else memory.ranked
    top, ascending = clause.side == "top", None
    if clause.place and clause.value is None and memory.ascending is not None and memory.ascending == subject:
        if clause.amount is None or (top and not negated):
            return None
        top, ascending = not top, memory.ascending
    if not isinstance(subject, Node) or not (subject.name in _RANKED or is_field(subject)):
        return None
    if clause.side == "bottom" and not clause.place:
        ascending = subject
    value, top = (subject.operands[0], not top) if subject.name == "neg" else (subject, top)
    rank = _amount_of(clause, value, memory, top=top)
    if rank is None:
        return None
    return rank, replace(memory, left=subject, right=None, ranked=subject, rank=rank, ascending=ascending)


_RANKED = ("change", "neg", "rsi", "volume")


def _amount_of(clause: RankClause, value: Node, memory: Memory, *, top: bool) -> Node | None:
    """The rank with its amount, or with that of the other end that was named before."""
    if clause.amount is not None:
        return ranked(value, top=top, amount=clause.amount, unit=clause.unit)
    if memory.rank is None or rank_of(memory.rank) != (value, not top):
        return None
    place, amount = memory.rank.operands
    return ranked(value, top=top, amount=amount.constant, unit="count" if place.name == "rank" else "percent")


def _node(clause: NodeClause, memory: Memory) -> Resolved | None:
    """A node over clauses, each of which may leave out what those before it name."""
    parts: list[Node] = []
    for part in clause.parts:
        found = resolve(part, memory, negated=clause.name == "not")
        if found is None:
            return None
        condition, memory = found
        parts.append(condition)
    if clause.sessions is not None and any(map(has_event, parts)):
        return None  # a cross does not last for days
    return make(clause.name, *parts, *([] if clause.sessions is None else [clause.sessions])), memory


def resolve(clause: Clause, memory: Memory, *, negated: bool = False) -> Resolved | None:
    """The condition of a clause and the memory after it; None if it is ambiguous."""
    match clause:
        case CompareClause():
            return _compare(clause, memory)
        case CrossClause():
            return _turn(clause, memory)
        case RankClause():
            return _rank(clause, memory, negated=negated)
        case NodeClause():
            return _node(clause, memory)
        case Node():
            return clause, memory
