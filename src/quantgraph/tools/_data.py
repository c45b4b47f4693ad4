"""The data tools: daily bars and indicators by symbol and window, published to the data state.

The tools' docstrings are the descriptions that models are sent.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from langchain.tools import ToolRuntime
from langchain_core.tools import tool

from quantgraph._util.texts import Note
from quantgraph.data import INDICATOR_FIELDS, AsOfSource, MarketDataSource
from quantgraph.data.symbols import ResolvedSymbols, resolve_symbols
from quantgraph.errors import BadOption, BadWindow, FutureRequested
from quantgraph.llm.messages import field_list
from quantgraph.market import Moment, session_of, sessions_between
from quantgraph.tools._context import ToolContext, context_of
from quantgraph.tools._results import with_docstring


def split_codes(text: str) -> list[str]:
    """Split codes, names or index codes at commas (also Chinese) and spaces.

    >>> split_codes("600519.SH, 000001.SZ，贵州茅台")
    ['600519.SH', '000001.SZ', '贵州茅台']
    """
    return [part for part in re.split(r"[,，、;；\s]+", text.strip()) if part]  # "600519.SH 000001.SZ"


def read_window(
    source: MarketDataSource, as_of: Moment, ts_code: str, start_date: str, end_date: str
) -> tuple[ResolvedSymbols, pd.Timestamp, pd.Timestamp, list[Note]]:
    """Return symbols, first and last date, and notes, of the source as known at ``as_of``.

    The end is cut to that moment.

    Raises
    ------
    BadWindow
        If the start is after the end, or the source has no session between them.
    BadOption
        If ``ts_code`` is empty.
    NoData
        If the source has no session up to the moment.
    FutureRequested
        If the whole window is after the moment.
    """
    start, end = session_of(start_date, name="start_date"), session_of(end_date, name="end_date")
    if start > end:
        raise BadWindow(f"start_date={start:%Y%m%d} is after end_date={end:%Y%m%d}; swap them")
    limit = as_of.session
    if start > limit:
        raise FutureRequested(
            f"start_date={start:%Y%m%d} is after {limit:%Y%m%d}, the last day this run may know"
        )
    notes = []
    if end > limit:
        notes.append(
            Note(
                zh=f"结束日期 {end:%Y%m%d} 已截至 {limit:%Y%m%d}，即本次运行所能知道的最后一天",
                en=f"end_date {end:%Y%m%d} was cut to {limit:%Y%m%d}, the last day this run may know",
            )
        )
        end = limit
    known = AsOfSource(source, as_of)
    sessions = known.sessions()
    inside = sessions_between(sessions, start, end)
    if inside.empty:
        raise BadWindow(
            f"there is no session from {start:%Y%m%d} to {end:%Y%m%d}; {known.name} has "
            f"{sessions[0]:%Y%m%d} to {sessions[-1]:%Y%m%d}"
        )
    codes = split_codes(ts_code)
    if not codes:
        raise BadOption("ts_code is empty; write codes such as 600519.SH,000001.SZ, an index code, or ALL")
    resolved = resolve_symbols(known, codes, inside[0])
    return resolved, start, end, [*notes, *resolved.notes]


def publish_frames(
    context: ToolContext, panel: str, frames: Mapping[str, pd.DataFrame], notes: Sequence[Note]
) -> tuple[str, dict[str, Any]]:
    """Commit the frames; return the text for the model and the counts for the program."""
    ref = context.tree.update(panel, frames)
    first = next(iter(frames.values()))
    missing = int(np.isnan(first.to_numpy()).sum())
    counts = {
        "ref": ref,
        "panel": panel,
        "fields": list(frames),
        "sessions": len(first.index),
        "symbols": len(first.columns),
        "missing_cells": missing,
        "first_session": f"{first.index[0]:%Y%m%d}",
        "last_session": f"{first.index[-1]:%Y%m%d}",
        "remarks": [note.en for note in notes],
    }
    text = (
        f"{panel}: {field_list(frames)} for {counts['symbols']} symbols x {counts['sessions']} sessions, "
        f"{counts['first_session']} to {counts['last_session']}, {missing} cells of {first.size} empty"
    )
    if context.source.synthetic:
        text += " (synthetic data)"
    return ". ".join([text, *(note.en for note in notes)]), counts


_KEY_COLUMNS = ("ts_code", "trade_date")
"""Columns that models request and every indicator has."""


@tool("tushare_daily_bar", response_format="content_and_artifact", parse_docstring=True)
@with_docstring
def tushare_daily_bar(
    ts_code: str,
    start_date: str,
    end_date: str,
    runtime: ToolRuntime[Any, Any] = None,  # type: ignore[assignment]  # absent outside an agent
) -> tuple[str, dict[str, Any]]:
    """Fetch daily bars (open, high, low, close, vol, …) and publish them to GLOBAL_DATA_STATE's ohlcv.

    Args:
        ts_code: Codes separated by commas, e.g. "600519.SH,000001.SZ"; an index code such as
            "000016.SH" stands for its members at the window's start; "ALL" for everything there is.
        start_date: First date, YYYYMMDD.
        end_date: Last date, YYYYMMDD. It is cut to the last day the run may know.
    """
    context = context_of(runtime, by_hand=True)
    resolved, start, end, notes = read_window(context.source, context.moment, ts_code, start_date, end_date)
    frames = context.source.bars(resolved.symbols, start, end)
    return publish_frames(context, "ohlcv", frames, notes)


@tool("tushare_daily_basic", response_format="content_and_artifact", parse_docstring=True)
@with_docstring
def tushare_daily_basic(
    ts_code: str,
    start_date: str,
    end_date: str,
    fields: str = "",
    runtime: ToolRuntime[Any, Any] = None,  # type: ignore[assignment]  # absent outside an agent
) -> tuple[str, dict[str, Any]]:
    """Fetch daily indicators (pe, pb, turnover_rate, …) and publish them to GLOBAL_DATA_STATE's indicators.

    Args:
        ts_code: Codes separated by commas; an index code stands for its members; "ALL" for everything.
        start_date: First date, YYYYMMDD.
        end_date: Last date, YYYYMMDD. It is cut to the last day the run may know.
        fields: Indicators separated by commas, e.g. "pe,pb,turnover_rate"; empty for all there are.
    """
    context = context_of(runtime, by_hand=True)
    names = [name for name in split_codes(fields) if name not in _KEY_COLUMNS]
    unknown = [name for name in names if name not in INDICATOR_FIELDS]
    if unknown:
        raise BadOption(f"fields has unknown {unknown[0]!r}; valid are {', '.join(INDICATOR_FIELDS)}")
    resolved, start, end, notes = read_window(context.source, context.moment, ts_code, start_date, end_date)
    frames = context.source.indicators(resolved.symbols, start, end, names)
    return publish_frames(context, "indicators", frames, notes)
