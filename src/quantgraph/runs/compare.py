"""Two folders of one run held against each other, export by export."""

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
    "ReplayDifference",
    "Export",
    "compare_ledgers",
    "compare_results",
    "compare_signals",
    "compare_strategies",
    "without_places",
]

Export = Literal["ledger", "signal", "strategy", "result", "record"]

_OF_THE_FOLDER = frozenset({"run_dir", "path", "seconds"})
"""Parts of a result that say where and when it was made, not what."""
_MOST = 20


@dataclass(frozen=True, kw_only=True)
class ReplayDifference:
    """Something that a run and its replay do not have alike.

    Attributes
    ----------
    export
        What was compared.
    place
        Where in it: a line of the journal, a cell, a key.
    recorded, replayed
        Both sides in a line, empty where there is nothing.
    """

    export: Export
    place: str
    recorded: str = ""
    replayed: str = ""

    @property
    def line(self) -> str:
        """All of it in a line."""
        sides = f"recorded: {self.recorded or 'nothing'} | replayed: {self.replayed or 'nothing'}"
        return f"{self.export} {self.place}: {sides}"


def compare_ledgers(recorded: Ledger, replayed: Ledger, run_id: str, *, whole: bool) -> list[ReplayDifference]:
    """The journals, line by line with their hashes; of a run that did not end, as far as it got.

    The recorded one has to be sound, too: a line that was changed afterwards is a difference.
    """
    there, here = (list(_lines(book, run_id)) for book in (recorded, replayed))
    pairs = zip_longest(there, here if whole else here[: len(there)], fillvalue="")
    found = [
        ReplayDifference(export="ledger", place=f"line {number}", recorded=old[:300], replayed=new[:300])
        for number, (old, new) in enumerate(pairs)
        if old != new
    ]
    if there and not found:
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
    """The frames of two files, bit by bit."""
    if not (recorded.is_file() and replayed.is_file()):
        old, new = ("a signal" if path.is_file() else "" for path in (recorded, replayed))
        return [] if old == new else [ReplayDifference(export="signal", place="file", recorded=old, replayed=new)]
    if recorded.read_bytes() == replayed.read_bytes():
        return []
    try:
        there, here = pd.read_parquet(recorded), pd.read_parquet(replayed)
    except (OSError, ValueError) as error:
        raise BadFile(f"{recorded} is no signal: {error}", path=str(recorded)) from error
    if not (there.index.equals(here.index) and there.columns.equals(here.columns)):
        old, new = (f"{len(frame)} x {len(frame.columns)}" for frame in (there, here))
        return [ReplayDifference(export="signal", place="sessions or symbols", recorded=old, replayed=new)]
    old_cells, new_cells = there.to_numpy("float64"), here.to_numpy("float64")
    apart = np.argwhere(old_cells.view("int64") != new_cells.view("int64"))
    return [
        ReplayDifference(
            export="signal",
            place=f"{there.index[row]:%Y-%m-%d} {there.columns[column]}",
            recorded=str(old_cells[row, column]),
            replayed=str(new_cells[row, column]),
        )
        for row, column in apart[:1]
    ]


def compare_strategies(recorded: Path, replayed: Path) -> list[ReplayDifference]:
    """Two files, line by line."""
    there, here = (
        path.read_bytes().decode(errors="backslashreplace").splitlines(keepends=True)
        if path.is_file()
        else []
        for path in (recorded, replayed)
    )
    pairs = enumerate(zip_longest(there, here, fillvalue=""), start=1)
    return [
        ReplayDifference(export="strategy", place=f"line {number}", recorded=old.rstrip(), replayed=new.rstrip())
        for number, (old, new) in pairs
        if old != new
    ][:1]


def compare_results(recorded: Mapping[str, Any], replayed: Mapping[str, Any]) -> list[ReplayDifference]:
    """What ``result.json`` says, but for where and when it was made."""
    return [
        ReplayDifference(export="result", place=change.place, recorded=change.old[:200], replayed=change.new[:200])
        for change in islice(changes(without_places(recorded), without_places(replayed)), _MOST)
    ]


def without_places(value: Any) -> Any:
    """A result without the parts that say where and when it was made."""
    if isinstance(value, Mapping):
        return {name: without_places(inner) for name, inner in value.items() if name not in _OF_THE_FOLDER}
    return [without_places(inner) for inner in value] if isinstance(value, list) else value
