"""What a tool returned, as bounded plain JSON."""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
import math
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
from langchain_core.messages import BaseMessage
from pydantic import BaseModel

from quantgraph._util.canonical_json import canonical_json

__all__ = ["bounded", "to_plain"]

_DEPTH = 20
_TEXT = 1_000
_CHARACTERS_OF_NOTE = 100


def to_plain(value: Any, depth: int = _DEPTH) -> Any:
    """Return a value as JSON: NaN and infinities as None, frames as lists of rows, dates as ISO text.

    What is none of JSON becomes the beginning of its text.

    >>> to_plain({"a": float("nan"), 1: (Decimal("1.5"), np.int64(2))})
    {'a': None, '1': [1.5, 2]}
    """
    if value is None or isinstance(value, bool | str):
        return str(value) if isinstance(value, str) else value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float | Decimal | np.floating):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, np.generic):
        return to_plain(value.item(), depth)
    if isinstance(value, dt.date | dt.time):
        return None if value is pd.NaT else value.isoformat()
    parts = _parts(value) if depth else None
    if isinstance(parts, Mapping):
        return {str(name): to_plain(part, depth - 1) for name, part in parts.items()}
    if parts is not None:
        return [to_plain(part, depth - 1) for part in parts]
    return str(value)[:_TEXT]


def _parts(value: Any) -> Mapping[Any, Any] | Sequence[Any] | None:
    """What a container holds; None for what is not one."""
    if isinstance(value, Mapping | list | tuple):
        return value
    if isinstance(value, AbstractSet):
        return sorted(value, key=str)
    if isinstance(value, pd.DataFrame | pd.Series | pd.Index | np.ndarray):
        return _parts_of_array(value)
    if isinstance(value, BaseMessage):
        return {"type": value.type, "text": str(value.text)}
    if isinstance(value, BaseModel):
        return value.model_dump()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {each.name: getattr(value, each.name) for each in dataclasses.fields(value)}
    return None


def _parts_of_array(value: Any) -> Mapping[Any, Any] | Sequence[Any]:
    if isinstance(value, pd.DataFrame):
        rows: list[Any] = value.reset_index().to_dict("records")
        return rows
    if isinstance(value, pd.Series):
        return {str(name): part for name, part in value.items()}
    listed = value.tolist()
    return listed if isinstance(listed, list) else [listed]


def bounded(value: Any, most: int) -> Any:
    """Return a JSON value whose text has at most ``most`` characters, with a note of what was cut.

    Of a list the last entries are kept, as ``{"cut": note, "last": [...]}``; of a text its beginning, with
    the note after it; of anything else the beginning of its JSON text, as ``{"cut": note, "text": ...}``.

    >>> bounded([1] * 200, 120)["cut"]
    'the first 190 of 200 entries are left out'
    """
    if isinstance(value, str):
        return value if len(canonical_json(value)) <= most else _short_text(value, most)
    text = canonical_json(value, sort_keys=False)
    if len(text) <= most:
        return value
    if isinstance(value, list):
        return _last_entries(value, most)
    note = f"only the beginning of {len(text)} characters is shown"
    return {"cut": note, "text": _fitting(text, most - _CHARACTERS_OF_NOTE)}


def _short_text(text: str, most: int) -> str:
    kept = _fitting(text, most - _CHARACTERS_OF_NOTE)
    return f"{kept}… (cut: {len(text) - len(kept)} of {len(text)} characters are left out)"


def _fitting(text: str, most: int) -> str:
    """The beginning of a text that takes at most so many characters as JSON."""
    kept = text[:most]
    while (over := len(json.dumps(kept, ensure_ascii=False)) - most) > 0:
        kept = kept[: min(len(kept) - 1, len(kept) - over // 6)]
    return kept


def _last_entries(entries: Sequence[Any], most: int) -> dict[str, Any]:
    room, kept = most - _CHARACTERS_OF_NOTE, 0
    for entry in reversed(entries):
        room -= len(canonical_json(entry)) + 1
        if room < 0:
            break
        kept += 1
    left = len(entries) - kept
    if not kept:
        last = bounded(entries[-1], most - 2 * _CHARACTERS_OF_NOTE)
        return {"cut": f"the first {left - 1} of {len(entries)} entries are left out", "last": [last]}
    return {"cut": f"the first {left} of {len(entries)} entries are left out", "last": list(entries[left:])}
