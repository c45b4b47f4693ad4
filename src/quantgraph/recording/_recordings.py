"""The database table of recordings, beside the ledger.

The recordings of a graph's runs: one for each run, which finds recorded answers and adds new ones.
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

from sqlalchemy import (
    Boolean,
    Column,
    ColumnElement,
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
from quantgraph.errors import BadFile, QuantGraphError, StorageUnavailable
from quantgraph.recording._budget import Budget, BudgetTracker
from quantgraph.recording._entries import (
    GROWN,
    GROWN_REQUEST,
    RESTART_PATH,
    Entry,
    Key,
    Kind,
    ReplayLookup,
    error_json,
    error_of,
    without_number,
)

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
    """One run's rows in the recordings' table, created if absent. Safe to use from several threads.

    An added line survives the end of the process. In SQLite it survives a loss of power once the ledger
    beside it has committed, or after SQLite's next checkpoint: a flush for each line would cost several
    milliseconds on common disks. Reading a line that was changed by hand raises ``BadFile``.
    """

    def __init__(self, where: str | Path, run_id: str, *, read_only: bool = False) -> None:
        self._run_id, self._is_of_run = run_id, recording.c.run_id == run_id
        self._engine = open_engine(where, flush=False, reads=SCHEMA if read_only else None)
        self._writer = self._engine.execution_options(quantgraph_writes=True)
        self._lock = threading.Lock()  # lines are numbered consecutively
        self._index: _Index | None = None
        self._insert = insert(recording)
        create_tables(self._engine, SCHEMA)

    def close(self) -> None:
        """Close all connections; the next use opens them and reads the table again."""
        with self._lock:
            self._index = None
        self._engine.dispose()

    def find(self, key: Key) -> Entry | None:
        """Return the last final entry of a key; None if there is none."""
        if key.seq not in self.numbers(key):
            return None
        columns = recording.c
        return self._last(
            columns.digest == key.digest,
            columns.path == key.path,
            columns.seq == key.seq,
            columns.kind == key.kind,
        )

    def numbers(self, key: Key) -> list[int]:
        """Return the numbers under which a path's request was answered, ascending."""
        with self._lock:
            return sorted(self._read_index().answered.get(without_number(key), ()))

    def last(self, kind: Kind, digest: str) -> Entry | None:
        """Return the last final entry of a request, at any path; None if there is none."""
        return self._last(recording.c.digest == digest, recording.c.kind == kind)

    def times(self, kind: Kind, digest: str) -> int:
        """Count the final entries of a request, at any path."""
        return self._count(recording.c.digest == digest, recording.c.kind == kind, recording.c.final)

    def cached(self) -> int:
        """Count the replies that came from a cache."""
        return self._count(recording.c.cached)

    def add(self, entry: Entry) -> None:
        """Add an entry as the run's next line, in one transaction."""
        with self._lock:
            index = self._read_index()
            with self._writer.begin() as connection:
                connection.execute(self._insert, _row(self._run_id, index.last + 1, entry))
            index.last += 1
            index.add(entry.key, final=entry.final, session=entry.session)

    def entries(self) -> Iterator[Entry]:
        """Return all entries, in order."""
        query = select(recording).where(self._is_of_run).order_by(recording.c.line)
        with self._engine.connect() as connection:
            rows = connection.execute(query).all()
        return map(_entry, rows)

    def content(self, lines: int | None = None) -> tuple[int, str]:
        """Return the number of lines, at most ``lines``, and the hash of their content."""
        query = select(recording).where(self._is_of_run).order_by(recording.c.line).limit(lines)
        with self._engine.connect() as connection:
            rows = connection.execution_options(yield_per=_BATCH).execute(query)
            hashes = [content_hash(canonical_json(list(row))) for row in rows]
        return len(hashes), content_hash(*hashes)

    def _last(self, *conditions: ColumnElement[bool]) -> Entry | None:
        query = select(recording).where(self._is_of_run, recording.c.final, *conditions)
        with self._engine.connect() as connection:
            row = connection.execute(query.order_by(recording.c.line.desc()).limit(1)).first()
        return None if row is None else _entry(row)

    def _count(self, *conditions: ColumnElement[bool]) -> int:
        query = select(func.count()).select_from(recording).where(self._is_of_run, *conditions)
        with self._engine.connect() as connection:
            return connection.execute(query).scalar_one()

    def _read_index(self) -> _Index:
        """Return the index, read once. The caller holds the lock while using it."""
        if self._index is None:
            columns = recording.c
            key = columns.path, columns.seq, columns.kind, columns.digest
            query = select(columns.line, columns.final, columns.session, *key).where(self._is_of_run)
            self._index = _Index()
            with self._engine.connect() as connection:
                for row in connection.execute(query.order_by(columns.line)):
                    self._index.last = row.line
                    self._index.add(Key(*row[3:]), final=row.final, session=row.session)
        return self._index


@dataclass
class _Index:
    """The last line, and the numbers under which each request was answered: a new request needs no query."""

    last: int = 0
    answered: defaultdict[Key, set[int]] = field(default_factory=lambda: defaultdict(set))
    of_data: set[Key] = field(default_factory=set)
    """What was asked of the source, by tools and by code, before sessions are traded."""

    def add(self, key: Key, *, final: bool, session: str | None) -> None:
        """Take an entry in; after the data have grown what was asked of them is asked anew."""
        if (key.path, key.digest) == (RESTART_PATH, GROWN):
            for asked in self.of_data:
                self.answered.pop(asked, None)
            self.of_data.clear()
        elif final:
            self.answered[without_number(key)].add(key.seq)
            if session is None and key.kind in ("source", "tool", "code"):
                self.of_data.add(without_number(key))


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
        _parse(row, name)  # here, where no caller takes its error for a recorded one
    if row.kind not in get_args(Kind):
        raise _damage(row, f"kind must be one of {', '.join(get_args(Kind))}, not {row.kind!r:.40}")
    return Entry(
        key=Key(row.path, row.seq, row.kind, row.digest),
        request=row.request,
        attempt=row.attempt,
        final=row.final,
        reply=row.reply,
        error=_parse(row, "error"),
        session=row.session,
        at=row.at,
        facts={name: value for name, value in facts.items() if value is not None},
    )


def _parse(row: Row[Any], name: str) -> Any:
    text = getattr(row, name)
    try:
        value = None if text is None else json.loads(text)
        if value is not None and name == "error":
            error_of(value)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        expected = "an error of quantgraph" if name == "error" else "JSON"
        raise _damage(row, f"its {name} {text!r:.40} is not {expected}") from error
    return value


def _damage(row: Row[Any], what: str) -> BadFile:
    return BadFile(
        f"the record of run {row.run_id!r} was changed at line {row.line} ({row.path} number {row.seq}): "
        f"{what}",
        run_id=row.run_id,
        line=row.line,
    )


T = TypeVar("T")

Mode = Literal["record", "replay"]
"""``record``: recorded answers are served, other requests are made and added. ``replay``: none is made."""

PASSING_ERRORS = frozenset(
    {"model_unavailable", "source_unavailable", "rate_limited", "not_configured", "permission_denied",
     "budget_exceeded", "code_unavailable", "sandbox_weak", "unknown_commit", "no_data"}
)  # fmt: skip
"""Codes of errors that may have passed when a run is resumed: only a replay is served them."""

_MAX_OPEN = 256
"""Recordings that a recorder keeps open."""


class Recording:
    """The recording of one run. Safe to use from several threads.

    Parameters
    ----------
    run_id
        The run's id.
    where
        A file or database URL that keeps the entries; None keeps none, and every request is made.
    mode
        See :data:`Mode`.
    budget, session_budget
        Limits of its model calls, over the run and in each session.
    read_only
        Whether nothing is added, and the file may be anybody's.

    Attributes
    ----------
    budget_tracker
        Usage and limits of its model calls, in this process and before.
    replay_lookup
        The entries that a replay is served; None in the mode ``record``.
    memory
        A cache for callers that read the same answers often; closing clears it.
    """

    def __init__(
        self,
        run_id: str,
        where: str | Path | None = None,
        *,
        mode: Mode = "record",
        budget: Budget | None = None,
        session_budget: Budget | None = None,
        read_only: bool = False,
    ) -> None:
        self.run_id = run_id
        self.mode = mode
        self._table = None if where is None else RecordingTable(where, run_id, read_only=read_only)
        self.memory: dict[Any, Any] = {}
        before = list(self.entries())
        self.replay_lookup = ReplayLookup(before) if mode == "replay" else None
        self.budget_tracker = BudgetTracker(budget, session_budget, before)

    @property
    def replays(self) -> bool:
        """Whether no request is made at all."""
        return self.mode == "replay"

    def find(self, key: Key, request: str = "") -> Entry | None:
        """Return the last answer to a request; None if the request is to be made (again).

        Raises
        ------
        RunDiverged
            In a replay, if the request is not recorded; ``data`` has both sides.
        """
        if self.replay_lookup:
            return self.replay_lookup.find(key, request)
        entry = self._table.find(key) if self._table else None
        passing = entry is not None and entry.error is not None and entry.error["code"] in PASSING_ERRORS
        return None if passing else entry

    def numbers(self, key: Key) -> list[int]:
        """Return the numbers under which a path's request was answered, ascending."""
        if self.replay_lookup:
            return self.replay_lookup.numbers(key)
        return self._table.numbers(key) if self._table else []

    def add(self, entry: Entry) -> None:
        """Add an attempt after the recorded ones of the same key."""
        if self._table is not None:
            self._table.add(replace(entry, at=entry.at or datetime.now(UTC).isoformat()))

    def last(self, kind: Kind, digest: str) -> Entry | None:
        """Return the last entry of a request, at any path; None if there is none."""
        if self.replay_lookup:
            return self.replay_lookup.last(kind, digest)
        return self._table.last(kind, digest) if self._table else None

    def times(self, kind: Kind, digest: str) -> int:
        """Count the answers to a request so far, at any path."""
        return self._table.times(kind, digest) if self._table else 0

    def usage(self) -> list[dict[str, Any]]:
        """What its model calls took, see :meth:`BudgetTracker.usage`."""
        return self.budget_tracker.usage()

    def cached(self) -> int:
        """Count the replies from the cache of other runs."""
        return self._table.cached() if self._table else 0

    def entries(self) -> Iterator[Entry]:
        """Return the run's entries in the order in which they were added."""
        return self._table.entries() if self._table else iter(())

    def once(self, key: Key, request: str, ask: Callable[[], T], *, session: str | None = None) -> T:
        """Serve the answer, or call ``ask`` and add it, see :func:`~quantgraph.recording.scope.call_once`."""
        entry = self.find(key, request)
        if entry is not None:
            found: T = entry.outcome()
            return found
        try:
            answer = ask()
        except StorageUnavailable:
            raise  # not an answer: a resumed run asks again
        except QuantGraphError as error:
            self.add(Entry(key=key, request=request, error=error_json(error), session=session))
            raise
        text = canonical_json(answer, sort_keys=False)
        self.add(Entry(key=key, request=request, reply=text, session=session))
        made: T = json.loads(text)  # the same types as in a replay
        return made

    def happened(self, key: Key, request: str, now: Callable[[], bool]) -> bool:
        """Whether something happened, see :func:`~quantgraph.recording.scope.happened`."""
        if key.seq not in self.numbers(key) and (self.replay_lookup or not now()):
            return False
        return self.once(key, request, lambda: True)

    def content(self, lines: int | None = None) -> tuple[int, str]:
        """Return the number of lines, at most ``lines``, and the hash of their content."""
        return self._table.content(lines) if self._table else (0, content_hash(""))

    def mark_restart(self, *, grown: bool = False) -> None:
        """Mark a restart of the run: repeated requests are served, and it may take another course.

        If its data have ``grown``, what was asked of the source, by tools and by code before the first
        session is asked anew.
        """
        request = GROWN_REQUEST if grown else "{}"
        self.add(
            Entry(key=Key(RESTART_PATH, 0, "fact", content_hash(request)), request=request, reply="null")
        )

    def close(self) -> None:
        """Close the database; the next use opens it again."""
        self.memory.clear()
        if self._table is not None:
            self._table.close()


class Recorder:
    """Opens and keeps the recordings of a graph's runs.

    Parameters
    ----------
    where
        A file or database URL for all runs, or a function from a run's id to one; None records nothing.
    mode, budget, session_budget, read_only
        See :class:`Recording`; each run has budgets of its own.
    """

    def __init__(
        self,
        where: str | Path | Callable[[str], str | Path] | None = None,
        *,
        mode: Mode = "record",
        budget: Budget | None = None,
        session_budget: Budget | None = None,
        read_only: bool = False,
    ) -> None:
        self._where, self._read_only = where, read_only
        self._mode: Mode = mode
        self._budget = budget
        self._session_budget = session_budget
        self._open: OrderedDict[str, Recording] = OrderedDict()
        self._lock = threading.Lock()  # one recording for each run, whichever thread asks first

    def limit(self, budget: Budget, session_budget: Budget) -> None:
        """Set the budgets of runs that are opened from now on, unless they are set already."""
        self._budget = self._budget or budget
        self._session_budget = self._session_budget or session_budget

    def of(self, run_id: str) -> Recording:
        """Return the recording of a run; the first use opens it."""
        with self._lock:
            if run_id not in self._open:
                self._open[run_id] = Recording(
                    run_id,
                    self._where(run_id) if callable(self._where) else self._where,
                    mode=self._mode,
                    budget=self._budget,
                    session_budget=self._session_budget,
                    read_only=self._read_only,
                )
                if len(self._open) > _MAX_OPEN:
                    self._open.popitem(last=False)[1].close()
            self._open.move_to_end(run_id)
            return self._open[run_id]

    def close(self, run_id: str) -> None:
        """Close the recording of a run; the next use opens it again."""
        with self._lock:
            # A replay's recording knows what was used so far, so it is kept.
            recording = self._open.get(run_id) if self._mode == "replay" else self._open.pop(run_id, None)
        if recording is not None:
            recording.close()
