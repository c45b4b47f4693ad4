"""What a compiled graph of ours does otherwise than LangGraph's: its drawing, and the tool that it makes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from langchain_core.tools import BaseTool, StructuredTool
from langgraph.graph.state import CompiledStateGraph
from pydantic import BaseModel

_ABOUT = (
    "Makes a signal of a trading rule and trades it on past data. Pass the whole request in one text, in "
    "Chinese or English: which stocks, when to buy, when to sell, which dates. Returns what came of it."
)


class OwnGraph(CompiledStateGraph[Any, Any, Any, Any]):
    """A compiled graph, shown without a network; as a tool it takes the request in words."""

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        drawing = self.get_graph().draw_mermaid()
        return {"text/plain": drawing, "text/vnd.mermaid": drawing}

    def as_tool(
        self,
        args_schema: type[BaseModel] | None = None,
        *,
        name: str | None = None,
        description: str | None = None,
        arg_types: Mapping[str, type] | None = None,
    ) -> BaseTool:
        """A tool with the argument ``request``, which returns the text of the closing message.

        Its questions interrupt the agent that calls it. With ``args_schema`` or ``arg_types`` it is
        LangChain's own: the arguments are fields of the state, and the whole state comes back.
        """
        if args_schema is not None or arg_types is not None:
            types = None if arg_types is None else dict(arg_types)
            return super().as_tool(args_schema, name=name, description=description, arg_types=types)

        def ask(request: str) -> str:
            return _closing_text(self.invoke({"messages": [("user", request)]}))

        async def ask_async(request: str) -> str:
            return _closing_text(await self.ainvoke({"messages": [("user", request)]}))

        about = description or _ABOUT
        return StructuredTool.from_function(ask, ask_async, name=name or self.get_name(), description=about)


def _closing_text(state: Mapping[str, Any]) -> str:
    return str(state["messages"][-1].text)
