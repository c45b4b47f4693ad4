"""What a run of cells gave, and reading it from a reply that generated code may have forged."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from quantgraph._frames import freeze
from quantgraph.errors import CodeFailed, CodeMemoryExceeded, CodeTimeout
from quantgraph.sandbox.wire import unpack

__all__ = ["CodeResult", "Limits", "gone", "read_result"]

_REPLY_LIMIT = 1 << 30
_HEADER_LIMIT = 8 << 20
_TEXT_LIMIT = 4_000
_DROPPED_NOTE = 100

# Everything that parsing bytes of any kind may raise; EOFError and OSError mean that there are none.
_UNREADABLE = (
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    OverflowError,
    RecursionError,
    MemoryError,
    struct.error,
)


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
    """

    stdout: str = ""
    value: str = ""
    signals: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    error: CodeFailed | None = None
    seconds: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What generated code may use: seconds, megabytes of memory, characters of output."""

    timeout: float
    memory_mb: int
    output_limit: int


def read_result(read: Callable[[int], bytes | bytearray], limits: Limits, started: float) -> CodeResult:
    """Read a reply with ``read(n)``, and check its every part: the code could write to the same pipe."""
    try:
        header, frames = unpack(read, limit=_REPLY_LIMIT, header_limit=_HEADER_LIMIT)
        signals = {name: freeze("signal", name, f.frame) for name, f in frames.get("signal", {}).items()}
        return CodeResult(
            stdout=_text(header["stdout"], limits.output_limit + _DROPPED_NOTE),
            value=_text(header["value"], _TEXT_LIMIT),
            signals={name: frame.frame for name, frame in signals.items()},
            error=_error(header["error"], limits),
            seconds=time.perf_counter() - started,
        )
    except (EOFError, OSError):
        return gone(limits, started)
    except _UNREADABLE as error:
        reason = f"{type(error).__name__}: {error}"
        unreadable = CodeFailed("the code's process sent an unreadable reply", reason=reason[:_TEXT_LIMIT])
        return CodeResult(error=unreadable, seconds=time.perf_counter() - started)


def gone(limits: Limits, started: float) -> CodeResult:
    """The result when there is no reply."""
    seconds = time.perf_counter() - started
    error: CodeFailed
    if seconds >= limits.timeout:
        error = CodeTimeout(
            f"the code ran for more than {limits.timeout:g} s and was stopped; is there an endless loop?"
        )
    else:
        error = CodeFailed("the code's process died without a word (a crash in a library, or it was killed)")
    return CodeResult(error=error, seconds=seconds)


def _error(told: Any, limits: Limits) -> CodeFailed | None:
    if told is None:
        return None
    kind, line = _line_of_text(told["type"]), told["line"]
    if line is not None and type(line) is not int:
        raise TypeError(f"{type(line).__name__} as a line number")
    place = f"line {line} ({_line_of_text(told['text'])}): " if line else ""
    if told["code"] == CodeMemoryExceeded.code:
        words = f"more than {limits.memory_mb} MB of memory was asked for"
        return CodeMemoryExceeded(f"{place}{words}", type=kind, cell_line=line)
    return CodeFailed(f"{place}{kind}: {_line_of_text(told['message'])}", type=kind, cell_line=line)


def _line_of_text(told: object) -> str:
    return " ".join(_text(told, _TEXT_LIMIT).split())


def _text(told: object, limit: int) -> str:
    if not isinstance(told, str):
        raise TypeError(f"{type(told).__name__} where text is wanted")
    return told[:limit].encode("utf-8", "replace").decode()
