"""Parse tokens into values and clauses, every way they can be read; accept exactly one meaning.

The parsers are generators of ``(value, next place)``. The grammar tries all of them and accepts a sentence
only if it has exactly one meaning.

The parser yields every parse. Words that a sentence leaves out (``下穿卖出``) are None here;
:mod:`.meaning` completes them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from quantgraph.sentences._rules import (
    Average,
    Band,
    Bar,
    Extreme,
    Indicator,
    Kdj,
    Macd,
    Return,
    Rsi,
    Scaled,
    Side,
    Value,
)
from quantgraph.sentences._text import Token


@dataclass(frozen=True, kw_only=True)
class Bare:
    """A number of days whose average the other side names: ``5日上穿20日均线``."""

    period: int


@dataclass(frozen=True, kw_only=True)
class BandSide:
    """A side of a band; the sentence must have named the Bollinger band before."""

    side: Side


@dataclass(frozen=True, kw_only=True)
class Falling:
    """A fall over ``period`` sessions as a positive number."""

    period: int


@dataclass(frozen=True, kw_only=True)
class Group:
    """An indicator with two lines, without its line: MACD, KDJ, or Bollinger."""

    left: Macd | Kdj | Band
    right: Macd | Kdj | Band


@dataclass(frozen=True, kw_only=True)
class Histogram:
    """The MACD histogram, which has the sign of ``dif - dea``."""

    lines: Group


@dataclass(frozen=True, kw_only=True)
class Level:
    """A number with its unit: ``plain``, ``percent``, ``yi`` (a hundred million), ``zero`` (an axis), ``hands``."""

    value: float
    unit: str


Operand = Value | Bare | BandSide | Falling | Group | Histogram | Level
OperandParse = tuple[Operand, int]

_AVERAGES: dict[str, Literal["sma", "ema"]] = {"MA": "sma", "EMA": "ema"}
_KDJ_PARTS: dict[str, Literal["k", "d", "j"]] = {"K": "k", "D": "d", "J": "j"}


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


def averages(tokens: Sequence[Token], at: int) -> Iterator[tuple[Average, int]]:
    """``20日均线``, ``EMA12``, ``SMA(5)``, ``5日均量``, ``20-day volume average``."""
    here, then = kind_at(tokens, at), kind_at(tokens, at + 1)
    if here in ("DAYS", "NUM") and (days := _whole(tokens[at])) is not None:
        if then in _AVERAGES:
            yield Average(kind=_AVERAGES[then], period=days), at + 2
        elif then == "LINE" and here == "DAYS":
            yield Average(period=days), at + 2
        elif then == "VOLAVG":
            yield Average(period=days, field="vol"), at + 2
        elif then == "VOL" and kind_at(tokens, at + 2) in _AVERAGES:
            yield Average(kind=_AVERAGES[kind_at(tokens, at + 2)], period=days, field="vol"), at + 3
    if here in _AVERAGES:
        if then in ("NUM", "DAYS") and (days := _whole(tokens[at + 1])) is not None:
            yield Average(kind=_AVERAGES[here], period=days), at + 2
        numbers, end = params_at(tokens, at + 1)
        if len(numbers) == 1 and _all_whole(numbers):
            yield Average(kind=_AVERAGES[here], period=int(numbers[0])), end


def pairs(tokens: Sequence[Token], at: int) -> Iterator[tuple[tuple[Average, Average], int]]:
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
                yield (Average(kind=second.kind, period=days, field=second.field), second), end
    if kind_at(tokens, at) in ("MA", "EMA"):
        kind = _AVERAGES[kind_at(tokens, at)]
        numbers, end = params_at(tokens, at + 1)
        if not numbers and kind_at(tokens, at + 1) == "NUM" and kind_at(tokens, at + 2) in joins:
            numbers, end = (
                [tokens[at + 1].value, tokens[at + 3].value if at + 3 < len(tokens) else 0.0],
                at + 4,
            )
        if len(numbers) == 2 and _all_whole(numbers):
            first, second = (Average(kind=kind, period=int(number)) for number in numbers)
            yield (first, second), end


def _scaled(tokens: Sequence[Token], at: int) -> Iterator[OperandParse]:
    if kind_at(tokens, at) == "TIMES":
        for value, end in averages(tokens, at + 1):
            yield Scaled(factor=tokens[at].value, value=value), end
    for value, end in averages(tokens, at):
        if kind_at(tokens, end) == "TIMES":
            yield Scaled(factor=tokens[end].value, value=value), end + 1


def _of_bar(tokens: Sequence[Token], at: int) -> Iterator[OperandParse]:
    if kind_at(tokens, at) == "PRICE":
        yield Bar(field="close"), at + 1
        for value, end in averages(tokens, at + 1):
            if value.field == "close":
                yield value, end
    if kind_at(tokens, at) == "VOL":
        yield Bar(field="vol"), at + 1
        for value, end in averages(tokens, at + 1):
            yield Average(kind=value.kind, period=value.period, field="vol"), end


def _rsi(tokens: Sequence[Token], at: int) -> Iterator[OperandParse]:
    if kind_at(tokens, at) in ("DAYS", "NUM") and kind_at(tokens, at + 1) == "RSI":
        days = _whole(tokens[at])
        if days is not None and days >= 2:
            yield Rsi(period=days), at + 2
    if kind_at(tokens, at) != "RSI":
        return
    yield Rsi(), at + 1
    numbers, end = params_at(tokens, at + 1)
    if not numbers and kind_at(tokens, at + 1) in ("NUM", "DAYS"):
        numbers, end = [tokens[at + 1].value], at + 2
    if len(numbers) == 1 and _all_whole(numbers) and numbers[0] >= 2:
        yield Rsi(period=int(numbers[0])), end


def _group(tokens: Sequence[Token], at: int) -> Iterator[tuple[Group, int]]:
    name = kind_at(tokens, at)
    if name not in ("MACD", "KDJ"):
        return
    numbers, end = params_at(tokens, at + 1)
    if end < 0 or (numbers and (len(numbers) != 3 or not _all_whole(numbers))):
        return
    a, b, c = (
        (int(number) for number in numbers) if numbers else ((12, 26, 9) if name == "MACD" else (9, 3, 3))
    )
    if name == "MACD" and a != b:
        dif, dea = (Macd(part=part, fast=a, slow=b, signal=c) for part in ("dif", "dea"))
        yield Group(left=dif, right=dea), end
    if name == "KDJ":
        k, d = (Kdj(part=part, period=a, smooth_k=b, smooth_d=c) for part in ("k", "d"))
        yield Group(left=k, right=d), end


def _of_group(tokens: Sequence[Token], at: int) -> Iterator[OperandParse]:
    """A group, a line behind the group's name (``KDJ的J值``), or a line alone (``J值``)."""
    for group, end in _group(tokens, at):
        yield group, end
        behind = kind_at(tokens, end)
        if isinstance(group.left, Kdj) and behind in ("K", "D", "J"):
            left = group.left
            yield _kdj(behind, left.period, left.smooth_k, left.smooth_d), end + 1
        if isinstance(group.left, Macd) and behind in ("DIF", "DEA", "LINE"):
            yield (group.right if behind == "DEA" else group.left), end + 1
        if isinstance(group.left, Macd) and behind == "HIST":
            yield Histogram(lines=group), end + 1
    here = kind_at(tokens, at)
    if here in ("K", "D", "J"):
        yield _kdj(here, 9, 3, 3), at + 1
    if here in ("DIF", "DEA"):
        yield Macd(part="dif" if here == "DIF" else "dea"), at + 1


def _kdj(line: str, period: int, smooth_k: int, smooth_d: int) -> Kdj:
    return Kdj(part=_KDJ_PARTS[line], period=period, smooth_k=smooth_k, smooth_d=smooth_d)


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


def _band(tokens: Sequence[Token], at: int) -> Iterator[OperandParse]:
    """Bollinger, side and parameters in any order; a side alone is a :class:`BandSide`."""
    side, named, numbers, end = band_words(tokens, at)
    if end < 0:
        return
    if side and not named and not numbers:
        yield BandSide(side=side), end
    period = numbers[0] if numbers else 20.0
    width = numbers[1] if len(numbers) == 2 else 2.0
    if not named or len(numbers) > 2 or period != int(period) or period < 2 or width <= 0:
        return
    upper = Band(side="upper", period=int(period), width=width)
    if side:
        yield replace(upper, side=side), end
    else:
        yield Group(left=upper, right=replace(upper, side="lower")), end


def _over_days(tokens: Sequence[Token], at: int) -> Iterator[OperandParse]:
    """Returns, falls and extremes, which need a number of days; bare momentum is of 20 days."""
    if kind_at(tokens, at) == "MOMENTUM":
        yield Return(), at + 1
    for days_at, word_at in ((at, at + 1), (at + 1, at)):
        if kind_at(tokens, days_at) != "DAYS":
            continue
        days = _whole(tokens[days_at])
        word = kind_at(tokens, word_at)
        if days is None:
            continue
        if word in ("RETURN", "MOMENTUM"):
            yield Return(period=days), at + 2
        elif word == "LOSS":
            yield Falling(period=days), at + 2
        elif word in ("HIGHN", "LOWN"):
            yield Extreme(side="high" if word == "HIGHN" else "low", period=days), at + 2


_SIZES = {"万": 1e4, "亿": 1e8, "thousand": 1e3, "m": 1e6, "k": 1e3}


def _level(tokens: Sequence[Token], at: int) -> Iterator[OperandParse]:
    units = {"NUM": "plain", "PCT": "percent", "YI": "yi", "ZERO": "zero"}
    here = kind_at(tokens, at)
    if here in units:
        yield Level(value=tokens[at].value, unit=units[here]), at + 1
    text = tokens[at].text.lower() if here in ("SHARES", "COUNT") else ""
    if here == "SHARES" or "share" in text:  # 3万手, 2 million shares
        factor = next((size for mark, size in _SIZES.items() if mark in text), 1.0)
        shares = 100 if any(mark in text for mark in ("手", "hand", "lot")) else 1
        yield Level(value=tokens[at].value * factor * shares / 100, unit="hands"), at + 1


def _field(tokens: Sequence[Token], at: int) -> Iterator[OperandParse]:
    here = kind_at(tokens, at)
    if here.startswith("FIELD:"):
        yield Indicator(field=here.removeprefix("FIELD:")), at + 1


def _bare(tokens: Sequence[Token], at: int) -> Iterator[OperandParse]:
    if kind_at(tokens, at) == "DAYS" and (days := _whole(tokens[at])) is not None:
        yield Bare(period=days), at + 1


def operands(tokens: Sequence[Token], at: int) -> Iterator[OperandParse]:
    """Every parse of a value that starts at a place."""
    yield from averages(tokens, at)
    for reader in (_scaled, _of_bar, _rsi, _of_group, _band, _over_days, _level, _field, _bare):
        yield from reader(tokens, at)


@dataclass(frozen=True, kw_only=True)
class CompareClause:
    """A comparison ``left word right``; None for a part that the sentence leaves out."""

    left: Operand | None
    word: str
    right: Operand | None


@dataclass(frozen=True, kw_only=True)
class StateClause:
    """A state of a value: positive, negative, oversold, overbought, or a change of its sign."""

    left: Operand | None
    state: str


@dataclass(frozen=True, kw_only=True)
class CrossClause:
    """A golden (up) or a death (down) cross of two lines."""

    up: bool
    left: Operand | None = None
    right: Operand | None = None


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
class NegatedClause:
    """The negation of a clause."""

    part: Clause


@dataclass(frozen=True, kw_only=True)
class JoinedClause:
    """Clauses joined by *and* or by *or*."""

    word: Literal["and", "or"]
    parts: tuple[Clause, ...]


Clause = CompareClause | StateClause | CrossClause | RankClause | NegatedClause | JoinedClause
Parse = tuple[Clause, int]
Tokens = Sequence[Token]

_WORDS = ("CROSS_UP", "CROSS_DOWN", "BREAK_UP", "BREAK_DOWN", "ABOVE", "BELOW", "GE", "LE")
_TURNS = ("TURNS_UP", "TURNS_DOWN")
_PLACES = ("前", "后", "末", "倒数")
_STATES = ("POSITIVE", "NEGATIVE", "OVERSOLD", "OVERBOUGHT")


def _optional(tokens: Tokens, at: int) -> Iterator[tuple[Operand | None, int]]:
    yield None, at
    yield from operands(tokens, at)


def _compares(tokens: Tokens, at: int) -> Iterator[Parse]:
    for left, behind in _optional(tokens, at):
        negated = left is not None and kind_at(tokens, behind) == "NOT"
        middle = behind + negated
        word = kind_at(tokens, middle)
        if word in _WORDS:
            for right, end in _optional(tokens, middle + 1):
                clause = CompareClause(left=left, word=word, right=right)
                yield (NegatedClause(part=clause) if negated else clause), end
        if word == "RANGE":
            range_ = _range(left, tokens[middle].text)
            if range_ is not None:
                yield (NegatedClause(part=range_) if negated else range_), middle + 1
        if word in _TURNS and not negated:
            yield StateClause(left=left, state=word), middle + 1
        if word in _STATES and not negated:
            yield StateClause(left=left, state=word), middle + 1
        if not negated:
            yield from _postfix(tokens, left, middle)


def _range(left: Operand | None, text: str) -> Clause | None:
    """``30到50之间``: above the lower and below the upper number, both in the same unit."""
    numbers = [  # "30%到50%"
        (float(number), bool(percent)) for number, percent in re.findall(r"(\d+(?:\.\d+)?)\s*(%?)", text)
    ]
    (low, first), (high, second) = numbers
    if low >= high or (first and not second):
        return None
    unit = "percent" if second else "plain"
    return JoinedClause(
        word="and",
        parts=(
            CompareClause(left=left, word="ABOVE", right=Level(value=low, unit=unit)),
            CompareClause(left=left, word="BELOW", right=Level(value=high, unit=unit)),
        ),
    )


def _new_extremes(tokens: Tokens, at: int) -> Iterator[Parse]:
    """``60日新高``, ``makes a new 20-day high``: a breakout without a comparison."""
    for left, middle in _optional(tokens, at):
        made = kind_at(tokens, middle) == "MAKES"
        for extreme, end in operands(tokens, middle + made):
            new = made or any("新" in token.text for token in tokens[middle:end])
            if isinstance(extreme, Extreme) and new:
                word = "BREAK_UP" if extreme.side == "high" else "BREAK_DOWN"
                yield CompareClause(left=left, word=word, right=extreme), end


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
        if isinstance(left, Group) and isinstance(left.left, Macd | Kdj):
            yield (left.left, left.right), middle
        if isinstance(left, Macd | Kdj) and kind_at(tokens, middle) == "AND":
            for right, end in operands(tokens, middle + 1):
                if type(right) is type(left):
                    yield (left, right), end


def _crosses(tokens: Tokens, at: int) -> Iterator[Parse]:
    here = kind_at(tokens, at)
    if here in ("GOLDEN", "DEATH"):
        yield CrossClause(up=here == "GOLDEN"), at + 1
        for (left, right), end in line_pairs(tokens, at + 1):
            yield CrossClause(up=here == "GOLDEN", left=left, right=right), end
    for (left, right), end in line_pairs(tokens, at):
        behind = kind_at(tokens, end)
        if behind in ("GOLDEN", "DEATH"):
            yield CrossClause(up=behind == "GOLDEN", left=left, right=right), end + 1
    for one, middle in operands(tokens, at):
        behind = kind_at(tokens, middle)
        if isinstance(one, Average) and behind in ("GOLDEN", "DEATH"):
            for other, end in operands(tokens, middle + 1):
                if isinstance(other, Average):
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
            yield (NegatedClause(part=clause) if negated else clause), end


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


def _one(tokens: Tokens, at: int) -> Iterator[Parse]:
    if kind_at(tokens, at) == "NOT":
        for clause, end in _one(tokens, at + 1):
            yield NegatedClause(part=clause), end
    if kind_at(tokens, at) == "LP":
        for clause, end in _any(tokens, at + 1):
            if kind_at(tokens, end) == "RP":
                yield clause, end + 1
    yield from _compares(tokens, at)
    yield from _new_extremes(tokens, at)
    yield from _crosses(tokens, at)
    yield from _ranks(tokens, at)


def _chain(
    tokens: Tokens,
    at: int,
    part: Callable[[Tokens, int], Iterator[Parse]],
    kind: str,
    word: Literal["and", "or"],
) -> Iterator[Parse]:
    for first, middle in part(tokens, at):
        yield first, middle
        if kind_at(tokens, middle) == kind:
            for rest, end in _chain(tokens, middle + 1, part, kind, word):
                flat = rest.parts if isinstance(rest, JoinedClause) and rest.word == word else (rest,)
                yield JoinedClause(word=word, parts=(first, *flat)), end


def _all(tokens: Tokens, at: int) -> Iterator[Parse]:
    yield from _chain(tokens, at, _one, "AND", "and")


def _any(tokens: Tokens, at: int) -> Iterator[Parse]:
    yield from _chain(tokens, at, _all, "OR", "or")


def parse_clause(tokens: Tokens) -> Iterator[Clause]:
    """Every parse of all tokens; *and* binds before *or*."""
    for clause, end in _any(tokens, 0):
        if end == len(tokens):
            yield clause
