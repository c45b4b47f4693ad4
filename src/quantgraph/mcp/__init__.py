"""The tools of ``tools/`` as MCP services, and tools of such services (extra ``mcp``)."""
