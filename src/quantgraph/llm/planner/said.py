"""What a sentence names: its spans of dates and its securities, read without its rule.

A model's answer is held against these: a window of another year or a code that nobody said is a slip.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from quantgraph.errors import BadWindow
from quantgraph.llm.planner.clauses import find_clauses
from quantgraph.llm.planner.dates import Span, Window, find_window, merge_windows
from quantgraph.llm.planner.lexicon import is_word, tokens_of
from quantgraph.llm.planner.normalisation import MARKS, normalise
from quantgraph.llm.planner.request import RequestContext, read_request
from quantgraph.llm.planner.roles import choose, marked_codes
from quantgraph.llm.planner.securities import find_symbols


def said_windows(text: str, last_session: str | None) -> tuple[Span, ...]:
    """The spans of dates that a text of one or several lines names, of the last line that names any.

    Parameters
    ----------
    last_session
        Last session of the data as ``YYYYMMDD``: relative dates count back from it, and a start alone ends there.

    Returns
    -------
    tuple
        First and last day of each span, ``YYYYMMDD``; empty if the text names none, or one that is malformed,
        ambiguous or open at an end that ``last_session`` does not close.

    Examples
    --------
    >>> said_windows("600519.SH 2025年1月和3月", None)
    (('20250101', '20250131'), ('20250301', '20250331'))
    >>> said_windows("buy the top 10 since 2024-03-01", "20251231")
    (('20240301', '20251231'),)
    """
    window = Window()
    for line in text.splitlines():
        try:
            found, _ = find_window(find_symbols(normalise(line), {}, is_word).rest, last_session)
        except BadWindow:
            return ()
        window = found.in_year_of(window) or window.in_year_of(found) or merge_windows(window, found)
    if window.spans:
        return window.spans
    end = window.end or (last_session if window.open_end else None)
    return ((window.start, end),) if window.start and end else ()


def said_symbols(text: str, names: Mapping[str, str]) -> tuple[str, ...]:
    """The codes that a text names for its rule, in reading order: of stocks, of indices by code or name, and ``ALL``.

    An index that only says where a stock belongs, a stock that gives way to another one, and a benchmark are left out.

    Parameters
    ----------
    names
        ``ts_code`` by security name.

    Examples
    --------
    >>> said_symbols("上证50里的贵州茅台", {"贵州茅台": "600519.SH"})
    ('600519.SH',)
    """
    found = (_codes_of(line, names) for line in text.splitlines())
    return tuple(dict.fromkeys(code for codes in found for code in codes))


def _codes_of(line: str, names: Mapping[str, str]) -> Iterator[str]:
    found = find_symbols(normalise(line), names, is_word)
    choice = choose(found.marked, found.symbols)
    kept = {*choice.watch, *choice.trade, *marked_codes(choice.text, found.symbols)}
    yield from (code for code in found.symbols if code in kept)


_JOINED = r"\s*(?:[,、&/和与跟及]|\band\b|\bor\b|以及)+\s*(?:the\s+)?"
_WORD = r"([a-z][a-z'.-]+|[一-鿿]{2,6}?)"
_BESIDE = re.compile(
    rf"(?<![a-z一-鿿]){_WORD}{_JOINED}[{MARKS}]|[{MARKS}]{_JOINED}{_WORD}(?![a-z一-鿿])", re.IGNORECASE
)


def possible_names(text: str, names: Mapping[str, str]) -> tuple[str, ...]:
    """Words in a row with a security that no rule reads: perhaps a nickname of another one.

    >>> possible_names("moutai and 601318.SH, golden cross, 2025", {}), possible_names("茅台、601318.SH 2025年", {})
    (('moutai',), ('茅台',))
    >>> possible_names("buy and 601318.SH", {}), possible_names("golden cross, 601318.SH", {})
    ((), ())
    """
    found = []
    for line in text.splitlines():
        marked = find_symbols(normalise(line), names, is_word).marked
        found += [match[1] or match[2] for match in _BESIDE.finditer(marked)]
    return tuple(word for word in dict.fromkeys(found) if _is_unknown(word))


def _is_unknown(word: str) -> bool:
    tokens = tokens_of(word)
    return not is_word(word.lower()) and bool(tokens) and all(token.kind == "UNKNOWN" for token in tokens)


def restates_without(text: str, clauses: Sequence[str]) -> bool:
    """Whether a text says a rule again without these clauses of a trade plan, which are thereby given up.

    >>> restates_without("5日均线上穿20日均线买入，下穿卖出", ["止损5%"])
    True
    >>> restates_without("金叉买入，止损8%", ["止损5%"]), restates_without("为什么？", ["止损5%"])
    (False, False)
    """
    topics = {clause.topic for words in clauses for clause in find_clauses(normalise(words))[0]}
    again = {clause.topic for line in text.splitlines() for clause in find_clauses(normalise(line))[0]}
    try:
        rule = read_request(text, RequestContext()).strategy
    except BadWindow:
        return False
    return rule is not None and bool(topics) and not topics & again


def says_parameters(text: str, names: Mapping[str, str], last_session: str | None) -> bool:
    """Whether a text names a security, a span of dates, or a clause of a trade plan.

    >>> says_parameters("since the close", {}, None), says_parameters("000342.SZ", {}, None)
    (False, True)
    """
    if said_symbols(text, names) or possible_names(text, names) or said_windows(text, last_session):
        return True
    return any(find_clauses(normalise(line))[0] for line in text.splitlines())


def watched_only(text: str, names: Mapping[str, str]) -> tuple[str, ...]:
    """The codes that the conditions of a text are about while it trades others; empty if the roles are not read.

    >>> watched_only("when 601318.SH closes above its 20-day average, buy 600519.SH", {})
    ('601318.SH',)
    >>> watched_only("601318.SH, 600519.SH golden cross", {})
    ()
    """
    try:
        read = read_request(text, RequestContext(names=names))
    except BadWindow:
        return ()
    return tuple(code for code in read.watch if code not in read.trade)


def says_a_rule(text: str, names: Mapping[str, str]) -> bool:
    """Whether a text has words of a rule, readable or not, beside its securities and dates.

    Examples
    --------
    >>> says_a_rule("600519.SH，买点强势股，2025年", {}), says_a_rule("600519.SH，2025年", {})
    (True, False)
    """
    try:
        read = read_request(text, RequestContext(names=names))
    except BadWindow:
        return False
    return read.strategy is not None or bool(read.unread)
