"""The tools that models call, and the runner of trusted code."""

from quantgraph.tools.ask_or_decline import ask, decline
from quantgraph.tools.daily_data import tushare_daily_bar, tushare_daily_basic
from quantgraph.tools.python_repl import PythonRepl, python_repl
from quantgraph.tools.tool_context import CodeSession, ToolContext, ViewContext
from quantgraph.tools.trusted_runner import TrustedRunner, code_runner

__all__ = [
    "CodeSession",
    "PythonRepl",
    "ToolContext",
    "TrustedRunner",
    "ViewContext",
    "ask",
    "code_runner",
    "decline",
    "python_repl",
    "tushare_daily_bar",
    "tushare_daily_basic",
]
