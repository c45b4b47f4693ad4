"""The keyless planner: a chat model that reads strategy sentences by fixed rules."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgraph._util.lazy_names import lazy_names

__all__ = ["KeylessPlanner"]

if TYPE_CHECKING:
    from quantgraph.llm.planner.chat import KeylessPlanner
else:  # a type checker must still find misspelt names
    __getattr__ = lazy_names(__name__, {"chat": ("KeylessPlanner",)})
