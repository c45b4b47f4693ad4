"""The one catalogue of the tools: each agent's by name, with the module that defines it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import Final

from langchain_core.tools import BaseTool

from quantgraph.settings import Role

_REPL, _NEWS = "_python_repl", "news._tools"
_CATALOG: Final[Mapping[Role, Mapping[str, str]]] = {
    "reflection": {"python_repl": _REPL},
    "data_fetch": {"tushare_daily_bar": "_data", "tushare_daily_basic": "_data"},
    "signal_generate": {"python_repl": _REPL, "ask": _REPL, "decline": _REPL},
    "validation": {"python_repl": _REPL},
    "execution": {
        "get_kline_data": "trading._prices",
        "get_indicator": "trading._prices",
        "get_position": "trading._account",
        "get_rules": "trading._account",
        "get_news": _NEWS,
        "reading_repl": _REPL,
        "place_order": "trading._account",
    },
    "trader": {
        "get_price_local": "trading._prices",
        "get_price_history": "trading._prices",
        "get_indicators": "trading._prices",
        "get_information": _NEWS,
        "get_positions": "trading._account",
        "add": "trading._account",
        "multiply": "trading._account",
        "buy": "trading._account",
        "sell": "trading._account",
    },
}

TRADES: Final = frozenset({"buy", "sell"})
"""Names of the tools that trade."""


@cache
def tools_of(role: Role) -> Mapping[str, BaseTool]:
    """Return the tools of an agent by name; a module is imported when an agent that has its tools is made.

    ``execution`` decides step by step; ``trader`` trades by itself, as do the clients of an MCP server.
    """
    places = _CATALOG[role].items()
    tools = [getattr(import_module(f"quantgraph.tools.{module}"), name) for name, module in places]
    return {tool.name: tool for tool in tools}
