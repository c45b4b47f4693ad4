"""Given data: a commit of the host's is traded as it is, without a request in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import pandas as pd

from quantgraph._util.texts import say
from quantgraph.errors import BadWindow, NoData, QuantGraphError, UnknownSymbol
from quantgraph.market.moment import session_of, sessions_between
from quantgraph.nodes.state import TradingState
from quantgraph.nodes.trading import Trading
from quantgraph.runtime.endings import FATAL_ERRORS, end_reason, end_update, language, user_messages
from quantgraph.state import DataState
from quantgraph.subgraphs.signal.decider_needs import missing_indicators, needs_notes
from quantgraph.subgraphs.signal.state_updates import initial_state
from quantgraph.tools.window import split_codes


def route_after_begin(state: TradingState) -> Literal["given_data", "signal"]:
    """After begin, if no signal is needed: the host's data, unless the user said something."""
    return "given_data" if state.get("data_ref") and not user_messages(state) else "signal"


def given_data_node(state: TradingState, *, trading: Trading) -> dict[str, Any]:
    """Fill the request from ``given`` and the commit ``data_ref``; no model and no source is asked.

    Without symbols or a window in ``given`` the request has all that the commit has.

    Returns
    -------
    dict
        The request and the commit; or the reason for the end, if the commit has no such bars.
    """
    clean = initial_state(state.get("max_retries", 3)) | {"language": language(state)}
    now: dict[str, Any] = {**state, **clean}
    try:
        request, ref = _request(state, trading)
    except FATAL_ERRORS:
        raise
    except QuantGraphError as error:
        return {**clean, **end_update(now, end_reason(error), error)}
    extent = f"{request['start']}-{request['end']}"
    text = say(language(state), zh=f"数据已就绪：{extent}。", en=f"The data is ready: {extent}.")
    ready = {"request": request, "data_ref": ref, "given_ref": state["data_ref"], "data_ready": True}
    return {**clean, **ready, **end_update(now, "done", text=text)}


def _request(state: TradingState, trading: Trading) -> tuple[dict[str, Any], str]:
    ref, given = state["data_ref"], state.get("given", {})
    data = trading.resources.store.snapshot(ref)
    bars = data["ohlcv"]
    if not {"open", "close"} <= set(bars):
        raise NoData(f"commit {ref[:12]} has no bars; data_ref must have open and close in ohlcv")
    sessions, listed = pd.DatetimeIndex(bars["open"].index), bars["open"].columns
    symbols = _symbols(given, listed)
    if len(symbols) < len(listed):
        ref = _only(ref, symbols, trading.resources.store)
    inside = _window(state, given, sessions)
    notes = needs_notes(trading.decider, sessions, inside[0], data)
    notes += missing_indicators(trading.decider, data)
    request = {
        "ts_code": given.get("ts_code") or ",".join(symbols),
        "trade": given.get("ts_code") or ",".join(symbols),
        "index": [],
        "start": f"{inside[0]:%Y%m%d}",
        "end": f"{inside[-1]:%Y%m%d}",
        "indicators": [],
        "strategy": "",
        "notes": [note.text(language(state)) for note in notes],
        "index_code": None,
    }
    return request, ref


def _symbols(given: Mapping[str, str], listed: pd.Index[str]) -> list[str]:
    named = split_codes(given.get("ts_code") or "")
    unknown = [symbol for symbol in named if symbol not in listed]
    if unknown:
        raise UnknownSymbol(
            f"the commit has no {', '.join(unknown[:5])}; ts_code must name some of its {len(listed)} codes",
            token=unknown[0],
        )
    return sorted(set(named)) or list(listed)


def _window(state: TradingState, given: Mapping[str, str], sessions: pd.DatetimeIndex) -> pd.DatetimeIndex:
    """Return the sessions from ``start_date`` to ``end_date`` that the run may know."""
    first, last = given.get("start_date") or sessions[0], given.get("end_date") or sessions[-1]
    limit = state.get("as_of") or sessions[-1]
    inside = sessions_between(sessions, session_of(first), min(session_of(last), session_of(limit)))
    if inside.empty:
        raise BadWindow(
            f"the commit has no session in the window; it has {sessions[0]:%Y%m%d} to {sessions[-1]:%Y%m%d}",
            parameter="given",
        )
    return inside


def _only(ref: str, symbols: list[str], store: DataState) -> str:
    data = store.snapshot(ref)
    panels = {
        panel: {name: frame[frame.columns.intersection(symbols)] for name, frame in data[panel].items()}
        for panel in ("ohlcv", "indicators")
    }
    return store.override(base=ref, signal={}, **panels)
