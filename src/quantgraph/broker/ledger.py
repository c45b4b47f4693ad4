"""The ledger: an append-only journal of runs; a session is one transaction, and enters once."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pandas as pd
from sqlalchemy import Connection, Engine, Table, create_engine, event, func, insert, select
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, IntegrityError

from quantgraph.broker import _tables as tables
from quantgraph.broker._replay import explain
from quantgraph.broker._tables import Row
from quantgraph.broker.account import Account
from quantgraph.broker.orders import Fill, Outcome
from quantgraph.broker.result import SessionResult
from quantgraph.broker.valuation import Mark, values_of
from quantgraph.errors import BadOption, LedgerConflict
from quantgraph.market.money import ZERO
from quantgraph.market.rulebook import Charges

__all__ = ["Ledger"]

_BUSY_SECONDS = 60


class Ledger:
    """Runs, their sessions, orders, holdings and marks in a database.

    Parameters
    ----------
    where
        A file, made with its folder when it is not there, or a SQLAlchemy URL such as
        ``postgresql+psycopg://user@host/name``.

    Notes
    -----
    SQLite runs in WAL mode with ``synchronous=FULL``: a session that was committed survives a power
    cut. One instance may be used by many threads, and many instances may share a file; the lock lets
    the writers of this process queue fairly instead of polling the file.

    A run has one session after the other, each by one decider. Committing a session that is there
    already returns what was recorded; if anything differs it is a :class:`LedgerConflict`.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, Ledger(f"{folder}/ledger.db") as ledger:
    ...     ledger.open_run("a", 100_000, {"market": "cn"})
    ...     ledger.account("a").cash
    Decimal('100000.00')
    """

    def __init__(self, where: str | Path) -> None:
        self._engine = _engine(where)
        self._writer = self._engine.execution_options(quantgraph_writes=True)
        self._lock = threading.Lock()
        with self._lock, self._writer.begin() as connection:
            tables.SCHEMA.create_all(connection)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections. The ledger may not be used afterwards."""
        self._engine.dispose()

    def open_run(
        self, run_id: str, cash: Decimal | float | str, meta: Mapping[str, Any] | None = None
    ) -> None:
        """Begin a run with cash; opening the same run again does nothing.

        Parameters
        ----------
        run_id
            Name of the run, up to 200 characters.
        cash
            Initial cash in CNY, in whole cents.
        meta
            What else belongs to the run; must be JSON.

        Raises
        ------
        LedgerConflict
            If the run is there with other cash or another ``meta``.
        BadOption
            If the cash is not an amount.
        """
        row = {
            "run_id": run_id,
            "cash": str(Account.opening(cash).cash),
            "meta": json.dumps(dict(meta or {}), sort_keys=True, ensure_ascii=False),
        }
        with self._lock, self._writer.begin() as connection:
            found = (
                connection.execute(select(tables.runs).where(tables.runs.c.run_id == run_id))
                .mappings()
                .first()
            )
            if found is None:
                connection.execute(insert(tables.runs), row)
            elif dict(found) != row:
                name = next(name for name in row if found[name] != row[name])
                raise LedgerConflict(
                    f"run {run_id!r} is there with {name} {found[name]}, not {row[name]}", run_id=run_id
                )

    def commit_day(  # noqa: PLR0917 - key, then what the key stands for
        self,
        run_id: str,
        session: pd.Timestamp,
        decider: str,
        account: Account,
        outcomes: Sequence[Outcome],
        marks: Mapping[str, Mark],
        value: Decimal,
    ) -> SessionResult:
        """Record a session in one transaction, or return what was recorded for it before.

        Parameters
        ----------
        run_id, session, decider
            The key.
        account
            After the session's fills.
        outcomes
            Fills and rejections, in the order the orders were submitted.
        marks
            Closing mark of every position.
        value
            Cash and holdings at the close.

        Raises
        ------
        LedgerConflict
            If something else is recorded for the session, or it lies before the last one.
        BadOption
            If there is no such run.
        """
        result = SessionResult(
            session=session,
            decider=decider,
            account=account,
            outcomes=tuple(outcomes),
            marks=marks,
            value=value,
        )
        day, rows, held = _rows(run_id, result)
        try:
            with self._lock, self._writer.begin() as connection:
                last = _last(connection, run_id)
                if last is not None and day["session"] <= last:
                    return _same(connection, run_id, day, rows, held)
                connection.execute(insert(tables.days), day)
                for table, fresh in ((tables.orders, rows), (tables.holdings, held)):
                    if fresh:
                        connection.execute(insert(table), fresh)
        except IntegrityError as error:
            raise LedgerConflict(
                f"run {run_id!r}, {day['session']}: another writer was first, or a sequence is used twice",
                run_id=run_id,
            ) from error
        return result

    def account(self, run_id: str) -> Account:
        """Return the account after the last committed session; before the first, the initial cash."""
        with self._engine.connect() as connection:
            last = _last(connection, run_id)
            if last is None:
                return Account.opening(_run(connection, run_id)["cash"])
            return _recorded(connection, run_id, last).account

    def last_session(self, run_id: str) -> pd.Timestamp | None:
        """Return the last committed session, None before the first."""
        with self._engine.connect() as connection:
            last = _last(connection, run_id)
        return None if last is None else tables.stamp(last)

    def sessions(self, run_id: str) -> list[pd.Timestamp]:
        """All committed sessions, ascending."""
        return [tables.stamp(row["session"]) for row in self._read(tables.days, run_id)]

    def day(self, run_id: str, session: pd.Timestamp) -> SessionResult | None:
        """Return what was recorded for a session, None when nothing was."""
        with self._engine.connect() as connection:
            known = _rows_of(connection, tables.days, run_id, tables.iso(session))
            return _recorded(connection, run_id, tables.iso(session)) if known else None

    def values(self, run_id: str) -> pd.Series[float]:
        """One value per session in CNY, beginning with the initial cash.

        Returns
        -------
        pandas.Series
            Float64, never NaN, named ``value``; index ``trade_date``. The initial cash stands on the
            calendar day before the first session, which need not be a session itself. Empty before
            the first session.
        """
        days = self._read(tables.days, run_id)
        with self._engine.connect() as connection:
            cash = _run(connection, run_id)["cash"]
        return values_of(
            Decimal(cash), [(tables.stamp(row["session"]), Decimal(row["value"])) for row in days]
        )

    def holdings(self, run_id: str) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Shares and closing marks.

        Returns
        -------
        tuple of pandas.DataFrame
            Quantities (shares, 0 where nothing is held) and prices they were marked at (CNY, NaN where
            nothing is held): index = the committed sessions named ``trade_date``, columns = every symbol
            that was ever held, ascending.
        """
        rows = self._read(tables.holdings, run_id)
        held = pd.DataFrame(
            {
                "trade_date": [tables.stamp(row["session"]) for row in rows],
                "ts_code": [row["symbol"] for row in rows],
                "quantity": [row["quantity"] for row in rows],
                "mark": [float(row["mark"]) for row in rows],
            }
        )
        index = pd.DatetimeIndex(self.sessions(run_id), name="trade_date")
        cells = held.set_index(["trade_date", "ts_code"])
        quantities, marks = (cells[name].unstack().reindex(index) for name in ("quantity", "mark"))  # noqa: PD010
        return quantities.fillna(0).astype(int), marks

    def orders(self, run_id: str) -> list[Outcome]:
        """Return what became of every order, session by session, in the order they were submitted."""
        rows = sorted(self._read(tables.orders, run_id), key=lambda row: (row["session"], row["place"]))
        return [tables.outcome_of(row) for row in rows]

    def fills(self, run_id: str) -> list[Fill]:
        """Return the fills among :meth:`orders`."""
        return [outcome for outcome in self.orders(run_id) if isinstance(outcome, Fill)]

    def costs(self, run_id: str) -> Charges:
        """Commission, stamp duty and transfer fee of all fills of a run."""
        fills = self.fills(run_id)
        return Charges(
            commission=sum((fill.commission for fill in fills), ZERO),
            stamp_duty=sum((fill.stamp_duty for fill in fills), ZERO),
            transfer_fee=sum((fill.transfer_fee for fill in fills), ZERO),
        )

    def check(self, run_id: str) -> None:
        """Replay the journal of a run: every fill, and every session's cash, positions and value.

        Raises
        ------
        LedgerConflict
            At the first session whose state the journal does not explain to the cent.
        """
        with self._engine.connect() as connection:
            account = Account.opening(_run(connection, run_id)["cash"])
        for session in self.sessions(run_id):
            recorded = self.day(run_id, session)
            if recorded is not None:
                account = explain(run_id, account, recorded)

    def _read(self, table: Table, run_id: str) -> list[Row]:
        with self._engine.connect() as connection:
            _run(connection, run_id)
            return _rows_of(connection, table, run_id)


def _rows(run_id: str, result: SessionResult) -> tuple[Row, list[Row], list[Row]]:
    session = tables.iso(result.session)
    day = {
        "run_id": run_id,
        "session": session,
        "decider": result.decider,
        "cash": str(result.account.cash),
        "value": str(result.value),
    }
    return day, tables.order_rows(run_id, session, result.outcomes), tables.holding_rows(run_id, result)


def _same(connection: Connection, run_id: str, day: Row, rows: list[Row], held: list[Row]) -> SessionResult:
    session = day["session"]
    recorded = _rows_of(connection, tables.days, run_id, session)
    where = f"run {run_id!r}, {session}"
    if not recorded:
        raise LedgerConflict(f"{where}: the session lies before the last one recorded", run_id=run_id)
    found = (
        ("day", recorded, [day]),
        ("orders", _rows_of(connection, tables.orders, run_id, session), rows),
        ("holdings", _rows_of(connection, tables.holdings, run_id, session), held),
    )
    for what, old, new in found:
        if sorted(old, key=_place) != sorted(new, key=_place):
            raise LedgerConflict(
                f"{where}: other {what} are recorded for this session", run_id=run_id, what=what
            )
    return _recorded(connection, run_id, session)


def _place(row: Row) -> tuple[int, str]:
    return row.get("place", 0), row.get("symbol", "")


def _recorded(connection: Connection, run_id: str, session: str) -> SessionResult:
    (day,) = _rows_of(connection, tables.days, run_id, session)
    held = {row["symbol"]: row for row in _rows_of(connection, tables.holdings, run_id, session)}
    rows = sorted(_rows_of(connection, tables.orders, run_id, session), key=_place)
    return SessionResult(
        session=tables.stamp(session),
        decider=day["decider"],
        account=Account(
            cash=Decimal(day["cash"]),
            positions={symbol: tables.position_of(row) for symbol, row in held.items()},
        ),
        outcomes=tuple(tables.outcome_of(row) for row in rows),
        marks={symbol: tables.mark_of(row) for symbol, row in sorted(held.items())},
        value=Decimal(day["value"]),
    )


def _rows_of(connection: Connection, table: Table, run_id: str, session: str | None = None) -> list[Row]:
    query = select(table).where(table.c.run_id == run_id).order_by(*table.primary_key.columns)
    if session is not None:
        query = query.where(table.c.session == session)
    return [dict(row) for row in connection.execute(query).mappings()]


def _run(connection: Connection, run_id: str) -> Row:
    rows = _rows_of(connection, tables.runs, run_id)
    if not rows:
        raise BadOption(f"run_id={run_id!r} is not in this ledger; open_run begins one", parameter="run_id")
    return rows[0]


def _last(connection: Connection, run_id: str) -> str | None:
    days, runs = tables.days, tables.runs
    query = (
        select(runs.c.run_id, func.max(days.c.session))
        .select_from(runs.outerjoin(days, days.c.run_id == runs.c.run_id))
        .where(runs.c.run_id == run_id)
        .group_by(runs.c.run_id)
    )
    found = connection.execute(query).first()
    if found is None:
        _run(connection, run_id)
    last: str | None = found[1] if found else None
    return last


def _engine(where: str | Path) -> Engine:
    if isinstance(where, str) and "://" in where:
        try:
            url = make_url(where)
        except ArgumentError as error:
            raise BadOption(f"{where!r} is neither a path nor a database URL", parameter="where") from error
    else:
        Path(where).parent.mkdir(parents=True, exist_ok=True)
        url = make_url("sqlite://").set(database=str(where))
    if url.get_backend_name() != "sqlite":
        return create_engine(url)
    if url.database in (None, "", ":memory:"):
        raise BadOption("a ledger in memory would not survive its process; give a file", parameter="where")
    engine = create_engine(url, connect_args={"timeout": _BUSY_SECONDS})
    event.listen(engine, "connect", _durable)
    event.listen(engine, "begin", _begin)
    return engine


def _durable(connection: Any, _record: Any) -> None:
    connection.isolation_level = (
        None  # the driver would begin transactions late, and only for some statements
    )
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
        connection.execute(f"PRAGMA {pragma}").close()


def _begin(connection: Connection) -> None:
    # A reader that turns writer fails at once when the file has moved on; a writer says so from the start.
    writes = connection.get_execution_options().get("quantgraph_writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
