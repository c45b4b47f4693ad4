"""State of the main graph: the signal subgraph's, and where the daily loop stands."""

from __future__ import annotations

from typing import Any, NotRequired

from typing_extensions import TypedDict

from quantgraph.runtime.state import Clarification
from quantgraph.subgraphs.signal.state import SignalSubgraphState

__all__ = ["Proposal", "TradingState"]


class Proposal(TypedDict):
    """A session's orders that wait for approval."""

    session: str
    orders: list[dict[str, Any]]
    """As in :func:`quantgraph.broker.orders.order_to_json`."""
    question: Clarification | None
    """None where there is nothing to approve."""
    approved: list[str]
    """Sequences of the orders that are sent; none until somebody said so."""


class TradingState(SignalSubgraphState):
    """State of the main graph. Only ``messages`` is needed to start; account and trades are in the ledger."""

    session: NotRequired[str | None]
    """The session being traded, ``YYYYMMDD``; None before the first and after the last."""
    proposal: NotRequired[Proposal | None]
    """What was decided for the session and is not sent yet; only where trades are approved."""
    approved_from: NotRequired[str | None]
    """The session, ``YYYYMMDD``, whose answer approved the orders of all later ones."""
    summary: NotRequired[dict[str, Any]]
    """The result, plain JSON, see :func:`quantgraph.report.summarise`."""
