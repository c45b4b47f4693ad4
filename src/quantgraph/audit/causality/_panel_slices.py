"""Parts of a panel: its axes, what was known of it at a moment, fewer rows, fewer symbols."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from quantgraph.errors import BadFrame
from quantgraph.market.moment import Moment
from quantgraph.sandbox.wire import Frames
from quantgraph.state.cut import align_frame, known_rows
from quantgraph.state.frames import Dates, Floats, FrozenFrame, freeze, frozen_array
from quantgraph.state.views import View

__all__ = [
    "FLAT",
    "Axes",
    "axes_of",
    "close_of",
    "only",
    "panel_name",
    "prefix",
    "read_panels",
    "rows_known",
    "since",
]

FLAT = ""
"""Name of the one panel when its fields were given without a panel's name; it is read as ``ohlcv``."""


@dataclass(frozen=True, kw_only=True)
class Axes:
    """Sessions (T,) ``datetime64[us]`` and symbols (N,) on which a panel is judged: those of its closes."""

    sessions: Dates
    symbols: tuple[str, ...]


def read_panels(panels: object) -> Frames:
    """Read what can be audited on: a view, or frames by panel and field, or frames by field.

    Raises
    ------
    BadFrame
        If it is something else, holds no frame, or a frame may not enter a data state.
    """
    if isinstance(panels, View):
        panels = panels.frozen()
    if not isinstance(panels, Mapping):
        raise BadFrame(
            f"panels is a {type(panels).__name__}; frames by field, or by panel and field, are wanted"
        )
    flat = any(isinstance(value, pd.DataFrame | FrozenFrame) for value in panels.values())
    named = {FLAT: panels} if flat else panels
    frames = {
        panel: {name: _frozen(panel, name, frame) for name, frame in fields.items()}
        for panel, fields in named.items()
        if len(fields)
    }
    if not frames:
        raise BadFrame("panels holds no frame; at least the closes are wanted")
    return frames


def _frozen(panel: str, name: str, frame: object) -> FrozenFrame:
    return frame if isinstance(frame, FrozenFrame) else freeze(panel or "panel", name, frame)


def panel_name(panel: str) -> str:
    """Name under which the fields of a panel are known to the table of moments."""
    return panel or "ohlcv"


def close_of(panel: Frames) -> FrozenFrame:
    """The closes, or the largest frame where there are none."""
    prices = panel.get(FLAT, panel.get("ohlcv", {}))
    if "close" in prices:
        return prices["close"]
    return max((frame for fields in panel.values() for frame in fields.values()), key=lambda f: f.values.size)


def axes_of(panel: Frames) -> Axes:
    """The axes of :func:`close_of`."""
    close = close_of(panel)
    return Axes(sessions=close.sessions, symbols=close.symbols)


def rows_known(panel: str, name: str, frame: FrozenFrame, moment: Moment) -> int:
    """How many rows of a frame are known at a moment."""
    return known_rows(panel_name(panel), name, frame.sessions, moment)


def mapped(panel: Frames, change: Callable[[str, str, FrozenFrame], FrozenFrame]) -> Frames:
    """The panel with ``change(panel, name, frame)`` for every frame."""
    return {
        key: {name: change(key, name, frame) for name, frame in fields.items()}
        for key, fields in panel.items()
    }


def prefix(panel: Frames, moment: Moment) -> Frames:
    """What was known at a moment, in memory of its own.

    All frames keep the row of the moment's session, so that they stay aligned; of a field that was not known
    yet it is NaN. A sparse frame without a row so far is left out.
    """

    def cut(key: str, name: str, frame: FrozenFrame) -> FrozenFrame:
        return align_frame(panel_name(key), name, frame, moment)

    return _without_empty(mapped(panel, cut))


def since(panel: Frames, session: np.datetime64) -> Frames:
    """The panel without what is earlier than a session."""

    def cut(_key: str, _name: str, frame: FrozenFrame) -> FrozenFrame:
        first = int(np.searchsorted(frame.sessions, session))
        return made(frame.sessions[first:], frame.symbols, frame.values[first:])

    return _without_empty(mapped(panel, cut))


def only(panel: Frames, symbols: Collection[str]) -> Frames:
    """The panel of some of the symbols."""

    def cut(_key: str, _name: str, frame: FrozenFrame) -> FrozenFrame:
        places = [place for place, symbol in enumerate(frame.symbols) if symbol in symbols]
        return made(frame.sessions, tuple(frame.symbols[place] for place in places), frame.values[:, places])

    return _without_empty(mapped(panel, cut))


def made(sessions: Dates, symbols: tuple[str, ...], values: Floats) -> FrozenFrame:
    """A frame in memory of its own."""
    return FrozenFrame(frozen_array(sessions), symbols, frozen_array(values))


def _without_empty(panel: Frames) -> Frames:
    return {
        key: {name: frame for name, frame in fields.items() if frame.values.size}
        for key, fields in panel.items()
    }
