"""Frozen frames and dated records, and the one place that cuts them at a moment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgraph._util.lazy_names import lazy_names

if TYPE_CHECKING:
    from quantgraph.state.frames._cut import (
        FieldKey,
        KnownData,
        align_frame,
        align_table,
        cut_panels,
        known_rows,
    )
    from quantgraph.state.frames._frames import (
        MADE,
        PLAIN_RULE,
        SIZED_ENTRIES,
        Dates,
        Floats,
        FrozenFrame,
        Made,
        check_axes,
        freeze,
        frozen_array,
        is_plain,
    )
    from quantgraph.state.frames._made import made_of
    from quantgraph.state.frames._records import Records, check_record_kind

__all__ = [
    "MADE",
    "PLAIN_RULE",
    "SIZED_ENTRIES",
    "Dates",
    "FieldKey",
    "Floats",
    "FrozenFrame",
    "KnownData",
    "Made",
    "Records",
    "align_frame",
    "align_table",
    "check_axes",
    "check_record_kind",
    "cut_panels",
    "freeze",
    "frozen_array",
    "is_plain",
    "known_rows",
    "made_of",
]

if not TYPE_CHECKING:  # a type checker must still find misspelt names
    __getattr__, __dir__ = lazy_names(__name__, __file__)
