"""Sentinels: what they look like, and where one shows."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import fields, is_dataclass
from datetime import date
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import BaseModel

from quantgraph.data import EVENT_FIELDS
from quantgraph.state import RECORD_KINDS, View

MARK = "CANARY"
"""Part of every text that is a sentinel."""
CANARY_SESSIONS = pd.DatetimeIndex(["2177-07-07", "2177-07-08", "2177-07-09"], name="trade_date").as_unit(
    "us"
)
"""Sessions that follow the last real one, so that there is something to read after every moment."""
CANARY_SYMBOL = f"{MARK}.SH"

_MAGNITUDE = 7.7e76

_YEAR = 2177
_BOUND = 1e37
_WHOLE_BOUND = 1e60
_DATE = re.compile(
    r"(?<!\d)2177(?:\s*[-/.年]\s*0?7|070[7-9](?!\d))|\bJuly?\b[\s\d:.,stndrh-]{1,20}\b2177(?!\d)"
    r"|(?<!\d)0?[7-9][-/.]0?[7-9][-/.]2177(?!\d)",
    re.IGNORECASE,
)
# An exponent of two digits with a sign or a point, so that a hash is not a number; or all digits.
_NUMBER = re.compile(
    r"\d(?:\.\d+)?[eE]\+\d{2,3}|\d\.\d+[eE]\d{2,3}|(?<![0-9a-f])\d{61,}|\d{1,3}(?:[,_]\d{3}){12,}"
)
_POWER = re.compile(r"(?<![\d.])10\s*(?:(?:\^|\*\*)\s*[{(]?\+?(\d{2,3})(?!\d)|([⁰¹²³⁴-⁹]{2,3}))")
_SUPERSCRIPT = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789")
_SHOWN = 60

Places = Iterator[str]
Parts = Iterator[tuple[str, Any]]
# By identity, and held: the identity of an object that is gone may be that of the next one.
Seen = dict[int, object]


def find_canaries(thing: object) -> list[str]:
    """Find the places at which a sentinel, or arithmetic on one, shows; empty if none does.

    Searches texts, bytes, numbers, dates, arrays, frames with the names of their axes and their
    ``attrs``, mappings (views and snapshots too), sequences, sets, dataclasses, messages and other
    models, exceptions with their causes.

    Results of ordinary size (a ratio of two sentinels, a logarithm, a rank) cannot be recognised; compare
    two runs by :func:`~canary_watch.differences`.

    Examples
    --------
    >>> find_canaries({"messages": ["close 7.71e+76", "close 7.71"], "session": "2177-07-08"})
    ["['messages'][0]: close 7.71e+76", "['session']: 2177-07-08"]
    """
    return list(_walk(thing, "", {}))


def _walk(thing: Any, place: str, seen: Seen) -> Places:
    if thing is None or isinstance(thing, bool):
        return
    if isinstance(thing, str):
        yield from _in_text(thing, place)
    elif isinstance(thing, bytes | bytearray | memoryview):
        yield from _in_text(bytes(thing).decode("utf-8", "replace"), place)
    elif isinstance(thing, date | np.datetime64):
        stamp = pd.Timestamp(thing)
        if not pd.isna(stamp) and stamp.year == _YEAR:
            yield _line(place, stamp)
    elif isinstance(thing, int | float | complex | np.number | Decimal | Fraction):
        if _is_huge(thing):
            yield _line(place, thing)
    elif id(thing) not in seen:
        seen[id(thing)] = thing
        yield from _in_parts(thing, place, seen)


def _in_parts(thing: Any, place: str, seen: Seen) -> Places:
    if isinstance(thing, np.ndarray):
        yield from _in_array(thing, place)
        return
    parts = next((parts for kind, parts in _PARTS if isinstance(thing, kind)), _of_dataclass)
    for name, part in parts(thing):
        yield from _walk(part, place + name, seen)


def _of_frame(frame: pd.DataFrame) -> Parts:
    yield from ((".columns", frame.columns), (".index", frame.index), (".attrs", frame.attrs))
    for place, column in enumerate(frame.columns):
        yield f"[{column!r}]", frame.iloc[:, place].to_numpy()


def _of_series(series: pd.Series) -> Parts:
    yield from ((".index", series.index), (".attrs", series.attrs), (".name", series.name))
    yield "", series.to_numpy()


def _of_index(index: pd.Index) -> Parts:
    yield from ((".names", list(index.names)), ("", index.to_numpy()))


def _of_mapping(mapping: Mapping[Any, Any]) -> Parts:
    for key in list(mapping):
        yield from ((".keys", key), (f"[{key!r}]", mapping[key]))


def _of_items(items: Sequence[Any] | AbstractSet[Any]) -> Parts:
    return ((f"[{place}]", item) for place, item in enumerate(items))


def _of_error(error: BaseException) -> Parts:
    yield "", error.args
    yield from ((f".{name}", part) for name, part in vars(error).items())
    yield from ((".__cause__", error.__cause__), (".__context__", error.__context__))


def _of_model(model: BaseModel) -> Parts:
    return ((f".{name}", part) for name, part in {**vars(model), **(model.model_extra or {})}.items())


def _of_dataclass(thing: Any) -> Parts:
    if is_dataclass(thing) and not isinstance(thing, type):
        yield from ((f".{each.name}", getattr(thing, each.name, None)) for each in fields(thing))


def _of_view(view: View) -> Parts:
    yield from _of_mapping(view)
    yield from ((".names()", view.names()), (".actions()", view.actions()))
    yield ".all_records()", view.all_records()
    for kind in RECORD_KINDS:
        yield f".records({kind!r})", view.records(kind)
        yield f".records({kind!r}, {CANARY_SYMBOL!r})", view.records(kind, CANARY_SYMBOL)


_PARTS: tuple[tuple[Any, Callable[[Any], Parts]], ...] = (
    (pd.DataFrame, _of_frame),
    (pd.Series, _of_series),
    (pd.Index, _of_index),
    (View, _of_view),
    (Mapping, _of_mapping),
    (Sequence | AbstractSet, _of_items),
    (BaseException, _of_error),
    (BaseModel, _of_model),
)


def _in_array(values: np.ndarray[Any, Any], place: str) -> Places:
    if values.dtype.kind in "fc":
        huge = np.abs(values).astype(np.float64) > _BOUND
    elif values.dtype.kind == "M":
        huge = values.astype("datetime64[Y]") == np.datetime64(str(_YEAR))
    else:
        if values.dtype.kind in "OSU":
            yield from _walk(values.tolist(), place, {})
        return
    if huge.any():
        first = tuple(int(axis[0]) for axis in np.nonzero(huge))
        yield _line(f"{place}{list(first)}", f"{values[first]} and {int(huge.sum()) - 1} more")


def _in_text(text: str, place: str) -> Places:
    numbers = (match for match in _NUMBER.finditer(text) if _is_huge(re.sub("[,_]", "", match[0])))
    powers = (match for match in _POWER.finditer(text) if _is_huge(f"1e{_exponent(match)}"))
    for first in (
        text.find(MARK),
        *(each.start() for each in (_DATE.search(text), next(numbers, None), next(powers, None)) if each),
    ):
        if first >= 0:
            yield _line(place, text[max(0, first - _SHOWN) : first + _SHOWN])


def _exponent(power: re.Match[str]) -> str:
    return (power[1] or power[2]).translate(_SUPERSCRIPT)


def _is_huge(number: Any) -> bool:
    bound = _WHOLE_BOUND if isinstance(number, int) else _BOUND
    try:
        return abs(number if isinstance(number, complex) else float(number)) > bound
    except OverflowError:
        return True
    except ValueError:  # a signalling NaN
        return False


def _line(place: str, shown: object) -> str:
    return f"{place or 'it'}: {' '.join(str(shown).split())}"


def sentinels(panel: str, name: str, shape: tuple[int, int], seed: int) -> NDArray[np.float64]:
    """Return sentinels of one magnitude, different in every cell; those of events are never negative.

    Each has a factor from 0.5 to 1.5 drawn by field and seed, so that the ratio and the order of two of them,
    in which no sentinel shows, differ from one seed to another.
    """
    sign = -1 if seed % 2 and name not in EVENT_FIELDS else 1
    drawn = np.random.default_rng(zlib.crc32(f"{panel} {name} {seed}".encode()))
    return sign * _MAGNITUDE * drawn.uniform(0.5, 1.5, shape)
