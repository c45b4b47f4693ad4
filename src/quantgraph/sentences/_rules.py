"""A trading rule as a tree: values, conditions on them, and the pair of entry and exit.

Every value is a wide frame of the panel (sessions by ``ts_code``); every condition is a frame of
booleans. The docstrings here define each node.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

Operator = Literal[">", "<", ">=", "<="]
Side = Literal["upper", "middle", "lower"]


@dataclass(frozen=True, kw_only=True)
class Bar:
    """A field of the daily bar."""

    field: Literal["close", "vol"] = "close"


@dataclass(frozen=True, kw_only=True)
class Average:
    """Moving average of a bar field: ``sma`` rolling mean, ``ema`` recursive with ``2 / (n + 1)``."""

    kind: Literal["sma", "ema"] = "sma"
    period: int
    field: Literal["close", "vol"] = "close"


@dataclass(frozen=True, kw_only=True)
class Rsi:
    """Relative strength index with Wilder smoothing, 0 to 100."""

    period: int = 14


@dataclass(frozen=True, kw_only=True)
class Macd:
    """``dif`` = EMA(fast) - EMA(slow); ``dea`` = EMA(signal) of dif."""

    part: Literal["dif", "dea"]
    fast: int = 12
    slow: int = 26
    signal: int = 9


@dataclass(frozen=True, kw_only=True)
class Band:
    """Bollinger band: rolling mean plus or minus ``width`` population standard deviations."""

    side: Side
    period: int = 20
    width: float = 2.0


@dataclass(frozen=True, kw_only=True)
class Kdj:
    """Stochastic of Chinese software: K and D smooth by 1/3 from 50, J = 3K - 2D."""

    part: Literal["k", "d", "j"]
    period: int = 9
    smooth_k: int = 3
    smooth_d: int = 3


@dataclass(frozen=True, kw_only=True)
class Return:
    """Close over the close ``period`` sessions earlier, minus one."""

    period: int = 20


@dataclass(frozen=True, kw_only=True)
class Extreme:
    """Highest high or lowest low of the ``period`` sessions before the current session."""

    side: Literal["high", "low"]
    period: int


@dataclass(frozen=True, kw_only=True)
class Indicator:
    """A daily indicator in tushare's name and unit."""

    field: str


@dataclass(frozen=True, kw_only=True)
class Number:
    """A constant."""

    value: float


@dataclass(frozen=True, kw_only=True)
class Scaled:
    """A multiple of an average."""

    factor: float
    value: Average


Value = Bar | Average | Rsi | Macd | Band | Kdj | Return | Extreme | Indicator | Number | Scaled


@dataclass(frozen=True, kw_only=True)
class Compare:
    """A state: holds on every session where the comparison holds."""

    left: Value
    op: Operator
    right: Value


@dataclass(frozen=True, kw_only=True)
class Cross:
    """An event: up at *t* means ``left > right`` at *t* and ``left <= right`` at *t - 1*."""

    left: Value
    direction: Literal["up", "down"]
    right: Value


@dataclass(frozen=True, kw_only=True)
class Rank:
    """The best or worst share (percent) or number of all symbols with a value that session.

    Symbols that tie across the border are out.
    """

    value: Value
    side: Literal["top", "bottom"]
    amount: float
    unit: Literal["percent", "count"]


@dataclass(frozen=True, kw_only=True)
class AllOf:
    """Holds where all parts hold."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True, kw_only=True)
class AnyOf:
    """Holds where at least one part holds."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True, kw_only=True)
class Not:
    """Holds where all values are known and the part does not hold."""

    part: Condition


@dataclass(frozen=True, kw_only=True)
class OfIndex:
    """Holds for every symbol on the sessions where a condition on the closes of an index holds."""

    code: str
    part: Condition


Condition = Compare | Cross | Rank | AllOf | AnyOf | Not | OfIndex


NEVER = Compare(left=Bar(), op="<", right=Number(value=0.0))
"""The exit of a rule that never sells."""


@dataclass(frozen=True, kw_only=True)
class TradingRule:
    """Signal 1 where ``entry`` holds, -1 where ``exit`` holds (exit wins), NaN until all values are known."""

    entry: Condition
    exit: Condition


_REVERSED: dict[Operator, Operator] = {">": "<", ">=": "<", "<": ">", "<=": ">"}


def leaves_of(condition: Condition) -> Iterator[Compare | Cross | Rank]:
    """The comparisons, crosses and ranks of a condition, in reading order."""
    match condition:
        case AllOf(parts=parts) | AnyOf(parts=parts):
            for part in parts:
                yield from leaves_of(part)
        case Not(part=part) | OfIndex(part=part):
            yield from leaves_of(part)
        case _:
            yield condition


def index_conditions(rule: TradingRule) -> tuple[OfIndex, ...]:
    """The conditions of a rule on an index, in reading order, each once."""
    return tuple(dict.fromkeys(each for side in (rule.entry, rule.exit) for each in _of_index(side)))


def _of_index(condition: Condition) -> Iterator[OfIndex]:
    match condition:
        case AllOf(parts=parts) | AnyOf(parts=parts):
            for part in parts:
                yield from _of_index(part)
        case OfIndex():
            yield condition


def _ranks_of(condition: Condition, *, negated: bool) -> Iterator[tuple[Rank, bool]]:
    match condition:
        case AllOf(parts=parts) | AnyOf(parts=parts):
            for part in parts:
                yield from _ranks_of(part, negated=negated)
        case Not(part=part):
            yield from _ranks_of(part, negated=not negated)
        case Rank():
            yield condition, negated


def bought_count(rule: TradingRule) -> int | None:
    """How many symbols a ranking of the entry picks; None if there is none by number."""
    picked = [rank.amount for rank, negated in _ranks_of(rule.entry, negated=False) if not negated]
    units = {rank.unit for rank, _ in _ranks_of(rule.entry, negated=False)}
    return int(max(picked)) if picked and units == {"count"} else None


def contradicts(entry: Condition, exit_: Condition) -> bool:
    """Whether the exit sells what is not in the opposite end of the ranking that the entry buys.

    The lowest 10 are hardly ever in the top 20, so *not in the top 20* would sell them at once.
    """
    bought = {(rank.value, rank.side) for rank, negated in _ranks_of(entry, negated=False) if not negated}
    kept = {(rank.value, rank.side) for rank, negated in _ranks_of(exit_, negated=False) if negated}
    turned = {(value, "bottom" if side == "top" else "top") for value, side in kept}
    return bool(turned & bought) and not kept & bought


def has_event(condition: Condition) -> bool:
    """Whether a cross is part of the condition."""
    return any(isinstance(leaf, Cross) for leaf in leaves_of(condition))


def is_bullish(condition: Condition) -> bool:
    """Whether a condition alone is an event that means a purchase.

    The price or the shorter average crosses above the longer average, the faster line of MACD or KDJ above
    the slower line, DIF above zero, or the price breaks above a high.
    """
    match condition:
        case Cross(left=Bar(field="close"), direction="up", right=Average(field="close")):
            return True
        case Cross(left=Average(field="close") as one, direction="up", right=Average() as other):
            return one.period < other.period
        case Cross(left=Macd(part="dif"), direction="up", right=Macd() | Number(value=0.0)):
            return True
        case Cross(left=Kdj(part=one), direction="up", right=Kdj(part=other)):
            return "jkd".index(one) < "jkd".index(other)
        case Compare(left=Bar(field="close"), op=">", right=Extreme(side="high")):
            return True
    return False


def fields_of(rule: TradingRule) -> tuple[str, ...]:
    """Daily indicators that the rule needs, in reading order. Bars are implied."""
    found: dict[str, None] = {}
    for leaf in (*leaves_of(rule.entry), *leaves_of(rule.exit)):
        values = (leaf.value,) if isinstance(leaf, Rank) else (leaf.left, leaf.right)
        found.update({value.field: None for value in values if isinstance(value, Indicator)})
    return tuple(found)


def _opposite_compare(leaf: Compare) -> Compare:
    turned = replace(leaf, op=_REVERSED[leaf.op])
    match leaf.left, leaf.right:
        case ((Rsi() | Kdj()), Number(value=value)):
            return replace(turned, right=Number(value=100.0 - value))
        case _, (Band(side="upper") as band) if leaf.op in (">", ">="):
            return replace(turned, right=replace(band, side="lower"))
        case _, (Band(side="lower") as band) if leaf.op in ("<", "<="):
            return replace(turned, right=replace(band, side="upper"))
        case _, (Extreme(side="high") as extreme) if leaf.op in (">", ">="):
            return replace(turned, right=replace(extreme, side="low"))
        case _, (Extreme(side="low") as extreme) if leaf.op in ("<", "<="):
            return replace(turned, right=replace(extreme, side="high"))
    return turned


def _has_range(parts: tuple[Condition, ...]) -> bool:
    """Whether two parts are levels of one value in opposite directions, which have no opposites one by one."""
    levels = [part for part in parts if isinstance(part, Compare) and isinstance(part.right, Number)]
    return any(one.left == other.left and one.op[0] != other.op[0] for one in levels for other in levels)


def opposite(condition: Condition) -> Condition | None:
    """The exit of a rule without an exit; None if there is no natural one.

    A cross reverses; a comparison reverses strictly, an oscillator goes to its other end (``RSI < 30`` to
    ``RSI > 70``), a channel to its other side; a rank becomes "no longer in it".
    """
    match condition:
        case Cross(direction=direction):
            return replace(condition, direction="down" if direction == "up" else "up")
        case Compare():
            return _opposite_compare(condition)
        case Rank():
            return Not(part=condition)
        case Not(part=part):
            return part
        case AllOf(parts=parts):
            return _opposite_of_all(parts)
        case AnyOf(parts=parts):
            if has_event(condition):
                return None
            return Not(part=condition) if _has_range(parts) else _join(AllOf, parts)
        case OfIndex():
            return None


def _opposite_of_all(parts: tuple[Condition, ...]) -> Condition | None:
    """Any one opposite is enough; beside an event the rest is a filter of entries, as is what an index does."""
    own = tuple(part for part in parts if not isinstance(part, OfIndex))
    events = tuple(part for part in own if has_event(part))
    if not events and _has_range(own):
        return Not(part=AllOf(parts=own))
    return _join(AnyOf, events or own) if own else None


def _join(kind: type[AllOf | AnyOf], parts: tuple[Condition, ...]) -> Condition | None:
    turned = tuple(other for part in parts if (other := opposite(part)) is not None)
    if len(turned) < len(parts):
        return None
    return turned[0] if len(turned) == 1 else kind(parts=turned)
