"""The result of running cells, and reading it from a reply that generated code may have forged."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd

from quantgraph._util.texts import escape_controls
from quantgraph.errors import (
    BadFrame,
    CodeFailed,
    CodeMemoryExceeded,
    CodeRefused,
    CodeTimeout,
    CodeUnavailable,
)
from quantgraph.sandbox._lockdown import IsolationLevel
from quantgraph.sandbox.wire._wire import Frames, Read, read_frames, read_header, require_type
from quantgraph.state import Fields
from quantgraph.state.frames import MADE, FrozenFrame, Made, check_axes, freeze, is_plain

Isolation = Literal["full", "limits_only", "none", "trusted"]

DIED = "died"
"""Error code in a reply that the fork server writes for a child that has ended."""
UNAVAILABLE = "unavailable"
"""The same for a child that it cannot fork."""
STARTED = {"started": True}
"""What a child sends before it reads a request."""
_REPLY_LIMIT = 1 << 30
_HEADER_LIMIT = 2 << 20  # without the output, whose characters take up to 12 bytes each
_TEXT_LIMIT = 4_000
_DROPPED_NOTE = 100
_LINES_LIMIT = 1 << 31
_STATUSES = range(-64, 256)

# Enough for a signal of the longest history of all shares of a country; it is read within a second.
_MOST_SIGNALS = 32
_MOST_LABELS = 30_000
_MOST_CELLS = 50_000_000


@dataclass(frozen=True, kw_only=True)
class CodeResult:
    """The result of running cells.

    Attributes
    ----------
    stdout
        What the last cell printed, cut at the output limit.
    value
        ``repr`` of the last cell's last expression, empty if it was a statement or None.
    signals
        The frames passed to ``GLOBAL_DATA_STATE.update("signal", …)``: values 1, 0, -1, NaN.
    weights, scores
        Those passed to ``update("weights", …)`` and ``update("score", …)``.
    error
        What the code raised, or None.
    seconds
        How long it took.
    isolation
        Isolation of the code: ``full``; ``limits_only``, in which it can reach files, the network and other
        processes; ``none``; ``trusted``, in this process.
    """

    stdout: str = ""
    value: str = ""
    signals: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    weights: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    scores: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    error: CodeFailed | None = None
    seconds: float = 0.0
    isolation: Isolation = "none"

    @property
    def made(self) -> dict[str, tuple[Made, Mapping[str, pd.DataFrame]]]:
        """By name the panel of each frame that was handed over, and the frames of that panel."""
        panels: dict[Made, Mapping[str, pd.DataFrame]] = {
            "signal": self.signals,
            "weights": self.weights,
            "score": self.scores,
        }
        return {name: (panel, frames) for panel, frames in panels.items() for name in frames}


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What generated code may use: seconds, megabytes of memory, characters of output."""

    timeout: float
    memory_mb: int
    output_limit: int


@dataclass(kw_only=True)
class Call:
    """A request to a code process: makes results of its replies and errors.

    Attributes
    ----------
    isolation
        Isolation of the process.
    memory
        Bytes that the process may use beyond its start; default: the limits'.
    is_last
        Whether the other end has hung up and nothing is left to read. What the fork server says of a child
        is its last word: code can write the same, and cannot hang up.
    started
        When the child was asked for or, of a child that stays, the request was sent, in seconds of
        ``time.perf_counter``.
    """

    limits: Limits
    isolation: Isolation = "none"
    memory: int | None = None
    is_last: Callable[[], bool] = lambda: False
    started: float = field(default_factory=time.perf_counter)

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return time.perf_counter() - self.started

    def failed(self, error: CodeFailed) -> CodeResult:
        """Return the result of a call that failed."""
        return CodeResult(error=error, seconds=self.seconds, isolation=self.isolation)

    def read_result(self, read: Read, frames: Frames) -> CodeResult:
        """Read a reply and check every part of it: the code could write to the same pipe.

        Parameters
        ----------
        frames
            The frames that the code received; its signals must have sessions and symbols of them.

        Raises
        ------
        EOFError, OSError
            If the reply is missing or incomplete.
        CodeUnavailable
            If the machine ended the process.
        """
        limit = self.limits.output_limit
        try:
            header, size = read_header(read, limit=_REPLY_LIMIT, header_limit=_HEADER_LIMIT + 12 * limit)
            made = _read_signals(header, size, read, frames)
            return CodeResult(
                stdout=_checked_text(header["stdout"], limit + _DROPPED_NOTE),
                value=_checked_text(header["value"], _TEXT_LIMIT),
                signals=made["signal"],
                weights=made["weights"],
                scores=made["score"],
                error=self._read_error(header["error"]),
                seconds=self.seconds,
                isolation=self.isolation,
            )
        except (EOFError, OSError):
            raise
        except CodeFailed as error:
            return self.failed(error)
        except Exception as error:  # noqa: BLE001 - forged bytes may make a library raise anything
            return self.failed(self.unreadable(error))

    def unreadable(self, error: Exception) -> CodeFailed:
        """Return the error for a malformed reply; past the deadline the process was killed while it wrote."""
        if self.seconds >= self.limits.timeout:
            return self.end_error()
        reason = f"{type(error).__name__}: {error}"
        return CodeFailed("the code's process sent an unreadable reply", reason=reason[:_TEXT_LIMIT])

    def end_error(self, status: int | None = None, *, late: bool = False) -> CodeFailed:
        """Return the error for a process that ended without a whole reply.

        Parameters
        ----------
        status
            Its exit status, or minus the number of the signal that killed it; None if that is not known.
        late
            Whether it was killed at its deadline.
        """
        timeout = self.limits.timeout
        if late or self.seconds >= timeout or (status is not None and -status == _CPU_LIMIT):
            return CodeTimeout(
                f"the code ran for more than {timeout:g} s and was stopped; is there an endless loop?"
            )
        if status is None:
            return CodeFailed("the code's process died without a reply")
        if status >= 0:
            return CodeFailed(f"the code's process died: it exited with status {status}", status=status)
        name = _SIGNALS.get(-status, f"signal {-status}")
        cause = "it was killed, perhaps for lack of memory" if name == "SIGKILL" else "a crash in a library"
        return CodeFailed(f"the code's process died of {name} ({cause})", signal=name)

    def _read_error(self, error: Any) -> CodeFailed | None:
        if error is None:
            return None
        if error["code"] == DIED and self.is_last():
            return self._read_death(error)
        return code_error(error, self.isolation, memory_mb=self.limits.memory_mb)

    def _read_death(self, error: Any) -> CodeFailed:
        status, late = require_type(error["status"], int), require_type(error["late"], bool)
        used = require_type(error["kilobytes"], int) << 10
        if status not in _STATUSES:
            raise ValueError(f"{status} is not an exit status")
        room = self.limits.memory_mb << 20 if self.memory is None else self.memory
        if -status == _SIGKILL and not late and used < room:
            # No limit of the code is met, and the host is still waiting.
            raise CodeUnavailable(
                f"the machine ended the code's process at {used >> 20} MB, of which it may use {room >> 20}: "
                "free memory, or run less at once",
                killed=True,
            )
        return self.end_error(status, late=late)


_SIGNALS = {number.value: number.name for number in signal.Signals}
_CPU_LIMIT = next((number for number, name in _SIGNALS.items() if name == "SIGXCPU"), 0)
_SIGKILL = next((number for number, name in _SIGNALS.items() if name == "SIGKILL"), 0)


def _read_signals(header: dict[str, Any], size: int, read: Read, frames: Frames) -> dict[str, Fields]:
    count = len(require_type(header["frames"], list))
    if count > _MOST_SIGNALS:
        raise CodeFailed(f"the code returned {count} signals; at most {_MOST_SIGNALS} are allowed")
    for axis in require_type(header["axes"], list):
        sessions = len(require_type(axis["sessions"], list))
        symbols = len(require_type(axis["symbols"], list))
        if sessions + symbols > _MOST_LABELS or sessions * symbols > _MOST_CELLS:
            raise CodeFailed(
                f"the code returned a signal of {sessions} sessions and {symbols} symbols; "
                f"at most {_MOST_LABELS} of both, and {_MOST_CELLS} cells, are allowed"
            )
    made: dict[str, dict[str, FrozenFrame]] = {panel: {} for panel in MADE}
    checked: set[tuple[str, ...]] = set()
    close = frames.get("ohlcv", {}).get("close")
    for entry, (panel, name, frame) in zip(header["frames"], read_frames(header, size, read), strict=True):
        if panel == "signal" and entry.get("opinions") is True and _is_on(close, frame) and is_plain(name):
            made[panel][name] = frame  # its cells were read by a table, its axes are the input's
        elif panel in MADE:
            frozen = freeze(
                panel, name, frame.frame, symbols=frame.symbols if frame.symbols in checked else None
            )
            checked.add(frame.symbols)
            check_signal_axes(name, frozen, frames, panel)
            made[panel][name] = frozen
    return {panel: Fields(panel, found) for panel, found in made.items()}


def _is_on(close: FrozenFrame | None, signal: FrozenFrame) -> bool:
    """Whether a signal has the symbols of the closes, and their sessions or the last ones of them."""
    return (
        close is not None
        and signal.symbols == close.symbols
        and signal.values.size > 0
        and np.array_equal(signal.sessions, close.sessions[-len(signal.sessions) :])
    )


def check_signal_axes(name: str, signal: FrozenFrame, frames: Frames, panel: str = "signal") -> None:
    """Check that a signal's sessions and symbols are in the frames that the code received.

    The code's own data state checks it too, unless the code put other data there, or forged the reply.

    Raises
    ------
    CodeFailed
        If they are not; names the first offending cell.
    """
    try:
        check_axes(name, signal, frames.get("ohlcv", {}), panel)
    except BadFrame as error:
        raise CodeFailed(
            f"the code returned a signal of other data: {error.message}", **error.data
        ) from error


def is_at_least(level: IsolationLevel, least: IsolationLevel) -> bool:
    """Return whether an isolation level is ``least`` or stronger."""
    return _LEVELS.index(level) <= _LEVELS.index(least)


_LEVELS: tuple[IsolationLevel, ...] = get_args(IsolationLevel)  # strongest first


def read_handshake(read: Read) -> tuple[object, object]:
    """Read the isolation level, and why it is not full, that a process reports before it runs code."""
    try:
        header, _ = read_header(read, limit=_TEXT_LIMIT)
        return header["level"], header["reason"]
    except OSError:
        raise
    except Exception as error:
        raise EOFError from error


def code_error(error: Any, isolation: Isolation, *, memory_mb: int | None = None) -> CodeFailed:
    """Make the exception of an error that a code process reports, with the line of the cell.

    A denied access is CodeRefused where code is sealed; elsewhere it is an ordinary PermissionError.

    Raises
    ------
    ValueError, TypeError, LookupError
        If the report is malformed.
    """
    kind, line, text = _one_line(error["type"]), error["line"], _one_line(error["text"])
    if line is not None and require_type(line, int) not in range(_LINES_LIMIT):
        raise ValueError(f"line {line} is not in any cell")
    place = f"line {line} ({text}): " if line else ""
    if error["code"] == CodeMemoryExceeded.code:
        amount = f"more than {memory_mb} MB of memory" if memory_mb else "more memory than there is"
        return CodeMemoryExceeded(f"{place}{amount} was requested", type=kind, cell_line=line)
    words = _one_line(error["message"])
    message = f"{place}{kind}: {words}"
    if error["code"] == CodeRefused.code and isolation == "full":
        message += "; generated code has no files, no network and no other processes"
        return CodeRefused(message, type=kind, cell_line=line)
    if zone := _PYARROW_ZONE.search(words):
        message += f"; pyarrow has no time zones here: write .astype('datetime64[us, {zone[1]}]') before"
    return CodeFailed(message, type=kind, cell_line=line)


_PYARROW_ZONE = re.compile(r"Cannot locate (?:or parse )?timezone '([^']+)'")  # "Cannot locate timezone 'GB'"
"""Of the dtype ``timestamp[us, tz=Asia/Tokyo][pyarrow]``, whose zones are files."""


def _one_line(text: object) -> str:
    return escape_controls(" ".join(_checked_text(text, _TEXT_LIMIT).split()))


def _checked_text(text: object, limit: int) -> str:
    if not isinstance(text, str):
        raise TypeError(f"must be str, not {type(text).__name__}")
    return text[:limit].encode("utf-8", "replace").decode()
