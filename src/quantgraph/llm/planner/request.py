"""Read a request: its securities, its window, its rule, and what is missing."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from quantgraph._util.texts import Language, language_of
from quantgraph.errors import BadWindow
from quantgraph.llm.planner.dates import MARK, Span, Window, find_window, merge_windows, without_dates
from quantgraph.llm.planner.lexicon import (
    DATA_KINDS,
    FIELD_NAMES,
    STRATEGY_KINDS,
    Token,
    is_word,
    tokens_of,
)
from quantgraph.llm.planner.meaning import Memory
from quantgraph.llm.planner.normalisation import clean_words, collapse_spaces, normalise, readable_excerpt
from quantgraph.llm.planner.parameters import TokenLine, complete_parameters, count_crosses
from quantgraph.llm.planner.rules import Average, TradingRule, fields_of
from quantgraph.llm.planner.securities import find_symbols, is_shouted
from quantgraph.llm.planner.strategies import LineRule, read_line_rule, rule_of
from quantgraph.llm.planner.styles import Heading, find_heading, styles_of

__all__ = ["Intent", "Language", "Missing", "ParsedRequest", "RequestContext", "read_request"]

Intent = Literal["data_fetch", "signal_gen", "mixed", "unclear"]
Missing = Literal["symbols", "window", "strategy"]


@dataclass(frozen=True, kw_only=True)
class RequestContext:
    """Facts of the host about the data.

    Parameters
    ----------
    first_session, last_session
        Ends of the data as ``YYYYMMDD``. Relative dates count back from ``last_session``.
    names
        ``ts_code`` by security name, for the names in the text.
    examples
        Codes or index names of the source, for the question about the stocks.
    """

    first_session: str | None = None
    last_session: str | None = None
    names: Mapping[str, str] = field(default_factory=dict)
    examples: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ParsedRequest:
    """A request as read. Dates are ``YYYYMMDD`` or None; ``fields`` are daily indicators, bars are implied.

    ``missing`` lists the parts to ask for, in that order; ``unread`` the unread words that may change the trade.
    ``windows`` are several spans, of which the user must name one.
    """

    symbols: tuple[str, ...]
    start: str | None
    end: str | None
    strategy: TradingRule | None
    fields: tuple[str, ...]
    intent: Intent
    missing: tuple[Missing, ...]
    language: Language
    unread: tuple[str, ...]
    windows: tuple[Span, ...] = ()


@dataclass(frozen=True, kw_only=True)
class _Line:
    symbols: tuple[str, ...]
    window: Window
    tokens: tuple[Token, ...]
    names: tuple[str, ...]
    text: str
    refused: BadWindow | None = None
    cross_count: int = 0
    heading: Heading | None = None

    def has(self, *kinds: str) -> bool:
        return any(token.kind in kinds for token in self.tokens)

    @property
    def describes_strategy(self) -> bool:
        return self.has(*STRATEGY_KINDS)

    @property
    def announces_an_exit(self) -> bool:
        """Whether the line ends with an exit (``卖出：``) that the next line describes."""
        actions = [token.kind for token in self.tokens if token.kind in ("BUY", "SELL")]
        return actions[-1:] == ["SELL"]

    def tokens_beyond_data(self) -> Iterator[Token]:
        """Tokens that a data request cannot hold."""
        return (token for token in self.tokens if token.kind not in DATA_KINDS and token.text != "k线")


_BEFORE_A_DATE = re.compile(rf"\s*(?:在|的|股票|'s|in|over|during|for|[,:])*\s*{MARK}")


def _looks_like_a_name(token: Token, text: str) -> bool:
    """Whether an unknown word, or a code of no exchange, stands right before the date, like a security."""
    strange = token.kind == "UNKNOWN" or re.fullmatch(r"\d{6}", token.text)
    return bool(strange and _BEFORE_A_DATE.match(text, token.end))


def _without_heading(heading: Heading, text: str) -> list[Token]:
    """Tokens of a line without its heading; a selection without a verb is bought."""
    tokens = tokens_of(text[: heading.begin] + " " * (heading.end - heading.begin) + text[heading.end :])
    if not heading.selects or any(token.kind == "BUY" for token in tokens):
        return tokens
    ahead = sum(token.end <= heading.begin for token in tokens)
    return [*tokens[:ahead], Token(kind="BUY", text="", begin=heading.end, end=heading.end), *tokens[ahead:]]


def _read_line(line: str, context: RequestContext, *, headings: bool) -> _Line:
    found = find_symbols(normalise(line), context.names, is_word)
    refused: BadWindow | None = None
    try:
        window, text = find_window(found.rest, context.last_session)
    except BadWindow as error:
        window, text, refused = Window(), without_dates(found.rest), error
    text = collapse_spaces(text)
    heading = find_heading(text) if headings else None
    tokens = tokens_of(text) if heading is None else _without_heading(heading, text)
    names = [] if found.symbols else [token for token in tokens if _looks_like_a_name(token, text)]
    strange = frozenset(names)
    return _Line(
        symbols=found.symbols,
        window=window,
        tokens=tuple(token for token in tokens if token not in strange),
        names=tuple(token.text.strip() for token in names),
        text=text,
        refused=refused,
        heading=heading,
    )


def _with_parameters(lines: list[_Line]) -> list[_Line]:
    """The lines with the parameters of the request for bare indicator names."""
    spoken = [line for line in lines if line.describes_strategy]
    plain = [TokenLine(tokens=line.tokens, text=line.text) for line in spoken]
    done = iter(zip(complete_parameters(plain), count_crosses(plain), strict=True))
    found: list[_Line] = []
    for line in lines:
        if line.describes_strategy:
            new, cross_count = next(done)
            line = replace(line, tokens=new.tokens, cross_count=cross_count)  # noqa: PLW2901 - the same line, completed
        found.append(line)
    return found


def _with_years(lines: list[_Line]) -> list[_Line]:
    """Months without a year (``三月到五月``) in the year that another line names; that line keeps no window."""
    years = [line.window for line in lines if line.window.is_year]
    if not years or not any(line.window.yearless for line in lines):
        return lines
    found: list[_Line] = []
    for line in lines:
        window = Window() if line.window.is_year else line.window.in_year_of(years[-1]) or line.window
        found.append(replace(line, window=window))
    return found


def _window(lines: list[_Line]) -> Window:
    """The window of all lines; a malformed date is an error unless a later line replaces it."""
    window = Window()
    refused: BadWindow | None = None
    for line in lines:
        refused = line.refused or (None if line.window.start or line.window.end else refused)
        window = merge_windows(window, line.window)
    if refused is not None:
        raise refused
    return window


_TEXTBOOK = Memory(crossed=(Average(period=50), Average(period=200)))
_LINES = (
    "BOLL", "D", "DAYS", "DEA", "DIF", "EMA", "HIST", "J", "K", "KDJ", "MA", "MACD", "NUM", "RSI", "UNKNOWN", "VOLAVG",
)  # fmt: skip


def _names_only_the_golden_cross(lines: list[_Line]) -> bool:
    """Whether the request has the English term and no other line or number: averages of 50 and 200 days."""
    said = [token for line in lines for token in line.tokens]
    golden = any(token.kind == "GOLDEN" and token.text.startswith("golden") for token in said)
    return golden and not any(token.kind in _LINES for token in said)


def _line_rules(lines: list[_Line]) -> list[LineRule]:
    """Rules of the lines that describe a strategy, or add unknown words to one."""
    if not any(line.describes_strategy for line in lines):
        return []
    found: list[LineRule] = []
    memory = _TEXTBOOK if _names_only_the_golden_cross(lines) else Memory()
    named = selling = False
    for line in lines:
        named = named or bool(line.symbols)
        if line.describes_strategy or (line.has("UNKNOWN") and named and found):
            clauses = read_line_rule(line.tokens, line.text, replace(memory, cross_count=line.cross_count))
            if selling and not line.has("BUY", "SELL"):
                clauses = LineRule(failed=(line.text,), memory=memory)
            selling = bool(clauses.failed) and (selling or line.announces_an_exit)
            if clauses.failed and _only_announces(line):
                clauses = replace(clauses, failed=styles_of(line.tokens, line.text))
            found.append(clauses)
            memory = clauses.memory
    return found


def _only_announces(line: _Line) -> bool:
    """Whether the line only announces a strategy: ``帮我生成交易信号``, ``backtest a strategy:``."""
    ignored = {"SIGNAL", "LABEL", "DATA", "SEP", "AND"}
    return all(token.kind in ignored for token in line.tokens)


def _fields(lines: list[_Line], rule: TradingRule | None) -> tuple[str, ...]:
    wanted = dict.fromkeys(fields_of(rule) if rule else ())
    for line in lines:
        for token in line.tokens:
            if token.kind.startswith("FIELD:"):
                wanted[token.kind.removeprefix("FIELD:")] = None
            elif token.kind == "VALUATION":
                wanted.update(dict.fromkeys(("pe", "pb", "ps")))
    order = list(FIELD_NAMES)
    return tuple(sorted(wanted, key=order.index))


_DATA_NAMES = ("PRICE", "VOL", "OPEN", "HIGHN", "LOWN", "K", *(f"FIELD:{name}" for name in FIELD_NAMES))


def _intent(lines: list[_Line], wants_rule: bool) -> Intent:
    wants_data = any(line.has("DATA", "VALUATION") for line in lines)
    if wants_rule:
        return "mixed" if wants_data else "signal_gen"
    names_data = any(line.has(*_DATA_NAMES) for line in lines)
    only_data = names_data and not any(list(line.tokens_beyond_data()) for line in lines)
    return "data_fetch" if wants_data or only_data else "unclear"


def _language(text: str, context: RequestContext) -> Language:
    """The language of the first line, since later lines are answers."""
    first = text.strip().partition("\n")[0]
    for name in context.names:
        first = first.replace(name, "")
    return language_of(first.lower() if is_shouted(first, is_word) else first)


def _unread(lines: list[_Line], clauses: list[LineRule], contradiction: str) -> tuple[str, ...]:
    found: list[str] = []
    dated = max((at for at, line in enumerate(lines) if line.window.start or line.window.spans), default=-1)
    for at, line in enumerate(lines):
        found += (*line.names, *(line.window.unread if at >= dated else ()))
        unknown = (token for token in line.tokens if token.kind == "UNKNOWN")
        strange = unknown if line.describes_strategy else line.tokens_beyond_data()
        found += dict.fromkeys(
            readable_excerpt(token.text, line.text, token.begin, token.end) for token in strange
        )
    for clause in clauses:
        found += clause.failed
    found.append(contradiction)
    return tuple(text for text in dict.fromkeys(map(clean_words, dict.fromkeys(found))) if text)


def read_request(text: str, context: RequestContext) -> ParsedRequest:
    """Read a request of one or several lines; a later line answers or overrides an earlier one.

    Raises
    ------
    BadWindow
        If a date is malformed. A day that does not exist, or a start after the end, is returned as
        written.

    Examples
    --------
    >>> request = read_request("600519 2024年 MACD金叉买入，死叉卖出", RequestContext())
    >>> request.symbols, request.start, request.end, request.missing
    (('600519.SH',), '20240101', '20241231', ())
    """
    return _read(text, context, headings=True)


def _read(text: str, context: RequestContext, *, headings: bool) -> ParsedRequest:
    """The request, read without headings if each of them fits the rule, else with them as words."""
    written = [line for line in text.splitlines() if line.strip()]
    lines = _with_years(_with_parameters([_read_line(line, context, headings=headings) for line in written]))
    symbols: tuple[str, ...] = ()
    for line in lines:
        symbols = line.symbols or symbols
    window = _window(lines)
    clauses = _line_rules(lines)
    rule, contradiction = rule_of(clauses)
    if any(rule is None or not line.heading.fits(rule) for line in lines if line.heading):
        return _read(text, context, headings=False)
    intent = _intent(lines, any(line.describes_strategy for line in lines))
    end = window.end or (context.last_session if window.open_end else None)
    missing: list[Missing] = []
    if not symbols:
        missing.append("symbols")
    if window.start is None or end is None:
        missing.append("window")
    if rule is None and intent != "data_fetch":
        missing.append("strategy")
    return ParsedRequest(
        symbols=symbols,
        start=window.start,
        end=end,
        strategy=rule,
        fields=_fields(lines, rule),
        intent=intent,
        missing=tuple(missing),
        language=_language(text, context),
        unread=_unread(lines, clauses, contradiction),
        windows=window.spans,
    )
