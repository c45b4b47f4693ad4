"""What a model may touch."""

from quantgraph.tools.context import CodeSession, ToolContext
from quantgraph.tools.daily_bar import tushare_daily_bar
from quantgraph.tools.daily_ind import tushare_daily_basic
from quantgraph.tools.python_repl import PythonRepl, python_repl

__all__ = [
    "CodeSession",
    "PythonRepl",
    "ToolContext",
    "python_repl",
    "tushare_daily_bar",
    "tushare_daily_basic",
]
