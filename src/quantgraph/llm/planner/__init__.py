"""The keyless planner: a chat model that reads strategy sentences by fixed rules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from quantgraph.llm.planner.chat import KeylessPlanner

__all__ = ["KeylessPlanner"]


def __getattr__(name: str) -> Any:
    """Import the planner at first use, so that importing the package costs nothing."""
    if name != "KeylessPlanner":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from quantgraph.llm.planner.chat import KeylessPlanner

    return KeylessPlanner
