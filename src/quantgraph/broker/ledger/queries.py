"""Reading the journal: what happened, session by session, and the tables that it comes to."""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pandas as pd

from quantgraph.broker.account import Account
from quantgraph.broker.corporate_actions import Event
from quantgraph.broker.ledger.explain import lines_by_session, replay_session, verify_session
from quantgraph.broker.ledger.journal import (
    CHARGES,
    EVENTS,
    chain_hash,
    event_of,
    outcome_of,
    session_from_iso,
)
from quantgraph.broker.ledger.journal_store import OPENING, JournalStore
from quantgraph.broker.orders import Fill, Outcome, Rejection, rejection_of
from quantgraph.broker.session_result import SessionResult
from quantgraph.broker.valuation import value_series
from quantgraph.errors import LedgerConflict
from quantgraph.market.money import ZERO
from quantgraph.market.rulebook import Charges

__all__ = ["LedgerQueries"]


class LedgerQueries:
    """The side of a :class:`~quantgraph.broker.Ledger` that only reads."""

    def __init__(self, store: JournalStore) -> None:
        self._store = store

    def runs(self) -> list[str]:
        """Names of all runs, ascending."""
        return self._store.runs()

    def meta(self, run_id: str) -> dict[str, Any]:
        """What was said of the run when it was opened."""
        meta: dict[str, Any] = json.loads(self._store.opening(run_id)["run"])
        return meta

    def cash(self, run_id: str) -> Decimal:
        """The initial cash."""
        return Decimal(json.loads(self._store.opening(run_id)["deposit"])["amount"])

    def results(self, run_id: str) -> Iterator[SessionResult]:
        """Every session as it was recorded, one after the other."""
        account = Account.opening(self.cash(run_id))
        for session, lines in lines_by_session(self._store.lines(run_id)):
            result = replay_session(account, session, lines)
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
        rows = [
            (session_from_iso(session), json.loads(body))
            for _, session, _, body in self._store.lines(run_id, "day")
        ]
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
        days = self._store.lines(run_id, "day")
        return value_series(
            self.cash(run_id),
            [(session_from_iso(session), Decimal(json.loads(body)["value"])) for _, session, _, body in days],
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

    def orders(self, run_id: str) -> list[Outcome]:
        """Return what became of every order, in the order they were executed."""
        return [
            outcome_of(kind, json.loads(body), session_from_iso(session))
            for _, session, kind, body in self._store.lines(run_id, "fill", "rejection")
        ]

    def fills(self, run_id: str) -> list[Fill]:
        """Return the fills among :meth:`orders`."""
        return [outcome for outcome in self.orders(run_id) if isinstance(outcome, Fill)]

    def rejections(self, run_id: str) -> list[Rejection]:
        """Return the rejections among :meth:`orders`, and the rests of fills that a cap cut."""
        return [refused for order in self.orders(run_id) if (refused := rejection_of(order))]

    def events(self, run_id: str) -> list[Event]:
        """Return what corporate actions did, in the order it happened."""
        return [
            event_of(kind, json.loads(body), session_from_iso(session))
            for _, session, kind, body in self._store.lines(run_id, *EVENTS)
        ]

    def costs(self, run_id: str) -> Charges:
        """Commission, duties, fees and slippage of all fills of a run, exact."""
        days = [json.loads(body) for _, _, _, body in self._store.lines(run_id, "day")]
        return Charges(**{name: sum((Decimal(day[name]) for day in days), ZERO) for name in CHARGES})

    def check(self, run_id: str) -> int:
        """Follow the chain of a run, and replay every session.

        Returns
        -------
        int
            How many lines there are. Lines that were cut off the end, whole sessions of them, leave a
            sound ledger behind: they are missed only by somebody who knows how many there were.

        Raises
        ------
        LedgerConflict
            At the first line that does not carry the hash of its content and of the line before it, or the
            first session that its lines do not explain to the cent.
        """
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
                f"run {run_id!r}: its deposit is no amount", run_id=run_id, line=1
            ) from error
        for session, lines in lines_by_session(self._store.lines(run_id)):
            account = verify_session(run_id, account, session, lines).account
        return place + 1

    def journal(self, run_id: str) -> Iterator[dict[str, Any]]:
        """Every line as it stands: ``line``, ``session``, ``kind``, ``body`` (parsed) and ``hash``."""
        for row in self._store.rows(run_id):
            yield {
                "line": row.line,
                "session": row.session,
                "kind": row.kind,
                "body": json.loads(row.body),
                "hash": row.hash,
            }
