"""The execution log: the table of the steps of decisions, written beside a ledger's journal."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from typing import Any

import pandas as pd
from sqlalchemy import (
    Column,
    Connection,
    Engine,
    ForeignKey,
    Integer,
    MetaData,
    Row,
    String,
    Table,
    Text,
    UniqueConstraint,
    delete,
    event,
    insert,
    inspect,
    select,
)
from sqlalchemy.exc import IntegrityError

from quantgraph._util.canonical_json import canonical_json, content_hash
from quantgraph._util.database import create_tables, open_engine
from quantgraph.broker.ledger import LoggedExecution, LoggedStep
from quantgraph.errors import BadFile, BadOption, LedgerConflict


def _execution_id(run_id: str, step: LoggedStep) -> str:
    """Hash of what identifies an execution: run, session, symbol and rule."""
    return _hash(run_id, step.session, step.symbol, step.rule_name, step.rule)


@lru_cache
def _hash(run_id: str, session: pd.Timestamp, *rest: str) -> str:
    return content_hash(canonical_json(list(map(_storable, [run_id, _day(session), *rest]))))


def _storable(text: str) -> str:
    """A text as a database takes it: what UTF-8 and PostgreSQL do not have is written as an escape."""
    return text.encode(errors="backslashreplace").decode().replace("\0", "\\x00")


def _day(session: pd.Timestamp) -> str:
    """A session as the ledger beside it has it."""
    return session.date().isoformat()


def _json(name: str, value: Any) -> str:
    try:
        return canonical_json(value, sort_keys=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise BadOption(f"{name} of a step is not JSON: {error}", parameter=name) from error


SCHEMA = MetaData()

saved_rules = Table(
    "saved_rules",
    SCHEMA,
    Column("id", Integer, primary_key=True),
    Column("name", Text, nullable=False),
    Column("content", Text, nullable=False),
    Column("content_hash", String(32), nullable=False),
    Column("created_at", String(32), nullable=False),
    UniqueConstraint("content_hash", "name"),
    sqlite_autoincrement=True,
)
"""One row per rule; ``created_at`` is the simulated moment of the first step that executes it."""

executions = Table(
    "executions",
    SCHEMA,
    Column("execution_id", String(32), primary_key=True),
    Column("run_id", String(200), nullable=False, index=True),
    Column("session", String(10), nullable=False),
    Column("symbol", Text, nullable=False),
    Column("rule_id", Integer, ForeignKey("saved_rules.id"), nullable=False),
)
"""One row per execution: the rows of a run are found by it."""

execution_logs = Table(
    "execution_logs",
    SCHEMA,
    Column("id", Integer, primary_key=True),
    Column("rule_id", Integer, ForeignKey("saved_rules.id"), nullable=False),
    Column("symbol", Text, nullable=False),
    Column("execution_id", String(32), ForeignKey("executions.execution_id"), nullable=False),
    Column("step", Integer, nullable=False),
    Column("action_type", String(40), nullable=False),
    Column("action_data", Text, nullable=False),
    Column("result_data", Text),
    Column("timestamp", String(32), nullable=False),
    UniqueConstraint("execution_id", "step"),
    sqlite_autoincrement=True,
)
"""One row per step; ``timestamp`` is the simulated moment."""


class ExecutionLog:
    """The executed steps of a database's runs. The tables are made with the first step.

    A step that was written survives the end of the process. In SQLite it survives a loss of power once the
    ledger beside it has committed: a flush for each step would cost several milliseconds on common disks.
    """

    def __init__(self, where: str | Path, *, read_only: bool = False) -> None:
        self._where = where
        self._reads = SCHEMA if read_only else None
        # The lock lets one thread write at a time, and guards the connections and the ids of the rules.
        self._lock = threading.Lock()
        self._engine: Engine | None = None
        self._kept: Connection | None = None
        self._rule_ids: dict[tuple[str, str], int] = {}

    def close(self) -> None:
        """Close all connections."""
        with self._lock:
            self._release()
            if self._engine is not None:
                self._engine.dispose()
                self._engine = None

    def add(self, run_id: str, step: LoggedStep) -> None:
        """Write a step in one transaction; step 1 removes what an earlier try of its execution left."""
        row = _row(run_id, step)
        with self._lock:
            row["rule_id"] = self._rule_id(step)
            try:
                with self._writing(single=step.step > 1) as connection:
                    if step.step == 1:
                        for table in (execution_logs, executions):  # of an earlier try
                            connection.execute(
                                delete(table).where(table.c.execution_id == row["execution_id"])
                            )
                        connection.execute(insert(executions), _part(executions, row))
                    connection.execute(insert(execution_logs), _part(execution_logs, row))
            except IntegrityError as error:
                raise LedgerConflict(
                    f"run {run_id!r}, {_day(step.session)}, {step.symbol}: step {step.step} is there "
                    "already, or step 1 is not; an execution begins with step 1 and has each step once",
                    run_id=run_id,
                    session=_day(step.session),
                ) from error

    def executions(
        self, run_id: str, *, session: pd.Timestamp | None = None, symbol: str | None = None
    ) -> list[LoggedExecution]:
        """Return a run's executions with their steps, by session and symbol; none without the tables."""
        columns = executions.c
        query = (
            select(executions, saved_rules.c.name, saved_rules.c.content, *_OF_STEPS)
            .join(saved_rules, columns.rule_id == saved_rules.c.id, isouter=True)
            .join(execution_logs, execution_logs.c.execution_id == columns.execution_id, isouter=True)
            .where(columns.run_id == run_id)
        )
        if session is not None:
            query = query.where(columns.session == _day(session))
        if symbol is not None:
            query = query.where(columns.symbol == _storable(symbol))
        with self._lock:
            engine = self._open()
        with engine.connect() as connection:
            if not inspect(connection).has_table(execution_logs.name):
                return []
            rows = connection.execute(query).all()
        rows = sorted(rows, key=lambda row: (row.session, row.symbol, row.execution_id, row.step or 0))
        return [_execution(list(steps)) for _, steps in groupby(rows, key=lambda row: row.execution_id)]

    def _open(self) -> Engine:
        if self._engine is None:
            engine = open_engine(self._where, flush=False, reads=self._reads)
            if engine.dialect.name == "sqlite":
                event.listen(engine, "connect", _with_foreign_keys)
            self._engine = engine.execution_options(quantgraph_writes=self._reads is None)
        return self._engine

    @contextmanager
    def _writing(self, *, single: bool) -> Iterator[Connection]:
        """Begin a transaction, of a ``single`` statement or of several, on a connection that is kept."""
        try:
            if self._kept is None:
                self._kept = self._open().connect()
            with self._kept.execution_options(quantgraph_single=single).begin():
                yield self._kept
        except BaseException:
            self._release()
            raise
        if self._kept.dialect.name != "sqlite":  # a server may be restarted between two steps
            self._release()

    def _release(self) -> None:
        if self._kept is not None:
            self._kept.close()
            self._kept = None

    def _rule_id(self, step: LoggedStep) -> int:
        """Return the id of the step's rule; the tables are made, and the rule is saved, if it is new."""
        rule = _storable(step.rule_name), _storable(step.rule)
        if rule not in self._rule_ids:
            engine, (name, content) = self._open(), rule
            digest = content_hash(content)
            query = select(saved_rules.c.id).where(
                saved_rules.c.content_hash == digest, saved_rules.c.name == name
            )
            row = {"name": name, "content": content, "content_hash": digest, "created_at": step.timestamp}
            create_tables(engine, SCHEMA)
            with suppress(IntegrityError), engine.begin() as connection:  # another writer may be first
                if connection.execute(query).first() is None:
                    connection.execute(insert(saved_rules), row)
            with engine.connect() as connection:
                self._rule_ids[rule] = connection.execute(query).scalar_one()
        return self._rule_ids[rule]


_OF_STEPS = [
    execution_logs.c[name] for name in ("step", "action_type", "action_data", "result_data", "timestamp")
]


def _with_foreign_keys(connection: Any, _record: Any) -> None:
    connection.execute("PRAGMA foreign_keys=ON").close()


def _row(run_id: str, step: LoggedStep) -> dict[str, Any]:
    """The rows of a step and its execution in one, but for the id of the rule."""
    return {
        "run_id": run_id,
        "session": _day(step.session),
        "symbol": _storable(step.symbol),
        "execution_id": _execution_id(run_id, step),
        "step": step.step,
        "action_type": step.action_type,
        "action_data": _json("action", dict(step.action)),
        "result_data": None if step.result is None else _json("result", step.result),
        "timestamp": step.timestamp,
    }


def _part(table: Table, row: Mapping[str, Any]) -> dict[str, Any]:
    return {column.name: row[column.name] for column in table.columns if column.name in row}


def _execution(rows: Sequence[Row[Any]]) -> LoggedExecution:
    """Build an execution from its rows, in order."""
    try:
        steps = tuple(map(_step, rows))
    except (BadOption, ValueError, LookupError, TypeError, RecursionError) as error:
        raise _damage(rows[0], str(error)) from error
    first, head = steps[0], rows[0]
    if first.step != 1:
        raise _damage(head, f"it begins with step {first.step}")
    if _execution_id(head.run_id, first) != head.execution_id:
        raise _damage(head, "run, session, symbol and rule do not lead to its execution_id")
    return LoggedExecution(
        execution_id=head.execution_id,
        run_id=head.run_id,
        session=first.session,
        symbol=first.symbol,
        rule_name=first.rule_name,
        rule=first.rule,
        steps=steps,
    )


def _step(row: Row[Any]) -> LoggedStep:
    if row.name is None:
        raise LookupError(f"there is no saved rule {row.rule_id}")
    action = json.loads(row.action_data)
    if not isinstance(action, dict):
        raise TypeError(f"action_data {row.action_data!r:.40} is not a JSON object")
    return LoggedStep(
        rule_name=row.name,
        rule=row.content,
        symbol=row.symbol,
        session=pd.Timestamp(row.session).as_unit("us"),
        step=row.step,
        action_type=row.action_type,
        action=action,
        result=None if row.result_data is None else json.loads(row.result_data),
        timestamp=row.timestamp,
    )


def _damage(row: Row[Any], what: str) -> BadFile:
    where = f"the execution log of run {row.run_id!r} was changed: {row.session} {row.symbol}"
    return BadFile(f"{where}: {what}", run_id=row.run_id, execution_id=row.execution_id)
