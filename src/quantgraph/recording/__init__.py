"""Recordings of runs: what a run asked and was answered, recorded once and served on resume and replay.

The package knows nothing of LangGraph or of models. A caller (a model, a tool, a source, a code process) uses
:func:`recorded`, or adds an :class:`Entry` itself, under the :class:`Scope` of the running node.
"""

from quantgraph.recording.answers import AnsweredBy, answer_request, ask_once, keep_answer, recorded_answer
from quantgraph.recording.budget import Budget
from quantgraph.recording.entry import Entry, Key, Kind
from quantgraph.recording.recordings import Mode, Recorder, Recording
from quantgraph.recording.scope import Scope, branch, current_scope, happened, in_scope, recorded, replaying

__all__ = [
    "AnsweredBy",
    "Budget",
    "Entry",
    "Key",
    "Kind",
    "Mode",
    "Recorder",
    "Recording",
    "Scope",
    "answer_request",
    "ask_once",
    "branch",
    "current_scope",
    "happened",
    "in_scope",
    "keep_answer",
    "recorded",
    "recorded_answer",
    "replaying",
]
