"""What a decider changes in a request: it may need other data, and no rule if it uses no signal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from quantgraph._util.texts import Note
from quantgraph.broker.decider import Decider
from quantgraph.data import MarketDataSource
from quantgraph.errors import NoData
from quantgraph.market.moment import session_of
from quantgraph.recording import recorded
from quantgraph.state import DataState, Snapshot
from quantgraph.subgraphs.signal.data_request import (
    data_start,
    restrict_to_request,
    with_sessions,
)

__all__ = ["fetch_needed_sessions", "needed_start", "needs_notes", "not_executed_note", "set_rule_aside"]


def set_rule_aside(intent: dict[str, Any], unread: Sequence[str]) -> str:
    """Make an intent a request for data alone, and return the user's words that are not executed.

    The indicators that a rule needs are not fetched without the rule. Words that were not understood count as
    part of it: the symbols and the window are asked for first.
    """
    params = intent["params"]
    rule = params["strategy_desc"]
    if rule:
        params["required_indicators"] = []
    intent |= {"type": "data_fetch", "needs_clarification": False}
    return "; ".join([*([rule] if rule else []), *(word for word in unread if word not in rule)])


def not_executed_note(decider: Decider, words: str) -> Note:
    """Return the note that a decider without a signal does not do what the user said."""
    return Note(
        zh=f"决策器 {decider.name} 不执行：{words}", en=f"decider {decider.name} does not execute: {words}"
    )


def needed_start(decider: Decider, sessions: pd.DatetimeIndex, start: pd.Timestamp) -> pd.Timestamp | None:
    """Return the first of the sessions before ``start`` that a decider needs; None if there is none."""
    before = sessions[sessions < start]
    count = min(decider.needs.sessions, len(before))
    return before[-count] if count else None


def needs_notes(
    decider: Decider, sessions: pd.DatetimeIndex, start: pd.Timestamp, data: Snapshot
) -> list[Note]:
    """Return notes on what a decider needs and the data do not have.

    Parameters
    ----------
    sessions
        Sessions of the source or the data.
    data
        What the records are looked for in.
    """
    there, needed = int((sessions < start).sum()), decider.needs.sessions
    notes = [
        Note(zh=f"没有数据源提供 {kind} 类记录", en=f"no source gives records of kind {kind}")
        for kind in decider.needs.records
        if not data.records(kind)
    ]
    if there < needed:
        notes.append(_fewer_sessions(decider, there))
    return notes


def fetch_needed_sessions(
    store: DataState, ref: str, request: Mapping[str, Any], source: MarketDataSource, decider: Decider
) -> tuple[str, dict[str, Any], list[Note]]:
    """Fetch the sessions before the window that a request needs, on top of a commit with the window's data.

    Returns
    -------
    tuple
        The commit, the request with the ``data_start`` of what there is, and a note if it is less.

    Raises
    ------
    QuantGraphError
        If the source fails otherwise than for want of data.
    """
    request, asked, sessions = dict(request), data_start(request), source.sessions()
    before = sessions[sessions < session_of(request["start"])]

    def fetch() -> dict[str, Any]:
        try:
            extended = with_sessions(store, ref, request, source, first=asked, last=before[-1])
        except NoData:
            return {"data_ref": ref, "first": None}
        extended = restrict_to_request(store, extended, request, source)
        return {"data_ref": extended, "first": f"{store.snapshot(extended)['ohlcv']['open'].index[0]:%Y%m%d}"}

    facts = {"step": "earlier_sessions", "data_ref": ref, "request": request, "source": source.name}
    fetched = recorded("code", facts, fetch)
    first = fetched["first"]
    if first == f"{asked:%Y%m%d}":
        return fetched["data_ref"], request, []
    del request["data_start"]
    there = 0
    if first is not None and first < request["start"]:
        request["data_start"] = first
        there = int((before >= session_of(first)).sum())
    return fetched["data_ref"], request, [_fewer_sessions(decider, there)]


def _fewer_sessions(decider: Decider, there: int) -> Note:
    needed = decider.needs.sessions
    return Note(
        zh=f"决策器 {decider.name} 需要区间之前的 {needed} 个交易日，数据只有 {there} 个",
        en=f"decider {decider.name} needs {needed} sessions before the window; the data have {there}",
    )
