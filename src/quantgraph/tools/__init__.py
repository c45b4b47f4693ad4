"""The tools that models call, and the runner of trusted code."""

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
    "code_runner",
    "python_repl",
    "tushare_daily_bar",
    "tushare_daily_basic",
]
