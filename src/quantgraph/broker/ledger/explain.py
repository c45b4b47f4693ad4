"""The journal explains the account: a session's lines, replayed on the account before it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import Any

from quantgraph.broker.account import Account
from quantgraph.broker.corporate_actions import Event, Payment, Split, apply_event, shares_after
from quantgraph.broker.ledger.journal import Line, day_lines, event_of, marks_of, outcome_of, session_from_iso
from quantgraph.broker.orders import Fill
from quantgraph.broker.session_result import SessionResult
from quantgraph.broker.valuation import value_of
from quantgraph.errors import LedgerConflict
from quantgraph.market.money import notional

__all__ = ["lines_by_session", "replay_session", "verify_session"]

Stored = tuple[int, str, str, str]
"""Line number, session, kind and body."""


def lines_by_session(rows: Iterable[Stored]) -> Iterator[tuple[str, list[Line]]]:
    """Group lines by session; a session ends with its ``day`` line."""
    lines: list[Line] = []
    for _, session, kind, body in rows:
        lines.append((kind, body))
        if kind == "day":
            yield session, lines
            lines = []


def replay_session(before: Account, session: str, lines: Iterable[Line]) -> SessionResult:
    """Build a session from its lines and the account before it; nothing is checked."""
    day, account, events, outcomes = session_from_iso(session), before.open_session(), [], []
    marks: dict[str, Any] = {}
    for kind, text in lines:
        body = json.loads(text)
        if kind in ("fill", "rejection"):
            outcomes.append(outcome_of(kind, body, day))
            if isinstance(outcomes[-1], Fill):
                account = account.apply(outcomes[-1])
        elif kind == "marks":
            marks = marks_of(body)
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
    )


def verify_session(run_id: str, before: Account, session: str, lines: list[Line]) -> SessionResult:
    """Replay a session and see that everything in it follows, to the cent.

    Raises
    ------
    LedgerConflict
        If a fill's or an event's arithmetic, or the day's cash, holdings or value do not follow.
    """
    where = f"run {run_id!r}, {session}"
    try:
        result = replay_session(before, session, lines)
    except (KeyError, TypeError, AttributeError, ValueError, ArithmeticError, StopIteration) as error:
        raise LedgerConflict(
            f"{where}: the lines cannot be replayed ({type(error).__name__}: {error})", run_id=run_id
        ) from error
    for problem in _problems(before, result):
        raise LedgerConflict(f"{where}: {problem}", run_id=run_id, session=session)
    (_, written), (_, follows) = lines[-1], day_lines(before, result).lines[-1]
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
        yield f"one of the orders {numbers} is there twice"
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
        return  # the replay found what it pays
    if isinstance(event, Split):
        if event.before != held or event.after > shares_after(event.before, event.ratio):
            yield f"{event.symbol} splits {event.before} into {event.after}, {held} are held"
    elif event.quantity != held or event.amount != notional(event.per_share, event.quantity):
        yield f"{event.symbol} brings {event.amount} for {event.quantity} shares, {held} are held"
