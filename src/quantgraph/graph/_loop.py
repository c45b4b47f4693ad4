"""The daily loop: one turn is a step of one or many sessions, so that a run can stop between turns."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Literal

import pandas as pd
from langchain_core.messages import AIMessage

from quantgraph._util.files import new_run_id, run_id_of
from quantgraph._util.texts import say
from quantgraph.broker.session import BLOCK_SESSIONS, commit_sessions
from quantgraph.errors import BadWindow, NoData, QuantGraphError, UnknownSymbol
from quantgraph.graph._approval import approved_result, earlier_approvals
from quantgraph.graph._state import TradingState
from quantgraph.graph._trading import Trading
from quantgraph.market import session_of, sessions_between
from quantgraph.runtime import STEP_LIMIT, steps_left
from quantgraph.runtime.dialogue import emit_orders, emit_session
from quantgraph.runtime.endings import (
    FATAL_ERRORS,
    end_reason,
    end_update,
    has_ended_run,
    language,
    only_thanks,
    request_language,
    user_messages,
)
from quantgraph.runtime.graph_state import changed, check_messages, request_of, written
from quantgraph.subgraphs.signal import check_commit, initial_state, needs_notes, only_symbols
from quantgraph.tools import split_codes


def begin_node(state: TradingState, *, context: str | None = None, for_page: bool = False) -> dict[str, Any]:
    """Reset the result for a new request; give it a new run if its run id belongs to an ended request.

    Thanks are not a request: the result stays. ``context`` is that of a server's assistant, as JSON. A chat
    page shows a question only below a message of the assistant, so a later request gets one.
    """
    if not state.get("data_ref"):  # a decider that needs no signal may begin on the data alone
        check_messages(state)
    if only_thanks(state):
        return {}
    run_id = run_id_of(state.get("run_id"))
    run_id = new_run_id() if has_ended_run(state, run_id) else run_id
    begun: dict[str, Any] = {"session": None, "summary": {}, "approved_from": None, "run_id": run_id}
    if context is not None:
        begun["assistant_context"] = context
    if for_page and any(isinstance(message, AIMessage) for message in state["messages"]):
        text = say(request_language(state), zh="好的，我来看这个请求。", en="Reading the request.")
        begun["messages"] = [AIMessage(text, id=f"begin-{run_id}-{len(state['messages'])}")]
    return begun


def daily_loop_node(state: TradingState, *, trading: Trading) -> dict[str, Any]:
    """Open the run, and set the first session that is not in the ledger, or None if all are.

    The ledger decides, not the checkpoint, which may lag behind it.

    Raises
    ------
    UnknownSymbol
        If the rulebook has no board for a symbol.
    LedgerConflict
        If the ledger's run of this id has other cash, data, strategy, decider, rules or window.
    """
    sessions, run_id = trading.sessions(state), state.get("run_id") or new_run_id()
    done = trading.open_run(run_id, state).last_session(run_id)
    if done is None:
        bars = trading.resources.store.snapshot(state["data_ref"])["ohlcv"]
        trading.check_tradable(bars["open"].columns)
        if lacking := trading.without_open_prices(state):
            ended = written(state, end_update(state, end_reason(lacking), lacking))
            return {**ended, "run_id": run_id, "session": None}
    left = sessions if done is None else sessions[sessions > done]
    is_first_turn = trading.approve and not state.get("session")
    return {
        **(earlier_approvals(state, done) if is_first_turn and done is not None else {}),
        "run_id": run_id,
        "session": f"{left[0]:%Y%m%d}" if len(left) else None,
    }


def route_after_daily_loop(state: TradingState) -> Literal["decision", "report", "__end__"]:
    """After the loop: the decision if there is a session, else the report; the end if the run ended."""
    if state.get("ended_because") not in (None, "done"):
        return "__end__"
    return "decision" if state.get("session") else "report"


def route_after_decision(state: TradingState) -> Literal["daily_loop", "report"]:
    """After the decision: the next session; the report if the run ended."""
    return "daily_loop" if state.get("ended_because") in (None, "done") else "report"


def decision_node(state: TradingState, *, trading: Trading) -> dict[str, Any]:
    """Trade the session and those after it that belong to this step; whole sessions enter the ledger.

    A step is one session of a decider that asks models, else up to :data:`BLOCK_SESSIONS`, the fewer the more
    symbols one without a block rule trades. It is more if the host's ``recursion_limit`` leaves too few steps
    for the rest of the window. A session that is in the ledger already (the process was killed after
    its commit) is not traded again. With ``approve`` the step is one session, traded as approved.
    """
    run_id, first = state["run_id"], session_of(state["session"])
    ledger = trading.open_run(run_id, state)
    done, sessions = ledger.last_session(run_id), trading.sessions(state)
    if done is not None and first <= done:
        return {"proposal": None} if trading.approve else {}
    left = sessions[sessions >= first]
    at_least = -(-len(left) // _turns())
    if trading.approve:
        result = approved_result(state, trading)
        if result is not None:
            ledger.commit_day(run_id, result)
            emit_session(result.session, result.value, window=sessions)
        return {"proposal": None}
    with trading.growing_view(run_id, state, first) as growing:
        why = commit_sessions(
            trading.market(state),
            list(left[: max(BLOCK_SESSIONS, at_least)]),
            trading.decider,
            ledger=ledger,
            run_id=run_id,
            run=trading.run_context(run_id, state),
            growing_view=growing,
            at_least=at_least,
            on_session=partial(emit_session, window=sessions),
        )
    if why:
        emit_orders(why.text(language(state)))
    return {}


def _turns() -> int:
    """Decisions that the steps left allow: each is followed by the loop, the last by report and end too."""
    left = steps_left()
    return max(1, ((STEP_LIMIT if left is None else left) - 2) // 2)


def route_after_begin(state: TradingState) -> Literal["given_data", "signal"]:
    """After begin, if no signal is needed: the host's data, unless there is a message."""
    return "given_data" if state.get("data_ref") and not user_messages(state) else "signal"


def given_data_node(state: TradingState, *, trading: Trading) -> dict[str, Any]:
    """Fill the request from the caller's constraints and the commit ``data_ref``; it asks no model or source.

    Without symbols or a window in them the request has all that the commit has. A commit without such
    bars ends the run.
    """
    clean = initial_state(state.get("max_retries", 3)) | {"language": language(state)}
    now = changed(state, clean)
    try:
        request, ref = _request(state, trading)
        found = check_commit(now, trading.resources, request, ref)
    except FATAL_ERRORS:
        raise
    except QuantGraphError as error:
        return written(state, {**clean, **end_update(now, end_reason(error), error)})
    extent = f"{request['start']}-{request['end']}"
    text = say(language(state), zh=f"数据已就绪：{extent}。", en=f"The data is ready: {extent}.")
    ready = {"checked": request, "data_ref": ref, **found, "given_ref": state["data_ref"], "data_ready": True}
    return written(state, {**clean, **ready, **end_update(now, "done", text=text)})


def _request(state: TradingState, trading: Trading) -> tuple[dict[str, Any], str]:
    ref, fixed = state["data_ref"], request_of(state)["given"]
    data = trading.resources.store.snapshot(ref)
    bars = data["ohlcv"]
    if not {"open", "close"} <= set(bars):
        raise NoData(f"commit {ref[:12]} has no bars; data_ref must have open and close in ohlcv")
    sessions, listed = pd.DatetimeIndex(bars["open"].index), bars["open"].columns
    symbols = _symbols(fixed, listed)
    if len(symbols) < len(listed):
        ref = only_symbols(trading.resources.store, ref, symbols)
    inside = _window(state, fixed, sessions)
    notes = needs_notes(trading.decider, sessions, inside[0], data)
    request = {
        "ts_code": fixed.get("ts_code") or ",".join(symbols),
        "trade": fixed.get("ts_code") or ",".join(symbols),
        "index": [],
        "start": f"{inside[0]:%Y%m%d}",
        "end": f"{inside[-1]:%Y%m%d}",
        "indicators": [],
        "strategy": "",
        "notes": [note.text(language(state)) for note in notes],
        "index_code": None,
    }
    return request, ref


def _symbols(fixed: Mapping[str, str], listed: pd.Index[str]) -> list[str]:
    named = split_codes(fixed.get("ts_code") or "")
    unknown = [symbol for symbol in named if symbol not in listed]
    if unknown:
        raise UnknownSymbol(
            f"the commit has no {', '.join(unknown[:5])}; ts_code must name some of its {len(listed)} codes",
            token=unknown[0],
        )
    return sorted(set(named)) or list(listed)


def _window(state: TradingState, fixed: Mapping[str, str], sessions: pd.DatetimeIndex) -> pd.DatetimeIndex:
    """Return the sessions from ``start_date`` to ``end_date`` that the run may know."""
    first, last = fixed.get("start_date") or sessions[0], fixed.get("end_date") or sessions[-1]
    limit = request_of(state)["as_of"] or sessions[-1]
    inside = sessions_between(sessions, session_of(first), min(session_of(last), session_of(limit)))
    if inside.empty:
        raise BadWindow(
            f"the commit has no session in the window; it has {sessions[0]:%Y%m%d} to {sessions[-1]:%Y%m%d}",
            parameter="given",
        )
    return inside
