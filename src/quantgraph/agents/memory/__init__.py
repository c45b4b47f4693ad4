"""What agents decided earlier, what came of it as far as it is known, and the trace of their steps."""

from quantgraph.agents.memory.decision_episode import DecisionEpisode, decision_line
from quantgraph.agents.memory.episodic_memory import HISTORY_HEADING, EpisodicMemory
from quantgraph.agents.memory.past_episodes import EpisodeMemo, episodes_of, history_texts
from quantgraph.agents.memory.pipeline_context import AgentStep, PipelineContext, traced_agent

__all__ = [
    "HISTORY_HEADING",
    "AgentStep",
    "DecisionEpisode",
    "EpisodeMemo",
    "EpisodicMemory",
    "PipelineContext",
    "decision_line",
    "episodes_of",
    "history_texts",
    "traced_agent",
]
