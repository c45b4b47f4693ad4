"""What a tool returned, as plain JSON that is not longer than it may be.

How a tool says no: one line, a code, and the facts behind it, as plain JSON.

Docstrings that are shown to models, also under ``python -OO``, which drops them.
"""

from __future__ import annotations

import ast
import dataclasses
import datetime as dt
import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from decimal import Decimal
from textwrap import dedent
from typing import Any, TypeVar, cast

import numpy as np
import pandas as pd
from langchain_core.messages import BaseMessage
from pydantic import BaseModel

from quantgraph._util.canonical_json import canonical_json
from quantgraph._util.parsing import parse_code
from quantgraph._util.texts import escape_controls

_DEPTH = 20
_TEXT = 1_000
_NOTE, _LEAST, _LONGEST_KEY = 50, 100, 60  # room for a note, for a value, for the key of one


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


def shortened(value: Any, limit: int) -> Any:
    """A JSON value that takes at most so many characters.

    A list keeps its last entries, a text its beginning, an object its short values; each says what is left
    out.

    Parameters
    ----------
    limit
        From 50 on.

    Examples
    --------
    >>> shortened(list(range(1000)), 200)[:3]
    ['(963 earlier entries left out)', 963, 964]
    """
    try:
        return _short(value, limit)
    except RecursionError:
        return "(left out: it is nested too deeply)"


def _size(value: Any) -> int:
    return len(canonical_json(value, sort_keys=False))


def _short(value: Any, limit: int) -> Any:
    size = _size(value)
    if size <= limit:
        return value
    if limit < _LEAST:
        return f"({size} characters left out)"
    if isinstance(value, Mapping):
        return _object(value, limit)
    if isinstance(value, list):
        return _list(value, limit)
    return _text(value if isinstance(value, str) else str(value), limit)


def _text(text: str, limit: int) -> str:
    """Return the beginning of a text; how many characters JSON escapes is not known before."""
    kept = text[: limit - _NOTE]
    while (over := _size(kept) - limit + _NOTE) > 0:
        kept = kept[: min(len(kept) - 1, len(kept) - over // 6)]
    return f"{kept}… ({len(text) - len(kept)} characters left out)"


def _list(values: list[Any], limit: int) -> list[Any]:
    room, kept = limit - _NOTE, list[Any]()
    for each in reversed(values):
        room -= _size(each) + 1
        if room < 0:
            break
        kept.insert(0, each)
    kept = kept or [_short(values[-1], limit - _NOTE - 2)]
    return [f"({len(values) - len(kept)} earlier entries left out)", *kept]


def _object(value: Mapping[str, Any], limit: int) -> dict[str, Any]:
    """Return an object with its short values whole; the long ones share the room that is left."""
    room = limit - _NOTE
    fitting = [name for name in value if _size(name) <= _LONGEST_KEY][: room // (_LEAST + _LONGEST_KEY)]
    short: dict[str, Any] = {}
    for place, name in enumerate(sorted(fitting, key=lambda name: _size(value[name]))):
        share = room // (len(fitting) - place) - _size(name) - 2
        short[name] = _short(value[name], share)
        room -= _size(name) + _size(short[name]) + 2
    kept = {name: short[name] for name in fitting}
    more = len(value) - len(kept)
    return {**kept, "…": f"({more} keys left out)"} if more else kept


def refusal(code: str, message: str, **facts: Any) -> dict[str, Any]:
    """Return a refusal as a tool answers it; facts that are None are left out.

    >>> refusal("lot_size", "5 shares of 600519.SH; lots are 100", symbol="600519.SH", lot=None)
    {'error': '5 shares of 600519.SH; lots are 100', 'code': 'lot_size', 'symbol': '600519.SH'}
    """
    known = {name: value for name, value in facts.items() if value is not None}
    return {"error": escape_controls(message), "code": code, **known}


Described = TypeVar("Described", bound=Callable[..., Any])


def with_docstring(described: Described) -> Described:
    """Give a function or class the docstring of its source, if it has lost it."""
    if described.__doc__ is None:
        (node,) = parse_code(dedent(inspect.getsource(described))).body
        described.__doc__ = ast.get_docstring(cast("ast.FunctionDef | ast.ClassDef", node), clean=False)
    return described
