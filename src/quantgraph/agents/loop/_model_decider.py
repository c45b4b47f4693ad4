"""What deciders that ask a model share: options, a loop of think, act and observe, and its LangGraph graph.

A :class:`ModelLoop` is one piece of work: a day of the trader, a symbol of the stepwise agent. Its subclass
has the prompt, how its reply becomes an action, what an action does, and what ends the work. The
state is a plain dict, so that the same steps run in a loop, or as nodes with a checkpoint after each.

No loop retries a failed request: the chat model does, as often as its settings' ``max_attempts`` say. What a
decider did earlier comes from ``context.history``, which is read from the ledger, so that a resumed run sees
the same. An order is tried on ``context.market``, a copy of the account at the open; the broker then fills
the decision's orders by the same rules, in the same order.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar, dataclass_transform
from weakref import WeakKeyDictionary

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage
from langchain_core.tools import BaseTool
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from pydantic import ConfigDict, ValidationError
from pydantic.dataclasses import dataclass as pydantic_dataclass
from typing_extensions import TypedDict

from quantgraph._util.canonical_json import canonical_json
from quantgraph._util.texts import Language, say
from quantgraph._util.values import finite_number, near_or_valid
from quantgraph.agents.loop._host_state import host_account, view_of
from quantgraph.agents.memory._memory import EpisodeMemo
from quantgraph.broker import DecisionContext, Session, plan_words
from quantgraph.broker.ledger import LoggedStep
from quantgraph.errors import BadOption, BudgetExceeded, NoProgress, QuantGraphError
from quantgraph.llm.messages import reply_text
from quantgraph.market import Rulebook
from quantgraph.runtime import OpenResources, compile_graph
from quantgraph.state import GrowingViewId, View
from quantgraph.tools import ToolContext

T = TypeVar("T")
S = TypeVar("S", bound=Mapping[str, Any])
Ask = Callable[[Sequence[AnyMessage]], AIMessage]


class HostInput(TypedDict, total=False):
    """What a host gives.

    ``data_ref`` (a commit) and ``moment`` (the session whose open it is, ``YYYYMMDD``).
    """

    data_ref: str
    moment: str
    rule: str
    account: dict[str, Any]
    cash: float
    language: Language


@dataclass_transform(frozen_default=True, kw_only_default=True)
def options(cls: type[T]) -> type[T]:
    """Make a frozen dataclass of options, whose values are checked by their annotations.

    A value that is not valid is a ``BadOption`` of that name; a field's description completes "must be".
    """
    if not hasattr(cls, "__post_init__"):  # a subclass may have one
        cls.__post_init__ = lambda _self: None  # type: ignore[attr-defined]
    config = ConfigDict(strict=True, extra="forbid", arbitrary_types_allowed=True)
    made: Any = pydantic_dataclass(frozen=True, kw_only=True, eq=False, repr=False, config=config)(cls)
    init, known = made.__init__, made.__pydantic_fields__

    @wraps(init)
    def checked_init(self: Any, **values: Any) -> None:
        try:
            init(self, **values)
        except ValidationError as error:
            first = error.errors()[0]
            own = first.get("ctx", {}).get("error")
            if isinstance(own, BadOption):  # of a check that reads several options
                raise own from None
            name = str(first["loc"][0])
            if name not in known:
                raise BadOption(
                    f"there is no option {name}; {near_or_valid(name, known)}", parameter=name
                ) from None
            valid = known[name].description
            raise BadOption(f"{name}={values[name]!r:.60}; must be {valid}", parameter=name) from None

    made.__init__ = checked_init
    checked: type[T] = made
    return checked


@dataclass(frozen=True, kw_only=True)
class ModelLoop(ABC, Generic[S]):
    """One piece of work over a state: of a model, or of a program that decides by its tools.

    Attributes
    ----------
    context
        The moment, the account, and the market that tools touch.
    rule, language
        The user's rule in words, and the language of the prompt.
    """

    context: ToolContext
    rule: str = ""
    language: Language = "en"
    end_key: ClassVar[str]
    """The key of the state that has how the work ended."""
    action_key: ClassVar[str]
    """The key of the state that has the action to carry out."""

    @abstractmethod
    def think(self, state: S) -> S:
        """Ask for the next action; where there is none, the update says why, or asks again."""

    @abstractmethod
    def act(self, state: S) -> S:
        """Carry the action out."""

    @abstractmethod
    def observe(self, state: S) -> S:
        """Keep the action with its result, tell the model, and end the work if it is done."""

    def kept(self) -> Mapping[str, Any]:
        """What of the market and the tools a state must have, so that the next step finds it."""
        return {}

    def run(self, state: Any, *, once: bool = False) -> S:
        """Think, act and observe until the work is over, or ``once``; return the state."""
        while not state.get(self.end_key):
            state.update(self.think(state))
            if route_after_think(self, state) == "act":
                state.update(self.act(state))
                state.update(self.observe(state))
                if once:
                    break
        done: S = state
        return done


Loop = ModelLoop[Any] | type[ModelLoop[Any]]


def route_after_think(loop: Loop, state: Mapping[str, Any]) -> str:
    """After think: the end, the action, or another reply where the last one was sent back."""
    if state.get(loop.end_key):
        return END
    return "act" if state.get(loop.action_key) is not None else "think"


def route_after_observe(loop: Loop, state: Mapping[str, Any]) -> str:
    """After observe: the end, or on."""
    return END if state.get(loop.end_key) else "think"


def loop_graph(
    loop: type[ModelLoop[Any]],
    loop_of: Callable[[Any], ModelLoop[Any]],
    fresh: Callable[[], Mapping[str, Any]],
    *,
    name: str,
    schemas: tuple[type, type],
) -> CompiledStateGraph[Any, None, Any, Any]:
    """The loop as a graph: begin, think, act, observe.

    Parameters
    ----------
    loop_of
        Makes the loop of a state, and checks what a host gave.
    fresh
        A new state: a thread may have earlier work.
    schemas
        Of the state and of the input.
    """
    state, inputs = schemas
    graph: Any = StateGraph(state, input_schema=inputs)

    def begin(state: Any) -> Any:
        return {**fresh(), **loop_of({**state}).kept()}

    def node(step: str) -> Callable[[Any], Any]:
        def run(state: Any) -> Any:
            work = loop_of(state)
            return {**getattr(work, step)(state), **work.kept()}

        return run

    graph.add_node("begin", begin, input_schema=inputs)
    for step in ("think", "act", "observe"):
        graph.add_node(step, node(step), input_schema=state)
    graph.add_edge(START, "begin")
    graph.add_edge("begin", "think")
    graph.add_conditional_edges("think", lambda state: route_after_think(loop, state), ["act", "think", END])
    graph.add_edge("act", "observe")
    graph.add_conditional_edges("observe", lambda state: route_after_observe(loop, state), ["think", END])
    return compile_graph(graph, name)


def scratch_context(
    state: Mapping[str, Any],
    opened: OpenResources,
    rules_of: Callable[[View], Rulebook],
    *also: str,
    cash: float,
    trades: bool,
) -> ToolContext:
    """The context of a state: its view and account; ``trades`` gives it a market of its own."""
    view = view_of(state, opened.store, opened.settings.news_until, *also)
    account, rules = host_account(state, cash=cash), rules_of(view)
    market = Session.at_open(view, account, rules) if trades else None
    return ToolContext(view, account, rules, code=opened.runner, session=market)


def asking(
    model: BaseChatModel, tools: Iterable[Any] = (), read: Callable[[AIMessage], AIMessage] | None = None
) -> Ask:
    """Ask a model to which these tools are bound; ``read`` makes of its reply what is worked with."""
    offered = list(tools)
    bound: Any = model.bind_tools(offered) if offered else model

    def ask(messages: Sequence[AnyMessage]) -> AIMessage:
        reply: AIMessage = bound.invoke(list(messages))
        return read(reply) if read else reply

    return ask


def ends_session(error: QuantGraphError) -> bool:
    """Whether an error is a spent budget of the session; that of the run ends the run."""
    return isinstance(error, BudgetExceeded) and error.data.get("of") == "session"


def allowed_tool(
    name: str,
    args: Mapping[str, Any],
    tools: Mapping[str, BaseTool],
    *,
    made: list[str],
    most: int,
    again: str,
) -> BaseTool:
    """The tool of a call that may be made; it is added to the calls that were ``made``.

    Raises
    ------
    BadOption
        If there is no such tool.
    NoProgress
        If the same call was made as often as is allowed; ``again`` says so.
    """
    wanted = call_key(name, args)
    if made.count(wanted) >= most:
        raise NoProgress(again.format(name=name, most=most))
    if name not in tools:
        known = ", ".join(each for each in tools if each != "place_order")  # in JSON it is the decision
        raise BadOption(f"there is no tool {name!r:.80}; there is {known}")
    made.append(wanted)
    return tools[name]


def call_key(name: str, args: Mapping[str, Any]) -> str:
    """What two equal calls have in common."""
    return canonical_json([name, args])


def shortened_conversation(
    messages: Sequence[AnyMessage],
    limit: int,
    order: Iterable[int],
    short: Callable[[AnyMessage], AnyMessage],
) -> list[AnyMessage]:
    """A conversation of at most so many characters, where that is possible: messages shortened in order."""
    kept = list(messages)
    over = sum(map(_length, kept)) - limit
    for place in order:
        if over <= 0:
            break
        before = kept[place]
        kept[place] = short(before)
        over += _length(kept[place]) - _length(before)
    return kept


def _length(message: AnyMessage) -> int:
    calls = message.tool_calls if isinstance(message, AIMessage) else []
    return len(reply_text(message.content)) + sum(len(canonical_json(each["args"])) for each in calls)


def bar_closes(bars: Any) -> list[float]:
    """The closes that are numbers, of bars as a tool answers them; none if they are not a list."""
    rows = bars if isinstance(bars, list) else []
    numbers = [finite_number(row.get("close")) for row in rows if isinstance(row, Mapping)]
    return [each for each in numbers if each is not None]


def prompt_files(folder: Path, files: Mapping[str, str]) -> dict[str, str]:
    """The texts of prompt files by name."""
    return {name: (folder / file).read_text(encoding="utf-8") for name, file in files.items()}


_LONGEST_PROMPT = 100_000


def own_prompt(path: str, placeholders: Collection[str] = ()) -> str:
    """The text of a caller's prompt file, in which each placeholder must stand as ``{name}``.

    Raises
    ------
    BadOption
        If there is no such file, it is not UTF-8 text of 1 to 100,000 characters, or lacks a placeholder.
    """
    shown = f"prompt={path!r:.120}"
    try:
        text = Path(path).expanduser().read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise BadOption(f"{shown}; must be a text file in UTF-8 ({why})", parameter="prompt") from error
    wanted = [f"{{{name}}}" for name in placeholders]
    missing = [each for each in wanted if each not in text]
    if not text.strip() or len(text) > _LONGEST_PROMPT:
        raise BadOption(
            f"{shown}: it has {len(text.strip()):,} characters; must be 1 to {_LONGEST_PROMPT:,}",
            parameter="prompt",
        )
    if missing:
        valid = f"it lacks {', '.join(missing)}; must have {', '.join(wanted)}"
        raise BadOption(f"{shown}: {valid}", parameter="prompt")
    return text


_OF_THE_RUN = frozenset({"cash", "benchmark"})
"""Words of a plan that no decision can follow."""


def plan_text(
    context: DecisionContext, executes: Collection[str], symbol: str = "", *, with_rest: bool = True
) -> str:
    """The trade plan in words for a model: what code carries out, what is left to it, what code sells now.

    ``executes`` are the words that are carried out, ``with_rest`` tells the others, too; sales are of all
    symbols or of one. "" without any.
    """
    language = context.language
    words = {name: value for name, value in context.plan.to_json().items() if name not in _OF_THE_RUN}
    by_code, left = (
        plan_words({name: value for name, value in words.items() if (name in executes) == is_done}, language)
        for is_done in (True, False)
    )
    sold = dict.fromkeys(each.symbol for each in context.exits if symbol in ("", each.symbol))
    parts = [
        (by_code, say(language, zh="由代码执行：", en="carried out by code: ")),
        (left if with_rest else [], say(language, zh="由你遵守：", en="yours to follow: ")),
        (
            sold,
            say(
                language,
                zh="这次开盘已由代码卖出，不要再卖：",
                en="sold by code at this open, do not sell again: ",
            ),
        ),
    ]
    return say(language, zh="；", en="; ").join(f"{who}{', '.join(what)}" for what, who in parts if what)


def log_step(
    context: DecisionContext,
    step: int,
    action_type: str,
    action: Mapping[str, Any],
    result: Any,
    *,
    name: str,
    symbol: str,
) -> None:
    """Keep a step of a decision in the run's execution log, under the rule's name."""
    moment = context.view.moment
    context.log_step(
        LoggedStep(
            rule_name=name,
            rule=context.rule,
            symbol=symbol,
            session=moment.session,
            step=step,
            action_type=action_type,
            action=action,
            result=result,
            timestamp=moment.timestamp.isoformat(),
        )
    )


class Memos:
    """What a decider has read of each run's past.

    The lock guards the table: threads may trade runs at the same time.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._memos: WeakKeyDictionary[GrowingViewId, EpisodeMemo] = WeakKeyDictionary()

    def of(self, run: GrowingViewId) -> EpisodeMemo:
        """That of a run."""
        with self._lock:
            return self._memos.setdefault(run, EpisodeMemo())
