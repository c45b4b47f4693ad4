"""A view at an open, and the tools' context on it, for tests of what an agent sees when it decides."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pandas as pd

from quantgraph.broker import Account, Session
from quantgraph.broker.accounts import Position
from quantgraph.market import Moment, Rulebook
from quantgraph.state import DataState
from quantgraph.tools import ToolContext

__all__ = ["tools_at", "trading_tools_at"]


def tools_at(
    panel: dict[str, pd.DataFrame], day: str, *, account: Account | None = None, records: tuple = ()
) -> ToolContext:
    """The context of an agent's tools at the open of a day, over a panel of bars."""
    store = DataState()
    store.update("ohlcv", panel)
    if records:
        store.record(records)
    view = store.view(Moment.at(day, "open"))
    return ToolContext(view, account or Account.opening(100_000), Rulebook.mainland())


def trading_tools_at(
    panel: dict[str, pd.DataFrame],
    day: str,
    *,
    cash: float = 100_000,
    rules: Rulebook | None = None,
    records: tuple = (),
    holding: dict[str, int] | None = None,
    **options,
) -> ToolContext:
    """The context of an agent that trades by itself; ``holding`` is held since before, at no cost."""
    store = DataState()
    store.update("ohlcv", panel)
    if records:
        store.record(records)
    view = store.view(Moment.at(day, "open"))
    rules = rules or Rulebook.mainland()
    positions = {
        symbol: Position(quantity=shares, sellable=shares, cost=Decimal(0), entered=view.moment.session)
        for symbol, shares in (holding or {}).items()
    }
    account = replace(Account.opening(cash), positions=positions)
    market = Session.at_open(view, account, rules)
    return ToolContext(view, account, rules, session=market, **options)
