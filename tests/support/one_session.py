"""A session that is traded alone."""

from __future__ import annotations

import pandas as pd

from quantgraph.broker import (
    Account,
    Decider,
    Market,
    RunContext,
    Session,
    SessionResult,
    TradePlan,
)
from quantgraph.broker.session import collect_decision
from quantgraph.broker.session._exits import ExitBook
from quantgraph.broker.session._simulate import context_of
from quantgraph.market import Moment


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
