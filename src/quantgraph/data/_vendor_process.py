"""A process of its own for a vendor's package: one request a line in, one answer a line out, a time limit.

Packages of vendors print, wait for ever and change settings of the whole process: not in the caller's. This
module imports the standard library alone.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from queue import SimpleQueue
from typing import Any

_KEPT = ("PATH", "HOME", "TMPDIR", "LANG", "TZ", "SYSTEMROOT", "VIRTUAL_ENV", "PYTHONPATH", "PYTHONHOME")
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE")
"""Variables that the process gets, the second ones in small letters too: no key of anything."""


class NoAnswer(Exception):
    """The process gave no answer; it is ended."""


class VendorProcess:
    """Runs ``module``, which calls :func:`serve`, while it is needed; one thread asks at a time.

    An answer may take ``timeout`` seconds.
    """

    def __init__(self, module: str, arguments: Sequence[str], timeout: float) -> None:
        # -P: a file of the working folder may have the name of a package.
        self._command = [sys.executable, "-P", "-m", module, *arguments]
        self._timeout = timeout
        self._process: subprocess.Popen[str] | None = None
        self._finish: weakref.finalize[..., VendorProcess] | None = None  # at exit, or when it is not needed
        self.answered = False

    def ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """The answer of the process, which is started if there is none; ``NoAnswer`` without one."""
        process = self._process or self._start()
        late = threading.Event()

        def end() -> None:
            late.set()
            process.kill()

        timer = threading.Timer(self._timeout, end)
        timer.start()
        line = ""
        try:
            if process.stdin is not None and process.stdout is not None:
                process.stdin.write(json.dumps(request) + "\n")
                process.stdin.flush()
                line = process.stdout.readline()
        except OSError:  # it has ended
            line = ""
        finally:
            timer.cancel()
        if not line.endswith("\n"):
            self.end()
            raise NoAnswer(f"no answer within {self._timeout:g} s" if late.is_set() else "its process ended")
        self.answered = True
        answer: dict[str, Any] = json.loads(line)
        return answer

    def end(self) -> None:
        """End the process; the next request starts another."""
        if self._finish is not None:
            self._finish()
        self._finish, self._process, self.answered = None, None, False

    def _start(self) -> subprocess.Popen[str]:
        names = (*_KEPT, *_PROXIES, *map(str.lower, _PROXIES))
        self._process = process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
            env={name: os.environ[name] for name in names if name in os.environ},
        )
        self._finish = weakref.finalize(self, _end, process)
        return process


def _end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        with contextlib.suppress(OSError):  # what was written last had no reader
            if pipe is not None:
                pipe.close()


def serve(answer: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Answer the requests of standard input; what a package prints goes to standard error.

    When the input ends, the process that started this one has gone: this one ends whatever it waits for.
    """
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    requests: SimpleQueue[str] = SimpleQueue()

    def work() -> None:
        try:
            while True:
                answers.write(json.dumps(answer(json.loads(requests.get()))) + "\n")
                answers.flush()
        finally:
            os._exit(1)

    threading.Thread(target=work, daemon=True).start()
    for line in sys.stdin:
        requests.put(line)
    os._exit(0)
