"""Asking once: where in a run a question is asked, and the answer that is kept or served."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgraph._util.lazy_names import lazy_names

if TYPE_CHECKING:
    from quantgraph.recording.scope._scope import (
        OWN_NAME,
        AnsweredBy,
        NumberedCall,
        Scope,
        ask_once,
        branch,
        call_once,
        current_scope,
        happened,
        in_scope,
        keep_answer,
        recorded_answer,
        replaying,
    )

__all__ = [
    "OWN_NAME",
    "AnsweredBy",
    "NumberedCall",
    "Scope",
    "ask_once",
    "branch",
    "call_once",
    "current_scope",
    "happened",
    "in_scope",
    "keep_answer",
    "recorded_answer",
    "replaying",
]

if not TYPE_CHECKING:  # a type checker must still find misspelt names
    __getattr__, __dir__ = lazy_names(__name__, __file__)
