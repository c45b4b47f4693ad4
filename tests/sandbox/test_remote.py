"""Code on another machine: one message out over HTTP, one back, and both machines may misbehave."""

from __future__ import annotations

import http.server
import subprocess
import threading
import urllib.error
import urllib.request

import pandas as pd
import pytest

from quantgraph.errors import CodeFailed, CodeTimeout
from quantgraph.market import Moment
from quantgraph.sandbox import CodeRunner, open_walk
from quantgraph.sandbox._remote import RemoteRunner
from quantgraph.sandbox._server import PYTHON, code_environment


class Machine(http.server.BaseHTTPRequestHandler):
    """The far side: a process for each request."""

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        answer = {
            "/run": lambda: (
                subprocess.run(
                    [*PYTHON, "--once"], input=body, capture_output=True, env=code_environment(), check=False
                ).stdout
            ),
            "/nothing": lambda: b"",
            "/page": lambda: (
                b"<html>Welcome to the portal of the hotel. Please accept our conditions.</html>"
            ),
            "/slow": lambda: threading.Event().wait(1.5) or b"",
        }[self.path]()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *words):
        pass


@pytest.fixture(scope="module")
def machine():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Machine) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def over(url, most=None):
    def exchange(request: bytes, *, timeout: float, limit: int) -> bytes:
        with urllib.request.urlopen(url, request, timeout=most or timeout) as reply:
            return reply.read(limit + 1)

    return RemoteRunner(exchange, timeout=15.0, memory_mb=512)


def test_cells_run_on_the_far_side_and_a_signal_comes_back(machine, frames, frame):
    runner = over(f"{machine}/run")
    assert isinstance(runner, CodeRunner)
    cell = "GLOBAL_DATA_STATE.update('signal', {'s': (snapshot['ohlcv']['close'] > 3) * 1.0})\nprint('there')\n6 * 7"
    result = runner.run([cell], frames)
    assert (result.error, result.stdout, result.value) == (None, "there\n", "42")
    assert result.isolation == "remote"
    wanted = (frame > 3).astype(float)
    pd.testing.assert_frame_equal(result.signals["s"], wanted, check_names=False, check_freq=False)


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        ("1 / 0", "line 1 (1 / 0): ZeroDivisionError"),
        ("open('/etc/passwd')", "PermissionError"),
        ("import os; os._exit(0)", "the remote process died"),
        ("import os; os.write(3, b'x' * 99); os._exit(0)", "unreadable reply"),
    ],
)
def test_what_goes_wrong_there_is_one_line_here(machine, frames, cell, words):
    result = over(f"{machine}/run").run([cell], frames)
    assert words in result.error.message
    assert (result.isolation, dict(result.signals)) == ("remote", {})


def test_a_machine_that_runs_something_else_is_no_code_process(machine, frames):
    for path in ("/nothing", "/page"):
        result = over(f"{machine}{path}").run(["1"], frames)
        assert result.error.message == "the remote process died, or is not a worker of quantgraph"


def test_a_machine_that_is_not_there_or_too_slow_is_one_line(machine, frames):
    gone = over("http://127.0.0.1:9/run").run(["1"], frames)
    assert type(gone.error) is CodeFailed
    assert gone.error.message.startswith("the remote machine that runs code cannot be reached: ")
    slow = over(f"{machine}/slow", most=0.3).run(["1"], frames)
    assert type(slow.error) is CodeTimeout
    assert "\n" not in slow.error.message


def test_a_reply_beyond_the_limit_is_not_read(frames, monkeypatch):
    monkeypatch.setattr("quantgraph.sandbox._remote.REPLY_LIMIT", 100)
    result = RemoteRunner(lambda request, *, timeout, limit: bytes(limit + 1)).run(["1"], frames)
    assert result.error.message == "the code's process sent an unreadable reply"


def test_a_walk_is_a_request_for_each_moment_with_no_later_row_in_it(machine, frames):
    requests = []

    def exchange(request: bytes, *, timeout: float, limit: int) -> bytes:
        requests.append(request)
        with urllib.request.urlopen(f"{machine}/run", request, timeout=timeout) as reply:
            return reply.read()

    with open_walk(RemoteRunner(exchange), ["len(snapshot['ohlcv']['close'])"], frames) as walk:
        assert [walk.at(Moment.at(day)).value for day in ("2024-01-03", "2024-01-05")] == ["2", "4"]
    late = frames["ohlcv"]["close"].values[-1].tobytes()
    assert not any(late in request for request in requests)
