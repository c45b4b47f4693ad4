"""The main graph: from a sentence to a signal, and from the signal to trades, session by session."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from functools import partial
from typing import Any, Literal, get_args

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph

from quantgraph.agents import SignalRule, as_decider
from quantgraph.broker import Account, Decider, TradePlan, check_decider
from quantgraph.broker.accounts import MarkAt
from quantgraph.data import FrameSource, MarketDataSource, SourceLike, open_source
from quantgraph.data.symbols import rules_of
from quantgraph.errors import BadFile, BadOption
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
from quantgraph.graph._trading import Trading
from quantgraph.llm import Model
from quantgraph.market import Rulebook
from quantgraph.runtime import STEP_LIMIT, Resources, merge_resources, open_resources, run_node, shown_offline
from quantgraph.runtime.dialogue import EventsTransformer, OnClarify
from quantgraph.runtime.endings import was_thanked
from quantgraph.runtime.graph_state import check_version
from quantgraph.settings import Settings, load_settings
from quantgraph.subgraphs.signal import build_signal_graph

TradingGraph = StateGraph[TradingState, None, TradingState, TradingState]
CompiledTradingGraph = CompiledStateGraph[TradingState, None, TradingState, TradingState]


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
    model, source, decider, on_clarify, checkpointer, settings
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
        checkpointer=checkpointer,
        settings=settings,
    )
    _check_arguments(rules, resources.decider, mark_at, plan)
    trader, settings = resources.decider or SignalRule(), resources.settings or load_settings()
    market = open_source(resources.source, settings=settings)
    book = rules or _rules_of(market)
    market = market.of_market(book.market) if isinstance(market, FrameSource) else market
    resources = replace(resources, decider=trader, source=market, settings=settings)
    trading = Trading(
        resources=open_resources(resources, in_run_folders=True),
        decider=trader,
        rules=book,
        cash=None if cash is None else _positive(cash),
        mark_at=mark_at,
        plan=plan or TradePlan(),
        approve=approve,
    )
    compiled = build_trading_graph(trading).compile(
        checkpointer=resources.checkpointer, name="trading", transformers=[EventsTransformer]
    )
    return shown_offline(compiled.with_config({"recursion_limit": STEP_LIMIT}))


def _rules_of(source: MarketDataSource) -> Rulebook:
    try:
        return rules_of(source)
    except BadFile:  # the run that reads it says so
        return Rulebook.mainland()


def build_trading_graph(trading: Trading) -> TradingGraph:
    """Return the uncompiled graph, for hosts that add nodes or compile it differently."""

    def bound(node: Callable[..., dict[str, Any]], name: str) -> Any:
        step, recorder = partial(node, trading=trading), trading.resources.recorder
        check = None if name == "given_data" else check_version
        return partial(run_node, step, name, recorder, on_error=trading.close, check_state=check)

    graph: TradingGraph = StateGraph(TradingState)
    signal = build_signal_graph(trading.resources, check_symbols=trading.check_tradable)
    graph.add_node("signal", signal.compile(name="signal"))
    graph.add_node("daily_loop", bound(daily_loop_node, "daily_loop"), input_schema=TradingState)
    graph.add_node("decision", bound(decision_node, "decision"), input_schema=TradingState)
    graph.add_node("report", bound(report_node, "report"), input_schema=TradingState)
    graph.add_node("begin", begin_node, input_schema=TradingState)
    graph.add_edge(START, "begin")
    if trading.resources.makes_signal:
        graph.add_edge("begin", "signal")
        graph.add_conditional_edges("signal", route_after_signal, ["daily_loop", END])
    else:
        graph.add_node("given_data", bound(given_data_node, "given_data"), input_schema=TradingState)
        graph.add_conditional_edges("begin", route_after_begin, ["given_data", "signal"])
        for node in ("given_data", "signal"):
            graph.add_conditional_edges(node, route_after_data, ["daily_loop", END])
    graph.add_conditional_edges(
        "daily_loop",
        route_after_daily_loop,
        {"decision": "propose" if trading.approve else "decision", "report": "report", END: END},
    )
    if trading.approve:
        graph.add_node("propose", bound(propose_node, "propose"), input_schema=TradingState)
        graph.add_node("approve", bound(approve_node, "approve"), input_schema=TradingState)
        graph.add_conditional_edges("propose", route_after_propose, ["approve", "decision", "report"])
        graph.add_conditional_edges("approve", route_after_approve, ["decision", "report"])
    graph.add_conditional_edges("decision", route_after_decision, ["daily_loop", "report"])
    graph.add_edge("report", END)
    return graph


def _check_arguments(rules: object, decider: object, mark_at: str, plan: object) -> None:
    if not isinstance(plan, TradePlan | None):
        raise BadOption(
            f"plan must be a TradePlan, such as TradePlan(stop_loss=0.08), not {plan!r}", parameter="plan"
        )
    if not isinstance(rules, Rulebook | None):
        raise BadOption(
            f"rules must be a Rulebook, such as Rulebook.mainland() or Rulebook.us(), not {rules!r}",
            parameter="rules",
        )
    if decider is not None:
        check_decider(decider)
    if mark_at not in get_args(MarkAt):
        raise BadOption(f"mark_at must be 'close' or 'open', not {mark_at!r}", parameter="mark_at")


def _positive(cash: Decimal | float | str) -> Decimal:
    amount = Account.opening(cash).cash
    if amount <= 0:
        raise BadOption(f"cash must be above 0, not {cash}", parameter="cash")
    return amount


def route_after_signal(state: TradingState) -> Literal["daily_loop", "__end__"]:
    """After the signal subgraph: trade a validated signal; else end."""
    ready = state.get("ended_because") == "done" and state.get("signal_ready") and not was_thanked(state)
    return "daily_loop" if ready else "__end__"


def route_after_data(state: TradingState) -> Literal["daily_loop", "__end__"]:
    """After the data, if no signal is needed: trade validated data; else end."""
    ready = state.get("ended_because") == "done" and state.get("data_ready") and not was_thanked(state)
    return "daily_loop" if ready else "__end__"
