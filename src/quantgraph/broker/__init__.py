"""Orders, fills, the simulated market, and the ledger.

``Ledger`` loads SQLAlchemy and is imported on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgraph._util.lazy_names import lazy_names
from quantgraph.broker.account import Account, Position, Receivable
from quantgraph.broker.corporate_actions import Delisting, Dividend, Event, Payment, Split
from quantgraph.broker.decider import BlockRule, DataNeeds, Decider, Decision
from quantgraph.broker.decision_context import DecisionContext, RunContext, TradePlan
from quantgraph.broker.execution import TradingSession, submit_batch
from quantgraph.broker.logged_step import LoggedExecution, LoggedStep
from quantgraph.broker.open_session import Block, SessionResult
from quantgraph.broker.order_matching import submit
from quantgraph.broker.orders import Fill, Order, Outcome, Quantity, Rejection, RejectionCode
from quantgraph.broker.quotes import Quote, Quotes, quotes_at
from quantgraph.broker.session_market import Pending, SessionMarket
from quantgraph.broker.simulate import Market, advance, run_sessions, simulate, trade_session
from quantgraph.broker.sizing import largest_buy
from quantgraph.broker.valuation import Mark, MarkAt, last_closes, mark, value_of

if TYPE_CHECKING:
    from quantgraph.broker.ledger import Ledger

__all__ = [
    "Account",
    "Block",
    "BlockRule",
    "DataNeeds",
    "Decider",
    "Decision",
    "DecisionContext",
    "Delisting",
    "Dividend",
    "Event",
    "Fill",
    "Ledger",
    "LoggedExecution",
    "LoggedStep",
    "Mark",
    "MarkAt",
    "Market",
    "Order",
    "Outcome",
    "Payment",
    "Pending",
    "Position",
    "Quantity",
    "Quote",
    "Quotes",
    "Receivable",
    "Rejection",
    "RejectionCode",
    "RunContext",
    "SessionMarket",
    "SessionResult",
    "Split",
    "TradePlan",
    "TradingSession",
    "advance",
    "largest_buy",
    "last_closes",
    "mark",
    "quotes_at",
    "run_sessions",
    "simulate",
    "submit",
    "submit_batch",
    "trade_session",
    "value_of",
]

if not TYPE_CHECKING:  # a type checker must still find misspelt names
    __getattr__ = lazy_names(__name__, {"ledger.ledger": ("Ledger",)})
