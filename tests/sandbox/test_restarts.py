"""Processes that the machine ends are begun again, a few times; what the code does itself is the code's."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest

from quantgraph.errors import CodeFailed, CodeMemoryExceeded, CodeRefused, CodeUnavailable
from quantgraph.market import Moment
from quantgraph.sandbox import ForkRunner, open_prefix_run
from quantgraph.sandbox._runner import FreshRunner, counted_restarts
from quantgraph.sandbox._server import ServerProcess

pytestmark = pytest.mark.proof

SLOW = "import time; time.sleep(1); 'whole'"


@pytest.fixture
def runner(frames):
    with closing(ForkRunner(timeout=20.0, memory_mb=512)) as made:
        made.run(["1"], frames)
        yield made


def children_of(pid):
    """Its children; none if it has ended."""
    with suppress(OSError):
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


@contextmanager
def killed(runner, times, whom="child"):
    """Kill, as a machine without memory does, the runner's next code processes or its fork servers."""
    hit, over = [], threading.Event()

    def kill():
        while len(hit) < times and not over.is_set():
            server = runner._server.process
            found = children_of(server.pid) if server and server.poll() is None else []
            if found and found[0] not in hit:
                with suppress(OSError):  # it has ended by itself
                    os.kill(found[0] if whom == "child" else server.pid, signal.SIGKILL)
                    hit.append(found[0])
            time.sleep(0.005)

    killer = threading.Thread(target=kill)
    killer.start()
    yield hit
    over.set()
    killer.join()


@pytest.mark.parametrize("whom", ["child", "fork server"])
@pytest.mark.parametrize("times", [1, 3])
def test_a_process_that_the_machine_kills_is_begun_again(runner, frames, times, whom):
    with killed(runner, times, whom) as hit:
        assert runner.run([SLOW], frames).value == "'whole'"
    assert len(hit) == times


def test_after_three_restarts_the_machine_is_said_to_have_no_room(runner, frames):
    with (
        killed(runner, 4) as hit,
        pytest.raises(CodeUnavailable, match="the machine ended the code's process"),
    ):
        runner.run([SLOW], frames)
    assert len(hit) == 4


def test_the_restarts_of_a_node_count_together(runner, frames):
    """Two, then two: the fourth is one too many."""
    with counted_restarts():
        with killed(runner, 2):
            assert runner.run([SLOW], frames).value == "'whole'"
        with killed(runner, 2), pytest.raises(CodeUnavailable):
            runner.run([SLOW], frames)
    assert runner.run([SLOW], frames).value == "'whole'"


def test_a_walk_goes_on_with_all_rows_in_another_process(runner, frames):
    code = f"{SLOW}, len(snapshot['ohlcv']['close'])"
    moments = [Moment.at(day) for day in ("2024-01-03", "2024-01-04", "2024-01-08")]
    with open_prefix_run(runner, [code], frames) as steps, killed(runner, 2) as hit:
        assert [result.value for result in steps.through(moments)] == [f"('whole', {n})" for n in (2, 3, 5)]
    assert len(hit) == 2


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("kept = []\nwhile True: kept.append(bytearray(1 << 24))", CodeMemoryExceeded),
        ("import os; os._exit(9)", CodeFailed),
        ("import ctypes; ctypes.string_at(0)", CodeFailed),
        ("import os\nfor n in range(3, 64):\n    try: os.close(n)\n    except OSError: pass", CodeFailed),
        ("import os\nfor n in range(3, 64):\n    try: os.write(n, b'x' * 7)\n    except OSError: pass\nos._exit(0)", CodeFailed),
    ],
)  # fmt: skip
def test_what_the_code_does_itself_is_its_own_failure_and_is_not_begun_again(runner, frames, code, kind):
    assert type(runner.run([code], frames).error) is kind


def test_code_that_uses_up_its_processor_time_is_not_begun_again(frames):
    with closing(ForkRunner(timeout=1.0)) as runner:
        error = runner.run(["import threading\nwhile True: pass"], frames).error
    assert error.code == "code_timeout"


def test_a_start_that_takes_too_long_is_the_machines(frames):
    with closing(ForkRunner()) as runner:
        runner._server = ServerProcess(
            command=[sys.executable, "-c", "import time; time.sleep(60)"], start_seconds=0.2
        )
        with pytest.raises(CodeUnavailable, match=r"did not start within 0\.2 s"):
            runner.run(["1"], frames)
        assert runner._server.process is None


def test_a_runner_that_is_closed_while_code_runs_does_not_run_it_again(runner, frames):
    closing_later = threading.Timer(0.2, runner.close)
    closing_later.start()
    with pytest.raises(CodeUnavailable):
        runner.run(["import time; time.sleep(20)"], frames)
    closing_later.join()
    assert runner._server.process is None


def test_a_call_returns_when_its_process_has_been_reaped(runner, frames):
    server = runner._server.process.pid
    for _ in range(20):
        pid = int(runner.run(["import os; os.getpid()"], frames).value)
        assert not Path(f"/proc/{pid}").exists()
        with open_prefix_run(runner, ["import os; os.getpid()"], frames) as steps:
            (pid,) = {int(result.value) for result in steps.through([Moment.at("2024-01-03")])}
            assert children_of(server) == [pid]
        assert children_of(server) == []


FORGE = (
    "import json, os, struct, time\n"
    "text = json.dumps({header}).encode()\n"
    "for n in range(3, 64):\n"
    "    try: os.write(n, struct.pack('<QQ', len(text), 0) + text)\n"
    "    except OSError: pass\n"
    "{then}"
)
DEATH = {"code": "died", "status": -9, "late": False, "kilobytes": 0}
REPLY = {"stdout": "", "value": "", "frames": [], "axes": []}


@pytest.mark.parametrize("then", ["os._exit(0)", "time.sleep(3)", "raise ValueError"])
@pytest.mark.parametrize("error", [DEATH, {"code": "unavailable", "message": "no room"}])
@pytest.mark.parametrize("kind", [ForkRunner, FreshRunner])
def test_a_forged_word_of_the_fork_server_is_not_believed(frames, kind, error, then):
    runner = kind(timeout=20.0)
    result = runner.run([FORGE.format(header=REPLY | {"error": error}, then=then)], frames)
    assert type(result.error) is CodeFailed
    if kind is ForkRunner:
        runner.close()


def test_a_forged_word_is_not_believed_in_a_walk_either(runner, frames):
    with open_prefix_run(runner, [FORGE.format(header=REPLY | {"error": DEATH}, then="")], frames) as steps:
        results = list(steps.through([Moment.at("2024-01-03"), Moment.at("2024-01-04")]))
    assert [type(result.error) for result in results] == [CodeFailed] * 2


@pytest.mark.parametrize("how", ["SHUT_RD", "SHUT_WR", "SHUT_RDWR"])
def test_code_cannot_hang_up_in_the_place_of_its_process(runner, frames, how):
    code = (
        "import socket\nfor n in range(3, 64):\n"
        f"    try: s = socket.socket(fileno=n); s.shutdown(socket.{how})\n"
        "    except OSError: s.detach() if n in locals() else None\n'whole'"
    )
    assert type(runner.run([code], frames).error) in (CodeFailed, CodeRefused)


def test_a_walk_whose_host_was_busy_is_not_late(frames):
    with closing(ForkRunner(timeout=2.0)) as runner, open_prefix_run(runner, ["'whole'"], frames) as steps:
        results = steps.through([Moment.at("2024-01-03"), Moment.at("2024-01-04")])
        assert next(results).value == "'whole'"
        time.sleep(2.5)  # longer than a step may take: the host has something else to do
        assert next(results).value == "'whole'"


def test_a_child_that_waits_for_its_turn_is_not_late(frames):
    """The fork server is stopped for longer than code may run; the code's time begins with the code."""
    with closing(ForkRunner(timeout=2.0)) as runner:
        runner.run(["1"], frames)
        server = runner._server.process.pid
        os.kill(server, signal.SIGSTOP)
        threading.Timer(2.5, os.kill, (server, signal.SIGCONT)).start()
        assert runner.run(["'whole'"], frames).value == "'whole'"
