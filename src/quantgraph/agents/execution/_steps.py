"""The options of the stepwise agent, and one execution: think, act, observe, until there is a decision."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import ROUND_FLOOR, Decimal
from functools import cached_property
from typing import Annotated, Any, ClassVar, Final, Literal, get_args

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.graph.state import CompiledStateGraph
from pydantic import Field, SkipValidation

from quantgraph._util.canonical_json import canonical_json, content_hash
from quantgraph._util.packages import code_values
from quantgraph._util.texts import Language
from quantgraph._util.values import is_number
from quantgraph.agents.execution._actions import (
    ACTION_NAMES,
    CALCULATION_TOOL,
    Action,
    Calculation,
    ReplyError,
    ToolCall,
    TradeDecision,
    calls_as_text,
    parse_action,
)
from quantgraph.agents.execution._prompt import (
    bound_tool,
    first_messages,
    observed,
    record_of,
    sent_back,
    status_of,
    system_prompts,
    tool_line,
    with_short_results,
)
from quantgraph.agents.loop._facts import OpenFacts, facts_at_open
from quantgraph.agents.loop._host_state import check_symbols
from quantgraph.agents.loop._model_decider import (
    Ask,
    HostInput,
    ModelLoop,
    allowed_tool,
    asking,
    call_key,
    ends_session,
    loop_graph,
    options,
    scratch_context,
)
from quantgraph.broker import Account
from quantgraph.data.symbols import rules_of_codes
from quantgraph.errors import BadOption, BudgetExceeded, ModelOutputInvalid, QuantGraphError
from quantgraph.llm import Model, get_llm, role_model
from quantgraph.market import Rulebook
from quantgraph.market.money import CENT, to_decimal
from quantgraph.runtime import Resources, merge_resources, open_resources
from quantgraph.runtime.endings import FATAL_ERRORS
from quantgraph.settings import Settings, load_settings
from quantgraph.state import View
from quantgraph.tools import ToolContext, call_tool, tools_catalog
from quantgraph.tools.trading import named_tool, talib_values

Calling = Literal["json", "native"]
SizeKind = Literal["confidence", "fixed"]

MAX_SENT_BACK = 2
"""Times in a row that a reply which cannot be read is sent back."""

MAX_IDENTICAL_CALLS = 2
"""Times that a call with the same parameters is made in one execution; a later one is an error."""

HoldReason = Literal["model", "malformed", "rounds", "time", "budget"]
"""Why an execution ends with a hold: the model chose it, its replies could not be read, it took all rounds or
all its time, or the session's budget is spent."""


class ExecutionInput(HostInput, total=False):
    """What a host gives: that of every agent, and the ``symbol`` to decide."""

    symbol: str


class ExecutionState(ExecutionInput, total=False):
    """State of an execution: plain JSON, and messages.

    Results: ``decision`` (``action``, ``reason``, ``confidence``; of a hold ``hold_reason``, see
    :data:`HoldReason`) and ``execution_history``, a record of each step, see :func:`.record_of`.

    Between the steps: ``cells``, the code of ``python_repl`` so far; ``step``, the next one, from 1;
    ``conversation``, the messages; ``sent_back``, how often in a row a reply was; ``reply_errors``, counts of
    ``replies`` and of their errors by :data:`.ReplyError`; ``reply``, ``action`` and ``result`` of the step;
    ``hold_reason``; ``waited``, the seconds that were waited for the model.
    """

    cells: list[str]
    step: int
    conversation: list[AnyMessage]
    sent_back: int
    reply_errors: dict[str, int]
    reply: AIMessage | None
    action: dict[str, Any] | None
    result: Any
    hold_reason: HoldReason
    waited: float
    execution_history: list[dict[str, Any]]
    decision: dict[str, Any]


def _module_of(tool: BaseTool) -> str:
    function = getattr(tool, "func", None) or getattr(tool, "coroutine", None) or type(tool)
    return str(function.__module__)


def _counted(state: ExecutionState, *names: ReplyError | Literal["replies"] | None) -> dict[str, int]:
    """Counts of replies and their errors, with one more of each name."""
    counts = dict(state.get("reply_errors", {}))
    for name in filter(None, names):
        counts[name] = counts.get(name, 0) + 1
    return counts


_SECONDS: Final = Field(gt=0, allow_inf_nan=False, description="seconds above 0")


@options
class ExecutionOptions:
    """The options of :class:`.ExecutionAgent`, which is made of them, with their defaults."""

    tools: SkipValidation[Sequence[BaseTool | str]] = ()
    size: Annotated[SizeKind, Field(description=f"one of {', '.join(get_args(SizeKind))}")] = "confidence"
    share: Annotated[float | None, Field(gt=0, le=1, description="a number above 0, at most 1")] = None
    cash: Annotated[float | None, Field(gt=0, allow_inf_nan=False, description="a number above 0")] = None
    rounds: Annotated[int, Field(ge=1, le=50, description="a whole number from 1 to 50")] = 10
    time_limit: Annotated[float | None, _SECONDS] = None
    tool_timeout: Annotated[float, _SECONDS] = 30.0
    parallel: Annotated[int, Field(ge=1, le=64, description="a whole number from 1 to 64")] = 4
    calling: Annotated[Calling, Field(description=f"one of {', '.join(get_args(Calling))}")] = "json"
    prompt: Annotated[str | None, Field(min_length=1, description="the path of a text file")] = None

    def __post_init__(self) -> None:
        named = tuple(named_tool(each) if isinstance(each, str) else each for each in self.tools)
        object.__setattr__(self, "tools", named)
        if self.size == "fixed" and (self.cash is None or self.share is not None):
            raise BadOption(
                "size='fixed' needs cash=, the value of a position, and no share=", parameter="cash"
            )
        if self.size == "confidence" and self.cash is not None:
            raise BadOption("cash= belongs to size='fixed'; size='confidence' has share=", parameter="cash")
        for tool in named:
            if not isinstance(tool, BaseTool):
                raise BadOption(
                    f"tools: {tool!r:.60} is not a tool; make one with langchain_core.tools.tool",
                    parameter="tools",
                )
            if tool.name in {*tools_catalog, *ACTION_NAMES}:
                raise BadOption(
                    f"tools: there is a tool {tool.name!r} already; give yours another name",
                    parameter="tools",
                )
        self.system_prompts  # noqa: B018 - a file of the caller's is read now

    @cached_property
    def catalog(self) -> Mapping[str, BaseTool]:
        """The tools that can be called, by name."""
        return {**tools_catalog, **self.own}

    @cached_property
    def own(self) -> Mapping[str, BaseTool]:
        """The tools of the caller's among them."""
        return {tool.name: tool for tool in self.tools if isinstance(tool, BaseTool)}

    @cached_property
    def system_prompts(self) -> Mapping[str, str]:
        """The prompts before the facts, by name. In JSON ``place_order`` is the decision, and not listed."""
        listed = [tool for name, tool in self.catalog.items() if name != "place_order"]
        return system_prompts(self.prompt, self.calling, listed if self.calling == "json" else ())

    def patience(self, model: BaseChatModel, settings: Settings | None = None) -> float:
        """Seconds that an execution waits for the model in all."""
        return self.time_limit or self.rounds * request_timeout(model, settings)

    def target(self, total: Decimal, confidence: float, symbols: int) -> Decimal:
        """Return the value that a buy aims at, of an account worth ``total`` that trades so many symbols."""
        if self.cash is not None:
            return to_decimal(self.cash, name="cash").quantize(CENT, ROUND_FLOOR)
        share = 1 / Decimal(symbols) if self.share is None else Decimal(str(self.share))
        return (total * share * Decimal(str(confidence))).quantize(CENT, ROUND_FLOOR)

    @property
    def identity(self) -> dict[str, Any]:
        """The options as plain JSON: a run is not continued with others."""
        own = {
            name: content_hash(canonical_json(convert_to_openai_tool(tool)), size=8)
            for name, tool in self.own.items()
        }
        code: dict[str, str] = {}
        for name, tool in self.own.items():
            code |= code_values("quantgraph.tools", _module_of(tool), f"tool.{name}.")
        limits = {name: getattr(self, name) for name in ("rounds", "time_limit", "tool_timeout", "calling")}
        return {**limits, **({"tools": own} if own else {}), **code}


@dataclass(frozen=True, kw_only=True)
class ExecutionLoop(ModelLoop[ExecutionState]):
    """One execution of a symbol: the model takes an action a round, until one is a decision.

    Attributes
    ----------
    is_out_of_time
        Whether so many seconds of waiting for the model are too many.
    keep
        Keeps a step with its result.
    table, facts
        The facts of the open, and those of its run.
    tried
        What a decision is answered before it stands: an object with ``error`` sends it back.
    """

    options: ExecutionOptions
    model: BaseChatModel
    symbol: str
    is_out_of_time: Callable[[float], bool]
    keep: Callable[[Action, Any], None] = lambda *_: None
    table: OpenFacts | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    tried: Callable[[Mapping[str, Any]], Any] = lambda _decision: None
    end_key: ClassVar[str] = "decision"
    action_key: ClassVar[str] = "action"

    def __post_init__(self) -> None:
        check_symbols(self.context.view, [self.symbol])

    @cached_property
    def tools(self) -> Mapping[str, BaseTool]:
        """The tools that can be called: none for news where the data have none."""
        unfed = set() if self.context.view.records("news") else {"get_news"}
        return {name: tool for name, tool in self.options.catalog.items() if name not in unfed}

    @cached_property
    def ask(self) -> Ask:
        """Asks the model, to which the tools are bound or not."""
        if self.options.calling == "native":
            return asking(self.model, [*map(bound_tool, self.tools.values()), CALCULATION_TOOL])
        return asking(self.model, read=calls_as_text)

    def think(self, state: ExecutionState) -> ExecutionState:
        """Ask the model for the next action; without a usable one, send its reply back or decide to hold."""
        step, rounds = state.get("step", 1), self.options.rounds
        messages = state.get("conversation") or self._first_messages()
        if step > rounds:
            return _held(messages, step, "rounds", f"{rounds} rounds were not enough for a decision")
        waited = state.get("waited", 0.0)
        if self.is_out_of_time(waited):
            return _held(messages, step, "time", "the time to wait for the model is over")
        reply, begun = AIMessage(""), time.monotonic()
        try:
            reply = self.ask(messages)
            waited += time.monotonic() - begun
            action = parse_action(reply, step=step, symbol=self.symbol)
        except ModelOutputInvalid as fault:
            return {**self._unusable(state, messages, reply, fault), "waited": waited}
        except BudgetExceeded as error:
            if not ends_session(error):
                raise
            return _held(messages, step, "budget", error.message)
        return {
            "conversation": messages,
            "waited": waited,
            "sent_back": 0,
            "reply_errors": _counted(state, "replies"),
            "reply": reply,
            "action": action.model_dump(),
            "hold_reason": "model",
        }

    def act(self, state: ExecutionState) -> ExecutionState:
        """Carry the action out; what is wrong with a call is its result."""
        action, history = Action.model_validate(state["action"]), state.get("execution_history", [])
        try:
            result = self._carried_out(action, history)
        except FATAL_ERRORS:
            raise
        except QuantGraphError as error:  # the model can answer it
            return {"result": {"error": error.line}, "reply_errors": _counted(state, _error_of_call(error))}
        is_refused = isinstance(action.action, TradeDecision) and is_error(result)
        return {"result": result, "reply_errors": _counted(state, "logic" if is_refused else None)}

    def observe(self, state: ExecutionState) -> ExecutionState:
        """Keep the action with its result, tell the model, and end with a decision that stands.

        One that is refused goes back while rounds are left, but for a refusal that the model has read before.
        """
        action, result = Action.model_validate(state["action"]), state["result"]
        moment, history = self.context.moment.timestamp.isoformat(), state.get("execution_history", [])
        update: ExecutionState = {
            "execution_history": [*history, record_of(action, result, moment)],
            "step": action.step + 1,
            "action": None,
            "result": None,
        }
        self.keep(action, result)
        is_known = any(each.get("result") == result for each in history)
        is_last = action.step >= self.options.rounds or is_known or not is_error(result)
        if isinstance(action.action, TradeDecision) and is_last:
            decision = action.action.model_dump()
            if decision["action"] == "hold":
                decision["hold_reason"] = state["hold_reason"]
            return {**update, "decision": decision}
        return {**update, **self.answered(state, action, result)}

    def answered(self, state: ExecutionState, action: Action, result: Any) -> ExecutionState:
        """The conversation with the answer to an action, also to a decision that stood and does no longer."""
        answer = observed(
            state["reply"] or AIMessage(""),
            action,
            result,
            next_step=action.step + 1,
            rounds=self.options.rounds,
            language=self.language,
        )
        conversation = [*with_short_results(state["conversation"]), *answer]
        return {"conversation": conversation, "reply": None, "decision": {}}

    def kept(self) -> ExecutionState:
        """The code that was run so far."""
        return {"cells": list(self.context.cells)}

    def _first_messages(self) -> list[AnyMessage]:
        facts = {
            "rule_id": content_hash(self.rule, size=4),
            **status_of(self.table or facts_at_open(self.context, [self.symbol]), self.symbol),
            **self.facts,
            "user_requirements": self.rule,
        }
        prompt = self.options.system_prompts[f"execution_{self.language}"]
        for name, tool in self.options.catalog.items():
            prompt = prompt if name in self.tools else prompt.replace(f"\n{tool_line(tool)}", "")
        return first_messages(facts, prompt, rounds=self.options.rounds, language=self.language)

    def _unusable(
        self, state: ExecutionState, messages: list[AnyMessage], reply: AIMessage, fault: ModelOutputInvalid
    ) -> ExecutionState:
        """Send a reply back, or hold after too many in a row."""
        step, sent = state.get("step", 1), state.get("sent_back", 0)
        counts = _counted(state, "replies", fault.data.get("kind", "schema"))
        if sent >= MAX_SENT_BACK:
            why = f"{MAX_SENT_BACK + 1} replies in a row could not be read; the last: {fault.message}"
            return {**_held(messages, step, "malformed", why), "reply_errors": counts}
        again = sent_back(
            reply,
            fault.message,
            step=step,
            rounds=self.options.rounds,
            is_last=sent + 1 == MAX_SENT_BACK,
            language=self.language,
        )
        return {
            "conversation": [*messages, *again],
            "sent_back": sent + 1,
            "reply_errors": counts,
            "action": None,
        }

    def _carried_out(self, action: Action, history: Sequence[Mapping[str, Any]]) -> Any:
        """What a tool answers, or TA-Lib's values beside a calculation; None if there is nothing."""
        done = action.action
        if isinstance(done, ToolCall):
            tool = allowed_tool(
                done.tool_name,
                done.params,
                self.tools,
                made=[call_key(each["tool_name"], each["params"]) for each in history if "tool_name" in each],
                most=MAX_IDENTICAL_CALLS,
                again="{name} was called {most} times with these parameters, and would answer the same; "
                "change them, or decide",
            )
            return call_tool(tool, done.params, self.context, timeout=self.options.tool_timeout)
        if isinstance(done, Calculation):
            timeframe, shown = _shown_bars(history, self.symbol)
            calculation = {**done.model_dump(), "intermediate_result": action.intermediate_result}
            values = talib_values(calculation, self.context, self.symbol, timeframe=timeframe, shown=shown)
            return {"talib": values} if values else None
        return self.tried(done.model_dump()) if isinstance(done, TradeDecision) else None


@dataclass(kw_only=True)
class ReactContext:
    """An execution under way: its loop, and its state so far."""

    loop: ExecutionLoop
    state: ExecutionState = field(default_factory=ExecutionState)


def react_step(step_num: int, context: ReactContext) -> tuple[Action, Any]:
    """Think, act and observe once: return the action and its result, and move the context's state on.

    Raises
    ------
    BadOption
        If ``step_num`` is not the next step, or there is a decision already.
    """
    state = context.state
    following = state.get("step", 1)
    if step_num != following or state.get("decision"):
        raise BadOption(
            f"step_num={step_num}; must be {following}"
            if not state.get("decision")
            else f"step_num={step_num}; the execution has its decision",
            parameter="step_num",
        )
    done = list[tuple[Action, Any]]()
    keep = context.loop.keep

    def kept(action: Action, result: Any) -> None:
        done.append((action, result))
        keep(action, result)

    replace(context.loop, keep=kept).run(state, once=True)
    return done[0]


def execute_action(action: Action, context: ReactContext) -> Any:
    """Carry an action out by hand and return its result; the execution stays where it is.

    What is wrong with a call is its ``error``; a decision sends no order.
    """
    return context.loop.act({**context.state, "action": action.model_dump()})["result"]


def _shown_bars(history: Sequence[Mapping[str, Any]], symbol: str) -> tuple[str, int]:
    """Timeframe and number of a symbol's bars that the model was shown last."""
    spellings = (symbol, symbol.partition(".")[0])
    for each in reversed(history):
        params, result = each.get("params") or {}, each.get("result")
        is_bars = each.get("tool_name") == "get_kline_data" and isinstance(result, list)
        if is_bars and str(params.get("symbol")).strip().upper() in spellings:
            return str(params.get("timeframe", "1d")), sum(isinstance(row, Mapping) for row in result)
    return "1d", 0


def is_error(result: Any) -> bool:
    """Whether a result says that what the model wanted was not done."""
    return isinstance(result, Mapping) and "error" in result


def request_timeout(model: BaseChatModel, settings: Settings | None = None) -> float:
    """Seconds that one request of a model may take: the settings', or those of an object of the caller's."""
    while (inner := getattr(model, "inner", None)) is not None:
        model = inner
    own = getattr(model, "request_timeout", None)
    return float(own) if is_number(own) else (settings or load_settings()).request_timeout


_OF_THE_TOOL = frozenset({"tool_failed", "tool_timeout", "source_unavailable", "rate_limited"})


def _error_of_call(error: QuantGraphError) -> ReplyError | None:
    """Which error of a reply its refused call is; None if the tool failed."""
    if error.code in _OF_THE_TOOL:
        return None
    return "schema" if isinstance(error, BadOption) else "logic"


def _held(messages: list[AnyMessage], step: int, why: HoldReason, reason: str) -> ExecutionState:
    """Hold, by no action of the model."""
    decision = TradeDecision(action="hold", reason=reason, confidence=0.0)
    action = Action(
        type="decision", step=step, reasoning=f"not decided by the model ({why})", action=decision
    )
    return {"conversation": messages, "reply": None, "action": action.model_dump(), "hold_reason": why}


CASH = 1_000_000
"""Cash of an account by default."""


def begin_execution(
    view: View,
    symbol: str,
    *,
    model: Model | None = None,
    rule: str = "",
    language: Language = "en",
    account: Account | None = None,
    rules: Rulebook | None = None,
    options: ExecutionOptions | None = None,
) -> ReactContext:
    """Begin the execution of a symbol by hand, for :func:`.react_step`.

    Parameters
    ----------
    view
        The data as known at a session's open.
    model
        See :func:`~quantgraph.llm.get_llm`: the model of the role ``execution``.
    rule, language
        The user's rule in words, and the language of the prompt.
    account
        At that open. Default: cash of 1,000,000.
    rules
        The market's rules. Default: those of the symbol's market.

    Raises
    ------
    UnknownSymbol
        If the view has no such symbol.
    """
    options, asked = options or ExecutionOptions(), get_llm("execution", model=model)
    limit = options.patience(asked)
    loop = ExecutionLoop(
        options=options,
        symbol=symbol,
        rule=rule,
        language=language,
        model=asked,
        context=ToolContext(view, account or Account.opening(CASH), rules or rules_of_codes([symbol])),
        is_out_of_time=lambda waited: waited >= limit,
    )
    return ReactContext(loop=loop)


CompiledExecutionGraph = CompiledStateGraph[ExecutionState, None, ExecutionInput, ExecutionState]


def create_execution_subgraph(
    options: ExecutionOptions | None = None,
    *,
    rules: Rulebook | None = None,
    model: Model | None = None,
    resources: Resources | None = None,
) -> CompiledExecutionGraph:
    """Compiled stepwise agent: it decides one symbol at one session's open, and sends no order.

    It works without a key: the keyless planner answers by a rule. For the state see :class:`ExecutionState`.

    Parameters
    ----------
    options
        See :class:`.ExecutionAgent`; ``parallel`` and the sizes of orders have no effect here.
    rules
        The market's rules, which the tool ``get_rules`` tells. Default: those of the symbol's market.
    model, resources
        See :class:`~quantgraph.runtime.Resources`: the model, and the store of ``data_ref``.
    """
    chosen = options or ExecutionOptions()
    opened = open_resources(merge_resources(resources, model=model))

    def loop_of(state: ExecutionState) -> ExecutionLoop:
        """The loop of a state's execution, with the code that it has run so far."""
        context = scratch_context(
            state,
            opened,
            lambda _view: rules or rules_of_codes([state["symbol"]]),
            "symbol",
            cash=CASH,
            trades=False,
        )
        context.restore(state.get("cells", ()), ())
        asked = role_model("execution", model=opened.model, settings=opened.settings)
        limit = chosen.patience(asked, opened.settings)
        return ExecutionLoop(
            options=chosen,
            symbol=state["symbol"],
            rule=state.get("rule", ""),
            language=state.get("language", "en"),
            model=asked,
            context=context,
            is_out_of_time=lambda waited: waited >= limit,
        )

    schemas = ExecutionState, ExecutionInput
    return loop_graph(ExecutionLoop, loop_of, _fresh, name="execution", schemas=schemas)


def _fresh() -> dict[str, Any]:
    return {
        "cells": [],
        "step": 1,
        "conversation": [],
        "sent_back": 0,
        "reply_errors": {},
        "reply": None,
        "action": None,
        "result": None,
        "execution_history": [],
        "decision": {},
        "waited": 0.0,
    }
