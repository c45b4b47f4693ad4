"""Servers for MCP clients: research, and a run that an outside client trades day by day.

``serve_research`` serves the tools by which an assistant reads, audits, runs, compares and explains
strategies. ``start_mcp_run`` and ``resume_mcp_run`` serve one run with the trader's tools; ``McpClient`` is
the decider that waits for the client's calls and turns them into a session's orders.
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
    from quantgraph.integrations.mcp._research import serve_research
    from quantgraph.integrations.mcp._research_runs import write_script
    from quantgraph.integrations.mcp._server import ClientHandler

__all__ = [
    "SERVICE_PORTS",
    "ClientHandler",
    "McpAccess",
    "McpClient",
    "resume_mcp_run",
    "serve_research",
    "start_mcp_run",
    "write_script",
]

if not TYPE_CHECKING:  # a type checker must still find misspelt names
    __getattr__, __dir__ = lazy_names(__name__, __file__)
