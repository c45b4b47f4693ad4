"""Generated code runs elsewhere: what it does there stays there."""

from __future__ import annotations

import time

import numpy as np
import pandas as pd
import pytest

from quantgraph.errors import CodeFailed, CodeMemoryExceeded, CodeRefused, CodeTimeout
from quantgraph.market import Moment
from quantgraph.sandbox import CodeRunner, ForkRunner
from quantgraph.sandbox._runner import FreshRunner
from quantgraph.state import DataState

pytestmark = pytest.mark.proof

SIGNAL = "GLOBAL_DATA_STATE.update('signal', {'s': (snapshot['ohlcv']['close'] > 3).astype(float)})"


@pytest.fixture(scope="module", params=[ForkRunner, FreshRunner])
def runner(request):
    made = request.param(timeout=15.0, memory_mb=512, output_limit=500)
    yield made
    if isinstance(made, ForkRunner):
        made.close()


def test_both_runners_are_code_runners(runner):
    assert isinstance(runner, CodeRunner)


def test_value_output_and_signal_come_back(runner, frames, frame):
    result = runner.run(["print('hello')\n" + SIGNAL + "\nsnapshot['ohlcv']['open'].iloc[4, 2]"], frames)
    assert result.error is None
    assert (result.stdout, result.value) == ("hello\n", "np.float64(15.0)")
    expected = (frame > 3).astype(float)
    pd.testing.assert_frame_equal(result.signals["s"], expected, check_names=False, check_freq=False)


def test_later_cells_see_earlier_ones_and_only_the_last_is_shown(runner, frames):
    result = runner.run(
        ["x = 20\nprint('first')", "def double(n):\n    return n * 2", "print('last'); double(x) + 2"], frames
    )
    assert (result.stdout, result.value) == ("last\n", "42")


def test_calls_share_no_variable(runner, frames):
    runner.run(["leftover = 1\npd.DataFrame.rolling = None"], frames)
    result = runner.run(["leftover"], frames)
    assert "NameError" in result.error.message
    assert (
        runner.run(["snapshot['ohlcv']['close'].rolling(2).mean().iloc[1, 0]"], frames).value
        == "np.float64(1.5)"
    )


BAD = {
    "raises": (
        "x = 1\nraise ValueError('no such rule')",
        CodeFailed,
        "line 2 (raise ValueError('no such rule')): ValueError: no such rule",
    ),
    "syntax": ("def f(:", CodeFailed, "SyntaxError"),
    "exits": ("import sys\nsys.exit(0)", CodeFailed, "SystemExit"),
    "dies": ("import os\nos._exit(7)", CodeFailed, "died: it exited with status 7"),
    "segfault": ("import ctypes\nctypes.string_at(0)", CodeFailed, "died of SIGSEGV"),
    "reads a file": (
        "x = 1\nopen('/etc/passwd')",
        CodeRefused,
        "line 2 (open('/etc/passwd')): PermissionError: [Errno 1] Operation not permitted: '/etc/passwd'; generated code has no files",
    ),
    "reads a file by pandas": ("pd.read_csv('/etc/passwd')", CodeRefused, "line 1 (pd.read_csv("),
    "writes a file": ("open('x', 'w')", CodeRefused, "PermissionError"),
    "opens a connection": ("import socket\nsocket.socket()", CodeRefused, "line 2 (socket.socket())"),
    "looks up a name": (
        "import urllib.request\nurllib.request.urlopen('http://example.com')",
        CodeRefused,
        "line 2 (urllib.request.urlopen('http://example.com')): URLError",
    ),
    "starts a program": ("import subprocess\nsubprocess.run(['true'])", CodeRefused, "line 2"),
    "forks": ("import os\nos.fork()", CodeRefused, "line 2 (os.fork())"),
    "kills": ("import os\nos.kill(os.getppid(), 9)", CodeRefused, "line 2"),
    "an error that cannot be told": (
        "class Odd(Exception):\n    def __str__(self): raise ValueError\nraise Odd",
        CodeFailed,
        "line 3 (raise Odd): Odd: (its message raised ValueError)",
    ),
    "50 GB at once": ("np.ones(50 << 27)", CodeMemoryExceeded, "512 MB"),
    "memory by steps": (
        "kept = []\nwhile True:\n    kept.append(bytearray(20_000_000))",
        CodeMemoryExceeded,
        "512 MB",
    ),
    "half a signal": (
        "GLOBAL_DATA_STATE.update('signal', {'s': snapshot['ohlcv']['close'] * 0 + 0.5})",
        CodeFailed,
        "0.5 at (2024-01-02, 000001.SZ)",
    ),
    "infinite signal": (
        "GLOBAL_DATA_STATE.update('signal', {'s': snapshot['ohlcv']['close'] * np.inf})",
        CodeFailed,
        "BadFrame",
    ),
    "time zone": (
        "c = snapshot['ohlcv']['close'] * 0\nGLOBAL_DATA_STATE.update('signal', {'s': c.tz_localize('Asia/Shanghai')})",
        CodeFailed,
        "time zone Asia/Shanghai",
    ),
    "unknown panel": ("GLOBAL_DATA_STATE.update('signals', {})", CodeFailed, "did you mean 'signal'"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_goes_wrong_is_one_line_and_the_next_call_works(forker, frames, case):
    check(forker.run([BAD[case][0]], frames), case)
    assert forker.run(["1 + 1"], frames).value == "2"


@pytest.mark.parametrize(
    "case", ["raises", "dies", "segfault", "50 GB at once", "reads a file", "half a signal"]
)
def test_what_goes_wrong_in_a_fresh_process_is_one_line_too(frames, case):
    check(FreshRunner(timeout=15.0, memory_mb=512).run([BAD[case][0]], frames), case)


def check(result, case):
    _, kind, words = BAD[case]
    assert type(result.error) is kind
    assert words in result.error.message
    assert "\n" not in result.error.message
    assert result.signals == {}
    assert result.isolation == "full"


@pytest.mark.proof
def test_an_endless_loop_ends_at_the_deadline(frames):
    runner = ForkRunner(timeout=0.5)
    started = time.perf_counter()
    result = runner.run(["while True: pass"], frames)
    assert isinstance(result.error, CodeTimeout)
    assert time.perf_counter() - started < 6.0
    runner.timeout = 20.0
    assert runner.run(["1"], frames).value == "1"
    runner.close()


def test_a_hundred_megabytes_of_output_are_cut(runner, frames):
    result = runner.run(["print('x' * 100_000_000)\nprint('end')"], frames)
    assert result.error is None
    assert len(result.stdout) < 600
    assert "more characters were dropped" in result.stdout


def test_the_environment_is_empty(runner, frames, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    ours = FreshRunner(timeout=15.0) if isinstance(runner, FreshRunner) else ForkRunner(timeout=15.0)
    result = ours.run(["import os\nprint(sorted(os.environ))"], frames)
    assert "OPENAI" not in result.stdout
    assert "HOME" not in result.stdout
    assert result.error is None
    if isinstance(ours, ForkRunner):
        ours.close()


def test_no_import_path_leads_to_another_data_state(runner, frames):
    code = (
        "from quantgraph.state import GLOBAL_DATA_STATE as again\nimport quantgraph.state\n"
        "(again is GLOBAL_DATA_STATE, quantgraph.state.GLOBAL_DATA_STATE is again, list(again.snapshot()['ohlcv']))"
    )
    assert runner.run([code], frames).value == "(True, True, ['open', 'close'])"


def test_the_child_has_the_view_and_nothing_else(runner, frame):
    store = DataState()
    store.update("ohlcv", {"close": frame})
    known = store.view(Moment.at("2024-01-04")).frozen()
    code = "b = snapshot['ohlcv']['close'].values\nwhile isinstance(b, np.ndarray): last, b = b.size, b.base\nlast"
    assert runner.run([code], known).value == "9"


def test_set_order_is_fixed_and_unseeded_randomness_is_not(frames):
    runner = ForkRunner()
    order = "list({'a', 'bb', 'ccc', 'dddd', 'eeeee'})"
    values = {runner.run([order], frames).value for _ in range(2)}
    runner.close()
    other = ForkRunner()
    values.add(other.run([order], frames).value)
    assert len(values) == 1
    draws = {other.run(["np.random.rand()"], frames).value for _ in range(3)}
    assert len(draws) == 3
    other.close()


def test_a_signal_that_was_there_comes_back_only_when_it_is_another(forker, frame):
    store = DataState()
    store.update("ohlcv", {"close": frame})
    store.update("signal", {"old": frame * 0, "same": frame * 0, "more": frame * 0})
    known = store.view(Moment.at("2024-01-08")).frozen()
    code = (
        "zero = snapshot['ohlcv']['close'] * 0\n"
        "GLOBAL_DATA_STATE.update('signal', {'old': zero + 1, 'same': zero, 'new': zero})"
    )
    result = forker.run([code], known)
    assert list(result.signals) == ["old", "new"]
    assert result.signals["old"].eq(1.0).to_numpy().all()


def test_code_that_is_refused_and_goes_on_is_not_stopped(forker, frames):
    code = "try:\n    open('/etc/passwd')\nexcept OSError as error:\n    told = error.errno\ntold"
    assert forker.run([code], frames).value == "1"


@pytest.mark.proof
def test_a_warm_call_is_quick():
    index = pd.date_range("2024-01-01", periods=250)
    panel = pd.DataFrame(np.ones((250, 50)), index=index, columns=[f"{n:06d}.SZ" for n in range(50)])
    store = DataState()
    store.update("ohlcv", dict.fromkeys(("open", "high", "low", "close", "vol"), panel))
    frames = store.view(Moment.at("2024-12-31")).frozen()
    runner = ForkRunner()
    runner.run(["1"], frames)
    seconds = min(runner.run([SIGNAL], frames).seconds for _ in range(5))
    runner.close()
    assert seconds < 0.25
