"""One execution: think, act, observe, until there is a decision."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from langchain_core.messages import AIMessage, AnyMessage
from langchain_core.tools import BaseTool
from typing_extensions import TypedDict

from quantgraph._util.canonical_json import canonical_json, content_hash
from quantgraph._util.texts import Language
from quantgraph.agents.execution._actions import Action, Calculation, ToolCall, TradeDecision, parse_action
from quantgraph.agents.execution._prompt import bounded, first_messages, observed, record_of, sent_back
from quantgraph.errors import BadOption, BudgetExceeded, ModelOutputInvalid, NoProgress, QuantGraphError
from quantgraph.runtime.endings import FATAL_ERRORS
from quantgraph.tools import ToolContext, call_tool, check_calculation, known_symbol, tools_of

MAX_SENT_BACK = 2
"""Times in a row that a reply which cannot be read is sent back."""

MAX_IDENTICAL_CALLS = 2
"""Times that a call with the same parameters is made in one execution; a later one is an error."""

HoldReason = Literal["model", "malformed", "rounds", "time", "budget"]
"""Why an execution ends with a hold: the model chose it, its replies could not be read, it took all rounds or
all its time, or the session's budget is spent."""


class ExecutionInput(TypedDict, total=False):
    """What a host gives.

    ``symbol``, ``data_ref`` (a commit) and ``moment`` (the session whose open it is, ``YYYYMMDD``).
    """

    symbol: str
    data_ref: str
    moment: str
    rule: str
    account: dict[str, Any]
    cash: float
    language: Language


class ExecutionState(ExecutionInput, total=False):
    """State of an execution: plain JSON, and messages.

    Results: ``decision`` (``action``, ``reason``, ``confidence``; of a hold ``hold_reason``, see
    :data:`HoldReason`) and ``execution_history``, a record of each step, see :func:`.record_of`.

    Between the steps: ``cells``, the code of ``python_repl`` so far; ``step``, the next one, from 1;
    ``conversation``, the messages; ``sent_back``, how often in a row a reply was; ``malformed``, how many
    replies could not be read in all; ``reply``, ``action`` and
    ``result`` of the step; ``hold_reason``; ``begun``, the clock at the first step, in seconds.
    """

    cells: list[str]
    step: int
    conversation: list[AnyMessage]
    sent_back: int
    malformed: int
    reply: AIMessage | None
    action: dict[str, Any] | None
    result: Any
    hold_reason: HoldReason
    begun: float
    execution_history: list[dict[str, Any]]
    decision: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Desk:
    """What one execution is worked with.

    Attributes
    ----------
    tool_timeout
        Seconds that a tool may take.
    """

    symbol: str
    rule: str
    ask: Callable[[Sequence[AnyMessage]], AIMessage]
    tools: Mapping[str, BaseTool]
    available: Sequence[Mapping[str, Any]]
    context: ToolContext
    prompt: str
    language: Language
    status: Mapping[str, Any]
    is_out_of_time: Callable[[], bool]
    keep: Callable[[Action, Any], None]
    rounds: int
    tool_timeout: float


@dataclass(kw_only=True)
class ReactContext:
    """An execution under way: its desk, and its state so far."""

    desk: Desk
    state: ExecutionState = field(default_factory=ExecutionState)


def run_execution(context: ReactContext) -> ExecutionState:
    """Run an execution to its decision, by the same steps as the subgraph, and return its state."""
    while not context.state.get("decision"):
        react_step(context.state.get("step", 1), context)
    return context.state


def react_step(step_num: int, context: ReactContext) -> tuple[Action, Any]:
    """Think, act and observe once: return the action and its result, and move the context's state on.

    Raises
    ------
    BadOption
        If ``step_num`` is not the next step, or there is a decision already.
    """
    desk, state = context.desk, context.state
    following = state.get("step", 1)
    if step_num != following or state.get("decision"):
        raise BadOption(
            f"step_num={step_num}; must be {following}"
            if not state.get("decision")
            else f"step_num={step_num}; the execution has its decision",
            parameter="step_num",
        )
    state.update(think(state, desk))
    while state["action"] is None:
        state.update(think(state, desk))
    action = Action.model_validate(state["action"])
    state.update(act(state, desk))
    result = state["result"]
    state.update(observe(state, desk))
    return action, result


def think(state: ExecutionState, desk: Desk) -> ExecutionState:
    """Ask the model for the next action; without a usable one, send its reply back or decide to hold."""
    step, sent = state.get("step", 1), state.get("sent_back", 0)
    messages = state.get("conversation") or first_messages(
        _facts(desk), desk.prompt, rounds=desk.rounds, language=desk.language
    )
    if step > desk.rounds:
        return _held(messages, step, "rounds", f"{desk.rounds} rounds were not enough for a decision")
    if desk.is_out_of_time():
        return _held(messages, step, "time", "the time of the execution is over")
    reply = AIMessage("")
    try:
        reply = desk.ask(bounded(messages))
        action = parse_action(reply, step=step, symbol=desk.symbol)
    except ModelOutputInvalid as fault:
        malformed = state.get("malformed", 0) + 1
        if sent >= MAX_SENT_BACK:
            why = f"{MAX_SENT_BACK + 1} replies in a row could not be read; the last: {fault.message}"
            return {**_held(messages, step, "malformed", why), "malformed": malformed}
        told = sent_back(
            reply,
            fault.message,
            step=step,
            rounds=desk.rounds,
            is_last=sent + 1 == MAX_SENT_BACK,
            language=desk.language,
        )
        return {
            "conversation": [*messages, *told],
            "sent_back": sent + 1,
            "malformed": malformed,
            "action": None,
        }
    except BudgetExceeded as spent:
        if spent.data.get("of") != "session":
            raise
        return _held(messages, step, "budget", spent.message)
    return {
        "conversation": messages,
        "sent_back": 0,
        "reply": reply,
        "action": action.model_dump(),
        "hold_reason": "model",
    }


def act(state: ExecutionState, desk: Desk) -> ExecutionState:
    """Carry the action out."""
    action = Action.model_validate(state["action"])
    return {"result": execute_action(action, desk, state.get("execution_history", []))}


def observe(state: ExecutionState, desk: Desk) -> ExecutionState:
    """Keep the action with its result, tell the model, and end with its decision."""
    action, result = Action.model_validate(state["action"]), state["result"]
    moment = desk.context.moment.timestamp.isoformat()
    update: ExecutionState = {
        "execution_history": [*state.get("execution_history", []), record_of(action, result, moment)],
        "step": action.step + 1,
        "action": None,
        "reply": None,
        "result": None,
    }
    desk.keep(action, result)
    if isinstance(action.action, TradeDecision):
        told = action.action.model_dump()
        if told["action"] == "hold":
            told["hold_reason"] = state["hold_reason"]
        return {**update, "decision": told}
    reply = state["reply"] or AIMessage("")
    answer = observed(
        reply, action, result, next_step=action.step + 1, rounds=desk.rounds, language=desk.language
    )
    return {**update, "conversation": bounded([*state["conversation"], *answer])}


def execute_action(action: Action, desk: Desk, history: Sequence[Mapping[str, Any]] = ()) -> Any:
    """Carry an action out and return its result, a JSON value.

    A tool's result is the tool's; that of a calculation is what TA-Lib makes of the same, see
    :func:`~quantgraph.tools.check_calculation`; a decision and an observation have None.
    """
    try:
        if isinstance(action.action, ToolCall):
            return _called(action.action, desk, history)
        if isinstance(action.action, Calculation):
            shown, timeframe = _last_bars(history, desk)
            calculation = {**action.action.model_dump(), "intermediate_result": action.intermediate_result}
            return check_calculation(calculation, desk.context, desk.symbol, shown=shown, timeframe=timeframe)
    except FATAL_ERRORS:
        raise
    except QuantGraphError as error:
        return {"error": error.line}
    return None


def _called(call: ToolCall, desk: Desk, history: Sequence[Mapping[str, Any]]) -> Any:
    wanted = canonical_json([call.tool_name, call.params])
    made = [canonical_json([each["tool_name"], each["params"]]) for each in history if "tool_name" in each]
    if made.count(wanted) >= MAX_IDENTICAL_CALLS:
        raise NoProgress(
            f"{call.tool_name} has been called {MAX_IDENTICAL_CALLS} times with these parameters, and would "
            "answer the same; change them, or decide"
        )
    tool = desk.tools.get(call.tool_name)
    if tool is None:
        raise BadOption(f"there is no tool {call.tool_name!r:.80}; there is {', '.join(desk.tools)}")
    return call_tool(tool, call.params, desk.context, timeout=desk.tool_timeout)


def _last_bars(history: Sequence[Mapping[str, Any]], desk: Desk) -> tuple[Any, str]:
    """Return the bars that the model was shown last, and their timeframe; none if it was shown none."""
    for each in reversed(history):
        params, result = each.get("params") or {}, each.get("result")
        called = each.get("tool_name") == "get_kline_data" and isinstance(result, list)
        if called and known_symbol(desk.context.view, str(params.get("symbol"))) == desk.symbol:
            return result, str(params.get("timeframe", "1d"))
    return (), "1d"


def _facts(desk: Desk) -> dict[str, Any]:
    context = desk.context
    return {
        "rule_id": rule_id(desk.rule),
        "symbol": desk.symbol,
        "session": f"{context.moment.session:%Y-%m-%d}",
        "runtime_status": _status(desk),
        "user_requirements": desk.rule,
        "available_tools": desk.available,
    }


def _status(desk: Desk) -> dict[str, Any]:
    """Return what is held, and the open at which it may be traded; None without one."""
    context = desk.context
    position = call_tool(
        tools_of("execution")["get_position"], {"symbol": desk.symbol}, context, timeout=desk.tool_timeout
    )
    quote = context.quotes.get(desk.symbol)
    return {"open": quote.open if quote and quote.open > 0 else None, **position, **desk.status}


def rule_id(rule: str) -> str:
    """Name of a rule in prompts: the hash of its text."""
    return content_hash(rule, size=8)


def _held(messages: list[AnyMessage], step: int, why: HoldReason, reason: str) -> ExecutionState:
    """Hold, by no action of the model."""
    decision = TradeDecision(action="hold", reason=reason, confidence=0.0)
    action = Action(
        type="decision", step=step, reasoning=f"not decided by the model ({why})", action=decision
    )
    return {"conversation": messages, "reply": None, "action": action.model_dump(), "hold_reason": why}
