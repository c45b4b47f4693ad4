"""What a run asked of the world, and what it was told: recorded once, served again on resume and replay.

Knows nothing of LangGraph or of models: whoever asks (a model, a tool, a source, a code process) goes through
:func:`recorded`, or records :class:`Entry` by itself, under the :class:`Scope` of the node that runs.
"""

from quantgraph.recording.answers import AnsweredBy, answer_request, ask_once, keep_answer, recorded_answer
from quantgraph.recording.budget import Budget
from quantgraph.recording.entry import Entry, Key, Kind
from quantgraph.recording.recordings import Mode, Recorder, Recording
from quantgraph.recording.scope import Scope, current_scope, in_scope, recorded, replaying

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
    "current_scope",
    "in_scope",
    "keep_answer",
    "recorded",
    "recorded_answer",
    "replaying",
]
