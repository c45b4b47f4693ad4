"""The main graph: from a sentence to a signal, and from the signal to trades, session by session."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import partial
from typing import Any, Literal

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph

from quantgraph.agents import as_decider
from quantgraph.broker import Decider, TradePlan
from quantgraph.broker.accounts import MarkAt
from quantgraph.data import SourceLike
from quantgraph.graph._approval import approve_node, propose_node, route_after_approve, route_after_propose
from quantgraph.graph._loop import (
    begin_node,
    daily_loop_node,
    decision_node,
    given_data_node,
    route_after_begin,
    route_after_daily_loop,
    route_after_decision,
)
from quantgraph.graph._report import report_node
from quantgraph.graph._state import TradingState
from quantgraph.graph._trading import Trading, make_trading
from quantgraph.llm import Model
from quantgraph.market import Rulebook
from quantgraph.runtime import STEP_LIMIT, Resources, as_node, compile_graph, merge_resources
from quantgraph.runtime.dialogue import OnClarify, QuestionForm
from quantgraph.runtime.endings import check_unedited, was_thanked
from quantgraph.settings import Settings
from quantgraph.subgraphs.signal import build_signal_graph

TradingGraph = StateGraph[TradingState, None, TradingState, TradingState]
CompiledTradingGraph = CompiledStateGraph[TradingState, None, Any, TradingState]


def create_trading_graph(
    *,
    model: Model | None = None,
    source: SourceLike | None = None,
    decider: Decider | str | None = None,
    cash: Decimal | float | str | None = None,
    rules: Rulebook | None = None,
    mark_at: MarkAt = "close",
    plan: TradePlan | None = None,
    on_clarify: OnClarify | None = None,
    questions: QuestionForm | None = None,
    approve: bool = False,
    checkpointer: BaseCheckpointSaver[Any] | None = None,
    settings: Settings | None = None,
    resources: Resources | None = None,
) -> CompiledTradingGraph:
    """Compiled main graph; works without arguments, and without a key or a network.

    A step of its loop trades up to 128 sessions while the decider has a block rule, else one. A run can be
    stopped and resumed between steps. Whole sessions enter the ledger.

    Parameters
    ----------
    model, source, decider, on_clarify, questions, checkpointer, settings
        See :class:`~quantgraph.runtime.Resources`. A decider may be its name, see
        :func:`~quantgraph.agents.make_decider`.
    cash
        Initial cash, in the market's currency. Default: the sentence's, else 1,000,000.
    rules
        The market's rules and fees, by date. Default: by the codes in the files or frames of
        the source, mainland China's if they do not tell.
    mark_at
        Whether holdings are valued at each session's ``close`` or ``open``.
    plan
        How positions end, beside what the decider orders: stops, a target, a holding time.
    approve
        Whether each session's orders need approval before they are sent: a question of the kind ``approval``,
        asked as ``on_clarify`` says. Orders not approved are rejected as ``not_approved`` in the ledger, and
        the run goes on. With ``on_clarify="default"`` no order is sent; ``fail`` ends with ``needs_answer``
        at the first question.
    resources
        The live objects in one, such as store, ledger and recorder.

    Raises
    ------
    BadOption
        If an argument is invalid, or passed twice.
    """
    resources = merge_resources(
        resources,
        model=model,
        source=source,
        decider=as_decider(decider),
        on_clarify=on_clarify,
        questions=questions,
        checkpointer=checkpointer,
        settings=settings,
    )
    trading = make_trading(resources, rules=rules, cash=cash, mark_at=mark_at, plan=plan, approve=approve)
    return compile_trading_graph(build_trading_graph(trading), checkpointer=resources.checkpointer)


def compile_trading_graph(
    graph: TradingGraph, *, checkpointer: BaseCheckpointSaver[Any] | None = None
) -> CompiledTradingGraph:
    """Compile the graph, with a step limit that leaves the daily loop to its own limits."""
    compiled = compile_graph(graph, "trading", checkpointer=checkpointer)
    return compiled.with_config({"recursion_limit": STEP_LIMIT})


def build_trading_graph(
    trading: Trading, *, schemas: Mapping[str, type] | None = None, whole: bool = False
) -> TradingGraph:
    """Return the uncompiled graph, for hosts that add nodes or compile it differently.

    ``schemas`` are LangGraph's ``input_schema``, ``output_schema`` and ``context_schema``. A ``whole`` graph
    has the nodes of every decider and of approvals: a server has the threads of all assistants in one graph.
    """

    def bound(node: Callable[..., dict[str, Any]], name: str) -> Any:
        step, recorder = partial(node, trading=trading), trading.resources.recorder
        return as_node(step, name, recorder, check_state=check_unedited, on_error=trading.close)

    makes_signal, approves = trading.resources.makes_signal, trading.approve
    graph: TradingGraph = StateGraph(TradingState, **(schemas or {}))
    signal = build_signal_graph(trading.resources, check_symbols=trading.check_tradable)
    graph.add_node("signal", signal.compile(name="signal"))
    graph.add_node("daily_loop", bound(daily_loop_node, "daily_loop"), input_schema=TradingState)
    graph.add_node("decision", bound(decision_node, "decision"), input_schema=TradingState)
    graph.add_node("report", bound(report_node, "report"), input_schema=TradingState)
    begin = partial(begin_node, context=trading.context, for_page=trading.resources.asks_a_page)
    graph.add_node("begin", begin, input_schema=TradingState)
    graph.add_edge(START, "begin")
    after = route_after_signal if makes_signal else route_after_data
    graph.add_conditional_edges("signal", after, ["daily_loop", END])
    if whole or not makes_signal:
        graph.add_node("given_data", bound(given_data_node, "given_data"), input_schema=TradingState)
        graph.add_conditional_edges("given_data", after, ["daily_loop", END])
    if makes_signal:
        graph.add_edge("begin", "signal")
    else:
        graph.add_conditional_edges("begin", route_after_begin, ["given_data", "signal"])
    graph.add_conditional_edges(
        "daily_loop",
        route_after_daily_loop,
        {"decision": "propose" if approves else "decision", "report": "report", END: END},
    )
    if whole or approves:
        graph.add_node("propose", bound(propose_node, "propose"), input_schema=TradingState)
        graph.add_node("approve", bound(approve_node, "approve"), input_schema=TradingState)
        graph.add_conditional_edges("propose", route_after_propose, ["approve", "decision", "report"])
        graph.add_conditional_edges("approve", route_after_approve, ["decision", "report"])
    graph.add_conditional_edges("decision", route_after_decision, ["daily_loop", "report"])
    graph.add_edge("report", END)
    return graph


def route_after_signal(state: TradingState) -> Literal["daily_loop", "__end__"]:
    """After the signal subgraph: trade a validated signal; else end."""
    ready = state.get("ended_because") == "done" and state.get("signal_ready") and not was_thanked(state)
    return "daily_loop" if ready else "__end__"


def route_after_data(state: TradingState) -> Literal["daily_loop", "__end__"]:
    """After the data, if no signal is needed: trade validated data; else end."""
    ready = state.get("ended_because") == "done" and state.get("data_ready") and not was_thanked(state)
    return "daily_loop" if ready else "__end__"
