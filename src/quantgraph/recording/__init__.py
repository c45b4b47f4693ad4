"""What a run asked of the world, and what it was told: recorded once, served again on resume and replay.

Knows nothing of LangGraph or of models: whoever asks (a model, a tool, a source, a code process) goes through
:func:`recorded`, or records :class:`Entry` by itself, under the :class:`Scope` of the node that runs.
"""

from quantgraph.recording.entry import Entry, Key, Kind, canonical, digest
from quantgraph.recording.run import Mode, Recorder, Recording
from quantgraph.recording.scope import Scope, current_scope, in_scope, recorded

__all__ = [
    "Entry",
    "Key",
    "Kind",
    "Mode",
    "Recorder",
    "Recording",
    "Scope",
    "canonical",
    "current_scope",
    "digest",
    "in_scope",
    "recorded",
]
