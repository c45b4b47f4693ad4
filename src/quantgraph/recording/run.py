"""The recordings of a graph's runs, one a run: what was answered is found, what is new is added."""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, TypeVar

from quantgraph.errors import QuantGraphError, RunDiverged
from quantgraph.recording.entry import Entry, Key, canonical, error_json
from quantgraph.recording.store import Tape

__all__ = ["Mode", "Recorder", "Recording"]

T = TypeVar("T")

Mode = Literal["record", "replay"]
"""``record``: what is there is served, what is not is asked and added. ``replay``: nothing is asked."""

PASSING = frozenset(
    {"model_unavailable", "source_unavailable", "rate_limited", "not_configured", "permission_denied",
     "budget_exceeded"}
)  # fmt: skip
"""Codes of errors that may be gone when a run is resumed: they are served by a replay alone."""

_KEPT = 256


class Recording:
    """One run's. Safe to use from several threads.

    Parameters
    ----------
    run_id
        The run's name.
    tape
        Where entries are kept; None keeps none, and every question is asked.
    mode
        See :data:`Mode`.
    """

    def __init__(self, run_id: str, tape: Tape | None = None, *, mode: Mode = "record") -> None:
        self.run_id = run_id
        self.mode = mode
        self._tape = tape

    def find(self, key: Key) -> Entry | None:
        """What was answered to a question, the last time it was asked; None if it has to be asked (again).

        Raises
        ------
        RunDiverged
            In a replay, if it was not asked; ``data`` has both sides.
        """
        entry = self._tape.find(self.run_id, key) if self._tape else None
        if self.mode == "replay":
            if entry is None:
                raise self._diverged(key, "")
            return entry
        passing = entry is not None and entry.error is not None and entry.error["code"] in PASSING
        return None if passing else entry

    def add(self, entry: Entry) -> None:
        """Add an attempt, after those of the same key that are there."""
        if self._tape is not None:
            self._tape.add(self.run_id, replace(entry, at=entry.at or datetime.now(UTC).isoformat()))

    def entries(self) -> Iterator[Entry]:
        """All of the run, in the order in which they were added."""
        return self._tape.entries(self.run_id) if self._tape else iter(())

    def once(self, key: Key, request: str, ask: Callable[[], T], *, session: str | None = None) -> T:
        """Serve, or ask and add, see :func:`~quantgraph.recording.recorded`."""
        entry = self.find(key)
        if entry is not None:
            found: T = entry.outcome()
            return found
        try:
            answer = ask()
        except QuantGraphError as error:
            self.add(Entry(key=key, request=request, error=error_json(error), session=session))
            raise
        text = canonical(answer)
        self.add(Entry(key=key, request=request, reply=text, session=session))
        made: T = json.loads(text)  # what a replay gives, down to the types
        return made

    def close(self) -> None:
        """Close the database."""
        if self._tape is not None:
            self._tape.close()

    def _diverged(self, key: Key, request: str) -> RunDiverged:
        return RunDiverged(
            f"{key.path}: the recorded run has no {key.kind} request {key.digest} as number {key.seq}",
            path=key.path,
            seq=key.seq,
            kind=key.kind,
            request=request,
        )


class Recorder:
    """Where the runs of a graph are recorded.

    Parameters
    ----------
    where
        A file or database URL for all runs, or a function that names the one of a run; None records nothing.
    mode
        See :data:`Mode`.
    """

    def __init__(
        self, where: str | Path | Callable[[str], str | Path] | None = None, *, mode: Mode = "record"
    ) -> None:
        self._where = where
        self._mode: Mode = mode
        self._open: OrderedDict[str, Recording] = OrderedDict()
        self._lock = threading.Lock()  # one recording a run, whichever thread asks first

    def of(self, run_id: str) -> Recording:
        """The recording of a run, opened when it is first asked for."""
        with self._lock:
            if run_id not in self._open:
                where = self._where(run_id) if callable(self._where) else self._where
                tape = None if where is None else Tape(where)
                self._open[run_id] = Recording(run_id, tape, mode=self._mode)
                if len(self._open) > _KEPT:
                    self._open.popitem(last=False)[1].close()
            self._open.move_to_end(run_id)
            return self._open[run_id]

    def close(self, run_id: str) -> None:
        """Close a run's; it is opened again when it is asked for."""
        with self._lock:
            recording = self._open.pop(run_id, None)
        if recording is not None:
            recording.close()
