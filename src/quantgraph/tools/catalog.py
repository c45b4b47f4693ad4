"""The tools of an agent that decides step by step, by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from langchain_core.tools import BaseTool
from langchain_core.tools.structured import StructuredTool

from quantgraph.tools.account_tools import get_position, get_rules
from quantgraph.tools.indicators import get_indicator
from quantgraph.tools.kline import get_kline_data
from quantgraph.tools.news_tool import get_news
from quantgraph.tools.order_tool import place_order
from quantgraph.tools.python_repl import python_repl

__all__ = ["live_function", "tools_catalog", "trader_catalog"]

_READING = (get_kline_data, get_indicator, get_position, get_rules, get_news)

tools_catalog: dict[str, BaseTool] = {each.name: each for each in (*_READING, python_repl, place_order)}

trader_catalog: dict[str, BaseTool] = {}

_LIVE = {each.name: each for each in _READING}


def live_function(tool: BaseTool) -> Callable[..., Any] | None:
    """Return the function of a tool that only reads its context; None for any other tool.

    It answers the same in a replay, so it is not recorded. It is called without LangChain's callbacks, which
    take longer than most answers.
    """
    found = _LIVE.get(tool.name)
    return found.func if found is tool and isinstance(found, StructuredTool) else None
