"""The ledger: an append-only journal of runs, to which whole sessions are added in transactions."""

from __future__ import annotations

import json
import threading
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import zip_longest
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pandas as pd
from sqlalchemy.exc import IntegrityError

from quantgraph._util.canonical_json import canonical_json
from quantgraph._util.database import database_place
from quantgraph.broker.accounts._account import Account
from quantgraph.broker.accounts._results import DayLines, Line, SessionResult
from quantgraph.broker.ledger._journal import (
    OPENING,
    RUN_ID_LENGTH,
    compact_json,
    day_lines,
    iso,
    marks_of,
    session_from_iso,
)
from quantgraph.broker.ledger._queries import LedgerQueries, lines_by_session, replay_session, verify_session
from quantgraph.broker.ledger._steps import LoggedStep
from quantgraph.errors import BadOption, LedgerConflict

_POSITION_TYPES: dict[str, Any] = {
    "ts_code": "str",
    **dict.fromkeys(("quantity", "sellable", "average_cost", "mark"), "float64"),
    "carried": "bool",
    **dict.fromkeys(("value", "unrealised"), "float64"),
    "entered": "datetime64[us]",
    "sessions": "int64",
}


@dataclass(kw_only=True)
class _Tip:
    """The state of a run: its last line, and the account that the lines lead to."""

    line: int
    account: Account
    hash: str = ""
    sessions: list[str] = field(default_factory=list)


class Ledger(LedgerQueries):
    """Runs as lines of one journal in a database.

    Parameters
    ----------
    where
        A file, made with its folder if it does not exist, or a SQLAlchemy URL such as
        ``postgresql+psycopg://user@host/name``.
    read_only
        Whether nothing is written, and a file is opened as anybody's: in bounded time, its tables checked.

    Raises
    ------
    BadOption
        If ``where`` is neither, or is a database in memory.
    BadFile
        Here and later, if it is not a database, or cannot be reached.

    Notes
    -----
    SQLite runs in WAL mode with ``synchronous=FULL``: a session that was committed survives a power
    cut. One instance may be used by many threads, and many instances may share a database.

    Lines are only appended. Each has a hash over the one before it, so :meth:`check` finds a line that was
    changed, removed or inserted. Whole sessions that were cut off the end leave no trace: they are found
    only by comparison with something outside the ledger, such as a run's ``result.json``. Cash, positions,
    cost and profit are derived from the lines.

    Sessions of a run ascend. Committing a recorded session again returns what was recorded; if anything
    differs it raises :class:`LedgerConflict`.

    The lock protects the cached state of each run, and lets the writers of this process queue fairly
    instead of polling the file.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, Ledger(f"{folder}/ledger.db") as ledger:
    ...     ledger.open_run("a", 100_000, {"market": "cn"})
    ...     ledger.account("a").cash
    Decimal('100000.00')
    """

    def __init__(self, where: str | Path, *, read_only: bool = False) -> None:
        super().__init__(where, read_only=read_only)
        self._lock = threading.RLock()
        self._tips: dict[str, _Tip] = {}

    def __repr__(self) -> str:
        return f"Ledger({database_place(self.where)!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections. The ledger may not be used afterwards."""
        self._store.close()
        if self._log is not None:
            self._log.close()

    def open_run(
        self, run_id: str, cash: Decimal | float | str, meta: Mapping[str, Any] | None = None
    ) -> None:
        """Begin a run with a deposit of cash; opening the same run again has no effect.

        Parameters
        ----------
        run_id
            Name of the run, up to 200 characters.
        cash
            Initial cash, in whole cents.
        meta
            What identifies the run besides; must be JSON.

        Raises
        ------
        LedgerConflict
            If the run exists with other cash or another ``meta``.
        BadOption
            If the cash is not an amount, or the name is empty or too long.
        """
        if not 1 <= len(run_id) <= RUN_ID_LENGTH:
            message = f"run_id has {len(run_id)} characters; must have 1 to {RUN_ID_LENGTH}"
            raise BadOption(message, parameter="run_id")
        opening = {
            "run": canonical_json(dict(meta or {})),
            "deposit": compact_json({"amount": str(Account.opening(cash).cash)}),
        }
        found = self._store.find(run_id)
        if not found:
            try:
                with self._lock:
                    self._store.append(
                        run_id, -1, run_id, [DayLines(session="", lines=list(opening.items()))]
                    )
            except IntegrityError:
                found = self._store.find(run_id)  # another process was first
        for kind, body in opening.items():
            if found and found.get(kind) != body:
                what = _changes(kind, found.get(kind, ""), body)
                message = f"run {run_id!r} exists with {what}; give another run_id to begin a new run"
                raise LedgerConflict(message, run_id=run_id)

    def extend(self, run_id: str, end: str, data_ref: str) -> None:
        """Say up to which day, and on which commit, a run goes on; beside the journal, not in its chain.

        The one who extends sees to it that the commit's past is as it was, see :func:`.open_market_run`.
        """
        self._store.add_window(run_id, end, data_ref)

    def commit_day(self, run_id: str, result: SessionResult) -> SessionResult:
        """Record a session in one transaction, or return what was recorded for it before.

        Its lines are replayed before they are written, and must lead to its account and value.

        Raises
        ------
        LedgerConflict
            If something else is recorded for the session, it is before the last one, or it does not follow
            from its lines to the cent.
        BadOption
            If there is no such run.
        """
        return self.commit_days(run_id, [result])[0]

    def commit_days(self, run_id: str, results: Sequence[SessionResult]) -> list[SessionResult]:
        """Like :meth:`commit_day` for sessions in a row: all that are new in one transaction."""
        with self._lock:
            tip = self._tip(run_id)
            last = tip.sessions[-1] if tip.sessions else ""
            recorded = [self._same(run_id, result) for result in results if iso(result.session) <= last]
            new, days, account = results[len(recorded) :], list[DayLines](), tip.account
            for result in new:
                days.append(self._lines(run_id, account, result))
                account = result.account
            try:
                self._write(run_id, tip, days, account)
            except IntegrityError:  # another process was first: it recorded the same, or it is a conflict
                if len(new) == 1:
                    return [*recorded, self._same(run_id, new[0])]
                return [self.commit_day(run_id, result) for result in results]
        return [*recorded, *new]

    def _lines(self, run_id: str, before: Account, result: SessionResult) -> DayLines:
        """A session's lines, if they lead to its account and value."""
        day = day_lines(before, result)
        explained = verify_session(run_id, before, day.session, list(day.lines))
        if explained.account.open_session() != result.account.open_session():
            raise LedgerConflict(
                f"run {run_id!r}, {day.session}: the account differs from the one that its lines lead to",
                run_id=run_id,
                session=day.session,
            )
        return day

    def commit_block(self, run_id: str, before: Account, days: Sequence[DayLines], after: Account) -> None:
        """Record the sessions of a block, which were checked there, in one transaction.

        Raises
        ------
        LedgerConflict
            If the run's account is not ``before``, or another writer was first.
        """
        with self._lock:
            tip = self._tip(run_id)
            ahead = tip.sessions and days[0].session <= tip.sessions[-1]  # perhaps without a trade
            if ahead or not (tip.account is before or tip.account.open_session() == before.open_session()):
                raise LedgerConflict(
                    f"the account of run {run_id!r} is not the one before the block", run_id=run_id
                )
            try:
                self._write(run_id, tip, days, after)
            except IntegrityError as error:
                raise LedgerConflict(
                    f"run {run_id!r}: another writer was first; resume the run to continue from there",
                    run_id=run_id,
                ) from error

    def log_step(self, run_id: str, step: LoggedStep) -> None:
        """Write one step of a decision beside the journal, at once; see :meth:`executions`.

        It is there after the process was killed, and after a loss of power once the session is committed. An
        execution that is begun again with step 1 replaces what a killed try of it left.

        Raises
        ------
        BadOption
            If its action or result is not JSON.
        LedgerConflict
            If the step is there already, or its execution has no step 1.
        """
        self._steps().add(run_id, step)

    def account(self, run_id: str) -> Account:
        """The account after the last committed session; before the first, the initial cash."""
        with self._lock:
            return self._tip(run_id).account

    def last_session(self, run_id: str) -> pd.Timestamp | None:
        """The last committed session, None before the first."""
        with self._lock:
            sessions = self._tip(run_id).sessions
        return session_from_iso(sessions[-1]) if sessions else None

    def sessions(self, run_id: str) -> list[pd.Timestamp]:
        """All committed sessions, ascending."""
        with self._lock:
            return [session_from_iso(session) for session in self._tip(run_id).sessions]

    def positions(self, run_id: str) -> pd.DataFrame:
        """Holdings after the last session, with cost, mark and profit.

        Returns
        -------
        pandas.DataFrame
            Index ``ts_code``, ascending. ``quantity`` and ``sellable`` (shares), ``average_cost`` (of a
            share, fees included), ``mark``, ``carried`` (whether it is an earlier session's), ``value``,
            ``unrealised`` (value less cost): float64, but ``carried`` bool. ``entered`` (datetime64[us]), and
            ``sessions`` (int64), the sessions held, the first included.
        """
        with self._lock:
            tip = self._tip(run_id)
            account, sessions = tip.account.open_session(), list(tip.sessions)
        body = self._store.last_body(run_id, "marks")
        marks = marks_of(json.loads(body)) if body else {}
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
                "entered": held.entered,
                "sessions": len(sessions) - bisect_left(sessions, iso(held.entered)),
            }
            for symbol, held in account.positions.items()
        ]
        table = pd.DataFrame(rows, columns=list(_POSITION_TYPES)).astype(_POSITION_TYPES)
        return table.set_index("ts_code")

    def _tip(self, run_id: str) -> _Tip:
        """The tip of a run at its last line, which another process may have written."""
        tip = self._tips.pop(run_id, None)  # stored again below, if nothing raises
        line = self._store.last_line(run_id)
        if tip is None or line < tip.line:  # the file was replaced
            tip = _Tip(account=Account.opening(self.cash(run_id)), line=OPENING - 1)
        if line > tip.line:
            rows = self._store.lines(run_id, after=tip.line)
            for session, lines in lines_by_session(rows):
                tip.account = replay_session(tip.account, session, lines).account
                tip.sessions.append(session)
            tip.line, tip.hash = rows[-1][0], ""  # another process may have written more
        if not tip.hash:
            tip.hash = self._store.hash_of(run_id, tip.line)
        self._tips[run_id] = tip
        return tip

    def _write(self, run_id: str, tip: _Tip, days: Sequence[DayLines], after: Account) -> None:
        del self._tips[run_id]  # read again from the database if a write fails
        tip.line, tip.hash = self._store.append(run_id, tip.line, tip.hash, days)
        tip.sessions += [day.session for day in days]
        tip.account = after
        self._tips[run_id] = tip

    def _same(self, run_id: str, result: SessionResult) -> SessionResult:
        account, wanted = Account.opening(self.cash(run_id)), iso(result.session)
        where = f"run {run_id!r}, {wanted}"
        for session, lines in lines_by_session(self._store.lines(run_id)):
            recorded = replay_session(account, session, lines)
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
        raise LedgerConflict(f"{where}: the session is before the last one recorded", run_id=run_id)


def _changes(kind: str, old: str, new: str) -> str:
    """Name what differs between two lines of a kind, with both values."""
    try:
        had, has = dict(json.loads(old)), json.loads(new)
    except (TypeError, ValueError):
        return f"an unreadable {kind} line"
    return ", ".join(
        f"{name} {_value(had, name)} instead of {_value(has, name)}"
        for name in sorted({*had, *has})
        if _value(had, name) != _value(has, name)
    )


def _value(values: Mapping[str, Any], name: str) -> str:
    return json.dumps(values[name], ensure_ascii=False) if name in values else "missing"


def _difference(old: Sequence[Line], new: Sequence[Line]) -> str | None:
    """Kind of the first line in which two sessions differ."""
    return next((a[0] or b[0] for a, b in zip_longest(old, new, fillvalue=("", "")) if a != b), None)
