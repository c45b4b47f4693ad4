"""A tool of the catalog that is called another way, such as through a server of this process."""

from __future__ import annotations

from langchain_core.tools.structured import StructuredTool


class RelayedTool(StructuredTool):
    """Answers as the catalog's tool of its name, so it is not recorded either: a replay calls that one."""
