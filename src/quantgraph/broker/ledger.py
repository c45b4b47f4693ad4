"""The ledger: an append-only journal of runs; a session is one transaction, and enters once."""

from __future__ import annotations

import json
import threading
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import zip_longest
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pandas as pd
from sqlalchemy import Connection, func, insert, select
from sqlalchemy.exc import IntegrityError

from quantgraph.broker._journal import (
    CHARGES,
    DayLines,
    Line,
    chained,
    day_lines,
    iso,
    marks_of,
    stamp,
    text,
)
from quantgraph.broker._replay import Stored, explain, grouped, replay
from quantgraph.broker._tables import engine_of, journal, make_schema
from quantgraph.broker.account import Account
from quantgraph.broker.orders import Fill, Outcome
from quantgraph.broker.result import SessionResult
from quantgraph.broker.valuation import Mark, values_of
from quantgraph.errors import BadOption, LedgerConflict
from quantgraph.market.money import ZERO
from quantgraph.market.rulebook import Charges

__all__ = ["CHARGES", "Ledger"]

_OPENING = 2
"""Lines before the first session: the run and its deposit."""


@dataclass(kw_only=True)
class _Tip:
    """Where a run stands: its last line and what the lines up to it lead to."""

    line: int = -1
    hash: str = ""
    account: Account = field(default_factory=lambda: Account.opening(0))
    sessions: list[str] = field(default_factory=list)


class Ledger:
    """Runs as lines of one journal in a database.

    Parameters
    ----------
    where
        A file, made with its folder when it is not there, or a SQLAlchemy URL such as
        ``postgresql+psycopg://user@host/name``.

    Notes
    -----
    SQLite runs in WAL mode with ``synchronous=FULL``: a session that was committed survives a power
    cut. One instance may be used by many threads, and many instances may share a database.

    Lines are only ever added. Each carries the hash of the one before it, so that :meth:`check` finds a
    line that was changed, removed or put in. Cash, positions, cost and profit are what the lines lead to.

    A run has one session after the other. Committing a session that is there already returns what was
    recorded; if anything differs it is a :class:`LedgerConflict`.

    The lock protects the tips, which save replaying a run for each question, and lets the writers of
    this process queue fairly instead of polling the file.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, Ledger(f"{folder}/ledger.db") as ledger:
    ...     ledger.open_run("a", 100_000, {"market": "cn"})
    ...     ledger.account("a").cash
    Decimal('100000.00')
    """

    def __init__(self, where: str | Path) -> None:
        self._engine = engine_of(where)
        self._writer = self._engine.execution_options(quantgraph_writes=True)
        self._lock = threading.RLock()
        self._tips: dict[str, _Tip] = {}
        with self._lock, self._writer.begin() as connection:
            make_schema(connection)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections. The ledger may not be used afterwards."""
        self._engine.dispose()

    def runs(self) -> list[str]:
        """Names of all runs, ascending."""
        query = select(journal.c.run_id).where(journal.c.line == 0)
        with self._engine.connect() as connection:
            return sorted(connection.execute(query).scalars())  # databases sort by locale

    def open_run(
        self, run_id: str, cash: Decimal | float | str, meta: Mapping[str, Any] | None = None
    ) -> None:
        """Begin a run with a deposit of cash; opening the same run again does nothing.

        Parameters
        ----------
        run_id
            Name of the run, up to 200 characters.
        cash
            Initial cash, in whole cents.
        meta
            What else belongs to the run; must be JSON.

        Raises
        ------
        LedgerConflict
            If the run is there with other cash or another ``meta``.
        BadOption
            If the cash is not an amount.
        """
        opening = {
            "run": json.dumps(dict(meta or {}), sort_keys=True, ensure_ascii=False, separators=(",", ":")),
            "deposit": text({"amount": str(Account.opening(cash).cash)}),
        }
        found = self._opening(run_id)
        if not found:
            try:
                with self._lock, self._writer.begin() as connection:
                    _append(connection, run_id, _Tip(), "", list(opening.items()))
            except IntegrityError:
                found = self._opening(run_id)  # another process was first
        for kind, body in opening.items():
            if found and found[kind] != body:
                raise LedgerConflict(
                    f"run {run_id!r} is there with {kind} {found[kind]}, not {body}", run_id=run_id
                )

    def commit_day(self, run_id: str, result: SessionResult) -> SessionResult:
        """Record a session in one transaction, or return what was recorded for it before.

        Its lines are replayed before they are written: they must lead to the very account and value.

        Raises
        ------
        LedgerConflict
            If something else is recorded for the session, it lies before the last one, or its lines do not
            explain it to the cent.
        BadOption
            If there is no such run.
        """
        with self._lock:
            tip = self._tip(run_id)
            if tip.sessions and iso(result.session) <= tip.sessions[-1]:
                return self._same(run_id, result)
            day = day_lines(tip.account, result)
            explained = explain(run_id, tip.account, day.session, list(day.lines))
            if explained.account.open_session() != result.account.open_session():
                raise LedgerConflict(
                    f"run {run_id!r}, {day.session}: the account is not what its lines lead to",
                    run_id=run_id,
                    session=day.session,
                )
            try:
                self._write(run_id, tip, [day], result.account)
            except IntegrityError:  # another process was first: it recorded the same, or it is a conflict
                return self._same(run_id, result)
        return result

    def commit_block(self, run_id: str, before: Account, days: Sequence[DayLines], after: Account) -> None:
        """Record sessions that were traded in one go and were checked there, a transaction each.

        Raises
        ------
        LedgerConflict
            If the run does not stand at ``before``, or another writer was first.
        """
        with self._lock:
            tip = self._tip(run_id)
            ahead = tip.sessions and days[0].session <= tip.sessions[-1]  # without a trade in between
            if ahead or tip.account.open_session() != before.open_session():
                raise LedgerConflict(f"run {run_id!r} does not stand where the block begins", run_id=run_id)
            try:
                self._write(run_id, tip, days, after)
            except IntegrityError as error:
                raise LedgerConflict(
                    f"run {run_id!r}: another writer was first; resume to go on from there", run_id=run_id
                ) from error

    def account(self, run_id: str) -> Account:
        """Return the account after the last committed session; before the first, the initial cash."""
        with self._lock:
            return self._tip(run_id).account

    def last_session(self, run_id: str) -> pd.Timestamp | None:
        """Return the last committed session, None before the first."""
        with self._lock:
            sessions = self._tip(run_id).sessions
        return stamp(sessions[-1]) if sessions else None

    def sessions(self, run_id: str) -> list[pd.Timestamp]:
        """All committed sessions, ascending."""
        with self._lock:
            return [stamp(session) for session in self._tip(run_id).sessions]

    def meta(self, run_id: str) -> dict[str, Any]:
        """What was said of the run when it was opened."""
        meta: dict[str, Any] = json.loads(self._known(run_id)["run"])
        return meta

    def cash(self, run_id: str) -> Decimal:
        """The initial cash."""
        return Decimal(json.loads(self._known(run_id)["deposit"])["amount"])

    def results(self, run_id: str) -> Iterator[SessionResult]:
        """Every session as it was recorded, one after the other."""
        account = Account.opening(self.cash(run_id))
        for session, lines in grouped(self._lines(run_id)):
            result = replay(account, session, lines)
            yield result
            account = result.account

    def day(self, run_id: str, session: pd.Timestamp) -> SessionResult | None:
        """Return what was recorded for a session, None when nothing was."""
        return next((result for result in self.results(run_id) if result.session == session), None)

    def days(self, run_id: str) -> pd.DataFrame:
        """One row a session, from its last line.

        Returns
        -------
        pandas.DataFrame
            Index ``trade_date``. ``cash``, ``owed`` (dividends on their way), ``stocks``, ``value`` and
            ``largest`` (the largest holding) at the end of the session; ``positions``, ``fills`` and
            ``rejections`` are counts; ``traded`` (notional), the charges and ``dividends`` are sums of the
            session. Float64, in the market's currency.
        """
        rows = [(stamp(session), json.loads(body)) for _, session, _, body in self._lines(run_id, "day")]
        table = pd.DataFrame(
            [body for _, body in rows],
            index=pd.DatetimeIndex([day for day, _ in rows], dtype="datetime64[us]", name="trade_date"),
        )
        return table.drop(columns="decider", errors="ignore").astype("float64")

    def values(self, run_id: str) -> pd.Series[float]:
        """One value per session, beginning with the initial cash.

        Returns
        -------
        pandas.Series
            Float64, never NaN, named ``value``; index ``trade_date``. The initial cash stands on the
            calendar day before the first session, which need not be a session itself. Empty before
            the first session.
        """
        days = self._lines(run_id, "day")
        return values_of(
            self.cash(run_id),
            [(stamp(session), Decimal(json.loads(body)["value"])) for _, session, _, body in days],
        )

    def holdings(self, run_id: str) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Shares and marks at the end of each session.

        Returns
        -------
        tuple of pandas.DataFrame
            Quantities (shares, 0 where nothing is held) and prices they were marked at (NaN where nothing
            is held): float64, index = the committed sessions named ``trade_date``, columns = every symbol
            that was ever held, ascending.
        """
        shares, marks = {}, {}
        for result in self.results(run_id):
            held = result.account.positions
            shares[result.session] = {name: float(position.quantity) for name, position in held.items()}
            marks[result.session] = {name: float(mark.price) for name, mark in result.marks.items()}
        index = pd.DatetimeIndex(list(shares), dtype="datetime64[us]", name="trade_date")
        columns = pd.Index(
            sorted({name for row in shares.values() for name in row}), name="ts_code", dtype="str"
        )
        quantities, prices = (
            pd.DataFrame(list(cells.values()), index=index, columns=columns, dtype="float64")
            for cells in (shares, marks)
        )
        return quantities.fillna(0.0), prices

    def positions(self, run_id: str) -> pd.DataFrame:
        """What is held after the last session, and what it has come to.

        Returns
        -------
        pandas.DataFrame
            Index ``ts_code``, ascending. ``quantity`` and ``sellable`` (shares), ``average_cost`` (of a
            share, fees included), ``mark``, ``carried`` (whether it is an earlier session's), ``value``,
            ``unrealised`` (value less cost), ``entered`` (ISO date) and ``sessions`` (how many it has been
            held, the first included).
        """
        with self._lock:
            tip = self._tip(run_id)
            account, sessions = tip.account.open_session(), list(tip.sessions)
        marks = self._marks(run_id)
        rows = [
            {
                "ts_code": symbol,
                "quantity": float(held.quantity),
                "sellable": float(held.sellable),
                "average_cost": float(held.average_cost),
                "mark": float(marks[symbol].price),
                "carried": marks[symbol].carried,
                "value": float(marks[symbol].price * held.quantity),
                "unrealised": float(marks[symbol].price * held.quantity - held.cost),
                "entered": iso(held.entered),
                "sessions": len(sessions) - bisect_left(sessions, iso(held.entered)),
            }
            for symbol, held in account.positions.items()
        ]
        columns = ["quantity", "sellable", "average_cost", "mark", "carried", "value", "unrealised"]
        return pd.DataFrame(rows, columns=["ts_code", *columns, "entered", "sessions"]).set_index("ts_code")

    def orders(self, run_id: str) -> list[Outcome]:
        """Return what became of every order, in the order they were executed."""
        return [outcome for result in self.results(run_id) for outcome in result.outcomes]

    def fills(self, run_id: str) -> list[Fill]:
        """Return the fills among :meth:`orders`."""
        return [outcome for outcome in self.orders(run_id) if isinstance(outcome, Fill)]

    def costs(self, run_id: str) -> Charges:
        """Commission, duties, fees and slippage of all fills of a run, exact."""
        days = [json.loads(body) for _, _, _, body in self._lines(run_id, "day")]
        return Charges(**{name: sum((Decimal(day[name]) for day in days), ZERO) for name in CHARGES})

    def check(self, run_id: str) -> None:
        """Follow the chain of a run, and replay every session.

        Raises
        ------
        LedgerConflict
            At the first line that does not carry the hash of its content and of the line before it, or the
            first session that its lines do not explain to the cent.
        """
        before = ""
        for place, row in enumerate(self._rows(run_id)):
            if (row.line, row.hash) != (place, chained(before, place, row.session, row.kind, row.body)):
                raise LedgerConflict(
                    f"run {run_id!r}: the chain breaks at line {place} ({row.session or 'opening'}, "
                    f"{row.kind}): it, or a line before it, is not what was written",
                    run_id=run_id,
                    line=place,
                )
            before = row.hash
        if row.kind != ("day" if place >= _OPENING else "deposit"):
            raise LedgerConflict(
                f"run {run_id!r} ends with a {row.kind} at line {place}: lines after it are missing",
                run_id=run_id,
                line=place,
            )
        account = Account.opening(self.cash(run_id))
        for session, lines in grouped(self._lines(run_id)):
            account = explain(run_id, account, session, lines).account

    def journal(self, run_id: str) -> Iterator[dict[str, Any]]:
        """Every line as it stands: ``line``, ``session``, ``kind``, ``body`` (parsed) and ``hash``."""
        for row in self._rows(run_id):
            yield {
                "line": row.line,
                "session": row.session,
                "kind": row.kind,
                "body": json.loads(row.body),
                "hash": row.hash,
            }

    def _tip(self, run_id: str) -> _Tip:
        """Bring the tip of a run to its last line, which another process may have written."""
        tip = self._tips.pop(run_id, None)  # kept again when all went well
        line = self._last_line(run_id)
        if tip is None or line < tip.line:  # another file may be at this place now
            tip = _Tip(account=Account.opening(self.cash(run_id)), line=_OPENING - 1)
        if line > tip.line:
            rows = self._lines(run_id, after=tip.line)
            for session, lines in grouped(rows):
                tip.account = replay(tip.account, session, lines).account
                tip.sessions.append(session)
            tip.line, tip.hash = rows[-1][0], ""  # another process may have gone on meanwhile
        if not tip.hash:
            tip.hash = self._hash(run_id, tip.line)
        self._tips[run_id] = tip
        return tip

    def _write(self, run_id: str, tip: _Tip, days: Iterable[DayLines], after: Account) -> None:
        del self._tips[run_id]  # found again in the database if this does not come to its end
        for day in days:
            with self._writer.begin() as connection:
                tip.line, tip.hash = _append(connection, run_id, tip, day.session, day.lines)
            tip.sessions.append(day.session)
        tip.account = after
        self._tips[run_id] = tip

    def _same(self, run_id: str, result: SessionResult) -> SessionResult:
        account, wanted = Account.opening(self.cash(run_id)), iso(result.session)
        where = f"run {run_id!r}, {wanted}"
        for session, lines in grouped(self._lines(run_id)):
            recorded = replay(account, session, lines)
            if session == wanted:
                what = _difference(lines, day_lines(account, result).lines)
                if what is None and recorded.account.open_session() != result.account.open_session():
                    what = "account"
                if what:
                    raise LedgerConflict(
                        f"{where}: another {what} is recorded for this session", run_id=run_id, what=what
                    )
                return recorded
            account = recorded.account
        raise LedgerConflict(f"{where}: the session lies before the last one recorded", run_id=run_id)

    def _known(self, run_id: str) -> dict[str, str]:
        found = self._opening(run_id)
        if not found:
            raise BadOption(
                f"run_id={run_id!r} is not in this ledger; open_run begins one", parameter="run_id"
            )
        return found

    def _opening(self, run_id: str) -> dict[str, str]:
        columns = journal.c
        query = select(columns.kind, columns.body).where(columns.run_id == run_id, columns.line < _OPENING)
        with self._engine.connect() as connection:
            return {row.kind: row.body for row in connection.execute(query)}

    def _last_line(self, run_id: str) -> int:
        query = select(func.max(journal.c.line)).where(journal.c.run_id == run_id)
        with self._engine.connect() as connection:
            line: int | None = connection.execute(query).scalar()
        if line is None:
            self._known(run_id)
        return line or 0

    def _hash(self, run_id: str, line: int) -> str:
        query = select(journal.c.hash).where(journal.c.run_id == run_id, journal.c.line == line)
        with self._engine.connect() as connection:
            return str(connection.execute(query).scalar_one())

    def _lines(self, run_id: str, kind: str | None = None, *, after: int = _OPENING - 1) -> list[Stored]:
        columns = journal.c
        query = (
            select(columns.line, columns.session, columns.kind, columns.body)
            .where(columns.run_id == run_id, columns.line > after)
            .order_by(columns.line)
        )
        if kind is not None:
            query = query.where(columns.kind == kind)
        self._known(run_id)
        with self._engine.connect() as connection:
            return [tuple(row) for row in connection.execute(query)]

    def _marks(self, run_id: str) -> dict[str, Mark]:
        query = (
            select(journal.c.body)
            .where(journal.c.run_id == run_id, journal.c.kind == "marks")
            .order_by(journal.c.line.desc())
            .limit(1)
        )
        with self._engine.connect() as connection:
            body: str | None = connection.execute(query).scalar()
        return marks_of(json.loads(body)) if body else {}

    def _rows(self, run_id: str) -> Iterator[Any]:
        query = select(journal).where(journal.c.run_id == run_id).order_by(journal.c.line)
        self._known(run_id)
        with self._engine.connect() as connection:
            yield from connection.execute(query)


def _append(
    connection: Connection, run_id: str, tip: _Tip, session: str, lines: Sequence[Line]
) -> tuple[int, str]:
    rows, before, line = [], tip.hash, tip.line
    for kind, body in lines:
        line += 1
        before = chained(before, line, session, kind, body)
        rows.append(
            {"run_id": run_id, "line": line, "session": session, "kind": kind, "body": body, "hash": before}
        )
    connection.execute(insert(journal), rows)
    return line, before


def _difference(old: Sequence[Line], new: Sequence[Line]) -> str | None:
    """Kind of the first line in which two sessions differ."""
    pairs = zip_longest(old, new, fillvalue=("", ""))
    return next((a[0] or b[0] for a, b in pairs if a != b), None)
