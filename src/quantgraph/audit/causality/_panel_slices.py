"""Parts of a panel: its axes, the rows known at a moment, fewer rows, fewer symbols."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from quantgraph.errors import BadFrame
from quantgraph.market.moment import Moment
from quantgraph.sandbox.wire import Frames
from quantgraph.state.cut import FieldKey, align_frame, known_rows
from quantgraph.state.frames import Dates, Floats, FrozenFrame, freeze
from quantgraph.state.views import View

FLAT = ""
"""Name of the only panel when its fields were passed without a panel's name; it is read as ``ohlcv``."""


@dataclass(frozen=True, kw_only=True)
class Axes:
    """Sessions (T,) ``datetime64[us]`` and symbols (N,) of a panel: those of its closes."""

    sessions: Dates
    symbols: tuple[str, ...]

    def match(self, frame: FrozenFrame) -> bool:
        """Whether a frame has exactly these axes."""
        return frame.symbols == self.symbols and np.array_equal(frame.sessions, self.sessions)


def read_panels(panels: object) -> Frames:
    """Read a view, frames by panel and field, or frames by field.

    Raises
    ------
    BadFrame
        If it is something else, holds no frame, or a frame is not valid in a data state.
    """
    if isinstance(panels, View):
        panels = panels.frozen()
    if not isinstance(panels, Mapping):
        raise BadFrame(
            "panels must be a view, frames by field, or frames by panel and field, "
            f"not {type(panels).__name__}"
        )
    flat = any(isinstance(value, pd.DataFrame | FrozenFrame) for value in panels.values())
    named = {FLAT: panels} if flat else panels
    frames = {
        panel: {name: _frozen(panel, name, frame) for name, frame in fields.items()}
        for panel, fields in named.items()
        if len(fields)
    }
    if not frames:
        raise BadFrame("panels holds no frame; it must hold at least the closes")
    return frames


def _frozen(panel: str, name: str, frame: object) -> FrozenFrame:
    return frame if isinstance(frame, FrozenFrame) else freeze(panel or "panel", name, frame)


def only_fields(panel: Frames, reads: Collection[FieldKey]) -> Frames:
    """The fields of a panel that are named, and the closes, whose axes a signal must have."""
    close = close_of(panel)
    found = {
        key: {
            name: frame
            for name, frame in fields.items()
            if (panel_name(key), name) in reads or frame is close
        }
        for key, fields in panel.items()
    }
    return {key: fields for key, fields in found.items() if fields}


def panel_name(panel: str) -> str:
    """Name of a panel as :func:`.known_rows` reads it."""
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


def map_frames(panel: Frames, change: Callable[[str, str, FrozenFrame], FrozenFrame]) -> Frames:
    """The panel with ``change(panel, name, frame)`` in place of every frame."""
    return {
        key: {name: change(key, name, frame) for name, frame in fields.items()}
        for key, fields in panel.items()
    }


def prefix(panel: Frames, moment: Moment) -> Frames:
    """The panel as known at a moment, in memory of its own.

    All frames keep the row of the moment's session, so that they stay aligned; it is NaN in a field that is
    not known yet. A sparse frame without a row so far is dropped.
    """

    def cut(key: str, name: str, frame: FrozenFrame) -> FrozenFrame:
        return align_frame(panel_name(key), name, frame, moment)

    return _without_empty(map_frames(panel, cut))


def since(panel: Frames, session: np.datetime64) -> Frames:
    """The panel from a session on."""

    def cut(_key: str, _name: str, frame: FrozenFrame) -> FrozenFrame:
        first = int(np.searchsorted(frame.sessions, session))
        return FrozenFrame(frame.sessions[first:], frame.symbols, frame.values[first:])

    return _without_empty(map_frames(panel, cut))


def to_frame(sessions: Dates, symbols: tuple[str, ...], values: Floats) -> FrozenFrame:
    """A frame of arrays that nobody else writes to."""
    sessions, values = np.ascontiguousarray(sessions), np.ascontiguousarray(values)
    sessions.flags.writeable = values.flags.writeable = False
    return FrozenFrame(sessions, symbols, values)


def _without_empty(panel: Frames) -> Frames:
    return {
        key: {name: frame for name, frame in fields.items() if frame.values.size}
        for key, fields in panel.items()
    }
