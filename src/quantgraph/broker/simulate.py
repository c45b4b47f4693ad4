"""The simulated session, and the plain loop over sessions for those who want no graph."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from decimal import Decimal
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import pandas as pd

from quantgraph.broker.account import Account
from quantgraph.broker.decider import Decider
from quantgraph.broker.desk import execute
from quantgraph.broker.quotes import quotes_at
from quantgraph.broker.result import SessionResult
from quantgraph.broker.valuation import mark, value_of
from quantgraph.errors import BadOption, BadWindow, LedgerConflict
from quantgraph.market.moment import Moment, session_of
from quantgraph.market.rulebook import Rulebook
from quantgraph.state import DataState, View

if TYPE_CHECKING:
    from quantgraph.broker.ledger import Ledger

__all__ = ["run_sessions", "simulate", "trade_session"]


def trade_session(
    view_open: View, view_close: View, account: Account, decider: Decider, rules: Rulebook
) -> SessionResult:
    """Open the session, ask the decider, fill at the open, mark at the close.

    Parameters
    ----------
    view_open
        The data at the session's open: all that the decider sees.
    view_close
        The data at the same session's close, for the marks.
    account
        As the session before left it.
    decider, rules
        Who decides, under which rules.

    Raises
    ------
    BadOption
        If the two views are not the open and the close of one session of one commit.
    """
    session = _session_of_views(view_open, view_close)
    morning = account.open_session()
    orders = decider.decide(view_open, morning, session)
    day = execute(orders, morning, quotes_at(view_open), rules, session)
    marks = mark(day.account, view_close)
    return SessionResult(
        session=session,
        decider=decider.name,
        account=day.account,
        outcomes=day.outcomes,
        marks=marks,
        value=value_of(day.account, marks),
    )


def simulate(
    store: DataState,
    data_ref: str,
    sessions: Iterable[object],
    decider: Decider,
    *,
    account: Account,
    rules: Rulebook,
) -> Iterator[SessionResult]:
    """Trade one session after the other, and yield what each did.

    Raises
    ------
    BadWindow
        If a session is not one of the data's, or they do not ascend.
    """
    for session in _checked(store, data_ref, sessions):
        view_open = store.view(Moment(session, "open"), data_ref)
        view_close = store.view(Moment(session, "close"), data_ref)
        result = trade_session(view_open, view_close, account, decider, rules)
        yield result
        account = result.account


def run_identity(data_ref: str, decider: Decider, rules: Rulebook) -> dict[str, Any]:
    """What a run may not change on its way: data, decider with its options, rules with every fee.

    A decider that has options says them in a mapping ``options`` of plain JSON.
    """
    return {
        "data_ref": data_ref,
        "decider": decider.name,
        "options": dict(getattr(decider, "options", {})),
        "rules": f"{rules.name} {blake2b(repr(rules).encode(), digest_size=8).hexdigest()}",
    }


def run_sessions(
    store: DataState,
    data_ref: str,
    sessions: Iterable[object],
    decider: Decider,
    *,
    cash: Decimal | float | str,
    rules: Rulebook,
    ledger: Ledger,
    run_id: str,
) -> Account:
    """Run a decider over sessions into the ledger, and return the account after the last one.

    A run that is in the ledger already goes on after its last committed session.

    Raises
    ------
    LedgerConflict
        If the ledger holds a run of this name with other cash, data, decider, rules or sessions.
    BadWindow
        If a session is not one of the data's, or they do not ascend.
    """
    days = _checked(store, data_ref, sessions)
    ledger.open_run(run_id, cash, run_identity(data_ref, decider, rules))
    recorded = ledger.sessions(run_id)
    if recorded != days[: len(recorded)]:
        raise LedgerConflict(
            f"run {run_id!r} has {len(recorded)} sessions that do not begin the {len(days)} asked for",
            run_id=run_id,
        )
    account = ledger.account(run_id)
    for result in simulate(store, data_ref, days[len(recorded) :], decider, account=account, rules=rules):
        ledger.commit_day(
            run_id,
            result.session,
            result.decider,
            result.account,
            result.outcomes,
            result.marks,
            result.value,
        )
        account = result.account
    return account


def _session_of_views(view_open: View, view_close: View) -> pd.Timestamp:
    session = view_open.moment.session
    if (
        view_open.moment.phase != "open"
        or view_close.moment.session != session
        or view_close.moment < Moment(session, "close")
        or view_close.data_ref != view_open.data_ref
    ):
        raise BadOption(
            f"views at {view_open.moment} and {view_close.moment}; wanted are the open and the close of one "
            "session of one commit"
        )
    return session


def _checked(store: DataState, data_ref: str, sessions: Iterable[object]) -> list[pd.Timestamp]:
    days = [session_of(session) for session in sessions]
    known = store.snapshot(data_ref)["ohlcv"]["open"].index
    for place, day in enumerate(days):
        if day not in known:
            raise BadWindow(f"{day:%Y-%m-%d} is not a session of the data", session=str(day.date()))
        if place and day <= days[place - 1]:
            raise BadWindow(
                f"{day:%Y-%m-%d} does not come after {days[place - 1]:%Y-%m-%d}", session=str(day.date())
            )
    return days
