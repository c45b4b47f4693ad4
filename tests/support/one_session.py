"""A session that is traded alone."""

from __future__ import annotations

import pandas as pd

from quantgraph.broker import (
    Account,
    Decider,
    DecisionContext,
    Market,
    RunContext,
    Session,
    SessionResult,
    TradePlan,
)
from quantgraph.broker.session import collect_decision
from quantgraph.market import Moment


def trade_session(
    market: Market,
    day: pd.Timestamp,
    account: Account,
    decider: Decider,
    plan: TradePlan | None = None,
) -> SessionResult:
    """Open the session, ask the decider, close it; its view belongs to no run."""
    view = market.store.growing_view(market.data_ref).at(Moment(day, "open"))
    view.growing_view_id = None
    session = Session.open(market, day, account)
    run = RunContext(plan=plan or TradePlan())
    context = DecisionContext(view, session.account, rules=market.rules, run=run)
    return session.close(collect_decision(decider, context), decider=decider.name)
