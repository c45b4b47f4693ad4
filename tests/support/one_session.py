"""A session that is traded alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pandas as pd

from quantgraph.broker import Account, Decider, Market, Order, RunContext, Session, SessionResult, TradePlan
from quantgraph.broker.accounts import Mark
from quantgraph.broker.accounts._account import ActionBook, apply_corporate_actions
from quantgraph.broker.accounts._quotes import Quote
from quantgraph.broker.accounts._results import value_of
from quantgraph.broker.session import collect_decision
from quantgraph.broker.session._exits import ExitBook
from quantgraph.broker.session._simulate import context_of
from quantgraph.market import Moment, Rulebook


def trade_session(  # noqa: PLR0917
    market: Market,
    day: pd.Timestamp,
    account: Account,
    decider: Decider,
    plan: TradePlan | None = None,
    exits: ExitBook | None = None,
) -> SessionResult:
    """Open the session, ask the decider, close it; its view belongs to no run."""
    view = market.store.growing_view(market.data_ref).at(Moment(day, "open"))
    view.growing_view_id = None
    session = Session.open(market, day, account, exits)
    context = context_of(session, view, RunContext(plan=plan or TradePlan()))
    return session.close(collect_decision(decider, context), decider=decider.name)


def settled_session(  # noqa: PLR0917
    account: Account,
    day: pd.Timestamp,
    orders: Sequence[Order],
    quotes: Mapping[str, Quote],
    book: ActionBook,
    mark: Callable[[str], Mark],
) -> SessionResult:
    """Orders at quotes under the mainland's rules, with the dividends of a book."""
    account, events = apply_corporate_actions(account, day, book, Rulebook.mainland())
    session = Session(account, quotes, Rulebook.mainland(), day)
    session.batch(orders)
    marks = {symbol: mark(symbol) for symbol in session.account.positions}
    return SessionResult(
        session=day,
        decider="test",
        account=session.account,
        events=events,
        outcomes=session.outcomes,
        marks=marks,
        value=value_of(session.account, marks),
    )
