"""A reading held against the words that it quotes, number by number.

Each number of a quote is a leaf of its clauses, and each leaf comes from the words or is a named default. The leaves
are those of the trees and of the trade plan, so nothing is compared but what runs. What words mean beside their numbers
is for a second reading to tell, by what it trades.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from quantgraph._util.texts import Note
from quantgraph.rules import ROWS, Node
from quantgraph.sentences.coverage._left_words import left_words
from quantgraph.sentences.coverage._plan_words import plan_numbers
from quantgraph.sentences.coverage._words import (
    months_in,
    numbers_in,
    plain,
    same,
    squeezed,
    weekdays_in,
    without_dates_and_codes,
)

Kind = Literal["quote", "lost", "added", "unquoted"]


@dataclass(frozen=True, kw_only=True)
class QuotedClause:
    """A piece of the person's words, and what a reading makes of it.

    Attributes
    ----------
    rule, plan
        Its condition, and its words of the trade plan; neither for a default, for what is not done, and for
        what free code does.
    done
        Whether something carries it out.
    """

    quote: str
    name: str = ""
    rule: Node | None = None
    plan: Mapping[str, Any] = field(default_factory=dict)
    became: str = ""
    done: bool = True


@dataclass(frozen=True, kw_only=True)
class ReadingFault:
    """Where a reading differs from the words of a quote, or of the text."""

    kind: Kind
    quote: str
    note: Note


def reading_faults(
    text: str,
    clauses: Sequence[QuotedClause],
    *,
    names: Iterable[str] = (),
    traded: int = 0,
    before: str = "",
) -> list[ReadingFault]:
    """Return where the clauses of a reading differ from a text.

    Parameters
    ----------
    names
        Securities, whose digits are none of the rule.
    traded
        How many securities orders may name.
    before
        The words of an earlier request that the text changes; quotes may be of them, too.
    """
    said, names = plain(f"{before}\n{text}"), [*names]
    done = [each for each in clauses if each.quote and each.done]
    found = [_fault("quote", each.quote, *_NOT_THERE) for each in done if not _stands(each.quote, said)]
    known = _Known.of(said, plain(" ".join(each.became for each in clauses if not each.quote)))
    quotes: dict[str, list[QuotedClause]] = {}
    for each in done:
        if each.rule or each.plan:
            quotes.setdefault(plain(each.quote), []).append(each)
        elif each.became:
            found += _of_code(each.quote, each.became, names)
    for quote, same_quote in quotes.items():
        found += _lost(quote, same_quote, names, traded)
        found += _added(same_quote, known)
    left = left_words(text, (each.quote for each in clauses), names)
    unquoted = (each for each in left if any(map(str.isdigit, without_dates_and_codes(each, names))))
    return [*found, *(_fault("unquoted", each, *_NO_CLAUSE) for each in unquoted)]


_NOT_THERE = ("原话里没有这几个字", "these are not the person's words, letter by letter")
_NO_CLAUSE = ("没有条款引用这些字", "no clause quotes these words")


def _fault(kind: Kind, quote: str, zh: str, en: str) -> ReadingFault:
    return ReadingFault(kind=kind, quote=quote, note=Note(zh=f"「{quote}」：{zh}", en=f"“{quote}”: {en}"))


def _stands(quote: str, said: str) -> bool:
    """Whether a quote stands in a text, blanks and dots between its pieces aside."""
    whole = squeezed(said)
    return all(squeezed(piece) in whole for piece in re.split(r"\.{3,}|…+", quote))  # "买入…卖出"


@dataclass(frozen=True, kw_only=True)
class _Known:
    """The numbers of a text and of its defaults, and what else these may be in a condition."""

    numbers: frozenset[float]
    factors: frozenset[float]

    @classmethod
    def of(cls, text: str, defaults: str) -> _Known:
        words = f"{text}\n{defaults}"
        found = [*numbers_in(words)]
        numbers = {value for each in found for value in each.values} | months_in(words)
        numbers |= {float(digits) for digits in re.findall(r"\d+(?:\.\d+)?", words)}  # "10"
        numbers |= {value for pattern, values in _IMPLIED if re.search(pattern, words) for value in values}
        if weekdays_in(words):  # "only on Tuesdays" names the others, too
            numbers |= {1.0, 2.0, 3.0, 4.0, 5.0}
        factors = frozenset(value for each in found for value in each.factors)
        return cls(numbers=frozenset(numbers), factors=factors)


_IMPLIED: tuple[tuple[str, tuple[float, ...]], ...] = (
    (r"week|周|星期", (5.0,)),
    (r"month|月", (20.0, 21.0, 22.0)),
    (r"quarter|季", (60.0, 63.0)),
    (r"year|年", (240.0, 250.0, 252.0)),
    (r"翻倍|翻番|double", (2.0, 1.0)),
    (r"次日|隔[天日]|明天|第二天|next day|tomorrow|day after", (1.0, 2.0)),
    (r"前天|two days ago", (2.0,)),
    (r"百分位|分位|percentile|quartile|四分位", (25.0, 75.0)),
    (r"最后|倒数|last", (-1.0,)),
    (r"正|负|零|positive|negative|zero", (0.0,)),
    (r"half|半", (0.5, 1.5, 0.015)),
)
"""Numbers that words say without a figure."""
_PLAIN = (0.0, 1.0, -1.0, 100.0)
"""Numbers that say nothing of their own: a sign, the session before, a whole."""
_STREAK = re.compile(r"连|in a row|straight|consecutive|running")  # "三连阳"


def _lost(
    quote: str, clauses: Sequence[QuotedClause], names: Iterable[str], traded: int
) -> Iterator[ReadingFault]:
    """The numbers of a quote that are a leaf of none of its clauses, but for how many are ``traded``."""
    signed = [value for each in clauses for value in _numbers_of(each.rule, whole=True)]
    trees = [abs(value) for value in signed]
    trees += [value + 1 for each in clauses for value in _dates_of(each.rule)]  # decided the session before
    if has_streak := _STREAK.search(quote):
        trees += [value + 1 for value in trees]  # three days as today, one and two days ago
    planned = [value for each in clauses for value in plan_numbers(each.plan)]
    masked = without_dates_and_codes(quote, names)
    for number in numbers_in(masked):
        word = quote[number.begin : number.end].strip()
        is_there = number.is_factor_of(trees) or number.is_planned_by(planned)
        is_there |= number.spelt and traded > 1 and number.is_one_of([traded])  # "the average of the five"
        in_percent = () if number.spelt else (value / 100 for value in number.values)  # "stop 8"
        is_there |= any(same(value, each) for value in in_percent for each in planned)
        if not is_there and not (has_streak and number.is_one_of([1.0])):
            zh, en = f"{word} 没有进入规则或计划", f"{word} is no number of its rule or plan"
            yield _fault("lost", quote, zh, en)
        minus = re.search(r"[-负]$", masked[: number.begin].rstrip())  # "-100"
        if minus and number.is_one_of(trees) and not number.is_one_of([-each for each in signed]):
            yield _fault("lost", quote, f"是负数：-{word}", f"it is below 0: -{word}")


def _added(clauses: Sequence[QuotedClause], known: _Known) -> Iterator[ReadingFault]:
    """The numbers of clauses that no word of the text says."""
    for clause in clauses:
        days = {each + 1 for each in _dates_of(clause.rule)}
        said = {*known.numbers, *_PLAIN, *(() if clause.plan else known.factors)}
        if clause.plan:  # "stop 8"
            own = numbers_in(plain(clause.quote))
            said |= {value / 100 for each in own if not each.spelt for value in each.values}
        leaves = [*_numbers_of(clause.rule), *plan_numbers(clause.plan)]
        for number in dict.fromkeys(map(abs, leaves)):
            is_next = number + 1 in days or _STREAK.search(clause.quote) is not None
            ways = (number, number + 1) if is_next else (number,)  # so many days ago
            if not any(same(way, each) for way in ways for each in said):
                zh = f"没有人说过 {number:g}；若是默认，请写成 default 条款"
                en = f"nobody said {number:g}; if it is assumed, name it in a default clause"
                yield _fault("added", clause.quote, zh, en)


def _of_code(quote: str, became: str, names: Iterable[str]) -> Iterator[ReadingFault]:
    """The numbers of a quote that the clause says no more."""
    said, told = (without_dates_and_codes(plain(each), names) for each in (quote, became))
    there = [*numbers_in(told)]
    for number in numbers_in(said):
        if not number.spelt and not any(number.is_factor_of(each.values) for each in there):
            word = said[number.begin : number.end].strip()
            yield _fault("lost", quote, f"改写里没有 {word}", f"{word} is not in {became!r:.80}")


def _nodes_of(node: Node | None) -> Iterator[Node]:
    if node is not None:
        yield node
        for each in node.operands:
            yield from _nodes_of(each)


def _numbers_of(node: Node | None, *, whole: bool = False) -> Iterator[float]:
    """The numbers of a tree; with ``whole`` also those that are the defaults of an indicator."""
    for each in _nodes_of(node):
        params = ROWS[each.name].params if each.name in ROWS else ()
        defaults = dict(enumerate(() if whole else (param.default for param in params)))
        numbers = ((place, arg) for place, arg in enumerate(each.args) if isinstance(arg, float))
        yield from (arg for place, arg in numbers if arg != defaults.get(place))


def _dates_of(rule: Node | None) -> set[float]:
    """The numbers that weekdays, months and places in a month are compared with."""
    dates = (each for each in _nodes_of(rule) if any(side.unit == "date" for side in each.operands))
    return {abs(side.constant) for each in dates for side in each.operands if side.name == "number"}
