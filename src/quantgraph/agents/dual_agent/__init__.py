"""The dual agent: one model picks the symbols that need fundamentals, another sets the portfolio.

``DualAgent`` decides a session as the StockBench line of agents does: features of each symbol, a filter,
target values of positions, checks of the model's reply, orders. ``decide_batch_dual_agent`` makes one
decision from plain dicts, and ``create_dual_agent_subgraph`` the same as a LangGraph graph. Prompts are files
in ``prompts/``. The names with an underscore are fixed by the document that describes the agent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgraph._util.lazy_names import lazy_names

if TYPE_CHECKING:
    from quantgraph.agents.dual_agent._calls import (
        _decide_batch_portfolio_dual_agent,
        decide_batch_dual_agent,
        filter_stocks_needing_fundamental,
    )
    from quantgraph.agents.dual_agent._decider import DualAgent
    from quantgraph.agents.dual_agent._graph import create_dual_agent_subgraph
    from quantgraph.agents.dual_agent._prompts import _load_prompt, _prompt_dir, _prompt_version
    from quantgraph.agents.dual_agent._validation import (
        _extract_decision_tags,
        _filter_hallucination_decisions,
        _validate_decision_logic,
    )

__all__ = [
    "DualAgent",
    "_decide_batch_portfolio_dual_agent",
    "_extract_decision_tags",
    "_filter_hallucination_decisions",
    "_load_prompt",
    "_prompt_dir",
    "_prompt_version",
    "_validate_decision_logic",
    "create_dual_agent_subgraph",
    "decide_batch_dual_agent",
    "filter_stocks_needing_fundamental",
]

if not TYPE_CHECKING:  # a type checker must still find misspelt names
    __getattr__, __dir__ = lazy_names(__name__, __file__)
