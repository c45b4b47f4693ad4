"""The process in which generated code runs: ``python -P -s -m quantgraph.sandbox.worker``.

Given the number of an inherited socket it is the fork server; with ``--once`` it serves one request on stdin
and stdout. More arguments are packages that code may import beside those that it always may. Its environment
and working folder are empty, and it is given nothing but the request.
"""

from __future__ import annotations

import gc
import os
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

from quantgraph.sandbox.fork_server import canary_file, run_fork_server
from quantgraph.sandbox.imports import allow_packages
from quantgraph.sandbox.lockdown import readable_places, seal_child, seal_parent, self_test
from quantgraph.sandbox.request_loop import REQUEST_LIMIT, preload, serve_cells
from quantgraph.sandbox.result import is_at_least
from quantgraph.sandbox.wire import decode_frames, encode_message, exact_reader


def _serve_once(packages: Sequence[str]) -> None:
    """Seal the process, report its isolation level, and run the code if that is enough."""
    reply = os.fdopen(os.dup(1), "wb")
    null = os.open(os.devnull, os.O_RDWR)
    for standard in (1, 2):
        os.dup2(null, standard)
    seal_parent([*readable_places(packages), Path.cwd()])
    header, frames = decode_frames(exact_reader(sys.stdin.buffer), limit=REQUEST_LIMIT)
    os.dup2(null, 0)
    os.close(null)
    if hasattr(os, "fork"):
        _continue_in_fork(reply)
    seal_child(memory=header["memory"], seconds=header["seconds"])
    level, reason = self_test(canary_file())
    with reply:
        for part in encode_message({"level": level, "reason": reason}):
            reply.write(part)
        reply.flush()
        if is_at_least(level, header["isolation"]):
            serve_cells(header, frames, reply.write)


def _continue_in_fork(reply: BinaryIO) -> None:
    """Return in a child, which has no threads that libraries started; the parent exits as the child does."""
    child = os.fork()
    if child:
        reply.close()
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if status < 0:
            os.kill(os.getpid(), -status)
        os._exit(status)


def main(arguments: list[str]) -> None:
    """Serve one request with ``--once``, else forks on the inherited socket of the given number."""
    how, *named = arguments
    packages = allow_packages(named)
    preload()
    if how == "--once":
        _serve_once(packages)
        return
    # Objects made so far are in every child: a collector that visits them would copy their pages.
    gc.collect()
    gc.freeze()
    with socket.socket(fileno=int(how)) as control:
        run_fork_server(control, packages)


if __name__ == "__main__":
    main(sys.argv[1:])
