"""A reading held against the words that it quotes, leaf by leaf.

Each number, indicator, direction and side of a quote is a leaf of its clauses, and each leaf comes from the words or is a
named default. The leaves are those of the trees and of the trade plan, so nothing is compared but what runs.
"""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from types import MappingProxyType
from typing import Any, Literal

from quantgraph._util.texts import Note
from quantgraph.rules import ROWS, Node, expression, lookback
from quantgraph.sentences._text import FILLERS, FILLERS_ZH
from quantgraph.sentences.coverage._words import (
    FIELDS,
    PLAN_WORDS,
    TELLING,
    WORDS,
    count,
    has,
    months_in,
    numbers_in,
    plain,
    same,
    weekdays_in,
    without_dates_and_codes,
)

Kind = Literal["quote", "lost", "added", "turned", "plan", "unquoted"]


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
    certain: bool = False
    """Whether it is one of letters and figures; words have many meanings."""


def reading_faults(
    text: str,
    clauses: Sequence[QuotedClause],
    entry: str = "",
    exit: str = "",  # noqa: A002 - the field's word
    *,
    names: Mapping[str, str] = MappingProxyType({}),
    traded: Collection[str] = (),
    before: str = "",
) -> list[ReadingFault]:
    """Return where the clauses of a reading differ from a text.

    Parameters
    ----------
    entry, exit
        The names of clauses, combined; empty for a reading whose rule is free code.
    names
        Codes by names of securities and by themselves, whose digits are none of the rule.
    traded
        Codes that orders may name.
    before
        The words of an earlier request that the text changes; quotes may be of them, too.
    """
    said = plain(f"{before}\n{text}")
    uses = {"entry": _uses(entry), "exit": _uses(exit)}
    done = [each for each in clauses if each.quote and each.done]
    found = [
        _fault("quote", each.quote, *_NOT_THERE, certain=True)
        for each in done
        if not _stands(each.quote, said)
    ]
    quotes: dict[str, list[QuotedClause]] = {}
    for each in done:
        if each.rule or each.plan:
            quotes.setdefault(plain(each.quote), []).append(each)
        elif each.became:
            found += _of_code(each.quote, each.became, names)
    known = _Said.of(said, plain(" ".join(each.became for each in clauses if not each.quote)))
    for quote, same_quote in quotes.items():
        found += _lost(quote, same_quote, names)
        found += _lost_fields(quote, same_quote)
        found += _other_securities(quote, same_quote, names, traded)
        found += _added(same_quote, known)
        for each in same_quote:
            found += _of_plan(quote, each, shares=any(other.rule for other in same_quote))
            found += _of_rule(quote, each, each.rule, uses, traded) if each.rule else ()
    found += [*_combined(entry, exit, clauses, uses, said), *_unless(clauses, uses)]
    left = left_words(text, (each.quote for each in clauses), names)
    return [*found, *_unquoted(left, names)]


def _unquoted(pieces: Iterable[str], names: Iterable[str]) -> Iterator[ReadingFault]:
    for piece in pieces:
        words = without_dates_and_codes(piece, names)
        if _matters(words):
            certain = any(map(str.isdigit, words))
            yield _fault(
                "unquoted", piece, "没有条款引用这些字", "no clause quotes these words", certain=certain
            )


def _fault(kind: Kind, quote: str, zh: str, en: str, *, certain: bool = False) -> ReadingFault:
    return ReadingFault(
        kind=kind, quote=quote, certain=certain, note=Note(zh=f"「{quote}」：{zh}", en=f"“{quote}”: {en}")
    )


_NOT_THERE = ("原话里没有这几个字", "these are not the person's words, letter by letter")


def _squeezed(text: str) -> str:
    return "".join(plain(text).split()).strip(",，;；。.!！?？\"“”'")


def _stands(quote: str, said: str) -> bool:
    """Whether a quote stands in a text, blanks and dots between its pieces aside."""
    whole = _squeezed(said)
    return all(_squeezed(piece) in whole for piece in re.split(r"\.{3,}|…+", quote))  # "买入…卖出"


def _uses(combined: str) -> dict[str, bool]:
    """The names that an expression combines, and whether it negates them."""
    found: dict[str, bool] = {}

    def visit(node: ast.AST, *, negated: bool) -> None:
        if isinstance(node, ast.Name):
            found[node.id] = negated
        for child in ast.iter_child_nodes(node):
            visit(child, negated=negated ^ isinstance(getattr(node, "op", None), ast.Not))

    if combined:
        visit(ast.parse(combined.strip(), mode="eval"), negated=False)
    return found


def or_terms(combined: str) -> list[str]:
    """Return the terms of a combination that *or* joins.

    >>> or_terms("not top or (weak and calm)"), or_terms("up and not quiet")
    (['not top', 'weak and calm'], ['up and (not quiet)'])
    """
    tree = ast.parse(combined.strip(), mode="eval").body
    is_or = isinstance(tree, ast.BoolOp) and isinstance(tree.op, ast.Or)
    return [ast.unparse(each) for each in (tree.values if is_or else [tree])]  # type: ignore[attr-defined]


def without_name(combined: str, name: str) -> str:
    """Return a combination of clauses without one of them; empty if nothing is left.

    >>> without_name("up and not quiet", "quiet"), without_name("a or (b and c)", "c"), without_name("up", "up")
    ('up', 'a or b', '')
    """

    def rest(node: ast.expr) -> ast.expr | None:
        if isinstance(node, ast.BoolOp):
            kept = [each for each in map(rest, node.values) if each is not None]
            return kept[0] if len(kept) == 1 else ast.BoolOp(node.op, kept) if kept else None
        if isinstance(node, ast.UnaryOp):
            inner = rest(node.operand)
            return None if inner is None else ast.UnaryOp(node.op, inner)
        return None if isinstance(node, ast.Name) and node.id == name else node

    left = rest(ast.parse(combined.strip(), mode="eval").body) if combined else None
    return "" if left is None else ast.unparse(left)


def _joins(combined: str) -> set[str]:
    tree = ast.walk(ast.parse(combined.strip(), mode="eval")) if combined else ()
    return {type(each).__name__.lower() for each in tree if isinstance(each, ast.And | ast.Or)}


_OR_BEFORE = re.compile(r"(?:或者?|要么|(?<![a-z])(?:or|either))\s*(?:\S{1,6}\s)?$")  # "or "


def _says_or(quote: str, said: str) -> bool:
    """Whether a quote has a word that says or, or stands behind one."""
    quote = plain(quote)
    return has("or", quote) or bool(_OR_BEFORE.search(said[: max(0, said.find(quote))]))


def _combined(
    entry: str,
    exit: str,  # noqa: A002 - the field's word
    clauses: Sequence[QuotedClause],
    uses: Mapping[str, Mapping[str, bool]],
    said: str,
) -> Iterator[ReadingFault]:
    """Clauses of a side that are joined otherwise than their words are."""
    for side, combined, verb in (("entry", entry, "buy"), ("exit", exit, "sell")):
        own = [each for each in clauses if each.quote and each.name in uses[side]]
        quoted = [each for each in own if side == "entry" or each.name not in uses["entry"]]
        says_or = any(_says_or(each.quote, said) for each in quoted)
        apart = [each for each in quoted if not has(verb, plain(each.quote))]
        joins = _joins(combined)
        if joins == {"or"} and len(quoted) > 1 and not says_or and apart:
            en = f"the {side} joins it with or, and the words do not say or"
            yield _fault("turned", apart[0].quote, "没有说“或”", en)
        begins = [each for each in quoted if re.match(r"(?:或|要么|or |either )", plain(each.quote))]  # "or"
        if joins == {"and"} and begins and begins[0] is not quoted[0]:
            en = f"it begins with or, and the {side} joins it with and"
            yield _fault("turned", begins[0].quote, "说的是“或”", en)


def _unless(
    clauses: Sequence[QuotedClause], uses: Mapping[str, Mapping[str, bool]]
) -> Iterator[ReadingFault]:
    """An exception that is of another side than the clause before it."""
    for before, clause in pairwise(clauses):
        sides = [{side for side, used in uses.items() if each.name in used} for each in (before, clause)]
        if (
            re.match(r"(?:but )?(?:unless|except)|除非", plain(clause.quote))
            and all(sides)
            and not sides[0] & sides[1]
        ):
            zh, en = "它限定的是前一句", "it is an exception of the clause before it, and is used elsewhere"
            yield _fault("turned", clause.quote, zh, en)


# Numbers


@dataclass(frozen=True, kw_only=True)
class _Said:
    """The words of a text and of its defaults, their numbers, and what else these may be in a condition."""

    words: str
    numbers: frozenset[float]
    factors: frozenset[float]

    @classmethod
    def of(cls, text: str, defaults: str) -> _Said:
        words = f"{text}\n{defaults}"
        found = [*numbers_in(words)]
        numbers = {value for each in found for value in each.values} | months_in(words)
        numbers |= {float(digits) for digits in re.findall(r"\d+(?:\.\d+)?", words)}  # "10"
        numbers |= {value for pattern, values in _IMPLIED if re.search(pattern, words) for value in values}
        if weekdays_in(words):  # "only on Tuesdays" names the others, too
            numbers |= {1.0, 2.0, 3.0, 4.0, 5.0}
        factors = frozenset(value for each in found for value in each.factors)
        return cls(words=words, numbers=frozenset(numbers), factors=factors)


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


def _leaves(clause: QuotedClause) -> list[float]:
    """The numbers of a clause that are not the defaults of an indicator."""
    return [*_of_tree(clause.rule), *plan_numbers(clause.plan)]


def _of_tree(node: Node | None, *, whole: bool = False) -> Iterator[float]:
    """The numbers of a tree; with ``whole`` also those that are the defaults of an indicator."""
    for each in _nodes(node):
        params = ROWS[each.name].params if each.name in ROWS else ()
        defaults = dict(enumerate(() if whole else (param.default for param in params)))
        numbers = ((place, arg) for place, arg in enumerate(each.args) if isinstance(arg, float))
        yield from (arg for place, arg in numbers if arg != defaults.get(place))


def plan_numbers(value: Any, key: str = "") -> Iterator[float]:
    """The numbers of a trade plan or a part of it; slippage as a fraction."""
    if isinstance(value, Mapping):
        for name, each in value.items():
            yield from plan_numbers(each, str(name))
    elif isinstance(value, list | tuple):
        for each in value:
            yield from plan_numbers(each, key)
    elif not isinstance(value, bool):
        try:
            number = float(str(value).rstrip("%"))
        except ValueError:
            return
        yield number / 1e4 if key == "slippage_bps" else number / 100 if str(value).endswith("%") else number


def _lost(quote: str, clauses: Sequence[QuotedClause], names: Iterable[str]) -> Iterator[ReadingFault]:
    """The numbers of a quote that are a leaf of none of its clauses."""
    signed = [value for each in clauses for value in _of_tree(each.rule, whole=True)]
    trees = [abs(value) for value in signed]
    trees += [value + 1 for each in clauses for value in _of_dates(each.rule)]  # decided the session before
    if has_streak := _STREAK.search(quote):
        trees += [value + 1 for value in trees]  # three days as today, one and two days ago
    planned = [value for each in clauses for value in plan_numbers(each.plan)]
    masked = without_dates_and_codes(quote, names)
    for number in numbers_in(masked):
        word = quote[number.begin : number.end].strip()
        is_there = number.is_factor_of(trees) or number.is_one_of(planned)
        in_percent = () if number.spelt else (value / 100 for value in number.values)  # "stop 8"
        is_there |= any(same(value, each) for value in in_percent for each in planned)
        if not is_there and not (has_streak and number.is_one_of([1.0])):
            zh, en = f"{word} 没有进入规则或计划", f"{word} is no number of its rule or plan"
            yield _fault("lost", quote, zh, en, certain=not number.spelt)
        minus = re.search(r"[-负]$", masked[: number.begin].rstrip())  # "-100"
        if minus and number.is_one_of(trees) and not number.is_one_of([-each for each in signed]):
            zh, en = f"是负数：-{word}", f"it is below 0: -{word}"
            yield _fault("turned", quote, zh, en, certain=True)


def _added(clauses: Sequence[QuotedClause], said: _Said) -> Iterator[ReadingFault]:
    """The numbers and indicators of clauses that no word of the text says."""
    for clause in clauses:
        own, days = [*numbers_in(plain(clause.quote))], {each + 1 for each in _of_dates(clause.rule)}
        known = {*said.numbers, *_PLAIN, *(() if clause.plan else said.factors)}
        if clause.plan:  # "stop 8"
            known |= {value / 100 for each in own if not each.spelt for value in each.values}
        for number in dict.fromkeys(map(abs, _leaves(clause))):
            is_next = number + 1 in days or _STREAK.search(clause.quote) is not None
            ways = (
                [number, number + 1] if is_next else [number]
            )  # decided the session before, or so many days ago
            if not any(same(way, each) for way in ways for each in known):
                zh = f"没有人说过 {number:g}；若是默认，请写成 default 条款"
                en = f"nobody said {number:g}; if it is assumed, name it in a default clause"
                yield _fault("added", clause.quote, zh, en, certain=not any(each.spelt for each in own))
        for name in dict.fromkeys(each.name for each in _nodes(clause.rule)):
            words = [pattern for pattern, nodes in TELLING if name in nodes and name not in {"sma", "std"}]
            if words and not any(pattern.search(said.words) for pattern in words):
                zh, en = f"没有人说过 {name}", f"nobody said {name}; name a default or drop it"
                yield _fault("added", clause.quote, zh, en)


def _of_dates(rule: Node | None) -> set[float]:
    """The numbers that weekdays, months and places in a month are compared with."""
    dates = (each for each in _nodes(rule) if any(side.unit == "date" for side in each.operands))
    return {abs(side.constant) for each in dates for side in each.operands if side.name == "number"}


def _nodes(node: Node | None) -> Iterator[Node]:
    if node is not None:
        yield node
        for each in node.operands:
            yield from _nodes(each)


# Words of a clause that is left to free code


def _of_code(quote: str, became: str, names: Iterable[str]) -> Iterator[ReadingFault]:
    """The numbers and indicators of a quote that the clause says no more, and numbers that it adds."""
    said, told = (without_dates_and_codes(plain(each), names) for each in (quote, became))
    numbers, there = [*numbers_in(said)], [*numbers_in(told)]
    for number in numbers:
        if not any(number.is_factor_of(each.values) for each in there):
            word = said[number.begin : number.end].strip()
            yield _fault(
                "lost",
                quote,
                f"改写里没有 {word}",
                f"{word} is not in {became!r:.80}",
                certain=not number.spelt,
            )
    for pattern, _ in FIELDS:
        if (found := pattern.search(said)) and not pattern.search(told):
            word = found[0].strip()
            yield _fault("lost", quote, f"改写里没有 {word}", f"{word!r} is not in {became!r:.80}")


# Words of a rule


_CARRIES = {
    "trade_on": "nth left weekday",
    "rebalance": "nth left weekday",
    "no_entry_on": "nth left weekday",
    "trailing_stop": "highest",
    "atr": "atr",
    "accumulate": "nth left",
}
"""Nodes whose words a part of the plan carries out."""


def _lost_fields(quote: str, clauses: Sequence[QuotedClause]) -> Iterator[ReadingFault]:
    """The indicators of a quote that none of its clauses reads."""
    there = {each.name for clause in clauses for each in _nodes(clause.rule)}
    for clause in clauses:
        keys = [
            *clause.plan,
            *(key for part in clause.plan.values() if isinstance(part, Mapping) for key in part),
        ]
        there |= {name for key in keys for name in _CARRIES.get(key, "").split()}
    rules = "; ".join(expression(each.rule) for each in clauses if each.rule)
    for pattern, nodes in FIELDS if rules else (each for each in FIELDS if "atr" in each[1]):
        if (found := pattern.search(quote)) and not nodes & there:
            zh, en = f"规则里没有 {found[0]}", f"its rule has nothing of {found[0].strip()!r}: {rules:.80}"
            yield _fault("lost", quote, zh, en)


def _other_securities(
    quote: str, clauses: Sequence[QuotedClause], names: Mapping[str, str], traded: Collection[str]
) -> Iterator[ReadingFault]:
    """Securities of a quote that its trees do not read, and such that they read in place of these."""
    if not any(each.rule for each in clauses):
        return
    named = {code for name, code in names.items() if re.search(_bounded(plain(name)), quote)}
    read = {
        str(each.args[0])
        for clause in clauses
        for each in _nodes(clause.rule)
        if each.name in {"of", "index"}
    }
    for code in named - read - {*traded}:
        yield _fault(
            "lost",
            quote,
            f"规则没有读 {code}",
            f'it names {code}, which its rule does not read: of("{code}", ...)',
        )
    if named - {*traded} and (others := read - named):
        others_text = ", ".join(sorted(others))
        yield _fault(
            "turned",
            quote,
            f"规则读的是 {others_text}",
            f"its rule reads {others_text}, which it does not name",
        )


def _bounded(name: str) -> str:
    return rf"(?<![a-z\d]){re.escape(name)}(?![a-z\d])" if name.isascii() else re.escape(name)


def _without(quote: str, traded: Collection[str]) -> str:
    """A quote without the codes that are traded, some of which are indices' names."""
    for code in traded:
        quote = quote.replace(plain(code.partition(".")[0]), " ")
    return quote


def _of_rule(
    quote: str,
    clause: QuotedClause,
    rule: Node,
    uses: Mapping[str, Mapping[str, bool]],
    traded: Collection[str],
) -> Iterator[ReadingFault]:
    """A quote's indicators, direction, joining words and side, that its tree does not have."""
    there = {each.name for each in _nodes(rule)}
    sides = {side: used[clause.name] for side, used in uses.items() if clause.name in used}
    yield from _ranked(quote, rule)
    about_market = WORDS["market"].search(_without(quote, traded))
    if about_market and not there & {
        "index",
        "of",
        "average_of_all",
        "share_of_all",
        "rank",
        "rank_percent",
    }:
        yield _fault(
            "lost",
            quote,
            "说的是指数，规则里没有 index(...)",
            'it is about an index, and the rule has no index("CODE", ...)',
        )
    if has("event", quote) and not there & {"cross_up", "cross_down", "was", "ago", "first_after", "since"}:
        yield _fault("turned", quote, "说的是穿越，规则是状态", "it says a cross, and the rule is a state")
    if has("state", quote) and not has("event", quote) and there & {"cross_up", "cross_down"}:
        yield _fault("turned", quote, "说的是状态，规则是穿越", "it says a state, and the rule is a cross")
    for node in _nodes(rule) if re.search(r"%|成|分位|percent|pct", quote) else ():
        if node.name in {"gt", "ge", "lt", "le"} and 0 < abs(_beside_percent(node) or 0) < 1:
            bound = _beside_percent(node)
            yield _fault(
                "turned",
                quote,
                f"{bound:g} 应以百分数写",
                f"{bound:g} stands beside a value in percent",
                certain=True,
            )
    if (never := _never_holds(rule)) is not None:
        yield _fault(
            "turned", quote, f"{never} 永远不成立", f"{never} never holds: leave today out with ago(...)"
        )
    yield from _joined(quote, rule)
    yield from _sided(quote, sides)
    yield from _turned(quote, rule, negated=bool(sides) and all(sides.values()))


def _ranked(quote: str, rule: Node) -> Iterator[ReadingFault]:
    """A ranking from the other end than the words say; the largest losses are the lowest returns."""
    ends = [end for end in ("most", "least") if has(end, quote)]
    for node in _nodes(rule):
        places = node.name in {"le", "lt", "gt", "ge"} and node.operands[0].name in {"rank", "rank_percent"}
        if places and len(ends) == 1:
            lowest = node.operands[0].operands[0].name == "neg"
            losses = re.search(r"跌|loss|los[es]|fall|drop|declin", quote) is not None
            if lowest != ((ends[0] == "least") ^ losses):
                yield _fault(
                    "turned",
                    quote,
                    "排名的方向反了",
                    f"it ranks from the other end than {expression(rule):.80}",
                )


def _never_holds(rule: Node) -> str | None:
    """A comparison of today's close with a high or low that has today in it."""
    for node in _nodes(rule):
        if node.name in {"gt", "cross_up", "lt", "cross_down"}:
            one, other = map(
                _unscaled, node.operands if node.name in {"gt", "cross_up"} else node.operands[::-1]
            )
            bounds = {("highest", "high"), ("highest", "close")}, {("lowest", "low"), ("lowest", "close")}
            if _shape(other) in bounds[0] and one.name == "close":
                return expression(node)
            if _shape(one) in bounds[1] and other.name == "close":
                return expression(node)
    return None


def _unscaled(node: Node) -> Node:
    """What a price is multiplied with a number that keeps it out of reach: 0.97 times the low of today."""
    if node.name == "mul" and len(numbers := [each for each in node.operands if each.name == "number"]) == 1:
        (inner,) = (each for each in node.operands if each.name != "number")
        bound = numbers[0].constant
        return inner if (bound <= 1) == (inner.name == "lowest") else node
    return node


def _shape(node: Node) -> tuple[str, str]:
    return node.name, node.operands[0].name if node.operands else ""


def _joined(quote: str, rule: Node) -> Iterator[ReadingFault]:
    if rule.name == "or" and not has("or", quote) and has("and", quote):
        yield _fault("turned", quote, "原话是“且”，规则是“或”", "the words say and, the rule says or")
    if rule.name == "and" and has("or", quote) and not has("and", quote):
        yield _fault("turned", quote, "原话是“或”，规则是“且”", "the words say or, the rule says and")


def _sided(quote: str, sides: Mapping[str, bool]) -> Iterator[ReadingFault]:
    """A quote that only buys or only sells, whose clause is of the other side."""
    if has("no buying", quote) and sides and "entry" not in sides:
        yield _fault(
            "turned",
            quote,
            "说的是不买，规则没有用于买入",
            "it says not to buy, and the entry has no part of it",
        )
    if has("not", quote) or not sides or has("hold", quote):
        return
    buys, sells = has("buy", quote), has("sell", quote)
    if buys and not sells and "entry" not in sides:
        yield _fault("turned", quote, "说的是买入，规则用于卖出", "it says to buy, and the rule sells by it")
    if sells and not buys and "exit" not in sides and not sides.get("entry"):
        yield _fault("turned", quote, "说的是卖出，规则用于买入", "it says to sell, and the rule buys by it")


def _turned(quote: str, rule: Node, *, negated: bool) -> Iterator[ReadingFault]:
    """A quote that goes one way, whose tree goes the other way only."""
    ways = _said_ways(quote)
    denials, goes = count("not", quote), _ways(rule)
    falls = has("down move", quote) and not (has("up move", quote) or has("down level", quote))
    for bound in _bounds_of_change(rule):
        if abs(bound) >= _MUCH or (falls and bound > 0 and goes == {"down"}):
            zh, en = f"涨跌幅 {bound:g} 不对", f"a return of {bound:g} is a fraction, below 0 for a fall"
            yield _fault("turned", quote, zh, en)
    if denials > 1 or len(ways) != 1 or len(goes) != 1:
        if (
            denials == 1
            and not goes
            and not negated
            and not {"not", "ne", "never", "index"} & {each.name for each in _nodes(rule)}
        ):
            yield _fault("turned", quote, "原话有否定，规则没有", "the words deny it, and the rule does not")
        return
    expected = _TURN[ways.pop()] if denials else ways.pop()
    got = _TURN[goes.pop()] if negated else goes.pop()
    if expected != got:
        yield _fault(
            "turned",
            quote,
            f"方向反了：规则是 {expression(rule):.80}",
            f"it goes the other way than its rule, {expression(rule):.80}",
        )


def _said_ways(words: str) -> set[str]:
    """Where words go; a level that is sized against a move, "gains less than", leaves it open."""
    words = WORDS["buy"].sub(" ", words)  # "scoop it up"
    moves = {way for way in ("up", "down") if has(f"{way} move", words)}
    levels = {way for way in ("up", "down") if has(f"{way} level", words)}
    if not moves or (moves == {"up"} and "down" in levels):
        return moves | levels
    return moves


_TURN = {"up": "down", "down": "up"}


_MUCH = 2.0
"""A return that nobody waits for: 200 %."""


def _beside_percent(node: Node) -> float | None:
    """The number that a value in percent is compared with."""
    one, other = node.operands
    if one.name in ROWS and ROWS[one.name].percent == 1 and other.name == "number":
        return other.constant
    return None


_PLACES = {"rank", "rank_percent", "history_percent", "count", "zscore"}


def _bounds_of_change(rule: Node) -> Iterator[float]:
    """The numbers that returns are compared with."""
    for node in _nodes(rule):
        if node.name in {"gt", "ge", "lt", "le"}:
            one, other = node.operands
            numbers = [each for each in (one, other) if each.name == "number"]
            names = {each.name for side in (one, other) for each in _nodes(side)}
            if numbers and "change" in names and not names & _PLACES:
                yield numbers[0].constant


def _ways(node: Node, *, negated: bool = False) -> set[str]:
    """Where the comparisons of a tree go: up for a faster value above a slower one."""
    if node.name in {"gt", "ge", "lt", "le", "cross_up", "cross_down"} and (way := _way(node)):
        return {_TURN[way] if negated else way}
    if node.name in {"limit_up", "limit_down"}:
        way = node.name.removeprefix("limit_")
        return {_TURN[way] if negated else way}
    return set().union(*(_ways(each, negated=negated ^ (node.name == "not")) for each in node.operands))


def _way(node: Node) -> str:
    one, other = node.operands
    goes = "up" if node.name in {"gt", "ge", "cross_up"} else "down"
    if "date" in (one.unit, other.unit) or {"since", "sub", "neg"} & {
        each.name for each in (*_nodes(one), *_nodes(other))
    }:
        return ""
    if one.name in {"rank", "rank_percent"}:
        return "" if goes == "up" else "down" if one.operands[0].name == "neg" else "up"
    slower = one.name == "number" or (other.name != "number" and _speed(one) > _speed(other))
    return _TURN[goes] if slower else goes


_LINES = {"kdj_j": 0, "kdj_k": 1, "kdj_d": 2, "dif": 0, "dea": 1}
"""Lines of one indicator, the fastest first."""


def _speed(node: Node) -> int:
    return _LINES.get(node.name, lookback(node))


# Words of the plan


def _of_plan(quote: str, clause: QuotedClause, *, shares: bool) -> Iterator[ReadingFault]:
    """Parts of the plan that a quote has no word of, and a quote whose words ask for another part."""
    for name, value in clause.plan.items():
        group = next((each for each in _ALIKE if name in each), ())
        others = [key for key in group if key != name and _NARROW[key].search(quote)]
        is_other = bool(others) and not {*others} & clause.plan.keys()
        if (is_other or shares) and not PLAN_WORDS[name].search(quote):
            others = others or ["a condition"]
            zh, en = f"说的是 {others[0]}，不是 {name}", f"it says {others[0]}, and nothing of {name}"
            yield _fault("plan", quote, zh, en)
        kinds = {*value} if isinstance(value, Mapping) else set()
        if (kinds & {"cash", "amount"} and re.search(r"\d ?(?:股|手|shares)", quote)) or (
            "shares" in kinds and re.search(r"\$|\d ?(?:元|块|万)|dollar|bucks", quote)
        ):
            yield _fault("plan", quote, "金额与股数混了", "it mixes money and shares", certain=True)
        if name == "no_entry_on":
            yield from _closed_days(quote, value)
        if isinstance(value, str) and value in _PERIODS and not re.search(_PERIODS[value], quote):
            yield _fault("plan", quote, f"不是 {value}", f"it says another schedule than {value}")
        on = value.get("on") if isinstance(value, Mapping) else None
        ways = _said_ways(quote)
        if on in _ON and ways == {_TURN[_ON[on]]}:
            yield _fault(
                "plan", quote, f"方向与 {name}.on = {on} 相反", f"it goes the other way than {name}.on = {on}"
            )
    keys = clause.plan.keys()
    for name in keys & _GOES.keys():
        yield from _number_side(quote, name, clause.plan[name])
    yield from _own_pieces(quote, clause.plan)
    for name, asked in _ASKED:
        if asked.search(quote) and keys & _ENDS and name not in keys and clause.rule is None:
            yield _fault(
                "plan",
                quote,
                f"说的是 {name}，计划里是 {'、'.join(keys)}",
                f"it asks for {name}, the plan has {', '.join(keys)}",
            )


_NARROW = {
    name: re.compile(pattern)
    for name, pattern in {
        "trailing_stop": r"移动止|跟踪止|追踪止|回撤|trail",
        "stop_loss": r"止损|割肉|亏|(?<!trailing )stop|loss|cut",
        "take_profit": r"止盈|profit|target|赚|盈",
        "cash_reserve": r"现金|in cash|reserve",
        "size": r"仓|等权|分之|equal weight|of (?:the|my|our) (?:account|equity|cash|capital|money)|each stock",
        "commission": r"手续费|佣金|费率|commis",
        "slippage_bps": r"滑点|slippage",
        "band": r"偏离|drift",
        "cooldown": r"歇|冷却|内不再|别再|after (?:a|each|the) sale|cool",
        "min_holding": r"至少|最少|起码|拿满|at least|minimum",
        "max_holding": r"最长|最多拿|最多持|hold\D{0,12}(?:at most|no longer)|maximum",
        "trade_on": r"每[周月季]|weekly|monthly|quarterly|every (?:week|month|quarter)",
        "rebalance": r"再平衡|rebalanc",
    }.items()
}
"""The words of a part of the plan that say nothing else."""
_ALIKE = (
    (
        "trailing_stop",
        "stop_loss",
        "take_profit",
        "cash_reserve",
        "size",
        "commission",
        "slippage_bps",
        "band",
    ),
    ("cooldown", "min_holding", "max_holding", "trade_on", "rebalance"),
)
"""Parts of a plan whose values look alike, those with the plainest words first."""


def _closed_days(quote: str, value: Mapping[str, Any]) -> Iterator[ReadingFault]:
    """Days without purchases that are others than the quote names."""
    only = re.search(r"only|只|仅", quote)
    for key, named in (("weekdays", weekdays_in(quote)), ("months", months_in(quote))):
        days = {float(each) for each in value.get(key, ())}
        if named and days != (
            ({1.0, 2.0, 3.0, 4.0, 5.0} if key == "weekdays" else {*map(float, range(1, 13))}) - named
            if only
            else named
        ):
            yield _fault("plan", quote, f"{key} 不对", f"it names other {key}", certain=True)
        if days and not named:
            yield _fault("plan", quote, f"没有说到 {key}", f"it names no {key}", certain=True)


_PERIODS = {
    "week_start": "周|星期|礼拜|week|mon|fri",
    "month_start": "月|month",
    "quarter_start": "季|quarter",
}


def _own_pieces(quote: str, plan: Mapping[str, Any]) -> Iterator[ReadingFault]:
    """A part whose words stand in one piece of a quote, and its number in another."""
    pieces = [each for each in re.split(r"[,，;；、。]|(?<![a-z])and(?![a-z])", quote) if each.strip()]
    for name, value in plan.items():
        own = [each for each in pieces if name in _NARROW and _NARROW[name].search(each)]
        wanted = [*plan_numbers(value)]
        wanted += [100 * each for each in wanted if each < 1]
        if len(own) != 1 or len(pieces) < 2 or not wanted:
            continue
        inside, outside = (list(numbers_in(text)) for text in (own[0], quote.replace(own[0], " ")))
        missing = [
            each
            for each in plan_numbers(value)
            if not any(number.is_one_of([each, 100 * each]) for number in inside)
        ]
        if missing and any(number.is_one_of([each, 100 * each]) for each in missing for number in outside):
            yield _fault(
                "plan", quote, f"{name} 用了另一处的数字", f"the number of {name} is that of another part"
            )


_GOES = {"take_profit": "up", "stop_loss": "down"}


def _number_side(quote: str, name: str, value: Any) -> Iterator[ReadingFault]:
    """A level whose number stands among words of the other way only."""
    wanted = [*plan_numbers(value)]
    pieces = _BREAKS.split(quote) if _BREAKS.search(quote) else [quote]
    for piece, numbers in ((each, [*numbers_in(each)]) for each in pieces):
        for at, number in enumerate(numbers):
            begin = numbers[at - 1].end if at else 0
            end = numbers[at + 1].begin if at + 1 < len(numbers) else len(piece)
            if number.is_one_of(wanted) and _said_ways(piece[begin:end]) == {_TURN[_GOES[name]]}:
                yield _fault(
                    "plan", quote, f"{name} 用了另一边的数字", f"the number of {name} is the other side's"
                )


_ON = {"rise": "up", "fall": "down"}
_ENDS = frozenset(
    {
        "size",
        "cash_reserve",
        "stop_loss",
        "take_profit",
        "trailing_stop",
        "max_holding",
        "min_holding",
        "cooldown",
    }
)
_ASKED = (
    (
        "trailing_stop",
        re.compile(
            r"移动止|跟踪止|追踪止|回撤\d|回落\d|高点回|trail\w*|(?:from|off|below) (?:its|the|their) (?:peak|high)"
        ),
    ),  # "回撤8%止损"
    (
        "stop_loss",
        re.compile(r"(?<!移动)(?<!跟踪)(?<!追踪)(?<!回撤)(?<!%)止损\s*\d|stop[ -]?loss"),
    ),  # "止损8%"
    (
        "take_profit",
        re.compile(r"(?<!移动)(?<!跟踪)(?<!追踪)止盈|take[ -]?profit|profit target"),
    ),  # "止盈20%"
    (
        "min_holding",
        re.compile(r"(?:至少|起码|最少)(?:拿|持|要?持有)|拿满|(?:hold|keep|wait|sit)\D{0,20}at least \d"),
    ),  # "至少拿5天"
    (
        "cooldown",
        re.compile(
            r"内不再?买|冷却|卖[完出了]\D{0,4}[歇等隔停]|cool\w*[ -]?(?:down|off)|after (?:each|a|every|the) sale"
        ),
    ),  # "10天内不再买"
)
"""Parts of a plan that end positions, and the words that mean one of them alone."""


# Words that no clause quotes


_BREAKS = re.compile(
    r"[,，;；。!！?？\n、:：]|\.(?=\s|$)|(?<![a-z])(?:but|unless|except|then)(?![a-z])|但是?|不过|除非|然后"
)  # "但"


def left_words(text: str, quotes: Iterable[str], names: Iterable[str] = ()) -> tuple[str, ...]:
    """Return the pieces of a text outside of all quotes that say something, beside dates and securities.

    >>> left_words("帮我看看，5日线上穿20日线买入，图个吉利", ["5日线上穿20日线买入"])
    ('图个吉利',)
    """
    said, names = plain(text), [*names]
    left = said
    pieces = (piece for each in quotes for piece in re.split(r"\.{3,}|…+", each))  # "买入…卖出"
    for quote in sorted(pieces, key=len, reverse=True):
        if words := [re.escape(word) for word in _squeezed(quote)]:
            left = re.sub(r"\s*".join(words), lambda found: "," * len(found[0]), left)
    left = without_dates_and_codes(left, names)
    breaks = [(0, 0), *(each.span() for each in _BREAKS.finditer(left)), (len(left), len(left))]
    found = dict[str, None]()
    for (begin, after), (end, _) in itertools.pairwise(breaks):
        piece = left[after:end]
        if _matters(piece) or _says_something(piece):
            is_word = said[begin:after].strip(_MARKS) != ""  # "unless it ran up"
            start = begin if is_word else after + len(piece) - len(piece.lstrip())
            found[" ".join(said[start : after + len(piece.rstrip())].split())] = None
    return tuple(found)


_MARKS = ",，;；。!！?？.:：\n "


_MATTER = ("not", "schedule", "up move", "down move", "up level", "down level")


def _matters(piece: str) -> bool:
    """Whether a piece has a number, an indicator, a denial, a direction or a schedule."""
    return (
        any(numbers_in(piece))
        or any(pattern.search(piece) for pattern, _ in FIELDS)
        or any(has(name, piece) for name in _MATTER)
    )


_SMALL = re.compile(
    r"过去|最近|其中|回测|跑一遍|试试|[到里]|(?<![a-z])(?:and|on|in|at|the|it|then|so|to|of|with|for)(?![a-z])"
)  # "买入过去"


def _says_something(piece: str) -> bool:
    for verb in ("buy", "sell", "hold"):
        piece = WORDS[verb].sub(" ", piece)
    words = _SMALL.sub("", FILLERS_ZH.sub("", piece))
    letters = re.findall(r"[a-z']{2,}", words)  # "weekly"
    return any(each not in FILLERS for each in letters) or bool(
        re.search(r"[\u4e00-\u9fff]{2,}", words)
    )  # "均线"


def says_part(words: str, name: str, value: Any) -> bool:
    """Whether words say a part of a plan: one of its words and, if it has numbers, one of these.

    >>> says_part("止损8%", "stop_loss", "0.08"), says_part("2x leverage", "max_positions", 2)
    (True, False)
    """
    words = plain(words)
    numbers = [*plan_numbers(value, name)]
    named = name not in PLAN_WORDS or PLAN_WORDS[name].search(words) is not None
    return named and (not numbers or any(each.is_one_of(numbers) for each in numbers_in(words)))
