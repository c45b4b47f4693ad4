"""The trader's options, and one day: the model replies and its tools are called until it is done."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolCall, ToolMessage
from langchain_core.tools import BaseTool
from typing_extensions import TypedDict

from quantgraph._util.canonical_json import canonical_json
from quantgraph._util.texts import Language
from quantgraph._util.values import check_whole, is_number, is_whole
from quantgraph.agents.trader._prompt import (
    LEAST_WINDOW,
    STOP_SIGNAL,
    bounded_window,
    clean_text,
    first_message,
    get_agent_system_prompt,
    result_text,
    results_text,
)
from quantgraph.errors import (
    BadOption,
    BudgetExceeded,
    ModelOutputInvalid,
    ModelUnavailable,
    NoProgress,
    QuantGraphError,
)
from quantgraph.llm.messages import to_json
from quantgraph.runtime.endings import FATAL_ERRORS
from quantgraph.tools import TRADES, ToolContext, call_tool, shortened
from quantgraph.tools.news import NewsSource

MAX_CALLS: Final = 200
"""Calls of tools in one day; later ones are errors."""

MAX_IDENTICAL_CALLS: Final = 3
"""Times that a call which does not trade is made with the same arguments between two fills."""

_LONGEST_ARGS, _LONGEST_RESULT = 2_000, 12_000
_MOST_STEPS, _MOST_RETRIES, _MOST_WATCHED = 200, 20, 1_000

Ending = Literal["stop_signal", "max_steps", "error", "budget"]
"""Why a day ended: the model said so, it took all its steps, it could not be asked, or a budget is spent."""

ResultsAs = Literal["messages", "text"]
"""How results go back: a tool message for each call, or one text, ``Tool results: ...``."""


class TraderInput(TypedDict, total=False):
    """What a host gives.

    ``data_ref`` (a commit) and ``moment`` (the session whose open it is, ``YYYYMMDD``).
    """

    data_ref: str
    moment: str
    rule: str
    account: dict[str, Any]
    cash: float
    language: Language


class TraderState(TraderInput, total=False):
    """State of a day: plain JSON, and messages.

    Results: ``ended`` (see :data:`Ending`) with ``error`` where there was one, ``final_text``, ``traded``,
    ``orders`` (as :func:`~quantgraph.broker.accounts.order_to_json` writes them, in their order),
    ``positions`` with ``CASH``, and ``log``, a ``role`` and ``content`` for each message.

    Between the steps: ``conversation``, the messages; ``step``, the replies so far; ``reply``, the last one;
    ``calls``, those since the last fill that do not trade; ``call_count``, of all; ``submitted``, orders and
    what became of them.
    """

    conversation: list[AnyMessage]
    step: int
    reply: AIMessage | None
    calls: list[str]
    call_count: int
    submitted: list[dict[str, Any]]
    log: list[dict[str, str]]
    ended: Ending | None
    error: str
    final_text: str
    traded: bool
    orders: list[dict[str, Any]]
    positions: dict[str, Any]


Toolset = Literal["local", "mcp"] | Sequence[str]
"""``local``, ``mcp``, or addresses of MCP servers."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class TraderOptions:
    """The options of :class:`.TraderAgent`, which is made of them, with their defaults."""

    max_steps: int = 30
    max_retries: int = 3
    base_delay: float = 1.0
    tool_timeout: float = 30.0
    window: int = 60_000
    results_as: ResultsAs = "messages"
    watched: Sequence[str] = ()
    memory: bool = False
    tools: Toolset = "local"
    allow_leaky_tools: bool = False
    news: NewsSource | str | None = None
    allow_leaky_search: bool = False

    def __post_init__(self) -> None:
        check_whole("max_steps", self.max_steps, 1, _MOST_STEPS)
        check_whole("max_retries", self.max_retries, 1, _MOST_RETRIES)
        if not is_whole(self.window) or self.window < LEAST_WINDOW:
            valid = f"must be a whole number from {LEAST_WINDOW}"
            raise BadOption(f"window={self.window!r:.40}; {valid}", parameter="window")
        for name, least in (("base_delay", "at least 0"), ("tool_timeout", "above 0")):
            value = getattr(self, name)
            if not is_number(value) or not 0 <= value < math.inf or (value == 0 and name == "tool_timeout"):
                raise BadOption(f"{name}={value!r:.40}; must be seconds, {least}", parameter=name)
        if self.results_as not in get_args(ResultsAs):
            raise BadOption(
                f"results_as={self.results_as!r:.40}; must be one of {', '.join(get_args(ResultsAs))}",
                parameter="results_as",
            )
        if isinstance(self.watched, str) or not all(isinstance(each, str) for each in self.watched):
            raise BadOption(f"watched={self.watched!r:.60}; must be symbols", parameter="watched")
        if len(self.watched) > _MOST_WATCHED:
            raise BadOption(
                f"watched has {len(self.watched)} symbols; must be at most {_MOST_WATCHED}",
                parameter="watched",
            )
        if not isinstance(self.memory, bool):
            raise BadOption(f"memory={self.memory!r:.40}; must be True or False", parameter="memory")
        object.__setattr__(self, "watched", tuple(self.watched))

    @property
    def identity(self) -> dict[str, Any]:
        """The options as plain JSON: a run is not continued with others."""
        names = ("max_steps", "max_retries", "base_delay", "tool_timeout", "window", "results_as")
        own = {"watched": list(self.watched)} if self.watched else {}
        return {**{name: getattr(self, name) for name in names}, **own}

    @property
    def model_settings(self) -> Mapping[str, Mapping[str, Any]]:
        """How often the model is asked, and with which waits."""
        return {"trader": {"max_attempts": self.max_retries, "retry_wait": float(self.base_delay)}}

    def desk(
        self,
        *,
        model: BaseChatModel,
        context: ToolContext,
        tools: Mapping[str, BaseTool],
        rule: str = "",
        language: Language = "en",
        remembered: str = "",
        keep: Callable[[int, Mapping[str, Any], Any], None] = lambda *_: None,
    ) -> TraderDesk:
        """Return what the day of a context is worked with."""
        bound: Any = model.bind_tools(list(tools.values()))

        def ask(messages: Sequence[AnyMessage]) -> AIMessage:
            reply: AIMessage = bound.invoke(list(messages))
            return reply

        today = f"{context.moment.session:%Y-%m-%d}"
        return TraderDesk(
            options=self,
            today=today,
            prompt=get_agent_system_prompt(
                today,
                context=context,
                rule=rule,
                language=language,
                watched=self.watched,
                remembered=remembered,
            ),
            ask=ask,
            tools=tools,
            context=context,
            keep=keep,
        )


@dataclass(frozen=True, kw_only=True)
class TraderDesk:
    """What a day is worked with."""

    options: TraderOptions
    today: str
    prompt: str
    ask: Callable[[Sequence[AnyMessage]], AIMessage]
    tools: Mapping[str, BaseTool]
    context: ToolContext
    keep: Callable[[int, Mapping[str, Any], Any], None]


def ask_model(state: TraderState, desk: TraderDesk) -> TraderState:
    """Ask the model for its next reply, or end the day where it cannot be asked."""
    step = state.get("step", 0)
    if step >= desk.options.max_steps:
        return {"ended": "max_steps", "reply": None}
    messages = state.get("conversation") or [
        SystemMessage(desk.prompt),
        HumanMessage(first_message(desk.today)),
    ]
    try:
        reply = desk.ask(bounded_window(messages, desk.options.window))
    except (ModelOutputInvalid, ModelUnavailable) as fault:
        return {"ended": "error", "error": fault.line, "reply": None}
    except BudgetExceeded as spent:
        if spent.data.get("of") != "session":
            raise
        return {"ended": "budget", "error": spent.line, "reply": None}
    return {"conversation": messages, "reply": reply, "step": step + 1}


def use_tools(state: TraderState, desk: TraderDesk) -> TraderState:
    """Carry the calls of a reply out in their order, tell the model, and end the day if it is done."""
    reply, step = state["reply"] or AIMessage(""), state["step"]
    text, calls = clean_text(reply), _numbered(reply, step)
    made, count = list(state.get("calls", ())), state.get("call_count", 0)
    results: list[Any] = []
    for place, call in enumerate(calls, count + 1):
        before = desk.context.account_now
        try:
            tool = _tool_of(call, desk, made, place)
            answer = call_tool(tool, call["args"], desk.context, timeout=desk.options.tool_timeout)
            results.append(shortened(answer, _LONGEST_RESULT))
        except FATAL_ERRORS:
            raise
        except QuantGraphError as error:  # the model can answer it
            results.append({"error": error.message, "code": error.code})
        made = [] if desk.context.account_now is not before else made
    answered = [{"name": call["name"], "result": each} for call, each in zip(calls, results, strict=True)]
    action = {"content": text, "tool_calls": [{"name": each["name"], "args": each["args"]} for each in calls]}
    is_done = STOP_SIGNAL in text
    desk.keep(step, action, answered if calls or not is_done else None)
    lines = [{"role": "assistant", "content": text}]
    if calls or not is_done:
        lines.append({"role": "user", "content": results_text(results)})
    update: TraderState = {
        "conversation": [*state["conversation"], *_told(text, calls, results, desk)],
        "calls": made,
        "call_count": count + len(calls),
        "reply": None,
        "log": [*(state.get("log") or [{"role": "user", "content": first_message(desk.today)}]), *lines],
    }
    return {**update, "ended": "stop_signal", "final_text": text} if is_done else update


def _numbered(reply: AIMessage, step: int) -> list[ToolCall]:
    """Return the calls of a reply as plain JSON, each with an id."""
    return [
        ToolCall(
            name=str(call["name"]), args=_plain_args(call["args"]), id=call["id"] or f"call_{step}_{place}"
        )
        for place, call in enumerate(reply.tool_calls)
    ]


def _plain_args(args: Any) -> dict[str, Any]:
    """Return arguments as JSON; a number that is not finite, which JSON has not, is its name."""
    plain = to_json(args) if isinstance(args, Mapping) else {}
    found: dict[str, Any] = json.loads(json.dumps(plain), parse_constant=str)
    return found


def _tool_of(call: ToolCall, desk: TraderDesk, made: list[str], count: int) -> BaseTool:
    """Return the tool of a call that may be made; one that does not trade is added to ``made``."""
    name = call["name"]
    if count > MAX_CALLS:
        raise NoProgress(f"{MAX_CALLS} calls were made today, and no more are; write {STOP_SIGNAL}")
    tool = desk.tools.get(name)
    if tool is None:
        raise BadOption(f"there is no tool {name!r:.80}; there is {', '.join(desk.tools)}")
    if name not in TRADES:
        wanted = canonical_json([name, call["args"]])
        if made.count(wanted) >= MAX_IDENTICAL_CALLS:
            raise NoProgress(
                f"{name} was called {MAX_IDENTICAL_CALLS} times with these arguments, and would answer "
                "the same; change them, trade, or end the day"
            )
        made.append(wanted)
    return tool


def _told(text: str, calls: Sequence[ToolCall], results: Sequence[Any], desk: TraderDesk) -> list[AnyMessage]:
    """Return the reply and what is told of it."""
    if not calls or desk.options.results_as == "text":
        return [AIMessage(text or "(no text)"), HumanMessage(results_text(results))]
    short = [ToolCall(name=each["name"], args=_short_args(each["args"]), id=each["id"]) for each in calls]
    answers = [
        ToolMessage(result_text(result), tool_call_id=str(call["id"]), name=call["name"])
        for call, result in zip(calls, results, strict=True)
    ]
    return [AIMessage(text, tool_calls=short), *answers]


def _short_args(args: Mapping[str, Any]) -> dict[str, Any]:
    short = shortened(dict(args), _LONGEST_ARGS)
    return short if isinstance(short, dict) else {"…": short}
