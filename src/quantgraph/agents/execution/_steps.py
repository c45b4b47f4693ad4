"""The options of the stepwise agent, and one execution: think, act, observe, until there is a decision."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_FLOOR, Decimal
from typing import Any, Literal, get_args

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from typing_extensions import TypedDict

from quantgraph._util.canonical_json import canonical_json, content_hash
from quantgraph._util.packages import code_values
from quantgraph._util.texts import Language
from quantgraph._util.values import check_whole, is_number
from quantgraph.agents._isolated import check_symbols
from quantgraph.agents.execution._actions import (
    ACTION_TOOLS,
    Action,
    Calculation,
    ToolCall,
    TradeDecision,
    calls_as_text,
    parse_action,
)
from quantgraph.agents.execution._prompt import (
    bounded,
    described,
    first_messages,
    observed,
    prompt_texts,
    record_of,
    sent_back,
)
from quantgraph.errors import BadOption, BudgetExceeded, ModelOutputInvalid, NoProgress, QuantGraphError
from quantgraph.market.money import CENT, to_decimal
from quantgraph.runtime.endings import FATAL_ERRORS
from quantgraph.tools import (
    ToolContext,
    call_tool,
    check_calculation,
    known_symbol,
    named_tool,
    tools_catalog,
)

Calling = Literal["json", "native"]
CALLING: tuple[Calling, ...] = get_args(Calling)

SizeKind = Literal["confidence", "fixed"]
SIZES: tuple[SizeKind, ...] = get_args(SizeKind)

_MOST_ROUNDS, _MOST_PARALLEL = 50, 64

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


def _module_of(tool: BaseTool) -> str:
    function = getattr(tool, "func", None) or getattr(tool, "coroutine", None) or type(tool)
    return str(function.__module__)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ExecutionOptions:
    """The options of :class:`.ExecutionAgent`, which is made of them, with their defaults."""

    tools: Sequence[BaseTool | str] = ()
    size: SizeKind = "confidence"
    share: float | None = None
    cash: float | None = None
    rounds: int = 10
    time_limit: float = 120.0
    tool_timeout: float = 30.0
    parallel: int = 4
    calling: Calling = "json"
    catalog: Mapping[str, BaseTool] = field(init=False)
    described: Sequence[Mapping[str, Any]] = field(init=False)

    def __post_init__(self) -> None:
        self._check_size()
        check_whole("rounds", self.rounds, 1, _MOST_ROUNDS)
        check_whole("parallel", self.parallel, 1, _MOST_PARALLEL)
        for name in ("time_limit", "tool_timeout"):
            value = getattr(self, name)
            if not is_number(value) or not 0 < value < math.inf:
                raise BadOption(f"{name}={value!r:.40}; must be seconds above 0", parameter=name)
        if self.calling not in CALLING:
            raise BadOption(
                f"calling={self.calling!r:.40}; must be one of {', '.join(CALLING)}", parameter="calling"
            )
        catalog = dict(tools_catalog)
        object.__setattr__(
            self, "tools", [named_tool(each) if isinstance(each, str) else each for each in self.tools]
        )
        for tool in self.tools:
            if not isinstance(tool, BaseTool):
                raise BadOption(
                    f"tools: {tool!r:.60} is not a tool; make one with langchain_core.tools.tool",
                    parameter="tools",
                )
            if tool.name in catalog or tool.name in ACTION_TOOLS:
                raise BadOption(
                    f"tools: there is a tool {tool.name!r} already; give yours another name",
                    parameter="tools",
                )
            catalog[tool.name] = tool
        object.__setattr__(self, "tools", tuple(self.tools))
        object.__setattr__(self, "catalog", catalog)
        # By name alone where the model is offered the tools anyway.
        names = [{"name": name} for name in catalog]
        object.__setattr__(
            self, "described", names if self.calling == "native" else described(catalog.values())
        )

    def _check_size(self) -> None:
        if self.size not in SIZES:
            raise BadOption(f"size={self.size!r:.40}; must be one of {', '.join(SIZES)}", parameter="size")
        if self.share is not None and not (is_number(self.share) and 0 < self.share <= 1):
            raise BadOption(
                f"share={self.share!r:.40}; must be a number above 0, at most 1", parameter="share"
            )
        if self.cash is not None and not (is_number(self.cash) and 0 < self.cash < math.inf):
            raise BadOption(f"cash={self.cash!r:.40}; must be a number above 0", parameter="cash")
        if self.size == "fixed" and (self.cash is None or self.share is not None):
            raise BadOption(
                "size='fixed' needs cash=, the value of a position, and no share=", parameter="cash"
            )
        if self.size == "confidence" and self.cash is not None:
            raise BadOption("cash= belongs to size='fixed'; size='confidence' has share=", parameter="cash")

    def target(self, total: Decimal, confidence: float, symbols: int) -> Decimal:
        """Return the value that a buy aims at, of an account worth ``total`` that trades so many symbols."""
        if self.cash is not None:
            return to_decimal(self.cash, name="cash").quantize(CENT, ROUND_FLOOR)
        share = 1 / Decimal(symbols) if self.share is None else Decimal(str(self.share))
        return (total * share * Decimal(str(confidence))).quantize(CENT, ROUND_FLOOR)

    @property
    def identity(self) -> dict[str, Any]:
        """The options as plain JSON: a run is not continued with others."""
        tools = {name: tool for name, tool in self.catalog.items() if name not in tools_catalog}
        own = {
            name: content_hash(canonical_json(convert_to_openai_tool(tool)), size=8)
            for name, tool in tools.items()
        }
        code: dict[str, str] = {}
        for name, tool in tools.items():
            code |= code_values("quantgraph.tools", _module_of(tool), f"tool.{name}.")
        limits = {name: getattr(self, name) for name in ("rounds", "time_limit", "tool_timeout", "calling")}
        return {**limits, **({"tools": own} if own else {}), **code}

    def desk(
        self,
        *,
        symbol: str,
        rule: str,
        language: Language,
        model: BaseChatModel,
        context: ToolContext,
        is_out_of_time: Callable[[], bool],
        keep: Callable[[Action, Any], None] = lambda *_: None,
        status: Mapping[str, Any] | None = None,
    ) -> Desk:
        """Return what the execution of a symbol is worked with."""
        check_symbols(context.view, [symbol])
        bound: Any = model
        if self.calling == "native":
            # place_order, which is in the catalog, is the decision.
            bound = model.bind_tools([*self.catalog.values(), ACTION_TOOLS["calculation"]])

        def ask(messages: Sequence[AnyMessage]) -> AIMessage:
            reply: AIMessage = bound.invoke(list(messages))
            return reply if self.calling == "native" else calls_as_text(reply)

        return Desk(
            options=self,
            symbol=symbol,
            rule=rule,
            ask=ask,
            context=context,
            language=language,
            is_out_of_time=is_out_of_time,
            keep=keep,
            status=status or {},
        )


@dataclass(frozen=True, kw_only=True)
class Desk:
    """What one execution is worked with."""

    options: ExecutionOptions
    symbol: str
    rule: str
    ask: Callable[[Sequence[AnyMessage]], AIMessage]
    context: ToolContext
    language: Language
    status: Mapping[str, Any]
    is_out_of_time: Callable[[], bool]
    keep: Callable[[Action, Any], None]


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
        _facts(desk),
        prompt_texts()[f"execution_{desk.language}"],
        rounds=desk.options.rounds,
        language=desk.language,
    )
    if step > desk.options.rounds:
        return _held(messages, step, "rounds", f"{desk.options.rounds} rounds were not enough for a decision")
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
            rounds=desk.options.rounds,
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
        reply, action, result, next_step=action.step + 1, rounds=desk.options.rounds, language=desk.language
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
    tool = desk.options.catalog.get(call.tool_name)
    if tool is None:
        raise BadOption(
            f"there is no tool {call.tool_name!r:.80}; there is {', '.join(desk.options.catalog)}"
        )
    return call_tool(tool, call.params, desk.context, timeout=desk.options.tool_timeout)


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
        "available_tools": desk.options.described,
    }


def _status(desk: Desk) -> dict[str, Any]:
    """Return what is held, and the open at which it may be traded; None without one."""
    context = desk.context
    held, timeout = {"symbol": desk.symbol}, desk.options.tool_timeout
    position = call_tool(tools_catalog["get_position"], held, context, timeout=timeout)
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
