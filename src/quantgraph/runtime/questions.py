"""What may be answered to a question, and who is asked until the answer is one."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeVar

from quantgraph._util.canonical_json import content_hash
from quantgraph._util.input_limits import MAX_TEXT_LENGTH
from quantgraph._util.texts import Note
from quantgraph.errors import BadOption, CheckpointerRequired
from quantgraph.recording import AnsweredBy, ask_once, current_scope, keep_answer
from quantgraph.recording.answers import OWN_NAME
from quantgraph.runtime.nested_graphs import has_checkpointer, interrupt_host
from quantgraph.runtime.state import Clarification, ClarificationKind, Update

__all__ = [
    "ANY_TEXT",
    "MAX_ANSWERS",
    "AnswerFunction",
    "OnClarify",
    "answer_schema",
    "ask_question",
    "assumption_update",
    "check_checkpointer",
    "check_not_async",
    "parse_answer",
    "question_id",
]

AnswerFunction = Callable[[Clarification], str]
T = TypeVar("T")

MAX_ANSWERS = 3
"""Answers that a function may give to one question before the run ends."""
SHOWN = 80
"""Characters that are shown of an answer that is none."""
ANY_TEXT = r"\S"
"""Pattern of a text with something in it."""


def answer_schema(question_id: str, pattern: str = ANY_TEXT) -> dict[str, Any]:
    """JSON schema of the answers to a question: a text, alone or beside the question's id.

    ``pattern`` is what is in the text; how it is capitalised does not matter to :func:`parse_answer`.
    """
    text = {"type": "string", "pattern": pattern, "maxLength": MAX_TEXT_LENGTH}
    named = {
        "type": "object",
        "properties": {"answer": text, "id": {"const": question_id}},
        "required": ["answer"],
    }
    return {"anyOf": [text, named]}


def parse_answer(task: Clarification, answer: object) -> str | Note:
    """The text of an answer, stripped; or what is wrong with it, and what would be right.

    Half a character, which no database takes, is a ``?``.
    """
    pattern: str = task["answer_schema"]["anyOf"][0]["pattern"]
    zh, en = "请用文字回答", "answer with a text"
    if pattern != ANY_TEXT:
        zh = f"请回答{'、'.join(task['options'])}，或订单的编号、代码，如 1, 2"
        en = f"answer with {', '.join(task['options'])}, or numbers or symbols of orders, like 1, 2"
    text = answer
    if isinstance(answer, Mapping) and "answer" in answer:
        text, of = answer["answer"], answer.get("id", task["id"])
        if of != task["id"]:
            return Note(
                zh=f"这是对另一个问题（{of}）的回答，当前问题是 {task['id']}；{zh}",
                en=f"this answers another question, {of}; the one asked is {task['id']}: {en}",
            )
    if not isinstance(text, str):
        kind = type(text).__name__
        also = f"{{'answer': …, 'id': '{task['id']}'}}"
        return Note(zh=f"回答不是文字（{kind}）；{zh}，或 {also}", en=f"{kind} is no text; {en}, or {also}")
    if len(text) > MAX_TEXT_LENGTH:
        return Note(
            zh=f"回答有 {len(text)} 个字符，最多 {MAX_TEXT_LENGTH} 个；{zh}",
            en=f"the answer has {len(text)} characters, {MAX_TEXT_LENGTH} are the most; {en}",
        )
    text = text.strip().encode(errors="replace").decode()
    if not text:
        return Note(zh=f"回答是空的；{zh}", en=f"the answer is empty; {en}")
    if not re.search(pattern, text, re.IGNORECASE):
        shown = text if len(text) <= SHOWN else text[:SHOWN] + "…"
        return Note(zh=f"没有“{shown}”这个选项；{zh}", en=f"{shown!r} is no option; {en}")
    return text


def ask_question(task: Clarification, who: Literal["ask"] | AnswerFunction) -> tuple[str, AnsweredBy | None]:
    """Ask whoever reads the graph's interrupts, or a function; the answer is recorded.

    A wrong answer is asked again with ``error``, which says what was wrong. Nothing else is done again.

    Returns
    -------
    tuple
        The answer, and who gave it; None for a person.

    Raises
    ------
    BadOption
        If a function gives :data:`MAX_ANSWERS` wrong answers.
    """
    if who != "ask":
        return ask_once(task["id"], lambda: _asked(task, who))
    text = _interrupted(task)
    return text, keep_answer(task["id"], text)


def check_not_async(said: T, name: str) -> T:
    """What a function answered.

    Raises
    ------
    BadOption
        If it is an ``async`` one: nobody here awaits it.
    """
    if inspect.iscoroutine(said):
        said.close()
        raise BadOption(
            f"{name} is an async function; a plain one is wanted that returns a text", parameter=name
        )
    return said


def check_checkpointer(reason: str) -> None:
    """See that an answer can reach the graph.

    Raises
    ------
    CheckpointerRequired
        If the host has no checkpointer.
    """
    if not has_checkpointer():
        raise CheckpointerRequired(
            f"a question has to be asked ({reason}), and this graph has no checkpointer: compile the host "
            "with one (InMemorySaver(), SqliteSaver) and pass a thread_id, or use on_clarify='default'",
            reason=reason,
        )


def _interrupted(task: Clarification) -> str:
    asked = task
    while True:
        read = parse_answer(task, interrupt_host(asked, task["answer_schema"]))
        if isinstance(read, str):
            return read
        asked = {**task, "error": read.text(task["language"])}


def _asked(task: Clarification, answerer: AnswerFunction) -> str:
    asked, fault = task.copy(), ""
    for _ in range(MAX_ANSWERS):
        try:
            said = check_not_async(answerer(asked), "on_clarify")
        except Exception as error:
            error.add_note(f"raised by on_clarify, which was asked: {task['reason']}")
            raise
        read = parse_answer(task, said)
        if isinstance(read, str):
            return read
        asked, fault = {**task, "error": read.text(task["language"])}, read.en
    raise BadOption(f"{task['reason']} ({MAX_ANSWERS} answers were none; the last: {fault})")


def assumption_update(
    state: Mapping[str, Any], kind: ClarificationKind, text: str, who: AnsweredBy | None
) -> Update:
    """An answer that no person gave is written down, with who gave it."""
    if who is None:
        return {}
    return {"assumptions": [*state.get("assumptions", []), f"{kind}: {text} ({who})"]}


def question_id(state: Mapping[str, Any], *content: object) -> str:
    """Name of a question: its run's, then its own by the graph that asks it and its content.

    It is the same in a replay; by the second part a branch of the run finds what was answered.
    """
    scope = current_scope()
    graph = scope.path.rpartition("/")[0] if scope else ""
    run, own = content_hash(str(state.get("run_id"))), content_hash("|".join(map(str, (graph, *content))))
    return run[:8] + own[:OWN_NAME]


OnClarify = Literal["ask", "default", "fail"] | AnswerFunction
