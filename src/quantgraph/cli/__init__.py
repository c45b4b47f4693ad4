"""The command ``quantgraph``: run, resume, replay, compare and inspect runs.

``main`` is the entry point. Each group of commands has a module; to add a command, add a function with
typer's annotations to the group it belongs to. Results go to stdout, the rest to stderr.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgraph._util.lazy_names import lazy_names

if TYPE_CHECKING:
    from quantgraph.cli._main import main

__all__ = ["main"]

if not TYPE_CHECKING:  # a type checker must still find misspelt names
    __getattr__, __dir__ = lazy_names(__name__, __file__)
