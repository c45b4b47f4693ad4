"""One day of a trader: the model replies, its tool calls are carried out, until it says that it is done."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolCall, ToolMessage
from langchain_core.tools import BaseTool
from typing_extensions import TypedDict

from quantgraph._util.canonical_json import canonical_json
from quantgraph._util.texts import Language
from quantgraph.agents.trader._prompt import (
    STOP_SIGNAL,
    bounded_window,
    clean_text,
    first_message,
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

MAX_CALLS: Final = 200
"""Calls of tools in one day; later ones are errors."""

MAX_IDENTICAL_CALLS: Final = 3
"""Times that a call which does not trade is made with the same arguments between two fills."""

_LONGEST_ARGS, _LONGEST_RESULT = 2_000, 12_000

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


@dataclass(frozen=True, kw_only=True)
class TraderDesk:
    """What a day is worked with.

    Attributes
    ----------
    tool_timeout
        Seconds that a tool may take.
    """

    today: str
    prompt: str
    ask: Callable[[Sequence[AnyMessage]], AIMessage]
    tools: Mapping[str, BaseTool]
    context: ToolContext
    keep: Callable[[int, Mapping[str, Any], Any], None]
    max_steps: int
    results_as: ResultsAs
    window: int
    tool_timeout: float


def ask_model(state: TraderState, desk: TraderDesk) -> TraderState:
    """Ask the model for its next reply, or end the day where it cannot be asked."""
    step = state.get("step", 0)
    if step >= desk.max_steps:
        return {"ended": "max_steps", "reply": None}
    messages = state.get("conversation") or [
        SystemMessage(desk.prompt),
        HumanMessage(first_message(desk.today)),
    ]
    try:
        reply = desk.ask(bounded_window(messages, desk.window))
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
            answer = call_tool(tool, call["args"], desk.context, timeout=desk.tool_timeout)
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
    if not calls or desk.results_as == "text":
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
