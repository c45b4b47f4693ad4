"""A host that runs hostile code, and reports the outcomes and the state of the host.

Reads ``{"rows": [[name, code, is_slow], …]}`` from stdin and writes JSON to stdout. The argument is ``again``, or
the number of a user to become: root then mounts the interpreter where that user can reach it, in a mount
namespace of its own, gives up root, and starts the driver again.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import socket
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

CODE = Path(__file__).resolve().parents[3] / "src"
MAGIC = 987654.25
THREADS = 10
TOGETHER = 8
"""Number of rows that run between two checks of the host."""
CLONE_NEWNS, MS_BIND, MS_REC, MS_PRIVATE = 0x20000, 4096, 16384, 1 << 18


def become(user):
    """Start again as another user, who can reach the interpreter, its packages and quantgraph."""
    libc = ctypes.CDLL(None, use_errno=True)

    def do(name, *arguments):
        if getattr(libc, name)(*arguments):
            raise OSError(ctypes.get_errno(), f"{name}: {os.strerror(ctypes.get_errno())}")

    needed = {Path(sys.base_prefix).resolve(), Path(sys.prefix).resolve(), CODE}
    closed = {place for path in needed for place in path.parents if not place.stat().st_mode & 0o001}
    if closed:
        do("unshare", CLONE_NEWNS)
        do("mount", None, b"/", None, MS_REC | MS_PRIVATE, None)
    for place in sorted(closed):
        inside = [path for path in needed if path.is_relative_to(place)]
        held = [os.open(path, os.O_PATH) for path in inside]
        do("mount", b"none", bytes(place), b"tmpfs", 0, b"mode=755")
        for path, descriptor in zip(inside, held, strict=True):
            path.mkdir(parents=True, exist_ok=True)
            do("mount", b"/proc/self/fd/%d" % descriptor, bytes(path), None, MS_BIND | MS_REC, None)
            os.close(descriptor)
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
    os.execv(sys.executable, [sys.executable, "-P", "-s", "-W", "ignore", __file__, "again"])


def state(folder):
    """Everything of the host that code could harm."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return {
        "environment": dict(os.environ),
        "folder": os.getcwd(),
        "files": sorted(str(file) for file in Path(folder).rglob("*")),
        "secret": Path(folder, "secret").read_text(encoding="utf-8"),
        "shared memory": [name for name in os.listdir("/dev/shm") if "quantgraph" in name],
        "temporary": [name for name in os.listdir("/tmp") if name == "quantgraph-hostile"],
        "descriptors": sorted(os.listdir("/proc/self/fd"))[:-1],
        "threads": threading.active_count(),
        "megabytes": next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) >> 10,
    }


def harm(before, after):
    changed = [what for what in before if what != "megabytes" and before[what] != after[what]]
    return changed + (["megabytes"] if after["megabytes"] > before["megabytes"] + 100 else [])


def children(number):
    """The children that a process still has after two seconds."""
    listed = Path(f"/proc/{number}/task/{number}/children")
    for _ in range(20):
        if not listed.read_text(encoding="utf-8"):
            break
        time.sleep(0.1)
    return listed.read_text(encoding="utf-8")


def check_signal(frame):
    """Names of the rules that a returned signal breaks."""
    values = frame.to_numpy()
    good = {
        "index": frame.index.dtype.kind == "M" and frame.index.tz is None,
        "order": frame.index.is_monotonic_increasing and frame.index.is_unique and frame.columns.is_unique,
        "values": values.dtype == float and set(frame.stack().dropna()) <= {-1.0, 0.0, 1.0},
    }
    return [what for what, holds in good.items() if not holds]


def main(rows, folder):
    import numpy as np
    import pandas as pd

    from quantgraph.market import Moment
    from quantgraph.sandbox import ForkRunner
    from quantgraph.state import DataState

    Path(folder, "secret").write_text("sk-file", encoding="utf-8")
    os.chdir(folder)
    os.environ["OPENAI_API_KEY"] = "sk-canary"
    index = pd.bdate_range("2024-01-02", periods=60)
    values = np.arange(300.0).reshape(60, 5)
    values[40:] = MAGIC
    store = DataState()
    store.update("ohlcv", {"close": pd.DataFrame(values, index=index, columns=list("abcde"))})
    frames = store.view(Moment.at(str(index[39].date()))).frozen()
    signals = []
    for number in (signal.SIGUSR1, signal.SIGIO, signal.SIGURG):
        signal.signal(number, lambda *told: signals.append(told[0]))
    server = socket.create_server(("127.0.0.1", 0))
    server.setblocking(False)
    runner = ForkRunner(timeout=4.0, memory_mb=512, output_limit=2_000)
    import talib

    places = {
        "HOST": os.getpid(),
        "HOME": os.environ.get("HOME", "/"),
        "SECRET": f"{folder}/secret",
        "FOLDER": folder,
        "PACKAGE": CODE / "quantgraph",
        "OTHER": Path(talib.__file__).parents[1] / "pytest" / "__init__.py",
        "PORT": server.getsockname()[1],
    }

    def run(code):
        for name, place in places.items():
            code = code.replace(f"@{name}@", str(place))
        return told(runner.run([code], frames))

    def told(result):
        error = result.error
        said = f"{result.stdout} {result.value} {error}"
        return {
            "error": error.code if error else "",
            "message": str(error),
            "value": result.value,
            "length": len(result.stdout),
            "isolation": result.isolation,
            "leaks": [secret for secret in ("sk-canary", "sk-file", str(MAGIC), "root:x:") if secret in said],
            "signals": {name: check_signal(frame) for name, frame in result.signals.items()},
        }

    def watched(task):
        before, server_pid = state(folder), runner._server.process.pid
        outcome = task()
        following = runner.run(["float(snapshot['ohlcv']['close'].rolling(2).mean().sum().sum())"], frames)
        expected = float(pd.DataFrame(values[:40]).rolling(2).mean().sum().sum())
        harmed = harm(before, state(folder))
        harmed += ["next call"] * (following.value != repr(expected))
        harmed += ["fork server"] * (runner._server.process.pid != server_pid)
        harmed += ["signals"] * bool(signals)
        harmed += ["panel"] * (not np.array_equal(frames["ohlcv"]["close"].values, values[:40]))
        return outcome, harmed

    runner.run(["1"], frames)
    with ThreadPoolExecutor(THREADS) as pool:
        list(
            pool.map(run, ["import time\ntime.sleep(0.5)"] * THREADS)
        )  # starts the pool's threads before the host's state is taken
        outcomes = {}

        def watch(part, how):
            said, harmed = watched(lambda: list(how(run, (code for _, code in part))))
            outcomes.update(
                {name: {**each, "harmed": harmed} for (name, _), each in zip(part, said, strict=True)}
            )

        quick = [(name, code) for name, code, slow in rows if not slow]
        for first in range(0, len(quick), TOGETHER):
            watch(quick[first : first + TOGETHER], map)
        watch([(name, code) for name, code, slow in rows if slow], pool.map)
    try:
        server.accept()
        reached = True
    except BlockingIOError:
        reached = False
    left = children(runner._server.process.pid)
    runner.close()
    json.dump({"outcomes": outcomes, "reached": reached, "left": left, "user": os.getuid()}, sys.stdout)


if __name__ == "__main__":
    if sys.argv[1:] == ["again"]:
        with tempfile.TemporaryDirectory() as made:
            main(json.load(sys.stdin)["rows"], made)
    else:
        become(int(sys.argv[1]))
