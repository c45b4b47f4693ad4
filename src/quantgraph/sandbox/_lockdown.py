"""Sealing a code process: what generated code must not reach, and the self-test that finds the level.

The fork server closes files (Landlock) and gives up its rights once, after its imports; each child takes its
limits and closes system calls (seccomp) before it reads the request. It cannot name a file, open a socket, or
start or signal a process; it imports from the archive in its memory (:mod:`quantgraph.sandbox._archive`).
What a system lacks lowers the level: ``full`` on Linux with Landlock (5.13) and seccomp, ``limits_only`` on
macOS, ``none`` on Windows. Not refused: the time, the kernel's counters, what the processor's caches tell.

The system calls allowed are what numpy, pandas, TA-Lib, pyarrow and Python's threads need once they are
imported; all others fail with EPERM. Numbers past the last one considered fail with ENOSYS, as on an old
kernel, because C libraries then try the older call. None takes a path. A filter cannot see that
``newfstatat`` is given an empty path, as by the C library's ``fstat``: files of Python and pyarrow go on
without, :func:`os.fstat` makes the kernel's own call. A futex without ``FUTEX_PRIVATE_FLAG`` is keyed by the
file under it, and tells one process how many wait in another. Only the wait of ``pthread_join`` comes without
the flag, because the kernel wakes it so; it fails with EAGAIN, upon which C libraries look again.

The clock of generated code shows the moment that the code's data end at, and goes on from there:
``time.time`` and what reads it, ``datetime`` and pandas, but not ``np.datetime64("now")``.

Sources: Linux ``userspace-api/landlock.rst`` and ``seccomp_filter.rst``, ``include/uapi/linux/landlock.h``,
``futex.h``, ``include/linux/posix-timers.h``; numbers of calls are those of ``syscall_64.tbl`` and, for
aarch64, ``include/uapi/asm-generic/unistd.h``.
"""

from __future__ import annotations

import ctypes
import datetime as dt
import errno
import functools
import gc
import math
import mmap
import os
import signal
import socket
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from quantgraph.market import PHASE_TIME
from quantgraph.sandbox.wire._wire import Frames

_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_CAPBSET_DROP = 24
_PR_SET_NO_NEW_PRIVS = 38
_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL = 47, 4
_CAPABILITY_VERSION_3 = 0x20080522
_CAPABILITIES = 64

_CREATE_RULESET, _RESTRICT_SELF = 444, 446
_VERSION_FLAG = 1
_FILES = (1 << 13) - 1  # version 1: execute, write, read, list, remove, make
_FILES_SINCE = {2: 1 << 13, 3: 1 << 14, 5: 1 << 15}  # moving between folders, truncating, ioctl of devices
_TCP = 0b11  # binding and connecting, since version 4
_SCOPES = 0b11  # abstract sockets and signals, since version 6


@functools.cache
def _libc() -> Any:
    return ctypes.CDLL(None, use_errno=True)


def call(name: str, *arguments: Any) -> int:
    """Call a function of the C library that returns -1 for an error."""
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


def close_files() -> str:
    """Let this thread and its children open, make, remove or execute no file, and use no TCP, for good."""
    try:
        version = call("syscall", _CREATE_RULESET, None, 0, _VERSION_FLAG)
        no_new_privileges()
        rules = _create_ruleset(version)
        try:
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


# Name, number on x86_64, number on aarch64; "-" where the machine has no such call.
_ALLOWED = """
    read 0 63, write 1 64, readv 19 65, writev 20 66, pread64 17 67, lseek 8 62
    close 3 57, close_range 436 436
    fstat 5 80, getcwd 79 17, dup 32 23, dup2 33 -, dup3 292 24
    poll 7 -, ppoll 271 73, select 23 -, pselect6 270 72
    recvfrom 45 207, recvmsg 47 212, getsockname 51 204, getsockopt 55 209
    mmap 9 222, munmap 11 215, mremap 25 216, mprotect 10 226, brk 12 214
    rseq 334 293, membarrier 324 283, gettid 186 178, sched_yield 24 124, getcpu 309 168
    rt_sigaction 13 134, rt_sigprocmask 14 135, rt_sigreturn 15 139, rt_sigpending 127 136
    rt_sigsuspend 130 133, rt_sigtimedwait 128 137, sigaltstack 131 132, restart_syscall 219 128
    pause 34 -, alarm 37 -, getitimer 36 102, setitimer 38 103
    nanosleep 35 101, gettimeofday 96 169, time 201 -, times 100 153, getrlimit 97 163
    getpid 39 172, getppid 110 173, getuid 102 174, geteuid 107 175, getgid 104 176, getegid 108 177
    uname 63 160, getrandom 318 278, exit 60 93, exit_group 231 94
"""
_WITH_ARGUMENTS = """
    clone 56 220, ioctl 16 29, fcntl 72 25, prctl 157 167, prlimit64 302 261, sendto 44 206
    futex 202 98, madvise 28 233, sched_getaffinity 204 123
    clock_gettime 228 113, clock_getres 229 114, clock_nanosleep 230 115
"""
_SECCOMP = {"x86_64": 317, "aarch64": 277}
_ARCHITECTURE = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_CLONE3 = 435
_LAST_CONSIDERED = 462  # mseal, Linux 6.10; the numbers of x86_64's x32 begin far above

_CLONE_MASK, _CLONE_THREAD = 0x7E030000, 0x00010000  # a thread, without a new namespace
# None of these sets flags that all holders of an open file share, as F_SETFL and FIONBIO do.
_IOCTLS = (0x5401, 0x5413, 0x541B, 0x5450, 0x5451)  # a terminal's, bytes waiting, closing on exec
_FCNTLS = (0, 1, 2, 3, 1030)  # duplicating, closing on exec; not owners and their signals, locks, leases
_PRCTLS = (15, 16)  # a thread's name
_FUTEX_PRIVATE, _FUTEX_COMMAND = 128, 127
_FUTEX_WAITS = (0, 9)  # WAIT and WAIT_BITSET
# What allocators ask for. Others bring pages of shared files into memory, or push them out.
_ADVICE = (0, 1, 2, 4, 8, 14, 15, 16, 17)
_OF_ANOTHER = 0x80000000  # a clock's number is negative if it is the processor clock of a process or thread

_LOAD, _AND, _EQUAL, _ABOVE, _ANY_BIT, _RETURN = 0x20, 0x54, 0x15, 0x25, 0x45, 0x06
_ALLOW, _KILL, _ERROR = 0x7FFF0000, 0x80000000, 0x00050000
_RETRY = _ERROR | errno.EAGAIN
_NUMBER_AT, _ARCHITECTURE_AT, _ARGUMENTS_AT = 0, 4, 16
_SET_FILTER, _ALL_THREADS = 1, 1

_Code = list[tuple[int, int, int, int]]


def close_calls() -> str:
    """Refuse all but the listed calls to this process's threads, for good."""
    machine, bits = os.uname().machine, struct.calcsize("P") * 8
    if machine not in _ARCHITECTURE or bits != 64:
        return f"no filter of system calls: {machine} with {bits} bits is not supported"
    code = program(machine)
    packed = struct.pack("HP", len(code) // 8, ctypes.cast(ctypes.c_char_p(code), ctypes.c_void_p).value)
    try:
        no_new_privileges()
        thread = call("syscall", _SECCOMP[machine], _SET_FILTER, _ALL_THREADS, packed)
    except OSError as error:
        return f"no filter of system calls: {error.strerror or error}"
    return f"no filter of system calls: thread {thread} has a different one" if thread else ""


@functools.cache
def program(machine: str) -> bytes:
    """Return the filter for ``machine`` (x86_64 or aarch64) as instructions of 8 bytes."""
    number = _numbers(_WITH_ARGUMENTS, machine)
    code: _Code = [
        *_load(_ARCHITECTURE_AT),
        (_EQUAL, 1, 0, _ARCHITECTURE[machine]),
        (_RETURN, 0, 0, _KILL),  # numbers mean other calls on another architecture
        *_load(_NUMBER_AT),
        (_ABOVE, 0, 1, _LAST_CONSIDERED),
        (_RETURN, 0, 0, _ERROR | errno.ENOSYS),
        (_EQUAL, 0, 1, _CLONE3),  # its flags lie in memory, which a filter cannot read
        (_RETURN, 0, 0, _ERROR | errno.ENOSYS),
    ]
    for allowed in _numbers(_ALLOWED, machine).values():
        code += [(_EQUAL, 0, 1, allowed), (_RETURN, 0, 0, _ALLOW)]
    clone = [*_load(_low(0)), (_AND, 0, 0, _CLONE_MASK), *_one_of(_CLONE_THREAD)]
    code += _when(number["clone"], clone)
    code += _when(number["ioctl"], [*_load(_low(1)), *_one_of(*_IOCTLS)])
    code += _when(number["fcntl"], [*_load(_low(1)), *_one_of(*_FCNTLS)])
    code += _when(number["prctl"], [*_load(_low(0)), *_one_of(*_PRCTLS)])
    code += _when(number["prlimit64"], _null(_low(0), _low(2), _low(2) + 4))  # reading its own limits
    code += _when(number["sendto"], _null(_low(4), _low(4) + 4))  # without an address: to the connected end
    code += _when(number["futex"], _futex())
    code += _when(number["madvise"], [*_load(_low(2)), *_one_of(*_ADVICE)])
    code += _when(number["sched_getaffinity"], _null(_low(0)))  # its own
    for clock in ("clock_gettime", "clock_getres", "clock_nanosleep"):
        code += _when(number[clock], [*_load(_low(0)), (_AND, 0, 0, _OF_ANOTHER), *_one_of(0)])
    code.append((_RETURN, 0, 0, _ERROR | errno.EPERM))
    return b"".join(struct.pack("=HBBI", *line) for line in code)


def _futex() -> _Code:
    private = [*_load(_low(1)), (_ANY_BIT, 0, 1, _FUTEX_PRIVATE), (_RETURN, 0, 0, _ALLOW)]
    waits = [line for wait in _FUTEX_WAITS for line in ((_EQUAL, 0, 1, wait), (_RETURN, 0, 0, _RETRY))]
    return [*private, (_AND, 0, 0, _FUTEX_COMMAND), *waits, (_RETURN, 0, 0, _ERROR | errno.EPERM)]


def _numbers(table: str, machine: str) -> dict[str, int]:
    column = 1 + list(_ARCHITECTURE).index(machine)
    entries = [entry.split() for line in table.strip().splitlines() for entry in line.split(",")]
    return {entry[0]: int(entry[column]) for entry in entries if entry[column] != "-"}


def _low(argument: int) -> int:
    """Offset of an argument's lower half; both machines are little-endian."""
    return _ARGUMENTS_AT + 8 * argument


def _load(place: int) -> _Code:
    return [(_LOAD, 0, 0, place)]


def _when(number: int, block: _Code) -> _Code:
    return [(_EQUAL, 0, len(block), number), *block]


def _one_of(*values: int) -> _Code:
    tests = [line for value in values for line in ((_EQUAL, 0, 1, value), (_RETURN, 0, 0, _ALLOW))]
    return [*tests, (_RETURN, 0, 0, _ERROR | errno.EPERM)]


def _null(*places: int) -> _Code:
    tests: _Code = []
    for place in places:
        tests += [*_load(place), (_EQUAL, 1, 0, 0), (_RETURN, 0, 0, _ERROR | errno.EPERM)]
    return [*tests, (_RETURN, 0, 0, _ALLOW)]


if sys.platform != "win32":
    import resource


IsolationLevel = Literal["full", "limits_only", "none"]

_OPEN_FILES = 64
_STACK = 8 << 20
_weaknesses: list[str] = []  # why the level is not full; children inherit it
_parent: dict[str, int] = {}  # the fork server: its process id, threads, bytes of address space


def seal_parent() -> None:
    """Close all files to this process and its children, and give up its rights; once.

    Call it after the imports. It closes files to the calling thread, the only one that a fork inherits; a
    process that runs code without a fork must have no other thread. Nothing is raised if the system lacks
    something.
    """
    _parent.update(pid=os.getpid(), size=_address_space(), threads=_threads())
    if sys.platform != "linux":
        _note(f"{sys.platform} has neither Landlock nor seccomp")
        return
    _try("capabilities are kept", drop_capabilities)
    _try("the memory is open to debuggers", lambda: call("prctl", _PR_SET_DUMPABLE, 0, 0, 0, 0))
    _note(close_files())


def seal_child(*, memory: int, seconds: float) -> None:
    """Set the limits of a child (``memory`` in bytes beyond what it has now) and close its system calls."""
    if sys.platform == "win32":
        return
    _set_limits(memory, seconds)
    if sys.platform != "linux":
        return
    parent = _parent.get("pid", os.getpid())
    if parent != os.getpid():
        dies_with = _PR_SET_PDEATHSIG, int(signal.SIGKILL)
        _try("the process may outlive its parent", lambda: call("prctl", *dies_with, 0, 0, 0))
        if os.getppid() != parent:
            os._exit(1)  # the parent ended before that call
    elif _parent.get("threads", 1) > 1:
        _note("files are open to threads that were started before they were closed")
    if weakness := close_calls():
        _note(weakness)
    else:
        os.fstat = _fstat


# The head of ``struct stat``: arch/x86/include/uapi/asm/stat.h, include/uapi/asm-generic/stat.h.
_STAT = {"x86_64": "=3Q3I4xQ3q6q", "aarch64": "=2Q4IQ8xqi4xq6q"}


def _fstat(fd: int) -> os.stat_result:
    """:func:`os.fstat` by the kernel's call of that name, which takes no path."""
    machine, buffer = os.uname().machine, ctypes.create_string_buffer(256)
    call("syscall", _numbers(_ALLOWED, machine)["fstat"], fd, buffer)
    dev, ino, nlink, mode, *owners, rdev, size, blksize, blocks, a, an, m, mn, c, cn = struct.unpack_from(
        _STAT[machine], buffer
    )
    mode, nlink = (nlink, mode) if machine == "aarch64" else (mode, nlink)
    times = [second + 1e-9 * part for second, part in ((a, an), (m, mn), (c, cn))]
    exact = [second * 10**9 + part for second, part in ((a, an), (m, mn), (c, cn))]
    head = (mode, ino, dev, nlink, *owners, size, a, m, c)
    return os.stat_result((*head, *times, *exact, blksize, blocks, rdev))


def self_test(canary: Path) -> tuple[IsolationLevel, str]:
    """Try in a sealed child what must fail."""
    if sys.platform == "win32":
        return "none", "win32 has no limits for processes"
    possible = [action for action, attempt in _ATTEMPTS.items() if not _is_denied(attempt, canary)]
    if not possible and not _weaknesses:
        return "full", ""
    abilities = [f"the code can {', '.join(possible)}"] if possible else []
    reason = "; ".join([*abilities, *_weaknesses])
    is_limited = resource.getrlimit(resource.RLIMIT_CPU)[1] != resource.RLIM_INFINITY
    is_limited = is_limited and resource.getrlimit(resource.RLIMIT_FSIZE)[1] == 0
    return ("limits_only" if is_limited else "none"), reason


def _set_limits(memory: int, seconds: float) -> None:
    limits = {
        "RLIMIT_CORE": 0,
        "RLIMIT_FSIZE": 0,
        "RLIMIT_NOFILE": _OPEN_FILES,
        "RLIMIT_STACK": _STACK,
        "RLIMIT_CPU": math.ceil(time.process_time() + seconds) + 1,
    }
    size = _address_space() or _parent.get("size", 0)
    if size:
        limits["RLIMIT_AS"] = size + memory
    else:
        _note("no limit of memory")
    for name, value in limits.items():
        _try(f"no {name}", functools.partial(_lower_limit, name, value))


def _lower_limit(name: str, value: int) -> None:
    number = getattr(resource, name)
    hard = resource.getrlimit(number)[1]
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    resource.setrlimit(number, (value, value))


def _address_space() -> int:
    """Bytes of the address space; 0 where it cannot be read, as on macOS or behind closed files."""
    try:
        pages = int(Path("/proc/self/statm").read_bytes().split()[0])
    except OSError:
        return 0
    return pages * mmap.PAGESIZE


def _threads() -> int:
    """Threads of this process and its libraries."""
    try:
        return len(list(Path("/proc/self/task").iterdir()))
    except OSError:
        return 1


def _try(weakness: str, step: Callable[[], object]) -> None:
    try:
        step()
    except (OSError, ValueError) as error:
        _note(f"{weakness}: {error}")


def _note(weakness: str) -> None:
    if weakness and weakness not in _weaknesses:
        _weaknesses.append(weakness)


def _is_denied(attempt: Callable[[Path], object], canary: Path) -> bool:
    try:
        attempt(canary)
    except (PermissionError, FileNotFoundError):  # macOS has no /proc
        return True
    except OSError:
        return False
    return False


def _read(file: Path) -> None:
    with file.open("rb"):
        pass


def _fork() -> None:
    if not os.fork():
        os._exit(0)
    os.wait()


# Each does no harm where it succeeds.
_ATTEMPTS: dict[str, Callable[[Path], object]] = {
    "read files": _read,
    "name paths": lambda _: os.stat("/"),  # noqa: PTH116 - the call itself is tested
    "list folders": lambda _: os.listdir("/"),  # noqa: PTH208 - the call itself is tested
    "read /proc": lambda _: _read(Path("/proc/self/environ")),
    "open TCP sockets": lambda _: socket.socket(socket.AF_INET, socket.SOCK_STREAM).close(),
    "open UDP sockets": lambda _: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).close(),
    "open UNIX sockets": lambda _: socket.socket(socket.AF_UNIX, socket.SOCK_STREAM).close(),
    "make processes": lambda _: _fork(),
    "start programs": lambda _: os.execv(f"{__file__}/none", ["none"]),  # noqa: S606 - "not a directory"
    "send signals": lambda _: os.kill(os.getpid(), 0),
}


_time_ns = time.time_ns
_OF_THE_DAY = (0, 5, 11)
"""Linux's numbers of the clocks that show the day: CLOCK_REALTIME, its coarse form, and CLOCK_TAI."""
_ahead = 0  # nanoseconds of the set clock before the machine's


def set_clock_at_end(frames: Frames) -> None:
    """Set the clock to the close of the last session of frames; without any, to 1970."""
    global _ahead  # noqa: PLW0603 - a process has one clock
    ends = [
        frame.sessions[-1] for fields in frames.values() for frame in fields.values() if len(frame.sessions)
    ]
    now = pd.Timestamp(max(ends, default=np.datetime64(0, "us"))) + PHASE_TIME["close"]
    _ahead = round(now.to_pydatetime().timestamp() * 1e9) - _time_ns()  # of the process's own zone


def install_clock() -> None:
    """Let this process read the clock set at the end of its frames, once; until then the machine's."""
    for name in ("localtime", "gmtime", "ctime"):
        setattr(time, name, _since_epoch(getattr(time, name)))
    for name in ("strftime", "asctime"):
        setattr(time, name, _of_fields(getattr(time, name)))
    for name, scale in (("clock_gettime", 1e-9), ("clock_gettime_ns", 1)):
        setattr(time, name, _of_clock(getattr(time, name), scale))
    time.time_ns = lambda: _time_ns() + _ahead
    time.time = lambda: time.time_ns() / 1e9
    # The type takes no attribute, its dictionary does. `today` and pandas call `now` and `time`.
    (attributes,) = gc.get_referents(dt.datetime.__dict__)
    attributes["now"] = classmethod(lambda cls, tz=None: cls.fromtimestamp(time.time(), tz))
    attributes["utcnow"] = classmethod(lambda cls: cls.now(dt.UTC).replace(tzinfo=None))
    ctypes.pythonapi.PyType_Modified(ctypes.py_object(dt.datetime))


def _since_epoch(function: Callable[[float], Any]) -> Callable[..., Any]:
    return lambda seconds=None: function(time.time() if seconds is None else seconds)


def _of_clock(function: Callable[[int], Any], scale: float) -> Callable[[int], Any]:
    return lambda clock: function(clock) + (_ahead * scale if clock in _OF_THE_DAY else 0)


def _of_fields(function: Callable[..., Any]) -> Callable[..., Any]:
    def with_now(*arguments: Any) -> Any:
        own = 1 if function.__name__ == "strftime" else 0
        return function(*arguments) if len(arguments) > own else function(*arguments, time.localtime())

    return with_now
