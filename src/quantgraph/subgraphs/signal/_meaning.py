"""Does the code do it: the planner reads the words, and :mod:`quantgraph.audit.meaning` compares."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd

from quantgraph._util.parsing import parse_code
from quantgraph._util.texts import Language, Note, say
from quantgraph.audit import Finding, Report
from quantgraph.audit.meaning import compare_positions, difference_finding
from quantgraph.broker import TradePlan, plan_words
from quantgraph.data import MarketDataSource
from quantgraph.errors import BadWindow, ModelOutputInvalid, NoProgress, UnknownField, UnknownSymbol
from quantgraph.llm.messages import ask_json
from quantgraph.market import session_of
from quantgraph.rules import Rule, RuleEvaluator, expression, in_words, make, rule_of_cells
from quantgraph.runtime import Agent, OpenResources, agent_question, check_finished
from quantgraph.runtime.endings import language, messages_by_request
from quantgraph.runtime.graph_state import dialogue_of, request_of, strategy_of
from quantgraph.sentences import ParsedRequest, RequestContext, Watched, read_request, write_code
from quantgraph.sentences.coverage import (
    numbers_in,
    plain,
    plan_numbers,
    says_part,
    without_dates_and_codes,
    without_name,
)
from quantgraph.sentences.phrases import changed_request, with_answers
from quantgraph.sentences.phrases import rule_in as whole_rule
from quantgraph.state import BaseView
from quantgraph.subgraphs.signal._agents import (
    SecondReading,
    as_of,
    build_agent,
    current_decider,
    known_source,
    on_schedule,
    prompt_text,
    rule_in,
    tool_context,
)
from quantgraph.subgraphs.signal._checks import AS_READ, TAKE_OTHER, own_lines
from quantgraph.subgraphs.signal._plan import executed_plan
from quantgraph.subgraphs.signal._source_facts import names_of
from quantgraph.subgraphs.signal.state import SignalSubgraphState
from quantgraph.subgraphs.signal.understanding import coded_in, request_symbols, rule_of_trees
from quantgraph.tools import split_codes


@dataclass(frozen=True, kw_only=True)
class Words:
    """The user's words, as far as they bear on a signal.

    ``text`` has the whole conversation: the reference, where it can be read whole and nothing was waived.
    ``watch`` are codes that the rule reads; ``may_end`` tells whether code may end positions.
    """

    text: str
    waived: tuple[str, ...] = ()
    context: RequestContext = field(default_factory=RequestContext)
    trade: tuple[str, ...] = ()
    watch: tuple[str, ...] = ()
    plan: TradePlan = field(default_factory=TradePlan)
    may_end: bool = False

    @cached_property
    def read(self) -> ParsedRequest | None:
        """What the planner reads in the user's words; None if a date in them is malformed."""
        with suppress(BadWindow):
            return read_request(self.text, self.context)
        return None


def words_in(text: str, source: MarketDataSource) -> Words:
    """Return a sentence, as known to a source."""
    return Words(text=text, context=_context(text, source))


def words_in_context(words: tuple[str, RequestContext]) -> Words:
    """Return the words of a request, as :func:`user_words` gives them."""
    return Words(text=words[0], context=words[1])


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
    dialogue = dialogue_of(state)
    not_of_rule = {*dialogue["waived_symbols"]}
    if request_of(state)["own"]:  # whose clauses are the plan's, without which the rule is whole
        not_of_rule |= {each["words"] for each in understood.get("clauses", ())}
    text, context = user_words(state, source)
    return Words(
        text=text or request["strategy"],
        waived=tuple(each for each in dialogue["waived"] if each not in not_of_rule),
        context=context,
        trade=_codes(request.get("trade") or request["ts_code"], {**request, "index": []}, source),
        watch=_codes(understood.get("watch") or request.get("trade") or request["ts_code"], request, source),
        plan=TradePlan.of(understood.get("plan") or {}),
        may_end=all(each["status"] != "not_done" for each in understood.get("clauses", ())),
    )


def user_words(state: SignalSubgraphState, source: MarketDataSource) -> tuple[str, RequestContext]:
    """Return the user's own words of the whole request, as later messages changed it, and their context.

    They are empty for a host that calls a node without messages.
    """
    ignored = dialogue_of(state)["ignored_message_ids"]
    asked = {each["message"]: each["question"] for each in dialogue_of(state)["answers"]}
    requests = [
        [
            (asked.get(str(each.id), ""), str(each.text))
            for each in messages
            if str(each.id) not in ignored
            and str(each.text) not in AS_READ.values()
            and not str(each.text).startswith((*TAKE_OTHER.values(),))
        ]
        for messages in messages_by_request(state)
    ]
    context = _context("\n".join(said for _, said in chain.from_iterable(requests)), source)
    text = ""
    for (_, first), *answers in filter(None, requests):
        text = with_answers(changed_request({"strategy_desc": text}, first, context), answers, context)
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


ENDS = frozenset(("stop_loss", "trailing_stop", "take_profit", "max_holding"))


def rule_in_words(words: Words) -> Rule | None:
    """Return the rule that the user's own words say whole, by the keyless reader; None if they do not."""
    request = words.read
    if request is None or words.waived:
        return None
    if words.may_end and ENDS & request.plan.keys() - words.plan.to_json().keys():
        return None
    if (rule := whole_rule(words.text, request)) is None:
        return None
    watched = request.watched
    others = [code for code in words.watch if code not in words.trade]
    if watched is None and len(others) == 1 and not request.reads_index:
        watched = Watched(code=others[0], traded=words.trade)  # as the reading has the roles
    return on_schedule(write_code(rule, watched).rule, request.plan.get("trade_on"))


@dataclass(frozen=True, kw_only=True)
class HeldSignal:
    """How a signal departs from the words, as warnings, and why its positions were not compared, if so."""

    findings: tuple[Finding, ...]
    not_compared: Note | None = None


def hold_against_words(
    words: Words, signal: pd.DataFrame, cells: Sequence[str], view: BaseView, *, first: pd.Timestamp | None
) -> HeldSignal:
    """Return how a signal departs from the rule that the words say; code that is this rule does not.

    Parameters
    ----------
    cells
        The code that made the signal.
    view
        The data it ran on; they may begin before the signal.
    first
        First session that counts.
    """
    meant, made = rule_in_words(words), rule_of_cells(cells)
    own = None if made is None else made[0]
    rule = own or meant
    overlap = tuple(_overlap(rule, view, signal, first)) if rule and not rule.exits_on_opposite else ()
    if meant is None:
        return HeldSignal(findings=overlap, not_compared=_not_read(words))
    if own == meant:
        return HeldSignal(findings=overlap)
    try:
        found = signal_differs(own, meant, signal, view, first)
    except (UnknownField, UnknownSymbol) as error:  # its code does not read it, or has failed
        missing = Note(zh=f"规则读的数据不在：{error.message}", en=error.message)
        return HeldSignal(findings=overlap, not_compared=missing)
    return HeldSignal(findings=(*found, *overlap))


def signal_differs(
    own: Rule | None,
    meant: Rule,
    signal: pd.DataFrame,
    view: BaseView,
    first: pd.Timestamp | None,
    *,
    ends: bool = False,
) -> list[Finding]:
    """The finding of the first session on which a signal of its ``own`` rule, or of code, differs.

    With ``ends`` the plan ends positions, so each new buy counts, also one of what the signal holds.
    """
    data, close = RuleEvaluator(view, list(signal.columns)), view["ohlcv"]["close"].loc[signal.index[0] :]
    expected = [data.signal(meant)]
    if own is None:  # free code may be of prices as traded
        expected.append(RuleEvaluator(_AsTraded(view), list(signal.columns)).signal(meant))
    ties = data.ties(meant) if own is None else None
    is_state = not any(each.startswith("cross") for each in re.findall(r"\w+", expression(meant.entry)))
    options: Any = {
        "first": first,
        "state": is_state,
        "lookback": meant.lookback + 1,
        "ends": ends,
        "excused": ties,
    }
    ways = [compare_positions(signal, each.loc[signal.index[0] :], close, **options) for each in expected]
    found = None if None in ways else ways[0]
    if found is None:
        return []
    shown = _values_at(data, meant, found.session, found.symbol)
    sides = [Note(zh=_told(each, "zh"), en=_told(each, "en")) for each in (own, meant)]
    return [difference_finding(found, *sides, values=shown)]


def read_again(
    report: Report, state: SignalSubgraphState, resources: OpenResources, agent: Agent | None, ref: str
) -> list[Finding]:
    """Return where a second reading of the words, by a call that does not see the first, trades otherwise."""
    clauses = (request_of(state)["understanding"] or {"clauses": []})["clauses"]
    assumed = [each["became"] or each["words"] for each in clauses if each["status"] == "default"]
    facts = {"sentence": user_words(state, known_source(state, resources))[0], "assumed": assumed}
    question = agent_question(prompt_text("second", language(state)).format(), "validate", facts)
    try:
        agent = agent or build_agent("validation", resources, with_tools=False)
        invoke: Any = partial(agent.invoke, context=tool_context(state, resources, ref))
        second = ask_json(invoke, question, SecondReading, check=check_finished)
    except (ModelOutputInvalid, NoProgress) as error:
        return [_not_read_again(error.message)]
    return _readings_differ(state, resources, ref, second, report.summary["evaluated_from"])


def _readings_differ(
    state: SignalSubgraphState, resources: OpenResources, ref: str, second: SecondReading, first: str
) -> list[Finding]:
    """Return where a second reading of the same words trades otherwise: by its positions, or by its plan."""
    strategy, moment = strategy_of(state), as_of(state, resources)
    plan = (request_of(state)["understanding"] or {"plan": {}})["plan"]
    made, meant = rule_of_trees(request_of(state)["checked"]["trees"]), second.rule
    if meant is None and "entry" not in second.model_fields_set:
        return [_not_read_again("it has no rule")]
    if meant is None:
        return [_other_reading("另一种读法里没有规则", "another reading of the words has no rule")]
    other, words = executed_plan(second.plan, current_decider(resources).executes)[0], language(state)
    found = plans_differ(plan, other)
    if meant != made:
        signal = resources.store.view(moment, ref)["signal"][strategy["name"]]
        view = resources.store.view(moment, strategy["data_ref"])
        try:
            ends = bool(ENDS & plan.keys())
            found = [*signal_differs(made, meant, signal, view, session_of(first), ends=ends), *found]
        except (UnknownField, UnknownSymbol) as error:
            found.append(_other_reading(error.message, error.message))
    told = "; ".join([TAKE_OTHER[words] + _told(meant, words), *plan_words(other, words)])
    found = [replace(each, detail=told) for each in found]
    return found or [_SAME]


def plans_differ(plan: Mapping[str, Any], other: Mapping[str, Any]) -> list[Finding]:
    """Return the parts of a trade plan that another one has otherwise."""
    found, both = [], plan.keys() & other.keys()
    for name in sorted(both | (plan.keys() | other.keys()) - _LOOSE - {"entry_row"}):
        here, there = (each.get(name, "-") for each in (plan, other))
        if here != there:
            en = f"{name} is {here} in one reading of the words and {there} in another"
            found.append(_other_reading(f"{name} 一种读法是 {here}，另一种是 {there}", en))
    return found


_LOOSE = frozenset(("max_positions", "size", "rank", "cash", "benchmark", "reentry", "rebalance"))
"""Parts of a plan of which one reading may have what another takes for granted."""


_SAME = Finding(
    severity="info",
    code="second_reading",
    message="A second reading of the words trades the same.",
    zh="同样的话再读一遍，交易相同。",
)


def _not_read_again(why: str) -> Finding:
    note = Note(zh=f"第二次读没有用上：{why}", en=f"the second reading was not used, {why}")
    return _not_compared_finding(note, own=False)


def _other_reading(zh: str, en: str) -> Finding:
    return Finding(severity="warning", code="meaning_differs", message=f"{en}.", zh=f"{zh}。")


class _AsTraded(dict[str, Mapping[str, pd.DataFrame]]):
    """The panels of data that nothing adjusts."""

    def adjusted(self, name: str) -> pd.DataFrame:
        """Return a price as it was traded."""
        return self["ohlcv"][name]


_LANGUAGES: tuple[Language, Language] = ("zh", "en")


def _told(rule: Rule | None, words: Language) -> str:
    """A rule in words, or what stands for free code."""
    if rule is None:
        return say(words, zh="代码", en="The code")
    buys, sells = rule.words(words)
    return say(words, zh=f"“{buys}买入，{sells}卖出”", en=f'"buy when {buys}, sell when {sells}"')


def _values_at(data: RuleEvaluator, rule: Rule, session: pd.Timestamp, symbol: str) -> Note:
    """The values that a rule compares on a cell."""
    frames = {node: frame for node, frame in data.compared(rule).items() if symbol in frame}
    values = {node: float(frame[symbol].loc[session]) for node, frame in frames.items()}
    zh, en = (
        ", ".join(f"{in_words(node, words)} = {value:.4g}" for node, value in values.items())
        for words in _LANGUAGES
    )
    return Note(zh=zh or "另一标的的条件", en=en or "a condition of another security")


def _not_read(words: Words) -> Note:
    """Why the words are not a reference."""
    not_read = [*words.read.unparsed, *(clause.words for clause in words.read.open)] if words.read else []
    if not_read or words.waived:
        named = "; ".join([*not_read, *words.waived])
        return Note(zh=f"没有读懂：{named}", en=f"not read: {named}")
    return Note(
        zh="这句话没有说全一条有买有卖的规则", en="the sentence says no whole rule to buy and to sell"
    )


def _overlap(rule: Rule, view: BaseView, signal: pd.DataFrame, first: pd.Timestamp | None) -> list[Finding]:
    """The finding of a rule that mostly sells where it buys, which no code can mend."""
    data = RuleEvaluator(view, list(signal.columns))
    try:
        both = data.value(make("and", rule.entry, rule.exit))
    except (UnknownField, UnknownSymbol):
        return []
    begin = signal.index[0] if first is None else first
    at = np.argwhere(both.loc[begin:].to_numpy() == 1)
    count = len(at)
    if not count or 2 * count <= (whole := int((data.value(rule.entry).loc[begin:] == 1).sum().sum())):
        return []
    session, symbol = f"{both.loc[begin:].index[at[0, 0]]:%Y-%m-%d}", str(both.columns[at[0, 1]])
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


def held_to_words(state: SignalSubgraphState, resources: OpenResources, ref: str, report: Report) -> Report:
    """Return the report with the findings of the signal held against the sentence, which come first.

    A rule that was read as trees is held by its leaves when it is read; here a second, independent reading of
    the same words is compared, where there is one. Free code is compared with that, or with nothing.
    """
    strategy, moment = strategy_of(state), as_of(state, resources)
    signal = resources.store.view(moment, ref)["signal"][strategy["name"]]
    words, cells = words_of(state, known_source(state, resources)), strategy["cells"]
    view, first = resources.store.view(moment, strategy["data_ref"]), report.summary["evaluated_from"]
    held = hold_against_words(words, signal, cells, view, first=session_of(first))
    findings, is_free = list(held.findings), rule_of_cells(cells) is None
    if held.not_compared is not None and is_free:
        coded = coded_in(request_of(state)["checked"]).values()
        own = bool(request_of(state)["own"])
        findings.append(_coded_finding(coded) if coded else _not_compared_finding(held.not_compared, own=own))
    if is_free:
        findings += [*_coded_schedule(words.plan, signal), *_lost_numbers(state, words, cells)]
    checks = (*report.checks, "meaning" if held.not_compared is None else "structure")
    return replace(report, checks=checks, findings=(*findings, *report.findings))


def _not_compared_finding(why: Note, *, own: bool) -> Finding:
    zh, en = ("没有什么", "Nothing") if own else ("除了模型自己，没有什么", "Nothing but a model")
    return Finding(
        severity="warning",
        code="not_compared",
        message=f"Not compared with the sentence: {why.en}. {en} shows that the code does what it says.",
        zh=f"没有与句子比较：{why.zh}。{zh}能表明代码做的就是它说的。",
    )


def _coded_finding(coded: Iterable[str]) -> Finding:
    zh, en = (mark.join(coded) for mark in ("」「", '", "'))
    return Finding(
        severity="warning",
        code="not_compared",
        message=f'"{en}" is code of a model, with no rule to compare it with; the rest is what was read.',
        zh=f"「{zh}」是模型写的代码，没有规则可以与它比较；其余部分按读到的执行。",
    )


_PERIODS = {"week_start": "W", "month_start": "M", "quarter_start": "Q"}
_FEW = 3
"""Sessions with a mark below which it may be chance that all begin a period."""


def _coded_schedule(plan: TradePlan, signal: pd.DataFrame) -> list[Finding]:
    """The finding of free code that has the plan's schedule, too: each mark is traded one period late."""
    marked = signal.index[signal.isin((1.0, -1.0)).any(axis=1)]
    if plan.trade_on not in _PERIODS or len(marked) < _FEW:
        return []
    periods = pd.Series(pd.DatetimeIndex(signal.index).to_period(_PERIODS[plan.trade_on]), index=signal.index)
    if not marked.isin(periods.index[periods != periods.shift(1)]).all():
        return []
    en = f"It is 1 or -1 on first sessions of a period only. Leave the schedule to trade_on {plan.trade_on}."
    zh = f"信号只在每个周期的第一个交易日是 1 或 -1。何时买卖由计划 trade_on {plan.trade_on} 决定。"
    return [Finding(severity="warning", code="meaning_on_schedule", message=en, zh=zh, count=len(marked))]


def _lost_numbers(state: SignalSubgraphState, words: Words, cells: Sequence[str]) -> list[Finding]:
    """The finding of numbers that the person said and that neither code nor plan has."""
    params = state.get("user_intent", {}).get("params", {})
    done = [each for each in params.get("clauses", ()) if each["status"] == "done" and each["part"] != "plan"]
    code = {
        float(number[1])
        for cell in cells
        for node in ast.walk(parse_code(cell))
        if isinstance(node, ast.Constant) and not isinstance(node.value, bool)
        if (number := re.fullmatch(r"(\d+(?:\.\d+)?)[A-Za-z]{0,2}", str(node.value)))  # 20, or "20D"
    }
    # A window of n may be written as shift(n - 1) or range(n + 1).
    known = [each + step for each in (*code, *plan_numbers(words.plan.to_json())) for step in (-1, 0, 1)]
    lines = plain("\n".join(own_lines(state)))  # a quote of an earlier request may have been changed
    quotes = [plain(each["quote"]) for each in done if plain(each["quote"]) in lines]
    texts = (without_dates_and_codes(quote, words.context.names) for quote in quotes)
    said = ((text, each) for text in texts for each in numbers_in(text))
    lost = [text[each.begin : each.end] for text, each in said if not each.is_one_of(known)]
    if not lost:
        return []
    listed = ", ".join(dict.fromkeys(map(str.strip, lost)))
    message = f"Numbers of the words that stand neither in the code nor in the trade plan: {listed}."
    zh = f"原话里的 {listed}，代码和交易计划里都没有。"
    return [Finding(severity="warning", code="meaning_lost_number", message=message, zh=zh)]


_EVERYWHERE = frozenset({"benchmark", "cash", "commission", "slippage_bps"})
"""Words of a plan that are in each fill, or in none."""


def left_out(
    state: SignalSubgraphState, resources: OpenResources
) -> Iterator[tuple[int, pd.DataFrame, Collection[str]]]:
    """Yield the place of each clause of a rule of trees, the signal without it, its words of the plan."""
    request, params = request_of(state)["checked"], state.get("user_intent", {}).get("params", {})
    if not request.get("trees"):
        return
    strategy, moment = strategy_of(state), as_of(state, resources)
    signal = resources.store.view(moment, state["data_ref"])["signal"][strategy["name"]]
    data = RuleEvaluator(resources.store.view(moment, strategy["data_ref"]), [str(each) for each in signal])
    for place, clause in enumerate(params["clauses"]):  # those of the reading come first
        if clause["rule"] and clause["name"]:
            yield place, _without(data, params, clause["name"], signal).loc[signal.index], clause["plan"]
        elif clause["status"] == "done":
            said = (name for name, part in params["plan"].items() if says_part(clause["quote"], name, part))
            if words := {*(clause["plan"] or said)} - _EVERYWHERE:
                yield place, signal, words


def _without(data: RuleEvaluator, params: Mapping[str, Any], name: str, whole: pd.DataFrame) -> pd.DataFrame:
    """The signal without one condition; a side of which nothing is left never speaks."""
    sides = {side: without_name(params[side], name) for side in ("entry", "exit")}
    if not sides["entry"]:
        return whole.where(whole != 1, 0.0)
    rule = rule_in({**params, **sides})
    return whole if rule is None else data.signal(rule)
