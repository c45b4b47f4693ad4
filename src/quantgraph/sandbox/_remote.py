"""A runner on another machine: one message out, one message back."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Protocol

from quantgraph.errors import CodeFailed, CodeTimeout
from quantgraph.sandbox._result import REPLY_LIMIT, Call, CodeResult, Limits, read_handshake
from quantgraph.sandbox._runner import cells_request
from quantgraph.sandbox._server import START_SECONDS
from quantgraph.sandbox.wire._wire import Frames, encode_frames, exact_reader


class Transport(Protocol):
    """A function of yours that carries a request to the machine that runs code, and its reply back."""

    def __call__(self, request: bytes, *, timeout: float, limit: int) -> bytes:
        """Exchange two messages.

        The other machine starts ``python -m quantgraph.sandbox._worker --once``, writes ``request`` to its
        standard input, closes that, and returns everything from its standard output.

        Parameters
        ----------
        timeout
            Seconds that the exchange may take.
        limit
            Largest reply in bytes; stop reading beyond it.
        """


class RemoteRunner:
    """Runs cells on another machine, whose replies are checked as if the code itself had sent them.

    Parameters
    ----------
    timeout, memory_mb, output_limit
        Limits of a call, which the other machine enforces: seconds, megabytes, characters. Its isolation
        level is not known here; results have isolation ``remote``.
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
        call = Call(limits=self._limits, isolation="remote")
        request = b"".join(encode_frames(cells_request(cells, self._limits, "none"), frames))
        try:
            reply = self._exchange(request, timeout=self._limits.timeout + START_SECONDS, limit=REPLY_LIMIT)
        except OSError as error:
            return call.failed(_exchange_error(error, call.seconds))
        if len(reply) > REPLY_LIMIT:
            return call.failed(call.unreadable(ValueError(f"a reply of {len(reply)} bytes")))
        read = exact_reader(io.BytesIO(reply))
        try:
            read_handshake(read)
            return call.read_result(read, frames)
        except EOFError:
            return call.failed(CodeFailed("the remote process died, or is not a worker of quantgraph"))


def _exchange_error(error: OSError, seconds: float) -> CodeFailed:
    reason = " ".join(str(error).split())[:200] or type(error).__name__
    if isinstance(error, TimeoutError):
        return CodeTimeout(f"no reply from the remote machine after {seconds:.0f} s: {reason}")
    return CodeFailed(f"the remote machine that runs code cannot be reached: {reason}")
