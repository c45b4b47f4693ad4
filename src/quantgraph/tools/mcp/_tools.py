"""Tools of MCP servers for an agent: its own through a server of this process, or other servers'."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import copy_context
from functools import partial
from typing import Any, Final
from urllib.parse import urlsplit

from langchain_core.tools import BaseTool
from langchain_core.tools.structured import StructuredTool

from quantgraph.errors import BadOption, QuantGraphError, SourceUnavailable
from quantgraph.recording.scope import call_once, replaying
from quantgraph.tools._call import RELAYED, call_tool, live_function
from quantgraph.tools._context import ToolContext
from quantgraph.tools._results import refusal
from quantgraph.tools.mcp._served import SERVICES, Progress, ServedTool, parameters_of

OWN_TOOLS: Final = ("get_positions", "buy", "sell")
"""Tools that no other server may replace: the ledger would not have its trades."""
TOKEN_VARIABLE: Final = "QUANTGRAPH_MCP_TOKEN"  # noqa: S105 - the name of a variable
_REFUSED: Final = frozenset((*SERVICES["trade"], *OWN_TOOLS))
_MOST_TOOLS = 64
_TIMEOUT = 30.0


def check_addresses(addresses: Sequence[str]) -> tuple[str, ...]:
    """Return addresses of MCP servers, of which none may be twice.

    Raises
    ------
    BadOption
        If one is not an address such as ``http://127.0.0.1:19003/mcp``.
    """
    for address in addresses:
        parts = urlsplit(address) if isinstance(address, str) else None
        if parts is None or parts.scheme not in {"http", "https"} or not parts.hostname or parts.username:
            raise BadOption(
                f"tools: {address!r:.80} is not an address of an MCP server, like http://127.0.0.1:19003/mcp",
                parameter="tools",
            )
    if len(set(addresses)) != len(addresses) or not addresses:
        raise BadOption("tools must be addresses of MCP servers, each once", parameter="tools")
    return tuple(addresses)


@contextmanager
def open_mcp_tools(
    context: ToolContext, catalog: Mapping[str, BaseTool], addresses: Sequence[str] | None = None
) -> Iterator[Mapping[str, BaseTool]]:
    """Open the tools of one decision, by name, while the block runs.

    In a replay no server, loop or socket is made: own tools answer by themselves, other servers' from the
    recording.

    Parameters
    ----------
    context
        What the own tools use.
    catalog
        The own tools.
    addresses
        Servers whose reading tools are offered beside :data:`OWN_TOOLS`; tools without the annotation
        ``readOnlyHint``, and those named like a trade, are left out. The token of the environment variable
        ``QUANTGRAPH_MCP_TOKEN`` is sent to servers of this machine alone. None means the own tools, run
        through a server of this process, but for those that ask a live source.

    Raises
    ------
    SourceUnavailable
        If a server cannot be reached, or does not answer by the protocol.
    BadOption
        If an address is not valid, or two servers have a tool of one name.
    NotConfigured
        If the extra ``mcp`` is not installed.
    """
    with ExitStack() as stack:
        if addresses is None:
            yield catalog if replaying() else stack.enter_context(_own_tools(context, catalog))
        else:
            yield stack.enter_context(_tools_of(check_addresses(addresses), catalog))


@contextmanager
def _own_tools(context: ToolContext, catalog: Mapping[str, BaseTool]) -> Iterator[Mapping[str, BaseTool]]:
    from quantgraph.tools.mcp._package import call_remote, make_server, open_client

    handler = _OwnHandler(context, catalog)
    with ExitStack() as stack:
        portal, client = _open_client(stack, partial(open_client, make_server(handler)))

        def relayed(name: str, **args: Any) -> Any:
            answer = _ask(portal, call_remote, client, name, **args)
            handler.raise_error()
            return answer

        yield {
            name: StructuredTool(
                name=name,
                description=tool.description,
                args_schema=tool.tool_call_schema,
                func=partial(relayed, name),
                metadata={RELAYED: True},
            )
            if live_function(tool, context)
            else tool
            for name, tool in catalog.items()
        }


class _OwnHandler:
    """Carries calls out in this process, in the context of a decision, one after the other."""

    def __init__(self, context: ToolContext, catalog: Mapping[str, BaseTool]) -> None:
        self._context, self._catalog = context, catalog
        self._variables = copy_context()
        self._error: QuantGraphError | None = None

    @property
    def tools(self) -> Mapping[str, ServedTool]:
        return {
            name: ServedTool(name=name, description=tool.description, parameters=parameters_of(tool))
            for name, tool in self._catalog.items()
        }

    def call(self, name: str, args: Mapping[str, Any], _progress: Progress) -> Any:
        task = partial(call_tool, self._catalog[name], args, self._context, timeout=_TIMEOUT)
        try:
            return self._variables.copy().run(task)
        except QuantGraphError as error:
            self._error = error
            return refusal(error.code, error.message)

    def raise_error(self) -> None:
        """Raise the error of the last call as it was, for the agent's own handling."""
        error, self._error = self._error, None
        if error is not None:
            raise error


@contextmanager
def _tools_of(addresses: Sequence[str], catalog: Mapping[str, BaseTool]) -> Iterator[Mapping[str, BaseTool]]:
    with ExitStack() as stack:
        clients: dict[str, Any] = {}

        def client_of(address: str) -> Any:
            """Connect when the first call is made: what is recorded needs no connection."""
            if address not in clients:
                from quantgraph.tools.mcp._package import open_client

                opening = partial(open_client, address, headers=_headers(address))
                clients[address] = _open_client(stack, opening)
            return clients[address]

        tools = {name: catalog[name] for name in OWN_TOOLS}
        for address in addresses:
            for tool in call_once("tool", {"mcp_server": address}, partial(_list_tools, client_of, address)):
                name = tool["name"]
                if name in tools:
                    raise BadOption(f"tools: two servers have a tool {name!r}; give one", parameter="tools")
                tools[name] = StructuredTool(
                    name=name,
                    description=tool["description"],
                    args_schema=tool["parameters"],
                    func=partial(_call, client_of, address, name),
                )
        yield tools


def _list_tools(client_of: Callable[[str], Any], address: str) -> list[dict[str, Any]]:
    from quantgraph.tools.mcp._package import remote_tools

    portal, client = client_of(address)
    found = portal.call(remote_tools, client)
    return [each for each in found if each["reads"] and each["name"] not in _REFUSED][:_MOST_TOOLS]


def _call(client_of: Callable[[str], Any], address: str, name: str, **args: Any) -> Any:
    from quantgraph.tools.mcp._package import call_remote

    portal, client = client_of(address)
    return _ask(portal, call_remote, client, name, **args)


def _ask(portal: Any, ask: Callable[..., Any], client: Any, name: str, **args: Any) -> Any:
    return portal.call(ask, client, name, args)


def _headers(address: str) -> dict[str, str]:
    token = os.environ.get(TOKEN_VARIABLE)
    is_here = urlsplit(address).hostname in {"127.0.0.1", "localhost", "::1"}
    return {"Authorization": f"Bearer {token}"} if token and is_here else {}


def _open_client(stack: ExitStack, opening: Callable[[], Any]) -> tuple[Any, Any]:
    """Open a client in a loop of its own thread; both end with the stack."""
    from anyio.from_thread import start_blocking_portal

    portal = stack.enter_context(start_blocking_portal())
    try:
        client = stack.enter_context(portal.wrap_async_context_manager(opening()))
    except Exception as error:
        raise SourceUnavailable(f"an MCP server cannot be used: {_line(error)}") from error
    return portal, client


def _line(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
