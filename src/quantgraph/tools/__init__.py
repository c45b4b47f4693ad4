"""What a model may touch."""

from quantgraph.tools.context import CodeSession, ToolContext
from quantgraph.tools.daily_bar import tushare_daily_bar
from quantgraph.tools.daily_ind import tushare_daily_basic
from quantgraph.tools.loop_guard import LoopGuard, stopped_by
from quantgraph.tools.python_repl import PythonRepl, python_repl
from quantgraph.tools.recorded import RecordedTools
from quantgraph.tools.trusted import TrustedRunner, code_runner

__all__ = [
    "CodeSession",
    "LoopGuard",
    "PythonRepl",
    "RecordedTools",
    "ToolContext",
    "TrustedRunner",
    "code_runner",
    "python_repl",
    "stopped_by",
    "tushare_daily_bar",
    "tushare_daily_basic",
]
