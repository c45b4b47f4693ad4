"""Linux calls that Python has no function for, and Landlock, which closes files and TCP for good.

Sources: Linux ``Documentation/userspace-api/landlock.rst`` and ``include/uapi/linux/landlock.h``. The three
calls of Landlock have the same numbers on every machine.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import signal
import stat
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_CAPBSET_DROP = 24
_PR_SET_NO_NEW_PRIVS = 38
_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL = 47, 4
_CAPABILITY_VERSION_3 = 0x20080522
_CAPABILITIES = 64

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION_FLAG = 1
_PATH_BENEATH = 1
_READ_FILE, _READ_DIR = 1 << 2, 1 << 3
_FILES = (1 << 13) - 1  # version 1: execute, write, read, list, remove, make
_FILES_SINCE = {2: 1 << 13, 3: 1 << 14, 5: 1 << 15}  # moving between folders, truncating, ioctl of devices
_TCP = 0b11  # binding and connecting, since version 4
_SCOPES = 0b11  # abstract sockets and signals, since version 6


@functools.cache
def _libc() -> Any:
    return ctypes.CDLL(None, use_errno=True)


def call(name: str, *arguments: Any) -> int:
    """Call a function of the C library that returns -1 for an error.

    Raises
    ------
    OSError
        If the call fails, or the library does not have the function.
    """
    words = [ctypes.c_long(word) if isinstance(word, int) else word for word in arguments]
    try:
        returned: int = getattr(_libc(), name)(*words)
    except AttributeError:
        raise OSError(f"the C library has no {name}") from None
    if returned == -1:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return returned


def no_new_privileges() -> None:
    """Never gain rights again; Landlock and seccomp require it."""
    call("prctl", _PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)


def hide_from_debuggers() -> None:
    """Close the process's memory and descriptors to others of the same user, and write no core."""
    call("prctl", _PR_SET_DUMPABLE, 0, 0, 0, 0)


def die_with_parent() -> None:
    """Be killed when the thread that made this process ends."""
    call("prctl", _PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)


def drop_capabilities() -> None:
    """Keep the user and lose what root may do beyond it; an ordinary user loses nothing.

    The user is kept because an interpreter below a home of mode 0700 is readable to that user only.
    """
    for capability in range(_CAPABILITIES):
        try:
            call("prctl", _PR_CAPBSET_DROP, capability, 0, 0, 0)
        except OSError:
            break  # past the last capability, or not permitted, and then there is none to lose
    call("prctl", _PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    head = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    call("capset", head, (ctypes.c_uint32 * 6)())


def close_files(readable: Sequence[Path]) -> str:
    """Let this thread and its children read only ``readable`` files and folders, for good.

    Nothing can be written, made, removed or executed, and no TCP port bound or connected to. A path that this
    user cannot open is left out. Everything below a readable folder is readable: Landlock cannot exclude.

    Returns
    -------
    str
        Empty, or why this system cannot do it.
    """
    try:
        version = call("syscall", _CREATE_RULESET, None, 0, _VERSION_FLAG)
        no_new_privileges()
        rules = _create_ruleset(version)
        try:
            for path in readable:
                _allow_reading(rules, path)
            call("syscall", _RESTRICT_SELF, rules, 0)
        finally:
            os.close(rules)
    except OSError as error:
        return f"no Landlock: {error.strerror or error}"
    return ""


def _create_ruleset(version: int) -> int:
    handled = [_FILES | sum(bits for since, bits in _FILES_SINCE.items() if version >= since)]
    if version >= 4:
        handled.append(_TCP)
    if version >= 6:
        handled.append(_SCOPES)
    packed = struct.pack(f"{len(handled)}Q", *handled)
    return call("syscall", _CREATE_RULESET, packed, len(packed), 0)


def _allow_reading(rules: int, path: Path) -> None:
    with contextlib.suppress(FileNotFoundError, NotADirectoryError, PermissionError):
        beneath = os.open(path, os.O_PATH | os.O_CLOEXEC)
        try:
            is_folder = stat.S_ISDIR(os.fstat(beneath).st_mode)
            rule = struct.pack("=Qi", _READ_FILE | _READ_DIR if is_folder else _READ_FILE, beneath)
            call("syscall", _ADD_RULE, rules, _PATH_BENEATH, rule, 0)
        finally:
            os.close(beneath)
