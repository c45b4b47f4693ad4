"""Trials: a strategy run on parts of its panel, each time as if for the first time."""

from __future__ import annotations

import contextlib
import inspect
import multiprocessing
import random
import textwrap
import time
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from multiprocessing.connection import Connection
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np
import pandas as pd

from quantgraph.errors import BadFrame, CodeFailed, CodeMemoryExceeded, CodeTimeout, QuantGraphError
from quantgraph.market import Moment
from quantgraph.sandbox import CodeResult, CodeRunner, open_prefix_run
from quantgraph.sandbox.wire import Frames
from quantgraph.state import DataState, Fields, Snapshot, View
from quantgraph.state.frames import (
    MADE,
    SIZED_ENTRIES,
    Dates,
    FieldKey,
    Floats,
    FrozenFrame,
    Made,
    align_frame,
    check_axes,
    freeze,
    known_rows,
    made_of,
)

T = TypeVar("T")


Reads = frozenset[FieldKey] | None
"""Panels and names of fields; None is all."""

FLAT = ""
"""Name of the only panel when its fields were passed without a panel's name; it is read as ``ohlcv``."""


@dataclass(frozen=True, kw_only=True)
class Axes:
    """Sessions (T,) ``datetime64[us]`` and symbols (N,) of a panel's closes."""

    sessions: Dates
    symbols: tuple[str, ...]

    def match(self, frame: FrozenFrame) -> bool:
        """Whether a frame has exactly these axes."""
        return frame.symbols == self.symbols and np.array_equal(frame.sessions, self.sessions)


def read_panels(panels: object) -> Frames:
    """Read a view, frames by panel and field, or frames by field."""
    if isinstance(panels, View):
        panels = panels.frozen()
    if not isinstance(panels, Mapping):
        raise BadFrame(
            "panels must be a view, frames by field, or frames by panel and field, "
            f"not {type(panels).__name__}"
        )
    flat = any(isinstance(value, pd.DataFrame | FrozenFrame) for value in panels.values())
    named = {FLAT: panels} if flat else panels
    frames = {
        panel: {name: _frozen(panel, name, frame) for name, frame in fields.items()}
        for panel, fields in named.items()
        if len(fields)
    }
    if not frames:
        raise BadFrame("panels holds no frame; it must hold at least the closes")
    return frames


def _frozen(panel: str, name: str, frame: object) -> FrozenFrame:
    return frame if isinstance(frame, FrozenFrame) else freeze(panel or "panel", name, frame)


def only_fields(panel: Frames, reads: Reads) -> Frames:
    """The fields of a panel that are named, and the closes, whose axes a signal must have; all for None."""
    if reads is None:
        return panel
    close = close_of(panel)
    found = {
        key: {
            name: frame
            for name, frame in fields.items()
            if (panel_name(key), name) in reads or frame is close
        }
        for key, fields in panel.items()
    }
    return {key: fields for key, fields in found.items() if fields}


def panel_name(panel: str) -> str:
    """Name of a panel as :func:`.known_rows` reads it."""
    return panel or "ohlcv"


def close_of(panel: Frames) -> FrozenFrame:
    """The closes, or the largest frame where there are none."""
    prices = panel.get(FLAT, panel.get("ohlcv", {}))
    if "close" in prices:
        return prices["close"]
    return max((frame for fields in panel.values() for frame in fields.values()), key=lambda f: f.values.size)


def axes_of(panel: Frames) -> Axes:
    """The axes of :func:`close_of`."""
    close = close_of(panel)
    return Axes(sessions=close.sessions, symbols=close.symbols)


def rows_known(panel: str, name: str, frame: FrozenFrame, moment: Moment) -> int:
    """How many rows of a frame are known at a moment."""
    return known_rows(panel_name(panel), name, frame.sessions, moment)


def map_frames(panel: Frames, change: Callable[[str, str, FrozenFrame], FrozenFrame]) -> Frames:
    """The panel with ``change(panel, name, frame)`` in place of every frame."""
    return {
        key: {name: change(key, name, frame) for name, frame in fields.items()}
        for key, fields in panel.items()
    }


def prefix(panel: Frames, moment: Moment) -> Frames:
    """The panel as known at a moment, in memory of its own.

    All frames keep the row of the moment's session, so that they stay aligned; it is NaN in a field that is
    not known yet. A sparse frame without a row so far is dropped.
    """

    def cut(key: str, name: str, frame: FrozenFrame) -> FrozenFrame:
        return align_frame(panel_name(key), name, frame, moment)

    return _without_empty(map_frames(panel, cut))


def since(panel: Frames, session: np.datetime64) -> Frames:
    """The panel from a session on."""

    def cut(_key: str, _name: str, frame: FrozenFrame) -> FrozenFrame:
        first = int(np.searchsorted(frame.sessions, session))
        return FrozenFrame(frame.sessions[first:], frame.symbols, frame.values[first:])

    return _without_empty(map_frames(panel, cut))


def to_frame(sessions: Dates, symbols: tuple[str, ...], values: Floats) -> FrozenFrame:
    """A frame of arrays with no other writer."""
    sessions, values = np.ascontiguousarray(sessions), np.ascontiguousarray(values)
    sessions.flags.writeable = values.flags.writeable = False
    return FrozenFrame(sessions, symbols, values)


def _without_empty(panel: Frames) -> Frames:
    return {
        key: {name: frame for name, frame in fields.items() if frame.values.size}
        for key, fields in panel.items()
    }


Strategy = Callable[[Any], Any]


@dataclass(frozen=True, kw_only=True)
class TrialOutcome:
    """The signal of one run, or its error in one line; and how long a run on a whole panel took.

    ``panel`` is where it belongs, of :data:`.MADE`: it may be weights, or a score. ``name`` is of entries.
    """

    signal: FrozenFrame | None = None
    error: str = ""
    panel: Made = field(default="signal", compare=False)
    name: str = field(default="", compare=False)
    seconds: float = field(default=0.0, compare=False)


RunPanel = Callable[[Frames], TrialOutcome]
RunPanels = Callable[[Iterable[Callable[[], Frames]]], Iterator[TrialOutcome]]
"""Runs a strategy on panels that are made when their turn has come; outcomes are in the panels' order."""


@runtime_checkable
class Trials(Protocol):
    """A strategy that can be run on any part of a panel.

    A run has ended, and its process has been reaped, when the next one begins: two processes that are alive
    at the same time might find a way to talk, and one may know sessions that the other must not.
    """

    @property
    def isolated(self) -> bool:
        """Whether all runs so far were in processes that held their own panel and nothing else."""

    def prefixes(
        self, panel: Frames, moments: Sequence[Moment], *, last_row: bool = False
    ) -> Generator[TrialOutcome]:
        """Run it on the panel as known at ascending moments, in one process that never receives more.

        The process ends with the generator. With ``last_row`` a signal may have its last row alone.
        """

    def whole(self, panel: Frames) -> TrialOutcome:
        """Run it on all of a panel, in a process of its own."""


def one_by_one(trials: Trials) -> RunPanels:
    """Return a function that runs a strategy on panels, each in a process of its own, one after the other."""
    return lambda panels: (trials.whole(make()) for make in panels)


_Needs = Callable[[Callable[["CodeTrials"], int | None]], int | None] | None


class CodeTrials:
    """A strategy of cells, run in a sandbox.

    Parameters
    ----------
    runner
        Where the cells run.
    cells
        Source of the strategy, as its author ran it.
    name
        The signal to check; None is the last one handed over.
    need_of_parts
        Gives the sessions that a row needs from those that it measures of other trials.
    """

    def __init__(
        self, runner: CodeRunner, cells: Sequence[str], name: str | None = None, need_of_parts: _Needs = None
    ) -> None:
        self.cells = tuple(cells)
        self.isolated = True
        self._runner = runner
        self.name, self.need_of_parts = name, need_of_parts
        self._names: list[str] = []

    def prefixes(
        self, panel: Frames, moments: Sequence[Moment], *, last_row: bool = False
    ) -> Generator[TrialOutcome]:
        """See :class:`Trials`. A timeout or too much memory is raised: no signal is known then."""
        if all(moment.phase == "post_close" for moment in moments):
            with open_prefix_run(self._runner, self.cells, _by_name(panel), last_row=last_row) as run:
                for result in run.through(moments):
                    yield self._outcome(result, panel)
        else:  # frames would end in different rows, which no strategy receives
            for moment in moments:
                yield self.whole(prefix(panel, moment))

    def whole(self, panel: Frames) -> TrialOutcome:
        """See :class:`Trials`."""
        result = self._runner.run(self.cells, _by_name(panel))
        return replace(self._outcome(result, panel), seconds=result.seconds)

    def _outcome(self, result: CodeResult, panel: Frames) -> TrialOutcome:
        self.isolated = self.isolated and result.isolation == "full"
        if isinstance(result.error, CodeTimeout | CodeMemoryExceeded):
            raise result.error
        if result.error is not None:
            return TrialOutcome(error=result.error.message)
        made = result.made
        names = [*made]
        self._names = self._names or names
        if [each for each in self._names if each in names] != [each for each in names if each in self._names]:
            # The last signal trades: code that sorts them by results would choose it.
            return TrialOutcome(error=f"the signals are handed over in another order: {', '.join(names)}")
        name = self.name or next(reversed(names), "")
        if name not in made:
            return TrialOutcome(error=f"no signal {name} was handed over".replace("  ", " "))
        kind, frames = made[name]
        return _placed_outcome(name, _stored(frames, name), panel, kind)


def _stored(signals: Mapping[str, pd.DataFrame], name: str) -> FrozenFrame:
    if isinstance(signals, Fields):
        return signals.frozen(name)
    frame = signals[name]
    sessions = frame.index.to_numpy().astype("datetime64[us]")
    return FrozenFrame(sessions, tuple(frame.columns), frame.to_numpy())


class BuiltTrials:
    """A signal that is computed in this process from parts that each look back only.

    Parameters
    ----------
    compute
        Snapshot -> signal.
    sealed
        The trials of the same signal as code, which has to agree.
    checked
        How many sessions, from the first on, the code is run on.
    needs
        Sessions from which on it is known, a recursion too: it has settled on more.
    """

    isolated = True

    def __init__(
        self, compute: Callable[[Snapshot], Any], sealed: CodeTrials, *, checked: int, needs: int
    ) -> None:
        self.cells, self.name, self.needs = sealed.cells, sealed.name, needs
        self._compute, self._sealed, self._checked = compute, sealed, checked

    def prefixes(self, panel: Frames, moments: Sequence[Moment], **_: bool) -> Generator[TrialOutcome]:
        """See :class:`Trials`."""
        return (self.whole(prefix(panel, moment)) for moment in moments)

    def whole(self, panel: Frames) -> TrialOutcome:
        """See :class:`Trials`. It runs in this process."""
        started = time.perf_counter()
        try:
            return TrialOutcome(signal=self._signal(panel), seconds=time.perf_counter() - started)
        except QuantGraphError as error:
            return TrialOutcome(error=error.message)

    def beginning(self, panel: Frames) -> Frames:
        """Return the first sessions of a panel, on which the code is run."""
        sessions = axes_of(panel).sessions
        return prefix(panel, Moment(pd.Timestamp(sessions[min(self._checked, len(sessions)) - 1])))

    def checked(self, panel: Frames) -> FrozenFrame:
        """Return the signal on all of a panel; ``CodeFailed`` if its code gives another one."""
        signal, sealed = self._signal(panel), self._sealed.whole(self.beginning(panel))
        if sealed.signal is None:
            raise CodeFailed(sealed.error)
        theirs = sealed.signal.frame
        if not theirs.equals(signal.frame.loc[theirs.index]):
            raise CodeFailed(f"the code of {self.name} gives another signal than its rule")
        return signal

    def _signal(self, panel: Frames) -> FrozenFrame:
        store = DataState()
        store.adopt(_by_name(panel))
        return freeze("signal", self.name or "signal", self._compute(store.snapshot()))


def _placed_outcome(name: str, signal: FrozenFrame, panel: Frames, made: Made = "signal") -> TrialOutcome:
    """The outcome of a signal: an error unless it is on the sessions and symbols of the panel."""
    try:
        check_axes(name, signal, _by_name(panel).get("ohlcv", {}), made)
    except BadFrame as error:
        return TrialOutcome(error=error.message)
    return TrialOutcome(signal=signal, panel=made)


def _by_name(panel: Frames) -> Frames:
    return {panel_name(key): fields for key, fields in panel.items()}


class FunctionTrials:
    """A strategy that is a function ``panel -> signal``, run in forked processes.

    The function receives the panel in the form passed to the audit: a dict of frames, or of dicts of frames.
    It must not read other data. The signal is a frame of sessions x symbols of numbers or booleans; an array
    of the shape of the closes, or a series if there is one symbol, is valid too. ``{"weights": frame}``,
    ``{"score": frame}``, and ``{"entries": frame, "exits": frame}``, with or without a ``size``, say what it
    is.
    On systems without fork the function runs in this process. Either way it can reach the whole panel: it is
    never ``isolated``.
    """

    isolated = False

    def __init__(self, function: Strategy) -> None:
        self._function = function

    @property
    def cells(self) -> tuple[str, ...]:
        """Source of the function, empty if Python does not have it."""
        with contextlib.suppress(OSError, TypeError):
            return (textwrap.dedent(inspect.getsource(self._function)),)
        return ()

    def prefixes(self, panel: Frames, moments: Sequence[Moment], **_: bool) -> Generator[TrialOutcome]:
        """See :class:`Trials`."""
        return self.in_turn([partial(prefix, panel, moment) for moment in moments])

    def whole(self, panel: Frames) -> TrialOutcome:
        """See :class:`Trials`."""
        started = time.perf_counter()
        with contextlib.closing(self.in_turn([lambda: panel])) as outcomes:
            outcome = next(outcomes)
        return replace(outcome, seconds=time.perf_counter() - started)

    def in_turn(self, panels: Sequence[Callable[[], Frames]]) -> Generator[TrialOutcome]:
        """Run it on one panel after the other in one process; a panel is made when its turn has come."""
        if "fork" not in multiprocessing.get_all_start_methods():
            yield from (_run(self._function, panel()) for panel in panels)
            return
        context = multiprocessing.get_context("fork")
        ours, theirs = context.Pipe(duplex=False)
        process = context.Process(target=_serve, args=(theirs, self._function, panels), daemon=True)
        with warnings.catch_warnings():
            # Python 3.12 warns of threads that a fork leaves behind; the child needs none.
            warnings.simplefilter("ignore", DeprecationWarning)
            process.start()
        theirs.close()
        try:
            for done in range(len(panels)):
                try:
                    reply = ours.recv()
                except EOFError:
                    process.kill()
                    process.join()
                    yield TrialOutcome(error="the function ended its process")
                    yield from self.in_turn(panels[done + 1 :])
                    return
                yield (
                    TrialOutcome(error=reply)
                    if isinstance(reply, str)
                    else TrialOutcome(panel=reply[0], name=reply[1], signal=to_frame(*reply[2:]))
                )
        finally:
            process.kill()
            process.join()
            ours.close()


def _serve(pipe: Connection, function: Strategy, panels: Sequence[Callable[[], Frames]]) -> None:
    # Every process has its own randomness, so that an unseeded strategy shows.
    random.seed()
    np.random.seed()  # noqa: NPY002 - the global generator is the one that strategies use
    for panel in panels:
        outcome = _run(function, panel())
        signal = outcome.signal
        made = signal and (outcome.panel, outcome.name, signal.sessions, signal.symbols, signal.values)
        pipe.send(made or outcome.error)


def _run(function: Strategy, panel: Frames) -> TrialOutcome:
    frames = {key: {name: frame.frame for name, frame in fields.items()} for key, fields in panel.items()}
    try:
        made, name, result = _made(function(frames.get(FLAT, frames)))
        return replace(_placed_outcome(made, _signal(result, panel, made, name), panel, made), name=name)
    except BadFrame as error:
        return TrialOutcome(error=error.message)
    except Exception as error:  # noqa: BLE001 - whatever it raises is its result
        return TrialOutcome(error=" ".join(f"{type(error).__name__}: {error}".split())[:1_000])


def _made(result: object) -> tuple[Made, str, object]:
    """The panel, the name and the frame of what a function returned."""
    if not isinstance(result, Mapping):
        return "signal", "", result
    found: Mapping[str, Any] = result
    is_signal = not {"entries", "held"}.isdisjoint(found)
    panel, frames = made_of("signal", found) if is_signal else (next(iter(found), ""), found)
    if len(frames) != 1 or (panel not in MADE):
        raise BadFrame(
            f"the function returned a mapping of {', '.join(map(str, found)) or 'nothing'}; it must be of "
            "signal, held, weights or score, or of entries and exits, with or without size"
        )
    name, frame = next(iter(frames.items()))
    return panel, name if name == SIZED_ENTRIES else "", frame


def _signal(result: object, panel: Frames, made: str, name: str = "") -> FrozenFrame:
    axes = axes_of(panel)
    if isinstance(result, pd.Series) and len(axes.symbols) == 1:
        result = result.to_frame(axes.symbols[0])
    if isinstance(result, np.ndarray):
        shape = (len(axes.sessions), len(axes.symbols))
        if result.shape != shape:
            raise BadFrame(f"the signal is an array of shape {result.shape}; it must be {shape}")
        return to_frame(axes.sessions, axes.symbols, result.astype(np.float64))
    if not isinstance(result, pd.DataFrame):
        raise BadFrame(f"the signal must be a frame of sessions x symbols, not a {type(result).__name__}")
    index = result.index
    if not isinstance(index, pd.DatetimeIndex) or not index.is_unique or not index.is_monotonic_increasing:
        raise BadFrame("the signal's index must be ascending, unique sessions")
    if made != "signal":
        return freeze(made, name or made, result)
    try:
        values = result.to_numpy(dtype=np.float64, na_value=np.nan, copy=True)
    except (TypeError, ValueError):
        raise BadFrame("the signal has cells that are not numbers") from None
    return to_frame(index.to_numpy().astype("datetime64[us]"), tuple(map(str, result.columns)), values)
