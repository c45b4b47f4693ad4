"""A seccomp filter with an allow-list of system calls.

The list is what numpy, pandas, TA-Lib, pyarrow and Python's threads need once they are imported. All other
calls (sockets, programs, processes, signals, changes of files and rights) fail with EPERM, which Python
raises as PermissionError. Numbers past the last one considered fail with ENOSYS, as on an old kernel, because
C libraries then try the older call.

What two processes could talk by is refused: a futex without ``FUTEX_PRIVATE_FLAG`` is keyed by the file under
it, and tells one process how many wait in another. Only the wait of ``pthread_join`` comes without the flag,
because the kernel wakes it so; it fails with EAGAIN, upon which C libraries look at the thread again.

Sources: Linux ``Documentation/userspace-api/seccomp_filter.rst``, ``include/uapi/linux/futex.h`` and, for
clocks of other processes, ``include/linux/posix-timers.h``; the numbers are those of
``arch/x86/entry/syscalls/syscall_64.tbl`` and, for aarch64, ``include/uapi/asm-generic/unistd.h``.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import os
import struct

from quantgraph.sandbox._linux import call, no_new_privileges

# Name, number on x86_64, number on aarch64; "-" where the machine has no such call.
_ALLOWED = """
    read 0 63, write 1 64, readv 19 65, writev 20 66, pread64 17 67, lseek 8 62
    close 3 57, close_range 436 436
    open 2 -, openat 257 56, getdents 78 -, getdents64 217 61, getcwd 79 17
    stat 4 -, lstat 6 -, fstat 5 80, newfstatat 262 79, statx 332 291
    access 21 -, faccessat 269 48, faccessat2 439 439
    dup 32 23, dup2 33 -, dup3 292 24, pipe 22 -, pipe2 293 59
    poll 7 -, ppoll 271 73, select 23 -, pselect6 270 72
    recvfrom 45 207, recvmsg 47 212, getsockname 51 204, getsockopt 55 209
    mmap 9 222, munmap 11 215, mremap 25 216, mprotect 10 226, brk 12 214
    rseq 334 293, membarrier 324 283, gettid 186 178, sched_yield 24 124, getcpu 309 168
    rt_sigaction 13 134, rt_sigprocmask 14 135, rt_sigreturn 15 139, rt_sigpending 127 136
    rt_sigsuspend 130 133, rt_sigtimedwait 128 137, sigaltstack 131 132, restart_syscall 219 128
    pause 34 -, alarm 37 -, getitimer 36 102, setitimer 38 103
    nanosleep 35 101, gettimeofday 96 169, time 201 -, times 100 153, getrusage 98 165, getrlimit 97 163
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
    """Refuse all but the listed calls to this process's threads, for good.

    Returns
    -------
    str
        Empty, or why this system cannot do it.
    """
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
