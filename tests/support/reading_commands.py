"""Calls commands one after the other, each in a process of its own that is forked after the imports.

Usage: reading_commands.py SECONDS CALLS. CALLS is a JSON list of argument lists; each call gets so many seconds.
Prints one JSON list: exit status, standard output and standard error of each; a call that takes longer is ended
with the status of its signal.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
import tempfile
import traceback
from pathlib import Path

from quantgraph.cli._main import main

USED = (
    "runs._replay",
    "runs.verification._verification",
    "runs._page",
    "page._index",
    "graph._graph",
    "cli._run",
)


def end(arguments: list[str]) -> None:
    """Call a command, and leave the process without unwinding what its parent still needs."""
    sys.argv, code = ["quantgraph", *arguments], 1
    try:
        main()
    except SystemExit as ended:
        code = int(ended.code or 0)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def called(seconds: int, arguments: list[str], folder: Path) -> tuple[int, str, str]:
    out, err = folder / "out", folder / "err"
    if not (child := os.fork()):
        signal.alarm(seconds)
        for number, path in ((1, out), (2, err)):
            os.dup2(os.open(path, os.O_CREAT | os.O_TRUNC | os.O_WRONLY), number)
        end(arguments)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return status, out.read_text("utf-8", "replace"), err.read_text("utf-8", "replace")


if __name__ == "__main__":
    for name in USED:
        importlib.import_module(f"quantgraph.{name}")
    limit, calls = int(sys.argv[1]), json.loads(sys.argv[2])
    with tempfile.TemporaryDirectory() as place:
        print(json.dumps([called(limit, each, Path(place)) for each in calls]))
