"""Where a trader's tools are called: in this process, through its own MCP server, or at other servers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal

from langchain_core.tools import BaseTool

from quantgraph.errors import BadOption
from quantgraph.mcp.mcp_tools import check_addresses, open_mcp_tools
from quantgraph.tools.catalog import trader_catalog
from quantgraph.tools.decision_tools import DecisionTools

Toolset = Literal["local", "mcp"] | Sequence[str]
"""``local``, ``mcp``, or addresses of MCP servers."""


def check_toolset(tools: Any, *, allow_leaky_tools: bool) -> Literal["local", "mcp"] | tuple[str, ...]:
    """Return where tools are called.

    Raises
    ------
    BadOption
        If it is neither of the names nor addresses, or other servers are not allowed: what they answer is
        not cut at the simulated moment.
    """
    if tools in ("local", "mcp"):
        return tools  # type: ignore[no-any-return]
    if isinstance(tools, str) or not isinstance(tools, Sequence):
        raise BadOption(
            f"tools={tools!r:.80}; must be 'local', 'mcp', or addresses like ['http://127.0.0.1:19003/mcp']",
            parameter="tools",
        )
    addresses = check_addresses(tools)
    if not allow_leaky_tools:
        raise BadOption(
            "tools at other servers answer as of today, not as of the simulated day; pass "
            "allow_leaky_tools=True to take that",
            parameter="allow_leaky_tools",
        )
    return addresses


@contextmanager
def open_toolset(
    tools: Literal["local", "mcp"] | tuple[str, ...], context: DecisionTools
) -> Iterator[Mapping[str, BaseTool]]:
    """Lend a day's tools by name, while its session is decided.

    Raises
    ------
    NotConfigured
        If the extra ``mcp`` is needed and not installed.
    SourceUnavailable
        If a server cannot be reached.
    """
    if tools == "local":
        yield trader_catalog
        return
    with open_mcp_tools(context, trader_catalog, None if tools == "mcp" else tools) as opened:
        yield opened
