"""The database table of recordings, beside the ledger."""

from __future__ import annotations

import json
import threading
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

from sqlalchemy import (
    Boolean,
    Column,
    Float,
    Integer,
    MetaData,
    Row,
    String,
    Table,
    Text,
    func,
    insert,
    select,
)

from quantgraph._util.canonical_json import canonical_json, content_hash
from quantgraph._util.database import create_tables, open_engine
from quantgraph.errors import BadFile
from quantgraph.recording.entry import Entry, Key, Kind, error_of, without_number

SCHEMA = MetaData()

recording = Table(
    "recording",
    SCHEMA,
    Column("run_id", String(200), primary_key=True),
    Column("line", Integer, primary_key=True, autoincrement=False),
    Column("path", String(400), nullable=False),
    Column("seq", Integer, nullable=False),
    Column("kind", String(10), nullable=False),
    Column("digest", String(32), nullable=False, index=True),
    Column("attempt", Integer, nullable=False),
    Column("final", Boolean, nullable=False),
    Column("session", String(10)),
    Column("at", String(40), nullable=False),
    Column("role", String(40)),
    Column("model", String(200)),
    Column("prompt_tokens", Integer),
    Column("completion_tokens", Integer),
    Column("cost", String(40)),
    Column("seconds", Float),
    Column("finish", String(40)),
    Column("cached", Boolean),
    Column("request", Text, nullable=False),
    Column("reply", Text),
    Column("error", Text),
)
"""One row for each attempt, in the order in which they ended."""

_BATCH = 500
"""Rows that are read at once."""

_FACTS = ("role", "model", "prompt_tokens", "completion_tokens", "cost", "seconds", "finish", "cached")


class RecordingTable:
    """The recordings' table of a database, created if absent. Safe to use from several threads.

    An added line survives the end of the process. In SQLite it survives a loss of power once the ledger
    beside it has committed, or after SQLite's next checkpoint: a flush for each line would cost several
    milliseconds on common disks. Reading a line that was changed by hand raises ``BadFile``.
    """

    def __init__(self, where: str | Path) -> None:
        self.engine = open_engine(where, flush=False)
        self._writer = self.engine.execution_options(quantgraph_writes=True)
        self._lock = threading.Lock()  # a run's lines are numbered consecutively
        self._runs: dict[str, _Index] = {}
        self._insert = insert(recording)
        create_tables(self.engine, SCHEMA)

    def close(self) -> None:
        """Close all connections; the next use opens them and reads the table again."""
        with self._lock:
            self._runs.clear()
        self.engine.dispose()

    def find(self, run_id: str, key: Key) -> Entry | None:
        """Return the last final entry of a key; None if there is none."""
        if key.seq not in self.numbers(run_id, key):
            return None
        columns = recording.c
        query = (
            select(recording)
            .where(
                columns.run_id == run_id,
                columns.digest == key.digest,
                columns.path == key.path,
                columns.seq == key.seq,
                columns.kind == key.kind,
                columns.final,
            )
            .order_by(columns.line.desc())
            .limit(1)
        )
        with self.engine.connect() as connection:
            row = connection.execute(query).first()
        return None if row is None else _entry(row)

    def numbers(self, run_id: str, key: Key) -> list[int]:
        """Return the numbers under which a path's request was answered, ascending."""
        with self._lock:
            return sorted(self._index(run_id).answered.get(without_number(key), ()))

    def last(self, run_id: str, kind: Kind, digest: str) -> Entry | None:
        """Return the last final entry of a request, at any path; None if there is none."""
        columns = recording.c
        query = (
            select(recording)
            .where(columns.run_id == run_id, columns.digest == digest, columns.kind == kind, columns.final)
            .order_by(columns.line.desc())
            .limit(1)
        )
        with self.engine.connect() as connection:
            row = connection.execute(query).first()
        return None if row is None else _entry(row)

    def times(self, run_id: str, kind: Kind, digest: str) -> int:
        """Count the final entries of a request, at any path."""
        columns = recording.c
        query = select(func.count()).where(
            columns.run_id == run_id, columns.digest == digest, columns.kind == kind, columns.final
        )
        with self.engine.connect() as connection:
            return connection.execute(query).scalar_one()

    def add(self, run_id: str, entry: Entry) -> None:
        """Add an entry as the run's next line, in one transaction."""
        with self._lock:
            index = self._index(run_id)
            with self._writer.begin() as connection:
                connection.execute(self._insert, _row(run_id, index.last + 1, entry))
            index.last += 1
            if entry.final:
                index.answered[without_number(entry.key)].add(entry.key.seq)

    def cached(self, run_id: str) -> int:
        """Count a run's replies that came from a cache."""
        query = select(func.count()).where(recording.c.run_id == run_id, recording.c.cached)
        with self.engine.connect() as connection:
            return connection.execute(query).scalar_one()

    def entries(self, run_id: str) -> Iterator[Entry]:
        """Return all entries of a run, in order."""
        query = select(recording).where(recording.c.run_id == run_id).order_by(recording.c.line)
        with self.engine.connect() as connection:
            rows = connection.execute(query).all()
        return map(_entry, rows)

    def content(self, run_id: str, lines: int | None = None) -> tuple[int, str]:
        """Return the number of a run's lines, at most ``lines``, and the hash of their content."""
        query = select(recording).where(recording.c.run_id == run_id).order_by(recording.c.line).limit(lines)
        with self.engine.connect() as connection:
            rows = connection.execution_options(yield_per=_BATCH).execute(query)
            hashes = [content_hash(canonical_json(list(row))) for row in rows]
        return len(hashes), content_hash(*hashes)

    def _index(self, run_id: str) -> _Index:
        """Return a run's index. The caller holds the lock while using it."""
        if run_id not in self._runs:
            columns = recording.c
            query = select(
                columns.line, columns.final, columns.path, columns.seq, columns.kind, columns.digest
            ).where(columns.run_id == run_id)
            with self.engine.connect() as connection:
                rows = connection.execute(query).all()
            index = _Index(max((row.line for row in rows), default=0))
            for row in rows:
                if row.final:
                    index.answered[without_number(Key(*row[2:]))].add(row.seq)
            self._runs[run_id] = index
        return self._runs[run_id]


@dataclass
class _Index:
    """A run's last line, and the numbers under which each request was answered.

    A new request so needs no query.
    """

    last: int
    answered: defaultdict[Key, set[int]] = field(default_factory=lambda: defaultdict(set))


def _row(run_id: str, line: int, entry: Entry) -> dict[str, Any]:
    return {
        "run_id": run_id,
        "line": line,
        **entry.key._asdict(),
        "attempt": entry.attempt,
        "final": entry.final,
        "session": entry.session,
        "at": entry.at,
        **{name: entry.facts.get(name) for name in _FACTS},
        "request": entry.request,
        "reply": entry.reply,
        "error": None if entry.error is None else canonical_json(entry.error),
    }


def _entry(row: Row[Any]) -> Entry:
    facts = {name: getattr(row, name) for name in _FACTS}
    for name in ("request", "reply"):
        _parsed(row, name)  # here, where no caller takes its error for a recorded one
    if row.kind not in get_args(Kind):
        raise _damaged(row, f"kind must be one of {', '.join(get_args(Kind))}, not {row.kind!r:.40}")
    return Entry(
        key=Key(row.path, row.seq, row.kind, row.digest),
        request=row.request,
        attempt=row.attempt,
        final=row.final,
        reply=row.reply,
        error=_parsed(row, "error"),
        session=row.session,
        at=row.at,
        facts={name: value for name, value in facts.items() if value is not None},
    )


def _parsed(row: Row[Any], name: str) -> Any:
    text = getattr(row, name)
    try:
        value = None if text is None else json.loads(text)
        if value is not None and name == "error":
            error_of(value)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        expected = "an error of quantgraph" if name == "error" else "JSON"
        raise _damaged(row, f"its {name} {text!r:.40} is not {expected}") from error
    return value


def _damaged(row: Row[Any], what: str) -> BadFile:
    return BadFile(
        f"the record of run {row.run_id!r} was changed at line {row.line} ({row.path} number {row.seq}): "
        f"{what}",
        run_id=row.run_id,
        line=row.line,
    )
