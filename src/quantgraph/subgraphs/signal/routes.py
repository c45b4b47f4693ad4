"""The routes: pure functions of the state that name the next node."""

from __future__ import annotations

from typing import Literal

from quantgraph.errors import BadWindow, FutureRequested, RateLimited, SourceUnavailable, UnknownField
from quantgraph.runtime.endings import DATA_ERRORS, is_edited
from quantgraph.runtime.graph_state import dialogue_of
from quantgraph.subgraphs.signal.state import SignalSubgraphState

_SOURCE_ERRORS = frozenset(kind.code for kind in (RateLimited, SourceUnavailable))


def _code(state: SignalSubgraphState) -> str:
    return state["error_messages"][0].partition(":")[0]


def _is_beyond_code(error: str) -> bool:
    """Whether new code cannot fix an error: a symbol, the window or a field is at fault, or the source."""
    kinds = (*DATA_ERRORS, BadWindow, FutureRequested, UnknownField)
    return error in {"warm_up", *(kind.code for kind in kinds)}


def _needs_data(state: SignalSubgraphState) -> bool:
    required = state.get("user_intent", {}).get("params", {}).get("required_indicators")
    return not state.get("data_ready") or bool(required and not state.get("indicators_ready"))


def route_from_reflection(
    state: SignalSubgraphState,
) -> Literal["clarify", "data_fetch", "signal_generate", "validate", "__end__"]:
    """After reflection: a question, else data, else the signal, else validation."""
    if is_edited(state):
        return "data_fetch"  # which leads back
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
) -> Literal["reflection", "data_fetch", "validate", "clarify", "__end__"]:
    """After the fetch: validate the data; on errors reflect again, or ask after too many attempts.

    A source that fails for another reason than the request is asked again.
    """
    if is_edited(state):
        return "reflection"
    if state.get("ended_because"):
        return "__end__"
    if state.get("clarification_needed"):
        return "clarify"
    if not state.get("error_messages"):
        return "validate"
    if state.get("retry_count", 0) >= state.get("max_retries", 3):
        return "clarify"
    return "data_fetch" if _code(state) in _SOURCE_ERRORS else "reflection"


def route_after_signal_gen(
    state: SignalSubgraphState,
) -> Literal["reflection", "signal_generate", "validate", "clarify", "__end__"]:
    """After the generation: validate the signal, ask its question, or go where errors are mended."""
    if is_edited(state):
        return "reflection"
    if state.get("ended_because"):
        return "__end__"
    if state.get("clarification_needed"):
        return "clarify"
    return _mended_in(state) if state.get("error_messages") else "validate"


def _mended_in(state: SignalSubgraphState) -> Literal["reflection", "signal_generate", "clarify"]:
    """Where errors are mended: in code by the generation, in a parameter by reflection.

    After too many attempts the user is asked.
    """
    if state.get("clarification_needed") or state.get("retry_count", 0) >= state.get("max_retries", 3):
        return "clarify"
    wants_signal = state.get("user_intent", {}).get("type") in ("signal_gen", "mixed")
    in_code = wants_signal and not _needs_data(state) and not _is_beyond_code(_code(state))
    return "signal_generate" if in_code else "reflection"


def route_after_validation(
    state: SignalSubgraphState,
) -> Literal["reflection", "signal_generate", "clarify", "__end__"]:
    """After validation: the next step, the place where errors are mended, or the end."""
    if is_edited(state):
        return "reflection"
    if state.get("ended_because"):
        return "__end__"
    if state.get("clarification_needed"):
        return "clarify"
    if state.get("error_messages"):
        return _mended_in(state)
    intent = state.get("user_intent", {}).get("type")
    if intent == "data_fetch":
        return "__end__" if not _needs_data(state) else "reflection"
    if intent in ("signal_gen", "mixed"):
        return "__end__" if state.get("data_ready") and state.get("signal_ready") else "reflection"
    return "__end__"


def route_after_clarify(state: SignalSubgraphState) -> Literal["clarify", "reflection", "__end__"]:
    """After clarify: ask the question that was just worded, reflect on the answer, or end."""
    if state.get("ended_because") and not is_edited(state):
        return "__end__"
    clarification = dialogue_of(state)["clarification"]
    asks = clarification and clarification.get("question") and not is_edited(state)
    return "clarify" if asks else "reflection"
