"""The files of a qlib folder: calendar, lists of instruments, features, and the manifest of a release.

``calendars/day.txt`` has one session a line, ``instruments/NAME.txt`` a symbol with its first and last day.
``features/SYMBOL/FIELD.day.bin`` is little-endian float32: the row of the first value in the calendar, then
the values.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from quantgraph._util.canonical_json import content_hash, file_hash
from quantgraph.data._source import session_index
from quantgraph.data._table_dates import read_dates
from quantgraph.data.symbols._codes import is_code, standard_code
from quantgraph.errors import BadFile

CALENDAR, EVERYTHING = "calendars/day.txt", "instruments/all.txt"

_CELL = 4  # bytes of a float32
_MAX_TEXT = 64 << 20
_RESERVED = frozenset(
    (
        "con",
        "prn",
        "aux",
        "nul",
        *(f"{device}{number}" for device in ("com", "lpt") for number in range(1, 10)),
    )
)
"""Names that Windows forbids; qlib writes ``_qlib_`` before them."""
_MANIFEST, _ARCHIVE = "qlib_bin.manifest.json", "qlib_bin.tar.gz"


@dataclass(frozen=True, kw_only=True)
class Spans:
    """Rows of a list of instruments: codes in tushare's form, first and last days (``datetime64[us]``)."""

    symbols: npt.NDArray[np.str_]
    first: npt.NDArray[np.datetime64]
    last: npt.NDArray[np.datetime64]

    def on(self, day: pd.Timestamp) -> tuple[str, ...]:
        """Codes whose span has a day, ascending."""
        at = day.to_datetime64()
        return tuple(sorted({*self.symbols[(self.first <= at) & (at <= self.last)].tolist()}))


class QlibFolder:
    """One folder; files are read when they are needed. ``BadFile`` names a missing or damaged file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        for needed in (CALENDAR, EVERYTHING, "features"):
            if not (path / needed).exists():
                raise BadFile(
                    f"{path} has no {needed}; a qlib folder of daily data has {CALENDAR}, {EVERYTHING} and "
                    "features/SYMBOL/FIELD.day.bin",
                    file=str(path / needed),
                )

    @cached_property
    def calendar(self) -> pd.DatetimeIndex:
        """All sessions, ascending."""
        lines = self._lines(CALENDAR)
        days = read_dates(pd.Series(lines, name="day"), str(self.path / CALENDAR))
        steps = np.flatnonzero(np.diff(days.to_numpy()) <= np.timedelta64(0))
        if len(steps):
            raise self._bad(
                CALENDAR, f"line {steps[0] + 2}: {lines[steps[0] + 1]} is not after the day above it"
            )
        return session_index(days)

    @cached_property
    def instruments(self) -> Spans:
        """All symbols with the days of their data."""
        return self.spans("all")

    @cached_property
    def lists(self) -> tuple[str, ...]:
        """Names of the lists of instruments, without ``all``, ascending."""
        found = (path.stem for path in (self.path / "instruments").glob("*.txt"))
        return tuple(sorted(name for name in found if name != "all"))

    def spans(self, name: str) -> Spans:
        """One list of instruments."""
        place = f"instruments/{name}.txt"
        rows = [line.split() for line in self._lines(place)]
        for number, row in enumerate(rows, 1):
            if len(row) != 3 or not is_code(row[0]):
                shown = " ".join(row)
                raise self._bad(place, f"line {number}: {shown!r:.60} is not a symbol and two days")
        codes, *days = zip(*rows, strict=True)
        file = str(self.path / place)
        first, last = (read_dates(pd.Series(column, name="day"), file).to_numpy() for column in days)
        reversed_at = np.flatnonzero(last < first)
        if len(reversed_at):
            raise self._bad(place, f"line {reversed_at[0] + 1}: the last day is before the first one")
        return Spans(symbols=np.array([standard_code(code) for code in codes]), first=first, last=last)

    def fields_of(self, symbol: str) -> frozenset[str]:
        """Fields that a symbol has."""
        place = self._place(symbol)
        return frozenset(file.name.removesuffix(".day.bin") for file in place.glob("*.day.bin"))

    def feature(self, symbol: str, field: str) -> npt.NDArray[np.float64]:
        """Values of a field on all sessions of the calendar, NaN where the file has none."""
        path = self._place(symbol) / f"{field}.day.bin"
        place = path.relative_to(self.path).as_posix()
        values = np.full(len(self.calendar), np.nan)
        try:
            size = path.stat().st_size
            if not size or size % _CELL or size > _CELL * (len(values) + 1):
                raise self._bad(place, f"{size} bytes are not 1 to {len(values) + 1} float32 numbers")
            cells = np.fromfile(path, dtype="<f4").astype("float64")
        except FileNotFoundError as error:
            raise self._bad(place, f"is missing, and {EVERYTHING} lists the symbol") from error
        except OSError as error:
            raise self._bad(place, f"cannot be read: {error.strerror}") from error
        start = cells[0]
        if not (start >= 0 and start == int(start) and start + len(cells) - 1 <= len(values)):
            raise self._bad(
                place,
                f"its first number is {start:g}: {len(cells) - 1} values from that row on do not fit into "
                f"the {len(values)} sessions of {CALENDAR}",
            )
        if np.isinf(cells).any():
            raise self._bad(place, f"value {int(np.isinf(cells).argmax())} is infinite")
        values[int(start) : int(start) + len(cells) - 1] = cells[1:]
        return values

    @cached_property
    def release(self) -> Mapping[str, Any]:
        """Manifest of a release beside the folder or in it, held against what is here; empty without one."""
        for folder in (self.path, self.path.absolute().parent):
            path = folder / _MANIFEST
            if path.is_file():
                return self._check(path)
        return {}

    def fingerprint(self) -> dict[str, str]:
        """Hash of the calendar, of each list, and of the names and sizes of all features."""
        texts = sorted([self.path / CALENDAR, *(self.path / "instruments").glob("*.txt")])
        sizes = sorted(
            f"{file.parent.name}/{file.name} {file.stat().st_size}"
            for file in (self.path / "features").glob("*/*.day.bin")
        )
        found = {text.relative_to(self.path).as_posix(): file_hash(text) for text in texts}
        return found | {"features": content_hash("\n".join(sizes))}

    def _check(self, path: Path) -> Mapping[str, Any]:
        try:
            manifest = json.loads(path.read_text(encoding="utf-8"))
            target, digest = manifest["target_trade_date"], manifest["archive_sha256"]
        except (ValueError, KeyError, TypeError, OSError) as error:
            raise BadFile(f"{path} is not the manifest of a release: {error}", file=str(path)) from error
        last = f"{self.calendar[-1]:%Y-%m-%d}"
        if target != last:
            raise BadFile(
                f"{path} is of a release up to {target}, and {CALENDAR} ends on {last}; unpack that release "
                "into an empty folder, or delete the manifest",
                file=str(path),
            )
        archive = path.with_name(_ARCHIVE)
        if archive.is_file():
            with archive.open("rb") as file:
                found = f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"
            if found != digest:
                raise BadFile(
                    f"{archive} is damaged: {path} says another hash; get it again", file=str(archive)
                )
        return dict(manifest)

    def _place(self, symbol: str) -> Path:
        stem, dot, exchange = symbol.lower().rpartition(".")
        name = f"{exchange}{stem}" if dot and exchange in {"sh", "sz", "bj"} else symbol.lower()
        return self.path / "features" / (f"_qlib_{name}" if name in _RESERVED else name)

    def _lines(self, place: str) -> list[str]:
        path = self.path / place
        try:
            if path.stat().st_size > _MAX_TEXT:
                raise self._bad(place, f"is larger than {_MAX_TEXT >> 20} MB")
            lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
        except FileNotFoundError as error:
            raise self._bad(place, "is missing") from error
        except OSError as error:
            raise self._bad(place, f"cannot be read: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise self._bad(place, "is not text in UTF-8") from error
        while lines and not lines[-1]:
            lines.pop()
        if not lines:
            raise self._bad(place, "is empty")
        return lines

    def _bad(self, place: str, what: str) -> BadFile:
        return BadFile(f"{self.path / place}: {what}", file=str(self.path / place))
