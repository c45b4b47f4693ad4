"""A PostgreSQL server of a test's own: a temporary folder, a Unix socket, no network."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

MISSING = "no PostgreSQL server is installed; install one of version 15 or later: apt-get install postgresql"
WORDS = (
    "--auth=trust --username=quant --encoding=UTF8 --locale=C --locale-provider=icu --icu-locale=en --no-sync"
)
"""A locale that sorts otherwise than bytes do, as most servers have one."""


def program(name: str) -> str:
    """Path of one of the server's programs; on Debian they are not in PATH."""
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda folder: -int(folder.parent.name))
    found = shutil.which(name, path=os.pathsep.join([*map(str, folders), os.environ.get("PATH", "")]))
    if found is None:
        pytest.fail(MISSING, pytrace=False)
    return found


def owner() -> list[str]:
    """What to put before a command: the server refuses to run as root."""
    if os.geteuid():
        return []
    names = {entry.pw_name for entry in pwd.getpwall()}
    user = pwd.getpwnam("postgres" if "postgres" in names else "nobody")
    return ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]


class Server:
    """A server in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._process, self._databases = folder, None, 0
        command = [*owner(), program("initdb"), *WORDS.split(), "-D", str(folder / "data")]
        subprocess.run(command, check=True, capture_output=True, cwd=folder)

    def start(self) -> None:
        command = [program("postgres"), "-D", str(self.folder / "data"), "-k", str(self.folder)]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [*owner(), *command, "-c", "listen_addresses="], stdout=log, stderr=log, cwd=self.folder
            )
        ready = [program("pg_isready"), "-q", "-h", str(self.folder)]
        for _ in range(300):
            if subprocess.run(ready, check=False).returncode == 0:
                return
            time.sleep(0.1)
        raise TimeoutError((self.folder / "log").read_text())

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """SIGINT ends sessions and stops; SIGQUIT stops as a power cut does."""
        self._process.send_signal(how)
        self._process.wait(timeout=60)

    def database(self) -> str:
        """A new and empty database; returns its URL."""
        self._databases += 1
        name = f"d{self._databases}"
        command = [program("createdb"), "-h", str(self.folder), "-U", "quant", name]
        subprocess.run(command, check=True, capture_output=True)
        return f"postgresql+psycopg://quant@/{name}?host={self.folder}"


@contextmanager
def server() -> Iterator[Server]:
    """A running server, gone with its folder afterwards."""
    program("postgres")
    with tempfile.TemporaryDirectory(prefix="quantgraph-pg-", dir="/tmp") as name:
        folder = Path(name)
        if not os.geteuid():
            words = dict(word.lstrip("-").split("=") for word in owner()[1:3])
            os.chown(folder, int(words["reuid"]), int(words["regid"]))
        running = Server(folder)
        running.start()
        try:
            yield running
        finally:
            running.stop()
