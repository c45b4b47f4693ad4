"""How a request ended, as a host sees it: the group ``result`` of the state's key ``quantgraph``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from quantgraph.runtime.graph_state import Update, changed, strategy_of


def with_result(state: Mapping[str, Any], update: Update, run_id: str) -> Update:
    """Return the update of a node that ended the request, with its result."""
    now = changed(state, update)
    before = now["quantgraph"].get("result") or {}  # thanks change nothing
    result = {
        "ended_because": update["ended_because"],
        "data_ref": now.get("data_ref") or before.get("data_ref", ""),
        "name": strategy_of(now).get("name", ""),
        "run_id": run_id,
    }
    return {**update, "quantgraph": {**(update.get("quantgraph") or {}), "result": result}}
