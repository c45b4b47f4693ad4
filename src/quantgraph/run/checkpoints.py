"""Where a run's graph stands: checkpoints in its folder, or a saver of the caller's."""

from __future__ import annotations

import copy
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
)
from langgraph.checkpoint.sqlite import SqliteSaver

from quantgraph._database import storage_error
from quantgraph.errors import BadFile

__all__ = ["checkpoints", "last_thread", "next_thread"]

FILE = "checkpoints.sqlite"
_BUSY_SECONDS = 60

Saver = BaseCheckpointSaver[Any]


@contextmanager
def checkpoints(folder: Path, saver: Saver | None) -> Iterator[Saver]:
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
    path = folder / FILE
    with _told(path):
        connection = sqlite3.connect(path, check_same_thread=False, timeout=_BUSY_SECONDS)
    with closing(connection):
        own = SqliteSaver(connection)
        with _told(path):
            # A power cut may take the last checkpoints: the record and the ledger make good for them.
            connection.execute("PRAGMA synchronous=NORMAL").close()
            own.setup()
        yield _telling(own, path)


class _Telling(BaseCheckpointSaver[Any]):
    """Put before a saver's own class: its database's errors become ours."""

    place: object

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        with _told(self.place):
            return super().get_tuple(config)

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        with _told(self.place):
            return super().put(config, checkpoint, metadata, new_versions)

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        with _told(self.place):
            super().put_writes(config, writes, task_id, task_path)


def _telling(saver: Saver, place: object) -> Saver:
    told = copy.copy(saver)
    told.__class__ = type(type(saver).__name__, (_Telling, type(saver)), {"place": place})
    return told


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
