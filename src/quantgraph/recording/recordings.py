"""The recordings of a graph's runs: one for each run, which finds recorded answers and adds new ones."""

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

T = TypeVar("T")

Mode = Literal["record", "replay"]
"""``record``: recorded answers are served, other requests are made and added. ``replay``: none is made."""

PASSING_ERRORS = frozenset(
    {"model_unavailable", "source_unavailable", "rate_limited", "not_configured", "permission_denied",
     "budget_exceeded", "code_unavailable", "sandbox_weak", "unknown_commit", "no_data"}
)  # fmt: skip
"""Codes of errors that may have passed when a run is resumed: only a replay is served them."""

_MAX_OPEN = 256
"""Recordings that a recorder keeps open."""


class Recording:
    """The recording of one run. Safe to use from several threads.

    Parameters
    ----------
    run_id
        The run's id.
    table
        Keeps the entries; None keeps none, and every request is made.
    mode
        See :data:`Mode`.
    until
        A session, ``YYYYMMDD``; from it on a replay records.
    budget, session_budget
        Limits of its model calls, over the run and in each session.

    Attributes
    ----------
    budget_tracker
        Usage and limits of its model calls, in this process and before.
    replay_lookup
        The entries that a replay is served; None in the mode ``record``.
    memory
        A cache for callers that read the same answers often; closing clears it.
    """

    def __init__(
        self,
        run_id: str,
        table: RecordingTable | None = None,
        *,
        mode: Mode = "record",
        until: str | None = None,
        budget: Budget | None = None,
        session_budget: Budget | None = None,
    ) -> None:
        self.run_id = run_id
        self.mode = mode
        self._table = table
        self.until = until
        self.memory: dict[Any, Any] = {}
        before = list(self.entries())
        self.replay_lookup = ReplayLookup(before) if mode == "replay" else None
        self.budget_tracker = BudgetTracker(budget, session_budget, before)

    @property
    def replays(self) -> bool:
        """Whether no request is made at all."""
        return self.mode == "replay" and self.until is None

    def find(self, key: Key, request: str = "") -> Entry | None:
        """Return the last answer to a request; None if the request is to be made (again).

        Raises
        ------
        RunDiverged
            In a replay, if the request is not recorded; ``data`` has both sides.
        """
        if self.replay_lookup and self._replays(key):
            return self.replay_lookup.find(key, request)
        entry = self._table.find(self.run_id, key) if self._table else None
        passing = entry is not None and entry.error is not None and entry.error["code"] in PASSING_ERRORS
        return None if passing else entry

    def numbers(self, key: Key) -> list[int]:
        """Return the numbers under which a path's request was answered, ascending."""
        if self.replay_lookup and self._replays(key):
            return self.replay_lookup.numbers(key)
        return self._table.numbers(self.run_id, key) if self._table else []

    def add(self, entry: Entry) -> None:
        """Add an attempt after the recorded ones of the same key."""
        if self._table is not None:
            self._table.add(self.run_id, replace(entry, at=entry.at or datetime.now(UTC).isoformat()))

    def last(self, kind: Kind, digest: str) -> Entry | None:
        """Return the last entry of a request, at any path; None if there is none."""
        if self.replay_lookup and self.replays:
            return self.replay_lookup.last(kind, digest)
        return self._table.last(self.run_id, kind, digest) if self._table else None

    def times(self, kind: Kind, digest: str) -> int:
        """Count the answers to a request so far, at any path."""
        return self._table.times(self.run_id, kind, digest) if self._table else 0

    def usage(self) -> list[dict[str, Any]]:
        """What its model calls took, see :meth:`BudgetTracker.usage`."""
        return self.budget_tracker.usage()

    def cached(self) -> int:
        """Count the replies from the cache of other runs."""
        return self._table.cached(self.run_id) if self._table else 0

    def entries(self) -> Iterator[Entry]:
        """Return the run's entries in the order in which they were added."""
        return self._table.entries(self.run_id) if self._table else iter(())

    def once(self, key: Key, request: str, ask: Callable[[], T], *, session: str | None = None) -> T:
        """Serve the answer, or call ``ask`` and add it, see :func:`~quantgraph.recording.recorded`."""
        entry = self.find(key, request)
        if entry is not None:
            found: T = entry.outcome()
            return found
        try:
            answer = ask()
        except StorageUnavailable:
            raise  # not an answer: a resumed run asks again
        except QuantGraphError as error:
            self.add(Entry(key=key, request=request, error=error_json(error), session=session))
            raise
        text = canonical_json(answer, sort_keys=False)
        self.add(Entry(key=key, request=request, reply=text, session=session))
        made: T = json.loads(text)  # the same types as in a replay
        return made

    def happened(self, key: Key, request: str, now: Callable[[], bool]) -> bool:
        """Whether something happened, see :func:`~quantgraph.recording.happened`."""
        if key.seq not in self.numbers(key) and ((self.replay_lookup and self._replays(key)) or not now()):
            return False
        return self.once(key, request, lambda: True)

    def content(self, lines: int | None = None) -> tuple[int, str]:
        """Return the number of lines, at most ``lines``, and the hash of their content."""
        return self._table.content(self.run_id, lines) if self._table else (0, content_hash(""))

    def mark_restart(self) -> None:
        """Mark a restart of the run: repeated requests are served, and it may take another course."""
        self.add(Entry(key=Key(RESTART_PATH, 0, "fact", content_hash("{}")), request="{}", reply="null"))

    def close(self) -> None:
        """Close the database; the next use opens it again."""
        self.memory.clear()
        if self._table is not None:
            self._table.close()

    def _replays(self, key: Key) -> bool:
        if self.until is None:
            return True
        if key.kind == "fact" or key.path.startswith("ladder/"):
            return False  # capabilities of the live model
        moment = decision_moment()  # outside of a decision, models are asked before the first session only
        return key.kind == "model" if moment is None else f"{moment.session:%Y%m%d}" < self.until


class Recorder:
    """Opens and keeps the recordings of a graph's runs.

    Parameters
    ----------
    where
        A file or database URL for all runs, or a function from a run's id to one; None records nothing.
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
        self._lock = threading.Lock()  # one recording for each run, whichever thread asks first

    def limit(self, budget: Budget, session_budget: Budget) -> None:
        """Set the budgets of runs that are opened from now on, unless they are set already."""
        self._budget = self._budget or budget
        self._session_budget = self._session_budget or session_budget

    def of(self, run_id: str) -> Recording:
        """Return the recording of a run; the first use opens it."""
        with self._lock:
            if run_id not in self._open:
                where = self._where(run_id) if callable(self._where) else self._where
                table = None if where is None else RecordingTable(where)
                self._open[run_id] = Recording(
                    run_id,
                    table,
                    mode=self._mode,
                    until=self._until,
                    budget=self._budget,
                    session_budget=self._session_budget,
                )
                if len(self._open) > _MAX_OPEN:
                    self._open.popitem(last=False)[1].close()
            self._open.move_to_end(run_id)
            return self._open[run_id]

    def close(self, run_id: str) -> None:
        """Close the recording of a run; the next use opens it again."""
        with self._lock:
            # A replay's recording knows what was used so far, so it is kept.
            recording = self._open.get(run_id) if self._mode == "replay" else self._open.pop(run_id, None)
        if recording is not None:
            recording.close()
