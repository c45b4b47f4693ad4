"""Where a run's graph stands: checkpoints in its folder, or a saver of the caller's."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.sqlite import SqliteSaver

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
    """
    if saver is not None:
        yield saver
        return
    connection = sqlite3.connect(folder / FILE, check_same_thread=False, timeout=_BUSY_SECONDS)
    with closing(connection):
        saver = SqliteSaver(connection)
        try:
            # A power cut may take the last checkpoints: the record and the ledger make good for them.
            connection.execute("PRAGMA synchronous=NORMAL").close()
            saver.setup()
        except sqlite3.DatabaseError as error:
            raise BadFile(
                f"{folder / FILE} cannot be read: {error}; without the file the run goes on from its record",
                file=str(folder / FILE),
            ) from error
        yield saver


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
