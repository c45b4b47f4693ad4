"""From what a model read in a sentence to what the run really needs, checked by code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import pandas as pd
from pydantic import BaseModel, ConfigDict, Field, field_validator

from quantgraph._util.canonical_json import canonical_json, content_hash
from quantgraph._util.input_limits import check_sentence
from quantgraph._util.texts import Note, language_of, say
from quantgraph.data import MarketDataSource, resolve_symbols
from quantgraph.errors import BadOption, BadWindow
from quantgraph.market.moment import Moment, session_of, sessions_between
from quantgraph.state import DataState
from quantgraph.tools.window import read_window, split_codes

__all__ = [
    "ReflectionReply",
    "check_constraints",
    "check_request",
    "data_start",
    "has_data",
    "has_signal",
    "missing_part",
    "request_hash",
    "request_sessions",
    "request_symbols",
    "restrict_to_request",
    "with_constraints",
]


def check_constraints(
    given: Mapping[str, str], source: MarketDataSource, last: pd.Timestamp
) -> dict[str, str]:
    """The caller's parameters without the empty ones; a start without an end runs to the last session.

    Raises
    ------
    UnknownSymbol, BadWindow, BadOption
        If one of them cannot be meant.
    """
    fixed = {key: value for key, value in given.items() if value}
    for key, value in fixed.items():
        check_sentence(value, key)
    if "ts_code" in fixed:
        resolve_symbols(source, split_codes(fixed["ts_code"]), last)
    if "start_date" in fixed:
        fixed.setdefault("end_date", f"{last:%Y%m%d}")
    dates = {name: session_of(fixed[name], name=name) for name in ("start_date", "end_date") if name in fixed}
    if len(dates) == 2 and dates["start_date"] > dates["end_date"]:
        raise BadWindow(f"start_date={fixed['start_date']} is after end_date={fixed['end_date']}; swap them")
    return fixed | {name: f"{date:%Y%m%d}" for name, date in dates.items()}


def with_constraints(text: str, given: Mapping[str, str]) -> str:
    """The user's words, with what the caller fixed as a last line of them."""
    lines = [text, given.get("ts_code", "")]
    if "start_date" in given:
        start, end = given["start_date"], given["end_date"]
        lines.append(say(language_of(text), zh=f"{start}到{end}", en=f"from {start} to {end}"))
    return "\n".join(line for line in lines if line)


SYNTHETIC = Note(zh="数据是合成的，不代表任何真实股票", en="the data are synthetic: no real stock is meant")

_NOTHING = {"", "null", "none", "n/a", "无"}


class Params(BaseModel):
    """Parameters of an intent; empty means not said."""

    model_config = ConfigDict(extra="ignore")

    ts_code: str = ""
    start_date: str = ""
    end_date: str = ""
    strategy_desc: str = ""
    required_indicators: list[str] = Field(default_factory=list)

    @field_validator("ts_code", "start_date", "end_date", "strategy_desc", mode="before")
    @classmethod
    def _text(cls, value: object) -> object:
        if isinstance(value, list | tuple):
            value = ",".join(str(item) for item in value)
        if value is None or (isinstance(value, str) and value.strip().lower() in _NOTHING):
            return ""
        return str(value).strip() if isinstance(value, str | int) else value

    @field_validator("required_indicators", mode="before")
    @classmethod
    def _names(cls, value: object) -> object:
        names = split_codes(value) if isinstance(value, str) else [] if value is None else value
        if not isinstance(names, list | tuple):
            return names
        return [name for name in names if not isinstance(name, str) or name.strip().lower() not in _NOTHING]


class Intent(BaseModel):
    """What the user wants."""

    model_config = ConfigDict(extra="ignore")

    type: Literal["data_fetch", "signal_gen", "mixed", "unclear"] = "unclear"
    params: Params = Field(default_factory=Params)
    needs_clarification: bool = False


class ReflectionReply(BaseModel):
    """A reflection reply. ``next_action`` is advice: what is ready is decided by code."""

    model_config = ConfigDict(extra="ignore", title="Decision")

    analysis: str = ""
    task_type: Literal["data_fetch", "signal_gen", "mixed", "unclear"]
    next_action: Literal["data_fetch", "signal_generate", "clarify", "validate", "end"] | None = None
    user_intent: Intent
    clarification_question: str | None = None
    reasoning: str = ""
    unread: list[str] = Field(default_factory=list)

    @field_validator("unread", mode="before")
    @classmethod
    def _words(cls, value: object) -> object:
        return [] if value in (None, "", "null") else [value] if isinstance(value, str) else value

    @field_validator("clarification_question", mode="before")
    @classmethod
    def _question(cls, value: object) -> object:
        return None if isinstance(value, str) and value.strip().lower() in _NOTHING else value


def missing_part(kind: str, params: Mapping[str, Any]) -> Literal["symbol", "window", "strategy"] | None:
    """The most important thing that is not there yet: code, then window, then strategy."""
    if not params.get("ts_code"):
        return "symbol"
    if not params.get("start_date") or not params.get("end_date"):
        return "window"
    if kind in ("signal_gen", "mixed") and not params.get("strategy_desc"):
        return "strategy"
    return None


def check_request(
    params: Mapping[str, Any], source: MarketDataSource, as_of: Moment, language: str
) -> dict[str, Any]:
    """The request as plain JSON, with dates cut to the run's moment and codes known to the source.

    ``notes`` are what a reader of the result has to know, in his language.

    Raises
    ------
    UnknownSymbol, BadWindow, FutureRequested
        What the user has to correct.
    """
    resolved, start, end, notes = read_window(
        source, as_of, params["ts_code"], params["start_date"], params["end_date"]
    )
    if not resolved.symbols:
        raise BadOption(f"ts_code={params['ts_code']!r} stands for no symbol in {source.name}")
    return {
        "ts_code": params["ts_code"],
        "start": f"{start:%Y%m%d}",
        "end": f"{end:%Y%m%d}",
        "indicators": sorted(set(params["required_indicators"])),
        "strategy": params["strategy_desc"],
        "notes": [note.text(language) for note in (*notes, *([SYNTHETIC] if source.synthetic else []))],
        "index_code": resolved.index_code,
    }


def request_symbols(request: Mapping[str, Any], source: MarketDataSource) -> tuple[str, ...]:
    """The codes of a checked request, ascending."""
    as_of = Moment.at(request["end"])
    return read_window(source, as_of, request["ts_code"], request["start"], request["end"])[0].symbols


def request_sessions(request: Mapping[str, Any], source: MarketDataSource) -> pd.DatetimeIndex:
    """The sessions of a checked request's window."""
    return sessions_between(source.sessions(), session_of(request["start"]), session_of(request["end"]))


def data_start(request: Mapping[str, Any]) -> pd.Timestamp:
    """The first date of a checked request's data: its window's, or an earlier one that was needed."""
    return session_of(request.get("data_start", request["start"]))


def has_data(
    store: DataState, ref: str, request: Mapping[str, Any], source: MarketDataSource
) -> tuple[bool, bool]:
    """Whether a commit holds the bars, and the indicators, of this request (not just some of anybody's)."""
    snapshot = store.snapshot(ref)
    symbols = pd.Index(request_symbols(request, source))
    sessions = request_sessions(request, source)

    def covers(panel: str, name: str) -> bool:
        if name not in snapshot[panel]:
            return False
        frame = snapshot[panel][name]
        return bool(symbols.isin(frame.columns).all() and sessions.isin(frame.index).all())

    bars = all(covers("ohlcv", name) for name in ("open", "close"))
    return bars, all(covers("indicators", name) for name in request["indicators"])


def restrict_to_request(
    store: DataState, ref: str, request: Mapping[str, Any], source: MarketDataSource
) -> str:
    """Name of the commit that holds the request's symbols and window, and nothing of earlier requests.

    The window begins with the sessions that the strategy needed before it, if there are any.

    So a request gives the same signal, whatever its thread or its model's fetch has brought in beside it.
    Where something is left out the signal goes too.
    """
    snapshot, symbols = store.snapshot(ref), request_symbols(request, source)
    first, last = data_start(request), session_of(request["end"])
    panels: dict[str, dict[str, pd.DataFrame]] = {"signal": {}}
    complete = True
    for panel in ("ohlcv", "indicators"):
        panels[panel] = {}
        for name, frame in snapshot[panel].items():
            rows = (frame.index >= first) & (frame.index <= last)
            columns = frame.columns.isin(symbols)
            complete = complete and bool(rows.all() and columns.all())
            if rows.any() and columns.any():
                panels[panel][name] = frame.loc[rows, columns]
    return ref if complete else store.override(base=ref, **panels)


def has_signal(store: DataState, ref: str, request: Mapping[str, Any], strategy: Mapping[str, Any]) -> bool:
    """Whether the commit holds the signal that this strategy made, for this request, on this very data."""
    return bool(
        strategy
        and strategy["request"] == request_hash(request)
        and strategy["data_ref"] == store.without("signal", ref)
        and strategy["name"] in store.snapshot(ref)["signal"]
    )


def request_hash(request: Mapping[str, Any]) -> str:
    """Name of a request by its content."""
    return content_hash(canonical_json(dict(request)), size=8)
