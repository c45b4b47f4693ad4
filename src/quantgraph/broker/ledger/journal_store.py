"""The journal's table in a database: read in order, appended to by one writer at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

from sqlalchemy import Column, Integer, MetaData, String, Table, Text, func, insert, select

from quantgraph._util.database import create_tables, open_engine
from quantgraph.broker.ledger.journal import DayLines, Stored, chain_hash
from quantgraph.errors import BadOption, LedgerConflict

RUN_ID_LENGTH = 200

SCHEMA = MetaData()

journal = Table(
    "journal",
    SCHEMA,
    Column("run_id", String(RUN_ID_LENGTH), primary_key=True),
    Column("line", Integer, primary_key=True, autoincrement=False),
    Column("session", String(10), nullable=False),
    Column("kind", String(10), nullable=False),
    Column("body", Text, nullable=False),
    Column("hash", String(32), nullable=False),
    sqlite_with_rowid=False,
)
"""One row per line. The primary key lets only one writer append a line to a run."""


OPENING = 2
"""Lines before the first session: the run and its deposit."""

_PARTITION = 10_000
"""Lines that are held in memory at a time, where many are read."""

_COLUMNS = ("run_id", "line", "session", "kind", "body", "hash")


class JournalStore:
    """A database with a journal, which is made if it does not exist."""

    def __init__(self, where: str | Path) -> None:
        self.engine = open_engine(where)
        self._writer = self.engine.execution_options(quantgraph_writes=True)
        # Compiled once: a session may have thousands of rows.
        statement = insert(journal).compile(dialect=self.engine.dialect)
        self._insert, self._positional = str(statement), statement.positional
        create_tables(self.engine, SCHEMA)

    def close(self) -> None:
        """Close all connections."""
        self.engine.dispose()

    def append(self, run_id: str, line: int, before: str, days: Sequence[DayLines]) -> tuple[int, str]:
        """Append the lines of sessions after ``line``, whose hash is ``before``, in one transaction.

        Returns the number of the last line, and its hash.

        Raises
        ------
        sqlalchemy.exc.IntegrityError
            If another writer was first.
        """
        rows = []
        for day in days:
            for kind, body in day.lines:
                line += 1
                before = chain_hash(before, line, day.session, kind, body)
                rows.append((run_id, line, day.session, kind, body, before))
        if rows:
            given = rows if self._positional else [dict(zip(_COLUMNS, row, strict=True)) for row in rows]
            with self._writer.begin() as connection:
                connection.exec_driver_sql(self._insert, given)
        return line, before

    def runs(self) -> list[str]:
        """Names of all runs, ascending."""
        query = select(journal.c.run_id).distinct()
        with self.engine.connect() as connection:
            return sorted(connection.execute(query).scalars())  # databases sort by locale

    def find(self, run_id: str) -> dict[str, str]:
        """Bodies of the opening lines by kind; empty if there is no such run."""
        columns = journal.c
        query = select(columns.kind, columns.body).where(columns.run_id == run_id, columns.line < OPENING)
        with self.engine.connect() as connection:
            return {row.kind: row.body for row in connection.execute(query)}

    def opening(self, run_id: str) -> dict[str, str]:
        """Bodies of the opening lines by kind.

        Raises
        ------
        BadOption
            If there is no such run.
        LedgerConflict
            If one of them is missing.
        """
        found = self.find(run_id)
        if found.keys() != {"run", "deposit"}:
            self.last_line(run_id)
            raise LedgerConflict(f"run {run_id!r}: its opening lines are missing", run_id=run_id, line=0)
        return found

    def last_line(self, run_id: str) -> int:
        """Number of the last line.

        Raises
        ------
        BadOption
            If there is no such run.
        """
        query = select(func.max(journal.c.line)).where(journal.c.run_id == run_id)
        with self.engine.connect() as connection:
            line: int | None = connection.execute(query).scalar()
        if line is None:
            raise BadOption(
                f"run_id={run_id!r} is not in this ledger; open_run begins one", parameter="run_id"
            )
        return line

    def hash_of(self, run_id: str, line: int) -> str:
        """Hash of a line."""
        query = select(journal.c.hash).where(journal.c.run_id == run_id, journal.c.line == line)
        with self.engine.connect() as connection:
            return str(connection.execute(query).scalar_one())

    def lines(self, run_id: str, *kinds: str, after: int = OPENING - 1) -> list[Stored]:
        """Lines of the sessions, or those of some kinds, in order."""
        columns = journal.c
        query = (
            select(columns.line, columns.session, columns.kind, columns.body)
            .where(columns.run_id == run_id, columns.line > after)
            .order_by(columns.line)
        )
        if kinds:
            query = query.where(columns.kind.in_(kinds))
        self.opening(run_id)
        with self.engine.connect() as connection:
            return [tuple(row) for row in connection.execute(query)]

    def parts(self, run_id: str, *kinds: str) -> Iterator[Sequence[tuple[str, str, str]]]:
        """The sessions' lines of some kinds in order, in parts: session, kind and body of each."""
        columns = journal.c
        query = (
            select(columns.session, columns.kind, columns.body)
            .where(columns.run_id == run_id, columns.line >= OPENING, columns.kind.in_(kinds))
            .order_by(columns.line)
        )
        self.opening(run_id)
        with self.engine.connect() as connection:
            read = connection.execution_options(stream_results=True).execute(query)
            yield from cast("Iterator[Sequence[tuple[str, str, str]]]", read.partitions(_PARTITION))

    def last_body(self, run_id: str, kind: str) -> str | None:
        """Body of the last line of a kind."""
        query = (
            select(journal.c.body)
            .where(journal.c.run_id == run_id, journal.c.kind == kind)
            .order_by(journal.c.line.desc())
            .limit(1)
        )
        with self.engine.connect() as connection:
            body: str | None = connection.execute(query).scalar()
        return body

    def rows(self, run_id: str) -> Iterator[Any]:
        """Every line with its hash, in order."""
        query = select(journal).where(journal.c.run_id == run_id).order_by(journal.c.line)
        self.last_line(run_id)
        with self.engine.connect() as connection:
            yield from connection.execute(query)
