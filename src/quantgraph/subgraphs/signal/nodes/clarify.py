"""Clarify: prepare a question in one step, ask it in the next.

Code before ``interrupt()`` runs again when the run is resumed. So the question is prepared in a step of its
own, where a model words it if it is not a question yet, and the step that asks does nothing else: the
question answered is the question asked.
"""

from __future__ import annotations

import json
import re
from typing import Any, cast

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage

from quantgraph._util.texts import say
from quantgraph.data.symbols import names_in
from quantgraph.errors import BadOption
from quantgraph.llm.messages import escape_tags, wrap
from quantgraph.recording.scope import AnsweredBy, keep_answer
from quantgraph.runtime import OpenResources, Resources, open_resources
from quantgraph.runtime.dialogue import ask_question, assumption_update, check_checkpointer
from quantgraph.runtime.endings import MODEL_ERRORS, end_update, success_update
from quantgraph.runtime.graph_state import (
    Clarification,
    Clause,
    Understanding,
    Update,
    dialogue_of,
    progress_of,
    request_of,
    strategy_of,
    written,
)
from quantgraph.sentences.phrases import says_a_rule, says_nothing, says_parameters, symbols_in
from quantgraph.subgraphs.signal._agents import build_clarify_model, current_ref, is_json, known_source
from quantgraph.subgraphs.signal._attempts import answered_attempts
from quantgraph.subgraphs.signal._coding import failed_update, open_fault
from quantgraph.subgraphs.signal._source_facts import (
    bars_answer_update,
    bars_decision,
    moves_answer,
    moves_hint,
    with_decided_actions,
)
from quantgraph.subgraphs.signal._updates import (
    answer_update,
    default_answer,
    failure_reason,
    is_cancel,
    is_default,
    is_refusal,
    is_waiver,
    open_lines,
    question_update,
    read_messages,
    sentence_text,
    typical_answers,
    without_words,
)
from quantgraph.subgraphs.signal.state import SignalSubgraphState
from quantgraph.subgraphs.signal.understanding import understanding_hash

CLARIFY_NODE_PROMPT = """\
You ask the user for the one thing that keeps a strategy run from going on. 你负责向用户提出一个澄清问题。

Why 原因: {clarification_reason}
Questions asked before 已提问次数: {clarification_count}
Done so far 已执行:
{execution_history}
Errors 错误:
{error_messages}
The conversation 对话:
{chat_history}

Write the question itself and nothing else, in the user's language, friendly and short. 只输出问题本身，使用用户的语言。
- Ask one thing: the code before the window, the window before the rule. 一次只问一件事。
- Say why it is needed, and give two or three examples of a good answer, such as 600519.SH or 上证50; 20240101-20241231
  or 最近一年; "buy when the 5-day average crosses above the 20-day average". 说明原因并举例。
- Do not ask for what the conversation already says. 不要重复询问已经给出的信息。"""


_By = AnsweredBy | None
"""Who answered; None is a person."""


def clarify_node(
    state: SignalSubgraphState, *, resources: Resources | None = None, model: BaseChatModel | None = None
) -> dict[str, Any]:
    """Prepare the question in the first turn; ask it and take the answer in the second.

    Raises
    ------
    CheckpointerRequired
        If the host has no checkpointer, without which no answer can come.
    """
    if state.get("messages"):
        state = {**state, "messages": read_messages(state["messages"])}
    return written(state, _clarify(state, open_resources(resources), model))


def _clarify(state: SignalSubgraphState, resources: OpenResources, model: BaseChatModel | None) -> Update:
    task = dialogue_of(state)["clarification"]
    if not task:
        # A route leads here when attempts failed too often and no node gave a reason.
        reason = state.get("clarification_needed") or "; ".join(state.get("error_messages", [])) or "?"
        made = question_update(state, "failure", reason)
        if made.get("ended_because"):
            return made
        task = cast("Clarification", made["clarification"])
    if resources.on_clarify in ("default", "fail") or _is_settled(task, resources):
        return _take_default(state, task, resources)
    if not task["question"]:
        return _prepare(state, task, resources, model)
    if task.get("error") and resources.asks_a_page and not _is_last_message(state, task):
        return {"messages": [AIMessage(task["question"])], "clarification": task, "current_task": "clarify"}
    return _ask(state, task, resources)


def _prepare(
    state: SignalSubgraphState, task: Clarification, resources: OpenResources, model: BaseChatModel | None
) -> dict[str, Any]:
    task = task.copy()
    task["default"] = _default(state, task, resources)
    if resources.on_clarify == "ask":
        check_checkpointer(task["reason"])
    worded = task.pop("worded", "")
    if not task["options"] and worded != "model" and not _is_about_a_rule(state, task):
        task["options"] = typical_answers(task["kind"], task["language"], known_source(state, resources))
    try:
        text = task["reason"] if worded else _ask_model(state, task, resources, model)
    except MODEL_ERRORS as error:
        return end_update(state, "model_unavailable", error)
    task["question"] = text + open_lines(task.pop("also_open", []), task["language"]) + _default_hint(task)
    prepared = {"clarification": task, "clarification_needed": task["reason"], "current_task": "clarify"}
    return prepared | ({"messages": [AIMessage(task["question"])]} if resources.asks_a_page else {})


def _is_last_message(state: SignalSubgraphState, task: Clarification) -> bool:
    last = state["messages"][-1] if state["messages"] else None
    return isinstance(last, AIMessage) and last.text == (task["question"] or task["reason"])


def _ask_model(
    state: SignalSubgraphState, task: Clarification, resources: OpenResources, model: BaseChatModel | None
) -> str:
    """Let the model word the question."""
    count = state.get("clarification_count", 0)
    prompt = resources.prompt("clarify", CLARIFY_NODE_PROMPT).format(
        clarification_reason=task["reason"],
        clarification_count=count,
        execution_history=escape_tags("\n".join(state.get("execution_history", []))) or "-",
        error_messages=escape_tags("\n".join(state.get("error_messages", []))) or "-",
        chat_history=escape_tags(
            "\n".join(f"{message.type}: {message.text}" for message in state["messages"][-5:])
        ),
    )
    facts = {"reason": task["reason"], "kind": task["kind"], "language": task["language"], "round": count + 1}
    messages = [("system", wrap("clarify", json.dumps(facts, ensure_ascii=False))), ("human", prompt)]
    model = model or build_clarify_model(resources)
    text = str(model.invoke(messages).text).strip()
    return task["reason"] if not text or is_json(text) else text


def _default(state: SignalSubgraphState, task: Clarification, resources: OpenResources) -> str | None:
    """Return the default for the question's part; with the last question, for all parts still unknown.

    A rule that the user gave has none: a default never takes its place.
    """
    if says_nothing(sentence_text(state)):  # there is no request
        return None
    if _is_about_a_rule(state, task) or (task["kind"] == "strategy" and _has_vague_rule(state, resources)):
        return None
    if task["kind"] == "bars":  # the symbols are left out, if others stay
        return task["options"][0] if len(task["options"]) > 2 else None
    if task["kind"] == "moves":
        return moves_answer(state, task, resources.settings.tables.unexplained)
    if task["kind"] == "fields":  # only the unknown fields are waived
        return without_words(task["unread"], task["language"])
    one_of_several = task["kind"] == "window" and bool(task["unread"]) and task["unread"] == task["options"]
    if one_of_several or task["kind"] in ("plan", "confirmation"):
        return None
    source = known_source(state, resources)
    symbols = symbols_in(sentence_text(state), names_in(sentence_text(state), source))
    if task["rounds_left"] > 0:
        of_stocks = task["kind"] == "symbol" and symbols  # all stocks are not what was meant
        return None if of_stocks else default_answer(task["kind"], task["language"], source)
    known = [] if resources.makes_signal else ["strategy"]
    if task["kind"] != "failure":  # after a failure the plan replaces the whole request
        params = state.get("user_intent", {}).get("params", {})
        fields = {
            "symbol": ("ts_code",),
            "window": ("start_date", "end_date"),
            "strategy": ("strategy_desc",),
        }
        known += [part for part, names in fields.items() if all(params.get(name) for name in names)]
    return default_answer(task["kind"], task["language"], source, symbols=symbols, plan_without=known)


def _has_vague_rule(state: SignalSubgraphState, resources: OpenResources) -> bool:
    """Whether the sentence has a rule that the reading lacks, such as one that is vague."""
    text = sentence_text(state)
    return says_a_rule(text, names_in(text, known_source(state, resources)))


def _is_about_a_rule(state: SignalSubgraphState, task: Clarification) -> bool:
    """Whether it is asked how a rule is meant that the user gave."""
    params = state.get("user_intent", {}).get("params", {})
    return task["kind"] == "strategy" and bool(params.get("strategy_desc") or task["unread"])


def _default_hint(task: Clarification) -> str:
    if not task["default"]:
        return ""
    return say(
        task["language"],
        zh=f"\n（回复“默认”即采用：{task['default']}）",
        en=f'\n(Answer "default" to take: {task["default"]})',
    )


def _is_settled(task: Clarification, resources: OpenResources) -> bool:
    """Whether a setting answers the question."""
    return task["kind"] == "moves" and resources.settings.tables.unexplained not in {None, "ask"}


def _take_default(
    state: SignalSubgraphState, task: Clarification, resources: OpenResources
) -> dict[str, Any]:
    """Take the default, but not in place of words that were not understood."""
    default = _default(state, task, resources)
    if task["kind"] == "failure" and (resources.on_clarify == "fail" or not default):
        return end_update(state, failure_reason(state))
    fails = resources.on_clarify == "fail" and not _is_settled(task, resources)
    if fails or task["unread"] or not default:
        options = task["options"] or typical_answers(
            task["kind"], task["language"], known_source(state, resources)
        )
        unanswered: Clarification = {**task, "options": options, "default": default}
        whole = task["reason"] + open_lines(unanswered.pop("also_open", []), task["language"])
        whole += moves_hint(task["language"]) if task["kind"] == "moves" else ""
        ended = end_update(state, "needs_answer", "needs_answer: " + whole.replace("\n", " "))
        return {**ended, "open_question": unanswered}
    keep_answer(task["id"], default, "default")
    if task["kind"] in ("bars", "moves"):
        return _bars_update(state, task, default, "default", resources)
    return _answer_update(state, task, default, "default", resources)


def _ask(state: SignalSubgraphState, task: Clarification, resources: OpenResources) -> dict[str, Any]:
    try:
        answerer = cast("Any", resources.on_clarify)
        text, who = ask_question(task, answerer, resources.questions)
    except BadOption as error:
        ended = end_update(state, "needs_answer", f"needs_answer: {error.message}")
        return {**ended, "open_question": task}
    text = _accepted_answer(task, text)
    if task["kind"] in ("bars", "moves"):
        return _bars_update(state, task, text, who, resources)
    if task["kind"] == "confirmation":
        return _confirmation_update(state, task, text, who, resources)
    if task["kind"] == "meaning":
        return _fault_update(state, task, text, who, resources)
    declined = task["kind"] == "plan" and is_refusal(text)
    if is_cancel(text) or (declined and not is_waiver(text, task["unread"], task["language"])):
        return end_update(state, "cancelled", f"cancelled: {text}")
    return _answer_update(state, task, text, who, resources)


def _accepted_answer(task: Clarification, text: str) -> str:
    """What a plain yes takes: the default, or the only option of a question without one."""
    if not is_default(text):
        return text
    only = task["options"][0] if len(task["options"]) == 1 else text
    return task["default"] or only


def _bars_update(
    state: SignalSubgraphState, task: Clarification, text: str, who: _By, resources: OpenResources
) -> dict[str, Any]:
    """The update after a decision about suspect bars; other words change the request."""
    taken = bars_decision(task, text)
    if taken == "stop":
        return end_update(state, "cancelled", "cancelled: the bars were declined")
    answered = _answer_update(state, task, text, who, resources)
    if taken is None:
        return answered
    decided = bars_answer_update(
        state, task, known_source(state, resources), taken=taken, by_default=who == "default"
    )
    if taken == "action":
        ref = current_ref(state, resources)
        decided["data_ref"] = with_decided_actions(resources.store, ref, decided["moves"])
    return {**answered, **decided, "reflected_on": answered["messages"][-1].id, "answering": None}


def _fault_update(
    state: SignalSubgraphState, task: Clarification, text: str, who: _By, resources: OpenResources
) -> dict[str, Any]:
    """The update after a decision about code that departs from the sentence; other words go to its model.

    Code of the caller's has none: other words stop it.
    """
    go_on, *_, stop = task["options"]
    fault, agrees = open_fault(progress_of(state)["validation"]), _agrees(text, go_on)
    unheard = request_of(state)["own"] is not None and not agrees
    if fault is not None and (text == stop or is_refusal(text) or unheard):
        return failed_update(state, fault)
    answered = _answer_update(state, task, text, who, resources)
    message = str(answered["messages"][-1].id)
    if agrees:
        accepted = strategy_of(state)["code_hash"]
        return {**answered, "accepted_code": accepted, "reflected_on": message, "answering": None}
    again = {**answered, "signal_ready": False, "strategy": {}}
    if answered.get("reflected_on") == message:  # advice on the code is not part of the rule
        again["ignored_message_ids"] = [*dialogue_of(state)["ignored_message_ids"], message]
    return again


_GO_ON = re.compile(r"是的?|对|继续|(?:yes,? ?)?(?:go (?:on|ahead)|continue)", re.IGNORECASE)  # "继续"


def _agrees(text: str, option: str) -> bool:
    """Whether an answer takes an option that goes on, in its words or in plain ones."""
    plain = text.strip(" .。!！")
    return plain.casefold() == option.casefold() or is_default(text) or _GO_ON.fullmatch(plain) is not None


def _confirmation_update(
    state: SignalSubgraphState, task: Clarification, text: str, who: _By, resources: OpenResources
) -> dict[str, Any]:
    """Return the update after the user has seen the understanding; other words than yes and no change it."""
    agreed, declined = task["options"]
    if text == agreed or is_default(text):
        history = success_update(state, f"confirmed: {text}")
        done = {"clarification": None, "clarification_needed": None, "current_task": "reflection"}
        noted = assumption_update(state, task["kind"], text, who)
        return {
            "confirmed": understanding_hash(request_of(state)["understanding"]),
            **done,
            **history,
            **noted,
        }
    if text == declined or is_refusal(text):
        return end_update(state, "cancelled", "cancelled: the understanding was declined")
    return _answer_update(state, task, text, who, resources)


def _answer_update(
    state: SignalSubgraphState, task: Clarification, text: str, who: _By, resources: OpenResources
) -> dict[str, Any]:
    """Return the update of an answer."""
    answer = HumanMessage(text, id=f"answer-{task['id']}")
    straight = _about_code(state, task, text, resources)
    asked = [] if _is_last_message(state, task) else [AIMessage(task["question"] or task["reason"])]
    return {
        "messages": [*asked, answer],
        "current_task": "reflection",
        **answer_update(state, task, text, message=str(answer.id), by=who or "person"),
        **assumption_update(state, task["kind"], text, who),
        **({"reflected_on": answer.id, "answering": None, **_heard(state, task, text)} if straight else {}),
    }


def _about_code(state: SignalSubgraphState, task: Clarification, text: str, resources: OpenResources) -> bool:
    """Whether an answer is to the generation's question and names no parameter, so needs no new reading.

    An answer about such code may be another rule: one with a number is read.
    """
    if task["kind"] == "meaning" and any(map(str.isdigit, text)):
        return False
    if not answered_attempts(progress_of(state)["attempts"], task["reason"], text):
        return False
    source = known_source(state, resources)
    return not says_parameters(text, names_in(text, source), f"{source.sessions()[-1]:%Y%m%d}")


def _heard(state: SignalSubgraphState, task: Clarification, text: str) -> dict[str, Any]:
    """Return the update of the understanding with an answer; one that was confirmed stays so."""
    before = request_of(state)["understanding"]
    if not before:
        return {}
    clause: Clause = {"words": text, "became": task["reason"], "status": "done"}
    after: Understanding = {**before, "clauses": [*before["clauses"], clause]}
    confirmed = dialogue_of(state)["confirmed"] == understanding_hash(before)
    return {"understanding": after, **({"confirmed": understanding_hash(after)} if confirmed else {})}
