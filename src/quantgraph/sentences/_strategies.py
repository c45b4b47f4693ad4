"""Read the buy and sell clauses of a line, and combine lines to one rule."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from quantgraph.errors import BadOption
from quantgraph.rules import Node, Rule, make
from quantgraph.sentences._grammar import (
    Clause,
    Group,
    NodeClause,
    band_words,
    kind_at,
    line_pairs,
    operands,
    parse_clause,
    upper_band,
)
from quantgraph.sentences._meaning import Memory, after_clause, remember, resolve
from quantgraph.sentences._named_rules import (
    bare_side,
    is_reversion,
    joint_of,
    middle_exit,
    named_bands,
    named_indicator,
    named_rule,
    strip_separators,
    turned_exit,
)
from quantgraph.sentences._rules import (
    AVERAGES,
    BANDS,
    HELD,
    KDJ_LINES,
    MACD_LINES,
    NEVER,
    contradicts,
    has_event,
    is_bullish,
    is_comparison,
    is_field,
    leaves_of,
    opposite,
)
from quantgraph.sentences._text import DATA_KINDS, Token, clean_words, readable_excerpt

Tokens = Sequence[Token]


@dataclass(frozen=True, kw_only=True)
class LineRule:
    """Entry and exit of one line.

    With ``otherwise`` the exit is the complement of the entry.
    """

    entry: Node | None = None
    exit: Node | None = None
    otherwise: bool = False
    failed: tuple[str, ...] = ()
    memory: Memory = field(default_factory=Memory)
    entry_text: str = ""
    exit_text: str = ""


@dataclass(frozen=True, kw_only=True)
class RuleReading:
    """One rule from all lines, its clauses as written, and the text of an exit that contradicts the entry.

    ``exit_is_default`` is True if the text names no exit and the opposite of the entry takes its place.
    """

    rule: Rule | None = None
    contradiction: str = ""
    entry: str = ""
    exit: str = ""
    exit_is_default: bool = False


_COMPARISONS = (
    "CROSS_UP", "CROSS_DOWN", "BREAK_UP", "BREAK_DOWN", "ABOVE", "BELOW", "GE", "LE", "GOLDEN", "DEATH", "TOP", "BOTTOM",
    "OVERSOLD", "OVERBOUGHT", "NOT", "REVERSE", "ELSE", "RANGE", "TURNS_UP", "TURNS_DOWN",
)  # fmt: skip


_LONGEST_CLAUSE = 60
"""Tokens; more than in any sentence, and few enough for Python's recursion limit."""
_LONGEST_LINE = 6 * _LONGEST_CLAUSE
"""Tokens; more than the clauses of one rule can have."""


def _without_data_clause(tokens: Tokens) -> Tokens:
    """The tokens without a leading data request (``获取…数据，``), which ends at a comma or *and*."""
    end = 0
    while end < len(tokens) and tokens[end].kind in DATA_KINDS:
        end += 1
    cuts = [at for at in range(end) if tokens[at].kind in ("SEP", "AND")]
    if cuts and any(token.kind in ("DATA", "VALUATION") for token in tokens[: cuts[-1]]):
        return tokens[cuts[-1] + 1 :]
    return tokens


def _tidy(tokens: Tokens) -> list[Token]:
    """The tokens without labels and without the commas behind them."""
    kept: list[Token] = []
    behind_label = False
    for token in tokens:
        if token.kind in ("LABEL", "SIGNAL", "DATA"):
            behind_label = True
            continue
        if not (behind_label and token.kind == "SEP"):
            kept.append(token)
            behind_label = False
    return kept


def _without_pauses(tokens: Tokens) -> tuple[list[Token], bool]:
    """The tokens without commas before *and*, *or* or a comparison, and whether one was before *and* or *or*."""
    kept: list[Token] = []
    joint = False
    for at, token in enumerate(tokens):
        behind = kind_at(tokens, at + 1)
        if token.kind == "SEP" and behind in ("AND", "OR", *_COMPARISONS):
            joint = joint or behind in ("AND", "OR")
            continue
        kept.append(token)
    return kept, joint


def _mixes(clause: Clause) -> bool:
    names = {each.name for each in (clause, *getattr(clause, "parts", ())) if isinstance(each, NodeClause)}
    return names >= {"and", "or"}


def _condition(tokens: Tokens, memory: Memory) -> tuple[Node, Memory] | None:
    """The only meaning of a clause; None without one, or with several."""
    plain, joint = _without_pauses(tokens)
    if len(plain) > _LONGEST_CLAUSE:
        return None
    brackets = any(token.kind == "LP" for token in plain)
    found: dict[Node, Memory] = {}
    with suppress(BadOption):  # more parts than a rule may have
        for clause in parse_clause(plain):
            if joint and _mixes(clause) and not brackets:
                return None
            result = resolve(clause, memory)
            if result is not None:
                found[result[0]] = result[1]
    return next(iter(found.items())) if len(found) == 1 else None


def read_condition(tokens: Tokens) -> Node | None:
    """The only meaning of tokens that stand alone; None without one, or with several."""
    found = _condition(tokens, Memory())
    return None if found is None else found[0]


def _preamble(tokens: Tokens, memory: Memory) -> Memory | None:
    """The memory after a value or two lines ahead of the clauses: ``用RSI(14)，``, ``rank by 20-day return;``."""
    for (left, right), end in line_pairs(tokens, 0):
        if end == len(tokens) and isinstance(left, Node) and isinstance(right, Node):
            return remember(memory, left, right)
    for value, end in operands(tokens, 0):
        if end != len(tokens):
            continue
        if isinstance(value, Group) and value.left.name in BANDS:
            return replace(memory, band=value.left)
        if isinstance(value, Node) and (value.name in _NAMED_AHEAD or is_field(value)):
            return remember(memory, value)
    return None


_NAMED_AHEAD = ("change", "rsi", "close", "volume", *AVERAGES, *KDJ_LINES, *MACD_LINES, *BANDS)


def _with_bands(tokens: Tokens, memory: Memory) -> Memory:
    """The memory with the Bollinger band of this line, if any."""
    for at in range(len(tokens)):
        _, named, numbers, _ = band_words(tokens, at)
        if named and (band := upper_band(numbers)):
            memory = replace(memory, band=band)
    return memory


def _text(tokens: Tokens, line: str) -> str:
    return line[tokens[0].begin : tokens[-1].end].strip() if tokens else ""


def _bullish_event(tokens: Tokens, memory: Memory) -> LineRule | None:
    """An event that means a purchase without a verb: ``MACD金叉``, ``突破20日新高``; not a state."""
    if any(token.kind in ("ABOVE", "GE", "POST_UP") for token in tokens):
        return None
    found = _condition(tokens, memory)
    if found is None or not is_bullish(found[0]):
        return None
    return LineRule(entry=found[0], memory=found[1])


def _without_verb(tokens: Tokens, line: str, memory: Memory) -> LineRule:
    """The rule of a line without *buy* and *sell*; a request for data is not a rule."""
    plain = strip_separators(_tidy(tokens))
    kinds = {token.kind for token in tokens}
    wants_data = bool(kinds & {"DATA", "VALUATION"}) and not kinds & {"LABEL", "SIGNAL"}
    if wants_data:
        return LineRule(failed=(_text(plain, line),), memory=memory)
    named = (
        named_rule(plain, memory)
        or named_bands(tokens, memory)
        or named_indicator(plain, tokens, line, memory)
    )
    found = _bullish_event(plain, memory) or (
        None if named is None else LineRule(entry=named[0], exit=named[1], memory=named[2])
    )
    if found is None:
        return LineRule(failed=(_text(plain, line),), memory=memory)
    written = _text(plain or tokens, line)
    return replace(found, entry_text=written, exit_text=written if found.exit is not None else "")


def _assign(segments: list[list[Token]]) -> dict[int, list[Token]] | None:
    """The segment of each action: before or behind it, as the only empty segment shows."""
    empty = [at for at, segment in enumerate(segments) if not segment]
    if len(empty) != 1:
        return None
    gap = empty[0]
    return {at if at < gap else at - 1: segment for at, segment in enumerate(segments) if at != gap}


def _is_complement(tokens: Tokens) -> bool:
    return [token.kind for token in tokens] in (["ELSE"], ["REVERSE"])


def _around(segments: list[list[Token]], memory: Memory) -> dict[int, list[Token]] | None:
    """Clauses between an action ahead and one behind (``买入 A，B 卖出``), split at the only possible comma."""
    if len(segments) != 3 or segments[0] or segments[2]:
        return None
    middle = segments[1]
    found: list[dict[int, list[Token]]] = []
    for at, token in enumerate(middle):
        if token.kind == "SEP" and (first := _condition(strip_separators(middle[:at]), memory)) is not None:
            behind = strip_separators(middle[at:])
            if _is_complement(behind) or _condition(behind, after_clause(*first)) is not None:
                found.append({0: strip_separators(middle[:at]), 1: behind})
    return found[0] if len(found) == 1 else None


def _split(tokens: Tokens) -> tuple[list[str], list[list[Token]]]:
    actions: list[str] = []
    segments: list[list[Token]] = [[]]
    for token in tokens:
        if token.kind in ("BUY", "SELL"):
            actions.append(token.kind)
            segments.append([])
        else:
            segments[-1].append(token)
    return actions, [strip_separators(segment) for segment in segments]


def read_line_rule(tokens: Tokens, line: str, memory: Memory) -> LineRule:
    """Read one line; ``memory`` is of the earlier lines."""
    unknown = [
        readable_excerpt(token.text, line, token.begin, token.end)
        for token in tokens
        if token.kind == "UNKNOWN"
    ]
    if unknown:
        words = tuple(text for text in dict.fromkeys(unknown) if clean_words(text))
        return LineRule(failed=words or (_text(tokens, line),), memory=memory)
    if any(token.kind == "NEVER" for token in tokens):
        return _never_sold(tokens, line, memory)
    tokens = _without_data_clause(tokens)
    plain = _tidy(tokens)
    if len(plain) > _LONGEST_LINE:
        return LineRule(failed=(_text(plain, line),), memory=memory)
    actions, segments = _split(plain)
    if not actions:
        return _without_verb(tokens, line, memory)
    memory = _with_bands(plain, memory)
    parts = _assign(segments) if bare_side(segments[0], line, "BUY", memory) else None
    if segments[0] and (seen := _preamble(segments[0], memory)) is not None:
        memory, segments[0] = seen, []
    if actions == ["SELL"] and all(segments) and _bullish_event(segments[0], memory) is not None:
        actions, parts = ["BUY", "SELL"], dict(enumerate(segments))  # golden cross, exit on a death cross
    parts = parts or _assign(segments) or _around(segments, memory)
    if parts is None or len(set(actions)) < len(actions):
        return LineRule(failed=(_text(plain, line),), memory=memory)
    return _read_parts(actions, parts, line, memory)


def _never_sold(tokens: Tokens, line: str, memory: Memory) -> LineRule:
    """The rule of a line that says never to sell, alone or right behind the clause that buys."""
    failed = LineRule(failed=(_text(tokens, line),), memory=memory)
    at = next(place for place, token in enumerate(tokens) if token.kind == "NEVER")
    before, behind = tokens[:at], strip_separators(tokens[at + 1 :])
    bought = strip_separators(before)
    pause = max((place for place, token in enumerate(bought) if token.kind == "SEP"), default=-1)
    is_apart = (
        len(bought) < len(before) or not bought or bought[-1].kind == "BUY" or _JOINS.match(tokens[at].text)
    )
    if behind or not is_apart or (bought and all(token.kind != "BUY" for token in bought[pause + 1 :])):
        return failed
    read = read_line_rule(bought, line, memory) if bought else LineRule(memory=memory)
    if read.exit is not None or read.otherwise:
        return failed
    return replace(read, exit=NEVER, exit_text=tokens[at].text)


_JOINS = re.compile(r"and|but|就|并|然后")  # "然后"


def _both(joint: tuple[Tokens, Tokens] | None, memory: Memory) -> tuple[Node, Memory] | None:
    """Both sides of a joint as one condition; each must be a condition alone, the second without a rank."""
    if joint is None or any(_condition(side, Memory(band=memory.band)) is None for side in joint):
        return None
    first, second = joint
    comma = Token(kind="AND", text="", begin=first[-1].end, end=first[-1].end)
    found = _condition([*first, comma, *second], memory)
    if found is None or found[0].name != "and":
        return None
    alone = _condition(second, Memory(band=memory.band))
    ranks = alone is None or not all(is_comparison(leaf) for leaf in leaves_of(alone[0]))
    return None if ranks else found


def _read_parts(actions: list[str], parts: dict[int, list[Token]], line: str, memory: Memory) -> LineRule:
    clauses = LineRule(memory=memory)
    shortened = False
    for at, action in enumerate(actions):
        if action == "SELL" and _is_complement(parts[at]):
            exit_text = _text(parts[at], line)
            clauses = replace(clauses, otherwise=parts[at][0].kind == "ELSE", exit_text=exit_text)
            continue
        found = None
        if action == "SELL" and clauses.entry is not None:
            found = turned_exit(parts[at], line, clauses.entry, clauses.memory) or middle_exit(
                parts[at], clauses.entry, clauses.memory
            )
        found = found or _condition(parts[at], clauses.memory)
        if found is None and action == "BUY":
            leading_not = at == 0 and "SELL" in actions
            found = _both(joint_of(parts[at], line, leading_not=leading_not), clauses.memory)
        if found is None:
            found = bare_side(parts[at], line, action, clauses.memory)
            shortened = shortened or found is not None
        if found is None:
            return LineRule(failed=(_text(parts[at], line),), memory=memory)
        side, text = "entry" if action == "BUY" else "exit", _text(parts[at], line)
        said: dict[str, Any] = {side: found[0], f"{side}_text": text}
        clauses = replace(clauses, memory=after_clause(*found), **said)
    if shortened and not is_reversion(clauses.entry, clauses.exit):
        words = tuple(_text(parts[at], line) for at in range(len(actions)))
        return LineRule(failed=words, memory=memory)
    return clauses


def _complement(entry: Node) -> Node | None:
    """Wherever the entry does not hold; None for an event, which hardly ever does."""
    return None if has_event(entry) else make("not", entry)


def rule_of(lines: Iterable[LineRule], end: str = "") -> RuleReading:
    """One rule from all lines.

    A later entry replaces the whole rule and earlier failures, a later exit only the exit. ``end`` are words
    of a trade plan that end a position: they are the exit where no other is named.
    """
    entry: Node | None = None
    exit_: Node | None = None
    otherwise = failed = False
    entry_text = exit_text = ""
    for clauses in lines:
        if clauses.failed:
            failed = True
            continue
        if clauses.entry is not None:
            kept = exit_text if entry is None and clauses.exit is None else ""
            exit_ = clauses.exit if entry is not None or clauses.exit is not None else exit_
            entry, otherwise, failed = clauses.entry, clauses.otherwise, False
            entry_text, exit_text = clauses.entry_text, clauses.exit_text or kept
        elif clauses.exit is not None:
            exit_, otherwise, exit_text = clauses.exit, False, clauses.exit_text
    if entry is None or failed:
        return RuleReading()
    if exit_ is not None and contradicts(entry, exit_):
        return RuleReading(contradiction=exit_text)
    exit_text = exit_text or (entry_text if entry == HELD else "")
    if exit_ is None and not exit_text and end:
        exit_, exit_text = NEVER, end
    is_default = exit_ is None and not exit_text
    if exit_ is None:
        exit_ = _complement(entry) if otherwise else opposite(entry)
    if exit_ is None:
        return RuleReading()
    rule = Rule(entry, exit_)
    return RuleReading(rule=rule, entry=entry_text, exit=exit_text, exit_is_default=is_default)
