"""The process in which generated code runs.

Started by :mod:`quantgraph.sandbox.runner` as ``python -P -s -m quantgraph.sandbox.worker``. With a
socket it stays warm and forks once for each call; with ``--once`` it serves one call on stdin and
stdout. It has an empty environment and an empty working folder, and gets nothing but the request.
"""

from __future__ import annotations

import gc
import os
import socket
import sys
from pathlib import Path
from typing import BinaryIO

from quantgraph.sandbox.fork_server import canary_file, serve_forks
from quantgraph.sandbox.lockdown import readable_places, seal_child, seal_parent, self_test
from quantgraph.sandbox.request_loop import REQUEST_LIMIT, exact_reader, preload, serve_cells
from quantgraph.sandbox.result import is_at_least
from quantgraph.sandbox.wire import decode_frames, encode_message


def _serve_once() -> None:
    """Seal, say how well that went, and run the code if it is enough."""
    reply = os.fdopen(os.dup(1), "wb")
    null = os.open(os.devnull, os.O_RDWR)
    for standard in (1, 2):
        os.dup2(null, standard)
    seal_parent([*readable_places(), Path.cwd()])
    header, frames = decode_frames(exact_reader(sys.stdin.buffer), limit=REQUEST_LIMIT)
    os.dup2(null, 0)
    os.close(null)
    if hasattr(os, "fork"):
        _leave_to_child(reply)
    seal_child(memory=header["memory"], seconds=header["seconds"])
    level, reason = self_test(canary_file())
    with reply:
        for part in encode_message({"level": level, "reason": reason}):
            reply.write(part)
        reply.flush()
        if is_at_least(level, header["isolation"]):
            serve_cells(header, frames, reply.write)


def _leave_to_child(reply: BinaryIO) -> None:
    """Go on in a child, and end as it ends: a fork has none of the threads that libraries have started."""
    child = os.fork()
    if child:
        reply.close()
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if status < 0:
            os.kill(os.getpid(), -status)
        os._exit(status)


def main(arguments: list[str]) -> None:
    """Serve forks on the inherited socket whose number is given, or one call with ``--once``."""
    preload()
    if arguments == ["--once"]:
        _serve_once()
        return
    # What is there now is in every child: the collector need not look at it, which would copy its pages.
    gc.collect()
    gc.freeze()
    with socket.socket(fileno=int(arguments[0])) as control:
        serve_forks(control)


if __name__ == "__main__":
    main(sys.argv[1:])
