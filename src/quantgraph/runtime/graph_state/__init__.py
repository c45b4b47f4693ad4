"""The state that the graphs share beside the documented fields: one key, ``quantgraph``, with four groups.

``request`` is what is wanted, ``strategy`` the code of the signal, ``dialogue`` what was asked and answered,
``progress`` what was tried. Each is a TypedDict of plain JSON with its reader (``dialogue_of(state)``).
Steps return flat changes, field by field; ``written`` makes of them the update that a node returns, in which
a group that changed is there whole. The key's reducer, ``replace_groups``, takes each group as it comes, so
that a subgraph's result merged again into its host is the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgraph._util.lazy_names import lazy_names

if TYPE_CHECKING:
    from quantgraph.runtime.graph_state._groups import (
        Attempt,
        Clarification,
        ClarificationKind,
        Clause,
        DecidedMoves,
        EndedBecause,
        Groups,
        MovesTaken,
        QuestionAnswered,
        RuleWords,
        Understanding,
        Update,
        changed,
        check_messages,
        dialogue_of,
        progress_of,
        replace_groups,
        request_of,
        strategy_of,
        written,
    )

__all__ = [
    "Attempt",
    "Clarification",
    "ClarificationKind",
    "Clause",
    "DecidedMoves",
    "EndedBecause",
    "Groups",
    "MovesTaken",
    "QuestionAnswered",
    "RuleWords",
    "Understanding",
    "Update",
    "changed",
    "check_messages",
    "dialogue_of",
    "progress_of",
    "replace_groups",
    "request_of",
    "strategy_of",
    "written",
]

if not TYPE_CHECKING:  # a type checker must still find misspelt names
    __getattr__, __dir__ = lazy_names(__name__, __file__)
