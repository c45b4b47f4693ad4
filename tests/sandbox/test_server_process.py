"""The fork server serves all calls, is started again when it has died, and leaves nothing behind."""

from __future__ import annotations

import atexit
import gc
import os
import re
import select
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from quantgraph.errors import CodeUnavailable
from quantgraph.sandbox import ForkRunner
from quantgraph.sandbox._server import ForkRequest, ServerProcess
from quantgraph.sandbox.wire._shared_frames import SharedFrames
from quantgraph.state.frames import freeze

pytestmark = pytest.mark.proof


def test_threads_share_one_fork_server(frames):
    runner = ForkRunner(timeout=20.0)
    barrier = threading.Barrier(8)

    def call(number):
        barrier.wait()
        return runner.run([f"{number} * 2"], frames).value

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(call, range(8))) == [str(number * 2) for number in range(8)]
    pid = runner._server.process.pid
    assert runner.run(["1"], frames).value == "1"
    assert runner._server.process.pid == pid
    runner.close()


def test_a_fork_server_that_was_killed_is_started_again(frames):
    runner = ForkRunner()
    runner.run(["1"], frames)
    runner._server.process.kill()
    runner._server.process.wait()
    assert runner.run(["2"], frames).value == "2"
    runner.close()


def test_closing_ends_the_process(frames):
    runner = ForkRunner()
    runner.run(["1"], frames)
    pid = runner._server.process.pid
    runner.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_restarting_registers_nothing_new(frames):
    registered = atexit._ncallbacks()
    runner = ForkRunner()
    for _ in range(3):
        assert runner.run(["1"], frames).error is None
        runner._server.process.kill()
        runner._server.process.wait()
    runner.run(["1"], frames)
    assert atexit._ncallbacks() <= registered + 1
    runner.close()


def test_a_runner_that_is_forgotten_ends_its_process(frames):
    runner = ForkRunner()
    runner.run(["1"], frames)
    process = runner._server.process
    del runner
    gc.collect()
    assert process.returncode is not None


def test_a_message_without_a_connection_does_not_end_the_fork_server(frames):
    runner = ForkRunner()
    runner.run(["1"], frames)
    pid = runner._server.process.pid
    runner._server._control.sendall(ForkRequest(deadline=3, seconds=3, memory=1).packed())
    assert runner.run(["2"], frames).value == "2"
    assert runner._server.process.pid == pid
    runner.close()


def test_when_no_process_can_be_made_the_call_says_so(frames):
    code = (
        "import errno, os, sys\nfork, warm, asked = os.fork, os.getpid(), []\n"
        # The first is the self-test's.
        "def refuse():\n    asked.append(1)\n    if len(asked) != 2 or os.getpid() != warm: return fork()\n"
        "    raise OSError(errno.EAGAIN, 'no more processes')\n"
        "os.fork = refuse\nfrom quantgraph.sandbox._worker import main\nmain(sys.argv[1:])"
    )
    long = pd.DataFrame(np.ones((2000, 100)), index=pd.date_range("2000-01-01", periods=2000))
    large = {
        "ohlcv": {"close": freeze("ohlcv", "close", long.rename(columns=str))}
    }  # more than a socket holds
    for request in (frames, large):
        runner = ForkRunner()
        runner._server = ServerProcess(command=[sys.executable, "-c", code])
        words = re.escape("no process can be made for the code: [Errno 11] no more processes")
        with pytest.raises(CodeUnavailable, match=words):
            runner.run(["1"], request)
        assert runner.run(["2"], frames).value == "2"
        runner._server.close()


@pytest.mark.proof
@pytest.mark.parametrize("free", [0, 1, 2, 3, 4])
def test_without_free_descriptors_no_process_can_be_had(frames, free):
    code = (
        "import os, resource, sys\nfrom quantgraph.errors import CodeUnavailable, StorageUnavailable\n"
        "from quantgraph.sandbox import ForkRunner\nrunner = ForkRunner()\n"
        "if sys.argv[2] == 'warm': runner.run(['1'], {})\n"
        "used = max(map(int, os.listdir('/proc/self/fd'))) + 1\n"
        "held = [os.dup(0) for _ in range(used)]\n"
        "limit = max(held) + 1\nfor n in held[:int(sys.argv[1])]: os.close(n)\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))\n"
        "try: told = runner.run(['1 + 1'], {}).value\n"
        "except (CodeUnavailable, StorageUnavailable) as error: told = error.code\n"
        "sys.stdout.write(told)"
    )
    for state in ("cold", "warm"):
        done = subprocess.run(
            [sys.executable, "-c", code, str(free), state], capture_output=True, text=True, check=False
        )
        assert done.stdout in ("code_unavailable", "storage_unavailable", "2"), done.stderr


def test_a_process_that_does_not_start_is_one_line_and_leaves_nothing(frames):
    runner = ForkRunner()
    runner._server = ServerProcess(command=[sys.executable, "-c", "pass"])
    with pytest.raises(CodeUnavailable, match="the code process did not start; try: "):
        runner.run(["1"], frames)
    assert runner._server.process is None


def child_of(pid):
    """The number of a process's only child, once it has one."""
    for _ in range(500):
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        if children:
            return int(children[0])
        time.sleep(0.01)
    raise AssertionError("no child")


@pytest.mark.proof
def test_when_the_host_is_killed_the_fork_server_and_its_child_end():
    code = (
        "import threading\nfrom quantgraph.sandbox import ForkRunner\nrunner = ForkRunner()\nrunner.run(['1'], {})\n"
        "threading.Thread(target=runner.run, args=([open(0).read()], {})).start()\n"
        "print(runner._server.process.pid, flush=True)"
    )
    cell = "while True: pass"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as host:
        host.stdin.write(cell)
        host.stdin.close()
        pid = host.stdout.readline()
        warm, child = os.pidfd_open(int(pid)), os.pidfd_open(child_of(int(pid)))
        host.kill()
        for process in (warm, child):
            assert select.select([process], [], [], 10)[0]
            os.close(process)
        host.wait()


def test_a_host_that_stops_waiting_ends_the_child(frames):
    runner = ForkRunner(timeout=30.0)
    runner.run(["1"], frames)
    request = ForkRequest(deadline=30.0, seconds=30.0, memory=1 << 30)
    connection = runner._server.connect(request, SharedFrames({}).open())
    child = os.pidfd_open(child_of(runner._server.process.pid))
    connection.close()
    assert select.select([child], [], [], 5)[0]
    os.close(child)
    runner.close()


@pytest.mark.proof
def test_when_the_fork_server_hangs_it_is_the_machines_fault_and_another_is_started(frames):
    runner = ForkRunner(timeout=20.0)
    runner.run(["1"], frames)
    os.kill(runner._server.process.pid, signal.SIGSTOP)
    runner._server.start_seconds = 0.3
    with pytest.raises(CodeUnavailable, match=r"did not start within 0\.3 s"):
        runner.run(["1"], frames)
    runner._server.start_seconds = 20.0
    assert runner.run(["2"], frames).value == "2"
    runner.close()


@pytest.mark.proof
def test_children_of_one_host_cannot_write_into_each_others_replies(frames):
    """Two at a time: what one child writes to every descriptor it has reaches no other."""
    runner = ForkRunner(timeout=20.0)
    runner.run(["1"], frames)
    noise = (
        "import os, time\ntime.sleep(0.2)\n"
        "for number in range(0, 64):\n    try: os.write(number, b'x' * 100)\n    except OSError: pass"
    )
    with ThreadPoolExecutor(2) as pool:
        quiet = pool.submit(runner.run, ["import time; time.sleep(0.6); 'untouched'"], frames)
        loud = pool.submit(runner.run, [noise], frames)
        assert "unreadable" in loud.result().error.message
        assert quiet.result().value == "'untouched'"
    runner.close()


def test_descriptors_are_given_back(frames):
    runner = ForkRunner(timeout=20.0)
    runner.run(["1"], frames)
    before = len(os.listdir("/proc/self/fd"))
    for number in range(20):
        runner.run([str(number)], frames)
    assert len(os.listdir("/proc/self/fd")) <= before
    runner.close()
    assert len(os.listdir("/proc/self/fd")) < before
