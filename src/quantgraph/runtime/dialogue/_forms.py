"""Questions in the form of LangChain's human-in-the-loop middleware, and answers in the forms of chat pages.

A question of the form ``hitl`` is a ``HITLRequest`` (``action_requests``, ``review_configs``), and beside it
the earlier ``HumanInterrupt`` (``action_request``, ``config``), so that agent-chat-ui and agent-inbox of any
age show it with its buttons. Answers of all forms are understood, whichever was shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Literal

from quantgraph._util.texts import Note, say
from quantgraph._util.values import short_value
from quantgraph.runtime.graph_state import Clarification

QuestionForm = Literal["quantgraph", "hitl"]
"""How a question is shown: as a ``Clarification``, or as a request of the human-in-the-loop middleware."""

_TYPES = {
    **{name: name for name in ("approve", "edit", "reject", "respond")},
    "accept": "approve",
    "ignore": "reject",
    "response": "respond",
}
"""Types of decisions, and the names that ``HumanInterrupt`` has for them."""
_ASK, _SEND = "answer_question", "send_order"
_ITEM = re.compile(r"(-|\d+\.) ")  # "1. "
_ORDER_FIELDS = ("side", "symbol", "shares", "type", "price", "reason", "refused")


def question_as(form: QuestionForm, task: Clarification) -> Mapping[str, Any]:
    """Return the value of the interrupt that asks a question.

    ``hitl`` has one action for each order of an approval, else one whose argument ``answer`` is the default.
    The argument ``id`` names the question, so that an edited action answers no other one. Pages show the
    arguments first and the description on demand, so the question is among the arguments too.
    """
    if form == "quantgraph":
        return task
    text, allowed = _markdown(task.get("error"), task["question"]), _allowed(task)
    if task["kind"] == "approval":
        name = _SEND
        actions = [
            {"name": name, "args": args, "description": text if place == 1 else args["question"]}
            for place, args in enumerate(_order_args(task), 1)
        ]
    else:
        name, text = _ASK, _markdown(text, *numbered_options(task))
        args = {"question": text, "answer": _default(task), "id": task["id"]}
        actions = [{"name": name, "args": args, "description": text}]
    accepts = {f"allow_{old}": _TYPES[old] in allowed for old in ("accept", "ignore")}
    return {
        "id": task["id"],
        "kind": task["kind"],
        "action_requests": actions,
        "review_configs": [{"action_name": name, "allowed_decisions": allowed}],
        "action_request": {"action": name, "args": {"question": text, **_buttons(task, allowed)}},
        "config": {**accepts, "allow_edit": False, "allow_respond": True},
        "description": text,
    }


def _allowed(task: Clarification) -> list[str]:
    """The decisions that a question takes."""
    if task["kind"] == "approval":
        return ["approve", "reject", "respond"]
    return [*(["approve"] if _default(task) else []), "edit", "respond", "reject"]


def _order_args(task: Clarification) -> Iterator[dict[str, Any]]:
    """Yield the arguments of each order's action: the question, and its fields that are not empty."""
    orders = task.get("orders", [])
    for place, order in enumerate(orders, 1):
        whole = task["question"] if place == 1 else f"{task['reason']} ({place}/{len(orders)})"
        fields = {field: order[field] for field in _ORDER_FIELDS if order.get(field)}
        yield {"question": _markdown(task.get("error"), whole), **fields}


def _buttons(task: Clarification, allowed: Sequence[str]) -> dict[str, str]:
    """Say what the buttons of a ``HumanInterrupt`` do; its page shows the text below each name."""
    language = task["language"]
    if task["kind"] == "approval":
        return {
            "accept": say(language, zh="发送全部订单", en="sends all of these orders"),
            "ignore": say(language, zh="一张也不发送", en="sends none of them"),
        }
    gives_up = {"ignore": say(language, zh="取消这个请求", en="gives the request up")}
    return {"accept": _default(task), **gives_up} if "approve" in allowed else gives_up


def _markdown(*texts: str | None) -> str:
    """Join texts so that Markdown keeps their lines apart and their lists together."""
    lines = [line for text in texts if text for line in text.splitlines() if line.strip()]
    parts = lines[:1]
    for before, line in pairwise(lines):
        parts += ["\n" if _ITEM.match(before) and _ITEM.match(line) else "\n\n", line]
    return "".join(parts)


def numbered_options(task: Clarification) -> list[str]:
    """Return the options of a question with the numbers that stand for them."""
    return [f"{number}. {option}" for number, option in enumerate(task["options"], start=1)]


def schema_as(form: QuestionForm, task: Clarification) -> dict[str, Any]:
    """Return the JSON schema of the answers to a question that is shown in a form."""
    if form == "quantgraph":
        return task["answer_schema"]
    types = {"enum": _allowed(task)}
    decision = {"type": "object", "properties": {"type": types}, "required": ["type"]}
    decisions = {
        "type": "object",
        "properties": {"decisions": {"type": "array", "items": decision}, "id": {"const": task["id"]}},
        "required": ["decisions"],
    }
    return {"anyOf": [decisions, *task["answer_schema"]["anyOf"]]}


def named_questions(answer: object) -> Iterator[str]:
    """Yield the ids of questions that an answer of any form names, itself, in a decision or its arguments."""
    for each in (answer, *(_decisions(answer) or ())):
        edited = _part(each, "edited_action") or _part(each, "args")
        for place in (each, edited, _part(edited, "args")):
            if isinstance(place, Mapping) and "id" in place:
                yield str(place["id"])


def answer_in_text(task: Clarification, answer: object) -> object:
    """Return what an answer says: the text that its decisions stand for, its field ``answer``, or itself.

    Decisions that cannot answer the question give a note that says what can.
    """
    found, is_named = _decisions(answer), isinstance(answer, Mapping) and "answer" in answer
    if found is None:
        return _part(answer, "answer") if is_named else answer
    if is_named:
        return Note(zh="回答有两种形式，请只用一种", en="the answer has two forms; use one")
    allowed = _allowed(task)
    types = [_TYPES.get(str(_part(each, "type"))) for each in found]
    for each, kind in zip(found, types, strict=True):
        if kind not in allowed:
            wrong = short_value(_part(each, "type") if isinstance(each, Mapping) else each)
            return Note(
                zh=f"这里不能用 {wrong}；可用 {'、'.join(allowed)}",
                en=f"{wrong} is not a decision here; use {', '.join(allowed)}",
            )
    if task["kind"] == "approval":
        whole = not isinstance(answer, Mapping) or "decisions" not in answer
        return _approval_text(task, found, [str(kind) for kind in types], for_all=whole)
    if len(found) != 1:
        return _count(1, len(found))
    return _answer_text(task, found[0], str(types[0]))


def _decisions(answer: object) -> Sequence[Any] | None:
    """The decisions of an answer: a list under ``decisions`` or alone, or one; None for another form."""
    if isinstance(answer, Mapping):
        if "decisions" in answer:
            found = answer["decisions"]
            return found if isinstance(found, list | tuple) else [found]
        return [answer] if "type" in answer else None
    if isinstance(answer, list | tuple) and answer and all(isinstance(each, Mapping) for each in answer):
        return answer
    return None


def _approval_text(
    task: Clarification, found: Sequence[Mapping[str, Any]], types: list[str], *, for_all: bool
) -> object:
    """The words of decisions about orders: one for each order, or one for all."""
    yes, no, _ = task["options"]
    count = len(task.get("orders", []))
    if "respond" in types:
        return _message(found[types.index("respond")]) if len(types) == 1 else _count(1, len(types))
    if len(types) != (1 if for_all else count):
        return _count(1 if for_all else count, len(types))
    why = "; ".join(filter(None, map(_message, found)))
    kinds = types * count if for_all else types
    chosen = [str(place) for place, kind in enumerate(kinds, 1) if kind == "approve"]
    some = f"{yes} {', '.join(chosen)}" if why or len(chosen) < count else yes
    return (some if chosen else no) + (f": {why}" if why else "")


def _answer_text(task: Clarification, decision: Mapping[str, Any], kind: str) -> object:
    """The words of a decision about a question; a rejection gives the request up, for a reason."""
    language = task["language"]
    if kind == "approve":
        return say(language, zh="默认", en="default")
    if kind == "edit":
        edited = _part(decision, "edited_action") or _part(decision, "args")
        return _part(_part(edited, "args"), "answer")
    words = _message(decision)
    if kind == "respond":
        return words
    return say(language, zh="取消", en="cancel") + (f": {words}" if words else "")


def _part(value: object, name: str) -> Any:
    """A field of a mapping; None of anything else."""
    return value.get(name) if isinstance(value, Mapping) else None


def _message(decision: Mapping[str, Any]) -> str:
    words = decision.get("message", decision.get("args"))
    return words.strip() if isinstance(words, str) else ""


def _count(wanted: int, found: int) -> Note:
    return Note(
        zh=f"需要 {wanted} 个决定，收到 {found} 个",
        en=f"the answer needs {wanted} decision{'s' if wanted > 1 else ''}, not {found}",
    )


def _default(task: Clarification) -> str:
    """What a plain yes takes: the default, the only option, or the first of a confirmation."""
    options = task["options"]
    first = options[0] if len(options) == 1 or (options and task["kind"] == "confirmation") else ""
    return task["default"] or first
