"""What a run of cells gave, and reading it from a reply that generated code may have forged."""

from __future__ import annotations

import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import pandas as pd

from quantgraph._util.texts import escape_controls
from quantgraph.errors import BadFrame, CodeFailed, CodeMemoryExceeded, CodeRefused, CodeTimeout
from quantgraph.sandbox.hints import hint
from quantgraph.sandbox.lockdown import IsolationLevel
from quantgraph.sandbox.wire import Frames, Read, read_frames, read_header, require_type
from quantgraph.state.frames import FrozenFrame, check_axes, freeze

__all__ = [
    "DIED",
    "REPLY_LIMIT",
    "CodeResult",
    "Isolation",
    "Limits",
    "check_signal_axes",
    "code_error",
    "exit_error",
    "is_at_least",
    "read_handshake",
    "read_json_reply",
    "read_result",
    "unreadable_reply",
]

Isolation = Literal["full", "limits_only", "none", "trusted", "remote"]

DIED = "died"
"""The code in the error of a reply that the warm process writes for a child that has ended."""
REPLY_LIMIT = 1 << 30
_HEADER_LIMIT = 2 << 20  # without what was printed, a character of which takes up to 12 bytes
_ANSWER_LIMIT = 8 << 20
_TEXT_LIMIT = 4_000
_DROPPED_NOTE = 100
_KILOBYTES_LIMIT = 1 << 40
_LINES_LIMIT = 1 << 31
_STATUSES = range(-64, 256)

# A signal of the longest history of all shares of a country is within them, and reading it takes a second.
_MOST_SIGNALS = 32
_MOST_NAMES = 30_000
_MOST_CELLS = 50_000_000


@dataclass(frozen=True, kw_only=True)
class CodeResult:
    """What a run of cells gave.

    Attributes
    ----------
    stdout
        What the last cell printed, cut at the output limit.
    value
        ``repr`` of the last cell's last expression, empty if it was a statement or None.
    signals
        The frames handed to ``GLOBAL_DATA_STATE.update("signal", …)``: values 1, 0, -1, NaN.
    error
        What the code raised, or None.
    seconds
        How long it took.
    isolation
        How well the code was locked in: ``full``; ``limits_only``, then files, the network and other
        processes were within its reach; ``none``; ``trusted``, in this process; ``remote``, elsewhere.
    memory_mb
        The most memory that the process held beyond what it began with, the frames it read included;
        as told by the process itself, 0.0 where it is not known.
    """

    stdout: str = ""
    value: str = ""
    signals: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    error: CodeFailed | None = None
    seconds: float = 0.0
    isolation: Isolation = "none"
    memory_mb: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What generated code may use: seconds, megabytes of memory, characters of output."""

    timeout: float
    memory_mb: int
    output_limit: int


def read_result(
    read: Read, limits: Limits, started: float, isolation: Isolation, *, frames: Frames
) -> CodeResult:
    """Read a reply with ``read(n)``, and check its every part: the code could write to the same pipe.

    Parameters
    ----------
    frames
        What the code was given; its signals must stand on their sessions and symbols.

    Raises
    ------
    EOFError, OSError
        If there is none, or not all of it.
    """
    try:
        header_limit = _HEADER_LIMIT + 12 * limits.output_limit
        header, size = read_header(read, limit=REPLY_LIMIT, header_limit=header_limit)
        signals = _signals(header, size, read, frames)
        return CodeResult(
            stdout=_text(header["stdout"], limits.output_limit + _DROPPED_NOTE),
            value=_text(header["value"], _TEXT_LIMIT),
            signals=signals,
            error=_error(header["error"], limits, time.perf_counter() - started, isolation),
            seconds=time.perf_counter() - started,
            isolation=isolation,
            memory_mb=min(max(require_type(header["kilobytes"], int), 0), _KILOBYTES_LIMIT) / 1024,
        )
    except (EOFError, OSError):
        raise
    except CodeFailed as error:
        return CodeResult(error=error, seconds=time.perf_counter() - started, isolation=isolation)
    except Exception as error:  # noqa: BLE001 - an enemy's bytes may make a library raise anything
        return unreadable_reply(error, limits, started, isolation)


def _signals(header: dict[str, Any], size: int, read: Read, frames: Frames) -> dict[str, pd.DataFrame]:
    count = len(require_type(header["frames"], list))
    if count > _MOST_SIGNALS:
        raise CodeFailed(f"the code handed over {count} signals; at most {_MOST_SIGNALS} are taken")
    for axis in require_type(header["axes"], list):
        sessions, symbols = (
            len(require_type(axis["sessions"], list)),
            len(require_type(axis["symbols"], list)),
        )
        if sessions + symbols > _MOST_NAMES or sessions * symbols > _MOST_CELLS:
            raise CodeFailed(
                f"the code handed over a signal of {sessions} sessions and {symbols} symbols; "
                f"at most {_MOST_NAMES} of both, and {_MOST_CELLS} cells, are taken"
            )
    signals: dict[str, pd.DataFrame] = {}
    checked: set[tuple[str, ...]] = set()
    for panel, name, told in read_frames(header, size, read):
        if panel == "signal":
            known = told.symbols if told.symbols in checked else None
            frozen = freeze(panel, name, told.frame, symbols=known)
            checked.add(told.symbols)
            check_signal_axes(name, frozen, frames)
            signals[name] = frozen.frame
    return signals


def check_signal_axes(name: str, signal: FrozenFrame, frames: Frames) -> None:
    """Refuse a signal that does not stand on the sessions and symbols of the frames which the code was given.

    The code's own store has refused it already, unless the code put other data there, or wrote the reply.

    Raises
    ------
    CodeFailed
        Names the first offending cell.
    """
    try:
        check_axes(name, signal, frames.get("ohlcv", {}))
    except BadFrame as error:
        raise CodeFailed(
            f"the code handed over a signal of other data: {error.message}", **error.data
        ) from error


def read_json_reply(
    read: Read, limits: Limits, started: float, isolation: Isolation
) -> tuple[dict[str, Any], CodeFailed | None]:
    """Read an answer without frames: the whole of it, to be checked, and the error that it tells of.

    Of the answer only ``stdout`` is checked, which is text.

    Raises
    ------
    EOFError, OSError
        If there is none, or not all of it.
    """
    try:
        header, size = read_header(read, limit=_ANSWER_LIMIT)
        if size:
            raise ValueError(f"{size} bytes behind an answer")
        header["stdout"] = _text(header["stdout"], limits.output_limit + _DROPPED_NOTE)
        return header, _error(header["error"], limits, time.perf_counter() - started, isolation)
    except (EOFError, OSError):
        raise
    except Exception as error:  # noqa: BLE001 - as above
        return {}, unreadable_reply(error, limits, started, isolation).error


def is_at_least(level: IsolationLevel, least: IsolationLevel) -> bool:
    """Whether a level is the least that is accepted, or better."""
    return _LEVELS.index(level) <= _LEVELS.index(least)


_LEVELS: tuple[IsolationLevel, ...] = get_args(IsolationLevel)  # strongest first


def read_handshake(read: Read) -> tuple[object, object]:
    """What a process that serves one call says before it runs code: its level, and why it is not full.

    Raises
    ------
    EOFError, OSError
        If it says nothing of the kind.
    """
    try:
        header, _ = read_header(read, limit=_TEXT_LIMIT)
        return header["level"], header["reason"]
    except OSError:
        raise
    except Exception as error:
        raise EOFError from error


def unreadable_reply(error: Exception, limits: Limits, started: float, isolation: Isolation) -> CodeResult:
    """The result when a reply is none; past the deadline it is one that was ended while it wrote."""
    seconds = time.perf_counter() - started
    reason = f"{type(error).__name__}: {error}"
    failed = CodeFailed("the code's process sent an unreadable reply", reason=reason[:_TEXT_LIMIT])
    if seconds >= limits.timeout:
        failed = exit_error(None, limits, seconds)
    return CodeResult(error=failed, seconds=seconds, isolation=isolation)


def exit_error(status: int | None, limits: Limits, seconds: float, *, late: bool = False) -> CodeFailed:
    """Why a process ended without a reply.

    Parameters
    ----------
    status
        Its exit status, or minus the number of the signal that ended it; None if that is not known.
    late
        Whether it was ended at its deadline.
    """
    if late or seconds >= limits.timeout or (status is not None and -status == _CPU_LIMIT):
        return CodeTimeout(
            f"the code ran for more than {limits.timeout:g} s and was stopped; is there an endless loop?"
        )
    if status is None:
        return CodeFailed("the code's process died without a word")
    if status >= 0:
        return CodeFailed(f"the code's process died: it ended itself with status {status}", status=status)
    name = _SIGNALS.get(-status, f"signal {-status}")
    why = "it was killed, perhaps for want of memory" if name == "SIGKILL" else "a crash in a library"
    return CodeFailed(f"the code's process died of {name} ({why})", signal=name)


_SIGNALS = {number.value: number.name for number in signal.Signals}
_CPU_LIMIT = next((number for number, name in _SIGNALS.items() if name == "SIGXCPU"), 0)


def _error(told: Any, limits: Limits, seconds: float, isolation: Isolation) -> CodeFailed | None:
    if told is None:
        return None
    if told["code"] == DIED:
        status, late = require_type(told["status"], int), require_type(told["late"], bool)
        if status not in _STATUSES:
            raise ValueError("a status that no process ends with")
        return exit_error(status, limits, seconds, late=late)
    return code_error(told, isolation, memory_mb=limits.memory_mb)


def code_error(told: Any, isolation: Isolation, *, memory_mb: int | None = None) -> CodeFailed:
    """The error that a code process tells of, with the line of the cell.

    What was denied is a refusal where code is sealed; elsewhere it is between the user and the system.

    Raises
    ------
    ValueError, TypeError, LookupError
        If it is not told as it should be.
    """
    kind, line, text = _line_of_text(told["type"]), told["line"], _line_of_text(told["text"])
    if line is not None and require_type(line, int) not in range(_LINES_LIMIT):
        raise ValueError("a line number that no cell has")
    place = f"line {line} ({text}): " if line else ""
    if told["code"] == CodeMemoryExceeded.code:
        most = f"more than {memory_mb} MB of memory was" if memory_mb else "more memory than there is was"
        return CodeMemoryExceeded(f"{place}{most} asked for", type=kind, cell_line=line)
    words = _line_of_text(told["message"])
    said = f"{place}{kind}: {words}"
    if told["code"] == CodeRefused.code and isolation in ("full", "remote"):
        said += "; generated code has no files, no network and no other processes"
        return CodeRefused(said, type=kind, cell_line=line)
    advice = hint(kind, words, text)
    return CodeFailed(f"{said}; {advice}" if advice else said, type=kind, cell_line=line)


def _line_of_text(told: object) -> str:
    return escape_controls(" ".join(_text(told, _TEXT_LIMIT).split()))


def _text(told: object, limit: int) -> str:
    if not isinstance(told, str):
        raise TypeError(f"{type(told).__name__} where text is wanted")
    return told[:limit].encode("utf-8", "replace").decode()
