"""The warm process that forks a child for each run: its start, its connections, its end."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence

from quantgraph.errors import CodeFailed

__all__ = ["PYTHON", "START_SECONDS", "WarmProcess", "code_environment"]

PYTHON = (sys.executable, "-P", "-s", "-W", "ignore", "-m", "quantgraph.sandbox.worker")
START_SECONDS = 30.0


def code_environment() -> dict[str, str]:
    """All that generated code sees of the environment."""
    # A fixed hash seed: the order of sets must not make a strategy differ from one process to the next.
    wanted = {"PYTHONHASHSEED": "0", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "LC_ALL": "C.UTF-8"}
    if sys.platform == "win32":
        wanted["SYSTEMROOT"] = os.environ["SYSTEMROOT"]
    return wanted


class WarmProcess:
    """A process started when it is needed, and again when it has died.

    The lock protects its start and end, and the handing over of a connection, against threads that
    call at the same time.
    """

    def __init__(self, command: Sequence[str] = PYTHON) -> None:
        self._command = command
        self._lock = threading.Lock()
        self._control: socket.socket | None = None
        self.process: subprocess.Popen[bytes] | None = None
        self.folder: tempfile.TemporaryDirectory[str] | None = None

    def connect(self, timeout: float) -> socket.socket:
        """A connection to a new child, which is ended after ``timeout`` seconds.

        Raises
        ------
        CodeFailed
            If the process does not start.
        """
        message = f"{timeout:020.6f}"[:20].encode()
        ours, theirs = socket.socketpair()
        with theirs, self._lock:
            for attempt in range(2):
                try:
                    socket.send_fds(self._started(), [message], [theirs.fileno()])
                    break
                except (BrokenPipeError, ConnectionResetError) as error:
                    self._stop()
                    if attempt:
                        ours.close()
                        raise self._no_start() from error
                except BaseException:
                    ours.close()
                    raise
        return ours

    def close(self) -> None:
        """End the process and remove its folder."""
        with self._lock:
            self._stop()

    def _started(self) -> socket.socket:
        if self._control is not None and self.process is not None and self.process.poll() is None:
            return self._control
        self._stop()
        self._control, theirs = socket.socketpair()
        self.folder = tempfile.TemporaryDirectory(prefix="quantgraph-code-", ignore_cleanup_errors=True)
        try:
            with theirs:
                self.process = subprocess.Popen(
                    [*self._command, str(theirs.fileno())],
                    pass_fds=[theirs.fileno()],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    env=code_environment(),
                    cwd=self.folder.name,
                )
            self._control.settimeout(START_SECONDS)
            said = self._control.recv(16)
        except OSError as error:
            self._stop()
            raise self._no_start() from error
        if said != b"ready":
            self._stop()
            raise self._no_start()
        self._control.settimeout(None)
        return self._control

    def _no_start(self) -> CodeFailed:
        return CodeFailed(f"the code process did not start; try: {' '.join(PYTHON)} --once")

    def _stop(self) -> None:
        if self._control is not None:
            self._control.close()
        if self.process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(timeout=5)
            self.process.kill()
            self.process.wait()
        if self.folder is not None:
            self.folder.cleanup()
        self._control = self.process = self.folder = None
