"""One line of a request: its securities, its window, its clauses of the trade plan, and the tokens of its rule."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from quantgraph.errors import BadWindow
from quantgraph.llm.planner.clauses import PlanClause, Waiver, find_clauses, find_waivers, is_general_waiver
from quantgraph.llm.planner.dates import MARK, Window, find_window, merge_windows, without_dates
from quantgraph.llm.planner.lexicon import DATA_KINDS, STRATEGY_KINDS, Token, is_word, tokens_of
from quantgraph.llm.planner.normalisation import clean_words, collapse_spaces, normalise
from quantgraph.llm.planner.parameters import TokenLine, complete_parameters, count_crosses
from quantgraph.llm.planner.roles import Choice, Roles, choose, roles_of
from quantgraph.llm.planner.securities import find_symbols
from quantgraph.llm.planner.styles import Heading, find_heading


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
    executes
        Keys of the trade plan that the decider executes; the planner asks about every other clause.
    """

    first_session: str | None = None
    last_session: str | None = None
    names: Mapping[str, str] = field(default_factory=dict)
    examples: tuple[str, ...] = ()
    executes: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True)
class RequestLine:
    """A line as read; ``text`` is normalised, with marks for dates and securities, and blanks for clauses."""

    roles: Roles
    window: Window
    tokens: tuple[Token, ...]
    names: tuple[str, ...]
    text: str
    refused: BadWindow | None = None
    cross_count: int = 0
    heading: Heading | None = None
    clauses: tuple[PlanClause, ...] = ()
    waivers: tuple[Waiver, ...] = ()
    gives_up: bool = False

    def has(self, *kinds: str) -> bool:
        """Whether a token has one of the kinds."""
        return any(token.kind in kinds for token in self.tokens)

    @property
    def describes_strategy(self) -> bool:
        """Whether a token belongs to a strategy."""
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


def _with_choice(roles: Roles, choice: Choice) -> Roles:
    if choice.watch and choice.trade:
        roles = Roles(watch=choice.watch, trade=choice.trade, explicit=True, subjects=2)
    problems = (*choice.problems, *roles.problems)
    return replace(roles, problems=problems)


def _read_line(line: str, context: RequestContext, *, headings: bool) -> RequestLine:
    plain = normalise(line)
    if is_general_waiver(plain):
        return RequestLine(roles=Roles(), window=Window(), tokens=(), names=(), text="", gives_up=True)
    found = find_symbols(plain, context.names, is_word)
    choice = choose(found.marked, found.symbols)
    refused: BadWindow | None = None
    try:
        window, text = find_window(choice.text, context.last_session)
    except BadWindow as error:
        window, text, refused = Window(), without_dates(choice.text), error
    waivers, text = find_waivers(collapse_spaces(text))
    clauses, text = find_clauses(collapse_spaces(text))
    text = collapse_spaces(text)
    heading = find_heading(text) if headings else None
    tokens = tokens_of(text) if heading is None else _without_heading(heading, text)
    names = [] if found.symbols else [token for token in tokens if _looks_like_a_name(token, text)]
    strange = frozenset(names)
    if choice.benchmark:
        words = f"benchmark {choice.benchmark}"
        clauses = (
            *clauses,
            PlanClause(words=words, topic="benchmark", key="benchmark", value=choice.benchmark),
        )
    return RequestLine(
        roles=_with_choice(roles_of(text, tokens, found.symbols), choice),
        window=window,
        tokens=tuple(token for token in tokens if token not in strange),
        names=tuple(token.text.strip() for token in names),
        text=text,
        refused=refused,
        heading=heading,
        clauses=clauses,
        waivers=waivers,
    )


def read_lines(text: str, context: RequestContext, *, headings: bool) -> list[RequestLine]:
    """The lines of a request, with parameters and years that one line names for another."""
    written = [line for line in text.splitlines() if line.strip()]
    return _with_years(_with_parameters([_read_line(line, context, headings=headings) for line in written]))


def _with_parameters(lines: list[RequestLine]) -> list[RequestLine]:
    """The lines with the parameters of the request for bare indicator names."""
    spoken = [line for line in lines if line.describes_strategy]
    plain = [TokenLine(tokens=line.tokens, text=line.text) for line in spoken]
    done = iter(zip(complete_parameters(plain), count_crosses(plain), strict=True))
    found: list[RequestLine] = []
    for line in lines:
        if line.describes_strategy:
            new, cross_count = next(done)
            line = replace(line, tokens=new.tokens, cross_count=cross_count)  # noqa: PLW2901 - the same line, completed
        found.append(line)
    return found


def _with_years(lines: list[RequestLine]) -> list[RequestLine]:
    """Months without a year (``三月到五月``) in the year that another line names; that line keeps no window."""
    years = [line.window for line in lines if line.window.is_year]
    if not years or not any(line.window.yearless for line in lines):
        return lines
    found: list[RequestLine] = []
    for line in lines:
        window = Window() if line.window.is_year else line.window.in_year_of(years[-1]) or line.window
        found.append(replace(line, window=window))
    return found


def merged_window(lines: list[RequestLine]) -> Window:
    """The window of all lines.

    Raises
    ------
    BadWindow
        If a date is malformed, and no later line replaces it.
    """
    window = Window()
    refused: BadWindow | None = None
    for line in lines:
        refused = line.refused or (None if line.window.start or line.window.end else refused)
        window = merge_windows(window, line.window)
    if refused is not None:
        raise refused
    return window


_PAUSES = frozenset(",;.。:!?\n")


def without_unread(line: RequestLine) -> tuple[RequestLine, tuple[str, ...]]:
    """The line without the segments between commas that have unknown words, and these as written.

    A segment that buys or sells stays: it is the rule.
    """
    segments: list[list[Token]] = [[]]
    for token in line.tokens:
        segments[-1].append(token)
        if token.kind == "SEP" and token.text in _PAUSES:
            segments.append([])
    kept: list[Token] = []
    dropped: list[str] = []
    for segment in segments:
        kinds = {token.kind for token in segment}
        if "UNKNOWN" in kinds and not kinds & {"BUY", "SELL"}:
            dropped.append(clean_words(line.text[segment[0].begin : segment[-1].end]))
        else:
            kept += segment
    return replace(line, tokens=tuple(kept)), tuple(words for words in dropped if words)
