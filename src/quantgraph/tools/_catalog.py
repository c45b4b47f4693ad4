"""The tools of agents that decide, by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from langchain_core.tools import BaseTool
from langchain_core.tools.structured import StructuredTool

from quantgraph.tools._account import (
    add,
    buy,
    get_position,
    get_positions,
    get_rules,
    multiply,
    place_order,
    sell,
)
from quantgraph.tools._context import DecisionTools, ViewContext
from quantgraph.tools._indicators import get_indicator
from quantgraph.tools._prices import get_indicators, get_kline_data, get_price_history, get_price_local
from quantgraph.tools.code._python_repl import reading_repl
from quantgraph.tools.news._tools import get_information, get_news

_READING = (get_kline_data, get_indicator, get_position, get_rules, get_news)

tools_catalog: dict[str, BaseTool] = {each.name: each for each in (*_READING, reading_repl, place_order)}
"""The tools of an agent that decides step by step."""

_TRADING = (
    get_price_local,
    get_price_history,
    get_indicators,
    get_information,
    get_positions,
    add,
    multiply,
    buy,
    sell,
)

trader_catalog: dict[str, BaseTool] = {each.name: each for each in _TRADING}
"""The tools of an agent that trades by itself."""

_LIVE = {each.name: each for each in (*_READING, *_TRADING)}

RELAYED = "relayed"
"""In the metadata of a tool: it answers as the catalog's tool of its name, called through a server."""


def live_function(tool: BaseTool, context: ViewContext) -> Callable[..., Any] | None:
    """Return the function of a tool that only uses its context; None for any other tool.

    It answers the same in a replay, so it is not recorded.
    """
    is_relayed = bool((tool.metadata or {}).get(RELAYED))
    if not isinstance(tool, StructuredTool) or not (is_relayed or _LIVE.get(tool.name) is tool):
        return None
    if tool.name == get_information.name and isinstance(context, DecisionTools) and context.news is not None:
        return None
    return tool.func


def is_in_catalog(tool: BaseTool) -> bool:
    """Whether a tool is one of this module's, which never change."""
    return any(each.get(tool.name) is tool for each in (tools_catalog, trader_catalog))
