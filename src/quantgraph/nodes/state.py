"""State of the main graph: the signal subgraph's, and where the daily loop stands."""

from __future__ import annotations

from typing import Any, NotRequired

from quantgraph.subgraphs.signal.state import SignalSubgraphState

__all__ = ["TradingState"]


class TradingState(SignalSubgraphState):
    """State of the main graph. Only ``messages`` is needed to start; account and trades are in the ledger."""

    run_of: NotRequired[dict[str, str | None]]
    """Which run trades which request, ``{run_id, request}``: a new request on a thread is a new run."""
    session: NotRequired[str | None]
    """The session being traded, ``YYYYMMDD``; None before the first and after the last."""
    summary: NotRequired[dict[str, Any]]
    """The result, plain JSON, see :func:`quantgraph.report.summarise`."""
