"""A trading session: open it, collect the decision, match the orders, close and mark the account."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgraph._util.lazy_names import lazy_names

if TYPE_CHECKING:
    from quantgraph.broker.session._market import load_block_code
    from quantgraph.broker.session._matching import LARGEST, fits_lots, largest_buy, price_band, split_buys
    from quantgraph.broker.session._open_session import (
        OrderProposal,
        collect_decision,
        fill_orders,
        open_session,
        propose_orders,
        reject_orders,
    )
    from quantgraph.broker.session._session import TradingSession, submit_batch
    from quantgraph.broker.session._simulate import (
        BLOCK_SESSIONS,
        advance,
        commit_sessions,
        run_identity,
        run_sessions,
    )

__all__ = [
    "BLOCK_SESSIONS",
    "LARGEST",
    "OrderProposal",
    "TradingSession",
    "advance",
    "collect_decision",
    "commit_sessions",
    "fill_orders",
    "fits_lots",
    "largest_buy",
    "load_block_code",
    "open_session",
    "price_band",
    "propose_orders",
    "reject_orders",
    "run_identity",
    "run_sessions",
    "split_buys",
    "submit_batch",
]

if not TYPE_CHECKING:  # a type checker must still find misspelt names
    __getattr__, __dir__ = lazy_names(__name__, __file__)
