"""How a notebook shows a compiled graph: as Mermaid text, which asks no server to draw it."""

from __future__ import annotations

from typing import Any, TypeVar, cast

from langgraph.graph.state import CompiledStateGraph

Compiled = TypeVar("Compiled", bound=CompiledStateGraph[Any, Any, Any, Any])


class _ShownOffline(CompiledStateGraph[Any, Any, Any, Any]):
    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        drawing = self.get_graph().draw_mermaid()
        return {"text/plain": drawing, "text/vnd.mermaid": drawing}


def shown_offline(graph: Compiled) -> Compiled:
    """Let a notebook show a compiled graph, and copies of it with another configuration, without a network.

    LangGraph's own display sends the graph to a server, and is a traceback without one.
    """
    graph.__class__ = cast("type[Compiled]", _ShownOffline)
    return graph
