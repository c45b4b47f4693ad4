"""Questions to the person, with checked answers, and the events that a graph streams."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgraph._util.lazy_names import lazy_names

if TYPE_CHECKING:
    from quantgraph.runtime.dialogue._events import (
        EventsTransformer,
        RunEvent,
        emit_orders,
        emit_proof,
        emit_reading,
        emit_session,
        update_line,
    )
    from quantgraph.runtime.dialogue._forms import QuestionForm, answer_in_text, numbered_options
    from quantgraph.runtime.dialogue._questions import (
        Answer,
        OnClarify,
        answer_schema,
        ask_question,
        assumption_update,
        check_answers_question,
        check_checkpointer,
        check_not_async,
        parse_answer,
        question_id,
    )

__all__ = [
    "Answer",
    "EventsTransformer",
    "OnClarify",
    "QuestionForm",
    "RunEvent",
    "answer_in_text",
    "answer_schema",
    "ask_question",
    "assumption_update",
    "check_answers_question",
    "check_checkpointer",
    "check_not_async",
    "emit_orders",
    "emit_proof",
    "emit_reading",
    "emit_session",
    "numbered_options",
    "parse_answer",
    "question_id",
    "update_line",
]

if not TYPE_CHECKING:  # a type checker must still find misspelt names
    __getattr__, __dir__ = lazy_names(__name__, __file__)
