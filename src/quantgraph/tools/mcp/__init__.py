"""The trader's tools as MCP tools, and tools of MCP servers for our agents. Needs the extra ``mcp``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgraph._util.lazy_names import lazy_names

if TYPE_CHECKING:
    from quantgraph.tools.mcp._package import http_app, make_server, serve_stdio
    from quantgraph.tools.mcp._served import (
        CLIENT_TOOLS,
        FINISH_DAY,
        SERVICES,
        Progress,
        ServedText,
        ServedTool,
        served_tool,
    )
    from quantgraph.tools.mcp._tools import check_addresses, open_mcp_tools

__all__ = [
    "CLIENT_TOOLS",
    "FINISH_DAY",
    "SERVICES",
    "Progress",
    "ServedText",
    "ServedTool",
    "check_addresses",
    "http_app",
    "make_server",
    "open_mcp_tools",
    "serve_stdio",
    "served_tool",
]

if not TYPE_CHECKING:  # a type checker must still find misspelt names
    __getattr__, __dir__ = lazy_names(__name__, __file__)
