"""The few calls of Linux that Python has no function for."""

from __future__ import annotations

import ctypes
import functools
import os
import signal
from typing import Any

__all__ = ["call", "die_with_parent", "drop_capabilities", "hide_from_debuggers", "no_new_privileges"]

_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_CAPBSET_DROP = 24
_PR_SET_NO_NEW_PRIVS = 38
_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL = 47, 4
_CAPABILITY_VERSION_3 = 0x20080522
_CAPABILITIES = 64


@functools.cache
def _libc() -> Any:
    return ctypes.CDLL(None, use_errno=True)


def call(name: str, *arguments: Any) -> int:
    """Call a function of the C library whose answer -1 means an error.

    Raises
    ------
    OSError
        If the call fails, or the library does not have it.
    """
    words = [ctypes.c_long(word) if isinstance(word, int) else word for word in arguments]
    try:
        answer: int = getattr(_libc(), name)(*words)
    except AttributeError:
        raise OSError(f"the C library has no {name}") from None
    if answer == -1:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return answer


def no_new_privileges() -> None:
    """Never gain rights again: what both locks of the kernel ask for first."""
    call("prctl", _PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)


def hide_from_debuggers() -> None:
    """Close the process's memory and descriptors to others of the same user, and write no core."""
    call("prctl", _PR_SET_DUMPABLE, 0, 0, 0, 0)


def die_with_parent() -> None:
    """Be killed when the thread that made this process ends."""
    call("prctl", _PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)


def drop_capabilities() -> None:
    """Keep the user and lose what root may do beyond it; nothing happens to an ordinary user.

    The user is kept because an interpreter below a home of mode 0700 is readable to nobody else.
    """
    for capability in range(_CAPABILITIES):
        try:
            call("prctl", _PR_CAPBSET_DROP, capability, 0, 0, 0)
        except OSError:
            break  # past the last one, or not allowed to, and then there is none to lose
    call("prctl", _PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    head = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    call("capset", head, (ctypes.c_uint32 * 6)())
