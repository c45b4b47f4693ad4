"""A run's graph with everything it works on, opened from its options and closed again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from langgraph.checkpoint.base import BaseCheckpointSaver

from quantgraph.broker.decider import Decider
from quantgraph.broker.ledger import Ledger
from quantgraph.data import MarketDataSource
from quantgraph.graph import create_trading_graph
from quantgraph.nodes.trading_resources import run_database_path
from quantgraph.recording import Recorder
from quantgraph.recording.budget import Budget
from quantgraph.runs.checkpoints import open_checkpointer
from quantgraph.runs.options import RunSpec
from quantgraph.sandbox import CodeRunner
from quantgraph.settings import Settings
from quantgraph.state import DataState
from quantgraph.subgraphs.signal import create_signal_subgraph
from quantgraph.llm.models import Model
from quantgraph.runtime.questions import OnClarify

__all__ = ["Resources", "OpenRun", "open_run"]


@dataclass(frozen=True, kw_only=True)
class Resources:
    """What a run needs and cannot be written down.

    Attributes
    ----------
    settings
        Those of this process; its budgets are the run's.
    checkpointer
        A saver of the caller's; None for one in the run's folder.
    ledger
        File or database URL of the ledger and the record; None for the file in the run's folder.
    decider, runner, store
        As in :func:`~quantgraph.graph.create_trading_graph`.
    recorder
        Where the run is recorded, or replayed from; None for the ledger's database.
    """

    settings: Settings
    source: MarketDataSource
    model: Model | None = None
    on_clarify: OnClarify = "default"
    checkpointer: BaseCheckpointSaver[Any] | None = None
    ledger: str | Path | None = None
    decider: Decider | None = None
    runner: CodeRunner | None = None
    store: DataState | None = None
    recorder: Recorder | None = None


@dataclass(frozen=True, kw_only=True)
class OpenRun:
    """A graph that can be run, and what it works on."""

    graph: Any
    saver: BaseCheckpointSaver[Any]
    recorder: Recorder
    store: DataState


@contextmanager
def open_run(options: RunSpec, run_id: str, folder: Path, handles: Resources) -> Iterator[OpenRun]:
    """Build the graph of a run in its folder, which is there.

    Raises
    ------
    QuantGraphError
        If one of the options or handles is no good.
    """
    settings = handles.settings
    where = handles.ledger or run_database_path(folder.parent, folder.name)
    recorder = handles.recorder or Recorder(
        where,
        mode="replay" if options.branch_from else "record",
        until=options.branch_from or None,
        budget=Budget.parse(settings.budget),
        session_budget=Budget.parse(settings.session_budget),
    )
    store = handles.store or DataState(folder / "data")
    with ExitStack() as closing:
        closing.callback(recorder.close, run_id)
        saver = closing.enter_context(open_checkpointer(folder, handles.checkpointer))
        given: dict[str, Any] = {
            "model": handles.model,
            "source": handles.source,
            "store": store,
            "runner": handles.runner,
            "settings": settings,
            "on_clarify": handles.on_clarify,
            "recorder": recorder,
            "checkpointer": saver,
        }
        graph: Any
        if options.trade:
            graph = create_trading_graph(
                **given,
                cash=options.cash,
                rules=options.rules,
                approve=options.approve,
                decider=handles.decider,
                ledger=closing.enter_context(Ledger(where)),
            )
        else:
            graph = create_signal_subgraph(**given)
        yield OpenRun(graph=graph, saver=saver, recorder=recorder, store=store)
