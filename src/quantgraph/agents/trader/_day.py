"""The trader's options, and the loop of its day: it replies, and its tools are called, until it is done."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Literal

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolCall, ToolMessage
from langchain_core.tools import BaseTool
from langgraph.graph.state import CompiledStateGraph
from pydantic import Field, SkipValidation

from quantgraph._util.canonical_json import canonical_json
from quantgraph.agents.loop._facts import OpenFacts
from quantgraph.agents.loop._model_decider import (
    Ask,
    HostInput,
    ModelLoop,
    allowed_tool,
    asking,
    ends_session,
    loop_graph,
    options,
    own_prompt,
    scratch_context,
)
from quantgraph.agents.trader._day_text import STOP_SIGNAL, day_text, short_reason
from quantgraph.agents.trader._prompt import (
    LEAST_WINDOW,
    answer_text,
    bounded_window,
    clean_text,
    first_message,
    get_agent_system_prompt,
    left_text,
    limits_text,
    positions_of,
    result_text,
    universe,
)
from quantgraph.broker.accounts import order_from_json, order_to_json
from quantgraph.data.symbols import rules_of
from quantgraph.errors import (
    BadOption,
    BudgetExceeded,
    ModelOutputInvalid,
    ModelUnavailable,
    NoProgress,
    QuantGraphError,
)
from quantgraph.llm import Model, role_model
from quantgraph.llm.messages import reworded, to_json
from quantgraph.market import Rulebook
from quantgraph.runtime import Resources, merge_resources, open_resources
from quantgraph.runtime.endings import FATAL_ERRORS
from quantgraph.tools import TRADES, ToolContext, call_tool, shortened, tools_of
from quantgraph.tools.news import NewsSource

MAX_CALLS: Final = 200
"""Calls of tools in one day; later ones are errors."""

MAX_IDENTICAL_CALLS: Final = 3
"""Times that a call which does not trade is made with the same arguments between two fills."""

_LONGEST_ARGS, _LONGEST_RESULT = 2_000, 12_000
_SEARCH: Final = "get_information"
_NO_TEXT: Final = "(no text)"
_ERROR_KINDS: Final[Mapping[str, str]] = {
    "insufficient_cash": "cash",
    **dict.fromkeys(("bad_option", "bad_quantity", "bad_window", "unknown_symbol"), "schema"),
}
"""What the error of a call is, by its code: any other refusal of an order is one of ``logic``."""

Ending = Literal["stop_signal", "max_steps", "error", "budget"]
"""Why a day ended: the model wrote so, all steps are taken, no usable reply came, or a budget is spent."""

ResultsAs = Literal["messages", "text"]
"""How results go back: a tool message for each call, or one text, ``Tool results: ...``."""


class TraderState(HostInput, total=False):
    """State of a day: plain JSON, and messages.

    Results: ``ended`` (see :data:`Ending`) with ``error`` where there was one, ``final_text``, ``traded``,
    ``orders`` (as :func:`~quantgraph.broker.accounts.order_to_json` writes them, in their order),
    ``positions`` with ``CASH``, and ``log``, a ``role`` and ``content`` for each message.

    Between the steps: ``conversation``, the messages; ``step``, the replies so far; ``reply``, the last one,
    and ``results`` of its calls; ``calls``, those since the last fill that do not trade; ``refused``, those
    that were not carried out, each with why; ``call_count``, of all; ``reply_errors``, errors by kind;
    ``submitted``, orders and what became of them.
    """

    conversation: list[AnyMessage]
    step: int
    reply: AIMessage | None
    results: list[Any]
    calls: list[str]
    refused: list[str]
    call_count: int
    reply_errors: dict[str, int]
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


@options
class TraderOptions:
    """The options of :class:`.TraderAgent`, which is made of them, with their defaults."""

    max_steps: Annotated[int, Field(ge=1, le=200, description="a whole number from 1 to 200")] = 30
    max_retries: Annotated[int, Field(ge=1, le=20, description="a whole number from 1 to 20")] = 3
    base_delay: Annotated[float, Field(ge=0, allow_inf_nan=False, description="seconds, at least 0")] = 1.0
    tool_timeout: Annotated[float, Field(gt=0, allow_inf_nan=False, description="seconds, above 0")] = 30.0
    window: Annotated[int, Field(ge=LEAST_WINDOW, description=f"a whole number from {LEAST_WINDOW}")] = 60_000
    results_as: Annotated[ResultsAs, Field(description="one of messages, text")] = "messages"
    watched: Annotated[Sequence[str], Field(max_length=1_000, description="symbols, at most 1,000")] = ()
    prompt: Annotated[str | None, Field(description="the path of a text file")] = None
    memory: Annotated[bool, Field(description="True or False")] = True
    tools: SkipValidation[Toolset] = "local"
    allow_leaky_tools: Annotated[bool, Field(description="True or False")] = False
    news: SkipValidation[NewsSource | str | bool] = True
    allow_leaky_search: Annotated[bool, Field(description="True or False")] = False

    @property
    def identity(self) -> dict[str, Any]:
        """The options as plain JSON: a run is not continued with others."""
        names = ("max_steps", "max_retries", "base_delay", "tool_timeout", "window", "results_as")
        own: dict[str, Any] = {"watched": list(self.watched)} if self.watched else {}
        own |= {"prompt": str(Path(self.prompt).expanduser().absolute())} if self.prompt else {}
        own |= {"news": False} if self.news is False else {}
        return {**{name: getattr(self, name) for name in names}, **own}

    @cached_property
    def prompt_text(self) -> str:
        """The text of the user's own prompt file; "" without one."""
        return own_prompt(self.prompt) if self.prompt else ""

    @property
    def model_settings(self) -> Mapping[str, Mapping[str, Any]]:
        """How often the model is asked, and with which waits."""
        return {"trader": {"max_attempts": self.max_retries, "retry_wait": float(self.base_delay)}}


@dataclass(frozen=True, kw_only=True)
class TraderLoop(ModelLoop[TraderState]):
    """A day: the model replies, its calls are carried out, until it says that it is done."""

    options: TraderOptions
    model: BaseChatModel
    tools: Mapping[str, BaseTool]
    plan: str = ""
    earlier: str = ""
    table: OpenFacts | None = None
    keep: Callable[[int, Mapping[str, Any], Any], None] = lambda *_: None
    end_key: ClassVar[str] = "ended"
    action_key: ClassVar[str] = "reply"

    @cached_property
    def ask(self) -> Ask:
        """Asks the model, to which the tools are bound."""
        return asking(self.model, self.tools.values())

    @property
    def today(self) -> str:
        """The date of the day."""
        return f"{self.context.moment.session:%Y-%m-%d}"

    def think(self, state: TraderState) -> TraderState:
        """Ask the model for its next reply, or end the day where it cannot be asked."""
        step = state.get("step", 0)
        if step >= self.options.max_steps:
            return {"ended": "max_steps", "reply": None}
        messages = state.get("conversation") or self._first_messages()
        try:
            reply = self.ask(bounded_window(messages, self.options.window))
        except (ModelOutputInvalid, ModelUnavailable) as fault:
            is_unusable = isinstance(fault, ModelOutputInvalid)
            errors = _counted(state.get("reply_errors", {}), [], is_unusable=is_unusable)
            end = TraderState(ended="error", error=fault.line, reply=None, reply_errors=errors)
            return {**end, "step": step + 1} if is_unusable else end
        except BudgetExceeded as error:
            if not ends_session(error):
                raise
            return {"ended": "budget", "error": error.line, "reply": None}
        return {"conversation": messages, "reply": reply, "step": step + 1}

    def act(self, state: TraderState) -> TraderState:
        """Carry the calls of the reply out in their order; what is wrong with one is its result."""
        made, count, results = list(state.get("calls", ())), state.get("call_count", 0), list[Any]()
        calls = _numbered(state["reply"] or AIMessage(""), state["step"])
        self.context.reason = _reason([*state["conversation"], state["reply"] or AIMessage("")])
        for place, call in enumerate(calls, count + 1):
            before = self.context.account_now
            try:
                tool = self._tool_of(call, made, place)
                answer = call_tool(tool, call["args"], self.context, timeout=self.options.tool_timeout)
                results.append(shortened(answer, _LONGEST_RESULT))
            except FATAL_ERRORS:
                raise
            except QuantGraphError as error:  # the model can answer it
                results.append({"error": error.message, "code": error.code})
            made = [] if self.context.account_now is not before else made
        return {"calls": made, "call_count": count + len(calls), "results": results}

    def observe(self, state: TraderState) -> TraderState:
        """Keep the reply with its results, tell the model, and end the day if it is done."""
        reply, step, results = state["reply"] or AIMessage(""), state["step"], state["results"]
        text, calls = clean_text(reply), _numbered(reply, step)
        asked = [{"name": call["name"], "args": call["args"]} for call in calls]
        answered = [{"name": call["name"], "result": each} for call, each in zip(calls, results, strict=True)]
        refused = _refused(asked, results)
        is_new = bool(refused - {*state.get("refused", ())})
        is_done = STOP_SIGNAL in text and not is_new
        lines = [{"role": "assistant", "content": text}]
        if calls or not is_done:
            lines.append({"role": "user", "content": answer_text(results, self.language)})
        self.keep(step, {"content": text, "tool_calls": asked}, answered if len(lines) > 1 else None)
        begun = [{"role": "user", "content": first_message(self.today, self.language)}]
        left = left_text(
            self.options.max_steps - step, max(0, MAX_CALLS - state["call_count"]), self.language
        )
        if STOP_SIGNAL in text and is_new:
            left = "\n".join(filter(None, (day_text("not_over", self.language, STOP_SIGNAL), left)))
        update: TraderState = {
            "refused": [*state.get("refused", ()), *sorted(refused)],
            "conversation": [*state["conversation"], *self._answered(reply, calls, results, left)],
            "reply": None,
            "results": [],
            "reply_errors": _counted(
                state.get("reply_errors", {}), results, is_unusable=len(lines) > 1 and not calls
            ),
            "log": [*(state.get("log") or begun), *lines],
        }
        return {**update, "ended": "stop_signal", "final_text": text} if is_done else update

    def kept(self) -> TraderState:
        """What the orders so far have made of the account."""
        market = self.context.session
        return {
            "submitted": [order_to_json(order) for order in market.submitted],
            "orders": [order_to_json(order) for order in market.orders],
            "traded": market.account != self.context.account,
            "positions": positions_of(market.account, self.context.view),
        }

    def _first_messages(self) -> list[AnyMessage]:
        prompt = get_agent_system_prompt(
            self.today,
            context=self.context,
            rule=self.rule,
            language=self.language,
            watched=self.options.watched,
            text=self.options.prompt_text,
            limits=limits_text(
                self.options.max_steps, MAX_CALLS, self.language, searches=_SEARCH in self.tools
            ),
            plan=self.plan,
            earlier=self.earlier,
            table=self.table,
        )
        return [SystemMessage(prompt), HumanMessage(first_message(self.today, self.language))]

    def _tool_of(self, call: ToolCall, made: list[str], place: int) -> BaseTool:
        """The tool of a call that may be made; one that does not trade is added to ``made``."""
        if place > MAX_CALLS:
            raise NoProgress(f"{MAX_CALLS} calls were made today, and no more are; write {STOP_SIGNAL}")
        return allowed_tool(
            call["name"],
            call["args"],
            self.tools,
            made=[] if call["name"] in TRADES else made,
            most=MAX_IDENTICAL_CALLS,
            again="{name} was called {most} times with these arguments, and would answer the same; change "
            "them, trade, or end the day",
        )

    def _answered(
        self, reply: AIMessage, calls: Sequence[ToolCall], results: Sequence[Any], left: str
    ) -> list[AnyMessage]:
        """The reply, what its calls answered, and what is left of the day, as messages."""
        text = clean_text(reply)
        if not calls or self.options.results_as == "text":
            answer = "\n".join(filter(None, (answer_text(results, self.language), left)))
            return [reworded(reply, text or _NO_TEXT), HumanMessage(answer)]
        short = [ToolCall(name=each["name"], args=_short_args(each["args"]), id=each["id"]) for each in calls]
        answers = [
            ToolMessage(result_text(result), tool_call_id=str(call["id"]), name=call["name"])
            for call, result in zip(calls, results, strict=True)
        ]
        return [reworded(reply, text, short), *answers, *([HumanMessage(left)] if left else [])]


def _refused(asked: Sequence[Mapping[str, Any]], results: Sequence[Any]) -> set[str]:
    """The calls of a reply that were not carried out, each with why."""
    pairs = zip(asked, results, strict=True)
    return {
        canonical_json([call, result])
        for call, result in pairs
        if isinstance(result, Mapping) and "error" in result
    }


def _reason(messages: Sequence[AnyMessage]) -> str:
    """Return the text with which the model explains a reply: its own, else its last one before."""
    texts = (
        clean_text(each).replace(STOP_SIGNAL, "").strip()
        for each in reversed(messages)
        if isinstance(each, AIMessage)
    )
    return short_reason(next((each for each in texts if each not in {"", _NO_TEXT}), ""))


def _counted(errors: Mapping[str, int], results: Sequence[Any], *, is_unusable: bool) -> dict[str, int]:
    """Return the errors by kind, with those of a reply, each kind once."""
    kinds = {"schema"} if is_unusable else set[str]()
    for result in results:
        if isinstance(result, Mapping) and "error" in result:
            refused = "logic" if "symbol" in result else ""
            kinds.add(_ERROR_KINDS.get(result.get("code", ""), refused))
    found = Counter(errors) + Counter(kind for kind in sorted(kinds) if kind)
    return dict(found)


def day_tools(catalog: Mapping[str, BaseTool], context: ToolContext, *, news: bool) -> Mapping[str, BaseTool]:
    """Return the tools of a day: without the search where there are no news to be found."""
    has_news = news and (context.news is not None or bool(context.view.records("news")))
    return {name: tool for name, tool in catalog.items() if has_news or name != _SEARCH}


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


def _short_args(args: Mapping[str, Any]) -> dict[str, Any]:
    short = shortened(dict(args), _LONGEST_ARGS)
    return short if isinstance(short, dict) else {"…": short}


CASH: Final = 10_000
"""Cash of an account where none is given."""
_OF_A_RUN = ("tools", "news")
CompiledTraderGraph = CompiledStateGraph[TraderState, None, HostInput, TraderState]


def create_trader_subgraph(
    options: TraderOptions | None = None,
    *,
    rules: Rulebook | None = None,
    model: Model | None = None,
    resources: Resources | None = None,
) -> CompiledTraderGraph:
    """Compiled trader: it trades one session's open on a scratch account, and returns its orders.

    It works without a key: the keyless planner answers by a rule. For the state see :class:`TraderState`.

    Parameters
    ----------
    options
        See :class:`.TraderAgent`; a source of news and other tools belong to a run.
    rules
        The market's rules. Default: those of the market whose codes the data have.
    model, resources
        See :class:`~quantgraph.runtime.Resources`: the model, and the store of ``data_ref``.

    Raises
    ------
    BadOption
        If an option is of a run.
    """
    chosen = options or TraderOptions()
    _ = chosen.prompt_text  # a file that cannot be read is an error now
    for name in _OF_A_RUN:
        if getattr(chosen, name) not in (True, False, "local"):
            raise BadOption(
                f"{name} is an option of a run, of TraderAgent; the subgraph has one day", parameter=name
            )
    opened = open_resources(merge_resources(resources, model=model))
    settings = opened.settings.with_model("trader", chosen.model_settings["trader"])

    def loop_of(state: TraderState) -> TraderLoop:
        """The loop of a state's day; its market has the orders so far."""
        context = scratch_context(
            state,
            opened,
            lambda view: rules or rules_of(opened.source, universe(view)),
            cash=CASH,
            trades=True,
        )
        for each in state.get("submitted", ()):
            context.session.submit(order_from_json(each))
        return TraderLoop(
            options=chosen,
            model=role_model("trader", model=opened.model, settings=settings),
            context=context,
            tools=day_tools(tools_of("trader"), context, news=bool(chosen.news)),
            rule=state.get("rule", ""),
            language=state.get("language", "en"),
        )

    return loop_graph(TraderLoop, loop_of, _fresh, name="trader", schemas=(TraderState, HostInput))


def _fresh() -> dict[str, Any]:
    return {
        "conversation": [],
        "step": 0,
        "reply": None,
        "results": [],
        "calls": [],
        "refused": [],
        "call_count": 0,
        "reply_errors": {},
        "log": [],
        "ended": None,
        "error": "",
        "final_text": "",
    }
