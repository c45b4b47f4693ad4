"""A run served over MCP: an outside client trades it day by day with the trader's tools.

``start_mcp_run`` and ``resume_mcp_run`` serve over stdio or HTTP; ``McpClient`` is the decider that waits for
the client's calls and turns them into a session's orders.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgraph._util.lazy_names import lazy_names

if TYPE_CHECKING:
    from quantgraph.integrations.mcp._client_decider import (
        SERVICE_PORTS,
        McpAccess,
        McpClient,
        resume_mcp_run,
        start_mcp_run,
    )
    from quantgraph.integrations.mcp._server import ClientHandler

__all__ = ["SERVICE_PORTS", "ClientHandler", "McpAccess", "McpClient", "resume_mcp_run", "start_mcp_run"]

if not TYPE_CHECKING:  # a type checker must still find misspelt names
    __getattr__, __dir__ = lazy_names(__name__, __file__)
