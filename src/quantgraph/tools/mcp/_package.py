"""The only module that knows the package ``mcp`` (extra ``mcp``): servers of tools, and clients."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from importlib.metadata import version
from typing import Any, Final, TextIO, cast

import anyio
import anyio.to_thread

from quantgraph.errors import NotConfigured, SourceUnavailable
from quantgraph.tools.mcp._served import CallHandler, ServedTool, is_refusal

try:
    import mcp_types as types
    from mcp.client.client import Client
    from mcp.client.streamable_http import streamable_http_client
    from mcp.server.lowlevel import Server
    from mcp.server.stdio import stdio_server
    from mcp.shared._httpx_utils import create_mcp_http_client
    from mcp.shared.exceptions import MCPError
except ImportError as missing:
    raise NotConfigured(
        "MCP needs an extra of this package: pip install 'quantgraph[mcp]'", missing=missing.name
    ) from None


MAX_BODY: Final = 256 * 1024
"""Bytes of a request over HTTP."""
_INVALID_PARAMS = -32602
_MOST_THREADS = 128
_OBJECT = {"type": "object"}


def make_server(handler: CallHandler, *, name: str = "quantgraph", only: Iterable[str] | None = None) -> Any:
    """Make a server of a handler's tools, or of some of them."""
    served = {each: handler.tools[each] for each in (handler.tools if only is None else only)}
    listed = [_describe(tool) for tool in served.values()]
    limiter: list[anyio.CapacityLimiter] = []

    async def list_tools(_context: Any, _params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=listed)

    async def call_tool(_context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        if params.name not in served:
            known = ", ".join(served)
            raise MCPError(_INVALID_PARAMS, f"there is no tool {params.name[:60]!r}; there is {known}")
        if not limiter:  # belongs to the loop that serves
            limiter.append(anyio.CapacityLimiter(_MOST_THREADS))
        answer = await anyio.to_thread.run_sync(
            partial(handler.call, params.name, params.arguments or {}),
            abandon_on_cancel=True,
            limiter=limiter[0],
        )
        return _result(answer)

    return Server(
        name,
        version=version("quantgraph"),
        instructions="Trade one day at a time: get_today, then buy and sell, then finish_day.",
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


def _describe(tool: ServedTool) -> types.Tool:
    return types.Tool(
        name=tool.name,
        description=tool.description,
        input_schema=dict(tool.parameters),
        output_schema=_OBJECT,
        annotations=types.ToolAnnotations(
            read_only_hint=tool.reads,
            destructive_hint=not tool.reads,
            idempotent_hint=tool.repeatable,
            open_world_hint=False,
        ),
    )


def _result(answer: Any) -> types.CallToolResult:
    text = answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)
    structured = dict(answer) if isinstance(answer, Mapping) else {"result": answer}
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=text)],
        structured_content=structured,
        is_error=is_refusal(answer),
    )


def http_app(server: Any) -> Any:
    """Return a server as an ASGI app at ``/mcp``, which answers only to local names and origins."""
    return server.streamable_http_app(
        json_response=True, stateless_http=True, max_request_body_size=MAX_BODY, host="127.0.0.1"
    )


async def serve_stdio(server: Any, lines_in: TextIO, lines_out: TextIO) -> None:
    """Serve one client over two streams, until the first ends."""
    async with stdio_server(
        cast("anyio.AsyncFile[str]", anyio.wrap_file(lines_in)),
        cast("anyio.AsyncFile[str]", anyio.wrap_file(lines_out)),
    ) as (read, write):
        await server.run(read, write, server.create_initialization_options())


@asynccontextmanager
async def open_client(target: Any, *, headers: Mapping[str, str] | None = None) -> AsyncIterator[Any]:
    """Open a client of a server of this process, or of the address of one."""
    if not isinstance(target, str):
        async with Client(target) as client:
            yield client
        return
    async with (
        create_mcp_http_client(headers=dict(headers or {})) as http,
        Client(streamable_http_client(target, http_client=http), mode="legacy") as client,
    ):
        yield client


async def remote_tools(client: Any) -> list[dict[str, Any]]:
    """Return name, description, parameters and whether it reads, of each tool of a server."""
    found, cursor = [], None
    while True:
        page = await client.list_tools(cursor=cursor)
        found += [
            {
                "name": tool.name,
                "description": tool.description or "",
                "parameters": tool.input_schema,
                "reads": bool(tool.annotations and tool.annotations.read_only_hint),
            }
            for tool in page.tools
        ]
        cursor = page.next_cursor
        if not cursor:
            return found


async def call_remote(client: Any, name: str, args: Mapping[str, Any]) -> Any:
    """Return what a tool of a server answers: its structured result, or its text."""
    try:
        result = await client.call_tool(name, dict(args))
    except MCPError as error:
        raise SourceUnavailable(f"{name}: {error}", tool=name) from error
    structured = result.structured_content
    if structured is not None:
        return structured["result"] if set(structured) == {"result"} else structured
    text = "\n".join(part.text for part in result.content if part.type == "text")
    return {"error": text, "code": "tool_failed"} if result.is_error else text
