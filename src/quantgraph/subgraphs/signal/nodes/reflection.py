"""Reflection: read the request, check it by code, and choose the next task."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import PurePath
from typing import Any, cast

from langchain_core.messages import AnyMessage, HumanMessage, SystemMessage

from quantgraph._util.canonical_json import canonical_json
from quantgraph._util.files import check_sentence
from quantgraph._util.texts import say
from quantgraph.broker import ModelDecider
from quantgraph.data.symbols import INDEX_NAMES, is_code
from quantgraph.errors import (
    BadOption,
    CodeUnavailable,
    ModelOutputInvalid,
    QuantGraphError,
    RunDiverged,
    SandboxTooWeak,
    StorageUnavailable,
)
from quantgraph.llm import KeylessPlanner
from quantgraph.llm.messages import ask_json, escape_tags, read_json, wrap
from quantgraph.recording.scope import keep_answer, replaying
from quantgraph.runtime import Agent, OpenResources, Resources, agent_question, check_finished, open_resources
from quantgraph.runtime.dialogue import parse_answer
from quantgraph.runtime.endings import (
    MODEL_ERRORS,
    end_reason,
    end_update,
    extended_history,
    is_edited,
    language,
    last_request,
    messages_by_request,
    request_language,
    thanked_update,
    user_messages,
)
from quantgraph.runtime.graph_state import (
    Clarification,
    Understanding,
    Update,
    changed,
    dialogue_of,
    progress_of,
    request_of,
    strategy_of,
    written,
)
from quantgraph.sentences import PLAN_KEYS
from quantgraph.sentences.phrases import is_courtesy
from quantgraph.subgraphs.signal._agents import (
    ReflectionReply,
    build_agent,
    current_decider,
    current_ref,
    known_source,
    last_request_of,
    prompt_text,
    rule_in,
    tool_context,
)
from quantgraph.subgraphs.signal._checks import (
    Misreading,
    clause_errors,
    doubts_noted,
    is_echo,
    misread_update,
    reading_errors,
)
from quantgraph.subgraphs.signal._edited import edited_update, given_of
from quantgraph.subgraphs.signal._meaning import user_words, words_in_context
from quantgraph.subgraphs.signal._needs import has_needed_records
from quantgraph.subgraphs.signal._own import OWN_STEPS
from quantgraph.subgraphs.signal._plan import with_plan
from quantgraph.subgraphs.signal._reading import (
    ASKING_STEPS,
    Question,
    Reading,
    Step,
    message_read,
    reading_steps,
    with_open_questions,
)
from quantgraph.subgraphs.signal._source_facts import known_indicators, names_of, speaks_of_fields
from quantgraph.subgraphs.signal._updates import (
    answer_update,
    answered_questions,
    first_question_update,
    initial_state,
    question_update,
    read_messages,
    request_text,
    sentence_text,
    user_text,
)
from quantgraph.subgraphs.signal.state import SignalSubgraphState
from quantgraph.subgraphs.signal.understanding import (
    check_constraints,
    has_data,
    has_needed_sessions,
    has_signal,
    restrict_to_request,
    traded_symbols,
    understanding_hash,
    understanding_lines,
    with_constraints,
)

REFLECTION_NODE_PROMPT = prompt_text("reflection", "en")


_READINGS = 2
"""Times that a model reads a sentence, the second time with what it misread."""
_PLANNER_READ = "reading: the keyless planner's,"
"""Begins the assumption that the model's reading was replaced."""


def reflection_node(
    state: SignalSubgraphState,
    *,
    resources: Resources | None = None,
    agent: Agent | None = None,
    check_symbols: Callable[[Sequence[str]], None] | None = None,
) -> dict[str, Any]:
    """Read the request, check it by code, and determine what is ready.

    Parameters
    ----------
    check_symbols
        Raises ``UnknownSymbol`` if one of the symbols cannot be traded, where they are to be.

    Returns
    -------
    dict
        Intent, checked request, readiness flags and the next task; or a question; or the reason for the end.
    """
    if state.get("messages"):
        state = {**state, "messages": read_messages(state["messages"])}
    resources = open_resources(resources)
    changes = _begin(state)
    if state.get("quantgraph") and "ended_because" in changes:
        changes["quantgraph"] = {"result": {}}
    if thanked := thanked_update(state):
        return written(state, thanked)
    now = changed(state, changes)
    if (asked := _not_to_be_read(now)) is not None:
        return written(state, changes | asked)
    _check_runner(resources)
    try:
        reading = Reading(state=now, resources=resources, source=known_source(now, resources), agent=agent)
        read = OWN_STEPS if request_of(now)["own"] else (ask_model, *reading_steps(resources))
        steps: list[Step] = [*read] if _needs_model(now) else []
        steps += [partial(_check_tradable, check_symbols), _confirm]
        for step in steps:
            result = step(reading)
            if isinstance(result, Question):
                result = with_open_questions(reading, result) if step in ASKING_STEPS else result
                return written(state, changes | result.changes)
            reading = result
        changes |= reading.changes | _readiness(reading)
    except (RunDiverged, SandboxTooWeak, StorageUnavailable):
        raise
    except QuantGraphError as error:
        changes |= end_update(now, end_reason(error), error)
    return written(state, changes)


def _not_to_be_read(state: SignalSubgraphState) -> Update | None:
    """Return the end of a request with a message that is too long, or the open question; else None."""
    try:
        for message in user_messages(state):
            check_sentence(str(message.text), "messages")
    except BadOption as error:
        return end_update(state, "needs_answer", error)
    return {"current_task": "clarify"} if state.get("clarification_needed") else None


def _check_runner(resources: OpenResources) -> None:
    """Check that code can run before a model is asked for it; the code that cannot says so again."""
    if (check := getattr(resources.runner, "check", None)) and not replaying():
        with suppress(CodeUnavailable):
            check()


def _check_tradable(check: Callable[[Sequence[str]], None] | None, reading: Reading) -> Reading:
    if check is not None:
        check(traded_symbols(_request(reading), reading.source))
    return reading


def _request(reading: Reading) -> Mapping[str, Any]:
    """Return the request as it was read now, or before."""
    return reading.request or request_of(reading.state)["checked"]


def _confirm(reading: Reading) -> Reading | Question:
    """Ask whether the understanding is right, if that is wished or a model's echo was replaced."""
    resources, dialogue = reading.resources, dialogue_of(reading.state)
    asks = resources.on_clarify not in ("default", "fail")
    unsure = any(line.startswith(_PLANNER_READ) for line in dialogue["assumptions"])
    understanding = reading.understanding or request_of(reading.state)["understanding"]
    due = (resources.confirm or (asks and unsure)) and understanding is not None
    if not due or dialogue["confirmed"] == understanding_hash(understanding):
        return reading
    words = language(reading.state)
    lines = "; ".join(understanding_lines(cast("Understanding", understanding), words))
    reason = say(words, zh=f"将这样执行：{lines}。对吗？", en=f"This is what will run: {lines}. Go on?")
    options = say(words, zh="是 否", en="yes no").split()
    asked = question_update(reading.state, "confirmation", reason, options=options)
    return reading.asking(asked)


def _begin(state: SignalSubgraphState) -> dict[str, Any]:
    """Fill the fields that are absent; reset all of them for a new request on the thread."""
    edited, requests = is_edited(state), messages_by_request(state)
    messages, clean = requests[-1], initial_state(state.get("max_retries", 3))
    clean["language"] = request_language(state)
    ref, request, dialogue = state.get("data_ref"), request_of(state), dialogue_of(state)
    host_ref = request["given_ref"] if ref == request["left_ref"] else ref
    clean["given_ref"] = host_ref or ""
    if edited:
        clean |= edited_update(state["user_intent"]["params"], request, dialogue, requests)
        history = {"execution_history": state.get("execution_history", [])}
        clean["execution_history"] = extended_history(history, *clean["execution_history"])
        return {**clean, "given_ref": request["given_ref"] or ""}
    if state.get("ended_because") or progress_of(state)["ended"]:
        last = last_request(state)
        last = last if last["last_request"] else last_request_of(state["messages"])
        return {**clean, "ended_because": None, **last}
    groups = state.get("quantgraph") or {}
    there: dict[str, Any] = {**state, "strategy": groups.get("strategy")}
    for name, fields in (("request", request), ("dialogue", dialogue), ("progress", progress_of(state))):
        there |= fields if name in groups else {}
    absent = {key: value for key, value in clean.items() if there.get(key) is None}
    absent |= {} if dialogue["last_request"] else last_request_of(state["messages"])
    task = dialogue["clarification"]
    if task and messages and messages[-1].id != dialogue["reflected_on"]:
        # The host sent the answer as a message instead of resuming.
        return {**absent, **_answer_in_message(state, task, messages[-1])}
    return absent


def _answer_in_message(
    state: SignalSubgraphState, task: Clarification, message: AnyMessage
) -> dict[str, Any]:
    answer = parse_answer(task, str(message.text))
    if isinstance(answer, str):
        keep_answer(task["id"], answer)
        return answer_update(state, task, answer, message=str(message.id))
    asked = {**task, "error": answer.text(task["language"])}
    ignored = [*dialogue_of(state)["ignored_message_ids"], str(message.id)]
    return {"clarification": asked, "ignored_message_ids": ignored, "reflected_on": message.id}


def _needs_model(state: SignalSubgraphState) -> bool:
    """Whether there is something new to read: a message or an error."""
    messages = user_messages(state)
    newest = messages[-1].id if messages else None
    return bool(
        not request_of(state)["checked"]
        or state.get("error_messages")
        or newest != dialogue_of(state)["reflected_on"]
    )


def ask_model(reading: Reading) -> Reading | Question:
    """Let the model read the sentence; a misreading goes back to it once, then to the user.

    The keyless planner reads in its place if it repeats the prompt's template.
    """
    state, source = reading.state, reading.source
    if is_courtesy(user_text(state) or "?") or not user_messages(state):
        return Question(changes=first_question_update(state, source, reading.resources.makes_signal))
    fixed = check_constraints(given_of(state), source, source.sessions()[-1])
    text = with_constraints(request_text(state), fixed)
    agent = reading.agent or build_agent("reflection", reading.resources)
    tools = tool_context(state, reading.resources, current_ref(state, reading.resources))
    invoke: Any = partial(agent.invoke, context=tools)
    facts = _facts(reading, user_text(state))

    errors, misreadings, doubts = list(state["error_messages"]), list[Misreading](), list[Misreading]()
    for _ in range(_READINGS):
        prompt = _prompt({**state, "error_messages": errors}, text, reading.resources)
        try:
            question = agent_question(prompt, "context", facts)
            reply = ask_json(invoke, question, ReflectionReply, check=check_finished)
        except MODEL_ERRORS as error:
            return Question(changes=end_update(state, "model_unavailable", error))
        if is_echo(reply):
            reading, reply = _read_by_planner(reading, prompt, facts)
            misreadings = []
        else:
            read = _errors_of(reply, reading, facts["names"], fixed)
            doubts = [each for each in read if not each.certain and each in misreadings]
            misreadings = [each for each in read if each not in doubts]
        params = reply.user_intent.params.model_dump()
        if not misreadings:
            noted = {**reading.noted, **doubts_noted(reading.state, params, doubts)}
            return replace(
                reading,
                noted=noted,
                state=changed(reading.state, noted),
                fixed=fixed,
                reply=reply,
                kind=reply.task_type,
                params=with_plan(params, _executes(reading)),
                needs_clarification=reply.user_intent.needs_clarification,
            )
        missed = (f"misread: {each.note.text(language(state))}" for each in misreadings)
        errors = [*state["error_messages"], *missed]
    quoted_first = sorted(misreadings, key=lambda each: not each.quote)
    return Question(changes={**message_read(state), **misread_update(state, params, quoted_first)})


def _errors_of(
    reply: ReflectionReply, reading: Reading, names: Mapping[str, str], fixed: Mapping[str, str]
) -> list[Misreading]:
    """Return where a reading differs from the sentence; a question has none."""
    if reply.user_intent.needs_clarification or reply.task_type == "unclear":
        return []
    params = reply.user_intent.params.model_dump() | dict(fixed)
    text, source = sentence_text(reading.state), reading.source
    with suppress(BadOption):
        if (rule := rule_in(params)) is not None:
            params["watch"] = ",".join(filter(None, [params["watch"], *rule.watched, *rule.indices]))
    listed = {*source.symbols(), *source.names()}
    found = reading_errors(params, text, sessions=source.sessions(), names=names, listed=listed, fixed=fixed)
    if reply.task_type == "data_fetch" or not reading.resources.makes_signal:
        return found
    again = words_in_context(user_words(reading.state, source)).read
    return found + clause_errors(reading.state, params, names, _executes(reading), again)


def _read_by_planner(
    reading: Reading, prompt: str, facts: Mapping[str, Any]
) -> tuple[Reading, ReflectionReply]:
    """Return what the keyless planner reads in place of a model's echo, noted as an assumption.

    It raises ``ModelOutputInvalid`` if it cannot read the sentence whole.
    """
    context = wrap("context", json.dumps(facts, ensure_ascii=False))
    messages = [SystemMessage(context), HumanMessage(prompt)]
    reply = read_json(KeylessPlanner().invoke(messages).text, ReflectionReply)
    if reply.user_intent.needs_clarification or reply.unread:
        raise ModelOutputInvalid("the model repeated the prompt's template in place of an answer")
    line = f"{_PLANNER_READ} because the model repeated the prompt's template"
    noted = {"assumptions": [*dialogue_of(reading.state)["assumptions"], line]}
    return replace(reading, state=changed(reading.state, noted), noted=noted), reply


def _executes(reading: Reading) -> frozenset[str]:
    """Words of a plan that are executed, or that the decider's models receive with the rule."""
    executes = current_decider(reading.resources).executes
    return executes if reading.resources.makes_signal else executes | {"trade_on"}


def _facts(reading: Reading, text: str) -> dict[str, Any]:
    """Return the facts for the model: the source's span, the names of symbols in the text, and who decides."""
    source, resources = reading.source, reading.resources
    executes = _executes(reading) if resources.makes_signal else PLAN_KEYS
    sessions, listed = source.sessions(), source.symbols()
    decider = current_decider(resources)
    named = [name for name in ModelDecider.of(decider).aliases if name.casefold() in text.casefold()]
    # An index has the name of this table: a vendor's own text is not shown to a model.
    others = (code for code in source.names() if code not in listed and is_code(code))
    indices = [INDEX_NAMES.get(code, (code,))[0] for code in others]
    return {
        "source": PurePath(source.name).name,
        "synthetic": source.synthetic,
        "first_session": f"{sessions[0]:%Y%m%d}",
        "last_session": f"{sessions[-1]:%Y%m%d}",
        "names": names_of(text, source),
        **({"fields": known_indicators(source)} if speaks_of_fields(text) else {}),
        "examples": [*filter(is_code, listed[:2]), *indices[:1]],
        **({} if resources.makes_signal else {"decider": named or [decider.name]}),
        **({"asks": False} if resources.on_clarify in {"default", "fail"} else {}),
        **({} if executes >= PLAN_KEYS else {"executes": sorted(executes & PLAN_KEYS)}),
    }


def _prompt(state: SignalSubgraphState, text: str, resources: OpenResources) -> str:
    return resources.prompt("reflection", prompt_text("reflection", language(state))).format(
        data_ready=state["data_ready"],
        indicators_ready=state["indicators_ready"],
        signal_ready=state["signal_ready"],
        execution_history=escape_tags("\n".join(f"- {line}" for line in state["execution_history"])) or "-",
        error_messages=wrap("errors", "\n".join(state["error_messages"])),
        retry_count=state["retry_count"],
        max_retries=state["max_retries"],
        user_message=_message_parts(state, text),
    )


def _message_parts(state: SignalSubgraphState, text: str) -> str:
    """Return the previous request, what the user says now, and the questions with their answers."""
    last, answers = dialogue_of(state)["last_request"], answered_questions(state)
    parts = [wrap("last_request", canonical_json(last))] if last else []
    parts.append(wrap("user_request", text))
    parts += [wrap("answers", canonical_json(answers))] if answers else []
    return "\n".join(parts)


def _readiness(reading: Reading) -> Update:
    """Return what this request still needs: data, its indicators, its signal, or a check of them."""
    state, store, source = reading.state, reading.resources.store, reading.source
    request, kind = _request(reading), reading.kind if reading.reply else state["user_intent"]["type"]
    ref = restrict_to_request(store, current_ref(state, reading.resources), request, source)
    bars, indicators = has_data(store, ref, request, source)
    bars = bars and has_needed_sessions(store, ref, request)
    bars = bars and has_needed_records(store, ref, request, source, current_decider(reading.resources))
    signal = bars and indicators and has_signal(store, ref, request, strategy_of(state))
    task = "data_fetch"
    if bars and indicators:
        task = "signal_gen" if kind != "data_fetch" and not signal else "validate"
    return {
        "data_ref": ref,
        "data_ready": bars,
        "indicators_ready": bool(request["indicators"]) and indicators,
        "signal_ready": signal,
        "current_task": task,
    }
