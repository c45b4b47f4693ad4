"""Other programs and their formats: MCP and AI-Trader's files. Nothing below depends on it."""
