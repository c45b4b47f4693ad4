"""Whether the request of a state was edited since it was read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from quantgraph.errors import BadOption


def is_edited(state: Mapping[str, Any]) -> bool:
    """Whether ``user_intent`` has other parameters than were read, ``request.params``."""
    read = ((state.get("quantgraph") or {}).get("request") or {}).get("params")
    intent = state.get("user_intent")
    params = intent.get("params") if isinstance(intent, Mapping) else None
    return bool(read) and params is not None and params != read


def check_unedited(state: Mapping[str, Any]) -> None:
    """Refuse a request that was edited where its signal is traded already (``BadOption``)."""
    if is_edited(state):
        raise BadOption(
            "the request was edited after its signal was made; edit a checkpoint whose next node is signal",
            parameter="user_intent",
        )
