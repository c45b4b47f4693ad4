"""The clock of generated code: it shows the moment that the code's data end at, and goes on from there.

Python's clocks are set: ``time.time`` and what reads it, ``datetime`` and pandas. What reads the processor's
clock past them, such as ``np.datetime64("now")``, is not; see ``docs/sandbox.md``.
"""

from __future__ import annotations

import ctypes
import datetime as dt
import gc
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from quantgraph.market.moment import PHASE_TIME
from quantgraph.sandbox.wire import Frames

_time_ns = time.time_ns
_OF_THE_DAY = (0, 5, 11)
"""Linux's numbers of the clocks that show the day: CLOCK_REALTIME, its coarse form, and CLOCK_TAI."""
_ahead = 0  # nanoseconds of the set clock before the machine's


def set_clock(now: pd.Timestamp) -> None:
    """Set the clock to a time of the process's own zone, from which it goes on."""
    global _ahead  # noqa: PLW0603 - a process has one clock
    _ahead = round(now.to_pydatetime().timestamp() * 1e9) - _time_ns()


def set_clock_at_end(frames: Frames) -> None:
    """Set the clock to the close of the last session of frames; without any, to 1970."""
    ends = [
        frame.sessions[-1] for fields in frames.values() for frame in fields.values() if len(frame.sessions)
    ]
    set_clock(pd.Timestamp(max(ends, default=np.datetime64(0, "us"))) + PHASE_TIME["close"])


def install_clock() -> None:
    """Let this process read the clock that :func:`set_clock` sets, once; until then it is the machine's."""
    for name in ("localtime", "gmtime", "ctime"):
        setattr(time, name, _since_epoch(getattr(time, name)))
    for name in ("strftime", "asctime"):
        setattr(time, name, _of_fields(getattr(time, name)))
    for name, scale in (("clock_gettime", 1e-9), ("clock_gettime_ns", 1)):
        setattr(time, name, _of_clock(getattr(time, name), scale))
    time.time_ns = lambda: _time_ns() + _ahead
    time.time = lambda: time.time_ns() / 1e9
    # The type takes no attribute, its dictionary does. `today` and pandas call `now` and `time`.
    (attributes,) = gc.get_referents(dt.datetime.__dict__)
    attributes["now"] = classmethod(lambda cls, tz=None: cls.fromtimestamp(time.time(), tz))
    attributes["utcnow"] = classmethod(lambda cls: cls.now(dt.UTC).replace(tzinfo=None))
    ctypes.pythonapi.PyType_Modified(ctypes.py_object(dt.datetime))


def _since_epoch(function: Callable[[float], Any]) -> Callable[..., Any]:
    return lambda seconds=None: function(time.time() if seconds is None else seconds)


def _of_clock(function: Callable[[int], Any], scale: float) -> Callable[[int], Any]:
    return lambda clock: function(clock) + (_ahead * scale if clock in _OF_THE_DAY else 0)


def _of_fields(function: Callable[..., Any]) -> Callable[..., Any]:
    def with_now(*arguments: Any) -> Any:
        given = 1 if function.__name__ == "strftime" else 0
        return function(*arguments) if len(arguments) > given else function(*arguments, time.localtime())

    return with_now
