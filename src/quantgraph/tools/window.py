"""Shared by the data tools: reading symbols and window, and publishing frames."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from quantgraph._util.texts import Note
from quantgraph.data import MarketDataSource, ResolvedSymbols, resolve_symbols
from quantgraph.data.as_of import AsOfSource
from quantgraph.errors import BadOption, BadWindow, FutureRequested
from quantgraph.llm.tags import field_list
from quantgraph.market.moment import Moment, session_of, sessions_between
from quantgraph.tools.tool_context import ToolContext


def split_codes(text: str) -> list[str]:
    """Split codes, names or index codes at commas (also Chinese) and spaces.

    >>> split_codes("600519.SH, 000001.SZ，贵州茅台")
    ['600519.SH', '000001.SZ', '贵州茅台']
    """
    return [part for part in re.split(r"[,，、;；\s]+", text.strip()) if part]


def read_window(
    source: MarketDataSource, as_of: Moment, ts_code: str, start_date: str, end_date: str
) -> tuple[ResolvedSymbols, pd.Timestamp, pd.Timestamp, list[Note]]:
    """Return symbols, first and last date, and remarks, of the source as known at ``as_of``.

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
    remarks = []
    if end > limit:
        remarks.append(
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
    return resolved, start, end, [*remarks, *resolved.notes]


def publish_frames(
    context: ToolContext, panel: str, frames: Mapping[str, pd.DataFrame], remarks: Sequence[Note]
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
        "remarks": [note.en for note in remarks],
    }
    text = (
        f"{panel}: {field_list(frames)} for {counts['symbols']} symbols x {counts['sessions']} sessions, "
        f"{counts['first_session']} to {counts['last_session']}, {missing} cells of {first.size} empty"
    )
    if context.source.synthetic:
        text += " (synthetic data)"
    return ". ".join([text, *(note.en for note in remarks)]), counts
