"""What each step left behind: a loop shows in it, whatever its length, before it costs much."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from quantgraph._util.canonical_json import canonical_json, content_hash
from quantgraph._util.texts import say
from quantgraph.runtime.endings import ended, language

__all__ = ["SAME_STEP_LIMIT", "TRAIL_LIMIT", "stepped"]

from quantgraph.runtime.state import Update

SAME_STEP_LIMIT = 4
"""The step that leaves behind what the same node left behind three times since the last answer ends the run.
Not before: the third time that an error comes the user is asked about it, and the steps on the way to it have
been made as often then."""
TRAIL_LIMIT = 60
"""Steps that are remembered: a circle of up to fifteen steps is seen."""

_MATTERS = (
    "data_ref",
    "request",
    "error_messages",
    "clarification",
    "data_ready",
    "indicators_ready",
    "signal_ready",
    "user_intent",
)


def stepped(node: Callable[[Any], Update], name: str, state: Mapping[str, Any]) -> Update:
    """Run a node; if it left the same behind too often, the run ends with ``no_progress``.

    What was reached stays in the state.
    """
    update = node(state)
    after = {**state, **update}
    step = f"{name}:{_fingerprint(after)}"
    trail = [*(after.get("trail") or []), step][-TRAIL_LIMIT:]
    update = {**update, "trail": trail}
    if update.get("ended_because") or trail.count(step) < SAME_STEP_LIMIT:
        return update
    why = say(
        language(after),
        zh=f"{name} {SAME_STEP_LIMIT} 次得到同样的结果",
        en=f"{name} came to the same {SAME_STEP_LIMIT} times",
    )
    closing = ended(after, "no_progress", f"no_progress: {why}")
    return {**update, **closing, "messages": [*update.get("messages", []), *closing["messages"]]}


def _fingerprint(state: Mapping[str, Any]) -> str:
    """Name of what matters in a state, by content."""
    matters = {key: state.get(key) for key in _MATTERS}
    return content_hash(
        canonical_json(matters | {"strategy": (state.get("strategy") or {}).get("code_hash")})
    )
