"""Parse tokens into values: every way in which a run of tokens can be a value.

The parsers are generators of ``(value, next place)``. The grammar tries all of them and accepts a sentence
only if it has exactly one meaning.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from quantgraph.llm.planner.lexicon import Token
from quantgraph.llm.planner.rules import (
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
    """A number with its unit: ``plain``, ``percent``, ``yi`` (a hundred million) or ``zero`` (an axis)."""

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
    """Returns, falls and extremes, which need a number of days; bare momentum is that of 20 days."""
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


def _level(tokens: Sequence[Token], at: int) -> Iterator[OperandParse]:
    units = {"NUM": "plain", "PCT": "percent", "YI": "yi", "ZERO": "zero"}
    here = kind_at(tokens, at)
    if here in units:
        yield Level(value=tokens[at].value, unit=units[here]), at + 1


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
