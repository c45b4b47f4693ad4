"""What was asked: what a model read, checked by code, becomes a request, or a question."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import pandas as pd

from quantgraph._util.texts import Note, say
from quantgraph.broker import ModelDecider, plan_words
from quantgraph.data import INDICATOR_FIELDS, AsOfSource, record_kinds_of
from quantgraph.data.symbols import names_in
from quantgraph.errors import (
    BadOption,
    BadWindow,
    FutureRequested,
    QuantGraphError,
    UnknownField,
    UnknownSymbol,
)
from quantgraph.market import session_of
from quantgraph.runtime import Agent, OpenResources
from quantgraph.runtime.dialogue import emit_reading
from quantgraph.runtime.endings import end_update, language, user_messages
from quantgraph.runtime.graph_state import Understanding, Update, dialogue_of, request_of
from quantgraph.sentences.phrases import gives_up, joined_spans, restates_without, says_a_rule, windows_in
from quantgraph.subgraphs.signal._agents import (
    ReflectionReply,
    current_decider,
    current_ref,
    local_source,
    rule_in,
)
from quantgraph.subgraphs.signal._checks import (
    changed_lines,
    lines_of,
    names_no_dates,
    names_one_day,
    unparsed,
)
from quantgraph.subgraphs.signal._needs import (
    check_fields,
    check_known_fields,
    fields_question_update,
    fields_to_fetch,
    has_keyless_models,
    invented_rule_note,
    keyless_note,
    needed_start,
    needs_notes,
    not_executed_note,
    rule_as_worded,
    rule_in_text,
    rule_note,
)
from quantgraph.subgraphs.signal._source_facts import (
    indices_with_levels,
    lacking_benchmark,
    lacking_benchmark_update,
    lacking_levels_update,
    lacking_volumes,
    lacking_volumes_update,
    leave_out,
    market_words,
    names_of,
    speaks_of_index,
)
from quantgraph.subgraphs.signal._updates import (
    Worded,
    plan_question_update,
    question_update,
    repeat_question_update,
    sentence_text,
    without_words,
)
from quantgraph.subgraphs.signal.state import SignalSubgraphState
from quantgraph.subgraphs.signal.understanding import (
    Symbols,
    check_request,
    missing_part,
    missing_parts,
    not_done_words,
    rule_line,
    symbols_of,
    understand,
    understanding_lines,
)
from quantgraph.tools import split_codes


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What was read in a sentence, and what the steps so far have made of it."""

    state: SignalSubgraphState
    resources: OpenResources
    source: AsOfSource
    """The source as known at the run's moment."""
    agent: Agent | None = None
    fixed: Mapping[str, str] = field(default_factory=dict)
    """Parameters that the caller fixed."""
    reply: ReflectionReply | None = None
    """What the model read; None while nothing was, or if there is nothing new to read."""
    kind: str = "unclear"
    """What is wanted: ``data_fetch``, ``signal_gen``, ``mixed`` or ``unclear``."""
    params: Mapping[str, Any] = field(default_factory=dict)
    needs_clarification: bool = False
    symbols: Symbols = field(default_factory=lambda: Symbols(watch=[], trade=[], index=[]))
    own_fields: tuple[str, ...] = ()
    """Indicators that the sentence needs; the others among the parameters' are the decider's."""
    rule: str = ""
    """The rule in words for the models of a decider that uses no signal."""
    not_executed: str = ""
    """What such a decider does not do."""
    invented: str = ""
    """A rule that the model read and the user did not write."""
    request: Mapping[str, Any] = field(default_factory=dict)
    """The request as checked by code."""
    understanding: Understanding | None = None
    noted: Update = field(default_factory=dict)
    """Changes that stand whatever comes of the reading."""

    @property
    def changes(self) -> Update:
        """What the reading changes in the state; nothing while nothing was read."""
        if self.reply is None:
            return self.noted
        made = {"checked": dict(self.request), "understanding": self.understanding} if self.request else {}
        params = dict(self.params)
        return {
            **self.noted,
            "user_intent": {
                "type": self.kind,
                "params": params,
                "needs_clarification": self.needs_clarification,
            },
            "params": params,
            **message_read(self.state),
            **made,
        }

    def asking(self, question: Update) -> Question:
        """Return a question about this reading."""
        return Question(changes={**self.changes, **question})


@dataclass(frozen=True, kw_only=True)
class Question:
    """Why a reading does not go on: the changes that ask the user, or that end the run."""

    changes: Update


Step = Callable[[Reading], Reading | Question]


def message_read(state: SignalSubgraphState) -> Update:
    """Return the update that marks the last message as read."""
    return {"reflected_on": user_messages(state)[-1].id, "answering": None}


def read_words(reading: Reading) -> Reading:
    """Fill what a message leaves as it was from the last request; what the caller fixed wins."""
    params, last = dict(reading.params), dialogue_of(reading.state)["last_request"]
    changes = reading.kind != "data_fetch" and not reading.needs_clarification
    if changes and last.get("strategy_desc") and not params["strategy_desc"]:
        symbols = () if params["ts_code"] else ("ts_code", "watch", "trade")
        rule = ("strategy_desc", "entry", "exit", "required_indicators", "plan", "clauses")
        for name in (*symbols, "start_date", "end_date", *rule):
            params[name] = params[name] or last.get(name, params[name])
    return replace(reading, params=params | dict(reading.fixed))


_QUESTIONS = {
    "symbol": Note(zh="请问交易哪些股票？", en="Which stocks should be traded?"),
    "window": Note(
        zh="请问要用哪段时间的数据？例如 20240101到20241231、2024年、最近6个月。",
        en="Which dates should I use? For example 20240101 to 20241231, 2024, or the last 6 months.",
    ),
    "strategy": Note(zh="请问什么时候买、什么时候卖？", en="What are the conditions to buy and to sell?"),
}
"""The question for a part that is missing."""


def take_only_symbol(reading: Reading) -> Reading:
    """Take the symbol of a source that has one, if everything was read and the sentence names none."""
    reply, params, codes = reading.reply, reading.params, reading.source.symbols()
    named = params["ts_code"] or params["watch"] or params["trade"] or reading.fixed
    if reply is None or named or reply.unread or len(codes) != 1 or reading.kind == "unclear":
        return reading
    dialogue, line = dialogue_of(reading.state), f"symbol: {codes[0]}"
    noted = {"assumptions": [*(each for each in dialogue["assumptions"] if each != line), line]}
    missing = missing_part(reading.kind, {**params, "ts_code": codes[0]})
    question = _QUESTIONS[missing].text(language(reading.state)) if missing else ""
    return replace(
        reading,
        params={**params, "ts_code": codes[0]},
        reply=reply.model_copy(update={"clarification_question": question, "usual_answers": True}),
        needs_clarification=missing is not None,
        noted={**reading.noted, **noted},
    )


def read_symbols(reading: Reading) -> Reading:
    """Tell watched symbols from traded ones, without those that the user goes on without."""
    params, waived = dict(reading.params), dialogue_of(reading.state)["waived_symbols"]
    text = sentence_text(reading.state)
    if (rule := rule_in(params)) is not None:
        others = [code for code in rule.watched if code not in split_codes(params["ts_code"])]
        read = [*rule.indices, *others]  # an index is a series beside its members
        params["watch"] = ",".join(dict.fromkeys([*split_codes(params["watch"]), *read]))
        daily = sorted({*rule.inputs} & {*INDICATOR_FIELDS})
        fields = dict.fromkeys([*params["required_indicators"], *daily])
        params["required_indicators"] = [*fields]
    market = names_of(text, reading.source) if market_words(text) else {}
    for name in ("ts_code", "watch", "trade"):
        codes = [market.get(code, code) for code in split_codes(params[name])]
        if any(code in waived or code in market.values() for code in codes):
            params[name] = ",".join(code for code in codes if code not in waived)
    symbols = symbols_of(params, fixed=params["ts_code"] if "ts_code" in reading.fixed else "")
    series = [code for code in (rule.indices if rule else ()) if code not in symbols["index"]]
    symbols["index"] += series  # such as QQQ, of which a source has levels
    symbols["watch"] += [code for code in series if code not in symbols["watch"]]
    if symbols["watch"]:
        params["ts_code"] = ",".join(dict.fromkeys([*symbols["watch"], *symbols["trade"]]))
    return replace(reading, params=params, symbols=symbols)


def set_clauses_aside(reading: Reading) -> Reading:
    """Reduce a reading to its data for a decider without a signal; its models may receive the rule."""
    decider, text = ModelDecider.of(current_decider(reading.resources)), sentence_text(reading.state)
    read, params = reading.params["strategy_desc"], dict(reading.params)
    if read != dialogue_of(reading.state)["last_request"].get("strategy_desc"):  # else it was checked before
        params["strategy_desc"] = rule_as_worded(read, text)
    invented = "" if params["strategy_desc"] else read
    if params["strategy_desc"]:  # the indicators that a rule needs are not fetched without it
        params["required_indicators"] = []
    rule = rule_in_text(params, cast("ReflectionReply", reading.reply).unread, text, decider.aliases)
    not_executed, is_one_word = rule, rule.isascii() and " " not in rule
    if decider.reads_rule and not is_one_word and not has_keyless_models(decider, reading.resources):
        not_executed = "; ".join(not_done_words(params, []))
    else:
        rule = ""
    return replace(
        reading,
        kind="data_fetch",
        needs_clarification=False,
        params=params,
        rule=rule,
        not_executed=not_executed,
        invented=invented,
    )


def read_fields(reading: Reading) -> Reading:
    """List the indicators to fetch: the sentence's and the decider's, without the waived ones."""
    own = fields_to_fetch(reading.params["required_indicators"])
    fields = fields_to_fetch([*own, *current_decider(reading.resources).needs.indicators])
    fields = [name for name in fields if name not in dialogue_of(reading.state)["waived"]]
    return replace(reading, params={**reading.params, "required_indicators": fields}, own_fields=tuple(own))


def ask_for_lacking_fields(reading: Reading) -> Reading | Question:
    """Ask at once about daily indicators that the source does not have."""
    waived = dialogue_of(reading.state)["waived"]
    try:
        check_known_fields([name for name in reading.own_fields if name not in waived], reading.source)
    except UnknownField as error:
        return reading.asking(fields_question_update(reading.state, error))
    return reading


def ask_for_lacking_levels(reading: Reading) -> Reading | Question:
    """Ask at once about a watched index, or the market, that the source has no levels of."""
    state, source, symbols = reading.state, reading.source, reading.symbols
    text, waived = sentence_text(state), dialogue_of(state)["waived"]
    words = [word for word in market_words(text) if word not in waived]
    if not symbols["index"] and not words:
        return reading
    there = indices_with_levels(text, source, symbols["index"])
    lacking = [code for code in symbols["index"] if code not in there]
    if not speaks_of_index(text):  # the members of a traded index, each by its own data
        members = [code for code in lacking if code in symbols["trade"]]
        lacking = [code for code in lacking if code not in members]
        reading = _without_series(reading, members)
    lacking = lacking or ([] if there else words)
    if not lacking:
        return reading
    asked = lacking_levels_update(state, lacking, there, source)
    if lacking != words and reading.resources.on_clarify in ("default", "fail"):
        ended = end_update(state, "data_unavailable", f"no_data: {asked['clarification_needed']}")
        return reading.asking(ended)
    return reading.asking(asked)


def ask_for_lacking_volumes(reading: Reading) -> Reading | Question:
    """Ask at once for a rule without the volumes that the files do not have."""
    params = reading.params
    rule = rule_in(params)
    is_read = rule is None or {"volume", "amount"} & {*rule.inputs}
    words = lacking_volumes(params["strategy_desc"], reading.source) if is_read else []
    return reading.asking(lacking_volumes_update(reading.state, words, reading.source)) if words else reading


def _without_series(reading: Reading, codes: Sequence[str]) -> Reading:
    watch = [code for code in reading.symbols["watch"] if code not in codes]
    index = [code for code in reading.symbols["index"] if code not in codes]
    return replace(reading, symbols=Symbols(watch=watch, trade=reading.symbols["trade"], index=index))


def ask_for_missing_parts(reading: Reading) -> Reading | Question:
    """Ask for the symbols, the window or the rule, or what the model asks."""
    state, reply = reading.state, cast("ReflectionReply", reading.reply)
    missing = missing_part(reading.kind, reading.params)
    if not missing and not reading.needs_clarification and reading.kind != "unclear":
        return reading
    reading = replace(reading, needs_clarification=True)
    kind = missing or "strategy"
    reason = reply.clarification_question or reply.analysis or _QUESTIONS[kind].text(language(state))
    by: Worded = "code" if reply.usual_answers else "model"
    worded: Worded = by if reply.clarification_question else ""
    again = repeat_question_update(state, kind, reading.params, reply.unread, reason, worded=worded)
    if again:
        return Question(changes={**reading.noted, **again})
    return reading.asking(question_update(state, kind, reason, words=reply.unread, worded=worded))


def read_window(reading: Reading) -> Reading | Question:
    """Ask for one of several spans; those that the text says as one are."""
    windows = list(dict.fromkeys(map(tuple, reading.params["windows"])))
    if len(windows) <= 1 or "start_date" in reading.fixed:
        return reading
    named = windows_in(sentence_text(reading.state), f"{reading.source.sessions()[-1]:%Y%m%d}")
    if named == joined_spans(windows) and len(named) == 1:
        ((start, end),) = named
        return replace(
            reading, params={**reading.params, "start_date": start, "end_date": end, "windows": []}
        )
    spans = [f"{start}-{end}" for start, end in windows]
    reason = say(
        language(reading.state),
        zh=f"您提到了 {len(spans)} 段时间，一次只能跑一段：{'、'.join(spans)}。请问用哪一段？",
        en=f"You named {len(spans)} spans and a run has one: {', '.join(spans)}. Which one?",
    )
    return reading.asking(question_update(reading.state, "window", reason, words=spans, options=spans))


def read_plan(reading: Reading) -> Reading | Question:
    """Ask whether to go on without what nothing executes."""
    state, dialogue = reading.state, dialogue_of(reading.state)
    words, task = not_done_words(reading.params, dialogue["waived"]), dialogue["answering"]
    later = "\n".join(str(message.text) for message in user_messages(state)[1:])
    words = [each for each in words if not (gives_up(later, each) or restates_without(later, [each]))]
    waives = bool(task and task["kind"] == "plan" and set(task["unread"]) <= set(dialogue["waived"]))
    if not words or waives:  # the same may come back in other words
        return reading
    understood, spoken = reading.understanding, language(state)
    stays = plan_words(understood["plan"], spoken) if understood else []
    rest = "; ".join([rule_line(understood, spoken), *stays]) if understood else ""
    return reading.asking(plan_question_update(state, words, rest))


def check_with_source(reading: Reading) -> Reading | Question:
    """Make the request, whose fields, symbols and dates the source knows; else ask, or end a headless run."""
    state, resources = reading.state, reading.resources
    try:
        check_fields(reading.params["required_indicators"])
        request = check_request(reading.params, reading.symbols, reading.source, language(state))
    except UnknownField as error:
        return reading.asking(fields_question_update(state, error))
    except (UnknownSymbol, BadWindow, FutureRequested, BadOption) as error:
        if resources.on_clarify in ("default", "fail"):
            return reading.asking(end_update(state, "data_unavailable", error))
        return reading.asking(_invalid_request_update(state, resources, reading.params, error))
    if (rule := rule_in(reading.params)) is None:
        return replace(reading, request=request)
    trees = {"trees": [*rule.expressions]}
    quotes = {each["name"]: each["quote"] or each["became"] for each in reading.params["clauses"]}
    parts = {"parts": {**trees, "coded": {name: quotes[name] for name in rule.given}}}
    return replace(reading, request={**request, **(parts if rule.given else trees)})


def ask_for_lacking_benchmark(reading: Reading) -> Reading | Question:
    """Ask at once about a benchmark that a source here does not have; go on without it if it was waived."""
    state, source = reading.state, local_source(reading.state, reading.resources)
    words = source and lacking_benchmark(reading.params, reading.request, source)
    if not words or source is None:
        return reading
    if words in dialogue_of(state)["waived"]:
        plan = {name: part for name, part in reading.params["plan"].items() if name != "benchmark"}
        return replace(reading, params={**reading.params, "plan": plan})
    return reading.asking(lacking_benchmark_update(state, words, source))


def add_needs(reading: Reading) -> Reading:
    """Add to the request what the decider needs, with notes on what is left out and what the data lack."""
    state, source, decider = reading.state, reading.source, current_decider(reading.resources)
    gone, request = dialogue_of(state)["waived_symbols"], dict(reading.request)
    request["notes"] = [*_notes_on_reading(gone, reading.invented, language(state)), *request["notes"]]
    request = leave_out(request, gone, source)
    optional = [name for name in reading.params["required_indicators"] if name not in reading.own_fields]
    if optional:
        request["optional_indicators"] = optional
    if reading.rule:
        request["rule"] = reading.rule
    sessions, start = source.sessions(), session_of(request["start"])
    request["notes"] += [note.text(language(state)) for note in _decider_notes(reading, start)]
    first, own = needed_start(decider, sessions, start), request_of(state)["own"] or {}
    starts = [each for each in (first and f"{first:%Y%m%d}", own.get("data_start")) if each]
    if starts:
        request["data_start"] = min(starts)
    return replace(reading, request=request)


def _decider_notes(reading: Reading, start: pd.Timestamp) -> list[Note]:
    """Return notes on what the decider does not execute, who decides, and which data it lacks."""
    decider, resources, source = current_decider(reading.resources), reading.resources, reading.source
    data = resources.store.snapshot(current_ref(reading.state, resources))
    fetched = record_kinds_of(source) if decider.needs.records else ()
    notes = needs_notes(decider, source.sessions(), start, data, fetched)
    if reading.rule:
        notes.insert(0, rule_note(decider, reading.rule))
    if has_keyless_models(decider, resources):
        notes.insert(0, keyless_note(decider))
    if reading.not_executed:
        notes.insert(0, not_executed_note(decider, reading.not_executed))
    return notes


def without_rule(reading: Reading) -> Reading:
    """Take the rule out of a request for a decider that executes none."""
    return replace(reading, request={**reading.request, "strategy": ""})


def understand_signal(reading: Reading) -> Reading:
    """Say what was understood, for a decider that trades a signal."""
    return _with_understanding(reading, _understood(reading, reading.params))


def understand_data(reading: Reading) -> Reading:
    """Say what was understood, without entry, exit, and defaults of them."""
    clauses = [
        each
        for each in reading.params.get("clauses", ())
        if each["status"] != "default" and not (each["rule"] and each["status"] == "done")
    ]
    no_rule = {"strategy_desc": "", "entry": "", "exit": "", "clauses": clauses}
    understanding = _understood(reading, {**reading.params, **no_rule})
    if reading.rule:
        became = say(language(reading.state), zh="交给模型", en="passed to the models")
        understanding["clauses"].append({"words": reading.rule, "became": became, "status": "done"})
    return _with_understanding(reading, understanding)


def _with_understanding(reading: Reading, understanding: Understanding) -> Reading:
    if changed := changed_lines(reading.state, reading.params):
        understanding["changed"] = changed
    emit_reading(understanding_lines(understanding, language(reading.state)))
    return replace(reading, understanding=understanding)


def _understood(reading: Reading, params: Mapping[str, Any]) -> Understanding:
    dialogue = dialogue_of(reading.state)
    defaults = [*dialogue["assumptions"], *_default_window(reading.state, reading.params, reading.fixed)]
    defaults += _default_index(reading)
    kept = [word for word in dialogue["waived"] if word not in dialogue["waived_symbols"]]
    left_out = [reading.not_executed, *kept]
    aliases = ModelDecider.of(current_decider(reading.resources)).aliases
    names = {**names_of(sentence_text(reading.state), reading.source), **{each: each for each in aliases}}
    rest = unparsed(reading.state, {**params, "clauses": reading.params["clauses"]}, names)
    return understand(params, reading.request, reading.symbols, defaults, left_out=left_out, unparsed=rest)


def _default_index(reading: Reading) -> list[str]:
    """Return the index that stands for the market, as a default."""
    text, watched = sentence_text(reading.state), reading.symbols["index"]
    if not watched or not (words := market_words(text)):
        return []
    names = names_of(text, reading.source)
    return [f"{word}: {names[word]}" for word in words if names.get(word) in watched]


_LACKING: tuple[Step, ...] = (ask_for_lacking_fields, ask_for_lacking_levels, ask_for_lacking_volumes)
_CHECKS: tuple[Step, ...] = (read_fields, *_LACKING, ask_for_missing_parts, read_window)
SIGNAL_STEPS: tuple[Step, ...] = (
    *(read_words, take_only_symbol, read_symbols),
    *_CHECKS,
    *(check_with_source, ask_for_lacking_benchmark, add_needs, understand_signal, read_plan),
)
"""The steps of a reading, in order."""
DATA_STEPS: tuple[Step, ...] = (
    *(read_words, take_only_symbol, read_symbols, set_clauses_aside),
    *_CHECKS,
    *(check_with_source, add_needs, without_rule, understand_data),
)
"""The same for a decider that uses no signal: symbols and window, and its rule in words."""


_OPEN_PARTS = {
    "symbol": Note(zh="交易哪些股票", en="which stocks to trade"),
    "window": Note(zh="哪段时间", en="which dates"),
    "strategy": Note(zh="什么时候买、什么时候卖", en="when to buy and when to sell"),
}


def with_open_questions(reading: Reading, asked: Question) -> Question:
    """Return a question behind what was understood so far, with what else is open at this moment."""
    task = asked.changes.get("clarification")
    if not task or not reading.params:
        return asked
    if reading.understanding is None:
        emit_reading(_understood_so_far(reading))
    lines, words = _also_open(reading, task)
    more = {"also_open": lines, **({"also_unread": words} if words else {})}
    return Question(changes={**asked.changes, "clarification": {**task, **more}})


def _also_open(reading: Reading, task: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """What is open beside a question: parts, words not read, other questions; and the words of these."""
    user_language, reply, text = language(reading.state), reading.reply, sentence_text(reading.state)
    missing = [part for part in missing_parts(reading.kind, reading.params) if part != task["kind"]]
    if "strategy" in missing and reply and reply.unread and says_a_rule(text, names_in(text, reading.source)):
        missing.remove("strategy")  # the sentence has one, beside words that were not read
    lines = [_OPEN_PARTS[part].text(user_language) for part in missing]
    not_read = [word for word in (reply.unread if reply else ()) if word not in task["reason"]]
    if not_read:
        listed = "; ".join(not_read)
        lines.append(say(user_language, zh=f"没有读懂：{listed}", en=f"not understood: {listed}"))
    words = list[str]()
    plan = (read_plan,) if reading.resources.makes_signal else ()
    for step in (*_LACKING, read_window, *plan):
        result = step(reading)
        other = result.changes.get("clarification") if isinstance(result, Question) else None
        if other and other["kind"] != task["kind"]:
            lines.append(other["reason"])
            words += other["unread"]
    return lines, words


def _understood_so_far(reading: Reading) -> list[str]:
    lines = lines_of(reading.params, reading.symbols, language(reading.state))
    return [line for line in lines if not line.rstrip(" -").endswith((":", "："))]


ASKING_STEPS: tuple[Step, ...] = (*_CHECKS, read_plan)
"""The steps whose questions are asked together with what else is open."""


def reading_steps(resources: OpenResources) -> tuple[Step, ...]:
    """Return the steps of a reading, in order, for a decider that uses a signal or for one that does not."""
    return SIGNAL_STEPS if resources.makes_signal else DATA_STEPS


def _notes_on_reading(gone: Sequence[str], invented: str, language: str) -> list[str]:
    """Return notes on symbols that the user goes on without, and on a rule that the model invented."""
    without = say(language, zh=f"已去掉 {'、'.join(gone)}", en=f"without {', '.join(gone)}, as agreed")
    defaults = invented_rule_note(invented).text(language)
    return [note for note, is_due in ((defaults, invented), (without, gone)) if is_due]


def _default_window(
    state: SignalSubgraphState, params: Mapping[str, Any], fixed: Mapping[str, str]
) -> list[str]:
    """Return the window as a default if the model chose it."""
    last = dialogue_of(state)["last_request"]
    answered = any(line.startswith("window: ") for line in dialogue_of(state)["assumptions"])
    kept = (last.get("start_date"), last.get("end_date")) == (params["start_date"], params["end_date"])
    text, is_one = sentence_text(state), params["start_date"] == params["end_date"]
    named = not names_no_dates(text) and (is_one or not names_one_day(text))
    if "start_date" in fixed or answered or kept or named:
        return []
    return [f"window: {params['start_date']}-{params['end_date']}"]


def _invalid_request_update(
    state: SignalSubgraphState, resources: OpenResources, params: Mapping[str, Any], error: QuantGraphError
) -> dict[str, Any]:
    """Return the question about an invalid parameter, in the user's language.

    One unknown symbol of several may be left out.
    """
    source = resources.source
    if isinstance(error, UnknownSymbol):
        token = error.data.get("token", "")
        options, several = list(error.data.get("close", ())), len(split_codes(params["ts_code"])) > 1
        meant, such = ", ".join(options), source.symbols()[0]
        zh, en = (f"是不是 {meant}？", f"Did you mean {meant}? ") if meant else ("", "")
        reason = say(
            language(state),
            zh=f"{source.name} 中没有 {token}。{zh}请换一个代码（如 {such}）、名称或指数。",
            en=f"{source.name} has no {token}. {en}Give another code, such as {such}, a name or an index.",
        )
        words = [token] if several and token else []
        options += [without_words(words, language(state))] if words else []
        return question_update(state, "symbol", reason, words=words, options=options)
    first, last = (f"{source.sessions()[at]:%Y%m%d}" for at in (0, -1))
    reason = say(
        language(state),
        zh=f"这段时间用不了：{source.name} 有 {first} 到 {last} 的数据。请问用哪段时间？",
        en=f"These dates cannot be used: {source.name} has data from {first} to {last}. Which dates should I "
        f"use? ({error.message})",
    )
    return question_update(state, "window", reason)
