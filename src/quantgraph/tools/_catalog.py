"""The one catalogue of the tools: each agent's by name, with the module that defines it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import Final

from langchain_core.tools import BaseTool

from quantgraph._util.packages import entries, find_entry, load_entry
from quantgraph.errors import BadOption
from quantgraph.settings import Role

_GROUP = "quantgraph.tools"
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


def named_tool(name: str) -> BaseTool:
    """Return the tool that another package brings by an entry point of its name, group ``quantgraph.tools``.

    Raises
    ------
    BadOption
        If no package brings it, two do, or it is not a tool of that name.
    BadFile
        If its code fails.
    """
    entry = find_entry(_GROUP, name)
    found = load_entry(entry) if entry else None
    if isinstance(found, BaseTool) and found.name == name:
        return found
    brought = ", ".join(each.name for each in entries(_GROUP)) or "none"
    raise BadOption(
        f"tools: {name!r:.60} must be a tool, or the name of one that a package brings ({_GROUP}): {brought}",
        parameter="tools",
    )
