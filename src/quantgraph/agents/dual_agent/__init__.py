"""The dual agent: a filter chooses whose fundamentals are read, and a decision sets targets."""

from quantgraph.agents.dual_agent.agent_models import LLMClient
from quantgraph.agents.dual_agent.decision_call import (
    _decide_batch_portfolio_dual_agent,
    decide_batch_dual_agent,
    filter_stocks_needing_fundamental,
)
from quantgraph.agents.dual_agent.decision_tags import _extract_decision_tags
from quantgraph.agents.dual_agent.decision_validation import (
    _filter_hallucination_decisions,
    _validate_decision_logic,
)
from quantgraph.agents.dual_agent.dual_config import DualAgentConfig, LLMConfig
from quantgraph.agents.dual_agent.dual_decider import DualAgent
from quantgraph.agents.dual_agent.dual_graph import DualAgentState, create_dual_agent_subgraph
from quantgraph.agents.dual_agent.features import build_features
from quantgraph.agents.dual_agent.prompt_files import _load_prompt, _prompt_dir, _prompt_version

__all__ = [
    "DualAgent",
    "DualAgentConfig",
    "DualAgentState",
    "LLMClient",
    "LLMConfig",
    "_decide_batch_portfolio_dual_agent",
    "_extract_decision_tags",
    "_filter_hallucination_decisions",
    "_load_prompt",
    "_prompt_dir",
    "_prompt_version",
    "_validate_decision_logic",
    "build_features",
    "create_dual_agent_subgraph",
    "decide_batch_dual_agent",
    "filter_stocks_needing_fundamental",
]
