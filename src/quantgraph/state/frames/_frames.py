"""Frames of the data state: checked once, immutable, named by their content."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Literal, TypeGuard, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from quantgraph._util.canonical_json import canonical_json, content_hash
from quantgraph._util.texts import short_line
from quantgraph.errors import BadFrame

Floats = NDArray[np.float64]
Places = NDArray[np.intp]
Dates = NDArray[np.datetime64]

Made = Literal["signal", "weights", "score"]
"""What a strategy makes of the data: opinions, target weights, or numbers to rank by."""
MADE: tuple[Made, ...] = get_args(Made)
"""Their panels."""
SIZED_ENTRIES = "sized entries"
"""Name of the weights that ``entries``, ``exits`` and ``size`` are: they leave alone what is held."""
DIGITS = 12
"""Decimals of weights, and significant digits of scores: noise of the last digits is no other value."""
_ABOVE = 1e-9
"""How far a row of weights may add up to more than 1: what the sum of rounded numbers is wrong by."""

# The whole years of 64-bit nanoseconds, in which pandas can compute and print every date.
_FIRST_DAY, _LAST_DAY = np.datetime64("1678-01-01"), np.datetime64("2261-12-31")

# Names are put into one-line messages, prompts, JSON and file names, and must not break out of them.
_PLAIN = re.compile(  # "close"
    r"[^\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff'\"\\]{1,100}"
)
PLAIN_RULE = "strings of 1 to 100 characters without control characters, quotes or backslashes"


def frozen_array(values: NDArray[Any]) -> NDArray[Any]:
    """A C-ordered copy over memory that cannot be made writeable."""
    block = np.ascontiguousarray(values)
    return np.frombuffer(block.tobytes(), dtype=block.dtype).reshape(block.shape)


@dataclass(frozen=True, eq=False, repr=False)
class FrozenFrame:
    """An immutable wide frame.

    Attributes
    ----------
    sessions
        Shape (T,), ``datetime64[us]``, ascending, unique.
    symbols
        N column names, unique.
    values
        Shape (T, N), float64, C order, read-only down to the last base.
    """

    sessions: Dates
    symbols: tuple[str, ...]
    values: Floats

    def __repr__(self) -> str:
        return f"FrozenFrame({len(self.sessions)} sessions x {len(self.symbols)} symbols)"

    @cached_property
    def digest(self) -> str:
        """Content name: 32 hex digits over sessions, symbols and values."""
        return _digest(self.sessions, self.symbols, self.values)

    @cached_property
    def _frame(self) -> pd.DataFrame:
        index = pd.DatetimeIndex(self.sessions, name="trade_date", copy=False)
        return pd.DataFrame(self.values, index=index, columns=_index_of(self.symbols), copy=False)

    @property
    def frame(self) -> pd.DataFrame:
        """A new DataFrame for every caller; writing into it copies and does not reach the store."""
        return self._frame.copy(deep=False)

    @property
    def columns(self) -> pd.Index[str]:
        """The symbols as a new index for every caller."""
        return _index_of(self.symbols).view()

    @property
    def nbytes(self) -> int:
        """Size in memory, in bytes."""
        return self.values.nbytes + self.sessions.nbytes

    def head(self, rows: int, symbols: tuple[str, ...] | None = None) -> FrozenFrame:
        """The first ``rows`` sessions in memory that ends there; the frame itself if it is equal.

        ``symbols`` are the columns, NaN for those that the frame does not have; None keeps them.
        """
        symbols = self.symbols if symbols is None else symbols
        if rows >= len(self.sessions) and symbols == self.symbols:
            return self
        values = self.rows(slice(rows), self.positions(symbols))
        return FrozenFrame(frozen_array(self.sessions[:rows]), symbols, frozen_array(values))

    def prefix(self, rows: int) -> FrozenFrame:
        """The first ``rows`` sessions in the same memory, from which later rows can be reached."""
        return FrozenFrame(self.sessions[:rows], self.symbols, self.values[:rows])

    def positions(self, symbols: tuple[str, ...]) -> Places | None:
        """Columns of other symbols, -1 for a symbol it does not have; None if they are its own."""
        if symbols == self.symbols:
            return None
        return _index_of(self.symbols).get_indexer(_index_of(symbols))

    def rows(self, rows: slice, positions: Places | None) -> Floats:
        """Values of some sessions in the columns of :meth:`positions`; NaN for -1."""
        block = self.values[rows]
        if positions is None:
            return block
        found = np.full((len(block), len(positions)), np.nan)
        found[:, positions >= 0] = block[:, positions[positions >= 0]]
        return found


@lru_cache(maxsize=64)
def _index_of(symbols: tuple[str, ...]) -> pd.Index[str]:
    # Views make frames of the same symbols at every session; an index of 5000 takes a millisecond.
    return pd.Index(list(symbols), dtype="str", name="ts_code")


def _digest(sessions: Dates, symbols: tuple[str, ...], values: Floats) -> str:
    return content_hash(
        canonical_json([len(sessions), symbols]),
        sessions.astype("datetime64[D]").astype("<i8").tobytes(),
        np.ascontiguousarray(values, dtype="<f8").data,
    )


def freeze(panel: str, name: object, frame: object, *, symbols: tuple[str, ...] | None = None) -> FrozenFrame:
    """Check a frame and its name, and store it immutably.

    Names of frames and of columns are strings of 1 to 100 characters that can be encoded in UTF-8 and
    hold no control or invisible formatting character, no quote and no backslash. Sessions are dates of the
    years 1678 to 2261. Weights are rounded to 12 decimals, scores to 12 significant digits.

    Parameters
    ----------
    symbols
        The frame's columns, if another frame with the same ones was checked.

    Raises
    ------
    BadFrame
        Wrong name, type, index, columns or cells. The message names the first offending place.
    """
    if not is_plain(name):
        raise BadFrame(f"{panel} has {_repr(name)} as a field name; field names are {PLAIN_RULE}")
    where = f"{panel}[{name!r}]"
    if not isinstance(frame, pd.DataFrame):
        raise BadFrame(f"{where} must be a pandas DataFrame, not {type(frame).__name__}")
    if frame.empty:
        raise BadFrame(f"{where} has shape {frame.shape}; it must have at least one session and one symbol")
    sessions = _sessions(where, frame.index)
    symbols = _symbols(where, frame.columns) if symbols is None else symbols
    values = _values(where, frame, panel)
    _check_cells(where, panel, values, sessions, symbols)
    if panel == "weights" and name != SIZED_ENTRIES:
        _check_sums(where, values, sessions)
    return FrozenFrame(frozen_array(sessions), symbols, frozen_array(values))


def is_plain(name: object) -> TypeGuard[str]:
    """Whether a name is valid for fields and symbols: :data:`PLAIN_RULE`."""
    return isinstance(name, str) and _PLAIN.fullmatch(name) is not None


def _repr(thing: object) -> str:
    return short_line(repr(thing), 60)


def _sessions(where: str, index: pd.Index) -> Dates:
    if not isinstance(index, pd.DatetimeIndex):
        raise BadFrame(f"{where} has an index of {index.dtype}; it must be a DatetimeIndex of sessions")
    if index.tz is not None:
        raise BadFrame(
            f"{where} has an index in time zone {index.tz}; sessions must be naive dates: "
            "use frame.index.tz_convert(the exchange's zone).tz_localize(None).normalize()"
        )
    if index.hasnans:
        raise BadFrame(f"{where} has NaT in its index at row {int(np.argmax(index.isna()))}")
    stamps = index.to_numpy()
    days = stamps.astype("datetime64[D]")
    far = (days < _FIRST_DAY) | (days > _LAST_DAY)
    if far.any():
        row = int(np.argmax(far))
        raise BadFrame(
            f"{where} has {days[row]} in its index at row {row}; sessions must be dates of the years 1678 to "
            "2261; pass unit= to pd.to_datetime for numbers"
        )
    odd = stamps != days.astype(stamps.dtype)
    if odd.any():
        raise BadFrame(
            f"{where} has {index[int(np.argmax(odd))]} in its index; sessions must be dates at midnight"
        )
    if not index.is_unique:
        twice = f"{index[int(np.argmax(index.duplicated()))]:%Y-%m-%d}"
        raise BadFrame(f"{where} has session {twice} twice", session=twice)
    sessions = stamps.astype("datetime64[us]")
    if not index.is_monotonic_increasing:
        row = int(np.argmax(sessions[1:] < sessions[:-1])) + 1
        day = f"{index[row]:%Y-%m-%d}"
        raise BadFrame(f"{where} is not sorted: row {row} ({day}) is before the row above it", session=day)
    return sessions


def _symbols(where: str, columns: pd.Index) -> tuple[str, ...]:
    symbols = columns.tolist()
    for position, column in enumerate(symbols):
        if not is_plain(column):
            raise BadFrame(f"{where} has {_repr(column)} as column {position}; ts_codes are {PLAIN_RULE}")
    if not columns.is_unique:
        raise BadFrame(f"{where} has column {columns[int(np.argmax(columns.duplicated()))]!r} twice")
    return tuple(symbols)


def _values(where: str, frame: pd.DataFrame, panel: str) -> Floats:
    values = frame.to_numpy()
    if values.dtype.kind not in "iuf":
        strange = [name for name, dtype in frame.dtypes.items() if getattr(dtype, "kind", "O") not in "iuf"]
        if strange:
            raise _not_a_number(where, frame[strange])
        values = frame.to_numpy(dtype=np.float64, na_value=np.nan)
    # Adding 0.0 folds -0.0 into 0.0 and the mask folds NaN payloads, so that equal content has one name.
    numbers: Floats = np.add(values, 0.0, dtype=np.float64)
    numbers[np.isnan(numbers)] = np.nan
    return _rounded(panel, numbers)


def _rounded(panel: str, numbers: Floats) -> Floats:
    if panel == "weights":
        return np.round(numbers, DIGITS) + 0.0
    if panel == "score":
        with np.errstate(all="ignore"):
            scale = 10.0 ** (DIGITS - 1 - np.floor(np.log10(np.abs(numbers))))
            short = np.rint(numbers * scale) / scale
        return np.where(np.isfinite(short), short, numbers)
    return numbers


def _not_a_number(where: str, frame: pd.DataFrame) -> BadFrame:
    for session, row in zip(frame.index, frame.to_numpy(dtype=object), strict=True):
        for symbol, cell in zip(frame.columns, row, strict=True):
            is_bool = isinstance(cell, bool | np.bool_)
            if is_bool or not isinstance(cell, int | float | np.number):
                place = {"session": f"{session:%Y-%m-%d}", "symbol": symbol, "value": _repr(cell)}
                hint = ": use .astype(float), the name held, or entries and exits" if is_bool else ""
                return BadFrame(
                    f"{where} has {_repr(cell)} at ({session:%Y-%m-%d}, {symbol}); it must be a number{hint}",
                    **place,
                )
    dtype, column = frame.dtypes.iloc[0], frame.columns[0]
    return BadFrame(
        f"{where} has dtype {dtype} in column {column}; it must be float64: use .astype(float)", symbol=column
    )


def _check_cells(where: str, panel: str, values: Floats, sessions: Dates, symbols: tuple[str, ...]) -> None:
    if panel == "signal":
        bad = ~(np.isnan(values) | (values == 0) | (values == 1) | (values == -1))
        rule = "signal values must be 1, 0, -1 or NaN"
    elif panel == "weights":
        bad = (values < 0) | np.isinf(values)
        rule = "weights are fractions of the equity, from 0: nothing is sold short"
    else:
        bad = np.isinf(values)
        rule = "cells must be finite numbers or NaN"
    if bad.any():
        row, column = (int(i) for i in np.argwhere(bad)[0])
        place = f"({sessions[row].astype('datetime64[D]')}, {symbols[column]})"
        raise BadFrame(
            f"{where} has {values[row, column]:g} at {place}; {rule}",
            session=str(sessions[row].astype("datetime64[D]")),
            symbol=symbols[column],
            value=float(values[row, column]),
        )


def _check_sums(where: str, values: Floats, sessions: Dates) -> None:
    above = (sums := np.nansum(values, axis=1)) > 1 + _ABOVE
    if above.any():
        row = int(np.argmax(above))
        day = str(sessions[row].astype("datetime64[D]"))
        raise BadFrame(f"{where} adds up to {sums[row]:.6g} on {day}; a row may add up to 1", session=day)


def merge(old: FrozenFrame, new: FrozenFrame) -> FrozenFrame:
    """Union of sessions and symbols; a new number replaces an old one, NaN never does."""
    if old.digest == new.digest:
        return old
    sessions = np.union1d(old.sessions, new.sessions)
    symbols = tuple(sorted({*old.symbols, *new.symbols}))
    place = {symbol: position for position, symbol in enumerate(symbols)}
    values = np.full((len(sessions), len(symbols)), np.nan)
    for part in (old, new):
        rows = np.searchsorted(sessions, part.sessions)
        columns = np.array([place[symbol] for symbol in part.symbols])
        block = values[np.ix_(rows, columns)]
        values[np.ix_(rows, columns)] = np.where(np.isnan(part.values), block, part.values)
    return FrozenFrame(frozen_array(sessions), symbols, frozen_array(values))


def check_axes(
    name: str, signal: FrozenFrame, ohlcv: Mapping[str, FrozenFrame], panel: str = "signal"
) -> None:
    """Check that a signal has no session and no symbol that the data does not have.

    Fewer sessions, fewer symbols and another order of the columns are valid.

    Parameters
    ----------
    ohlcv
        The data. Its sessions and symbols are ``close``'s, without it all frames' together;
        without a frame every signal is valid.

    Raises
    ------
    BadFrame
        Names the first offending cell, row by row; ``data`` has its session, symbol and value.
    """
    if not ohlcv:
        return
    sessions, symbols, listed = _axes(ohlcv)
    rows = ~_contains(signal.sessions, sessions)
    columns = [] if signal.symbols == listed else [symbol not in symbols for symbol in signal.symbols]
    if rows.any() and (rows[0] or not any(columns)):
        row, column = int(np.argmax(rows)), 0
        why = f"which is not a session of the data ({_span(sessions)})"
    elif any(columns):
        row, column = 0, columns.index(True)
        why = f"which is not a symbol of the data ({_name_list(listed)})"
    else:
        return
    session, symbol = str(signal.sessions[row].astype("datetime64[D]")), signal.symbols[column]
    value = float(signal.values[row, column])
    raise BadFrame(
        f"{panel}[{name!r}] has {value:g} at ({session}, {symbol}), {why}; sessions and symbols must be "
        "those of the data: use signal.reindex(index=close.index, columns=close.columns)",
        session=session,
        symbol=symbol,
        value=value,
    )


def _axes(ohlcv: Mapping[str, FrozenFrame]) -> tuple[Dates, frozenset[str], tuple[str, ...]]:
    frames = [ohlcv["close"]] if "close" in ohlcv else list(ohlcv.values())
    sessions = frames[0].sessions
    for frame in frames[1:]:
        if not np.array_equal(frame.sessions, sessions):
            sessions = np.union1d(sessions, frame.sessions)
    listed = tuple(dict.fromkeys(symbol for frame in frames for symbol in frame.symbols))
    return sessions, frozenset(listed), listed


def _contains(days: Dates, sessions: Dates) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    if not len(sessions):
        return np.zeros(len(days), dtype=bool)
    places = np.minimum(np.searchsorted(sessions, days), len(sessions) - 1)
    return np.asarray(sessions[places] == days)


def _span(sessions: Dates) -> str:
    if not len(sessions):
        return "there is none"
    first, last = (str(sessions[place].astype("datetime64[D]")) for place in (0, -1))
    return f"{len(sessions)} from {first} to {last}"


def _name_list(symbols: tuple[str, ...]) -> str:
    more = f" and {len(symbols) - 3} more" if len(symbols) > 3 else ""
    return ", ".join(symbols[:3]) + more
