"""A trading session: open it, collect the decision, match the orders, close and mark the account."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgraph._util.lazy_names import lazy_names

if TYPE_CHECKING:
    from quantgraph.broker._schedule import days_without_entries, last_of_each, trade_days
    from quantgraph.broker.session._exits import Followed
    from quantgraph.broker.session._matching import LARGEST, fits_lots, largest_buy, price_band, split_buys
    from quantgraph.broker.session._simulate import (
        BLOCK_SESSIONS,
        OrderProposal,
        advance,
        collect_decision,
        commit_sessions,
        context_of,
        exits_of,
        load_block_code,
        open_market_run,
        propose_orders,
        run_sessions,
    )

__all__ = [
    "BLOCK_SESSIONS",
    "LARGEST",
    "Followed",
    "OrderProposal",
    "advance",
    "collect_decision",
    "commit_sessions",
    "context_of",
    "days_without_entries",
    "exits_of",
    "fits_lots",
    "largest_buy",
    "last_of_each",
    "load_block_code",
    "open_market_run",
    "price_band",
    "propose_orders",
    "run_sessions",
    "split_buys",
    "trade_days",
]

if not TYPE_CHECKING:  # a type checker must still find misspelt names
    __getattr__, __dir__ = lazy_names(__name__, __file__)
