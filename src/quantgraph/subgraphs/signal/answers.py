"""What may be answered to a question, and who is asked until the answer is one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from langgraph.types import interrupt

from quantgraph._texts import Note
from quantgraph.errors import BadOption, CheckpointerRequired
from quantgraph.recording import answer_request, keep_answer, recorded
from quantgraph.subgraphs.signal._langgraph import is_remembered
from quantgraph.subgraphs.signal.state import Clarification

__all__ = ["TRIES", "Answerer", "answer_of", "answer_schema", "check_remembered", "read_answer"]

Answerer = Callable[[Clarification], str]

TRIES = 3
"""Answers that a function may give to one question before the run ends."""


def answer_schema(question_id: str, words: Sequence[str] = ()) -> dict[str, Any]:
    """JSON schema of the answers to a question: a text, alone or beside the question's id.

    ``words`` are all there are; none stands for any text with something in it.
    """
    text: dict[str, Any] = {"type": "string", "pattern": r"\S"}
    if words:
        text = {"type": "string", "enum": list(words)}
    named = {
        "type": "object",
        "properties": {"answer": text, "id": {"const": question_id}},
        "required": ["answer"],
    }
    return {"anyOf": [text, named]}


def read_answer(task: Clarification, answer: object) -> str | Note:
    """The text of an answer, stripped; or what is wrong with it, and what would be right.

    Of a closed set the word is returned as the set has it; how it was capitalised does not matter.
    """
    words: list[str] = task["answer_schema"]["anyOf"][0].get("enum", [])
    zh = "请用文字回答" + ("：" + "、".join(words) if words else "")
    en = "answer with " + ("one of " + ", ".join(words) if words else "a text")
    text, of = (answer.get("answer"), answer.get("id")) if isinstance(answer, Mapping) else (answer, None)
    if of not in (None, task["id"]):
        return Note(
            zh=f"这是对另一个问题（{of}）的回答，当前问题是 {task['id']}；{zh}",
            en=f"this answers another question, {of}; the one asked is {task['id']}: {en}",
        )
    if not isinstance(text, str):
        kind = type(text).__name__
        also = f"{{'answer': …, 'id': '{task['id']}'}}"
        return Note(zh=f"回答不是文字（{kind}）；{zh}，或 {also}", en=f"{kind} is no text; {en}, or {also}")
    text = text.strip()
    if not text:
        return Note(zh=f"回答是空的；{zh}", en=f"the answer is empty; {en}")
    if not words:
        return text
    meant = {word.casefold(): word for word in words}.get(text.casefold())
    return meant or Note(zh=f"没有“{text}”这个选项；{zh}", en=f"{text!r} is no option; {en}")


def answer_of(task: Clarification, who: Literal["ask"] | Answerer) -> str:
    """Ask whoever reads the graph's interrupts, or a function; the answer is recorded.

    A wrong answer is asked again with ``error``, which says what was wrong. Nothing else is done again.

    Raises
    ------
    BadOption
        If a function gives :data:`TRIES` wrong answers.
    """
    if who != "ask":
        return recorded("answer", answer_request(task["id"]), lambda: _asked(task, who))
    text = _interrupted(task)
    keep_answer(task["id"], text)
    return text


def check_remembered(reason: str) -> None:
    """See that an answer can reach the graph.

    Raises
    ------
    CheckpointerRequired
        If the host has no checkpointer.
    """
    if not is_remembered():
        raise CheckpointerRequired(
            f"a question has to be asked ({reason}), and this graph has no checkpointer: compile the host "
            "with one (InMemorySaver(), SqliteSaver) and pass a thread_id, or use on_clarify='default'",
            reason=reason,
        )


def _interrupted(task: Clarification) -> str:
    asked = task
    while True:
        read = read_answer(task, interrupt(asked, response_schema=task["answer_schema"]))
        if isinstance(read, str):
            return read
        asked = {**task, "error": read.text(task["language"])}


def _asked(task: Clarification, answerer: Answerer) -> str:
    asked, fault = task.copy(), ""
    for _ in range(TRIES):
        read = read_answer(task, answerer(asked))
        if isinstance(read, str):
            return read
        asked, fault = {**task, "error": read.text(task["language"])}, read.en
    raise BadOption(f"{task['reason']} ({TRIES} answers were none; the last: {fault})")
