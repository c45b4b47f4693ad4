"""State of the main graph: the signal subgraph's, and where the daily loop stands."""

from __future__ import annotations

from typing import Any, NotRequired

from typing_extensions import TypedDict

from quantgraph.subgraphs.signal.state import Clarification, SignalSubgraphState

__all__ = ["Proposal", "TradingState"]


class Proposal(TypedDict):
    """A session's orders that wait for approval."""

    session: str
    orders: list[dict[str, Any]]
    """As in :func:`quantgraph.broker.approval.plain`."""
    question: Clarification | None
    """None where there is nothing to approve."""
    approved: bool
    """False until somebody said so."""


class TradingState(SignalSubgraphState):
    """State of the main graph. Only ``messages`` is needed to start; account and trades are in the ledger."""

    run_of: NotRequired[dict[str, str | None]]
    """Which run trades which request, ``{run_id, request}``: a new request on a thread is a new run."""
    session: NotRequired[str | None]
    """The session being traded, ``YYYYMMDD``; None before the first and after the last."""
    proposal: NotRequired[Proposal | None]
    """What was decided for the session and is not sent yet; only where trades are approved."""
    summary: NotRequired[dict[str, Any]]
    """The result, plain JSON, see :func:`quantgraph.report.summarise`."""
