"""LangGraph's store in a SQLite file, with its tables."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from langgraph.store.sqlite import SqliteStore


@contextmanager
def sqlite_store(path: Path) -> Iterator[SqliteStore]:
    """A store in a file that other stores may have open, too."""
    with SqliteStore.from_conn_string(str(path)) as store:
        store.setup()
        yield store
