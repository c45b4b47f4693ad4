"""The data state: a thread-safe store of panels and records, like a tiny git.

A *commit* is immutable and named by its content; ``update`` makes a new one. A *view* is a commit as known at
a moment, physically cut: a decider, a tool or generated code gets nothing else. Graph state carries only
the commit's name, the *data_ref*. ``GLOBAL_DATA_STATE`` is the process's default store.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgraph._util.lazy_names import lazy_names

if TYPE_CHECKING:
    from quantgraph.state._changes import first_change
    from quantgraph.state._commits import Commit, check_stored_commits
    from quantgraph.state._data_state import (
        GLOBAL_DATA_STATE,
        DataState,
        WorkingTree,
        deciding,
        decision_moment,
    )
    from quantgraph.state._growing_view import GrowingView
    from quantgraph.state._views import BaseView, Fields, GrowingViewId, Snapshot, TrustedView, View
    from quantgraph.state.frames._records import RECORD_KINDS, Record, RecordKind

__all__ = [
    "GLOBAL_DATA_STATE",
    "RECORD_KINDS",
    "BaseView",
    "Commit",
    "DataState",
    "Fields",
    "GrowingView",
    "GrowingViewId",
    "Record",
    "RecordKind",
    "Snapshot",
    "TrustedView",
    "View",
    "WorkingTree",
    "check_stored_commits",
    "deciding",
    "decision_moment",
    "first_change",
]

if not TYPE_CHECKING:  # a type checker must still find misspelt names
    __getattr__, __dir__ = lazy_names(__name__, __file__)
