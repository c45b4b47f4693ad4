"""How a graph ends: ``done`` or a typed reason with one line, and the errors that lead there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgraph._util.lazy_names import lazy_names

if TYPE_CHECKING:
    from quantgraph.runtime.endings._edits import check_unedited, is_edited
    from quantgraph.runtime.endings._endings import (
        DATA_ERRORS,
        FATAL_ERRORS,
        MODEL_ERRORS,
        closing_text,
        end_reason,
        end_update,
        extended_history,
        has_ended_run,
        kept_request,
        language,
        last_request,
        messages_by_request,
        only_thanks,
        request_language,
        success_update,
        thanked_update,
        user_messages,
        was_thanked,
    )

__all__ = [
    "DATA_ERRORS",
    "FATAL_ERRORS",
    "MODEL_ERRORS",
    "check_unedited",
    "closing_text",
    "end_reason",
    "end_update",
    "extended_history",
    "has_ended_run",
    "is_edited",
    "kept_request",
    "language",
    "last_request",
    "messages_by_request",
    "only_thanks",
    "request_language",
    "success_update",
    "thanked_update",
    "user_messages",
    "was_thanked",
]

if not TYPE_CHECKING:  # a type checker must still find misspelt names
    __getattr__, __dir__ = lazy_names(__name__, __file__)
