"""Read a request: its securities, its window, its clauses, its rule, and what is missing."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, cast

from quantgraph._util.texts import Language, Note, language_of
from quantgraph.data.symbols import is_index_code
from quantgraph.errors import BadWindow
from quantgraph.rules import Rule, in_words
from quantgraph.sentences._clauses import (
    NAMED_ENDS,
    PLAN_KEYS,
    ClauseNote,
    PlanClause,
    PlanLine,
    PlanValue,
    SentencePlan,
    Waiver,
    find_clauses,
    find_waivers,
    is_general_waiver,
    plan_of,
)
from quantgraph.sentences._dates import MARK, Span, Window, find_window, merge_windows, without_dates
from quantgraph.sentences._market import MarketFilter, find_market, is_market_word, with_market
from quantgraph.sentences._meaning import Memory
from quantgraph.sentences._named_rules import Heading, find_heading, styles_of
from quantgraph.sentences._parameters import TokenLine, complete_parameters, count_crosses
from quantgraph.sentences._roles import (
    Choice,
    Roles,
    choose,
    marked_codes,
    merged_roles,
    roles_of,
    watched_of,
    watching_problem,
)
from quantgraph.sentences._rules import HELD, NEVER, Watched, average, bought_count, fields_of, is_comparison
from quantgraph.sentences._securities import find_symbols, is_shouted
from quantgraph.sentences._strategies import LineRule, RuleReading, read_line_rule, rule_of
from quantgraph.sentences._text import (
    DATA_KINDS,
    FIELD_NAMES,
    STRATEGY_KINDS,
    Token,
    clean_words,
    collapse_spaces,
    is_word,
    normalise,
    readable_excerpt,
    tokens_of,
)


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
        Keys of the trade plan that are carried out; the planner asks about every other clause.
    listed
        Codes of the source, if capitals that are none of them are to be read as words.
    """

    first_session: str | None = None
    last_session: str | None = None
    names: Mapping[str, str] = field(default_factory=dict)
    examples: tuple[str, ...] = ()
    executes: frozenset[str] = PLAN_KEYS
    listed: Collection[str] | None = None


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
    gives_up: str = ""
    market: tuple[MarketFilter, ...] = ()
    named: tuple[str, ...] = ()
    """Codes that the line names, inside clauses of a trade plan too. ``gives_up`` is the whole line, if it does."""

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


_BEFORE_A_DATE = re.compile(rf"\s*(?:在|的|股票|'s|in|over|during|for|[,:])*\s*{MARK}")  # "在\x1f"


def _looks_like_a_name(token: Token, text: str) -> bool:
    """Whether an unknown word, or a code of no exchange, stands right before the date, like a security."""
    strange = token.kind == "UNKNOWN" or re.fullmatch(r"\d{6}", token.text)  # "600519"
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
    return replace(roles, problems=(*choice.problems, *roles.problems))


def _read_line(
    line: str, context: RequestContext, *, headings: bool, indices: Sequence[str] | None
) -> RequestLine:
    plain = normalise(line)
    if is_general_waiver(plain):
        waivers, _ = find_waivers(plain)
        return RequestLine(
            roles=Roles(), window=Window(), tokens=(), names=(), text="", waivers=waivers, gives_up=plain
        )
    market: tuple[MarketFilter, ...] = ()
    if indices is not None:
        market, plain = find_market(plain, context.names, indices)
    found = find_symbols(plain, context.names, is_word, context.listed)
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
        pieces = re.split(r"[,，;；。!！?？\n]", line)  # "贵州茅台，20日均线"
        words = next(  # "基准：沪深300"
            (each.strip() for each in pieces if re.search("基准|benchmark", each, re.IGNORECASE)), line
        )
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
        market=market,
        named=marked_codes(choice.text, found.symbols),
    )


def read_lines(
    text: str, context: RequestContext, *, headings: bool, market: bool = True
) -> list[RequestLine]:
    """The lines of a request, with parameters and years that one line names for another.

    With ``market`` conditions on an index are read apart from those on the stocks.
    """
    written = [line for line in text.splitlines() if line.strip()]
    symbols = find_symbols(normalise(text), context.names, is_word, context.listed).symbols if market else ()
    indices = [code for code in symbols if is_index_code(code)] if market else None
    lines = [_read_line(line, context, headings=headings, indices=indices) for line in written]
    return _with_years(_with_parameters(lines))


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
    """The window of all lines."""
    window = Window()
    refused: BadWindow | None = None
    for line in lines:
        refused = line.refused or (None if line.window.start or line.window.end else refused)
        window = merge_windows(window, line.window)
    if refused is not None:
        raise refused
    return window


_PAUSES = frozenset(",;.。:!?\n")


def without_unparsed(line: RequestLine) -> tuple[RequestLine, tuple[str, ...]]:
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


Intent = Literal["data_fetch", "signal_gen", "mixed", "unclear"]
Missing = Literal["symbols", "window", "strategy", "plan"]


@dataclass(frozen=True, kw_only=True)
class ParsedRequest:
    """A request as read. Dates are ``YYYYMMDD`` or None; ``fields`` are daily indicators, bars are implied.

    ``missing`` lists the parts to ask for, in that order; ``unparsed`` the words not read that may change the
    trade. ``windows`` are several spans, of which the user must name one.

    Attributes
    ----------
    symbols
        Everything that is watched or traded.
    watch, trade
        Codes whose data the rule reads, and codes that are traded. An index that is watched while others are
        traded is a series; one that is traded stands for its members.
    entry, exit
        The clauses of the rule as written; ``exit`` is empty without one.
    plan, clauses, open
        The trade plan, a note on every clause that is settled, and the clauses to ask about.
    can_go_on
        Whether the rule reads whole without the unparsed parts.
    """

    symbols: tuple[str, ...]
    start: str | None
    end: str | None
    strategy: Rule | None
    fields: tuple[str, ...]
    intent: Intent
    missing: tuple[Missing, ...]
    language: Language
    unparsed: tuple[str, ...]
    windows: tuple[Span, ...] = ()
    watch: tuple[str, ...] = ()
    trade: tuple[str, ...] = ()
    entry: str = ""
    exit: str = ""
    plan: dict[str, PlanValue] = field(default_factory=dict)
    clauses: tuple[ClauseNote, ...] = ()
    open: tuple[PlanClause, ...] = ()
    can_go_on: bool = False

    @property
    def reads_index(self) -> bool:
        """Whether the rule has a condition on an index beside those on the traded stocks."""
        return self.strategy is not None and bool(self.strategy.indices)

    @property
    def watched(self) -> Watched | None:
        """The one security that the whole rule watches while others are traded."""
        return watched_of(self.watch, self.trade, self.strategy)


_TEXTBOOK = Memory(crossed=(average(50), average(200)))
_LINES = (
    "BOLL", "D", "DAYS", "DEA", "DIF", "EMA", "HIST", "J", "K", "KDJ", "MA", "MACD", "NUM", "RSI", "UNKNOWN", "VOLAVG",
)  # fmt: skip


def _names_only_the_golden_cross(lines: list[RequestLine]) -> bool:
    """Whether the request has the English term and no other line or number: averages of 50 and 200 days."""
    tokens = [token for line in lines for token in line.tokens]
    golden = any(token.kind == "GOLDEN" and token.text.startswith("golden") for token in tokens)
    return golden and not any(token.kind in _LINES for token in tokens)


def _line_rules(lines: list[RequestLine]) -> dict[int, LineRule]:
    """Rules of the lines that describe a strategy, or add unknown words to one, by the place of the line."""
    if not any(line.describes_strategy for line in lines):
        return {}
    found: dict[int, LineRule] = {}
    memory = _TEXTBOOK if _names_only_the_golden_cross(lines) else Memory()
    named = selling = False
    for at, line in enumerate(lines):
        named = named or bool(line.roles.trade)
        if line.describes_strategy or (line.has("UNKNOWN") and named and found):
            clauses = read_line_rule(line.tokens, line.text, replace(memory, cross_count=line.cross_count))
            if selling and not line.has("BUY", "SELL"):
                clauses = LineRule(failed=(line.text,), memory=memory)
            selling = bool(clauses.failed) and (selling or line.announces_an_exit)
            if clauses.failed and _only_announces(line):
                clauses = replace(clauses, failed=styles_of(line.tokens, line.text))
            found[at] = clauses
            memory = clauses.memory
    return found


def _only_announces(line: RequestLine) -> bool:
    """Whether the line only announces a strategy: ``帮我生成交易信号``, ``backtest a strategy:``."""
    ignored = {"SIGNAL", "LABEL", "DATA", "SEP", "AND"}
    return all(token.kind in ignored for token in line.tokens)


def _fields(lines: list[RequestLine], rule: Rule | None) -> tuple[str, ...]:
    wanted = dict.fromkeys(fields_of(rule) if rule else ())
    for line in lines:
        for token in line.tokens:
            if token.kind.startswith("FIELD:"):
                wanted[token.kind.removeprefix("FIELD:")] = None
            elif token.kind == "VALUATION":
                wanted.update(dict.fromkeys(("pe", "pb", "ps")))
    return tuple(sorted(wanted, key=list(FIELD_NAMES).index))


_DATA_NAMES = ("PRICE", "VOL", "OPEN", "HIGHN", "LOWN", "K", *(f"FIELD:{name}" for name in FIELD_NAMES))


def _intent(lines: list[RequestLine], wants_rule: bool) -> Intent:
    wants_data = any(line.has("DATA", "VALUATION") for line in lines)
    if wants_rule:
        return "mixed" if wants_data else "signal_gen"
    names_data = any(line.has(*_DATA_NAMES) for line in lines)
    only_data = names_data and not any(list(line.tokens_beyond_data()) for line in lines)
    return "data_fetch" if wants_data or only_data else "unclear"


def _language(text: str, context: RequestContext) -> Language:
    """The language of the longest line: the others greet or answer."""
    longest = max(text.splitlines(), key=len, default="")
    for name in context.names:
        longest = longest.replace(name, "")
    return language_of(longest.lower() if is_shouted(longest, is_word) else longest)


def _unparsed(lines: list[RequestLine], rules: dict[int, LineRule], reading: RuleReading) -> list[str]:
    """The unparsed words, except in lines with a rule or window that a later line replaces."""
    found: list[str] = []
    dated = max((at for at, line in enumerate(lines) if line.window.start or line.window.spans), default=-1)
    restated = max(
        (at for at, rule in rules.items() if rule.entry is not None and not rule.failed), default=-1
    )
    for at, line in enumerate(lines):
        found += (*line.names, *(line.window.unparsed if at >= dated else ()))
        if at < restated:
            continue
        unknown = (token for token in line.tokens if token.kind == "UNKNOWN")
        strange = unknown if line.describes_strategy else line.tokens_beyond_data()
        found += dict.fromkeys(
            readable_excerpt(token.text, line.text, token.begin, token.end) for token in strange
        )
    for at, rule in rules.items():
        found += rule.failed if at >= restated else ()
    return [*found, reading.contradiction]


@dataclass(frozen=True, kw_only=True)
class _RuleOfLines:
    """The rule of all lines, and what was left out for it."""

    lines: list[RequestLine]
    rules: dict[int, LineRule]
    reading: RuleReading
    dropped: tuple[str, ...] = ()


def _read_rule(lines: list[RequestLine]) -> _RuleOfLines:
    rules = _line_rules(lines)
    plan = _named_plan(lines)
    ends = "; ".join(plan[name].words for name in NAMED_ENDS if name in plan)
    reading = rule_of(rules.values(), ends)
    is_alone = reading.rule is None and not _says_more(reading, lines)
    regular = plan.get("accumulate")
    if is_alone and regular and "by" not in cast("Mapping[str, Any]", regular.value):
        reading = replace(reading, rule=Rule(HELD, NEVER), entry=regular.words)
    reading = with_market(reading, _market_of(lines, rules), is_alone=is_alone)
    return _RuleOfLines(lines=lines, rules=rules, reading=reading)


def _named_plan(lines: list[RequestLine]) -> dict[str, PlanClause]:
    """The clauses of the trade plan that have a value and are not given up, by key."""
    waived = {waiver.topic for line in lines for waiver in line.waivers}
    return {
        clause.key: clause
        for line in lines
        for clause in line.clauses
        if clause.value is not None and clause.topic not in waived
    }


_OF_RULES = STRATEGY_KINDS - {"NEVER"}


def _says_more(reading: RuleReading, lines: list[RequestLine]) -> bool:
    """Whether there are words of a rule, read or not, besides that nothing is sold."""
    return bool(reading.entry) or any(line.has(*_OF_RULES, "UNKNOWN") for line in lines)


def _market_of(lines: list[RequestLine], rules: dict[int, LineRule]) -> list[MarketFilter]:
    """The conditions on an index that hold beside the rule: a later rule replaces those before it."""
    entries = [at for at, rule in rules.items() if rule.entry is not None]
    since = entries[-1] if len(entries) > 1 else 0
    return [each for line in lines[since:] for each in line.market]


def _read_without_unparsed(lines: list[RequestLine], end: int) -> _RuleOfLines:
    """The rule of the lines without the unparsed segments of the first ``end`` lines."""
    pairs = [without_unparsed(line) if at < end else (line, ()) for at, line in enumerate(lines)]
    found = _read_rule([line for line, _ in pairs])
    return replace(found, dropped=tuple(word for _, words in pairs for word in words))


def _plan(lines: list[RequestLine], rules: dict[int, LineRule], context: RequestContext) -> SentencePlan:
    unknown = next((at for at, line in enumerate(lines) if line.has("UNKNOWN")), len(lines))
    return plan_of(
        [
            PlanLine(
                clauses=line.clauses,
                waivers=line.waivers,
                gives_up=line.gives_up,
                after_unknown=at > unknown,
                states_rule=at in rules and rules[at].entry is not None,
            )
            for at, line in enumerate(lines)
        ],
        context.executes,
    )


_ALL_THERE_IS = 100
"""A ranking of more says nothing of the number of positions: *the first 200* of fifty are all."""


def _ranked(rule: Rule | None, context: RequestContext) -> dict[str, PlanValue]:
    """As many positions as the entry's ranking picks: *the 5 best* share the account in five."""
    picked = bought_count(rule) if rule else None
    if picked is None or picked > _ALL_THERE_IS or "max_positions" not in context.executes:
        return {}
    return {"max_positions": picked}


_LEFT_OUT = Note(zh="没有读懂，按您说的不执行", en="not read, left out as you wish")


_MOVES = re.compile(  # "falls below"
    r"跌破|跌穿|突破|升破|站上|\b(?:falls?|drops?|dips?|slips?|breaks?|rises?|climbs?|moves?|goes|gets?|comes?)\s+"
    r"(?:back\s+)?(?:above|over|below|under)\b",
    re.IGNORECASE,
)
_EACH_DAY = Note(
    zh="条件成立的每一天都算；只算当天请说“上穿”“下穿”",
    en='each day on which it is so; say "crosses" for the first alone',
)


def _state_notes(reading: RuleReading) -> Iterator[ClauseNote]:
    """A note where words of a movement are read as a state: *falls below its 20-day average*."""
    if reading.rule is not None:
        for words, condition in ((reading.entry, reading.rule.entry), (reading.exit, reading.rule.exit)):
            if is_comparison(condition) and _MOVES.search(words):
                yield ClauseNote(words=clean_words(words), became=_EACH_DAY, status="default")


_MEANT = (
    (r"放量[^,，;；。]*?倍|倍的?放?量|\bon\s+(?:volume\s+[\w\s]*)?[\d.]+\s*x\s+(?:its\s+|the\s+)?(?:average|volume)", Note(zh="20日均量的倍数", en="times the 20-day average volume")),
    (r"[连收][阴阳]|[阴阳]线|阴.阳|阳.阴|\bcandles?\b", Note(zh="阳线收盘高于开盘，阴线低于开盘", en="an up candle closes above its open, a down candle below")),
    (r"\b(?:red|green)\s+(?:days?|sessions)\b", Note(zh="红日低于前收，绿日高于前收", en="a red day closes below the day before, a green day above")),
    (r"\d\s*[日天][^\s,，;；。]{0,3}高[^\s,，;；。]{0,2}(?:回落|回撤|低)|\b(?:below|from|off)\s+(?:its|the|a)\s+\S+[\s-]day\s+high", Note(zh="高点含当天", en="the high has today's in it")),
)  # fmt: skip
"""Words with a usual meaning, of which another one would trade differently, and that meaning."""


def _meant(text: str) -> list[ClauseNote]:
    found = ((re.search(pattern, text, re.IGNORECASE), note) for pattern, note in _MEANT)  # "三连阳"
    return [ClauseNote(words=clean_words(m[0]), became=note, status="default") for m, note in found if m]


def _notes(found: _RuleOfLines, plan: SentencePlan, text: str) -> tuple[ClauseNote, ...]:
    """Notes on what differs from the sentence: waived clauses, waived words, defaults of the rule."""
    meant = [] if found.reading.rule is None else _meant(text)
    plan = replace(plan, notes=(*plan.notes, *_state_notes(found.reading), *meant))
    left = [ClauseNote(words=words, became=_LEFT_OUT, status="not_done") for words in found.dropped]
    reading = found.reading
    if reading.rule is None or not reading.exit_is_default:
        return (*plan.notes, *left)
    zh, en = (in_words(reading.rule.exit, each) for each in ("zh", "en"))
    became = Note(zh=f"卖出 {zh}", en=f"exit {en}")
    return (*plan.notes, *left, ClauseNote(words="", became=became, status="default"))


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


def _rule_of(lines: list[RequestLine]) -> tuple[_RuleOfLines, tuple[str, ...], bool]:
    """The rule of the lines, the words that it would read whole without, and whether going on is to be offered."""
    found = _read_rule(lines)
    if found.reading.rule is not None or not any(line.has("UNKNOWN") for line in lines):
        return found, (), False
    waived = max((at for at, line in enumerate(lines) if line.gives_up), default=0)
    without = _read_without_unparsed(lines, waived or len(lines))
    if without.reading.rule is None or not without.dropped:
        return found, (), False
    return (without, (), False) if waived else (found, without.dropped, True)


def _roles_of(lines: Sequence[RequestLine]) -> Roles:
    """What the lines watch and trade; ``Short 600519.SH`` names its stock in what is not done."""
    roles = merged_roles([line.roles for line in lines])
    if roles.trade:
        return roles
    tokens = tuple(dict.fromkeys(code for line in lines for code in line.named))
    return replace(roles, watch=tokens, trade=tokens)


def _with_market_watched(text: str, context: RequestContext, roles: Roles) -> RequestContext | None:
    """The context without words for the market, if only these name what is traded: it is watched, not its members."""
    named = {name: code for name, code in context.names.items() if not is_market_word(name)}
    tokens = find_symbols(normalise(text), named, is_word, context.listed).symbols
    is_due = len(named) < len(context.names) and set(roles.trade) - set(tokens)
    return replace(context, names=named) if is_due else None


def _read(text: str, context: RequestContext, *, headings: bool, market: bool = True) -> ParsedRequest:
    """The request, read without headings if each of them fits the rule, else with them as words."""
    lines = read_lines(text, context, headings=headings, market=market)
    window = merged_window(lines)
    found, offered, can_go_on = _rule_of(lines)
    rule, rules = found.reading.rule, found.rules
    if any(rule is None or not line.heading.fits(rule) for line in lines if line.heading):
        return _read(text, context, headings=False, market=market)
    language, roles = _language(text, context), _roles_of(lines)
    if (unnamed := _with_market_watched(text, context, roles)) is not None:
        return _read(text, unnamed, headings=headings, market=market)
    filtered = any(each.condition.name == "index" for line in lines for each in line.market)
    if filtered and (rule is None or not roles.trade or roles.watch != roles.trade):
        # Conditions on an index that leave no rule of the stocks are a watched security's.
        plain = _read(text, context, headings=headings, market=False)
        if rule is not None or plain.strategy is not None:
            return plain
    if rule is not None and rule.indices:
        roles = replace(roles, watch=rule.indices)
    odd = None if rule is None or roles.problems or filtered else watching_problem(rule, roles)
    problems = [note.text(language) for note in (*roles.problems, *([odd] if odd else []))]
    rule = None if problems else rule
    intent = _intent(lines, rule is not None or any(line.describes_strategy for line in lines))
    plan = _plan(lines, rules, context)
    end = window.end or (context.last_session if window.open_end else None)
    missing: dict[Missing, bool] = {
        "symbols": not roles.trade,
        "window": window.start is None or end is None,
        "strategy": (rule is None and intent != "data_fetch") or bool(problems),
        "plan": bool(plan.open),
    }
    unparsed = [*problems, *(offered or map(clean_words, _unparsed(found.lines, rules, found.reading)))]
    return ParsedRequest(
        symbols=tuple(dict.fromkeys([*roles.watch, *roles.trade])),
        start=window.start,
        end=end,
        strategy=rule,
        fields=_fields(lines, rule),
        intent=intent,
        missing=tuple(part for part, wanted in missing.items() if wanted),
        language=language,
        unparsed=tuple(words for words in dict.fromkeys(unparsed) if words),
        windows=window.spans,
        watch=roles.watch,
        trade=roles.trade,
        entry=clean_words(found.reading.entry),
        exit=clean_words(found.reading.exit),
        plan=_ranked(rule, context) | plan.plan,
        clauses=_notes(found, plan, text),
        open=plan.open,
        can_go_on=can_go_on,
    )
