"""Tools that run a model's Python cells, keep the cells that made a signal, ask or decline."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgraph._util.lazy_names import lazy_names

if TYPE_CHECKING:
    from quantgraph.tools.code._python_repl import ask, decline, python_repl
    from quantgraph.tools.code._trusted_runner import code_runner

__all__ = ["ask", "code_runner", "decline", "python_repl"]

if not TYPE_CHECKING:  # a type checker must still find misspelt names
    __getattr__, __dir__ = lazy_names(__name__, __file__)
