"""The recordings of a graph's runs, one a run: what was answered is found, what is new is added."""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, TypeVar

from quantgraph._util.canonical_json import canonical_json, content_hash
from quantgraph.errors import QuantGraphError, StorageUnavailable
from quantgraph.recording.budget import Budget
from quantgraph.recording.budget_tracker import BudgetTracker
from quantgraph.recording.entry import RESTART_PATH, Entry, Key, Kind, error_json
from quantgraph.recording.recording_table import RecordingTable
from quantgraph.recording.replay_lookup import ReplayLookup
from quantgraph.state import decision_moment

__all__ = ["Mode", "Recorder", "Recording"]

T = TypeVar("T")

Mode = Literal["record", "replay"]
"""``record``: what is there is served, what is not is asked and added. ``replay``: nothing is asked."""

PASSING_ERRORS = frozenset(
    {"model_unavailable", "source_unavailable", "rate_limited", "not_configured", "permission_denied",
     "budget_exceeded", "sandbox_weak", "unknown_commit", "no_data"}
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
    until
        A session, ``YYYYMMDD``, from which on a replay records instead.
    budget, session_budget
        What its model calls may take, all of them and those of each session.

    Attributes
    ----------
    tally
        What its model calls took, in this process and before.
    served
        What a replay is served; None if it is none.
    memory
        What was read of it, by whoever reads it often; it is empty again once it was closed.
    """

    def __init__(
        self,
        run_id: str,
        tape: RecordingTable | None = None,
        *,
        mode: Mode = "record",
        until: str | None = None,
        budget: Budget | None = None,
        session_budget: Budget | None = None,
    ) -> None:
        self.run_id = run_id
        self.mode = mode
        self._tape = tape
        self.until = until
        self.memory: dict[Any, Any] = {}
        before = list(self.entries())
        self.replay_lookup = ReplayLookup(before) if mode == "replay" else None
        self.budget_tracker = BudgetTracker(budget, session_budget, before)

    @property
    def replays(self) -> bool:
        """Whether nothing is asked at all."""
        return self.mode == "replay" and self.until is None

    def find(self, key: Key, request: str = "") -> Entry | None:
        """What was answered to a question, the last time it was asked; None if it has to be asked (again).

        Raises
        ------
        RunDiverged
            In a replay, if it was not asked; ``data`` has both sides.
        """
        if self.replay_lookup and self._replays(key):
            return self.replay_lookup.find(key, request)
        entry = self._tape.find(self.run_id, key) if self._tape else None
        passing = entry is not None and entry.error is not None and entry.error["code"] in PASSING_ERRORS
        return None if passing else entry

    def numbers(self, key: Key) -> list[int]:
        """Under which numbers a path's request was answered, ascending."""
        if self.replay_lookup and self._replays(key):
            return self.replay_lookup.numbers(key)
        return self._tape.numbers(self.run_id, key) if self._tape else []

    def add(self, entry: Entry) -> None:
        """Add an attempt, after those of the same key that are there."""
        if self._tape is not None:
            self._tape.add(self.run_id, replace(entry, at=entry.at or datetime.now(UTC).isoformat()))

    def last(self, kind: Kind, digest: str) -> Entry | None:
        """The last entry of a request, wherever in the run it was asked; None if there is none."""
        if self.replay_lookup and self.replays:
            return self.replay_lookup.last(kind, digest)
        return self._tape.last(self.run_id, kind, digest) if self._tape else None

    def times(self, kind: Kind, digest: str) -> int:
        """How often a request was answered so far, wherever in the run it was asked."""
        return self._tape.times(self.run_id, kind, digest) if self._tape else 0

    def usage(self) -> list[dict[str, Any]]:
        """What its model calls took, see :meth:`~quantgraph.recording.budget_tracker.BudgetTracker.usage`."""
        return self.budget_tracker.usage()

    def cached(self) -> int:
        """Replies that came out of the cache of other runs."""
        return self._tape.cached(self.run_id) if self._tape else 0

    def entries(self) -> Iterator[Entry]:
        """All of the run, in the order in which they were added."""
        return self._tape.entries(self.run_id) if self._tape else iter(())

    def once(self, key: Key, request: str, ask: Callable[[], T], *, session: str | None = None) -> T:
        """Serve, or ask and add, see :func:`~quantgraph.recording.recorded`."""
        entry = self.find(key, request)
        if entry is not None:
            found: T = entry.outcome()
            return found
        try:
            answer = ask()
        except StorageUnavailable:
            raise  # no answer: it is asked again when the run goes on
        except QuantGraphError as error:
            self.add(Entry(key=key, request=request, error=error_json(error), session=session))
            raise
        text = canonical_json(answer, sort_keys=False)
        self.add(Entry(key=key, request=request, reply=text, session=session))
        made: T = json.loads(text)  # what a replay gives, down to the types
        return made

    def content(self, lines: int | None = None) -> tuple[int, str]:
        """How many lines there are, ``lines`` at most, and the hash of all that stands in them."""
        return self._tape.content(self.run_id, lines) if self._tape else (0, content_hash(""))

    def mark_restart(self) -> None:
        """Say that the run is begun once more: it is served what it asks again, and may go another way."""
        self.add(Entry(key=Key(RESTART_PATH, 0, "fact", content_hash("{}")), request="{}", reply="null"))

    def close(self) -> None:
        """Close the database; it is opened again when it is needed."""
        self.memory.clear()
        if self._tape is not None:
            self._tape.close()

    def _replays(self, key: Key) -> bool:
        if self.until is None:
            return True
        if key.kind == "fact" or key.path.startswith("ladder/"):
            return False  # what the live model is able to
        moment = decision_moment()  # outside of a decision there are models before the first session alone
        return key.kind == "model" if moment is None else f"{moment.session:%Y%m%d}" < self.until


class Recorder:
    """Where the runs of a graph are recorded.

    Parameters
    ----------
    where
        A file or database URL for all runs, or a function that names the one of a run; None records nothing.
    mode, until, budget, session_budget
        See :class:`Recording`; each run has budgets of its own.
    """

    def __init__(
        self,
        where: str | Path | Callable[[str], str | Path] | None = None,
        *,
        mode: Mode = "record",
        until: str | None = None,
        budget: Budget | None = None,
        session_budget: Budget | None = None,
    ) -> None:
        self._where = where
        self._mode: Mode = mode
        self._until = until
        self._budget = budget
        self._session_budget = session_budget
        self._open: OrderedDict[str, Recording] = OrderedDict()
        self._lock = threading.Lock()  # one recording a run, whichever thread asks first

    def limit(self, budget: Budget, session_budget: Budget) -> None:
        """Keep runs that are opened from now on to these budgets, where none were given before."""
        self._budget = self._budget or budget
        self._session_budget = self._session_budget or session_budget

    def of(self, run_id: str) -> Recording:
        """The recording of a run, opened when it is first asked for."""
        with self._lock:
            if run_id not in self._open:
                where = self._where(run_id) if callable(self._where) else self._where
                tape = None if where is None else RecordingTable(where)
                self._open[run_id] = Recording(
                    run_id,
                    tape,
                    mode=self._mode,
                    until=self._until,
                    budget=self._budget,
                    session_budget=self._session_budget,
                )
                if len(self._open) > _KEPT:
                    self._open.popitem(last=False)[1].close()
            self._open.move_to_end(run_id)
            return self._open[run_id]

    def close(self, run_id: str) -> None:
        """Close a run's; it is opened again when it is asked for."""
        with self._lock:
            # What a replay was asked so far is nowhere else.
            recording = self._open.get(run_id) if self._mode == "replay" else self._open.pop(run_id, None)
        if recording is not None:
            recording.close()
