"""Comparing a replay with its run, export by export."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from quantgraph.broker.ledger import Ledger
from quantgraph.errors import BadFile, LedgerConflict
from quantgraph.recording.replay_lookup import changes

__all__ = [
    "Export",
    "ReplayDifference",
    "compare_ledgers",
    "compare_results",
    "compare_signals",
    "compare_strategies",
    "without_places",
]

Export = Literal["ledger", "signal", "strategy", "result", "record"]

_PLACES = frozenset({"run_dir", "path", "seconds"})
"""Keys of a result that say where and when it was made."""
_MAX_CHANGES = 20


@dataclass(frozen=True, kw_only=True)
class ReplayDifference:
    """One difference between a run and its replay.

    Attributes
    ----------
    export
        Which file or table differs.
    place
        Where: a line of the journal, a cell, a key.
    recorded, replayed
        Both sides in one line, empty if there is nothing.
    """

    export: Export
    place: str
    recorded: str = ""
    replayed: str = ""

    @property
    def line(self) -> str:
        """The difference in one line."""
        sides = f"recorded: {self.recorded or 'nothing'} | replayed: {self.replayed or 'nothing'}"
        return f"{self.export} {self.place}: {sides}"


def compare_ledgers(
    recorded: Ledger, replayed: Ledger, run_id: str, *, whole: bool
) -> list[ReplayDifference]:
    """Compare journals line by line with their hashes; of an unfinished run, as far as it got.

    A line of the recorded journal that was changed afterwards is a difference, too.
    """
    old_lines, new_lines = (list(_lines(book, run_id)) for book in (recorded, replayed))
    pairs = zip_longest(old_lines, new_lines if whole else new_lines[: len(old_lines)], fillvalue="")
    found = [
        ReplayDifference(export="ledger", place=f"line {number}", recorded=old[:300], replayed=new[:300])
        for number, (old, new) in enumerate(pairs)
        if old != new
    ]
    if old_lines and not found:
        try:
            recorded.check(run_id)
        except LedgerConflict as error:
            found = [ReplayDifference(export="ledger", place="chain", recorded=error.message)]
    return found[:1]


def _lines(book: Ledger, run_id: str) -> Iterator[str]:
    if run_id in book.runs():
        for row in book.journal(run_id):
            yield json.dumps(row, ensure_ascii=False, separators=(",", ":"))


def compare_signals(recorded: Path, replayed: Path) -> list[ReplayDifference]:
    """Compare the frames of two files bit by bit."""
    if not (recorded.is_file() and replayed.is_file()):
        old, new = ("a signal" if path.is_file() else "" for path in (recorded, replayed))
        return (
            []
            if old == new
            else [ReplayDifference(export="signal", place="file", recorded=old, replayed=new)]
        )
    if recorded.read_bytes() == replayed.read_bytes():
        return []
    try:
        old_frame, new_frame = pd.read_parquet(recorded), pd.read_parquet(replayed)
    except (OSError, ValueError) as error:
        raise BadFile(f"{recorded} is not a signal: {error}", path=str(recorded)) from error
    if not (old_frame.index.equals(new_frame.index) and old_frame.columns.equals(new_frame.columns)):
        old, new = (f"{len(frame)} x {len(frame.columns)}" for frame in (old_frame, new_frame))
        return [ReplayDifference(export="signal", place="sessions or symbols", recorded=old, replayed=new)]
    old_cells, new_cells = old_frame.to_numpy("float64"), new_frame.to_numpy("float64")
    apart = np.argwhere(old_cells.view("int64") != new_cells.view("int64"))
    return [
        ReplayDifference(
            export="signal",
            place=f"{old_frame.index[row]:%Y-%m-%d} {old_frame.columns[column]}",
            recorded=str(old_cells[row, column]),
            replayed=str(new_cells[row, column]),
        )
        for row, column in apart[:1]
    ]


def compare_strategies(recorded: Path, replayed: Path) -> list[ReplayDifference]:
    """Compare two files line by line."""
    old_lines, new_lines = (
        path.read_bytes().decode(errors="backslashreplace").splitlines(keepends=True)
        if path.is_file()
        else []
        for path in (recorded, replayed)
    )
    pairs = enumerate(zip_longest(old_lines, new_lines, fillvalue=""), start=1)
    return [
        ReplayDifference(
            export="strategy", place=f"line {number}", recorded=old.rstrip(), replayed=new.rstrip()
        )
        for number, (old, new) in pairs
        if old != new
    ][:1]


def compare_results(recorded: Mapping[str, Any], replayed: Mapping[str, Any]) -> list[ReplayDifference]:
    """Compare two results, but for where and when they were made."""
    return [
        ReplayDifference(
            export="result", place=change.place, recorded=change.old[:200], replayed=change.new[:200]
        )
        for change in islice(changes(without_places(recorded), without_places(replayed)), _MAX_CHANGES)
    ]


def without_places(value: Any) -> Any:
    """A result without the keys that say where and when it was made."""
    if isinstance(value, Mapping):
        return {name: without_places(inner) for name, inner in value.items() if name not in _PLACES}
    return [without_places(inner) for inner in value] if isinstance(value, list) else value
