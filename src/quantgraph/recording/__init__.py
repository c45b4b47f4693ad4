"""What a run asked of the world (models, people, data, tools), written once and served again.

A ``Recorder`` keeps recordings in a database; a ``Recording`` is one run's. An ``Entry`` has a key (path,
number, kind, digest) and a body, or an error. In a replay the same question gets the same answer and nothing
leaves the machine; a question that was not recorded is named with what changed.
A ``Budget`` limits calls, tokens and cost: they are reserved before a call and settled after it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgraph._util.lazy_names import lazy_names

if TYPE_CHECKING:
    from quantgraph.recording._budget import (
        Budget,
        Caller,
        CallEstimate,
        CallUsage,
        Reservation,
        max_tokens_of,
        no_answer_text,
    )
    from quantgraph.recording._entries import Change, Entry, Key, changes, error_json, no_network
    from quantgraph.recording._recordings import PASSING_ERRORS, Recorder, Recording
    from quantgraph.recording._source import recorded_source, unrecorded_source
    from quantgraph.recording._trajectory import Trajectory, trajectory

__all__ = [
    "PASSING_ERRORS",
    "Budget",
    "CallEstimate",
    "CallUsage",
    "Caller",
    "Change",
    "Entry",
    "Key",
    "Recorder",
    "Recording",
    "Reservation",
    "Trajectory",
    "changes",
    "error_json",
    "max_tokens_of",
    "no_answer_text",
    "no_network",
    "recorded_source",
    "trajectory",
    "unrecorded_source",
]

if not TYPE_CHECKING:  # a type checker must still find misspelt names
    __getattr__, __dir__ = lazy_names(__name__, __file__)
