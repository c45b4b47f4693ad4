"""The keyless planner: a chat model that reads strategy sentences by fixed rules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from quantgraph.llm.planner.chat import KeylessPlanner
    from quantgraph.llm.planner.codegen import Code, write_code
    from quantgraph.llm.planner.request import ParsedRequest, RequestContext, read_request

__all__ = ["Code", "KeylessPlanner", "ParsedRequest", "RequestContext", "read_request", "write_code"]

_HOMES = {
    "Code": "codegen",
    "RequestContext": "request",
    "KeylessPlanner": "chat",
    "ParsedRequest": "request",
    "read_request": "request",
    "write_code": "codegen",
}


def __getattr__(name: str) -> Any:
    """Load a public name at first use, so that importing the package costs nothing."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
