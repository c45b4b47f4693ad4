"""Processes that a test starts: Python in them refuses to leave the machine, and says so on stderr."""

from __future__ import annotations

from pathlib import Path

OUTSIDE = "OUTSIDE"
"""Begins the line that such a process writes when it tries to."""
_WATCH = f"""
import sys

def watch(event, args):
    if event in ("socket.connect", "socket.getaddrinfo"):
        host = args[1][0] if event == "socket.connect" and isinstance(args[1], tuple) else args[0]
        if isinstance(host, str) and host not in ("127.0.0.1", "::1", "localhost"):
            print("{OUTSIDE}", event, host, file=sys.stderr)
            raise ConnectionRefusedError(host)

sys.addaudithook(watch)
"""


def loopback_only(folder: Path) -> str:
    """The ``PYTHONPATH`` of such processes; ``folder`` gets the file that Python loads at its start."""
    (folder / "sitecustomize.py").write_text(_WATCH, encoding="utf-8")
    return str(folder)
