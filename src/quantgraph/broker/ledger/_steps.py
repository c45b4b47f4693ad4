"""Steps of a decision as a run keeps them, written beside the journal and read as executions."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
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
from quantgraph._util.values import is_whole
from quantgraph.broker.accounts._orders import escape_surrogates
from quantgraph.broker.ledger._journal import iso, session_from_iso
from quantgraph.errors import BadFile, BadOption, LedgerConflict

_ACTION_TYPE_LENGTH = 40


@dataclass(frozen=True, kw_only=True)
class LoggedStep:
    """One step of the execution of a rule for one symbol in one session.

    Attributes
    ----------
    rule_name, rule
        Name and text of the rule that is executed.
    symbol, session
        What it is executed for, and when.
    step
        From 1. Step 1 begins the execution anew: the rows of an earlier try, which was killed, are removed.
    action_type
        ``tool_call``, ``calculation``, ``decision``, ``observation`` or ``model_reply``.
    action
        The whole action, plain JSON.
    result
        What came of it, plain JSON; None for nothing.
    timestamp
        The simulated moment, ISO 8601 without a time zone: the exchange's local time.

    Raises
    ------
    BadOption
        If a value is not as above.
    """

    rule_name: str
    rule: str
    symbol: str
    session: pd.Timestamp
    step: int
    action_type: str
    action: Mapping[str, Any]
    result: Any = None
    timestamp: str

    def __post_init__(self) -> None:
        if not is_whole(self.step) or self.step < 1:
            raise BadOption(f"step={self.step!r}; must be a whole number >= 1", parameter="step")
        if not 1 <= len(self.action_type) <= _ACTION_TYPE_LENGTH:
            raise BadOption(
                f"action_type={self.action_type!r:.60}; must have 1 to {_ACTION_TYPE_LENGTH} characters",
                parameter="action_type",
            )
        try:
            at = datetime.fromisoformat(self.timestamp)
        except (TypeError, ValueError) as error:
            raise BadOption(
                f"timestamp={self.timestamp!r:.60} is not an ISO 8601 time such as 2024-01-02T09:00:00",
                parameter="timestamp",
            ) from error
        if at.tzinfo is not None:
            raise BadOption(
                f"timestamp={self.timestamp} has a time zone; must be in the exchange's local time",
                parameter="timestamp",
            )

    @property
    def action_json(self) -> str:
        """The action as JSON, its keys in their order; BadOption if it is not JSON."""
        return _json("action", dict(self.action))

    @property
    def result_json(self) -> str | None:
        """The result as JSON, None for nothing; BadOption if it is not JSON."""
        return None if self.result is None else _json("result", self.result)

    def execution_id(self, run_id: str) -> str:
        """What identifies the execution: a hash of run, session, symbol and rule."""
        return _execution_id(run_id, self.session, self.symbol, self.rule_name, self.rule)


@dataclass(frozen=True, kw_only=True)
class LoggedExecution:
    """The execution of a rule for one symbol in one session, as a ledger has it.

    Attributes
    ----------
    execution_id
        Identifies it: a hash of run, session, symbol and rule.
    run_id, session, symbol, rule_name, rule
        What was executed, where.
    steps
        In order.
    """

    execution_id: str
    run_id: str
    session: pd.Timestamp
    symbol: str
    rule_name: str
    rule: str
    steps: tuple[LoggedStep, ...]


@lru_cache
def _execution_id(run_id: str, session: pd.Timestamp, *rest: str) -> str:
    """Hash what identifies an execution, as a database takes it; its steps ask one after the other."""
    return content_hash(canonical_json(list(map(storable_text, [run_id, f"{session:%Y-%m-%d}", *rest]))))


def storable_text(text: str) -> str:
    """A text as a database takes it: what UTF-8 and PostgreSQL do not have is written as an escape."""
    return escape_surrogates(text).replace("\0", "\\x00")


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
        self._statements: dict[str, tuple[str, list[str], bool]] = {}
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
                        self._begin_execution(connection, row)
                    self._insert(connection, execution_logs, row)
            except IntegrityError as error:
                raise LedgerConflict(
                    f"run {run_id!r}, {iso(step.session)}, {step.symbol}: step {step.step} is there already, "
                    "or step 1 is not; an execution begins with step 1 and has each step once",
                    run_id=run_id,
                    session=iso(step.session),
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
            query = query.where(columns.session == iso(session))
        if symbol is not None:
            query = query.where(columns.symbol == storable_text(symbol))
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

    def _begin_execution(self, connection: Connection, row: Mapping[str, Any]) -> None:
        """Add an execution, or remove the steps of an earlier try of it."""
        if not self._insert(connection, executions, row):
            connection.execute(
                delete(execution_logs).where(execution_logs.c.execution_id == row["execution_id"])
            )

    def _insert(self, connection: Connection, table: Table, row: Mapping[str, Any]) -> int:
        """Insert a row with the table's part of ``row``; return how many rows that are. Compiled once."""
        if table.name not in self._statements:
            names = [column.name for column in table.columns if column.name in row]
            compiled = insert(table).inline().compile(dialect=connection.dialect, column_keys=names)
            ignoring = " ON CONFLICT DO NOTHING" if table is executions else ""
            self._statements[table.name] = f"{compiled}{ignoring}", names, compiled.positional
        statement, names, positional = self._statements[table.name]
        values = tuple(row[name] for name in names) if positional else {name: row[name] for name in names}
        return connection.exec_driver_sql(statement, values).rowcount

    def _rule_id(self, step: LoggedStep) -> int:
        """Return the id of the step's rule; the tables are made, and the rule is saved, if it is new."""
        rule = storable_text(step.rule_name), storable_text(step.rule)
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
        "session": iso(step.session),
        "symbol": storable_text(step.symbol),
        "execution_id": step.execution_id(run_id),
        "step": step.step,
        "action_type": step.action_type,
        "action_data": step.action_json,
        "result_data": step.result_json,
        "timestamp": step.timestamp,
    }


def _execution(rows: Sequence[Row[Any]]) -> LoggedExecution:
    """Build an execution from its rows, in order."""
    try:
        steps = tuple(map(_step, rows))
    except (BadOption, ValueError, LookupError, TypeError, RecursionError) as error:
        raise _damage(rows[0], str(error)) from error
    first, head = steps[0], rows[0]
    if first.step != 1:
        raise _damage(head, f"it begins with step {first.step}")
    if first.execution_id(head.run_id) != head.execution_id:
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
        session=session_from_iso(row.session),
        step=row.step,
        action_type=row.action_type,
        action=action,
        result=None if row.result_data is None else json.loads(row.result_data),
        timestamp=row.timestamp,
    )


def _damage(row: Row[Any], what: str) -> BadFile:
    where = f"the execution log of run {row.run_id!r} was changed: {row.session} {row.symbol}"
    return BadFile(f"{where}: {what}", run_id=row.run_id, execution_id=row.execution_id)
