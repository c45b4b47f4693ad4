"""An outer wall where the system offers it: bubblewrap's own namespaces around the warm process."""

from __future__ import annotations

import functools
import shutil
import subprocess
import sys
from pathlib import Path

__all__ = ["bwrap_prefix"]

_PROBE_SECONDS = 10.0
_SYSTEM = ("/usr", "/lib", "/lib32", "/lib64", "/bin", "/etc/ld.so.cache", "/etc/localtime")
_PACKAGE = Path(__file__).resolve().parents[1]


@functools.cache
def bwrap_prefix() -> tuple[str, ...]:
    """What to put before the warm process's command, or nothing if ``bwrap`` is missing or does not work.

    The process sees namespaces of its own for users, mounts, processes and the network: the interpreter,
    its packages and quantgraph read-only, an empty ``/tmp`` as its working folder, nothing else of the disk.
    Descriptors that it inherits stay open. It is not asked to die with the *thread* that starts it, which is
    what bubblewrap's option means: it ends by itself when the host closes its socket.
    """
    program = shutil.which("bwrap")
    if sys.platform != "linux" or program is None:
        return ()
    command = [program, "--unshare-all", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"]  # noqa: S108
    for place in dict.fromkeys([*_SYSTEM, *map(str, _interpreter()), str(_PACKAGE)]):
        command += ["--ro-bind-try", place, place]
    command += ["--chdir", "/tmp", "--"]  # noqa: S108 - its own
    try:
        probe = [*command, sys.executable, "-P", "-s", "-c", "import quantgraph"]
        subprocess.run(probe, check=True, capture_output=True, timeout=_PROBE_SECONDS)
    except (OSError, subprocess.SubprocessError):
        return ()
    return tuple(command)


def _interpreter() -> list[Path]:
    """Its environment and its installation, by the names it uses and by where they lie."""
    names = [Path(sys.prefix), Path(sys.base_prefix), Path(sys.executable).parent]
    return [*names, *(name.resolve() for name in names), Path(sys.executable).resolve().parent]
