"""The autonomous trader: a model with tools that trades a portfolio day by day."""

from quantgraph.agents.trader.conversation import extract_conversation, extract_tool_messages
from quantgraph.agents.trader.trader_decider import TraderAgent
from quantgraph.agents.trader.trader_graph import create_trader_subgraph
from quantgraph.agents.trader.trader_options import TraderOptions
from quantgraph.agents.trader.trader_prompt import (
    STOP_SIGNAL,
    first_message,
    get_agent_system_prompt,
    get_open_prices,
    get_today_init_position,
    get_yesterday_open_and_close_price,
    result_text,
    results_text,
)
from quantgraph.agents.trader.trading_day import TraderDesk, TraderState, run_day

__all__ = [
    "STOP_SIGNAL",
    "TraderAgent",
    "TraderDesk",
    "TraderOptions",
    "TraderState",
    "create_trader_subgraph",
    "extract_conversation",
    "extract_tool_messages",
    "first_message",
    "get_agent_system_prompt",
    "get_open_prices",
    "get_today_init_position",
    "get_yesterday_open_and_close_price",
    "result_text",
    "results_text",
    "run_day",
]
