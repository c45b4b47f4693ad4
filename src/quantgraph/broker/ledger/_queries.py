"""Reading the journal: sessions replayed and verified, and tables of what happened."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd

from quantgraph._util.packages import wing
from quantgraph.broker._plan import ExitRule
from quantgraph.broker.accounts._account import Account, Event, Payment, Split, apply_event, shares_after
from quantgraph.broker.accounts._orders import Fill, Outcome, Rejection, rejection_of
from quantgraph.broker.accounts._results import Line, SessionResult, value_of, value_series
from quantgraph.broker.ledger._frames import (
    ORDER_KINDS,
    OrderLine,
    OrderReader,
    OrderTable,
    events_frame,
    fills_frame,
    orders_frame,
    rejections_frame,
)
from quantgraph.broker.ledger._journal import (
    CHARGES,
    DAY,
    EVENTS,
    OPENING,
    JournalStore,
    Stored,
    chain_hash,
    day_line,
    event_of,
    marks_of,
    outcome_of,
    session_from_iso,
)
from quantgraph.broker.ledger._steps import ExecutionLog, LoggedExecution
from quantgraph.errors import LedgerConflict
from quantgraph.market.money import ZERO, Charges, notional

_DayBody = tuple[pd.Timestamp, dict[str, Any]]


@dataclass(frozen=True, kw_only=True, eq=False)
class RunStatement:
    """What a run did: days, values, costs as :class:`LedgerQueries` tells them, orders and exact events."""

    days: pd.DataFrame
    values: pd.Series[float]
    costs: Charges
    orders: OrderTable
    events: tuple[Event, ...]


@dataclass
class _History:
    """Sessions read so far: the account after them, and the last line read."""

    account: Account
    line: int = OPENING - 1
    results: list[SessionResult] = field(default_factory=list)


class LedgerQueries:
    """The read-only methods of :class:`~quantgraph.broker.ledger.Ledger`."""

    def __init__(self, where: str | Path, *, read_only: bool) -> None:
        self.where = where
        self._read_only = read_only
        self._store = JournalStore(where, read_only=read_only)
        self._log: ExecutionLog | None = None
        self._histories: dict[str, _History] = {}
        self._history_lock = threading.Lock()

    def runs(self) -> list[str]:
        """Names of all runs, ascending."""
        return self._store.runs()

    def has_run(self, run_id: str) -> bool:
        """Whether there is such a run."""
        return bool(self._store.find(run_id))

    def meta(self, run_id: str) -> dict[str, Any]:
        """The ``meta`` that the run was opened with."""
        meta: dict[str, Any] = json.loads(self._store.opening(run_id)["run"])
        return meta

    def windows(self, run_id: str) -> list[tuple[str, str]]:
        """The ends up to which a run was traded, and the commits of the data state that it was traded on."""
        return self._store.windows(run_id)

    def head(self, run_id: str) -> tuple[int, str]:
        """The number of lines of a run, and the hash of the last one, which all before it lead to."""
        last = self._store.last_line(run_id)
        return last + 1, self._store.hash_of(run_id, last)

    def cash(self, run_id: str) -> Decimal:
        """The initial cash."""
        return Decimal(json.loads(self._store.opening(run_id)["deposit"])["amount"])

    def results(self, run_id: str) -> Iterator[SessionResult]:
        """Every recorded session, in order."""
        account = Account.opening(self.cash(run_id))
        for session, lines in lines_by_session(self._store.lines(run_id)):
            result = replay_session(account, session, lines)
            yield result
            account = result.account

    def history(self, run_id: str) -> Sequence[SessionResult]:
        """Every recorded session, in order; only sessions recorded since the last call are read.

        The lock protects the sessions read so far: deciders of several runs may ask at once.
        """
        with self._history_lock:
            read = self._histories.setdefault(run_id, _History(Account.opening(self.cash(run_id))))
            rows = self._store.lines(run_id, after=read.line)
            for session, lines in lines_by_session(rows):
                result = replay_session(read.account, session, lines)
                read.account = result.account
                read.results.append(replace(result, account=result.account.copy()))
            read.line = rows[-1][0] if rows else read.line
            return tuple(read.results)

    def notes(self, run_id: str) -> dict[pd.Timestamp, dict[str, Any]]:
        """The notes of decisions by session, in order; sessions without notes are left out."""
        return {
            session_from_iso(session): json.loads(body)
            for _, session, _, body in self._store.lines(run_id, "notes")
        }

    def gives_exits(self, run_id: str) -> bool:
        """Whether a decision of the run has exit rules; they are in :attr:`.SessionResult.exits`."""
        return bool(self._store.lines(run_id, "exits"))

    def executions(
        self, run_id: str, *, session: pd.Timestamp | None = None, symbol: str | None = None
    ) -> list[LoggedExecution]:
        """What a decider that works step by step did, by session and symbol; empty for other deciders.

        The steps are not in the hash chain, and include the steps of sessions that were not committed.
        """
        return self._steps().executions(run_id, session=session, symbol=symbol)

    def _steps(self) -> ExecutionLog:
        """The execution log beside the journal, opened when it is first asked for."""
        with self._history_lock:
            if self._log is None:
                self._log = wing("execution_log").ExecutionLog(self.where, read_only=self._read_only)
            return self._log

    def day(self, run_id: str, session: pd.Timestamp) -> SessionResult | None:
        """The recorded session, None if there is none."""
        return next((result for result in self.results(run_id) if result.session == session), None)

    def days(self, run_id: str) -> pd.DataFrame:
        """One row per session, from its ``day`` line.

        Returns
        -------
        pandas.DataFrame
            Index ``trade_date``. ``cash``, ``owed`` (dividends that are owed), ``stocks``, ``value`` and
            ``largest`` (the largest holding) at the end of the session; ``positions``, ``fills`` and
            ``rejections`` are counts; ``traded`` (notional), the charges and ``dividends`` are sums of the
            session. Float64, in the market's currency.
        """
        return _days_of(self._day_bodies(run_id))

    def statement(self, run_id: str) -> RunStatement:
        """Days, orders and events of a run, all from one reading of the journal."""
        orders, bodies, events = OrderReader(), [], list[Event]()
        for part in self._store.parts(run_id, "day", *ORDER_KINDS, *EVENTS):
            orders.add([line for line in part if line[1] in ORDER_KINDS])
            for session, kind, body in (line for line in part if line[1] not in ORDER_KINDS):
                if kind == "day":
                    bodies.append((session_from_iso(session), json.loads(body)))
                else:
                    events.append(event_of(kind, json.loads(body), session_from_iso(session)))
        return RunStatement(
            days=_days_of(bodies),
            values=value_series(self.cash(run_id), [(day, Decimal(body["value"])) for day, body in bodies]),
            costs=_costs_of(bodies),
            orders=orders.table(),
            events=tuple(events),
        )

    def values(self, run_id: str) -> pd.Series[float]:
        """One value per session, beginning with the initial cash.

        Returns
        -------
        pandas.Series
            Float64, never NaN, named ``value``; index ``trade_date``. The initial cash is on the
            calendar day before the first session, which need not be a session itself. Empty before
            the first session.
        """
        days = self._day_bodies(run_id)
        return value_series(self.cash(run_id), [(day, Decimal(body["value"])) for day, body in days])

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

    def orders(self, run_id: str) -> pd.DataFrame:
        """One row per order with its outcome, in the order of submission; exact: :meth:`order_records`.

        Returns
        -------
        pandas.DataFrame
            ``trade_date``, ``sequence``, ``ts_code``; ``side`` of the fill, or what was ordered (empty for a
            target that was refused); ``type`` (``open``, ``close``, ``limit``), ``wish``, which of the four
            sizes was set, ``size`` and ``limit_price``; ``quantity`` (shares filled, 0 if refused),
            ``price`` (NaN if refused), ``notional``, ``cost`` (all charges together); ``code`` and
            ``message`` of the rejection, or of the rest that the volume cap cut off, empty if all was
            filled; the decider's ``reason``. Types as in :mod:`~quantgraph.broker.ledger._frames`.
        """
        return orders_frame(self._order_lines(run_id))

    def fills(self, run_id: str) -> pd.DataFrame:
        """One row per fill, in the order of submission; exact: :meth:`fill_records`."""
        return fills_frame(self._order_lines(run_id))

    def rejections(self, run_id: str) -> pd.DataFrame:
        """One row per rejection, and rest that the volume cap cut off; exact: :meth:`rejection_records`."""
        return rejections_frame(self._order_lines(run_id))

    def events(self, run_id: str) -> pd.DataFrame:
        """One row per event of a corporate action, in the order they happened; exact: :meth:`event_records`.

        Returns
        -------
        pandas.DataFrame
            ``trade_date``, ``ts_code``, ``kind`` (``dividend``, ``payment``, ``split``, ``delisting``);
            ``quantity``, ``per_share`` and ``amount`` of a dividend or a delisting, ``amount`` of a payment,
            ``ratio``, ``before``, ``after`` (shares) and ``cash`` of a split, and ``pay``, when a dividend is
            paid; each NaN or NaT in the others. Types as in
            :mod:`~quantgraph.broker.ledger._frames`.
        """
        return events_frame(self.event_records(run_id))

    def order_records(self, run_id: str) -> list[Outcome]:
        """The outcome of every order with exact numbers, in the order of submission."""
        return [
            outcome_of(kind, json.loads(body), session_from_iso(session))
            for session, kind, body in self._order_lines(run_id)
        ]

    def _order_lines(self, run_id: str) -> Iterator[OrderLine]:
        for part in self._store.parts(run_id, *ORDER_KINDS):
            yield from part

    def fill_records(self, run_id: str) -> list[Fill]:
        """The fills among :meth:`order_records`."""
        return [outcome for outcome in self.order_records(run_id) if isinstance(outcome, Fill)]

    def rejection_records(self, run_id: str) -> list[Rejection]:
        """The rejections among :meth:`order_records`, and the rests that the volume cap cut off."""
        return [refused for order in self.order_records(run_id) if (refused := rejection_of(order))]

    def event_records(self, run_id: str) -> list[Event]:
        """The events of corporate actions with exact numbers, in the order they happened."""
        return [
            event_of(kind, json.loads(body), session_from_iso(session))
            for _, session, kind, body in self._store.lines(run_id, *EVENTS)
        ]

    def costs(self, run_id: str) -> Charges:
        """Commission, duties, fees and slippage of all fills of a run, exact."""
        return _costs_of(self._day_bodies(run_id))

    def _day_bodies(self, run_id: str) -> list[_DayBody]:
        lines = self._store.lines(run_id, "day")
        return [(session_from_iso(session), json.loads(body)) for _, session, _, body in lines]

    def check(self, run_id: str) -> int:
        """Verify the hash chain of a run, and replay every session."""
        before = run_id
        for place, row in enumerate(self._store.rows(run_id)):
            if (row.line, row.hash) != (place, chain_hash(before, place, row.session, row.kind, row.body)):
                raise LedgerConflict(
                    f"run {run_id!r}: the chain breaks at line {place} ({row.session or 'opening'}, "
                    f"{row.kind}): it, or a line before it, is not what was written",
                    run_id=run_id,
                    line=place,
                )
            before = row.hash
        if row.kind != ("day" if place >= OPENING else "deposit"):
            raise LedgerConflict(
                f"run {run_id!r} ends with a {row.kind} at line {place}: lines after it are missing",
                run_id=run_id,
                line=place,
            )
        try:
            account = Account.opening(self.cash(run_id))
        except (KeyError, TypeError, ValueError, ArithmeticError) as error:
            raise LedgerConflict(
                f"run {run_id!r}: its deposit is not an amount", run_id=run_id, line=1
            ) from error
        for session, lines in lines_by_session(self._store.lines(run_id)):
            account = verify_session(run_id, account, session, lines).account
        return place + 1

    def journal(self, run_id: str) -> Iterator[dict[str, Any]]:
        """Every line: ``line``, ``session``, ``kind``, ``body`` (parsed) and ``hash``."""
        for row in self._store.rows(run_id):
            yield {
                "line": row.line,
                "session": row.session,
                "kind": row.kind,
                "body": json.loads(row.body),
                "hash": row.hash,
            }


def _days_of(bodies: Sequence[_DayBody]) -> pd.DataFrame:
    """See :meth:`LedgerQueries.days`."""
    table = pd.DataFrame(
        [body for _, body in bodies],
        index=pd.DatetimeIndex([day for day, _ in bodies], dtype="datetime64[us]", name="trade_date"),
        columns=list(DAY),
    )
    return table.drop(columns="decider").astype("float64")


def _costs_of(bodies: Sequence[_DayBody]) -> Charges:
    """See :meth:`LedgerQueries.costs`."""
    return Charges(**{name: sum((Decimal(body[name]) for _, body in bodies), ZERO) for name in CHARGES})


def lines_by_session(rows: Iterable[Stored]) -> Iterator[tuple[str, list[Line]]]:
    """Group lines by session; each session ends with its ``day`` line."""
    lines: list[Line] = []
    for _, session, kind, body in rows:
        lines.append((kind, body))
        if kind == "day":
            yield session, lines
            lines = []


def replay_session(before: Account, session: str, lines: Iterable[Line]) -> SessionResult:
    """Build a session from its lines and the account before it, without checks."""
    day, account, events, outcomes = session_from_iso(session), before.open_session(), [], []
    marks: dict[str, Any] = {}
    notes: dict[str, Any] = {}
    exits: tuple[ExitRule, ...] = ()
    for kind, text in lines:
        body = json.loads(text)
        if kind in ("fill", "rejection"):
            outcomes.append(outcome_of(kind, body, day))
            if isinstance(outcomes[-1], Fill):
                account = account.apply(outcomes[-1])
        elif kind == "marks":
            marks = marks_of(body)
        elif kind == "notes":
            notes = body
        elif kind == "exits":
            exits = tuple(map(ExitRule.of, body))
        elif kind != "day":
            events.append(event_of(kind, body, day))
            account = apply_event(account, events[-1])
    return SessionResult(
        session=day,
        decider=body["decider"],
        account=account,
        events=tuple(events),
        outcomes=tuple(outcomes),
        marks=marks,
        value=Decimal(body["value"]),
        notes=notes,
        exits=exits,
    )


def verify_session(run_id: str, before: Account, session: str, lines: list[Line]) -> SessionResult:
    """Replay a session and check that all of it follows from the account before, to the cent."""
    where = f"run {run_id!r}, {session}"
    try:
        result = replay_session(before, session, lines)
    except (KeyError, TypeError, AttributeError, ValueError, ArithmeticError, StopIteration) as error:
        raise LedgerConflict(
            f"{where}: the lines cannot be replayed ({type(error).__name__}: {error})", run_id=run_id
        ) from error
    for problem in _problems(before, result):
        raise LedgerConflict(f"{where}: {problem}", run_id=run_id, session=session)
    (_, written), (_, follows) = lines[-1], day_line(before, result)
    if written != follows:
        old, new = json.loads(written), json.loads(follows)
        name = next(name for name in new if old.get(name) != new[name])
        raise LedgerConflict(
            f"{where}: {name} is {old.get(name)}, its lines lead to {new[name]}",
            run_id=run_id,
            session=session,
        )
    return result


def _problems(before: Account, result: SessionResult) -> Iterator[str]:
    account = before.open_session()
    for event in result.events:
        yield from _event_problems(account, event)
        account = apply_event(account, event)
    numbers = [outcome.order.sequence for outcome in result.outcomes]
    if len(set(numbers)) < len(numbers):
        yield f"two of the orders {numbers} have the same sequence"
    for fill in result.fills:
        yield from _fill_problems(account, fill)
        account = account.apply(fill)
    if set(account.positions) != set(result.marks):
        yield f"marks are of {sorted(result.marks)}, held are {sorted(account.positions)}"
    value = value_of(account, result.marks)
    if value != result.value:
        yield f"value is {result.value}, cash and marks come to {value}"


def _fill_problems(account: Account, fill: Fill) -> Iterator[str]:
    what = f"order {fill.order.sequence}"
    if fill.notional != notional(fill.price, fill.quantity):
        yield f"{what}: {fill.quantity} at {fill.price} is not {fill.notional}"
    held = account.positions.get(fill.order.symbol)
    if fill.side == "sell" and (held is None or held.sellable < fill.quantity):
        yield f"{what}: sells {fill.quantity} {fill.order.symbol} that may not be sold"
    if account.cash + fill.cash_change < 0:
        yield f"{what}: leaves cash at {account.cash + fill.cash_change}"


def _event_problems(account: Account, event: Event) -> Iterator[str]:
    held = account.quantity(event.symbol)
    if isinstance(event, Payment):
        return  # the replay found its dividend
    if isinstance(event, Split):
        if event.before != held or event.after > shares_after(event.before, event.ratio):
            yield f"{event.symbol} splits {event.before} into {event.after}, {held} are held"
    elif event.quantity != held or event.amount != notional(event.per_share, event.quantity):
        yield f"{event.symbol} brings {event.amount} for {event.quantity} shares, {held} are held"
