"""Tools of other packages, by name."""

from __future__ import annotations

from langchain_core.tools import BaseTool

from quantgraph._util.packages import entries, find_entry, load_entry
from quantgraph.errors import BadOption

_GROUP = "quantgraph.tools"


def named_tool(name: str) -> BaseTool:
    """Return the tool that another package brings by an entry point of its name, group ``quantgraph.tools``.

    Raises
    ------
    BadOption
        If no package brings it, two do, or it is not a tool of that name.
    BadFile
        If its code fails.
    """
    entry = find_entry(_GROUP, name)
    found = load_entry(entry) if entry else None
    if isinstance(found, BaseTool) and found.name == name:
        return found
    brought = ", ".join(each.name for each in entries(_GROUP)) or "none"
    raise BadOption(
        f"tools: {name!r:.60} must be a tool, or the name of one that a package brings ({_GROUP}): {brought}",
        parameter="tools",
    )
