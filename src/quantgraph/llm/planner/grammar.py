"""Parse tokens into clauses: comparisons, ranks and crosses joined by and, or, not and brackets.

The parser yields every parse. Words that a sentence leaves out (``下穿卖出``) are None here;
:mod:`.meaning` completes them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from quantgraph.llm.planner.lexicon import Token
from quantgraph.llm.planner.operands import Group, Level, Operand, kind_at, operands, pairs
from quantgraph.llm.planner.rules import Average, Extreme, Kdj, Macd


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
    """The top or the bottom of a ranking by a value; without an amount, that of the previous rank.

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
    numbers = [
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
        if isinstance(left, Group) and not _is_band(left):
            yield (left.left, left.right), middle
        if isinstance(left, Macd | Kdj) and kind_at(tokens, middle) == "AND":
            for right, end in operands(tokens, middle + 1):
                if type(right) is type(left):
                    yield (left, right), end


def _is_band(group: Group) -> bool:
    return not isinstance(group.left, Macd | Kdj)


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
