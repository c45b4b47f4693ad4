"""A run that a client of an MCP server trades: its decider, call by call, and the servers beside it."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Final, TextIO

from langgraph.runtime import RunControl
from typing_extensions import TypedDict

from quantgraph._util.canonical_json import canonical_json
from quantgraph.agents.loop import ModelLoop
from quantgraph.broker import DataNeeds, Decision, DecisionContext, ModelDecider, SessionResult
from quantgraph.broker.ledger import LoggedStep
from quantgraph.errors import BadOption, NotConfigured, QuantGraphError
from quantgraph.integrations.mcp._server import ClientHandler
from quantgraph.llm import current_run_control, drain_error
from quantgraph.recording.scope import call_once
from quantgraph.runs import RunResult, RunSpec, prepare_run, resume_run, start_run
from quantgraph.runtime import Resources
from quantgraph.runtime.dialogue import RunEvent
from quantgraph.runtime.endings import FATAL_ERRORS
from quantgraph.tools import TRADES, ToolContext, call_tool, refusal, shortened, tools_of
from quantgraph.tools.mcp import FINISH_DAY, SERVICES, served_tool
from quantgraph.tools.trading import MOST_SYMBOLS

MOST_CALLS: Final = 2_000
"""Calls in one day; then it can only be finished."""
MOST_ORDERS: Final = 500
"""Order ids in one day."""

_NOTES = "mcp_client"
_LONGEST_ID, _LONGEST_TEXT, _LONGEST_ANSWER = 64, 10_000, 12_000
_TIMEOUT = 30.0


class ClientDay:
    """Carries the calls of one day out. The same calls in the same order have the same answers."""

    def __init__(
        self, *, tools: ToolContext, rule: str, sessions: Callable[[], Sequence[SessionResult]]
    ) -> None:
        self.date = f"{tools.moment.session:%Y-%m-%d}"
        self.finished = False
        self._tools, self._rule, self._sessions = tools, rule, sessions
        self._calls = 0
        self._orders: dict[str, dict[str, Any]] = {}
        self._text, self._request_id = "", ""

    @property
    def committed(self) -> dict[str, Any]:
        """What ``finish_day`` answers of this day."""
        return {"committed": self.date}

    @property
    def notes(self) -> dict[str, Any]:
        """What the ledger keeps of the day: with each order id its order and its answer."""
        own = {"calls": self._calls, "text": self._text, "orders": self._orders}
        return {_NOTES: own | ({"request_id": self._request_id} if self._request_id else {})}

    def answer(self, name: str, args: Mapping[str, Any]) -> Any:
        """Return what a call answers, a JSON value; an error that the client can answer is one, too."""
        self._calls += 1
        try:
            if name == FINISH_DAY:
                return self._finish(**_check_args(name, args))
            if self._calls > MOST_CALLS:
                raise BadOption(f"{MOST_CALLS:,} calls were made today, and no more are; call {FINISH_DAY}")
            if name == "get_today":
                _check_args(name, args)
                return self._today()
            return self._trade(name, args) if name in TRADES else self._ask(name, args)
        except FATAL_ERRORS:
            raise
        except QuantGraphError as error:
            return refusal(error.code, error.message)

    def _ask(self, name: str, args: Mapping[str, Any]) -> Any:
        return shortened(
            call_tool(tools_of("trader")[name], args, self._tools, timeout=_TIMEOUT), _LONGEST_ANSWER
        )

    def _trade(self, name: str, args: Mapping[str, Any]) -> Any:
        own = dict(args)
        order_id = _id("order_id", own.pop("order_id", None))
        order = {"side": name, **own}
        if before := self._known(order_id):
            if canonical_json(before["order"]) != canonical_json(order):
                return refusal(
                    "ledger_conflict",
                    f"order_id={order_id!r} was used by another order; each order needs an id of its own",
                    order=before["order"],
                    date=before["date"],
                )
            return before["answer"]
        if len(self._orders) >= MOST_ORDERS:
            raise BadOption(f"{MOST_ORDERS} orders were sent today, and no more are; call {FINISH_DAY}")
        session = self._tools.session
        submitted = len(session.submitted)
        answer = self._ask(name, own)
        if len(session.submitted) == submitted:
            return answer  # it did not come to an order: the id is free
        self._orders[order_id] = {"order": order, "answer": answer}
        return answer

    def _known(self, order_id: str) -> dict[str, Any] | None:
        """Return the outcome of an order id, today or earlier in the run."""
        if order_id in self._orders:
            return {**self._orders[order_id], "date": self.date}
        for result in reversed(self._sessions()):
            kept = result.notes.get(_NOTES, {}).get("orders", {})
            if order_id in kept:
                return {**kept[order_id], "date": f"{result.session:%Y-%m-%d}"}
        return None

    def _finish(self, notes: Any = "", request_id: Any = None) -> Any:
        if not isinstance(notes, str) or len(notes) > _LONGEST_TEXT:
            raise BadOption(
                f"notes must be a text of at most {_LONGEST_TEXT:,} characters", parameter="notes"
            )
        if request_id is not None:
            wanted = _id("request_id", request_id)
            sessions = self._sessions()
            for place, result in enumerate(sessions):
                if result.notes.get(_NOTES, {}).get("request_id") == wanted:
                    following = [f"{each.session:%Y-%m-%d}" for each in sessions[place + 1 : place + 2]]
                    return {
                        "committed": f"{result.session:%Y-%m-%d}",
                        "next": following[0] if following else self.date,
                    }
            self._request_id = wanted
        self._text, self.finished = notes, True
        return self.committed

    def _today(self) -> dict[str, Any]:
        symbols = self._tools.symbols
        return {
            "date": self.date,
            "rule": self._rule,
            "positions": self._ask("get_positions", {}),
            "symbols": list(symbols[:MOST_SYMBOLS]),
            "symbol_count": len(symbols),
            "order_ids": list(self._orders),
        }


def _check_args(name: str, args: Mapping[str, Any]) -> Mapping[str, Any]:
    valid = served_tool(name).parameters["properties"]
    for parameter in args:
        if parameter not in valid:
            listed = f"valid are {', '.join(valid)}" if valid else "it has none"
            raise BadOption(f"{name} has no parameter {parameter[:60]!r}; {listed}", parameter=parameter[:60])
    return args


def _id(name: str, value: object) -> str:
    if isinstance(value, str) and 1 <= len(value) <= _LONGEST_ID and value.isprintable():
        return value
    raise BadOption(
        f"{name}={value!r:.80}; must be a text of 1 to {_LONGEST_ID} printable characters", parameter=name
    )


class _ClientState(TypedDict, total=False):
    number: int
    call: dict[str, Any] | None
    answer: Any
    finished: bool


@dataclass(frozen=True, kw_only=True)
class _ClientLoop(ModelLoop[_ClientState]):
    """A day: the client calls a tool and is answered, until it finishes the day."""

    day: ClientDay
    decision: DecisionContext
    handler: ClientHandler | None
    end_key: ClassVar[str] = "finished"
    action_key: ClassVar[str] = "call"

    def think(self, state: _ClientState) -> _ClientState:
        """Wait for the client's next call, or take it from the record."""
        number = state.get("number", 0) + 1
        return {"number": number, "call": call_once("tool", {"client": number}, self._next_call)}

    def act(self, state: _ClientState) -> _ClientState:
        """Carry the call out."""
        call = state["call"] or {}
        return {"answer": self.day.answer(call["tool"], call["args"])}

    def observe(self, state: _ClientState) -> _ClientState:
        """Keep the call with its answer, and answer the client; ``finish_day`` when the next day begins."""
        self.decision.log_step(_step(self.decision, state["number"], state["call"] or {}, state["answer"]))
        if self.handler is not None and not self.day.finished:
            self.handler.answer(state["answer"])
        return {"call": None, "finished": self.day.finished}

    def _next_call(self) -> dict[str, Any]:
        if self.handler is None:
            raise NotConfigured(
                "the decisions of this run come from an MCP client; 'quantgraph mcp trade RUN' goes on with "
                "it"
            )
        return self.handler.next_call(partial(_check_stop, current_run_control()))


_SESSIONS = 260
"""A year, and what the slowest usual indicators need before they are stable."""


class McpClient(ModelDecider):
    """A program outside of the run trades its portfolio, by the tools of an MCP server.

    Each call is recorded before it is carried out, so a run that was killed goes on at the next call, and a
    replay needs no client. ``buy`` and ``sell`` meet the market as those of
    :class:`~quantgraph.agents.trader.TraderAgent` do; ``finish_day`` commits the session.

    Parameters
    ----------
    handler
        Where the calls arrive. Without one only recorded calls are carried out, as in a replay.

    Notes
    -----
    A replay carries the recorded calls out anew. It compares orders, fills and the notes, and the log with
    what each call was answered.
    """

    name: Final = "mcp_client"
    uses_signal: Final = False
    reads_rule: Final = True
    aliases: Final[tuple[str, ...]] = ("MCP client", "mcp_client", "mcp", "client", "MCP客户端", "客户端")
    needs: Final[DataNeeds] = DataNeeds(sessions=_SESSIONS, records=("news",))

    def __init__(self, handler: ClientHandler | None = None) -> None:
        self._handler = handler
        self._committed: dict[str, Any] | None = None

    def decide(self, context: DecisionContext) -> Decision:
        """Carry the client's calls out until it finishes the day.

        Raises
        ------
        NotConfigured
            If a call is wanted that is not recorded, and there is no handler.
        GraphDrained
            If the run is to stop: it goes on with the same day.
        """
        tools = ToolContext(context.view, context.account, context.rules, session=context.market)
        day = ClientDay(tools=tools, rule=context.rule, sessions=lambda: context.history)
        if self._handler is not None and self._committed not in (None, day.committed):
            self._handler.answer({**(self._committed or {}), "next": day.date})
        loop = _ClientLoop(context=tools, rule=context.rule, day=day, decision=context, handler=self._handler)
        loop.run(_ClientState())
        self._committed = day.committed
        return Decision(context.market.submitted, notes=day.notes, in_order=True)

    def close_handler(self, answer: Mapping[str, Any], *, is_done: bool) -> None:
        """Answer all calls from now on by one answer, when the run has ended.

        Parameters
        ----------
        is_done
            Whether the last session was committed, which its ``finish_day`` returns.
        """
        if self._handler is not None:
            last = {**self._committed, "next": None} if self._committed and is_done else None
            self._handler.close(answer, last=last)


def _check_stop(control: Any) -> None:
    if control is not None and control.drain_requested:
        raise drain_error("told to stop")


def _step(context: DecisionContext, number: int, call: Mapping[str, Any], answer: Any) -> LoggedStep:
    moment = context.view.moment
    calls = [{"name": call["tool"], "args": call["args"]}]
    return LoggedStep(
        rule_name="mcp_client",
        rule=context.rule,
        symbol="*",
        session=moment.session,
        step=number,
        action_type="decision" if call["tool"] == FINISH_DAY else "tool_call",
        action={"content": "", "tool_calls": calls},
        result=[{"name": call["tool"], "result": answer}],
        timestamp=moment.timestamp.isoformat(),
    )


SERVICE_PORTS: Final = (19_000, 19_001, 19_002, 19_003)
"""Ports of AI-Trader's services math, search, trade and price."""

Tell = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class McpAccess:
    """How a client reaches a run.

    Attributes
    ----------
    stdio
        Two streams of lines, in and out; None for none.
    port
        A port of loopback for HTTP; 0 takes a free one, None is none.
    services
        Ports of the services math, search, trade and price; None for none.
    token
        What requests over HTTP must bear.
    """

    stdio: tuple[TextIO, TextIO] | None = None
    port: int | None = None
    services: tuple[int, ...] | None = None
    token: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)


def start_mcp_run(
    question: str | RunSpec,
    access: McpAccess,
    *,
    resources: Resources | None = None,
    out: str | Path | None = None,
    tell: Tell = lambda _line: None,
) -> RunResult:
    """Start a run whose sessions a client trades, and return its result when it ends.

    Parameters
    ----------
    tell
        Called with the configuration of a client, one line of JSON, once the run has its folder.

    Raises
    ------
    BadOption
        If an argument is not valid or a port is in use; nothing is written then.
    NotConfigured
        If the extra ``mcp`` is not installed.
    """
    handler = ClientHandler()
    decider = McpClient(handler)
    resources = _with_control(replace(resources or Resources(), decider=decider))
    spec, folder, live = prepare_run(question, resources, out=out)
    with _serving(handler, access, folder, live) as (address, wait):
        live = _announcing(live, lambda: tell(address))
        return wait(decider, lambda: start_run(spec, folder, live))


def resume_mcp_run(
    folder: Path, access: McpAccess, *, resources: Resources | None = None, tell: Tell = lambda _line: None
) -> RunResult:
    """Go on with a run that :func:`start_mcp_run` began, at the call after the last recorded one.

    Raises
    ------
    RunMismatch
        If the run has another decider.
    BadOption, NotConfigured
        As :func:`start_mcp_run`, or if the run goes on in another process.
    """
    handler = ClientHandler()
    decider = McpClient(handler)
    live = _with_control(replace(resources or Resources(), decider=decider))
    with _serving(handler, access, folder, live) as (address, wait):
        live = _announcing(live, lambda: tell(address))
        return wait(decider, lambda: resume_run(folder, resources=live))


def _with_control(resources: Resources) -> Resources:
    return resources if resources.control else replace(resources, control=RunControl())


def _announcing(resources: Resources, tell: Callable[[], None]) -> Resources:
    """Return the resources of a run that calls ``tell`` at its first event: then its folder is its own."""
    left, outer = [tell], resources.watch or (lambda _event: None)

    def watch(event: RunEvent) -> None:
        if left:
            left.pop()()
        outer(event)

    return replace(resources, watch=watch)


Wait = Callable[[McpClient, Callable[[], RunResult]], RunResult]


@contextmanager
def _serving(
    handler: ClientHandler, access: McpAccess, folder: Path, live: Resources
) -> Iterator[tuple[str, Wait]]:
    """Serve a handler while the block runs; it gets a client's configuration, and what runs the run."""
    from quantgraph.integrations.mcp._server import bound_socket, serving_http, with_token
    from quantgraph.tools.mcp import http_app, make_server, serve_stdio

    wanted: list[tuple[str, tuple[str, ...] | None, int, str]] = []
    if access.port is not None:
        wanted.append(("quantgraph", None, access.port, "port"))
    for name, port in zip(SERVICES, access.services or (), strict=False):
        wanted.append((name, SERVICES[name], port, "service_ports"))
    control = live.control or RunControl()
    with ExitStack() as stack:
        apps, urls = [], {}
        for name, tools, port, option in wanted:
            listening = stack.enter_context(bound_socket(port, option))
            server = http_app(make_server(handler, name=name, only=tools))
            apps.append((with_token(server, access.token, folder.name), listening))
            urls[name] = f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
        stack.enter_context(serving_http(apps))
        left = partial(control.request_drain, "the client left")
        lines = serve_stdio(make_server(handler), *access.stdio, left) if access.stdio else None
        address = json.dumps(_configuration(urls, access.token, folder))

        def wait(decider: McpClient, run: Callable[[], RunResult]) -> RunResult:
            is_done, why = False, "the run was stopped; 'quantgraph mcp trade RUN' goes on with it"
            try:
                result = run()
                is_done = result["ended_because"] == "done"
                why = "the run is done" if is_done else result.get("error") or why
            finally:
                code = "no_progress" if is_done else "not_configured"
                decider.close_handler(refusal(code, why), is_done=is_done)
            while is_done and lines and lines.is_alive() and not control.drain_requested:
                lines.join(0.1)  # the client reads its last answers and leaves
            return result

        yield address, wait


def _configuration(urls: Mapping[str, str], token: str, folder: Path) -> dict[str, Any]:
    """What a client's configuration file has, in the form that most clients read."""
    headers = {"Authorization": f"Bearer {token}"}
    servers: dict[str, Any] = {
        name: {"type": "http", "url": url, "headers": headers} for name, url in urls.items()
    }
    own = {"quantgraph": {"command": "quantgraph", "args": ["mcp", "trade", str(folder.absolute())]}}
    return {"mcpServers": servers or own}
