"""Rows of hostile and sloppy code: a name, the code, the code of its error ("" for none), its value.

``@NAME@`` is replaced by a path or number of the host. A value of None is not compared.
"""

from __future__ import annotations

REFUSED, FAILED, MEMORY, TIME, FINE = "code_refused", "code_failed", "code_memory", "code_timeout", ""

READS = [
    (
        "keys in the environment",
        "import os\n'sk-' in str(os.environ), [k for k in os.environ if 'KEY' in k]",
        FINE,
        "(False, [])",
    ),
    (
        "the environment by the C library",
        "import ctypes\nctypes.CDLL(None).getenv(b'OPENAI_API_KEY')",
        FINE,
        "0",
    ),
    ("own environment", "open('/proc/self/environ').read()", REFUSED, None),
    (
        "the fork server's environment",
        "import os\nopen(f'/proc/{os.getppid()}/environ').read()",
        REFUSED,
        None,
    ),
    ("the host's environment", "open('/proc/@HOST@/environ').read()", REFUSED, None),
    ("the host's memory", "open('/proc/@HOST@/mem', 'rb')", REFUSED, None),
    ("the fork server's memory", "import os\nopen(f'/proc/{os.getppid()}/mem', 'rb')", REFUSED, None),
    ("the host's descriptors", "import os\nos.listdir('/proc/@HOST@/fd')", REFUSED, None),
    (
        "the fork server's descriptors",
        "import os\n[open(f'/proc/{os.getppid()}/fd/{n}') for n in range(3, 20)]",
        (REFUSED, FAILED),
        None,
    ),
    ("writing own memory", "open('/proc/self/mem', 'r+b')", REFUSED, None),
    ("a way around by /proc/self/root", "open('/proc/self/root/etc/passwd').read()", REFUSED, None),
    ("connections", "open('/proc/net/tcp').read()", REFUSED, None),
    ("the list of processes", "import os\nos.listdir('/proc')", REFUSED, None),
    ("the home folder", "import os\nos.listdir('@HOME@')", REFUSED, None),
    ("a secret file", "open('@SECRET@').read()", REFUSED, None),
    (
        "a secret file by way of the working folder",
        "open('./../../../../../../..@SECRET@').read()",
        REFUSED,
        None,
    ),
    ("a secret file by pathlib", "from pathlib import Path\nPath('@SECRET@').read_text()", REFUSED, None),
    ("a secret file by pandas", "pd.read_csv('@SECRET@')", REFUSED, None),
    ("a secret file by numpy", "np.fromfile('@SECRET@', dtype='u1')", REFUSED, None),
    ("a secret file by mapping", "np.memmap('@SECRET@', mode='r')", REFUSED, None),
    ("a secret file by pyarrow", "import pyarrow\npyarrow.memory_map('@SECRET@').read()", REFUSED, None),
    ("a secret file by the C library", "import ctypes\nctypes.CDLL(None).open(b'@SECRET@', 0)", FINE, "-1"),
    (
        "a secret file as a module",
        "import importlib.machinery as m\nm.SourceFileLoader('x', '@SECRET@').load_module()",
        REFUSED,
        None,
    ),
    ("a secret file as a library", "import ctypes\nctypes.CDLL('@SECRET@')", FAILED, None),
    ("a secret file by linecache", "import linecache\nlinecache.getlines('@SECRET@')", FINE, "[]"),
    ("accounts", "import pwd\npwd.getpwall()", FINE, "[]"),
    ("a file with accounts", "open('/etc/passwd').read()", REFUSED, None),
    ("quantgraph's own files", "open('@PACKAGE@/__init__.py').read()", REFUSED, None),
    ("the sample data", "from quantgraph.data import sample\nsample", FAILED, None),
    (
        "the sample data, by its own finder",
        "import sys\ndel sys.meta_path[0]\nfrom quantgraph.data import sample\nsample",
        FAILED,
        None,
    ),
    ("another package, by its own finder", "import sys\ndel sys.meta_path[0]\nimport requests", FAILED, None),
    ("data of other packages", "open('@OTHER@').read()", REFUSED, None),
    ("which packages there are", "import importlib.metadata as m\nlist(m.distributions())", FINE, "[]"),
    ("folders by glob", "import glob\nglob.glob('/*') + glob.glob('@FOLDER@/*')", FINE, "[]"),
    ("devices", "open('/dev/tty')", REFUSED, None),
    ("the machine", "open('/sys/class/net')", REFUSED, None),
    ("standard input", "import sys\nsys.stdin.read()", FINE, "''"),
]
WRITES = [
    ("a file here", "open('x', 'w')", REFUSED, None),
    ("a file in /tmp", "open('/tmp/quantgraph-hostile', 'w')", REFUSED, None),
    ("a file in shared memory", "open('/dev/shm/quantgraph-hostile', 'w')", REFUSED, None),
    ("a file in the host's folder", "open('@FOLDER@/made', 'w')", REFUSED, None),
    ("over the secret", "open('@SECRET@', 'a')", REFUSED, None),
    ("a temporary file", "import tempfile\ntempfile.TemporaryFile()", (REFUSED, FAILED), None),
    ("a table", "snapshot['ohlcv']['close'].to_csv('close.csv')", REFUSED, None),
    ("a pickle", "snapshot['ohlcv']['close'].to_pickle('close.pkl')", REFUSED, None),
    ("a log", "import logging\nlogging.FileHandler('log')", REFUSED, None),
    ("a mapped file", "np.memmap('mapped', mode='w+', shape=9)", REFUSED, None),
    (
        "shared memory",
        "from multiprocessing import shared_memory as s\ns.SharedMemory(create=True, size=9)",
        REFUSED,
        None,
    ),
    ("a file in memory", "import os\nos.memfd_create('x')", REFUSED, None),
    ("a folder", "import os\nos.mkdir('@FOLDER@/sub')", REFUSED, None),
    ("a removal", "import os\nos.remove('@SECRET@')", REFUSED, None),
    ("a removal of all", "import shutil\nshutil.rmtree('@FOLDER@')", REFUSED, None),
    ("a new name", "import os\nos.rename('@SECRET@', '@FOLDER@/other')", REFUSED, None),
    ("a link", "import os\nos.symlink('@SECRET@', 'link')", REFUSED, None),
    ("mode bits", "import os\nos.chmod('@SECRET@', 0o777)", REFUSED, None),
    ("a cut", "import os\nos.truncate('@SECRET@', 0)", REFUSED, None),
    ("code for the next import", "import numpy\nopen(numpy.__file__, 'a')", REFUSED, None),
]
NETWORK = [
    ("the host's server", "import socket\nsocket.create_connection(('127.0.0.1', @PORT@), 1)", REFUSED, None),
    (
        "UDP",
        "import socket\nsocket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', 53))",
        REFUSED,
        None,
    ),
    (
        "UNIX sockets",
        "import socket\nsocket.socket(socket.AF_UNIX).connect('/run/docker.sock')",
        REFUSED,
        None,
    ),
    ("sockets without a file", "import socket\nsocket.socket(socket.AF_UNIX).connect('\\0x')", REFUSED, None),
    ("raw sockets", "import socket\nsocket.socket(socket.AF_INET, socket.SOCK_RAW, 1)", REFUSED, None),
    ("names", "import socket\nsocket.getaddrinfo('example.com', 80)", REFUSED, None),
    (
        "the web",
        "import urllib.request as u\nu.urlopen('http://127.0.0.1:@PORT@/sk-key', timeout=1)",
        REFUSED,
        None,
    ),
    ("the web by pandas", "pd.read_csv('http://127.0.0.1:@PORT@/x.csv')", REFUSED, None),
    ("an event loop", "import asyncio\nasyncio.run(asyncio.sleep(0))", REFUSED, None),
    ("a socket by number", "import ctypes\nctypes.CDLL(None).socket(2, 1, 0)", FINE, "-1"),
]
PROCESSES = [
    ("a program", "import subprocess\nsubprocess.run(['/bin/true'])", REFUSED, None),
    ("a shell", "import os\nos.system('touch @FOLDER@/made')", FINE, "32512"),
    ("a shell's output", "import os\nos.popen('id').read()", REFUSED, None),
    ("a fork", "import os\nos.fork()", REFUSED, None),
    ("a fork with a terminal", "import os\nos.forkpty()", (REFUSED, FAILED), None),
    (
        "a fork bomb",
        "import os\nwhile True:\n    try:\n        os.fork()\n    except PermissionError:\n        raise",
        REFUSED,
        None,
    ),
    (
        "a fork by number",
        "import ctypes\nctypes.CDLL(None).fork(), ctypes.CDLL(None).vfork()",
        FINE,
        "(-1, -1)",
    ),
    ("multiprocessing", "import multiprocessing as m\nm.Pool(2)", REFUSED, None),
    (
        "a pool of processes",
        "import concurrent.futures as c\nlist(c.ProcessPoolExecutor(2).map(abs, [1]))",
        REFUSED,
        None,
    ),
    ("a program in this one's place", "import os\nos.execv('/bin/true', ['true'])", REFUSED, None),
    ("a debugger of the host", "import ctypes\nctypes.CDLL(None).ptrace(16, @HOST@, 0, 0)", FINE, "-1"),
    (
        "the host's memory by number",
        "import ctypes\nctypes.CDLL(None).process_vm_readv(@HOST@, None, 0, None, 0, 0)",
        FINE,
        "-1",
    ),
    ("the end of the host", "import os, signal\nos.kill(@HOST@, signal.SIGUSR1)", REFUSED, None),
    ("the end of the fork server", "import os, signal\nos.kill(os.getppid(), signal.SIGKILL)", REFUSED, None),
    ("the end of the group", "import os, signal\nos.killpg(0, signal.SIGKILL)", REFUSED, None),
    ("signals to all", "import os\nos.kill(-1, 0)", REFUSED, None),
    ("a signal by descriptor", "import os\nos.pidfd_open(@HOST@)", REFUSED, None),
    (
        "a signal by a descriptor's owner",
        "import fcntl\nfcntl.fcntl(0, fcntl.F_SETOWN, @HOST@)",
        REFUSED,
        None,
    ),
    ("a halt of itself", "import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)", REFUSED, None),
    ("more files", "import resource as r\nr.setrlimit(r.RLIMIT_FSIZE, (-1, -1))", FAILED, None),
    ("the host's limits", "import resource as r\nr.prlimit(@HOST@, r.RLIMIT_CPU, (1, 1))", REFUSED, None),
    ("another user", "import os\nos.setuid(0)", REFUSED, None),
    ("a session of its own", "import os\nos.setsid()", REFUSED, None),
    ("outliving the fork server", "import ctypes\nctypes.CDLL(None).prctl(1, 0, 0, 0, 0)", FINE, "-1"),
]
RESOURCES = [
    ("a loop without end", "while True: pass", TIME, None),
    ("a regular expression without end", "import re\nre.match('(a+)+$', 'a' * 60 + 'b')", TIME, None),
    ("a sleep", "import time\ntime.sleep(60)", TIME, None),
    ("a loop that catches all", "while True:\n    try:\n        while True: pass\n    except BaseException: pass", TIME, None),
    ("a loop that ignores signals", "import signal\nfor n in range(1, 65):\n    try: signal.signal(n, signal.SIG_IGN)\n    except (OSError, ValueError): pass\nwhile True: pass", TIME, None),
    ("an alarm that wakes it for ever", "import signal\nsignal.signal(signal.SIGALRM, lambda *_: None)\nsignal.setitimer(signal.ITIMER_REAL, 1e-3, 1e-3)\nwhile True:\n    try: signal.pause()\n    except BaseException: pass", TIME, None),
    ("a number without end", "len(str(7 ** (10 ** 9)))", (TIME, FAILED), None),
    ("a text of itself without end", "class A:\n    def __repr__(self):\n        while True: pass\nA()", TIME, None),
    ("an error without end", "class E(Exception):\n    def __str__(self):\n        while True: pass\nraise E", TIME, None),
    ("50 GB at once", "np.ones(50 * 2**27)", MEMORY, None),
    ("50 GB step by step", "kept = []\nwhile True: kept.append(np.empty(2**21))", MEMORY, None),
    ("50 GB of address space", "import mmap\nmmap.mmap(-1, 50 << 30)", (FAILED, MEMORY), None),
    ("10,000 threads", "import threading, time\nfor _ in range(10_000): threading.Thread(target=time.sleep, args=(60,), daemon=True).start()", (FAILED, MEMORY), None),
    ("10,000 descriptors", "import os\nfor _ in range(10_000): os.dup(0)", FAILED, None),
    ("1 GB of output", "for _ in range(1024): print('x' * 2**20)", FINE, ""),
    ("1 GB of output past Python", "import os\nfor _ in range(1024): os.write(1, b'x' * 2**20)", FINE, ""),
    ("much in a text of itself", "class A:\n    def __repr__(self): return 'x' * 2**26\nA()", FINE, None),
    ("1 GB in a text of itself", "class A:\n    def __repr__(self): return 'x' * 2**30\nA()", MEMORY, None),
    ("1 GB in an error", "raise ValueError('x' * 2**30)", MEMORY, None),
    ("deep recursion", "def f(n): return f(n + 1)\nf(0)", FAILED, None),
    ("recursion in C", "import sys\nsys.setrecursionlimit(10**9)\ndef f(): return list(map(lambda _: f(), [0]))\nf()", (FAILED, MEMORY), None),
    ("a thread that stays", "import threading\ndef spin():\n    while True: pass\nthreading.Thread(target=spin, daemon=True).start()\n'left'", FINE, "'left'"),
    ("a thread that would be waited for", "import threading, time\nthreading.Thread(target=time.sleep, args=(60,)).start()\n'left'", FINE, "'left'"),
    ("a farewell without end", "import atexit\n@atexit.register\ndef spin():\n    while True: pass\n'left'", FINE, "'left'"),
]  # fmt: skip
ENDS = [
    ("os._exit", "import os\nos._exit(0)", FAILED, None),
    ("sys.exit", "import sys\nsys.exit(0)", FAILED, None),
    ("exit by name", "raise SystemExit('done')", FAILED, None),
    ("an interrupt", "raise KeyboardInterrupt", FAILED, None),
    ("a crash", "import ctypes\nctypes.string_at(0)", FAILED, None),
    ("an abort", "import os\nos.abort()", FAILED, None),
    ("an exit by number", "import ctypes\nctypes.CDLL(None)._exit(0)", FAILED, None),
    ("all descriptors closed", "import os\nos.closerange(0, 64)", FAILED, None),
    (
        "all descriptors elsewhere",
        "import os\nfor n in range(3, 64):\n    try: os.dup2(1, n)\n    except OSError: pass",
        FAILED,
        None,
    ),
]
_FORGE = """
import json, os, struct
PLAIN = {"stdout": "", "value": "", "error": None, "frames": [], "axes": []}
DAY = 86_400_000_000 * 19_724
def reply(days=(DAY,), symbols=("a",), values=(1.0,), lengths=None, **more):
    told = {**PLAIN, "frames": [{"panel": "signal", "name": "s", "axis": 0}], **more}
    told["axes"] = [{"sessions": list(days), "symbols": list(symbols)}]
    text, body = json.dumps(told).encode(), struct.pack(f"<{len(values)}d", *values)
    return struct.pack("<QQ", *(lengths or (len(text), len(body)))) + text + body
def send(content):
    for number in range(3, 64):
        rest = memoryview(content)
        try:
            while rest: rest = rest[os.write(number, rest):]
        except OSError: pass
    os._exit(0)
"""
FORGERIES = [
    (f"a reply with {what}", f"{_FORGE}send({code})", error, None)
    for what, code, error in [
        ("noise", "os.urandom(4096)", FAILED),
        ("a header of 2**62 bytes", "reply(lengths=(2**62, 8))", FAILED),
        ("a body of 2**62 bytes", "reply(lengths=(100, 2**62))", FAILED),
        ("values missing", "reply(symbols=('a', 'b'))", FAILED),
        ("values to spare", "reply(values=(1.0, 1.0))", FAILED),
        ("7 for a signal", "reply(values=(7.0,))", FAILED),
        ("infinity for a signal", "reply(values=(float('inf'),))", FAILED),
        ("a session that is no time", "reply(days=(-2**63,))", FAILED),
        ("a session twice", "reply(days=(DAY, DAY), values=(1.0, 1.0))", FAILED),
        ("sessions that go back", "reply(days=(DAY, 0), values=(1.0, 1.0))", FAILED),
        ("a column twice", "reply(symbols=('a', 'a'), values=(1.0, 1.0))", FAILED),
        ("a column of no name", "reply(symbols=(None,))", FAILED),
        ("3,000,000 columns", "reply(symbols=map(str, range(3_000_000)), values=())", FAILED),
        ("another panel", "reply(frames=[{'panel': 'ohlcv', 'name': 'close', 'axis': 0}])", FINE),
        ("an honest signal", "reply()", FINE),
    ]
]
_GIVEN = "close = snapshot['ohlcv']['close']\ngiven = (close > 0).astype(float)\ngive = lambda f: GLOBAL_DATA_STATE.update('signal', {'s': f})\n"
SLOPPY = [
    (f"a signal {what}", f"{_GIVEN}{code}", FAILED, None)
    for what, code in [
        ("of 7", "give(given * 7)"),
        ("of objects", "give(given.astype(object).replace(1.0, 'buy'))"),
        ("of text", "give('buy')"),
        ("of ragged lists", "give([[1], [1, 0]])"),
        ("with a column twice", "give(pd.concat([given, given], axis=1))"),
        ("with a session twice", "give(pd.concat([given, given]))"),
        ("with a session that is NaT", "give(given.set_axis([pd.NaT, *given.index[1:]]))"),
        ("with a zone of time", "give(given.tz_localize('Asia/Shanghai'))"),
        ("with numbers for sessions", "give(given.reset_index(drop=True))"),
    ]
]
_SIGNAL = f"{_GIVEN}give(given)\n"
PATCHES = [
    (f"a patched {what}", _SIGNAL + code, error, None)
    for what, code, error in [
        (
            "DataFrame.to_numpy",
            "pd.DataFrame.to_numpy = lambda *a, **k: np.full((9, 9), 7.0)",
            (FINE, FAILED),
        ),
        ("np.frombuffer", "np.frombuffer = None", (FINE, FAILED)),
        ("json.dumps", "import json\njson.dumps = lambda *a, **k: '{}'", FAILED),
        ("struct.pack", "import struct\nstruct.pack = struct.Struct = None", (FINE, FAILED)),
        ("len", "import builtins\nbuiltins.len = lambda thing: 2**40", (FINE, FAILED)),
        ("isinstance", "import builtins\nbuiltins.isinstance = lambda *a: True", (FINE, FAILED)),
        (
            "freeze",
            "import quantgraph.state as s, quantgraph.state.frames._frames as f\ns.freeze = f.freeze = lambda *a, **k: None",
            (FINE, FAILED),
        ),
        (
            "pack",
            "import quantgraph.sandbox._requests as s\ns.encode_signals = lambda *a, **k: [b'\\xff' * 100]",
            FAILED,
        ),
        (
            "data state",
            "import quantgraph.state as s\ns.DataState.snapshot = lambda self: {'signal': {'s': 7}}",
            (FINE, FAILED),
        ),
        (
            "self_test",
            "import quantgraph.sandbox._lockdown as s\ns.self_test = lambda canary: ('full', 'nothing')",
            FINE,
        ),
    ]
]
_SEARCH = "MAGIC = float('9876' + '54.25')\nseen = lambda a: bool(np.size(a) and (np.asarray(a, dtype=float) == MAGIC).any())\n"
FUTURE = [
    (f"later rows by {what}", _SEARCH + code, error, value)
    for what, code, error, value in [
        (
            "bases",
            "b = snapshot['ohlcv']['close'].to_numpy()\nfound = [seen(b)]\nwhile isinstance(getattr(b, 'base', None), np.ndarray):\n    b = b.base\n    found.append(seen(b))\nany(found)",
            FINE,
            "False",
        ),
        (
            "the collector",
            "import gc\nany(seen(o) for o in gc.get_objects() if isinstance(o, np.ndarray) and o.dtype == float)",
            FINE,
            "False",
        ),
        (
            "what frames hold",
            "import gc\nany(seen(o) for o in gc.get_objects() if isinstance(o, pd.DataFrame) and (o.dtypes == float).all())",
            FINE,
            "False",
        ),
        (
            "the callers",
            "import sys\nf, found = sys._getframe(), []\nwhile f:\n    found += [v for v in f.f_locals.values() if isinstance(v, (bytes, bytearray, memoryview))]\n    f = f.f_back\nany(np.float64(MAGIC).tobytes() in bytes(v) for v in found)",
            FINE,
            "False",
        ),
        (
            "the memory behind the last",
            "import ctypes\nv = snapshot['ohlcv']['close'].to_numpy()\nseen(np.frombuffer(ctypes.string_at(v.ctypes.data + v.nbytes, 2048)))",
            (FINE, FAILED),
            "False",
        ),
        (
            "another state",
            "from quantgraph.state import GLOBAL_DATA_STATE as g\nlen(g.snapshot()['ohlcv']['close'])",
            FINE,
            "40",
        ),
        (
            "the request",
            "import sys\n'sk-' in str(sys.argv), '@FOLDER@' in str(sys.argv)",
            FINE,
            "(False, False)",
        ),
    ]
]
CHANGES = [
    ("frames written to", "snapshot['ohlcv']['close'].to_numpy()[:] = 1.0", FAILED, None),
    ("frames made writable", "v = snapshot['ohlcv']['close'].to_numpy()\nv.setflags(write=True)", FAILED, None),
    ("frames written past Python", "import ctypes\nv = snapshot['ohlcv']['close'].to_numpy()\nctypes.memset(v.ctypes.data, 0, v.nbytes)", FAILED, None),
    ("frames in memory made writable", "import ctypes\nv = snapshot['ohlcv']['close'].to_numpy()\na = v.ctypes.data & ~4095\nctypes.CDLL(None).mprotect(ctypes.c_void_p(a), ctypes.c_size_t(v.nbytes + v.ctypes.data - a), 3)\nctypes.memset(v.ctypes.data, 0, v.nbytes)\nfloat(v.sum())", (FINE, FAILED), "0.0"),
    ("a rolling mean for the next call", "pd.Series.rolling = pd.DataFrame.rolling = lambda self, *a, **k: self\n'done'", FINE, "'done'"),
]  # fmt: skip

ROWS = [
    *[(f"reads {name}", *rest) for name, *rest in READS],
    *[(f"writes {name}", *rest) for name, *rest in WRITES],
    *[(f"reaches {name}", *rest) for name, *rest in NETWORK],
    *[(f"starts {name}", *rest) for name, *rest in PROCESSES],
    *[(f"takes {name}", *rest) for name, *rest in RESOURCES],
    *[(f"ends by {name}", *rest) for name, *rest in ENDS],
    *FORGERIES,
    *SLOPPY,
    *PATCHES,
    *FUTURE,
    *CHANGES,
]
