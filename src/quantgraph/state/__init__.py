"""The data state: a thread-safe store of panels and records with immutable commits, a tiny git."""

from quantgraph.state.commits import PANELS
from quantgraph.state.data_state import GLOBAL_DATA_STATE, DataState, WorkingTree, deciding, decision_moment
from quantgraph.state.growing_view import GrowingView
from quantgraph.state.records import Record
from quantgraph.state.views import BaseView, Fields, Snapshot, TrustedView, View

__all__ = [
    "GLOBAL_DATA_STATE",
    "PANELS",
    "BaseView",
    "DataState",
    "Fields",
    "GrowingView",
    "Record",
    "Snapshot",
    "TrustedView",
    "View",
    "WorkingTree",
    "deciding",
    "decision_moment",
]
