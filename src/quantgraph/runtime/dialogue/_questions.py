"""Asking a question: its id, the schema of its answers, who is asked, and what is a valid answer."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Literal, TypeVar

from quantgraph._util.canonical_json import content_hash
from quantgraph._util.files import MAX_TEXT_LENGTH
from quantgraph._util.texts import Note
from quantgraph.errors import BadOption, CheckpointerRequired, UnknownQuestion
from quantgraph.recording.scope import OWN_NAME, AnsweredBy, ask_once, current_scope, keep_answer
from quantgraph.runtime._run_node import has_checkpointer, interrupt_host
from quantgraph.runtime.dialogue._forms import (
    QuestionForm,
    answer_in_text,
    named_questions,
    numbered_options,
    question_as,
    schema_as,
)
from quantgraph.runtime.graph_state import Clarification, ClarificationKind, Update, dialogue_of

Answer = Callable[[Mapping[str, Any]], str | None]
"""Given a question, its answer; None leaves it unanswered."""
AnswerFunction = Callable[[Clarification], str]
OnClarify = Literal["ask", "default", "fail"] | AnswerFunction
"""Who answers: ``ask`` interrupts the graph, ``default`` takes the default, ``fail`` ends the run."""
T = TypeVar("T")

MAX_ANSWERS = 3
"""Answers that a function may give to one question; the run ends if all are invalid."""
_SHOWN_CHARACTERS = 80
"""Characters of an invalid answer that its error shows."""
_HELP = re.compile(r"help|帮助|[?？]", re.IGNORECASE)  # "help"
ANY_TEXT = r"\S"
"""Pattern of a text that is not blank."""


def answer_schema(question_id: str, pattern: str = ANY_TEXT) -> dict[str, Any]:
    """Return the JSON schema of a question's answers: a text, alone or with the question's id.

    The text matches ``pattern``; :func:`parse_answer` ignores its case.
    """
    text = {"type": "string", "pattern": pattern, "maxLength": MAX_TEXT_LENGTH}
    named = {
        "type": "object",
        "properties": {"answer": text, "id": {"const": question_id}},
        "required": ["answer"],
    }
    return {"anyOf": [text, named]}


def parse_answer(task: Clarification, answer: object) -> str | Note:
    """Return the text of an answer, stripped; or, as a note, what is wrong with it and what is valid.

    An answer is a text, ``{"answer": text, "id": id}``, or made of decisions, see :func:`answer_in_text`.
    Lone surrogates, which no database takes, are replaced by ``?``.

    Raises
    ------
    UnknownQuestion
        If the answer names another question.
    """
    pattern: str = task["answer_schema"]["anyOf"][0]["pattern"]
    zh, en = "请用文字回答", "answer with text"
    if pattern != ANY_TEXT:
        zh = f"请回答{'、'.join(task['options'])}，或订单的编号、代码，如 1, 2"
        en = f"answer with {', '.join(task['options'])}, or numbers or symbols of orders, like 1, 2"
    text = answer_in_text(task, check_answers_question(answer, task))
    if isinstance(text, Note):
        return text
    if not isinstance(text, str):
        kind = type(text).__name__
        also = f"{{'answer': …, 'id': '{task['id']}'}}"
        return Note(
            zh=f"回答不是文字（{kind}）；{zh}，或 {also}",
            en=f"the answer must be text, not {kind}; {en}, or {also}",
        )
    if len(text) > MAX_TEXT_LENGTH:
        return Note(
            zh=f"回答有 {len(text)} 个字符，最多 {MAX_TEXT_LENGTH} 个；{zh}",
            en=f"the answer has {len(text)} characters, at most {MAX_TEXT_LENGTH} are allowed; {en}",
        )
    text = text.strip().encode(errors="replace").decode()
    if not text:
        return Note(zh=f"回答是空的；{zh}", en=f"the answer is empty; {en}")
    if task["kind"] != "approval" and (_HELP.fullmatch(text) or re.fullmatch(r"\d{1,2}", text)):  # "2"
        return _numbered(task, text)
    if not re.search(pattern, text, re.IGNORECASE):  # "yes"
        shown = text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "…"
        return Note(zh=f"没有“{shown}”这个选项；{zh}", en=f"{shown!r} is not an option; {en}")
    return text


def check_answers_question(answer: T, task: Mapping[str, Any]) -> T:
    """Return an answer that names this question, or none.

    Raises
    ------
    UnknownQuestion
        If it names another one.
    """
    named = next((each for each in named_questions(answer) if each != task["id"]), None)
    if named is not None:
        raise UnknownQuestion(
            f"the answer is for question {named}, but the open one is {task['id']}: {task['reason']}",
            question=named,
        )
    return answer


def _numbered(task: Clarification, text: str) -> str | Note:
    """Return the option of a number; what may be answered, for a call for help or another number."""
    options, is_number = task["options"], text.isdigit()
    if is_number and (not options or 1 <= int(text) <= len(options)):
        return options[int(text) - 1] if options else text
    listed = "; ".join(numbered_options(task))
    zh = f"可以回答：{listed}；也可以直接输入文字" if options else "请直接输入文字"
    en = f"answer with a number or a text: {listed}" if options else "answer with text"
    if not is_number:
        return Note(zh=f"{task['reason']}（{zh}）", en=f"{task['reason']} ({en})")
    return Note(zh=f"没有第 {text} 项；{zh}", en=f"there is no option {text}; {en}")


def ask_question(
    task: Clarification, who: Literal["ask"] | AnswerFunction, form: QuestionForm = "quantgraph"
) -> tuple[str, AnsweredBy | None]:
    """Ask by interrupting the graph (``ask``) or by calling a function; the answer is recorded.

    An interrupt shows the question in ``form``; a function gets the ``Clarification``. After an
    invalid answer the question is asked again, with ``error`` saying what was wrong.

    Returns
    -------
    tuple
        The answer, and who gave it; None for a person.

    Raises
    ------
    BadOption
        If a function gives :data:`MAX_ANSWERS` invalid answers.
    """
    if who != "ask":
        return ask_once(task["id"], lambda: _ask_function(task, who))
    text = _ask_host(task, form)
    return text, keep_answer(task["id"], text)


def check_not_async(result: T, name: str) -> T:
    """Return what the function ``name`` returned.

    Raises
    ------
    BadOption
        If it is a coroutine, which would not be awaited.
    """
    if inspect.iscoroutine(result):
        result.close()
        raise BadOption(
            f"{name} must be a plain function that returns text, not an async one", parameter=name
        )
    return result


def check_checkpointer(reason: str) -> None:
    """Check that an answer can reach the graph; ``reason`` is why a question is asked.

    Raises
    ------
    CheckpointerRequired
        If the graph has no checkpointer, neither its own nor its host's.
    """
    if not has_checkpointer():
        raise CheckpointerRequired(
            f"a question must be asked ({reason}), but this graph has no checkpointer: compile the host "
            "with one (InMemorySaver(), SqliteSaver) and pass a thread_id, or use on_clarify='default'",
            reason=reason,
        )


def _ask_host(task: Clarification, form: QuestionForm) -> str:
    shown, check = task, partial(check_answers_question, task=task)
    while True:
        answer = interrupt_host(question_as(form, shown), schema_as(form, task), check)
        read = parse_answer(task, answer)
        if isinstance(read, str):
            return read
        shown = {**task, "error": read.text(task["language"])}


def _ask_function(task: Clarification, function: AnswerFunction) -> str:
    shown, fault = task.copy(), ""
    for _ in range(MAX_ANSWERS):
        try:
            answer = check_not_async(function(shown), "on_clarify")
        except Exception as error:
            error.add_note(f"raised by on_clarify when asked: {task['reason']}")
            raise
        read = parse_answer(task, answer)
        if isinstance(read, str):
            return read
        shown, fault = {**task, "error": read.text(task["language"])}, read.en
    raise BadOption(f"{task['reason']} (on_clarify gave {MAX_ANSWERS} invalid answers; the last: {fault})")


def assumption_update(
    state: Mapping[str, Any], kind: ClarificationKind, text: str, who: AnsweredBy | None
) -> Update:
    """Return the update that notes an answer no person gave, with who gave it; empty for a person's."""
    if who is None:
        return {}
    return {"assumptions": [*dialogue_of(state)["assumptions"], f"{kind}: {text} ({who})"]}


def question_id(state: Mapping[str, Any], *content: object) -> str:
    """Return a question's id: a hash of its run, then one of the graph that asks it and its content.

    It is the same in a replay. The answer is recorded under the second part.
    """
    scope = current_scope()
    graph = scope.path.rpartition("/")[0] if scope else ""
    run, own = content_hash(str(state.get("run_id"))), content_hash("|".join(map(str, (graph, *content))))
    return run[:8] + own[:OWN_NAME]
