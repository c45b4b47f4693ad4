"""States of the graphs as tests read and write them: field by field, whatever group a field is in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from quantgraph.runtime.graph_state import changed, dialogue_of, progress_of, request_of, strategy_of


def flat(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a state or an update beside those of its groups; ``request`` is the checked one."""
    groups = state.get("quantgraph") or {}
    fields: dict[str, Any] = {"strategy": strategy_of(state)} if groups else {}
    for name, read in (("request", request_of), ("dialogue", dialogue_of), ("progress", progress_of)):
        fields |= read(state) if name in groups else {}
    if "checked" in fields:
        fields["request"] = fields.pop("checked")
    return {**fields, **{key: value for key, value in state.items() if key != "quantgraph"}}


def then(state: Mapping[str, Any], update: Mapping[str, Any]) -> Any:
    """Return the state after an update of a node that was called by hand."""
    return changed(state, update)


def grouped(fields: Mapping[str, Any]) -> Any:
    """Return a state that has these fields, each in its group; those in a group already stay."""
    named = {"checked" if name == "request" else name: value for name, value in fields.items()}
    return changed({"quantgraph": fields.get("quantgraph", {})}, named)
