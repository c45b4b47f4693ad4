"""A strategy's first run on a panel's rows, each handed over when its session's turn has come."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.util import hash_array

from quantgraph.audit.causality._trials import (
    Axes,
    BuiltTrials,
    Reads,
    TrialOutcome,
    Trials,
    axes_of,
    close_of,
    only_fields,
    to_frame,
)
from quantgraph.errors import CodeTimeout
from quantgraph.market import Moment, Phase
from quantgraph.sandbox.wire import Frames
from quantgraph.state.frames import Floats, FrozenFrame

SessionsProved = Literal["auto", "all", "sampled"]

MOST_STEPS = 6_000_000_000
"""Sessions x sessions x symbols x fields up to which ``auto`` proves every session."""
_SECONDS_A_SESSION, _LEAST_SECONDS = 0.5, 60.0
FUTURE_CUTS, MISSING_FUTURES = 8, 2
"""Cuts of a sampled proof after which the future is another one, and those after which nothing trades."""
_MOST_ROWS = 20_000
"""Rows of one look that are remembered; of more, those whose hash ends in zeros."""


@dataclass(frozen=True, kw_only=True)
class FirstRun:
    """What a strategy computed in each session, before any run of it had seen a later one.

    Attributes
    ----------
    axes
        Sessions (T,) and symbols (N,) of the panel.
    rows
        Rows of the panel that were walked (R,), ascending.
    signal
        What it computed in each: (R, N), NaN for no opinion.
    seed
        Drew the rows; None if all sessions are walked.
    error
        What ended it before its end, in one line.
    earlier_looks
        How often, at least, code has seen some of these rows on this machine before.
    reads
        The fields that the code read; None is all.
    """

    axes: Axes
    rows: tuple[int, ...]
    signal: FrozenFrame = field(repr=False)
    seed: int | None = None
    error: str = ""
    earlier_looks: int = 0
    reads: Reads = None

    @property
    def is_whole(self) -> bool:
        """Whether all sessions are walked."""
        return self.seed is None

    def as_json(self) -> dict[str, Any]:
        """Return plain values; what was computed is not in them."""
        return {
            "rows": None if self.is_whole else list(self.rows),
            "seed": self.seed,
            "earlier_looks": self.earlier_looks,
            "reads": None if self.reads is None else sorted(map(list, self.reads)),
        }

    @classmethod
    def from_json(cls, kept: Mapping[str, Any], panel: Frames, signal: FrozenFrame) -> FirstRun:
        """Return the first run over a panel that computed ``signal``, from what :meth:`as_json` returned."""
        axes, reads = axes_of(panel), kept["reads"]
        return cls(
            axes=axes,
            rows=tuple(range(len(axes.sessions)) if kept["rows"] is None else kept["rows"]),
            signal=signal,
            seed=kept["seed"],
            earlier_looks=kept["earlier_looks"],
            reads=None if reads is None else frozenset((panel, name) for panel, name in reads),
        )

    def completed(self, trials: Trials, panel: Frames) -> FrozenFrame:
        """Return what trades (T, N), after a run on the whole panel if sessions are missing."""
        return self.traded(None if self.is_whole else trials.whole(only_fields(panel, self.reads)).signal)

    def traded(self, whole: FrozenFrame | None) -> FrozenFrame:
        """Return what trades (T, N): sessions not walked have the whole panel's values."""
        if self.is_whole or whole is None:
            return self.signal
        symbols = tuple(dict.fromkeys((*whole.symbols, *self.signal.symbols)))
        values = whole.frame.reindex(index=self.axes.sessions, columns=symbols).to_numpy(copy=True)
        values[[*self.rows]] = self.signal.frame.reindex(columns=symbols).to_numpy()
        return to_frame(self.axes.sessions, symbols, values)


def run_first(
    trials: Trials,
    panel: Frames,
    *,
    prove: SessionsProved = "auto",
    cuts: int = 40,
    seed: int = 0,
    decide_at: Phase = "post_close",
    reads: Reads = None,
    looks: LookLog | None = None,
    announce: Callable[[int], None] = lambda _: None,
) -> FirstRun:
    """Run a strategy on what was known at each session, in a process that never receives a later one.

    A signal that is built of parts which look back only is computed once.

    It is the first run of the code on these rows. It stops at the first error: a failure before the first
    opinion is taken for a signal that waits for its data.

    Parameters
    ----------
    prove
        ``all`` sessions, or a ``sampled`` half of ``cuts``; ``auto`` means all if sessions squared x symbols
        x fields of the panel are at most 6e9: the size decides, not the speed.
    seed
        Draws the sample.
    reads
        The fields that the code receives, see :func:`.fields_read`.
    looks
        Where looks at rows are counted.
    announce
        Receives how many runs this and its proof take at most.

    Raises
    ------
    CodeTimeout, CodeMemoryExceeded
        If a session takes too long or too much memory, or all of them together too long, unless ``all`` was
        asked for.
    """
    axes, is_whole = axes_of(panel), proves_all(panel, prove)
    total = len(axes.sessions)
    if isinstance(trials, BuiltTrials):
        return FirstRun(axes=axes, rows=tuple(range(total)), signal=trials.checked(panel), reads=reads)
    rows = range(total) if is_whole else random_rows(total, cuts, seed)
    announce(total if is_whole else min(cuts, total) + 2 * FUTURE_CUTS + MISSING_FUTURES)
    earlier = looks.add(panel) if looks is not None else 0
    run = _Run(axes, limit=np.inf if prove == "all" else max(_LEAST_SECONDS, _SECONDS_A_SESSION * len(rows)))
    moments = [Moment(pd.Timestamp(axes.sessions[row]), decide_at) for row in rows]
    with closing(trials.prefixes(only_fields(panel, reads), moments, last_row=True)) as outcomes:
        for row, outcome in zip(rows, outcomes, strict=False):
            if not run.take(row, outcome):
                break
    walked = tuple(rows[: len(run.values)])
    return FirstRun(
        axes=axes,
        rows=walked,
        signal=run.signal(walked),
        seed=None if is_whole else seed,
        error=run.error,
        earlier_looks=earlier,
        reads=reads,
    )


def random_rows(total: int, cuts: int, seed: int) -> tuple[int, ...]:
    """Draw half of ``cuts`` from all rows but the last, so that no code can avoid them; ascending."""
    rng, most = np.random.default_rng(seed), max(total - 1, 1)
    return tuple(sorted(rng.choice(most, min((cuts + 1) // 2, most), replace=False).tolist()))


def proves_all(panel: Frames, prove: SessionsProved) -> bool:
    """Whether all sessions of a panel are walked: by its size, which the code cannot change."""
    axes, fields = axes_of(panel), sum(map(len, panel.values()))
    steps = len(axes.sessions) ** 2 * len(axes.symbols) * fields
    return prove == "all" or (prove == "auto" and steps <= MOST_STEPS)


class _Run:
    """What a first run has computed so far."""

    def __init__(self, axes: Axes, limit: float) -> None:
        self._axes, self._limit, self._started = axes, limit, time.monotonic()
        self._columns = {symbol: column for column, symbol in enumerate(axes.symbols)}
        self._used: set[str] = set()
        self.values: list[tuple[tuple[str, ...], Floats]] = []
        self._has_opinion, self.error = False, ""

    def take(self, row: int, outcome: TrialOutcome) -> bool:
        """Keep the last row of an outcome; return False if the run ends with it."""
        signal, session = outcome.signal, self._axes.sessions[row]
        if signal is None or not len(signal.sessions) or signal.sessions[-1] != session:
            self.values.append(((), np.empty(0)))
        else:
            self.values.append((signal.symbols, np.array(signal.values[-1])))
            self._used.update(signal.symbols)
        self._has_opinion = self._has_opinion or bool(np.nan_to_num(self.values[-1][1]).any())
        if signal is None and self._has_opinion:
            self.error = f"on what is known on {pd.Timestamp(session):%Y-%m-%d}: {outcome.error}"
        elif time.monotonic() - self._started > self._limit:
            raise CodeTimeout(
                f"the code took more than {self._limit:g} s for its first {len(self.values)} sessions; make "
                "it faster, or let it take its time: --walk all, the setting audit.prove"
            )
        return not self.error

    def signal(self, rows: Sequence[int]) -> FrozenFrame:
        """The values in the ``rows`` that were walked, of the symbols that the code ever handed over."""
        symbols = sorted(
            self._used or self._columns, key=lambda each: (self._columns.get(each, np.inf), each)
        )
        column_of = {symbol: column for column, symbol in enumerate(symbols)}
        cells = np.full((len(self.values), len(symbols)), np.nan)
        for row, (names, values) in enumerate(self.values):
            cells[row, [column_of[name] for name in names]] = values
        return to_frame(self._axes.sessions[[*rows]], tuple(symbols), cells)


@dataclass(frozen=True)
class LookLog:
    """Counts by rows of data how often code has seen them, in a file of the cache folder.

    A row is a symbol's close in a session. Which code has seen it does not matter. Rows before ``start`` are
    counted, and do not make a look the second one: they lie before all that is decided in it.
    """

    folder: Path
    start: pd.Timestamp | None = None

    def add(self, panel: Frames, *, again: bool = True) -> int:
        """Count a look at a panel; return how many there were before at some row of its window, at least.

        0 if the file cannot be written: then nothing is known of earlier looks. Without ``again`` a row that
        was seen before is not counted once more.
        """
        close = close_of(panel)
        rows = _row_hashes(close)
        start = np.datetime64(self.start or pd.Timestamp.min, "us")
        inside = np.broadcast_to((close.sessions >= start)[:, None], rows.shape)[~np.isnan(close.values)]
        hashes = rows[~np.isnan(close.values)]
        step = 1 << max(0, int(hashes.size - 1).bit_length() - _MOST_ROWS.bit_length())
        kept = hashes & np.uint64(step - 1) == 0
        look = list(zip(hashes[kept].view(np.int64).tolist(), inside[kept].tolist(), strict=True))
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with closing(
                sqlite3.connect(self.folder / "looks.sqlite", timeout=30.0, isolation_level=None)
            ) as book:
                return _count(book, look, again=again)
        except (OSError, sqlite3.Error):
            return 0


def _count(book: sqlite3.Connection, look: list[tuple[int, bool]], *, again: bool) -> int:
    book.execute("PRAGMA synchronous = OFF")
    book.execute("BEGIN IMMEDIATE")
    book.execute("CREATE TABLE IF NOT EXISTS seen (row INTEGER PRIMARY KEY, looks INTEGER) WITHOUT ROWID")
    book.execute("CREATE TEMP TABLE look (row INTEGER PRIMARY KEY, inside INTEGER)")
    book.executemany("INSERT OR IGNORE INTO look VALUES (?, ?)", look)
    (earlier,) = book.execute("SELECT max(looks) FROM seen JOIN look USING (row) WHERE inside").fetchone()
    book.execute(
        "INSERT INTO seen SELECT row, 1 FROM look WHERE true "
        "ON CONFLICT (row) DO UPDATE SET looks = looks + ?",
        (int(again),),
    )
    book.execute("COMMIT")
    return int(earlier or 0)


def _row_hashes(close: FrozenFrame) -> NDArray[np.uint64]:
    """A hash (T, N) of symbol, session and close."""
    symbols = hash_array(np.array(close.symbols, dtype=object))
    days = hash_array(close.sessions.astype("datetime64[D]").astype(np.int64))
    values = hash_array(np.ascontiguousarray(close.values).ravel()).reshape(close.values.shape)
    return values ^ (days[:, None] + symbols)
