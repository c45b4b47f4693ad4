"""What a code process is started with: its command, environment, working folder and bubblewrap namespaces."""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

if os.name == "posix":
    import fcntl


PYTHON = (sys.executable, "-P", "-s", "-W", "ignore", "-m", "quantgraph.sandbox.worker")

_FOLDER_PREFIX = "quantgraph-code-"
_FOLDER_SECONDS = 60.0
_PROBE_SECONDS = 10.0
_SYSTEM = ("/usr", "/lib", "/lib32", "/lib64", "/bin", "/etc/ld.so.cache", "/etc/localtime")
_PACKAGE = Path(__file__).resolve().parents[1]


def code_environment() -> dict[str, str]:
    """Return the environment variables of a code process."""
    variables = {
        # Fixed, so that the order of sets does not make a strategy differ from process to process.
        "PYTHONHASHSEED": "0",
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",  # the clock of the code is set in it, wherever the host is
        "OPENBLAS_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
        # pyarrow's own pool starts a thread and reserves half of the machine's memory.
        "ARROW_DEFAULT_MEMORY_POOL": "system",
        "JE_ARROW_MALLOC_CONF": "background_thread:false",
        # Memory of arrays is used again instead of being given back to the system after each operation. That
        # of large ones is given back: kept, it makes a whole market's proof need a panel more.
        "MALLOC_MMAP_THRESHOLD_": str(32 << 20),
        "MALLOC_TRIM_THRESHOLD_": str(1 << 40),
        # Large pages: a fresh process takes a hundredth of the page faults for its first arrays.
        "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
    }
    if sys.platform == "win32":
        variables["SYSTEMROOT"] = os.environ["SYSTEMROOT"]
    return variables


class WorkFolder:
    """An empty temporary folder, locked for as long as this process lives.

    The folder of a host that was killed stays: a sealed process cannot remove it. So each new WorkFolder
    removes old ones that no process has locked.
    """

    def __init__(self) -> None:
        for old in Path(tempfile.gettempdir()).glob(f"{_FOLDER_PREFIX}*"):
            _remove_abandoned(old)
        self.path = tempfile.mkdtemp(prefix=_FOLDER_PREFIX)
        self._lock = _lock(self.path)

    def close(self) -> None:
        """Remove the folder with its content."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def _lock(path: str | Path) -> int | None:
    if os.name != "posix":
        return None
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _remove_abandoned(path: Path) -> None:
    # OSError: the folder is another user's, or locked. A new one may not be locked yet.
    with contextlib.suppress(OSError):
        if path.lstat().st_mtime > time.time() - _FOLDER_SECONDS:
            return
        descriptor = _lock(path)
        shutil.rmtree(path, ignore_errors=True)
        if descriptor is not None:
            os.close(descriptor)


@functools.cache
def bwrap_prefix() -> tuple[str, ...]:
    """Return the command line that runs a code process under ``bwrap``; empty if that is missing or fails.

    The process has its own namespaces for users, mounts, processes and the network. It sees the interpreter,
    its packages and quantgraph read-only, and an empty ``/tmp`` as its working folder. Inherited descriptors
    stay open. ``--die-with-parent`` is not used, because it acts when the starting *thread* ends; the process
    ends by itself when the host closes its socket.
    """
    program = shutil.which("bwrap") if sys.platform == "linux" else None
    if program is None:
        return ()
    command = [program, "--unshare-all", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"]  # noqa: S108
    for place in dict.fromkeys([*_SYSTEM, *map(str, _interpreter_folders()), str(_PACKAGE)]):
        command += ["--ro-bind-try", place, place]
    command += ["--chdir", "/tmp", "--"]  # noqa: S108 - its own
    try:
        probe = [*command, sys.executable, "-P", "-s", "-c", "import quantgraph"]
        subprocess.run(probe, check=True, capture_output=True, timeout=_PROBE_SECONDS)
    except (OSError, subprocess.SubprocessError):
        return ()
    return tuple(command)


def _interpreter_folders() -> list[Path]:
    """The environment's and the installation's folders, as named and as resolved."""
    named = [Path(sys.prefix), Path(sys.base_prefix), Path(sys.executable).parent]
    return [*named, *(folder.resolve() for folder in named), Path(sys.executable).resolve().parent]
