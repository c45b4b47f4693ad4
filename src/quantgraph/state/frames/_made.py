"""What a strategy makes: entries and exits as one signal, and the signal of weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeGuard

import numpy as np
import pandas as pd

from quantgraph.errors import BadFrame
from quantgraph.state.frames._frames import SIZED_ENTRIES, FrozenFrame, frozen_array


def opinions(weights: FrozenFrame) -> FrozenFrame:
    """The signal of target weights: 1 where there is one, -1 for 0, NaN for NaN."""
    values = np.where(np.isnan(weights.values), np.nan, np.where(weights.values > 0, 1.0, -1.0))
    return FrozenFrame(weights.sessions, weights.symbols, frozen_array(values))


def made_of(panel: str, frames: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """Panel and frames of what a caller has made: ``entries`` and ``exits`` are one signal.

    Both are booleans, and the exit wins. With ``size``, a frame of the fraction of the equity that each entry
    takes, they are weights. Booleans named ``held`` are the signal of holding what is True, and no more.
    """
    if panel == "signal" and frames.keys() == {"held"}:
        held = frames["held"]
        return panel, {"held": held * 2.0 - 1.0 if _are_booleans(held) else held}
    if panel != "signal" or not {"entries", "exits"} <= frames.keys() <= {"entries", "exits", "size"}:
        return panel, frames
    enter, leave = (_booleans(name, frames[name]) for name in ("entries", "exits"))
    if not (enter.index.equals(leave.index) and enter.columns.equals(leave.columns)):
        raise BadFrame(
            f"entries are {len(enter)} x {enter.shape[1]} and exits {len(leave)} x {leave.shape[1]}; both "
            "must have the same sessions and symbols"
        )
    enter = enter & ~leave
    if "size" not in frames:
        return panel, {"entries": enter.astype(float).mask(leave, -1.0)}
    size = frames["size"]
    if not isinstance(size, pd.DataFrame):
        raise BadFrame(f"size must be a frame with a fraction for each entry, not {type(size).__name__}")
    size = size.reindex(index=enter.index, columns=enter.columns)
    missing = enter & ~(size > 0)
    if missing.to_numpy().any():
        row, column = np.argwhere(missing.to_numpy())[0]
        place = f"({enter.index[row]:%Y-%m-%d}, {enter.columns[column]})"
        raise BadFrame(f"size has no fraction above 0 at {place}, where entries has one")
    return "weights", {SIZED_ENTRIES: size.where(enter).mask(leave, 0.0)}


def _are_booleans(frame: object) -> TypeGuard[pd.DataFrame]:
    return isinstance(frame, pd.DataFrame) and all(dtype.kind == "b" for dtype in frame.dtypes)


def _booleans(name: str, frame: Any) -> pd.DataFrame:
    if not _are_booleans(frame):
        raise BadFrame(f"{name} must be a frame of booleans, sessions x symbols, with False where nothing is")
    return frame
