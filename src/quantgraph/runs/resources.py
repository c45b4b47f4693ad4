"""Resources of a run: the live objects that it works on, and its graph, opened and closed again."""

from __future__ import annotations

import copy
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.sqlite import SqliteSaver

from quantgraph._util.database import storage_error
from quantgraph.broker.decider import Decider
from quantgraph.broker.ledger import Ledger
from quantgraph.data import MarketDataSource
from quantgraph.errors import BadFile
from quantgraph.graph import create_trading_graph
from quantgraph.llm.models import Model
from quantgraph.nodes.trading_resources import run_database_path
from quantgraph.recording import Recorder
from quantgraph.recording.budget import Budget
from quantgraph.runs.specification import RunSpec
from quantgraph.runtime.questions import OnClarify
from quantgraph.sandbox import CodeRunner
from quantgraph.settings import Settings
from quantgraph.state import DataState
from quantgraph.subgraphs.signal import create_signal_subgraph

__all__ = ["CHECKPOINTS_FILE", "OpenRun", "Resources", "open_run"]

CHECKPOINTS_FILE = "checkpoints.sqlite"
_LOCK_TIMEOUT = 60

T = TypeVar("T")
Saver = BaseCheckpointSaver[Any]


@dataclass(frozen=True, kw_only=True)
class Resources:
    """The arguments of a run that are live objects.

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
    checkpointer: Saver | None = None
    ledger: str | Path | None = None
    decider: Decider | None = None
    runner: CodeRunner | None = None
    store: DataState | None = None
    recorder: Recorder | None = None


@dataclass(frozen=True, kw_only=True)
class OpenRun:
    """A compiled graph and what it works on."""

    graph: Any
    saver: Saver
    recorder: Recorder
    store: DataState


@contextmanager
def open_run(spec: RunSpec, run_id: str, folder: Path, resources: Resources) -> Iterator[OpenRun]:
    """Build the graph of a run in its folder, which must exist.

    Raises
    ------
    QuantGraphError
        If the specification or one of the resources is not valid.
    StorageUnavailable
        Here and later from the saver, if its database cannot be reached or written.
    """
    settings = resources.settings
    database_place = resources.ledger or run_database_path(folder.parent, folder.name)
    recorder = resources.recorder or Recorder(
        database_place,
        mode="replay" if spec.branch_from else "record",
        until=spec.branch_from or None,
        budget=Budget.parse(settings.budget),
        session_budget=Budget.parse(settings.session_budget),
    )
    store = resources.store or DataState(folder / "data")
    with ExitStack() as stack:
        stack.callback(recorder.close, run_id)
        saver = stack.enter_context(_open_checkpointer(folder, resources.checkpointer))
        arguments: dict[str, Any] = {
            "model": resources.model,
            "source": resources.source,
            "store": store,
            "runner": resources.runner,
            "settings": settings,
            "on_clarify": resources.on_clarify,
            "recorder": recorder,
            "checkpointer": saver,
        }
        graph: Any
        if spec.trade:
            graph = create_trading_graph(
                **arguments,
                cash=spec.cash,
                rules=spec.rules,
                approve=spec.approve,
                decider=resources.decider,
                ledger=stack.enter_context(Ledger(database_place)),
            )
        else:
            graph = create_signal_subgraph(**arguments)
        yield OpenRun(graph=graph, saver=saver, recorder=recorder, store=store)


@contextmanager
def _open_checkpointer(folder: Path, saver: Saver | None) -> Iterator[Saver]:
    """The caller's saver, or one in the folder that is closed afterwards.

    Raises
    ------
    BadFile
        If the file in the folder is not a database.
    """
    if saver is not None:
        yield _with_storage_errors(saver, f"the {type(saver).__name__} of the run")
        return
    path = folder / CHECKPOINTS_FILE
    with _storage_errors(path):
        connection = sqlite3.connect(path, check_same_thread=False, timeout=_LOCK_TIMEOUT)
    with closing(connection):
        own = SqliteSaver(connection)
        with _storage_errors(path):
            # A power cut may take the last checkpoints: the record and the ledger replace them.
            connection.execute("PRAGMA synchronous=NORMAL").close()
            own.setup()
        yield _with_storage_errors(own, path)


def _with_storage_errors(saver: Saver, place: object) -> Saver:
    """A copy of the saver that raises our errors; LangGraph still sees the parameters of its methods."""

    def wrapped(method: Callable[..., T]) -> Callable[..., T]:
        @wraps(method)
        def call(*args: Any, **kwargs: Any) -> T:
            with _storage_errors(place):
                return method(*args, **kwargs)

        return call

    kind, result = type(saver), copy.copy(saver)
    methods = {name: wrapped(getattr(kind, name)) for name in ("get_tuple", "put", "put_writes")}
    result.__class__ = type(kind.__name__, (kind,), methods)
    return result


@contextmanager
def _storage_errors(place: object) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        if unavailable := storage_error(error, place):
            raise unavailable from error
        if not isinstance(error, sqlite3.DatabaseError) or isinstance(error, sqlite3.ProgrammingError):
            raise  # a defect, such as a closed connection
        raise BadFile(
            f"{place} cannot be read: {error}; without the file the run goes on from its record",
            file=str(place),
        ) from error
