"""A view at an open, and the tools' context on it, for tests of what an agent sees when it decides."""

from __future__ import annotations

import pandas as pd

from quantgraph.broker.account import Account
from quantgraph.market.moment import Moment
from quantgraph.market.rulebook import Rulebook
from quantgraph.state import DataState
from quantgraph.tools import DecisionTools

__all__ = ["tools_at"]


def tools_at(
    panel: dict[str, pd.DataFrame],
    day: str,
    *,
    account: Account | None = None,
    records: tuple = (),
    runner=None,
) -> DecisionTools:
    """The context of an agent's tools at the open of a day, over a panel of bars."""
    store = DataState()
    store.update("ohlcv", panel)
    if records:
        store.record(records)
    view = store.view(Moment.at(day, "open"))
    return DecisionTools.of(view, account or Account.opening(100_000), Rulebook.mainland(), runner)
