"""Parse tokens into values and clauses, every way they can be read; accept exactly one meaning.

The parsers are generators of ``(value, next place)`` and yield every parse; a sentence is accepted only if it
has exactly one meaning. Words that it leaves out (``下穿卖出``) are None here; :mod:`.meaning` completes them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from quantgraph.rules import Node, make, number
from quantgraph.sentences._rules import (
    AVERAGES,
    BANDS,
    CLOSE,
    KDJ_LINES,
    MACD_LINES,
    VOLUME,
    average,
    extreme,
    is_extreme,
)
from quantgraph.sentences._text import Token

Side = Literal["upper", "middle", "lower"]


@dataclass(frozen=True, kw_only=True)
class Bare:
    """A number of days whose average the other side names: ``5日上穿20日均线``."""

    period: int


@dataclass(frozen=True, kw_only=True)
class BandSide:
    """A side of a band; the sentence must have named the Bollinger band before."""

    side: Side


@dataclass(frozen=True, kw_only=True)
class Group:
    """An indicator with two lines, without its line: MACD, KDJ, or Bollinger."""

    left: Node
    right: Node


@dataclass(frozen=True, kw_only=True)
class Level:
    """A number with its unit: ``plain``, ``percent``, ``yi`` (a hundred million), ``zero`` (an axis), ``hands``.

    The zero of a ``sign`` is for values that have one, the level of a ``zone`` for RSI.
    """

    value: float
    unit: str


Operand = Node | Bare | BandSide | Group | Level
OperandParse = tuple[Operand, int]

_AVERAGES = {"MA": "sma", "EMA": "ema"}


def kind_at(tokens: Sequence[Token], at: int) -> str:
    """Kind of the token at a place; empty behind the end."""
    return tokens[at].kind if at < len(tokens) else ""


def _whole(token: Token) -> int | None:
    return int(token.value) if token.value == int(token.value) and token.value >= 1 else None


def params_at(tokens: Sequence[Token], at: int) -> tuple[list[float], int]:
    """Numbers in brackets at a place, and the place behind; -1 for brackets with other content."""
    if kind_at(tokens, at) != "LP":
        return [], at
    numbers: list[float] = []
    at += 1
    while kind_at(tokens, at) in ("NUM", "DAYS"):
        numbers.append(tokens[at].value)
        at += 1
        if kind_at(tokens, at) == "SEP" and tokens[at].text in (",", "、"):
            at += 1
    return (numbers, at + 1) if numbers and kind_at(tokens, at) == "RP" else ([], -1)


def _all_whole(numbers: list[float]) -> bool:
    return all(number == int(number) and number >= 1 for number in numbers)


def averages(tokens: Sequence[Token], at: int) -> Iterator[tuple[Node, int]]:
    """``20日均线``, ``EMA12``, ``SMA(5)``, ``5日均量``, ``20-day volume average``."""
    here, then = kind_at(tokens, at), kind_at(tokens, at + 1)
    if here in ("DAYS", "NUM") and (days := _whole(tokens[at])) is not None:
        if then in _AVERAGES:
            yield average(days, _AVERAGES[then]), at + 2
        elif then == "LINE" and here == "DAYS":
            yield average(days), at + 2
        elif then == "VOLAVG":
            yield average(days, of=VOLUME), at + 2
        elif then == "VOL" and kind_at(tokens, at + 2) in _AVERAGES:
            yield average(days, _AVERAGES[kind_at(tokens, at + 2)], VOLUME), at + 3
    if here in _AVERAGES:
        if then in ("NUM", "DAYS") and (days := _whole(tokens[at + 1])) is not None:
            yield average(days, _AVERAGES[here]), at + 2
        numbers, end = params_at(tokens, at + 1)
        if len(numbers) == 1 and _all_whole(numbers):
            yield average(numbers[0], _AVERAGES[here]), end


def pairs(tokens: Sequence[Token], at: int) -> Iterator[tuple[tuple[Node, Node], int]]:
    """Two averages named together: ``5日和20日均线``, ``50/200 SMA``, ``MA5与MA20``, ``SMA(5,20)``."""
    joins = ("AND", "SLASH")
    for first, middle in averages(tokens, at):
        behind = middle + 1 if kind_at(tokens, middle) in (*joins, "SEP") else middle
        for second, end in averages(tokens, behind):
            yield (first, second), end
    if kind_at(tokens, at) in ("DAYS", "NUM") and (days := _whole(tokens[at])) is not None:
        joined = kind_at(tokens, at + 1) in (*joins, "SEP")
        if joined or kind_at(tokens, at) == "DAYS":
            for second, end in averages(tokens, at + 1 + joined):
                yield (average(days, second.name, second.operands[0]), second), end
    if kind_at(tokens, at) in ("MA", "EMA"):
        kind = _AVERAGES[kind_at(tokens, at)]
        numbers, end = params_at(tokens, at + 1)
        if not numbers and kind_at(tokens, at + 1) == "NUM" and kind_at(tokens, at + 2) in joins:
            numbers, end = [token.value for token in tokens[at + 1 : at + 4 : 2]], at + 4
        if len(numbers) == 2 and _all_whole(numbers):
            first, second = (average(days, kind) for days in numbers)
            yield (first, second), end


def _scaled(tokens: Sequence[Token], at: int) -> Iterator[OperandParse]:
    if kind_at(tokens, at) == "TIMES":
        for value, end in averages(tokens, at + 1):
            yield make("mul", number(tokens[at].value), value), end
    for value, end in averages(tokens, at):
        if kind_at(tokens, end) == "TIMES":
            yield make("mul", number(tokens[end].value), value), end + 1


def _of_bar(tokens: Sequence[Token], at: int) -> Iterator[OperandParse]:
    if kind_at(tokens, at) == "PRICE":
        yield CLOSE, at + 1
        for value, end in averages(tokens, at + 1):
            if value.operands[0] == CLOSE:
                yield value, end
    if kind_at(tokens, at) == "VOL":
        yield VOLUME, at + 1
        for value, end in averages(tokens, at + 1):
            yield make(value.name, VOLUME, value.args[1]), end


def _rsi(tokens: Sequence[Token], at: int) -> Iterator[OperandParse]:
    ahead = kind_at(tokens, at) in ("DAYS", "NUM") and (_whole(tokens[at]) or 0) >= 2
    if ahead and kind_at(tokens, at + 1) == "RSI":
        yield make("rsi", tokens[at].value), at + 2
    if kind_at(tokens, at) != "RSI":
        return
    yield make("rsi"), at + 1
    numbers, end = params_at(tokens, at + 1)
    if not numbers and kind_at(tokens, at + 1) in ("NUM", "DAYS"):
        numbers, end = [tokens[at + 1].value], at + 2
    if len(numbers) == 1 and _all_whole(numbers) and numbers[0] >= 2:
        yield make("rsi", numbers[0]), end


def _group(tokens: Sequence[Token], at: int) -> Iterator[tuple[Group, int]]:
    name = kind_at(tokens, at)
    if name not in ("MACD", "KDJ"):
        return
    numbers, end = params_at(tokens, at + 1)
    if end < 0 or (numbers and (len(numbers) != 3 or not _all_whole(numbers))):
        return
    if name == "MACD" and (not numbers or numbers[0] != numbers[1]):
        yield Group(left=make("dif", *numbers[:2]), right=make("dea", *numbers)), end
    if name == "KDJ":
        yield Group(left=make("kdj_k", *numbers[:2]), right=make("kdj_d", *numbers)), end


_LINE_KINDS = {"K": "kdj_k", "D": "kdj_d", "J": "kdj_j", "DIF": "dif", "LINE": "dif", "DEA": "dea"}


def _of_group(tokens: Sequence[Token], at: int) -> Iterator[OperandParse]:
    """A group, a line behind the group's name (``KDJ的J值``), or a line alone (``J值``)."""
    for group, end in _group(tokens, at):
        yield group, end
        behind = kind_at(tokens, end)
        if group.left.name == "dif" and behind == "HIST":
            yield make("macd", *group.right.args), end + 1
        elif (line := _LINE_KINDS.get(behind, "")) and (line in MACD_LINES) == (group.left.name == "dif"):
            yield make(line, *group.right.args[: 2 if line in ("kdj_k", "dif") else 3]), end + 1
    here = kind_at(tokens, at)
    if here in _LINE_KINDS and here != "LINE":
        yield make(_LINE_KINDS[here]), at + 1


_SIDES: dict[str, Side] = {"UPPER": "upper", "MIDDLE": "middle", "LOWER": "lower"}


def band_words(tokens: Sequence[Token], at: int) -> tuple[Side | None, bool, list[float], int]:
    """Side, whether Bollinger is named, parameters, and the next place (-1 for brackets without parameters)."""
    start, named = at, False
    side: Side | None = None
    numbers: list[float] = []
    if kind_at(tokens, at) == "DAYS" and kind_at(tokens, at + 1) in ("BOLL", *_SIDES):
        numbers, at = [tokens[at].value], at + 1
    while at >= 0:
        here = kind_at(tokens, at)
        if here == "BOLL" and not named:
            named, at = True, at + 1
        elif here in _SIDES and not side:
            side, at = _SIDES[here], at + 1
        elif here == "LP" and not numbers and at > start:
            numbers, at = params_at(tokens, at)
        else:
            break
    return side, named, numbers, at


def upper_band(numbers: Sequence[float]) -> Node | None:
    """The upper Bollinger band of a period and a width, as far as they are named; None if they are not possible."""
    period, width = (*numbers, *(20.0, 2.0)[len(numbers) :])[:2]
    if len(numbers) > 2 or period != int(period) or period < 2 or width <= 0:
        return None
    return make("boll_upper", period, width)


def band_side(side: Side, band: Node) -> Node:
    """A side of Bollinger bands: the average in their middle, or an outer one."""
    return make("sma", CLOSE, band.args[0]) if side == "middle" else make(f"boll_{side}", *band.args)


def _band(tokens: Sequence[Token], at: int) -> Iterator[OperandParse]:
    """Bollinger, side and parameters in any order; a side alone is a :class:`BandSide`."""
    side, named, numbers, end = band_words(tokens, at)
    if end < 0:
        return
    if side and not named and not numbers:
        yield BandSide(side=side), end
    if not named or (upper := upper_band(numbers)) is None:
        return
    if side:
        yield band_side(side, upper), end
    else:
        yield Group(left=upper, right=band_side("lower", upper)), end


def _over_days(tokens: Sequence[Token], at: int) -> Iterator[OperandParse]:
    """Returns, falls and extremes, which need a number of days; bare momentum is of 20 days."""
    if kind_at(tokens, at) == "MOMENTUM":
        yield make("change", CLOSE, 20.0), at + 1
    for days_at, word_at in ((at, at + 1), (at + 1, at)):
        if kind_at(tokens, days_at) != "DAYS" or (days := _whole(tokens[days_at])) is None:
            continue
        word = kind_at(tokens, word_at)
        if word in ("RETURN", "MOMENTUM"):
            yield make("change", CLOSE, float(days)), at + 2
        elif word == "LOSS":
            yield make("neg", make("change", CLOSE, float(days))), at + 2
        elif word in ("HIGHN", "LOWN"):
            yield extreme("high" if word == "HIGHN" else "low", days), at + 2


_SIZES = {"万": 1e4, "亿": 1e8, "thousand": 1e3, "m": 1e6, "k": 1e3}


def _level(tokens: Sequence[Token], at: int) -> Iterator[tuple[Level, int]]:
    units = {"NUM": "plain", "PCT": "percent", "YI": "yi", "ZERO": "zero"}
    here = kind_at(tokens, at)
    if here in units:
        yield Level(value=tokens[at].value, unit=units[here]), at + 1
    text = tokens[at].text.lower() if here in ("SHARES", "COUNT") else ""
    if here == "SHARES" or "share" in text:  # 3万手, 2 million shares
        factor = next((size for mark, size in _SIZES.items() if mark in text), 1.0)
        shares = 100 if any(mark in text for mark in ("手", "hand", "lot")) else 1
        yield Level(value=tokens[at].value * factor * shares / 100, unit="hands"), at + 1


def _by_name(tokens: Sequence[Token], at: int) -> Iterator[OperandParse]:
    """A daily indicator, or days alone."""
    here = kind_at(tokens, at)
    if here.startswith("FIELD:"):
        yield make(here.removeprefix("FIELD:")), at + 1
    if here == "DAYS" and (days := _whole(tokens[at])) is not None:
        yield Bare(period=days), at + 1


def operands(tokens: Sequence[Token], at: int) -> Iterator[OperandParse]:
    """Every parse of a value that starts at a place."""
    yield from averages(tokens, at)
    for reader in (_scaled, _of_bar, _rsi, _of_group, _band, _over_days, _level, _by_name):
        yield from reader(tokens, at)


@dataclass(frozen=True, kw_only=True)
class CompareClause:
    """A comparison ``left word right``; None for a part that the sentence leaves out.

    ``percent`` is how far beyond the right side (``低于60日线10%``).
    """

    left: Operand | None
    word: str
    right: Operand | None
    percent: float | None = None


@dataclass(frozen=True, kw_only=True)
class CrossClause:
    """A golden (up) or a death (down) cross of two lines, both beyond a level if there is one."""

    up: bool
    left: Operand | None = None
    right: Operand | None = None
    beyond: tuple[str, Level] | None = None


@dataclass(frozen=True, kw_only=True)
class RankClause:
    """The top or the bottom of a ranking by a value; without an amount, the previous rank's.

    ``place`` is True for places of a ranking from either end (``前20``), False for the end itself (``最低``,
    ``top``).
    """

    value: Operand | None
    side: Literal["top", "bottom"]
    amount: float | None
    unit: Literal["percent", "count"]
    place: bool = False


@dataclass(frozen=True, kw_only=True)
class NodeClause:
    """A node of the language over the conditions of other clauses: ``not``, ``and``, ``or``, ``streak``, ``within``."""

    name: str
    parts: tuple[Clause, ...]
    sessions: float | None = None


Clause = CompareClause | CrossClause | RankClause | NodeClause | Node
Parse = tuple[Clause, int]
Tokens = Sequence[Token]

_WORDS = ("CROSS_UP", "CROSS_DOWN", "BREAK_UP", "BREAK_DOWN", "ABOVE", "BELOW", "GE", "LE")
_PLACES = ("前", "后", "末", "倒数")
_STATES = {
    "POSITIVE": ("ABOVE", 0.0, "sign"), "NEGATIVE": ("BELOW", 0.0, "sign"),
    "TURNS_UP": ("CROSS_UP", 0.0, "sign"), "TURNS_DOWN": ("CROSS_DOWN", 0.0, "sign"),
    "OVERSOLD": ("BELOW", 30.0, "zone"), "OVERBOUGHT": ("ABOVE", 70.0, "zone"),
}  # fmt: skip
"""States of a value by the comparison that they mean."""


_WRAPS = ("NOT", "STREAK")


def _wrapped(clause: Clause, token: Token) -> NodeClause:
    """A clause with *not* or *for 3 days* around it."""
    if token.kind == "NOT":
        return NodeClause(name="not", parts=(clause,))
    return NodeClause(name="streak", parts=(clause,), sessions=token.value)


def _optional(tokens: Tokens, at: int) -> Iterator[tuple[Operand | None, int]]:
    yield None, at
    yield from operands(tokens, at)


def _compares(tokens: Tokens, at: int) -> Iterator[Parse]:
    for left, behind in _optional(tokens, at):
        wraps = left is not None and kind_at(tokens, behind) in _WRAPS
        for clause, end in _of_left(tokens, left, behind + wraps):
            yield (_wrapped(clause, tokens[behind]) if wraps else clause), end


def _of_left(tokens: Tokens, left: Operand | None, at: int) -> Iterator[Parse]:
    """The comparisons of a left side, from the place behind it."""
    word = kind_at(tokens, at)
    if word in _WORDS:
        for right, end in _optional(tokens, at + 1):
            clause = CompareClause(left=left, word=word, right=right)
            yield clause, end
            if kind_at(tokens, end) == "PCT" and word in _BEYOND:
                yield replace(clause, percent=tokens[end].value), end + 1
    if word == "RANGE" and (range_ := _range(left, tokens[at].text)) is not None:
        yield range_, at + 1
    if word in _STATES:
        comparison, level, unit = _STATES[word]
        yield CompareClause(left=left, word=comparison, right=Level(value=level, unit=unit)), at + 1
    yield from _far(tokens, left, at)
    yield from _postfix(tokens, left, at)


_BEYOND = ("ABOVE", "BELOW", "BREAK_UP", "BREAK_DOWN")


def _far(tokens: Tokens, left: Operand | None, at: int) -> Iterator[Parse]:
    """``5% below the 10-day high``, *at least 5% below*; *at most* and *less than* are not read."""
    least = {"GE": True, "ABOVE": False}.get(kind_at(tokens, at))
    place = at if least is None else at + 1
    word = kind_at(tokens, place + 1)
    if kind_at(tokens, place) == "PCT" and word in ("ABOVE", "BELOW"):
        word = {"ABOVE": "GE", "BELOW": "LE"}[word] if least else word
        for right, end in operands(tokens, place + 2):
            yield CompareClause(left=left, word=word, right=right, percent=tokens[place].value), end


def _range(left: Operand | None, text: str) -> Clause | None:
    """``30到50之间``: above the lower and below the upper number, both in the same unit."""
    (low, first), (high, second) = re.findall(r"(\d+(?:\.\d+)?)\s*(%?)", text)  # "30%到50%"
    if float(low) >= float(high) or (first and not second):
        return None
    levels = [Level(value=float(each), unit="percent" if second else "plain") for each in (low, high)]
    sides = zip(("ABOVE", "BELOW"), levels, strict=True)
    parts = tuple(CompareClause(left=left, word=word, right=level) for word, level in sides)
    return NodeClause(name="and", parts=parts)


def _new_extremes(tokens: Tokens, at: int) -> Iterator[Parse]:
    """``60日新高``, ``makes a new 20-day high``: a breakout without a comparison."""
    for left, middle in _optional(tokens, at):
        made = kind_at(tokens, middle) == "MAKES"
        for value, end in operands(tokens, middle + made):
            new = made or any("新" in token.text for token in tokens[middle:end])
            if isinstance(value, Node) and is_extreme(value) and new:
                word = "BREAK_UP" if value.operands[0].name == "highest" else "BREAK_DOWN"
                yield CompareClause(left=left, word=word, right=value), end


def _postfix(tokens: Tokens, left: Operand | None, at: int) -> Iterator[Parse]:
    """``20日均线之上``, ``30以下``: the comparison follows the value."""
    for right, end in operands(tokens, at):
        if kind_at(tokens, end) in ("POST_UP", "POST_DOWN"):
            word = "ABOVE" if kind_at(tokens, end) == "POST_UP" else "BELOW"
            yield CompareClause(left=left, word=word, right=right), end + 1


def line_pairs(tokens: Tokens, at: int) -> Iterator[tuple[tuple[Operand, Operand], int]]:
    """Two lines that may cross: two averages, the lines of MACD or KDJ, or two lines by name."""
    yield from pairs(tokens, at)
    for left, middle in operands(tokens, at):
        if isinstance(left, Group) and left.left.name not in BANDS:
            yield (left.left, left.right), middle
        for lines in (MACD_LINES, KDJ_LINES):
            if isinstance(left, Node) and left.name in lines and kind_at(tokens, middle) == "AND":
                for right, end in operands(tokens, middle + 1):
                    if isinstance(right, Node) and right.name in lines:
                        yield (left, right), end


def _crosses(tokens: Tokens, at: int) -> Iterator[Parse]:
    for clause, end in _plain_crosses(tokens, at):
        yield clause, end
        if kind_at(tokens, end) in ("ABOVE", "BELOW"):  # golden cross below 20
            for level, behind in _level(tokens, end + 1):
                yield replace(clause, beyond=(kind_at(tokens, end), level)), behind
    for group, middle in [*_group(tokens, at), (None, at)]:
        for level, end in _level(tokens, middle):  # KDJ20以下金叉
            word, cross = kind_at(tokens, end), kind_at(tokens, end + 1)
            if word in ("POST_UP", "POST_DOWN") and cross in ("GOLDEN", "DEATH"):
                beyond = ("ABOVE" if word == "POST_UP" else "BELOW", level)
                left, right = (group.left, group.right) if group else (None, None)
                yield CrossClause(up=cross == "GOLDEN", left=left, right=right, beyond=beyond), end + 2


def _plain_crosses(tokens: Tokens, at: int) -> Iterator[tuple[CrossClause, int]]:
    here = kind_at(tokens, at)
    if here in ("GOLDEN", "DEATH"):
        yield CrossClause(up=here == "GOLDEN"), at + 1
        for (left, right), end in line_pairs(tokens, at + 1):
            yield CrossClause(up=here == "GOLDEN", left=left, right=right), end
    for group, middle in _group(tokens, at):
        if kind_at(tokens, middle) in ("CROSS_UP", "CROSS_DOWN") and kind_at(tokens, middle + 1) == "DEA":
            up = kind_at(tokens, middle) == "CROSS_UP"
            yield CrossClause(up=up, left=group.left, right=group.right), middle + 2
    for (left, right), end in line_pairs(tokens, at):
        behind = kind_at(tokens, end)
        if behind in ("GOLDEN", "DEATH"):
            yield CrossClause(up=behind == "GOLDEN", left=left, right=right), end + 1
    for one, middle in operands(tokens, at):
        behind = kind_at(tokens, middle)
        if isinstance(one, Node) and one.name in AVERAGES and behind in ("GOLDEN", "DEATH"):
            for other, end in averages(tokens, middle + 1):
                yield CrossClause(up=behind == "GOLDEN", left=one, right=other), end


def _amount(tokens: Tokens, at: int) -> tuple[float, Literal["percent", "count"]] | None:
    here = kind_at(tokens, at)
    if here == "PCT" and 0 < tokens[at].value < 100:
        return tokens[at].value, "percent"
    if here in ("NUM", "COUNT") and tokens[at].value >= 1 and tokens[at].value == int(tokens[at].value):
        return tokens[at].value, "count"
    return None


def _ranks(tokens: Tokens, at: int) -> Iterator[Parse]:
    for value, middle in _optional(tokens, at):
        if isinstance(value, Level):
            continue
        negated = value is not None and kind_at(tokens, middle) == "NOT"
        for clause, end in _ranked(tokens, value, middle + negated):
            yield (_wrapped(clause, tokens[middle]) if negated else clause), end


def _ranked(tokens: Tokens, value: Operand | None, at: int) -> Iterator[Parse]:
    """``top 20%``, ``top 20% by value``, ``lowest value 20%``, ``最低的前20%``."""
    here = kind_at(tokens, at)
    if here not in ("TOP", "BOTTOM"):
        return
    side: Literal["top", "bottom"] = "top" if here == "TOP" else "bottom"
    place = any(word in tokens[at].text for word in _PLACES)
    at += 1
    if kind_at(tokens, at) == "TOP" and tokens[at].text.endswith("前"):
        at += 1
    yield RankClause(value=value, side=side, amount=None, unit="percent", place=place), at
    for between, middle in _optional(tokens, at) if value is None else ((None, at),):
        amount = _amount(tokens, middle)
        if amount is None or isinstance(between, Level):
            continue
        by = value if between is None else between
        clause = RankClause(value=by, side=side, amount=amount[0], unit=amount[1], place=place)
        yield clause, middle + 1
        if by is None:
            for behind, end in operands(tokens, middle + 1):
                if not isinstance(behind, Level):
                    yield replace(clause, value=behind), end


_PREVIOUS = make("ago", CLOSE, 1.0)
_CONDITIONS = {
    "UP_DAY": make("gt", CLOSE, _PREVIOUS), "DOWN_DAY": make("lt", CLOSE, _PREVIOUS),
    "UP_CANDLE": make("gt", CLOSE, make("open")), "DOWN_CANDLE": make("lt", CLOSE, make("open")),
    "LIMIT_UP": make("limit_up"), "LIMIT_DOWN": make("limit_down"),
}  # fmt: skip
"""Words that are a condition by themselves."""


def _candles(token: Token) -> Node | None:
    """``3阴1阳``: three down candles, then an up candle today."""
    (first, one), (second, other) = re.findall(r"(\d+)([阴阳])", token.text)  # "3阴1阳"
    before, today = (
        make("streak", _CONDITIONS["UP_CANDLE" if side == "阳" else "DOWN_CANDLE"], float(days))
        for days, side in ((first, one), (second, other))
    )
    today = today.operands[0] if second == "1" else today
    return None if one == other else make("and", make("was", before, float(second)), today)


def _one(tokens: Tokens, at: int) -> Iterator[Parse]:
    for clause, end in _single(tokens, at):
        yield clause, end
        if kind_at(tokens, end) == "STREAK":  # closes lower for 3 straight days
            yield _wrapped(clause, tokens[end]), end + 1


def _single(tokens: Tokens, at: int) -> Iterator[Parse]:
    here = kind_at(tokens, at)
    named = at + (here == "PRICE")
    if condition := _CONDITIONS.get(kind_at(tokens, named)):
        yield condition, named + 1
    if here == "CANDLES" and (candles := _candles(tokens[at])) is not None:
        yield candles, at + 1
    if here in _WRAPS:
        for clause, end in (_single if here == "STREAK" else _one)(tokens, at + 1):
            yield _wrapped(clause, tokens[at]), end
    if here == "LP":
        yield from ((clause, end + 1) for clause, end in _any(tokens, at + 1) if kind_at(tokens, end) == "RP")
    for reader in (_compares, _new_extremes, _crosses, _ranks):
        yield from reader(tokens, at)


def _chain(
    tokens: Tokens, at: int, part: Callable[[Tokens, int], Iterator[Parse]], kind: str, name: str
) -> Iterator[Parse]:
    for first, middle in part(tokens, at):
        yield first, middle
        if kind_at(tokens, middle) == kind:
            for rest, end in _chain(tokens, middle + 1, part, kind, name):
                flat = rest.parts if isinstance(rest, NodeClause) and rest.name == name else (rest,)
                if not (_is_loose(first, tokens[at]) or _is_loose(flat[-1], tokens[end - 1])):
                    yield NodeClause(name=name, parts=(first, *flat)), end


def _is_loose(clause: Clause, token: Token) -> bool:
    """Whether *for 3 days* at an end of joined clauses may be of all of them."""
    if token.kind != "STREAK" or not isinstance(clause, NodeClause) or clause.name != "streak":
        return False
    return not isinstance(clause.parts[0], Node)


def _all(tokens: Tokens, at: int) -> Iterator[Parse]:
    yield from _chain(tokens, at, _one, "AND", "and")


def _any(tokens: Tokens, at: int) -> Iterator[Parse]:
    yield from _chain(tokens, at, _all, "OR", "or")


def parse_clause(tokens: Tokens) -> Iterator[Clause]:
    """Every parse of all tokens; *and* binds before *or*."""
    for clause, end in _any(tokens, 0):
        if end == len(tokens):
            yield clause
