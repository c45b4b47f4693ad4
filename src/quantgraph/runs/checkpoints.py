"""Where a run's graph stands: checkpoints in its folder, or a saver of the caller's."""

from __future__ import annotations

import copy
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.sqlite import SqliteSaver

from quantgraph._util.database import storage_error
from quantgraph.errors import BadFile

__all__ = ["open_checkpointer", "last_thread", "next_thread"]

CHECKPOINTS_FILE = "checkpoints.sqlite"
_BUSY_SECONDS = 60

T = TypeVar("T")
Saver = BaseCheckpointSaver[Any]


@contextmanager
def open_checkpointer(folder: Path, saver: Saver | None) -> Iterator[Saver]:
    """The caller's saver, or one in the folder that is closed afterwards.

    Raises
    ------
    BadFile
        If the folder's is no database.
    StorageUnavailable
        Here and later from the saver, if its database cannot be reached or written.
    """
    if saver is not None:
        yield _telling(saver, f"the {type(saver).__name__} of the run")
        return
    path = folder / CHECKPOINTS_FILE
    with _told(path):
        connection = sqlite3.connect(path, check_same_thread=False, timeout=_BUSY_SECONDS)
    with closing(connection):
        own = SqliteSaver(connection)
        with _told(path):
            # A power cut may take the last checkpoints: the record and the ledger make good for them.
            connection.execute("PRAGMA synchronous=NORMAL").close()
            own.setup()
        yield _telling(own, path)


def _telling(saver: Saver, place: object) -> Saver:
    """The saver, whose database's errors become ours; LangGraph sees the parameters of its own methods."""

    def told(method: Callable[..., T]) -> Callable[..., T]:
        @wraps(method)
        def call(*args: Any, **kwargs: Any) -> T:
            with _told(place):
                return method(*args, **kwargs)

        return call

    kind, telling = type(saver), copy.copy(saver)
    methods = {name: told(getattr(kind, name)) for name in ("get_tuple", "put", "put_writes")}
    telling.__class__ = type(kind.__name__, (kind,), methods)
    return telling


@contextmanager
def _told(place: object) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        if unavailable := storage_error(error, place):
            raise unavailable from error
        if not isinstance(error, sqlite3.DatabaseError) or isinstance(error, sqlite3.ProgrammingError):
            raise  # a mistake, such as a connection that was closed
        raise BadFile(
            f"{place} cannot be read: {error}; without the file the run goes on from its record",
            file=str(place),
        ) from error


def last_thread(saver: Saver, run_id: str) -> str | None:
    """The thread that the run stands on, None if it has no checkpoint."""
    thread = None
    while _begun(saver, following := next_thread(run_id, thread)):
        thread = following
    return thread


def next_thread(run_id: str, thread: str | None) -> str:
    """The thread on which a run is begun (anew): ``run``, ``run#2``, ``run#3``."""
    if thread is None:
        return run_id
    before = int(thread.removeprefix(run_id).removeprefix("#") or 1)
    return f"{run_id}#{before + 1}"


def _begun(saver: Saver, thread: str) -> bool:
    return saver.get_tuple({"configurable": {"thread_id": thread, "checkpoint_ns": ""}}) is not None
