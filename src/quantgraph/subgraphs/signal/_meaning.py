"""Does the code do it: the planner reads the words, and :mod:`quantgraph.audit.meaning` compares."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import Any, Literal

import pandas as pd

from quantgraph._util.canonical_json import canonical_json
from quantgraph._util.packages import parse_code
from quantgraph._util.texts import Note
from quantgraph.audit import Finding, Report
from quantgraph.audit.causality import LookLog
from quantgraph.audit.meaning import ExpectedSignal, Reading, check_meaning
from quantgraph.broker import TradePlan
from quantgraph.data import MarketDataSource
from quantgraph.errors import BadWindow, UnknownField, UnknownSymbol
from quantgraph.market import session_of
from quantgraph.rules import RuleEvaluator
from quantgraph.runtime import OpenResources
from quantgraph.runtime.endings import messages_by_request
from quantgraph.runtime.graph_state import dialogue_of, request_of, strategy_of
from quantgraph.sentences import ParsedRequest, RequestContext, TradingRule, Watched, read_request, write_code
from quantgraph.sentences.coverage import ReadParameters, lost_numbers
from quantgraph.sentences.evaluation import (
    Choice,
    RuleData,
    convention_choices,
    rule_readings,
)
from quantgraph.sentences.phrases import changed_request, event_of, names_exit, rule_in
from quantgraph.state import BaseView
from quantgraph.subgraphs.signal._agents import as_of, known_source, local_source
from quantgraph.subgraphs.signal._plan import NAMED_ENDS, says
from quantgraph.subgraphs.signal._proof import closing_words_finding
from quantgraph.subgraphs.signal._source_facts import names_of
from quantgraph.subgraphs.signal._warm_up import wider_view
from quantgraph.subgraphs.signal.state import SignalSubgraphState
from quantgraph.subgraphs.signal.understanding import request_symbols
from quantgraph.tools import split_codes

_EVENT = re.compile(  # "上穿"
    r"上穿|下穿|金叉|死叉|突破|跌破|cross(?:es|ing|over)?\b|breaks?\b|breakout", re.IGNORECASE
)
_COMMON = re.compile(  # "每周"
    r"指数|大盘|市场|每周|每月|月初|月末|周[一二三四五]|index|market|month|week|(?:mon|tues|wednes|thurs|fri)day",
    re.IGNORECASE,
)
"""Words of a rule that may be the same for all symbols."""


@dataclass(frozen=True, kw_only=True)
class Words:
    """The user's words, as far as they bear on a signal.

    ``text`` has the whole conversation: the reference, where it can be read whole and nothing was waived.
    ``restated`` is the rule as a model read it, which is not a reference; the planner may have coded it.
    ``watch`` are codes that the rule reads.
    """

    text: str
    restated: str = ""
    waived: tuple[str, ...] = ()
    context: RequestContext = field(default_factory=RequestContext)
    trade: tuple[str, ...] = ()
    watch: tuple[str, ...] = ()
    windows: tuple[tuple[pd.Timestamp, pd.Timestamp], ...] = ()
    entry: str = ""
    exit: str = ""
    plan: TradePlan = field(default_factory=TradePlan)

    @cached_property
    def read(self) -> ParsedRequest | None:
        """What the planner reads in the user's words; None if a date in them is malformed."""
        with suppress(BadWindow):
            return read_request(self.text, self.context)
        return None


def words_in(text: str, source: MarketDataSource) -> Words:
    """Return a sentence, as known to a source."""
    return Words(text=text, context=_context(text, source))


def _context(text: str, source: MarketDataSource) -> RequestContext:
    sessions = source.sessions()
    return RequestContext(
        first_session=f"{sessions[0]:%Y%m%d}",
        last_session=f"{sessions[-1]:%Y%m%d}",
        names=names_of(text, source),
    )


def words_of(state: SignalSubgraphState, source: MarketDataSource) -> Words:
    """Return the user's words of this request, as known to a source cut at the run's moment."""
    request: Mapping[str, Any] = request_of(state)["checked"]
    understood: Mapping[str, Any] = request_of(state)["understanding"] or {}
    rule, dialogue = understood.get("rule") or {}, dialogue_of(state)
    not_of_rule = {*dialogue["waived_symbols"]}
    if request_of(state)["own"]:  # whose clauses are the plan's, without which the rule is whole
        not_of_rule |= {each["words"] for each in understood.get("clauses", ())}
    text, context = user_words(state, source)
    return Words(
        text=text or request["strategy"],
        restated=request["strategy"],
        waived=tuple(each for each in dialogue["waived"] if each not in not_of_rule),
        context=context,
        trade=_codes(request.get("trade") or request["ts_code"], {**request, "index": []}, source),
        watch=_codes(understood.get("watch") or request.get("trade") or request["ts_code"], request, source),
        windows=tuple((session_of(begin), session_of(end)) for begin, end in understood.get("windows") or ()),
        entry=rule.get("entry") or "",
        exit=rule.get("exit") or "",
        plan=TradePlan.of(understood.get("plan") or {}),
    )


def user_words(state: SignalSubgraphState, source: MarketDataSource) -> tuple[str, RequestContext]:
    """Return the user's own words of the whole request, as later messages changed it, and their context.

    They are empty for a host that calls a node without messages.
    """
    ignored = dialogue_of(state)["ignored_message_ids"]
    requests = [
        [str(each.text) for each in messages if str(each.id) not in ignored]
        for messages in messages_by_request(state)
    ]
    context = _context("\n".join(chain.from_iterable(requests)), source)
    text = ""
    for first, *answers in filter(None, requests):
        text = "\n".join([changed_request({"strategy_desc": text}, first, context), *answers])
    return text, context


def clauses_beside(understanding: Mapping[str, Any], rule: str) -> list[Mapping[str, Any]]:
    """Return the clauses of an understanding that the rule does not have already."""
    clauses = (each for each in understanding.get("clauses", ()) if each["status"] != "unparsed")
    return [each for each in clauses if each["status"] != "done" or each["became"] not in rule]


def _codes(
    sentence: str | Sequence[str], request: Mapping[str, Any], source: MarketDataSource
) -> tuple[str, ...]:
    """Codes of stocks, and of indices that are watched as a series."""
    codes = split_codes(sentence) if isinstance(sentence, str) else list(sentence)
    indices = [code for code in codes if code in request.get("index", ())]
    stocks = ",".join(code for code in codes if code not in indices)
    members = request_symbols({**request, "ts_code": stocks}, source) if stocks else ()
    return (*members, *indices)


@dataclass(frozen=True, kw_only=True)
class _SentenceRule:
    rule: TradingRule
    watched: Watched | None = None
    reads_index: bool = False
    """Whether it has a condition on an index beside those on the traded symbols."""


def rule_in_words(words: Words) -> _SentenceRule | None:
    """Return the rule that the user's own words say whole; None if they do not."""
    request = words.read
    if request is None or words.waived:
        return None
    if (rule := rule_in(words.text, request)) is None:
        return None
    return _SentenceRule(rule=rule, watched=request.watched, reads_index=request.reads_index)


def is_planners(words: Words, cells: Sequence[str]) -> bool:
    """Whether the keyless planner wrote the code of the user's words itself."""
    read = words.read
    if read is None or read.strategy is None:
        return False
    return [write_code(read.strategy, read.watched).source.strip()] == [cell.strip() for cell in cells]


@dataclass(frozen=True, kw_only=True)
class HeldSignal:
    """How a signal departs from the words, as warnings, and why its positions were not compared, if so."""

    findings: tuple[Finding, ...]
    choices: tuple[Choice, ...] = ()
    """Conventions of the code that the words leave open, where others would change positions."""
    not_compared: Note | None = None
    by_planner: bool = False
    """Whether the keyless planner wrote the code, of the words or of the rule as a model read it."""


def hold_against_words(
    words: Words, signal: pd.DataFrame, cells: Sequence[str], view: BaseView, *, first: pd.Timestamp | None
) -> HeldSignal:
    """Return how a signal departs from the words; code that the planner wrote for them itself does not.

    Parameters
    ----------
    cells
        The code that made the signal.
    view
        The data it ran on; they may begin before the signal.
    first
        First session that counts.
    """
    sentence, found = rule_in_words(words), list[Finding]()
    by_planner = is_planners(words if sentence else replace(words, text=words.restated), cells)
    if sentence is not None:
        found = _overlap(sentence, view, signal, first)
    if by_planner:
        missing = None if sentence else _not_read(words)
        return HeldSignal(findings=tuple(found), not_compared=missing, by_planner=True)
    panel = None if sentence is None else _panel(words, sentence, view, signal)
    readings, missing = None, _not_read(words) if sentence is None else None
    if sentence is not None and panel is None:
        missing = _NO_DATA
    elif sentence is not None and panel is not None:
        readings = _broadcast(sentence.rule, panel, signal)
    close = view["ohlcv"]["close"].loc[signal.index[0] :]
    try:
        checked = check_meaning(signal, close, _expected(words, sentence), readings, first=first)
    except UnknownField as error:  # the rule reads what is not there: its code does not, or has failed
        missing = Note(zh=f"规则读的数据不在：{error.message}", en=error.message)
        checked = check_meaning(signal, close, _expected(words, None), first=first)
    differs = any(each.code == "meaning_differs" for each in checked)
    choices = list[Choice]()
    if sentence is not None and panel is not None and missing is None and not differs:
        choices = _choices(words, sentence, panel, signal, first)
    return HeldSignal(findings=(*checked, *found), choices=tuple(choices), not_compared=missing)


def _choices(
    words: Words, sentence: _SentenceRule, panel: RuleData, signal: pd.DataFrame, first: pd.Timestamp | None
) -> list[Choice]:
    """The open conventions of code whose rule is of the traded symbols."""
    if list(panel.bars["close"].columns) != list(signal.columns):
        return []
    close, meant = panel.bars["close"].loc[signal.index[0] :], _expected(words, sentence)

    def holds(group: Iterable[Reading]) -> bool:
        found = check_meaning(signal, close, meant, [group], first=first)
        return all(each.code != "meaning_differs" for each in found)

    return convention_choices(sentence.rule, panel, holds, first=first)


_NO_DATA = Note(zh="规则所观察的标的没有数据", en="there are no data of what the rule watches")


def _not_read(words: Words) -> Note:
    """Why the words are not a reference."""
    not_read = [*words.read.unparsed, *(clause.words for clause in words.read.open)] if words.read else []
    if not_read or words.waived:
        named = "; ".join([*not_read, *words.waived])
        return Note(zh=f"没有读懂：{named}", en=f"not read: {named}")
    return Note(
        zh="这句话没有说全一条有买有卖的规则", en="the sentence says no whole rule to buy and to sell"
    )


def _names_exit(words: Words) -> bool:
    """Whether the words name an exit that the plan does not carry out."""
    ends = {name: value for name, value in words.plan.to_json().items() if name in NAMED_ENDS}
    if any(says(words.exit, name, value) for name, value in ends.items()):
        return False
    return names_exit(words.exit) or (names_exit(words.text) and not words.plan.exits)


def _expected(words: Words, sentence: _SentenceRule | None) -> ExpectedSignal:
    event: Literal["", "cross", "break"] = "break" if _EVENT.search(words.entry) else ""
    return ExpectedSignal(
        sentence=words.text if sentence else "",
        event=event_of(sentence.rule.entry) if sentence else event,
        state=sentence is not None and not event_of(sentence.rule.entry),
        lookback=write_code(sentence.rule).rule.lookback + 1 if sentence else 0,
        names_exit=_names_exit(words),
        per_symbol=set(words.watch) <= set(words.trade) and not _COMMON.search(words.text),
        traded=words.trade,
        windows=words.windows,
    )


def _panel(words: Words, sentence: _SentenceRule, view: BaseView, signal: pd.DataFrame) -> RuleData | None:
    """The frames that the rule reads: of the traded symbols, or of the only watched one; else None."""
    watched = [code for code in words.watch if code not in words.trade]
    if sentence.reads_index:
        columns = list(signal.columns)
    elif sentence.watched:
        columns = [sentence.watched.code]
    elif not watched or set(words.trade) <= set(words.watch):
        columns = list(signal.columns)
    elif len(words.watch) == 1:
        columns = watched
    else:
        return None
    if columns[0] in view["ohlcv"]["close"].columns:
        return RuleData.of(view, columns)
    if "index" in view and "close" in view["index"] and columns[0] in view["index"]["close"].columns:
        return RuleData(bars={name: view["index"][name].reindex(columns=columns) for name in view["index"]})
    return None


def _broadcast(rule: TradingRule, panel: RuleData, signal: pd.DataFrame) -> Iterable[Iterable[Reading]]:
    """The readings on the signal's columns; one watched symbol's is the same for all traded ones."""
    groups = rule_readings(rule, panel)
    watched = list(panel.bars["close"].columns)
    if watched == list(signal.columns):
        return groups
    (name,) = watched

    def spread(reading: Reading) -> Reading:
        def for_all(frame: pd.DataFrame) -> pd.DataFrame:
            return pd.concat([frame[name]] * len(signal.columns), axis=1, keys=signal.columns)

        tied = None if reading.tied is None else for_all(reading.tied)
        return Reading(
            signal=for_all(reading.signal),
            explain=lambda session, _: reading.explain(session, name),
            tied=tied,
        )

    return ((spread(reading) for reading in group) for group in groups)


def _overlap(
    sentence: _SentenceRule, view: BaseView, signal: pd.DataFrame, first: pd.Timestamp | None
) -> list[Finding]:
    """The finding of a rule that mostly sells where it buys, which no code can mend."""
    rule, data = write_code(sentence.rule, sentence.watched).rule, RuleEvaluator(view, list(signal.columns))
    try:
        buys, sells = (data.value(side) == 1 for side in (rule.entry, rule.exit))
    except (UnknownField, UnknownSymbol):
        return []
    begin = signal.index[0] if first is None else first
    entries = buys.loc[begin:].to_numpy()
    both = entries & sells.loc[begin:].to_numpy()
    count = int(both.sum())
    if not count or 2 * count <= int(entries.sum()):
        return []
    row = int(both.any(axis=1).argmax())
    session, symbol = f"{buys.loc[begin:].index[row]:%Y-%m-%d}", str(buys.columns[int(both[row].argmax())])
    whole = int(entries.sum())
    message = (
        f"The rule says to buy and to sell at once on {count} of the {whole} cells where it buys; selling "
        f"wins. First at {session} {symbol}, where the signal is -1."
    )
    zh = (
        f"规则要买入的 {whole} 处中有 {count} 处同时也要卖出，以卖出为准。"
        f"首次在 {session} {symbol}，那里的信号是 -1。"
    )
    return [
        Finding(
            severity="warning",
            code="meaning_overlap",
            message=message,
            zh=zh,
            session=session,
            symbol=symbol,
            count=count,
        )
    ]


_PERIODS = {"week_start": "W", "month_start": "M", "quarter_start": "Q"}
_FEW = 3
"""Sessions with a mark below which it may be chance that all begin a period."""


def _coded_schedule(plan: TradePlan, signal: pd.DataFrame) -> list[Finding]:
    """The finding of code that has the plan's schedule, so that each mark is traded one period late."""
    marked = signal.index[signal.isin((1.0, -1.0)).any(axis=1)]
    if plan.trade_on not in _PERIODS or len(marked) < _FEW:
        return []
    periods = pd.Series(pd.DatetimeIndex(signal.index).to_period(_PERIODS[plan.trade_on]), index=signal.index)
    if not marked.isin(periods.index[periods != periods.shift(1)]).all():
        return []
    message = (
        "The signal is 1 or -1 only on the first session of a period. The plan has the schedule, trade_on "
        f"{plan.trade_on}: the code must say 1 or -1 on each session on which the rule does."
    )
    zh = (
        f"信号只在每个周期的第一个交易日是 1 或 -1。何时买卖由计划 trade_on {plan.trade_on} 决定："
        "代码要在规则成立的每个交易日给出 1 或 -1。"
    )
    return [
        Finding(severity="warning", code="meaning_on_schedule", message=message, zh=zh, count=len(marked))
    ]


def held_to_words(state: SignalSubgraphState, resources: OpenResources, ref: str, report: Report) -> Report:
    """Return the report with the findings of the signal held against the sentence, which come first."""
    strategy, moment = strategy_of(state), as_of(state, resources)
    signal = resources.store.view(moment, ref)["signal"][strategy["name"]]
    words, cells = words_of(state, known_source(state, resources)), strategy["cells"]
    by_planner = is_planners(words, cells)
    view, first = resources.store.view(moment, strategy["data_ref"]), report.summary["evaluated_from"]
    held = hold_against_words(words, signal, cells, view, first=session_of(first))
    findings, compared = list(held.findings), held.not_compared is None
    findings += _coded_schedule(words.plan, signal)
    findings += [_choice_finding(each) for each in held.choices]
    if held.not_compared is not None and not held.by_planner:
        findings.append(_not_compared_finding(held.not_compared, own=bool(request_of(state)["own"])))
    agrees = all(each.code != "meaning_differs" for each in findings)
    if agrees and compared and not by_planner:
        findings = [*_held_wider(state, resources, words, signal.columns), *findings]
    if not by_planner:
        known = [
            words.text,
            canonical_json([request_of(state)["checked"], request_of(state)["understanding"]]),
        ]
        findings += closing_words_finding(strategy.get("said") or "", cells, known, signal)
        findings += _lost_numbers(state, words, cells)
    never_buys = any(each.code == "meaning_never_buys" for each in findings)
    others = [each for each in report.findings if each.code != "no_trades" or not never_buys]
    checks = (*report.checks, "meaning" if compared else "structure")
    return replace(report, checks=checks, findings=(*findings, *others))


def _not_compared_finding(why: Note, *, own: bool) -> Finding:
    zh, en = ("没有什么", "Nothing") if own else ("除了模型自己，没有什么", "Nothing but a model")
    return Finding(
        severity="warning",
        code="not_compared",
        message=f"Not compared with the sentence: {why.en}. {en} shows that the code does what it says.",
        zh=f"没有与句子比较：{why.zh}。{zh}能表明代码做的就是它说的。",
    )


def _lost_numbers(state: SignalSubgraphState, words: Words, cells: Sequence[str]) -> list[Finding]:
    """The finding of numbers that the person said and that neither code nor plan has."""
    params = state.get("user_intent", {}).get("params", {})
    done = [each for each in params.get("clauses", ()) if each["status"] == "done" and each["part"] != "plan"]
    code = [
        float(number[1])
        for cell in cells
        for node in ast.walk(parse_code(cell))
        if isinstance(node, ast.Constant) and not isinstance(node.value, bool)
        if (number := re.fullmatch(r"(\d+(?:\.\d+)?)[A-Za-z]{0,2}", str(node.value)))  # 20, or "20D"
    ]
    known = ReadParameters(
        codes=words.trade + words.watch, plan=words.plan.to_json(), names=words.context.names
    )
    if not (lost := lost_numbers([each["became"] or each["quote"] for each in done], code, known)):
        return []
    listed = ", ".join(lost)
    message = f"Numbers of the words that stand neither in the code nor in the trade plan: {listed}."
    zh = f"原话里的 {listed}，代码和交易计划里都没有。"
    return [Finding(severity="warning", code="meaning_lost_number", message=message, zh=zh)]


_MUCH = 0.2
"""Share of the positions from which on another convention is asked about."""


def _choice_finding(choice: Choice) -> Finding:
    code = "convention_matters" if choice.changed > _MUCH * choice.positions else "convention"
    text = choice.note
    return Finding(severity="info", code=code, message=text.en, zh=text.zh, count=choice.changed)


_UNMEASURED = 250
"""Sessions after which a signal without a measured need is compared."""


def _held_wider(
    state: SignalSubgraphState, resources: OpenResources, words: Words, symbols: pd.Index
) -> list[Finding]:
    """Return where the code's positions differ from the words in sessions outside of the window."""
    strategy, moment, local = strategy_of(state), as_of(state, resources), local_source(state, resources)
    request = request_of(state)["checked"]
    view = wider_view(strategy, request, resources.store, local, moment)
    if view is not None:  # its code sees sessions outside of the window, too
        LookLog(resources.settings.cache_dir).add(view.frozen(), again=False)
    made = None if view is None else resources.runner.run(strategy["cells"], view.frozen())
    if view is None or made is None or strategy["name"] not in made.signals:
        return []
    signal = made.signals[strategy["name"]].reindex(columns=symbols)
    warm = strategy["warm_up"] or _UNMEASURED
    if warm >= len(signal):
        return []
    held = hold_against_words(words, signal, strategy["cells"], view, first=signal.index[warm])
    return [
        replace(
            each,
            message=f"Outside of the window, in which the positions agree: {each.message}",
            zh=f"在区间之外（区间内持仓一致）：{each.zh}",
        )
        for each in held.findings
        if each.code == "meaning_differs"
    ]
