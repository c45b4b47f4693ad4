"""What a model read in a sentence, checked by code: a request with its understanding, or a question.

A year, a code or a span that differs from what the sentence names goes back to the model once.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pandas as pd
from pydantic import ValidationError

from quantgraph._util.texts import Note, say
from quantgraph.data import AsOfSource, record_kinds_of
from quantgraph.data.symbols import index_code
from quantgraph.errors import (
    BadOption,
    BadWindow,
    FutureRequested,
    QuantGraphError,
    UnknownField,
    UnknownSymbol,
)
from quantgraph.market import session_of
from quantgraph.runtime import OpenResources
from quantgraph.runtime.dialogue import emit_said
from quantgraph.runtime.endings import end_update, language, user_messages
from quantgraph.sentences.phrases import possible_names, said_symbols, said_windows, watched_only
from quantgraph.subgraphs.signal._agents import (
    Params,
    ReflectionReply,
    current_decider,
    current_ref,
    known_source,
)
from quantgraph.subgraphs.signal._impossible_bars import leave_out
from quantgraph.subgraphs.signal._needs import (
    check_fields,
    fields_question_update,
    fields_to_fetch,
    has_keyless_models,
    keyless_note,
    needed_start,
    needs_notes,
    not_executed_note,
    rule_note,
    said_rule,
    set_rule_aside,
    unsaid_rule_note,
)
from quantgraph.subgraphs.signal._updates import (
    question_update,
    repeat_question_update,
    said_text,
    without_words,
)
from quantgraph.subgraphs.signal.state import SignalSubgraphState
from quantgraph.subgraphs.signal.understanding import (
    check_request,
    missing_part,
    not_done_words,
    symbols_of,
    understand,
    understanding_lines,
)
from quantgraph.tools import split_codes

_TOLERANCE = pd.Timedelta(days=7)
"""Ends of a span that differ by less are the same: its first session may come days after its first day."""
_LOOK_BACK = pd.Timedelta(days=100)
_SPEAKS_OF_TIME = re.compile(
    r"年|月|季|周|天|日期|最近|以来|历史|全部数据|(?<!\d)(?:19|20)\d\d(?:\d{4})?(?!\d)|\bq[1-4]\b|year|month|quarter|week|day|since|until|last|past|ytd"
    r"|date|history|recent|all data",
    re.IGNORECASE,
)
_FULL_DAY = re.compile(r"(?<!\d)(?:\d{8}|\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{4}年\d{1,2}月\d{1,2})(?!\d)")
_FROM_OR_TO = re.compile(
    r"起|以来|至|到|开始|[以之]后|截止|from|since|until|till|\bto\b|after|onward", re.IGNORECASE
)
_LEAVES_OUT = re.compile(
    r"不要|除了|剔除|排除|不含|代替|换成|里的|中的|except|instead|without|exclud|rather|\bnot\b|\bno\b",
    re.IGNORECASE,
)
_TEMPLATE = {"one or two sentences", "why", "same as task_type"}
"""Placeholders of the reflection prompt's template."""


@dataclass(frozen=True, kw_only=True)
class Slip:
    """A difference between a reading and its sentence."""

    kind: Literal["symbol", "window"]
    note: Note


def is_echo(reply: ReflectionReply) -> bool:
    """Whether a reply repeats the prompt's template, as small models do, and says nothing of the sentence."""
    params = reply.user_intent.params
    texts = (reply.analysis, reply.reasoning, params.strategy_desc)
    says_nothing = not params.ts_code or params.strategy_desc.strip().lower() in {"", *_TEMPLATE}
    return says_nothing and any(text.strip().lower() in _TEMPLATE for text in texts)


def reading_slips(
    params: Mapping[str, Any],
    text: str,
    *,
    sessions: pd.DatetimeIndex,
    names: Mapping[str, str],
    fixed: Mapping[str, str],
) -> list[Slip]:
    """Return where a reading differs from what the text names."""
    slips = (
        [] if "ts_code" in fixed else [*_symbol_slips(params, text, names), *_role_slips(params, text, names)]
    )
    return slips + ([] if "start_date" in fixed else _window_slips(params, text, sessions))


def _symbol_slips(params: Mapping[str, Any], text: str, names: Mapping[str, str]) -> list[Slip]:
    lines = [codes for line in text.splitlines() if (codes := said_symbols(line, names))]
    said = tuple(dict.fromkeys(code for codes in lines for code in codes))
    listed = ",".join(str(params.get(name, "")) for name in ("ts_code", "watch", "trade"))
    read = dict.fromkeys(names.get(code) or index_code(code) or code.upper() for code in split_codes(listed))
    if not said or not read:
        return []
    slips = []
    not_named = [code for code in read if code not in said and not _is_written(code, text)]
    if len(not_named) > len(possible_names(text, names)):  # else by names that only a model knows
        unsaid, named = ", ".join(not_named), ", ".join(said)
        zh = f"句子里没有 {unsaid}，只有 {named}"
        slips.append(_slip("symbol", zh=zh, en=f"the sentence does not name {unsaid}; it names {named}"))
    missing = [code for code in lines[-1] if code not in read and code != "ALL"]
    if missing and not _LEAVES_OUT.search(text):
        left_out = ", ".join(missing)
        en = f"the sentence names {left_out}, which the reading has neither in watch nor in trade"
        slips.append(_slip("symbol", zh=f"句子里有 {left_out}，解读里没有", en=en))
    return slips


def _role_slips(params: Mapping[str, Any], text: str, names: Mapping[str, str]) -> list[Slip]:
    """A code that the sentence only watches and the reading trades."""
    read = [names.get(code) or index_code(code) or code.upper() for code in symbols_of(params)["trade"]]
    if not (wrong := ", ".join(code for code in watched_only(text, names) if code in read)):
        return []
    en = f"the sentence only watches {wrong} and trades others; the reading trades it: fill watch and trade"
    return [_slip("symbol", zh=f"句子只观察 {wrong}，交易的是别的股票，而解读交易了它", en=en)]


def names_no_dates(text: str) -> bool:
    """Whether nothing in a text speaks of a time, so that a reading's dates are nobody's.

    >>> names_no_dates("600519.SH golden cross"), names_no_dates("since the crash")
    (True, False)
    """
    return _SPEAKS_OF_TIME.search(text) is None


def names_one_day(text: str) -> bool:
    """Whether a text names one day and not from or until when, so that the other end of a span is nobody's.

    >>> names_one_day("600519.SH，2025年1月6日：金叉买入"), names_one_day("600519.SH since 2025-01-06")
    (True, False)
    """
    return len(_FULL_DAY.findall(text)) == 1 and _FROM_OR_TO.search(text) is None


def _slip(kind: Literal["symbol", "window"], *, zh: str, en: str) -> Slip:
    return Slip(kind=kind, note=Note(zh=zh, en=en))


def _is_written(code: str, text: str) -> bool:
    """Whether the digits or letters of a code are in the text, whatever form the user gave it."""
    return code.partition(".")[0] in text.upper()


def _window_slips(params: Mapping[str, Any], text: str, sessions: pd.DatetimeIndex) -> list[Slip]:
    last_session = f"{sessions[-1]:%Y%m%d}"
    start, end = params.get("start_date", ""), params.get("end_date", "")
    said = [span for span in said_windows(text, last_session) if not _looks_back(span, last_session)]
    read = [tuple(span) for span in params.get("windows") or ()] or ([(start, end)] if start and end else [])
    if not read or not said:
        return []
    spans, others = (", ".join(f"{first}-{final}" for first, final in each) for each in (said, read))
    if len(said) > 1 and not params.get("windows"):
        en = f"the sentence names several spans, {spans}: list them in windows"
        return [_slip("window", zh=f"句子里有几段时间：{spans}", en=en)]
    if _all_among(read, said, sessions) and _all_among(said, read, sessions):
        return []
    zh = f"句子里的时间是 {spans}，不是 {others}"
    return [_slip("window", zh=zh, en=f"the sentence says {spans}, not {others}")]


def _all_among(
    spans: Sequence[Sequence[str]], others: Sequence[Sequence[str]], sessions: pd.DatetimeIndex
) -> bool:
    return all(any(_same_span(span, other, sessions) for other in others) for span in spans)


def _looks_back(span: tuple[str, str], last_session: str) -> bool:
    """Whether a span may be the length of an indicator, counted back from the last session."""
    days = pd.to_datetime(pd.Series(span), errors="coerce", format="%Y%m%d")
    return span[1] == last_session and bool(days[1] - days[0] <= _LOOK_BACK)


def _same_span(one: Sequence[str], other: Sequence[str], sessions: pd.DatetimeIndex) -> bool:
    """Whether two spans are the same as far as there are data; a date that is not one is left to others."""
    if not all(re.fullmatch(r"\d{8}", day) for day in (*one, *other)):
        return True
    low, high = f"{sessions[0]:%Y%m%d}", f"{sessions[-1]:%Y%m%d}"
    clipped = [min(max(day, low), high) for day in (*one, *other)]
    days = [*one, *other] if clipped[2] == clipped[3] else clipped
    dates = pd.to_datetime(pd.Series(days), errors="coerce", format="%Y%m%d")
    apart = (dates[:2] - dates[2:].to_numpy()).abs() > _TOLERANCE
    return not apart.any()


_PARTS = {"symbol": "ts_code", "window": "start_date and end_date", "strategy": "strategy_desc"}


def checked_reading(
    state: SignalSubgraphState,
    resources: OpenResources,
    source: AsOfSource,
    reply: ReflectionReply,
    given: Mapping[str, str],
) -> dict[str, Any]:
    """Return the update of a reading: the request and the understanding, a question, or the end."""
    intent = reply.user_intent.model_dump()
    intent["type"] = reply.task_type
    if reply.task_type != "data_fetch" and not intent["needs_clarification"]:
        _keep_last(intent["params"], state.get("last_request", {}))
    intent["params"] |= given
    gone = _drop_waived(intent["params"], state.get("waived_symbols", []))
    symbols = symbols_of(intent["params"], fixed=intent["params"]["ts_code"] if "ts_code" in given else "")
    if symbols["watch"]:
        intent["params"]["ts_code"] = ",".join([*symbols["watch"], *symbols["trade"]])
    decider = current_decider(resources)
    rule, not_executed, invented = _set_aside(state, resources, intent, reply.unread)
    said = fields_to_fetch(intent["params"]["required_indicators"])
    fields = fields_to_fetch([*said, *decider.needs.indicators])
    fields = [name for name in fields if name not in state.get("waived", [])]
    intent["params"]["required_indicators"] = fields
    read = {"user_intent": intent, "reflected_on": user_messages(state)[-1].id, "answering": None}
    missing = missing_part(intent["type"], intent["params"])
    if missing or intent["needs_clarification"] or intent["type"] == "unclear":
        intent["needs_clarification"] = True
        kind = missing or "strategy"
        reason = reply.clarification_question or reply.analysis or f"missing: {kind}"
        worded = bool(reply.clarification_question)
        again = repeat_question_update(state, kind, intent["params"], reply.unread, reason, worded=worded)
        return again or {**read, **question_update(state, kind, reason, unread=reply.unread, worded=worded)}
    if asked := _unsaid_part(state, intent["params"], given, executes_rule=decider.uses_signal):
        return {**read, **asked}
    try:
        check_fields(fields)
        request = check_request(intent["params"], symbols, source, language(state))
    except UnknownField as error:
        return {**read, **fields_question_update(state, error)}
    except (UnknownSymbol, BadWindow, FutureRequested, BadOption) as error:
        if resources.on_clarify in ("default", "fail"):
            return {**read, **end_update(state, "data_unavailable", error)}
        return {**read, **_invalid_request_update(state, resources, intent["params"], error)}
    request["notes"][:0] = _notes_on_reading(gone, invented, language(state))
    request = leave_out(request, state.get("waived_symbols", []), source)
    extra = {"optional_indicators": [name for name in fields if name not in said], "rule": rule}
    request = request | {name: value for name, value in extra.items() if value}
    request = _for_decider(request, not_executed, state, resources, source)
    unsaid = [*state.get("assumptions", []), *_unsaid_window(state, intent["params"], given)]
    left_out = [not_executed, *(word for word in state.get("waived", []) if word not in gone)]
    params = intent["params"] if decider.uses_signal else _without_rule(intent["params"])
    understanding = understand(params, request, symbols, unsaid, left_out=left_out)
    if rule:
        became = say(language(state), zh="交给模型", en="given to the models")
        understanding["clauses"].append({"words": rule, "became": became, "status": "done"})
    emit_said(understanding_lines(understanding, language(state)))
    return {**read, "request": request, "understanding": understanding}


def with_request(state: SignalSubgraphState, resources: OpenResources) -> SignalSubgraphState:
    """Return the state of a node that a host calls with the documented fields alone, with what these lack.

    The request is ``user_intent.params`` as checked by code; data that are ready are the store's latest.
    """
    if state.get("request"):
        return state
    intent = state["user_intent"]
    try:
        params = Params.model_validate(intent.get("params") or {}).model_dump()
    except ValidationError as error:
        wrong = ", ".join(str(each["loc"][0]) for each in error.errors())
        raise BadOption(f"user_intent.params is not valid: {wrong}", parameter="user_intent.params") from None
    if missing := missing_part(intent.get("type", ""), params):
        raise BadOption(
            f"user_intent.params has no {_PARTS[missing]}; reflection_node fills it from the messages",
            parameter="user_intent.params",
        )
    if "data_ref" in state:
        state = {"given_ref": state["data_ref"], **state}
    elif state["data_ready"]:
        state = {**state, "data_ref": resources.store.head}
    params["required_indicators"] = fields_to_fetch(params["required_indicators"])
    check_fields(params["required_indicators"])
    source = known_source(state, resources)
    return {**state, "request": check_request(params, symbols_of(params), source, language(state))}


def _without_rule(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return a reading for a decider that executes no rule: without entry, exit, and defaults of them."""
    clauses = [each for each in params.get("clauses", ()) if each["status"] != "default"]
    return {**params, "strategy_desc": "", "entry": "", "exit": "", "clauses": clauses}


def _set_aside(
    state: SignalSubgraphState, resources: OpenResources, intent: dict[str, Any], unread: Sequence[str]
) -> tuple[str, str, str]:
    """Return the rule for the decider's models, the words that nothing executes, and a rule nobody said."""
    decider, params = current_decider(resources), intent["params"]
    if decider.uses_signal:
        return "", "", ""
    read, text = params["strategy_desc"], said_text(state)
    if read != state.get("last_request", {}).get("strategy_desc"):  # of an earlier request, which was checked
        params["strategy_desc"] = said_rule(read, text)
    invented = "" if params["strategy_desc"] else read
    rule = set_rule_aside(intent, unread, text, decider.called)
    is_one_word = rule.isascii() and " " not in rule
    if decider.reads_rule and not is_one_word and not has_keyless_models(decider, resources):
        return rule, "; ".join(not_done_words(params, [])), invented
    return "", rule, invented


def _notes_on_reading(gone: Sequence[str], invented: str, language: str) -> list[str]:
    """Return notes on symbols that the user goes on without, and on a rule that nobody said."""
    without = say(language, zh=f"已去掉 {'、'.join(gone)}", en=f"without {', '.join(gone)}, as agreed")
    unsaid = unsaid_rule_note(invented).text(language)
    return [note for note, is_due in ((unsaid, invented), (without, gone)) if is_due]


def _keep_last(params: dict[str, Any], last: Mapping[str, Any]) -> None:
    """Fill a reading without a rule, which changes the last request, with what it leaves of that one."""
    if params["strategy_desc"] or not last.get("strategy_desc"):
        return
    symbols = () if params["ts_code"] else ("ts_code", "watch", "trade")
    rule = ("strategy_desc", "entry", "exit", "required_indicators", "plan", "clauses")
    for name in (*symbols, "start_date", "end_date", *rule):
        params[name] = params[name] or last.get(name, params[name])


def _drop_waived(params: dict[str, Any], waived: Sequence[str]) -> list[str]:
    """Take the symbols out of a reading that the user goes on without; return them."""
    for name in ("ts_code", "watch", "trade"):
        codes = split_codes(params[name])
        if any(code in waived for code in codes):
            params[name] = ",".join(code for code in codes if code not in waived)
    return list(waived)


def _unsaid_window(
    state: SignalSubgraphState, params: Mapping[str, Any], given: Mapping[str, str]
) -> list[str]:
    """Return the window as a default, if it is nobody's: the model chose it."""
    last = state.get("last_request", {})
    answered = any(line.startswith("window: ") for line in state.get("assumptions", []))
    kept = (last.get("start_date"), last.get("end_date")) == (params["start_date"], params["end_date"])
    text, is_one = said_text(state), params["start_date"] == params["end_date"]
    said = not names_no_dates(text) and (is_one or not names_one_day(text))
    if "start_date" in given or answered or kept or said:
        return []
    return [f"window: {params['start_date']}-{params['end_date']}"]


def _unsaid_part(
    state: SignalSubgraphState, params: Mapping[str, Any], given: Mapping[str, str], *, executes_rule: bool
) -> dict[str, Any]:
    """Return the question for one of several spans, or about what nothing executes; empty without either.

    A decider that executes no rule executes none of its clauses, and is not asked about one of them.
    """
    spans = [f"{start}-{end}" for start, end in params["windows"]]
    if len(set(spans)) > 1 and "start_date" not in given:
        reason = say(
            language(state),
            zh=f"您提到了 {len(spans)} 段时间，一次只能跑一段：{'、'.join(spans)}。请问用哪一段？",
            en=f"You named {len(spans)} spans and a run has one: {', '.join(spans)}. Which one?",
        )
        return question_update(state, "window", reason, unread=spans, options=spans)
    words = not_done_words(params, state.get("waived", []))
    task = state.get("answering")
    given_up = bool(task and task["kind"] == "plan" and set(task["unread"]) <= set(state.get("waived", [])))
    if not words or not executes_rule or given_up:  # the same may come back in other words
        return {}
    reason = say(
        language(state),
        zh=f"这部分目前不会执行：{'；'.join(words)}。去掉它继续吗？",
        en=f"This is not executed: {'; '.join(words)}. Go on without it?",
    )
    option = without_words(words, language(state))
    return question_update(state, "plan", reason, unread=words, options=[option])


def _for_decider(
    request: dict[str, Any],
    not_executed: str,
    state: SignalSubgraphState,
    resources: OpenResources,
    source: AsOfSource,
) -> dict[str, Any]:
    """Return the request with the start of the data that the decider needs, and notes on what it lacks."""
    decider, sessions, start = current_decider(resources), source.sessions(), session_of(request["start"])
    data = resources.store.snapshot(current_ref(state, resources))
    fetched = record_kinds_of(source) if decider.needs.records else ()
    notes = needs_notes(decider, sessions, start, data, fetched)
    if request.get("rule"):
        notes.insert(0, rule_note(decider, request["rule"]))
    if has_keyless_models(decider, resources):
        notes.insert(0, keyless_note(decider))
    if not_executed:
        notes.insert(0, not_executed_note(decider, not_executed))
    request = {**request, "notes": [*request["notes"], *(note.text(language(state)) for note in notes)]}
    if not decider.uses_signal:
        request["strategy"] = ""
    first = needed_start(decider, sessions, start)
    return request if first is None else {**request, "data_start": f"{first:%Y%m%d}"}


def _invalid_request_update(
    state: SignalSubgraphState, resources: OpenResources, params: Mapping[str, Any], error: QuantGraphError
) -> dict[str, Any]:
    """Return the question about an invalid parameter, in the user's language, with the error's message.

    One unknown symbol of several may be left out.
    """
    if isinstance(error, UnknownSymbol):
        token = error.data.get("token", "")
        reason = say(
            language(state),
            zh=f"{resources.source.name} 中没有 {token}，请换一个代码、名称或指数（{error.message}）",
            en=error.message,
        )
        options, several = list(error.data.get("close", ())), len(split_codes(params["ts_code"])) > 1
        unread = [token] if several and token else []
        options += [without_words(unread, language(state))] if unread else []
        return question_update(state, "symbol", reason, unread=unread, options=options)
    reason = say(language(state), zh=f"时间范围或参数不可用（{error.message}）", en=error.message)
    return question_update(state, "window", reason)
