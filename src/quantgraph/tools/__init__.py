"""The tools that models call, and the runner of trusted code.

They are imported on first use: those of the deciders that ask models load much that others do not need.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgraph._util.lazy_names import lazy_names
from quantgraph.tools.python_repl import PythonRepl, python_repl

if TYPE_CHECKING:
    from quantgraph.tools.account_tools import get_position, get_rules
    from quantgraph.tools.ask_or_decline import ask, decline
    from quantgraph.tools.calculation_check import check_calculation
    from quantgraph.tools.catalog import tools_catalog, trader_catalog
    from quantgraph.tools.checked_call import call_tool
    from quantgraph.tools.daily_data import tushare_daily_bar, tushare_daily_basic
    from quantgraph.tools.decision_tools import DecisionTools
    from quantgraph.tools.indicators import get_indicator
    from quantgraph.tools.kline import get_kline_data
    from quantgraph.tools.math_tools import add, multiply
    from quantgraph.tools.news.gate import NewsItem, NewsSource
    from quantgraph.tools.news.named_news import named_news
    from quantgraph.tools.news_tool import get_news
    from quantgraph.tools.order_tool import place_order
    from quantgraph.tools.price_tools import get_indicators, get_price_history, get_price_local
    from quantgraph.tools.search_tool import get_information
    from quantgraph.tools.tool_context import CodeSession, ToolContext, ViewContext
    from quantgraph.tools.trade_tools import buy, get_positions, sell
    from quantgraph.tools.trusted_runner import TrustedRunner, code_runner

__all__ = [
    "CodeSession",
    "DecisionTools",
    "NewsItem",
    "NewsSource",
    "PythonRepl",
    "ToolContext",
    "TrustedRunner",
    "ViewContext",
    "add",
    "ask",
    "buy",
    "call_tool",
    "check_calculation",
    "code_runner",
    "decline",
    "get_indicator",
    "get_indicators",
    "get_information",
    "get_kline_data",
    "get_news",
    "get_position",
    "get_positions",
    "get_price_history",
    "get_price_local",
    "get_rules",
    "multiply",
    "named_news",
    "place_order",
    "python_repl",
    "sell",
    "tools_catalog",
    "trader_catalog",
    "tushare_daily_bar",
    "tushare_daily_basic",
]

if not TYPE_CHECKING:  # a type checker must still find misspelt names
    __getattr__ = lazy_names(
        __name__,
        {
            "account_tools": ("get_position", "get_rules"),
            "ask_or_decline": ("ask", "decline"),
            "calculation_check": ("check_calculation",),
            "checked_call": ("call_tool",),
            "catalog": ("tools_catalog", "trader_catalog"),
            "daily_data": ("tushare_daily_bar", "tushare_daily_basic"),
            "decision_tools": ("DecisionTools",),
            "indicators": ("get_indicator",),
            "kline": ("get_kline_data",),
            "math_tools": ("add", "multiply"),
            "news.gate": ("NewsItem", "NewsSource"),
            "news.named_news": ("named_news",),
            "news_tool": ("get_news",),
            "order_tool": ("place_order",),
            "price_tools": ("get_indicators", "get_price_history", "get_price_local"),
            "search_tool": ("get_information",),
            "tool_context": ("CodeSession", "ToolContext", "ViewContext"),
            "trade_tools": ("buy", "get_positions", "sell"),
            "trusted_runner": ("TrustedRunner", "code_runner"),
        },
    )
