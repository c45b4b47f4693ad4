"""The main graph: from a sentence to a signal, and from the signal to trades, session by session."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph

from quantgraph.agents import SignalRule
from quantgraph.broker.account import Account
from quantgraph.broker.decider import Decider, check_decider
from quantgraph.broker.ledger import Ledger
from quantgraph.broker.valuation import MarkAt
from quantgraph.data import MarketDataSource
from quantgraph.errors import BadOption
from quantgraph.llm.models import Model
from quantgraph.market.rulebook import Rulebook
from quantgraph.nodes import (
    TradingResources,
    TradingState,
    approve_node,
    begin_node,
    daily_loop_node,
    decision_node,
    propose_node,
    report_node,
    route_after_approve,
    route_after_daily_loop,
    route_after_decision,
    route_after_propose,
)
from quantgraph.nodes.trading_resources import run_database_path
from quantgraph.recording import Recorder
from quantgraph.runtime.nested_graphs import STEP_LIMIT
from quantgraph.runtime.questions import OnClarify
from quantgraph.runtime.run_node import run_node
from quantgraph.sandbox import CodeRunner
from quantgraph.settings import Settings, load_settings
from quantgraph.state import DataState
from quantgraph.subgraphs.signal import SignalResources, build_signal_graph, build_signal_resources

__all__ = ["build_trading_graph", "create_trading_graph", "route_after_signal"]

TradingGraph = StateGraph[TradingState, None, TradingState, TradingState]
CompiledTradingGraph = CompiledStateGraph[TradingState, None, TradingState, TradingState]


def create_trading_graph(
    *,
    model: Model | None = None,
    source: str | Path | MarketDataSource | None = None,
    decider: Decider | None = None,
    cash: Decimal | float | str = 1_000_000,
    rules: Rulebook | None = None,
    mark_at: MarkAt = "close",
    ledger: Ledger | str | Path | None = None,
    store: DataState | None = None,
    runner: CodeRunner | None = None,
    on_clarify: OnClarify = "ask",
    approve: bool = False,
    recorder: Recorder | None = None,
    settings: Settings | None = None,
    checkpointer: BaseCheckpointSaver[Any] | None = None,
) -> CompiledTradingGraph:
    """Compiled main graph; works without arguments, and without a key or a network.

    Parameters
    ----------
    decider
        Turns signals into orders. Default: :class:`~quantgraph.agents.SignalRule`.
    cash
        Initial cash, in the market's currency.
    rules
        The market's rules and fees. Default: mainland China's, by date.
    mark_at
        Whether holdings are valued at each session's ``close`` or ``open``.
    ledger
        A ledger, or the file or database URL of one. Default: ``<runs_dir>/<run_id>/ledger.sqlite``.
    approve
        Whether each session's orders need approval before they are sent: a question of the kind ``approval``,
        asked as ``on_clarify`` says. Orders not approved are rejected as ``not_approved`` in the ledger, and
        the run goes on. With ``on_clarify="default"`` no order is sent; ``fail`` ends with ``needs_answer``
        at the first question.
    recorder
        Records model calls, tool results and answers. Default: in the ledger's database.
    model, source, store, runner, on_clarify, settings, checkpointer
        As in :func:`~quantgraph.subgraphs.signal.create_signal_subgraph`.

    Raises
    ------
    BadOption
        If an argument is invalid.
    """
    _check_arguments(rules, decider, mark_at)
    settings = settings or load_settings()
    book = _ledger(ledger)
    recorder = recorder or Recorder(
        book.where if book else lambda run_id: run_database_path(settings.runs_dir, run_id)
    )
    signal_resources = build_signal_resources(
        model=model,
        source=source,
        store=store,
        runner=runner,
        on_clarify=on_clarify,
        recorder=recorder,
        settings=settings,
    )
    rules = rules or Rulebook.mainland()
    trading_resources = TradingResources(
        store=signal_resources.store,
        decider=decider or SignalRule(),
        rules=rules,
        cash=_positive(cash),
        runs_dir=settings.runs_dir,
        mark_at=mark_at,
        model=model,
        settings=settings,
        ledger=book,
        source=signal_resources.source,
        recorder=recorder,
        approve=approve,
        on_clarify=signal_resources.on_clarify,
    )
    compiled = build_trading_graph(signal_resources, trading_resources).compile(
        checkpointer=checkpointer, name="trading"
    )
    return compiled.with_config({"recursion_limit": STEP_LIMIT})


def build_trading_graph(
    signal_resources: SignalResources, trading_resources: TradingResources
) -> TradingGraph:
    """Return the uncompiled graph, for hosts that add nodes or compile it differently."""

    def bound(node: Callable[..., dict[str, Any]], name: str) -> Any:
        return partial(
            run_node, partial(_closed_on_error, node, trading_resources), name, trading_resources.recorder
        )

    graph: TradingGraph = StateGraph(TradingState)
    graph.add_node("signal", build_signal_graph(signal_resources).compile(name="signal"))
    graph.add_node("daily_loop", bound(daily_loop_node, "daily_loop"), input_schema=TradingState)
    graph.add_node("decision", bound(decision_node, "decision"), input_schema=TradingState)
    graph.add_node("report", bound(report_node, "report"), input_schema=TradingState)
    graph.add_node("begin", begin_node, input_schema=TradingState)
    graph.add_edge(START, "begin")
    graph.add_edge("begin", "signal")
    graph.add_conditional_edges("signal", route_after_signal, ["daily_loop", END])
    graph.add_conditional_edges(
        "daily_loop",
        route_after_daily_loop,
        {"decision": "propose" if trading_resources.approve else "decision", "report": "report", END: END},
    )
    if trading_resources.approve:
        graph.add_node("propose", bound(propose_node, "propose"), input_schema=TradingState)
        graph.add_node("approve", bound(approve_node, "approve"), input_schema=TradingState)
        graph.add_conditional_edges("propose", route_after_propose, ["approve", "decision", "report"])
        graph.add_conditional_edges("approve", route_after_approve, ["decision", "report"])
    graph.add_conditional_edges("decision", route_after_decision, ["daily_loop", "report"])
    graph.add_edge("report", END)
    return graph


def _check_arguments(rules: object, decider: object, mark_at: str) -> None:
    if not isinstance(rules, Rulebook | None):
        raise BadOption(
            f"rules must be a Rulebook, such as Rulebook.mainland() or Rulebook.us(), not {rules!r}",
            parameter="rules",
        )
    if decider is not None:
        check_decider(decider)
    if mark_at not in get_args(MarkAt):
        raise BadOption(f"mark_at must be 'close' or 'open', not {mark_at!r}", parameter="mark_at")


def _ledger(where: Ledger | str | Path | None) -> Ledger | None:
    if not isinstance(where, Ledger | str | Path | None):
        raise BadOption(
            f"ledger must be a Ledger, or the file or database URL of one, not {where!r}", parameter="ledger"
        )
    return Ledger(where) if isinstance(where, str | Path) else where


def _positive(cash: Decimal | float | str) -> Decimal:
    amount = Account.opening(cash).cash
    if amount <= 0:
        raise BadOption(f"cash must be above 0, not {cash}", parameter="cash")
    return amount


def _closed_on_error(
    node: Callable[..., dict[str, Any]], resources: TradingResources, state: TradingState
) -> dict[str, Any]:
    """Run a node; if it raises, close the run's ledger."""
    try:
        return node(state, resources=resources)
    except BaseException:
        resources.close(state.get("run_id", ""))
        raise


def route_after_signal(state: TradingState) -> Literal["daily_loop", "__end__"]:
    """After the signal subgraph: trade a validated signal; else end."""
    ready = state.get("ended_because") == "done" and state.get("signal_ready")
    return "daily_loop" if ready else "__end__"
