"""Files, TCP and signals of other processes closed by Landlock, which no process can open again.

Sources: Linux ``Documentation/userspace-api/landlock.rst`` and ``include/uapi/linux/landlock.h``. The three
calls have the same numbers on every machine.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import stat
import struct
import sysconfig
import zoneinfo
from collections.abc import Iterator, Sequence
from pathlib import Path

from quantgraph.sandbox._linux import call, no_new_privileges

__all__ = ["close_files", "readable_places"]

_PACKAGES = ("numpy", "pandas", "talib", "dateutil", "six", "tzdata", "pyarrow")
_BUNDLED = tuple(f"{name}.libs" for name in ("numpy", "pandas", "ta_lib", "pyarrow"))
_OTHERS = ("site-packages", "dist-packages")


def readable_places() -> tuple[Path, ...]:
    """Files and folders of this interpreter that code imports lazily, to be read with all below them.

    The folder of the standard library is told entry by entry, because other packages lie in it. Shared
    libraries of the system are not among them: those that are needed are loaded with the packages, which
    is before the doors close.
    """
    found = {*_standard_library(), *_packages(), *map(Path, zoneinfo.TZPATH)}
    return tuple(sorted(place for place in found if place.exists()))


def _standard_library() -> Iterator[Path]:
    for name in ("stdlib", "platstdlib"):
        with contextlib.suppress(OSError):
            entries = list(Path(sysconfig.get_path(name)).iterdir())
            yield from (entry for entry in entries if entry.name not in _OTHERS)


def _packages() -> Iterator[Path]:
    for name in _PACKAGES:
        spec = importlib.util.find_spec(name)
        if spec is None:
            continue
        for folder in spec.submodule_search_locations or ():
            yield Path(folder)
            beside = Path(folder).parent.glob("*.libs")
            yield from (libraries for libraries in beside if libraries.name.lower() in _BUNDLED)
        if not spec.submodule_search_locations:
            yield from (Path(file) for file in (spec.origin, spec.cached) if file)


_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION_FLAG = 1
_PATH_BENEATH = 1

_READ_FILE, _READ_DIR = 1 << 2, 1 << 3
_FILES = (1 << 13) - 1  # what version 1 knows: execute, write, read, list, remove, make
_FILES_SINCE = {2: 1 << 13, 3: 1 << 14, 5: 1 << 15}  # moving between folders, truncating, ioctl of devices
_TCP = 0b11  # binding and connecting, since version 4
_SCOPES = 0b11  # abstract sockets and signals, since version 6


def close_files(readable: Sequence[Path]) -> str:
    """Let this thread and its children read only ``readable`` files and folders, for good.

    Nothing can be written, made, removed or executed, no TCP port bound or connected to. A place that this
    user cannot open is left out. The folder's own files and all below it are readable, and cannot be taken
    out again: Landlock cannot subtract.

    Returns
    -------
    str
        Empty, or why this system cannot do it.
    """
    try:
        version = call("syscall", _CREATE_RULESET, None, 0, _VERSION_FLAG)
        no_new_privileges()
        rules = _ruleset(version)
        try:
            for place in readable:
                _allow_reading(rules, place)
            call("syscall", _RESTRICT_SELF, rules, 0)
        finally:
            os.close(rules)
    except OSError as error:
        return f"no Landlock: {error.strerror or error}"
    return ""


def _ruleset(version: int) -> int:
    files = _FILES | sum(bits for since, bits in _FILES_SINCE.items() if version >= since)
    wanted = [files]
    if version >= 4:
        wanted.append(_TCP)
    if version >= 6:
        wanted.append(_SCOPES)
    told = struct.pack(f"{len(wanted)}Q", *wanted)
    return call("syscall", _CREATE_RULESET, told, len(told), 0)


def _allow_reading(rules: int, place: Path) -> None:
    with contextlib.suppress(FileNotFoundError, NotADirectoryError, PermissionError):
        beneath = os.open(place, os.O_PATH | os.O_CLOEXEC)
        try:
            folder = stat.S_ISDIR(os.fstat(beneath).st_mode)
            rule = struct.pack("=Qi", _READ_FILE | _READ_DIR if folder else _READ_FILE, beneath)
            call("syscall", _ADD_RULE, rules, _PATH_BENEATH, rule, 0)
        finally:
            os.close(beneath)
