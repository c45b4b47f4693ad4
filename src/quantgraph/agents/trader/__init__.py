"""The trader: a model that works a day with tools (prices, news, positions, buy, sell) until it stops.

``TraderAgent`` is the decider; it answers the open of a session with the orders that its tools placed.
``create_trader_subgraph`` is one day of it as a LangGraph graph. Prompts are files in ``prompts/``, by
language. Tools may also come from MCP servers, see ``quantgraph.tools.mcp``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgraph._util.lazy_names import lazy_names

if TYPE_CHECKING:
    from quantgraph.agents.trader._day import TraderOptions, create_trader_subgraph
    from quantgraph.agents.trader._day_text import STOP_SIGNAL
    from quantgraph.agents.trader._decider import TraderAgent
    from quantgraph.agents.trader._prompt import (
        answer_text,
        first_message,
        get_agent_system_prompt,
        get_open_prices,
        get_today_init_position,
        get_yesterday_open_and_close_price,
    )

__all__ = [
    "STOP_SIGNAL",
    "TraderAgent",
    "TraderOptions",
    "answer_text",
    "create_trader_subgraph",
    "first_message",
    "get_agent_system_prompt",
    "get_open_prices",
    "get_today_init_position",
    "get_yesterday_open_and_close_price",
]

if not TYPE_CHECKING:  # a type checker must still find misspelt names
    __getattr__, __dir__ = lazy_names(__name__, __file__)
