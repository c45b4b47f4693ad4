"""What a model may touch: tools as functions of one context, cut at its moment.

A tool is a function with a docstring, decorated as LangChain's tool; it reads its context and nothing else.
``tools_of`` knows the tools of every agent. ``call_tool`` makes every call: checked, recorded, its error a
message with a stable code. ``talib_values`` stand beside what a model calculated itself.

To add a tool: a function in the module of its kind and its name in ``_catalog``, or a package with an entry
point of the group ``quantgraph.tools``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgraph._util.lazy_names import lazy_names

if TYPE_CHECKING:
    from quantgraph.tools._call import call_tool, tools_catalog
    from quantgraph.tools._catalog import TRADES, tools_of
    from quantgraph.tools._code import code_runner
    from quantgraph.tools._context import ToolContext
    from quantgraph.tools._data import read_window, split_codes, tushare_daily_bar, tushare_daily_basic
    from quantgraph.tools._python_repl import python_repl
    from quantgraph.tools._results import refusal, shortened, with_docstring

__all__ = [
    "TRADES",
    "ToolContext",
    "call_tool",
    "code_runner",
    "python_repl",
    "read_window",
    "refusal",
    "shortened",
    "split_codes",
    "tools_catalog",
    "tools_of",
    "tushare_daily_bar",
    "tushare_daily_basic",
    "with_docstring",
]

if not TYPE_CHECKING:  # a type checker must still find misspelt names
    __getattr__, __dir__ = lazy_names(__name__, __file__)
