"""State of the main graph: the signal subgraph's, and the position of the daily loop."""

from __future__ import annotations

from typing import Any

from typing_extensions import TypedDict

from quantgraph.runtime.graph_state import Clarification
from quantgraph.subgraphs.signal import SignalSubgraphState


class Proposal(TypedDict):
    """A session's orders before approval."""

    session: str
    orders: list[dict[str, Any]]
    """As in :func:`quantgraph.broker.accounts.order_to_json`."""
    notes: dict[str, Any]
    """The decision's notes."""
    in_order: bool
    """Whether the orders are submitted as listed."""
    exits: list[dict[str, Any]]
    """The decision's exit rules, which need no approval."""
    question: Clarification | None
    """None if there is nothing to approve."""
    approved: list[str]
    """Sequence numbers of the approved orders; empty until approved."""


class TradingState(SignalSubgraphState, total=False):
    """State of the main graph. Only ``messages`` is required; account and trades are in the ledger."""

    session: str | None
    """The session being traded, ``YYYYMMDD``; None before the first and after the last."""
    proposal: Proposal | None
    """The session's orders, decided and not sent yet; only with ``approve``."""
    approved_from: str | None
    """The session, ``YYYYMMDD``, whose answer approved the orders of all later ones."""
    assistant_context: str
    """The context, as JSON, with which an assistant of a server began the request."""
    summary: dict[str, Any]
    """The result, plain JSON, see :func:`quantgraph.report.summarise`."""
