"""The data state: a thread-safe store of panels and records with immutable commits, a tiny git."""

from quantgraph.state.commits import PANELS
from quantgraph.state.data_state import GLOBAL_DATA_STATE, DataState, WorkingTree, decided_at, deciding
from quantgraph.state.growing_view import Reading, Walk
from quantgraph.state.records import Record
from quantgraph.state.views import AsOf, Fields, Snapshot, View

__all__ = [
    "GLOBAL_DATA_STATE",
    "PANELS",
    "AsOf",
    "DataState",
    "Fields",
    "Reading",
    "Record",
    "Snapshot",
    "View",
    "Walk",
    "WorkingTree",
    "decided_at",
    "deciding",
]
