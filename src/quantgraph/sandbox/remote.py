"""Running generated code on another machine: a message out, a message back."""

from __future__ import annotations

import io
import time
from collections.abc import Sequence
from typing import Protocol

from quantgraph.errors import CodeFailed, CodeTimeout
from quantgraph.sandbox.request_loop import exact_reader
from quantgraph.sandbox.result import (
    REPLY_LIMIT,
    CodeResult,
    Limits,
    read_handshake,
    read_result,
    unreadable_reply,
)
from quantgraph.sandbox.runner import cells_request
from quantgraph.sandbox.server_process import START_SECONDS
from quantgraph.sandbox.wire import Frames, encode_frames

__all__ = ["RemoteRunner", "Transport"]


class Transport(Protocol):
    """Carries a request to where code runs, and its reply back: a function of yours."""

    def __call__(self, request: bytes, *, timeout: float, limit: int) -> bytes:
        """Exchange two messages.

        The far side starts ``python -m quantgraph.sandbox.worker --once``, writes ``request`` to its
        standard input, closes that, and returns all that comes from its standard output.

        Parameters
        ----------
        timeout
            Seconds that the exchange may take.
        limit
            Bytes that the reply may have; stop reading beyond them.

        Raises
        ------
        OSError
            If the far side cannot be reached; TimeoutError if it does not answer in time.
        """


class RemoteRunner:
    """Runs cells elsewhere. Whatever comes back is checked as if the code itself had sent it.

    Parameters
    ----------
    exchange
        See :class:`Transport`.
    timeout, memory_mb, output_limit
        Limits of a call, which the far side holds: seconds, megabytes, characters. How well it locks the
        code in is for whoever runs it to say; results have isolation ``remote``.
    """

    def __init__(
        self,
        exchange: Transport,
        *,
        timeout: float = 30.0,
        memory_mb: int = 2048,
        output_limit: int = 20_000,
    ) -> None:
        self._exchange = exchange
        self._limits = Limits(timeout=timeout, memory_mb=memory_mb, output_limit=output_limit)

    def run(self, cells: Sequence[str], frames: Frames) -> CodeResult:
        """Run cells, see :class:`~quantgraph.sandbox.CodeRunner`."""
        started, limits = time.perf_counter(), self._limits
        request = b"".join(encode_frames(cells_request(cells, limits, "none"), frames))
        try:
            reply = self._exchange(request, timeout=limits.timeout + START_SECONDS, limit=REPLY_LIMIT)
        except OSError as error:
            return self._lost(error, started)
        if len(reply) > REPLY_LIMIT:
            return unreadable_reply(ValueError(f"a reply of {len(reply)} bytes"), limits, started, "remote")
        read = exact_reader(io.BytesIO(reply))
        try:
            read_handshake(read)
            return read_result(read, limits, started, "remote", frames=frames)
        except EOFError:
            died = CodeFailed("the code's process died far away, or it is none of quantgraph's")
            return CodeResult(error=died, seconds=time.perf_counter() - started, isolation="remote")

    def _lost(self, error: OSError, started: float) -> CodeResult:
        seconds = time.perf_counter() - started
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        if isinstance(error, TimeoutError):
            failed: CodeFailed = CodeTimeout(f"no reply from far away after {seconds:.0f} s: {reason}")
        else:
            failed = CodeFailed(f"the machine that runs code cannot be reached: {reason}")
        return CodeResult(error=failed, seconds=seconds, isolation="remote")
