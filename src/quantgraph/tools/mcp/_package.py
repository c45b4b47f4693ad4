"""The only module that knows the package ``mcp`` (extra ``mcp``): servers of tools, and clients."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from importlib.metadata import version
from typing import Any, Final, TextIO, TypeVar

import anyio
import anyio.from_thread
import anyio.to_thread

from quantgraph._util.texts import language_of, without_places
from quantgraph.errors import NotConfigured, QuantGraphError, SourceUnavailable
from quantgraph.tools.mcp._served import CallHandler, ServedText, ServedTool, is_refusal

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
_INVALID_PARAMS, _INTERNAL = -32602, -32603
_MOST_THREADS = 128
T = TypeVar("T")
InThread = Callable[[Callable[[], Any]], Awaitable[Any]]


def make_server(
    handler: CallHandler,
    *,
    name: str = "quantgraph",
    only: Iterable[str] | None = None,
    instructions: str = "Trade one day at a time: get_today, then buy and sell, then finish_day.",
    texts: Sequence[ServedText] = (),
) -> Any:
    """Make a server of a handler's tools, or of some of them, and of texts."""
    served = {each: handler.tools[each] for each in (handler.tools if only is None else only)}
    listed = [_describe(tool) for tool in served.values()]
    limiter: list[anyio.CapacityLimiter] = []

    async def list_tools(_context: Any, _params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=listed)

    async def in_thread(work: Callable[[], T]) -> T:
        if not limiter:  # belongs to the loop that serves
            limiter.append(anyio.CapacityLimiter(_MOST_THREADS))
        return await anyio.to_thread.run_sync(work, abandon_on_cancel=True, limiter=limiter[0])

    async def call_tool(context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        if params.name not in served:
            known = ", ".join(served)
            raise MCPError(_INVALID_PARAMS, f"there is no tool {params.name[:60]!r}; there is {known}")

        def progress(done: int, total: int | None, line: str) -> None:
            with suppress(Exception):  # the client has left, or its call was cancelled
                anyio.from_thread.run(context.session.report_progress, done, total, line)

        answer = await in_thread(partial(handler.call, params.name, params.arguments or {}, progress))
        return _result(answer)

    return Server(
        name,
        version=version("quantgraph"),
        instructions=instructions,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        **(_resource_handlers(texts, in_thread) | _prompt_handlers(texts, in_thread) if texts else {}),
    )


def _resource_handlers(texts: Sequence[ServedText], in_thread: InThread) -> dict[str, Any]:
    """The handlers of resources: the fixed ones, the templates, and the text of one."""
    patterns = {  # "quantgraph://runs/\{run\}/report\.html"
        re.compile(re.sub(r"\\{(\w+)\\}", r"(?P<\1>[\\w.-]{1,64})", re.escape(text.address))): text
        for text in texts
    }  # "quantgraph://runs/20240102-093000-0a1b2c/report.html"

    async def list_resources(_context: Any, _params: Any) -> types.ListResourcesResult:
        fixed = [text for text in texts if not text.is_template]
        return types.ListResourcesResult(
            resources=[types.Resource(uri=text.address, **_facts(text)) for text in fixed]
        )

    async def list_templates(_context: Any, _params: Any) -> types.ListResourceTemplatesResult:
        templates = [text for text in texts if text.is_template]
        return types.ListResourceTemplatesResult(
            resource_templates=[
                types.ResourceTemplate(uri_template=text.address, **_facts(text)) for text in templates
            ]
        )

    async def read_resource(
        _context: Any, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        address = str(params.uri)
        for pattern, text in patterns.items():
            if found := pattern.fullmatch(address):
                read = await in_thread(partial(_read, text, **found.groupdict()))
                content = types.TextResourceContents(uri=address, mime_type=text.kind, text=read)
                return types.ReadResourceResult(contents=[content])
        known = ", ".join(text.address for text in texts)
        raise MCPError(_INVALID_PARAMS, f"there is no resource {address[:80]!r}; there is {known}")

    return {
        "on_list_resources": list_resources,
        "on_list_resource_templates": list_templates,
        "on_read_resource": read_resource,
    }


def _facts(text: ServedText) -> dict[str, str]:
    return {"name": text.name, "description": text.description, "mime_type": text.kind}


def _prompt_handlers(texts: Sequence[ServedText], in_thread: InThread) -> dict[str, Any]:
    """The handlers of prompts: the texts that have arguments."""
    prompts = {text.name: text for text in texts if text.arguments}

    async def list_prompts(_context: Any, _params: Any) -> types.ListPromptsResult:
        return types.ListPromptsResult(prompts=[_prompt(text) for text in prompts.values()])

    async def get_prompt(_context: Any, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        text = prompts.get(params.name)
        if text is None:
            known = ", ".join(prompts)
            raise MCPError(_INVALID_PARAMS, f"there is no prompt {params.name[:60]!r}; there is {known}")
        sent = params.arguments or {}
        values = [f"{name}: {sent[name][:10_000]}" for name in text.arguments if name in sent]
        read = await in_thread(partial(_read, text, language=language_of("\n".join(values))))
        content = types.TextContent(type="text", text="\n\n".join([read, *values]))
        message = types.PromptMessage(role="user", content=content)
        return types.GetPromptResult(description=text.description, messages=[message])

    return {"on_list_prompts": list_prompts, "on_get_prompt": get_prompt}


def _prompt(text: ServedText) -> types.Prompt:
    arguments = [
        types.PromptArgument(name=name, description=what, required=False)
        for name, what in text.arguments.items()
    ]
    return types.Prompt(name=text.name, description=text.description, arguments=arguments)


def _read(text: ServedText, **values: str) -> str:
    try:
        return text.read(**values)
    except QuantGraphError as error:
        raise MCPError(_INVALID_PARAMS, without_places(error.line)) from error
    except Exception as error:
        raise MCPError(_INTERNAL, f"{type(error).__name__} in {text.name}") from error


def _describe(tool: ServedTool) -> types.Tool:
    return types.Tool(
        name=tool.name,
        description=tool.description,
        input_schema=dict(tool.parameters),
        output_schema=dict(tool.answers),
        annotations=types.ToolAnnotations(
            read_only_hint=tool.reads,
            destructive_hint=tool.destroys and not tool.reads,
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


def http_app(server: Any, *, max_body: int = MAX_BODY) -> Any:
    """Return a server as an ASGI app at ``/mcp``, which answers only to local names and origins."""
    return server.streamable_http_app(
        json_response=True, stateless_http=True, max_request_body_size=max_body, host="127.0.0.1"
    )


_DEEPEST_MESSAGE = 150  # the parser gives up some 50 levels later, and leaves the client without an answer
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"?|[{}\[\]]')  # "{"


async def _shallow_lines(lines: TextIO) -> AsyncIterator[str]:
    """Messages with null in place of what is nested too deeply, for a tool to refuse its arguments."""
    while line := await anyio.to_thread.run_sync(lines.readline, abandon_on_cancel=True):
        yield _shallow(line) if line.count("{") + line.count("[") > _DEEPEST_MESSAGE else line


def _shallow(line: str) -> str:
    kept, begin, depth = list[str](), 0, 0
    for token in _TOKEN.finditer(line):
        opens, closes = token[0] in {"{", "["}, token[0] in {"}", "]"}
        depth += opens - closes
        if opens and depth == _DEEPEST_MESSAGE + 1:
            kept.append(line[begin : token.start()] + "null")
        elif closes and depth == _DEEPEST_MESSAGE:
            begin = token.end()
    return "".join([*kept, line[begin:]])


def serve_stdio(
    server: Any, lines_in: TextIO, lines_out: TextIO, at_end: Callable[[], None] = lambda: None
) -> threading.Thread:
    """Serve one client over two streams in a thread, until one of them ends or the process does."""
    streams: Any = (_shallow_lines(lines_in), anyio.wrap_file(lines_out))

    async def serve() -> None:
        async with stdio_server(*streams) as (read, write):
            await server.run(read, write, server.create_initialization_options())

    def work() -> None:
        try:
            anyio.run(serve)
        except* BrokenPipeError:
            pass  # the client has left
        finally:
            at_end()

    thread = threading.Thread(target=work, name="mcp stdio", daemon=True)
    thread.start()
    return thread


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
