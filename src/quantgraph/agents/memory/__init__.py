"""What a deciding agent remembers of earlier sessions, and only what was known at the moment.

An *episode* is a decision with its reasons; its outcome is filled in when it became known. ``EpisodicMemory``
stores and finds episodes in a LangGraph store; ``EpisodeMemo`` reads them from a run's own
history. ``PipelineContext`` and ``traced_agent`` log the steps of a pipeline of agents.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgraph._util.lazy_names import lazy_names

if TYPE_CHECKING:
    from quantgraph.agents.memory._episodes import DecisionEpisode
    from quantgraph.agents.memory._memory import EpisodeMemo, EpisodicMemory, episodes_of, history_texts
    from quantgraph.agents.memory._pipeline import PipelineContext, traced_agent

__all__ = [
    "DecisionEpisode",
    "EpisodeMemo",
    "EpisodicMemory",
    "PipelineContext",
    "episodes_of",
    "history_texts",
    "traced_agent",
]

if not TYPE_CHECKING:  # a type checker must still find misspelt names
    __getattr__, __dir__ = lazy_names(__name__, __file__)
