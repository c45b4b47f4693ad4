"""The routes: pure functions of the state that name the next node."""

from __future__ import annotations

from typing import Literal

from quantgraph.subgraphs.signal.state import SignalSubgraphState

__all__ = [
    "route_after_clarify",
    "route_after_data_fetch",
    "route_after_signal_gen",
    "route_after_validation",
    "route_from_reflection",
]


def _needs_data(state: SignalSubgraphState) -> bool:
    required = state.get("user_intent", {}).get("params", {}).get("required_indicators")
    return not state.get("data_ready") or bool(required and not state.get("indicators_ready"))


def route_from_reflection(
    state: SignalSubgraphState,
) -> Literal["clarify", "data_fetch", "signal_generate", "validate", "__end__"]:
    """After reflection: a question, else data, else the signal, else validation."""
    if state.get("ended_because"):
        return "__end__"
    if state.get("clarification_needed"):
        return "clarify"
    intent = state.get("user_intent", {}).get("type")
    if intent not in ("data_fetch", "signal_gen", "mixed"):
        return "clarify" if intent == "unclear" else "__end__"
    if _needs_data(state):
        return "data_fetch"
    if intent != "data_fetch" and not state.get("signal_ready"):
        return "signal_generate"
    return "validate"


def route_after_data_fetch(
    state: SignalSubgraphState,
) -> Literal["reflection", "validate", "clarify", "__end__"]:
    """After the fetch: validate the data; on errors reflect again, or ask after too many attempts."""
    if state.get("ended_because"):
        return "__end__"
    if not state.get("error_messages"):
        return "validate"
    if state.get("clarification_needed") or state.get("retry_count", 0) >= state.get("max_retries", 3):
        return "clarify"
    return "reflection"


def route_after_signal_gen(state: SignalSubgraphState) -> Literal["reflection", "validate", "__end__"]:
    """After the generation: validate the signal; on errors reflect again."""
    if state.get("ended_because"):
        return "__end__"
    return "reflection" if state.get("error_messages") else "validate"


def route_after_validation(state: SignalSubgraphState) -> Literal["reflection", "clarify", "__end__"]:
    """After validation: the next step, back with the errors, or the end."""
    if state.get("ended_because"):
        return "__end__"
    if state.get("error_messages"):
        if state.get("clarification_needed") or state.get("retry_count", 0) >= state.get("max_retries", 3):
            return "clarify"
        return "reflection"
    intent = state.get("user_intent", {}).get("type")
    if intent == "data_fetch":
        return "__end__" if not _needs_data(state) else "reflection"
    if intent in ("signal_gen", "mixed"):
        return "__end__" if state.get("data_ready") and state.get("signal_ready") else "reflection"
    return "__end__"


def route_after_clarify(state: SignalSubgraphState) -> Literal["clarify", "reflection", "__end__"]:
    """After clarify: ask the question that was just worded, reflect on the answer, or end."""
    if state.get("ended_because"):
        return "__end__"
    clarification = state.get("clarification")
    return "clarify" if clarification and clarification.get("question") else "reflection"
