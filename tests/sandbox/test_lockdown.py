"""A sealed process cannot reach what it has no business with, and can still compute."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import quantgraph
from quantgraph.sandbox import _lockdown as _seccomp
from quantgraph.sandbox._archive import open_archive
from quantgraph.sandbox._server import code_environment

PROBE = Path(__file__).with_name("lockdown_probe.py")
NOBODY = 65534
LIMITS = {"memory": 1 << 30, "seconds": 20}
SEALED = {"parent": True, "child": LIMITS}
# Its own allocators reserve a gigabyte of addresses, which the limit of memory counts, and start a thread.
ARROW = {"ARROW_DEFAULT_MEMORY_POOL": "system", "JE_ARROW_MALLOC_CONF": "background_thread:false"}
USERS = ["own", *(["nobody"] if os.getuid() == 0 else [])]

MAPPED = (
    "import numpy._core._multiarray_umath as library\n"
    "page = ctypes.cast(ctypes.PyDLL(library.__file__).PyInit__multiarray_umath, ctypes.c_void_p).value & ~4095\n"
)
"""A page of a library, which all processes that load it share, at the address ``page``."""

# Each works where nothing is sealed. {canary}: a file that everybody may read, in a folder of everybody's.
REFUSED = {
    "a file": "open({canary!r})",
    "a file without Python's open": "os.open({canary!r}, os.O_RDONLY)",
    "a file past the C library": "name = ctypes.create_string_buffer({canary!r}.encode()); raw({openat}, -100, ctypes.addressof(name), 0)",
    "a file by pandas": "pd.read_csv({canary!r})",
    "a file by numpy": "np.fromfile({canary!r})",
    "a file by pyarrow": "import pyarrow; pyarrow.memory_map({canary!r})",
    "accounts": "open('/etc/passwd')",
    "a file of the standard library": "open(os.__file__)",
    "whether a file is there": "os.stat({canary!r})",
    "whether a link is there": "os.lstat('/proc/self/exe')",
    "what the root folder is": "os.stat('/')",
    "whether a file may be read": "os.access({canary!r}, os.R_OK) or os.stat({canary!r})",
    "a descriptor by the call that takes paths": "os.stat(0)",
    "a folder's entries": "os.scandir({folder!r})",
    "a file system": "os.statvfs('/')",
    "the name of a descriptor": "os.readlink('/proc/self/fd/0')",
    "a pipe": "os.pipe()",
    "the root folder": "os.listdir('/')",
    "the working folder": "os.listdir('.')",
    "the project": "open({package!r} + '/__init__.py')",
    "other packages": "open({other!r})",
    "what is said of the packages": "open({numpy_info!r} + '/METADATA')",
    "the list of packages": "os.listdir({site!r})",
    "own environment": "open('/proc/self/environ')",
    "own memory": "open('/proc/self/mem')",
    "own memory's map": "open('/proc/self/maps')",
    "own descriptors": "os.listdir('/proc/self/fd')",
    "the list of processes": "os.listdir('/proc')",
    "the parent's command": "open(f'/proc/{{os.getppid()}}/cmdline')",
    "the system": "open('/sys/devices/system/cpu/online')",
    "a symbolic link": "os.readlink('/proc/self/exe')",
    "writing in the working folder": "open('made', 'w')",
    "writing in a folder of everybody's": "open({canary!r} + '.new', 'w')",
    "writing over a file": "open({canary!r}, 'r+')",
    "writing to shared memory": "name = f'/dev/shm/made-{{os.getpid()}}'; open(name, 'w'); os.unlink(name)",
    "a file without a name": "os.open({folder!r}, os.O_TMPFILE | os.O_RDWR)",
    "shared memory": "import _posixshmem as p; p.shm_open('/made', os.O_CREAT | os.O_RDWR, 0o600); p.shm_unlink('/made')",
    "a file in memory": "os.memfd_create('made')",
    "making a folder": "os.mkdir({folder!r} + '/sub')",
    "making a pipe": "os.mkfifo({folder!r} + '/pipe')",
    "making a link": "os.link({spare!r}, {folder!r} + '/link')",
    "making a symbolic link": "os.symlink({spare!r}, {folder!r} + '/symlink')",
    "renaming": "os.rename({moved!r}, {folder!r} + '/renamed')",
    "mode bits": "os.chmod({victim!r}, 0o600)",
    "times": "os.utime({victim!r})",
    "cutting": "os.truncate({victim!r}, 0)",
    "removing": "os.unlink({victim!r})",
    "moving to another folder": "os.chdir('/')",
    "TCP": "import socket; socket.socket()",
    "TCP of version 6": "import socket; socket.socket(socket.AF_INET6)",
    "UDP": "import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM)",
    "UNIX sockets": "import socket; socket.socket(socket.AF_UNIX)",
    "netlink": "import socket; socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)",
    "a pair of sockets": "import socket; socket.socketpair()",
    "fork": "os.fork() or os._exit(0)",
    "a program": "import subprocess; subprocess.run(['/bin/true'])",
    "a program in this process's place": "os.execv('/bin/true', ['true'])",
    "a program by posix_spawn": "os.posix_spawn('/bin/true', ['true'], {{}})",
    "multiprocessing": "import multiprocessing as m; m.get_context('fork').Process(target=int).start()",
    "a signal to the parent": "os.kill(os.getppid(), 0)",
    "a signal to oneself": "os.kill(os.getpid(), 0)",
    "a signal by descriptor": "import signal; signal.pidfd_send_signal(os.pidfd_open(os.getpid()), 0)",
    "another user": "os.setuid(os.getuid())",
    "a session": "os.setsid()",
    "priority": "os.setpriority(os.PRIO_PROCESS, 0, 19)",
    "processors": "os.sched_setaffinity(0, os.sched_getaffinity(0))",
    "signals by a descriptor's owner": "import fcntl; fcntl.fcntl(1, fcntl.F_SETOWN, os.getppid())",
    "a signal of one's choice": "import fcntl; fcntl.fcntl(1, 10, 9)",
    "flags that others share": "import fcntl; fcntl.fcntl(0, fcntl.F_SETFL, os.O_NONBLOCK)",
    "not waiting, for all who share": "os.set_blocking(0, False)",
    "debugging": "raw({ptrace}, 0, 0, 0, 0)",
    "being debugged": "raw({prctl}, 4, 1, 0, 0, 0)",
    "outliving the parent": "raw({prctl}, 1, 0, 0, 0, 0)",
    "another's memory": "raw({process_vm_readv}, os.getpid(), 0, 0, 0, 0, 0)",
    "a child by clone": "raw({clone}, 17, 0, 0, 0, 0) or os._exit(0)",
    "waking who waits on a file's page": MAPPED + "raw({futex}, page, 1, 1, 0, 0, 0)",
    "moving who waits on a file's page": MAPPED + "raw({futex}, page, 3, 1, 1, page + 64, 0)",
    "pushing a file out of memory": MAPPED + "raw({madvise}, page, 4096, 21)",
    "the processor time of another": "time.clock_gettime(~os.getppid() << 3 | 2)",
    "the processors of another": "os.sched_getaffinity(os.getppid())",
    "how much memory is free": "told = ctypes.create_string_buffer(256); raw({sysinfo}, ctypes.addressof(told))",
}
# A socket that may be sent to an address, a limit that may be set: the same call is allowed otherwise.
NEVER = {
    "a typed character": "import fcntl; fcntl.ioctl(0, 0x5412, b'x')",
    "sending to an address": "raw({sendto}, 1, 0, 0, 0, 4096, 16)",
    "a limit": "raw({prlimit64}, 0, 7, 4096, 0)",
    "another's limits": "raw({prlimit64}, os.getppid(), 7, 0, 0)",
    "a thread in new namespaces": "raw({clone}, 0x10000 | 0x10000000, 0, 0, 0, 0)",
}
CALLS = """
openat 257 56, ptrace 101 117, prctl 157 167, process_vm_readv 310 270, clone 56 220, sendto 44 206, prlimit64 302 261
futex 202 98, madvise 28 233, sysinfo 99 179
"""

# Linux, syscall_64.tbl and asm-generic/unistd.h: the calls that must fail whatever they are given.
DANGEROUS = """
socket 41 198, socketpair 53 199, bind 49 200, listen 50 201, accept 43 202, connect 42 203, accept4 288 242
sendmsg 46 211, sendmmsg 307 269, recvmmsg 299 243, setsockopt 54 208
execve 59 221, execveat 322 281, fork 57 -, vfork 58 -
ptrace 101 117, process_vm_readv 310 270, process_vm_writev 311 271, process_madvise 440 440, kcmp 312 272
kill 62 129, tkill 200 130, tgkill 234 131, rt_sigqueueinfo 129 138, rt_tgsigqueueinfo 297 240
pidfd_send_signal 424 424, pidfd_open 434 434, pidfd_getfd 438 438, timer_create 222 107, signalfd4 289 74
unshare 272 97, setns 308 268, mount 165 40, umount2 166 39, pivot_root 155 41, chroot 161 51, chdir 80 49
open_tree 428 428, move_mount 429 429, fsopen 430 430, fsmount 432 432, mount_setattr 442 442
bpf 321 280, perf_event_open 298 241, add_key 248 217, request_key 249 218, keyctl 250 219
userfaultfd 323 282, io_uring_setup 425 425, io_uring_enter 426 426, io_uring_register 427 427
memfd_create 319 279, memfd_secret 447 447, shmget 29 194, shmctl 31 195, shmat 30 196
msgget 68 186, msgsnd 69 189, semget 64 190, semop 65 193, mq_open 240 180, mq_notify 244 184
init_module 175 105, finit_module 313 273, delete_module 176 106, kexec_load 246 104, reboot 169 142
setuid 105 146, setgid 106 144, setresuid 117 147, setresgid 119 149, setgroups 116 159, capset 126 91
setsid 112 157, setpgid 109 154, setpriority 141 140, sched_setaffinity 203 122, sched_setscheduler 144 119
setrlimit 160 164, name_to_handle_at 303 264, open_by_handle_at 304 265, personality 135 92
seccomp 317 277, landlock_create_ruleset 444 444, inotify_init1 294 26, fanotify_init 300 262
truncate 76 45, ftruncate 77 46, fallocate 285 47, chmod 90 -, fchmod 91 52, fchmodat 268 53, fchmodat2 452 452
chown 92 -, fchown 93 55, fchownat 260 54, link 86 -, linkat 265 37, symlink 88 -, symlinkat 266 36
rename 82 -, renameat 264 38, renameat2 316 276, unlink 87 -, unlinkat 263 35, rmdir 84 -
mkdir 83 -, mkdirat 258 34, mknod 133 -, mknodat 259 33, creat 85 -
setxattr 188 5, fsetxattr 190 7, getxattr 191 8, utimensat 280 88, readlink 89 -, readlinkat 267 78
sendfile 40 71, splice 275 76, tee 276 77, vmsplice 278 75, copy_file_range 326 285
open 2 -, openat 257 56, openat2 437 437, stat 4 -, lstat 6 -, newfstatat 262 79, statx 332 291
access 21 -, faccessat 269 48, faccessat2 439 439, getdents 78 -, getdents64 217 61, statfs 137 43, fstatfs 138 44
lgetxattr 192 9, fgetxattr 193 10, listxattr 194 11, llistxattr 195 12, removexattr 197 14, utime 132 -, utimes 235 -
inotify_add_watch 254 27, mq_unlink 241 181, uselib 134 -, fchdir 81 50, pipe 22 -, pipe2 293 59, getrusage 98 165
syslog 103 116, acct 163 89, swapon 167 224, sethostname 170 161, settimeofday 164 170, clock_settime 227 112
futex_waitv 449 449, futex_wake 454 454, futex_wait 455 455, futex_requeue 456 456, cachestat 451 451, mincore 27 232
set_robust_list 273 99, set_tid_address 218 96, fadvise64 221 223, readahead 187 213, flock 73 32, semtimedop 220 192
quotactl 179 60, ioprio_set 251 30, mbind 237 235, move_pages 279 239, iopl 172 -, ioperm 173 -, modify_ldt 154 -
"""


def numbers_in(table, machine=None):
    column = 1 if (machine or os.uname().machine) == "x86_64" else 2
    told = [entry.split() for line in table.strip().splitlines() for entry in line.split(",")]
    return {entry[0]: int(entry[column]) for entry in told if entry[column] != "-"}


# What code that computes may rely on; lazily imported modules of the library and of pandas included.
COMPUTES = {
    "groups": "df.groupby(df.index.month).agg(['mean', 'std', lambda s: s.iloc[-1]])",
    "resampling": "df.resample('W').agg({'a': 'last', 'b': 'sum'}); df['a'].resample('ME').ohlc()",
    "rolling windows": "df.rolling(5).apply(lambda w: w[-1], raw=True); df.rolling('10D').corr()",
    "query": "df.query('a > b and c < 0.5'); df.eval('d = a + b')",
    "linear algebra": "np.linalg.svd(np.random.rand(300, 300)); np.linalg.lstsq(np.random.rand(50, 3), np.random.rand(50))",
    "exponential windows": "df.ewm(span=5).mean(); df.ewm(halflife='2D', times=df.index).mean()",
    "text": "s = pd.Series(['a.SZ', 'b.SH']); s.str.split('.').str[0].str.upper().str.contains('A')",
    "text of pyarrow": "assert pd.Series(['a']).dtype == 'str'; pd.Series(['ab']).astype('string[pyarrow]').str.len()",
    "merging": "df.merge(df, left_index=True, right_index=True); pd.merge_asof(df.reset_index(), df.reset_index(), on='index')",
    "tables": "pd.concat([df, df], axis=1); df.pivot_table(index=df.index.month, values='a'); df.stack().unstack()",
    "ranks": "df.rank(pct=True); df.quantile(.3); pd.qcut(df['a'], 4); df.corr(method='spearman'); df.corr(method='kendall')",
    "indicators": "import talib.abstract as ta; talib.RSI(df['a'].to_numpy(), 14); ta.SMA(df.rename(columns={'a': 'close'}), 3)",
    "time zones": "df.tz_localize('Asia/Shanghai').tz_convert('America/New_York'); import dateutil.tz as z; assert z.gettz('Asia/Tokyo')",
    "own time zones": "import zoneinfo, datetime; datetime.datetime.now(zoneinfo.ZoneInfo('Europe/Berlin')); assert zoneinfo.available_timezones()",
    "calendars": "from pandas.tseries.holiday import USFederalHolidayCalendar as C; C().holidays('2020', '2021'); df.index + pd.offsets.BDay(2)",
    "chance": "import random, secrets; np.random.default_rng().normal(size=9); random.random(); secrets.token_hex(); os.urandom(3)",
    "threads": "import concurrent.futures as cf\nwith cf.ThreadPoolExecutor(8) as e: assert sum(e.map(lambda n: n * n, range(100))) == 328350",
    "threads of C that are joined": "c, threads = ctypes.CDLL(None), [ctypes.c_ulong() for _ in range(8)]\nfor t in threads: assert not c.pthread_create(ctypes.byref(t), None, c.usleep, ctypes.c_void_p(30_000))\nfor t in threads: assert not c.pthread_join(t, None)",
    "threads of pyarrow": "import pyarrow as pa, pyarrow.compute as pc; pa.set_cpu_count(4); told = pa.table({'k': np.arange(1 << 20) % 7, 'v': np.ones(1 << 20)}).group_by('k').aggregate([('v', 'sum')]).num_rows; pa.set_cpu_count(1); assert told == 7",
    "threads that are joined": "import threading\nthreads = [threading.Thread(target=time.sleep, args=(.03,)) for _ in range(8)]\nfor t in threads: t.start()\nfor t in threads: t.join()",
    "garbage": "import gc; kept = [bytearray(1 << 20) for _ in range(200)]; del kept; gc.collect(); np.ones((4000, 4000)).sum()",
    "the library": "import wave, colorsys, statistics, decimal, fractions, csv, difflib, hashlib, uuid, xml.etree.ElementTree; hashlib.sha256(b'')",
    "text files in memory": "import io; pd.read_csv(io.StringIO(df.to_csv())); df.to_json(); repr(df); df.to_html(); df.info(buf=io.StringIO())",
    "pyarrow": "import pyarrow.compute as pc, pyarrow as pa; pc.sum(pa.Table.from_pandas(df)['a']); df.convert_dtypes(dtype_backend='pyarrow')",
    "more of numpy": "np.fft.fft(np.ones(99)); np.random.multivariate_normal([0, 0], np.eye(2)); np.ma.array([1]); np.polynomial.Polynomial.fit(range(5), range(5), 1)",
    "the clock": "import datetime; time.sleep(.01); time.strftime('%c'); datetime.datetime.now(); pd.Timestamp.now()",
    "the machine": "import platform, shutil; platform.platform(); os.cpu_count(); os.getpid(); os.getcwd(); shutil.get_terminal_size()",
    "an alarm": "import signal; signal.signal(14, lambda *_: None); signal.setitimer(signal.ITIMER_REAL, .01); signal.pause()",
    "a traceback": "import traceback\ntry: pd.Series([1]).iloc[9]\nexcept IndexError: assert 'IndexError' in traceback.format_exc()",
    "copies": "import pickle, copy; pickle.loads(pickle.dumps(df)); copy.deepcopy(df)",
    "own limits": "import resource; resource.getrlimit(resource.RLIMIT_FSIZE)",
}  # fmt: skip


def probe(codes, told):
    """What became of each code in a process locked down as told."""
    inherited = open_archive()
    told = {**told, "archive": inherited[0]}
    ran = subprocess.run(
        [sys.executable, "-P", "-s", "-W", "ignore", str(PROBE), json.dumps(told)],
        pass_fds=inherited,
        input=json.dumps(codes),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**code_environment(), **ARROW},
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def as_user(user):
    return {"user": NOBODY} if user == "nobody" else {}


@pytest.fixture(scope="module")
def world():
    """Makes what the codes ask for: a folder and files in it that are everybody's."""
    with contextlib.ExitStack() as folders:
        yield lambda: facts_of(Path(folders.enter_context(tempfile.TemporaryDirectory())))


def facts_of(folder):
    site, package = Path(pytest.__file__).parents[1], Path(quantgraph.__file__).parent
    files = {name: folder / name for name in ("canary", "spare", "moved", "victim")}
    folder.chmod(0o777)
    for file in files.values():
        file.write_text("a\n1\n")
        file.chmod(0o666)
    places = {"folder": folder, "package": package, "other": pytest.__file__, "site": site, **files}
    info = next(site.glob("numpy-*.dist-info"))
    return {
        **{name: str(place) for name, place in places.items()},
        "numpy_info": str(info),
        **numbers_in(CALLS),
    }


@pytest.fixture
def facts(world):
    return world()


@pytest.fixture(scope="module", params=USERS)
def refused(request, world):
    facts = world()
    codes = {name: code.format(**facts) for name, code in {**REFUSED, **NEVER}.items()}
    return probe(codes, {**SEALED, **as_user(request.param), "together": True})


def test_a_sealed_process_is_refused(refused, subtests):
    for what in [*REFUSED, *NEVER]:
        with subtests.test(what=what):
            kind, said = refused[what]
            assert kind == "PermissionError", (kind, said)


def test_every_attempt_works_where_nothing_is_sealed(facts):
    told = probe({name: code.format(**facts) for name, code in REFUSED.items()}, {})
    failed = {name: said for name, said in told.items() if said[0] not in {"fine", "died"}}
    assert failed == {}


@pytest.mark.parametrize("user", USERS)
def test_dangerous_system_calls_fail_whatever_they_are_given(user):
    codes = {name: f"raw({number}, 0, 0, 0, 0, 0, 0)" for name, number in numbers_in(DANGEROUS).items()}
    told = probe(codes, {**SEALED, **as_user(user), "together": True})
    expected = ["PermissionError", f"[Errno {errno.EPERM}] {os.strerror(errno.EPERM)}"]
    assert {name: said for name, said in told.items() if said != expected} == {}


def test_calls_by_other_numbers_do_not_slip_through():
    codes = {
        "clone3, whose flags lie in memory": "raw(435, 0, 0)",
        "x32's fork": "raw(0x40000000 | 57)",
        "a call of a later kernel": "raw(463, 0, 0, 0, 0, 0, 0)",
        "no call at all": "raw(-2)",
    }
    told = probe(codes, {**SEALED, "together": True})
    assert {said[1] for said in told.values()} == {f"[Errno {errno.ENOSYS}] {os.strerror(errno.ENOSYS)}"}


def test_a_wait_that_others_could_end_returns_at_once_and_a_private_one_waits():
    wait = (
        "import errno\nword, soon = ctypes.c_int(7), (ctypes.c_long * 2)(0, 1)\n"
        "try: raw({futex}, ctypes.addressof(word), {kind}, 7, ctypes.addressof(soon), 0, -1)\n"
        "except OSError as error: told = errno.errorcode[error.errno]"
    )
    kinds = {"WAIT": 0, "WAIT_BITSET": 9, "WAIT_BITSET by the clock": 9 | 256, "WAIT of its own": 128}
    number = numbers_in(CALLS)["futex"]
    codes = {name: wait.format(futex=number, kind=kind) for name, kind in kinds.items()}
    told = {name: said[1] for name, said in probe(codes, {**SEALED, "together": True}).items()}
    assert told == {name: "'ETIMEDOUT'" if name.endswith("own") else "'EAGAIN'" for name in kinds}


MACHINE_CODE = """
import mmap
page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
page.write(bytes.fromhex({code!r}))
ctypes.CFUNCTYPE(ctypes.c_long)(ctypes.addressof(ctypes.c_char.from_buffer(page)))()
"""


def test_a_call_in_the_32_bit_manner_ends_the_process():
    fork = "b802000000cd80c3"  # mov eax, 2; int 0x80; ret
    nothing = "b800000000c3"  # mov eax, 0; ret
    codes = {"nothing": MACHINE_CODE.format(code=nothing), "fork": MACHINE_CODE.format(code=fork)}
    assert probe(codes, SEALED) == {"nothing": ["fine", "None"], "fork": ["died", str(-signal.SIGSYS)]}


@pytest.fixture(scope="module", params=USERS)
def computed(request):
    return probe(COMPUTES, {**SEALED, **as_user(request.param), "together": True})


def test_a_sealed_process_computes(computed, subtests):
    for what in COMPUTES:
        with subtests.test(what=what):
            assert computed[what][0] == "fine", computed[what]


ON_A_FILE = {
    "what it is": "assert os.fstat(descriptor).st_size == 4 and os.fstat(fd=descriptor).st_mode & 0o777 == 0o666",
    "no descriptor": "import errno\ntry: os.fstat(63)\nexcept OSError as error: assert error.errno == errno.EBADF",
    "a raw file": "import io; assert io.FileIO(os.dup(descriptor)).read(1) == b'a'",
    "lines": "os.lseek(descriptor, 0, 0); assert open(os.dup(descriptor)).readlines() == ['a\\n', '1\\n']",
    "an array": "os.lseek(descriptor, 0, 0); assert np.fromfile(open(os.dup(descriptor), 'rb'), 'u1').tolist() == [97, 10, 49, 10]",
    "a table": "os.lseek(descriptor, 0, 0); assert pd.read_csv(open(os.dup(descriptor), 'rb'))['a'].tolist() == [1]",
    "pyarrow": "import pyarrow as pa; os.lseek(descriptor, 0, 0); assert pa.PythonFile(open(os.dup(descriptor), 'rb')).read() == b'a\\n1\\n'",
    "a map": "import mmap; assert mmap.mmap(descriptor, 4, prot=mmap.PROT_READ)[:] == b'a\\n1\\n'",
    "a map of an unknown length": "import mmap\ntry: mmap.mmap(descriptor, 0, prot=mmap.PROT_READ)\nexcept (OSError, ValueError): pass",
    "its name by /proc": "try: os.stat(f'/proc/self/fd/{descriptor}')\nexcept PermissionError: pass",
}


def test_files_on_descriptors_work_without_the_c_librarys_fstat(facts, subtests):
    told = probe(ON_A_FILE, {**SEALED, "together": True, "files": [facts["canary"]]})
    for what in ON_A_FILE:
        with subtests.test(what=what):
            assert told[what][0] == "fine", told[what]


@pytest.mark.proof
@pytest.mark.parametrize("user", USERS)
def test_limits_hold(user):
    codes = {
        "much at once": "np.ones(1 << 26)",
        "step by step": "kept = []\nwhile True: kept.append(bytearray(1 << 24))",
        "threads": "import threading\nfor _ in range(10_000): threading.Thread(target=time.sleep, args=(9,), daemon=True).start()",
        "files": "kept = [os.dup(0) for _ in range(100)]",
        "raising a limit": "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (1, 1))",
        "time, whatever is caught": "import signal\nfor n in range(1, 30):\n    n in (9, 19) or signal.signal(n, signal.SIG_IGN)\nwhile True: pass",
    }
    told = probe(codes, {"parent": True, "child": {"memory": 1 << 28, "seconds": 1.0}, **as_user(user)})
    assert {name: said[0] for name, said in told.items()} == {
        "much at once": "MemoryError",
        "step by step": "MemoryError",
        "threads": "RuntimeError",
        "files": "OSError",
        "raising a limit": "ValueError",
        "time, whatever is caught": "died",
    }


def test_each_lock_holds_without_the_other(facts):
    files = ["a file", "own environment", "writing in the working folder", "shared memory", "removing"]
    landlock = [*files, "the working folder", "a program", "making a folder", "making a link"]
    seccomp = [
        "fork",
        "TCP",
        "UDP",
        "UNIX sockets",
        "a program",
        "a signal to the parent",
        "making a folder",
        "removing",
    ]
    codes = {name: REFUSED[name].format(**facts) for name in {*landlock, *seccomp}}
    tcp = "import socket; s = socket.socket(); s.connect(('127.0.0.1', 9))"
    codes |= {"connecting": tcp, "signalling": f"os.kill({os.getpid()}, 0)"}
    only_landlock = probe(codes, {"parent": True, "together": True})
    only_seccomp = probe(codes, {"child": LIMITS, "together": True})
    denied = "PermissionError"
    assert {name for name, said in only_landlock.items() if said[0] == denied} >= {
        *landlock,
        "connecting",
        "signalling",
    }
    assert {name for name, said in only_seccomp.items() if said[0] == denied} >= {
        *seccomp,
        "connecting",
        "signalling",
    }


def level(facts, **told):
    code = f"import pathlib; told = lockdown.self_test(pathlib.Path({facts['canary']!r}))"
    kind, said = probe({"test": code}, told)["test"]
    assert kind == "fine", said
    return said


@pytest.mark.parametrize("user", USERS)
def test_the_self_test_finds_a_sealed_process_full(facts, user):
    assert level(facts, **SEALED, **as_user(user)) == "('full', '')"


def test_a_process_that_seals_itself_is_full_if_it_has_no_other_thread(facts):
    assert level(facts, **SEALED, once=True) == "('full', '')"
    said = level(facts, **SEALED, once=True, thread=True)
    assert said == "('limits_only', 'files are open to threads that were started before they were closed')"
    assert level(facts, **SEALED, thread=True) == "('full', '')"


@pytest.mark.parametrize(
    ("told", "reasons"),
    [
        ({**SEALED, "without": ["landlock"]}, ["no Landlock: Function not impl"]),
        ({**SEALED, "without": ["seccomp"]}, ["name paths", "open UDP", "make processes", "send sig", "no filter of system calls: Function not"]),
        ({**SEALED, "platform": "darwin"}, ["read files", "start programs", "darwin has neither Landlock nor seccomp"]),
    ],
)  # fmt: skip
def test_what_a_system_lacks_lowers_the_level_and_is_said(facts, told, reasons):
    said = level(facts, **told)
    assert said.startswith("('limits_only', ")
    assert all(reason in said for reason in reasons)


def test_without_limits_there_is_no_level(facts):
    assert level(facts, parent=True).startswith("('none', ")
    assert level(facts, **SEALED, platform="win32") == "('none', 'win32 has no limits for processes')"


def test_it_can_be_imported_where_there_is_neither_linux_nor_resource():
    code = (
        "import sys, pathlib, socket, ctypes, sysconfig, zoneinfo, importlib.util, pandas, quantgraph.sandbox._lockdown\n"
        "for name in [n for n in sys.modules if n.startswith('quantgraph.sandbox')]: del sys.modules[name]\n"
        "sys.platform, sys.modules['resource'] = 'win32', None\n"
        "from quantgraph.sandbox._lockdown import seal_child, seal_parent, self_test\n"
        "seal_parent(); seal_child(memory=1, seconds=1)\n"
        "assert self_test(pathlib.Path('x'))[0] == 'none'"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_the_lists_of_both_machines_have_nothing_dangerous(machine):
    code = _seccomp.program(machine)
    assert len(code) % 8 == 0
    allowed = set(_seccomp._numbers(_seccomp._ALLOWED, machine).values())
    assert len(allowed) >= 50
    assert not allowed & set(numbers_in(DANGEROUS, machine).values())
