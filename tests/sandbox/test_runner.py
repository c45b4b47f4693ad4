"""Generated code runs elsewhere: what it does there stays there."""

from __future__ import annotations

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest

from quantgraph.errors import CodeFailed, CodeMemoryExceeded, CodeTimeout
from quantgraph.market.moment import Moment
from quantgraph.sandbox import CodeRunner, ForkRunner, FreshRunner
from quantgraph.state import DataState

SIGNAL = "GLOBAL_DATA_STATE.update('signal', {'s': (snapshot['ohlcv']['close'] > 3).astype(float)})"


@pytest.fixture
def frames(frame):
    store = DataState()
    store.update("ohlcv", {"close": frame, "open": frame + 1})
    return store.view(Moment.at("2024-01-08")).frozen()


@pytest.fixture(scope="module", params=[ForkRunner, FreshRunner])
def runner(request):
    made = request.param(timeout=3.0, memory_mb=512, output_limit=500)
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
    "dies": ("import os\nos._exit(0)", CodeFailed, "died"),
    "segfault": ("import ctypes\nctypes.string_at(0)", CodeFailed, "died"),
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
def test_what_goes_wrong_is_one_line_and_the_next_call_works(runner, frames, case):
    code, kind, words = BAD[case]
    result = runner.run([code], frames)
    assert type(result.error) is kind
    assert words in result.error.message
    assert "\n" not in result.error.message
    assert result.signals == {}
    assert runner.run(["1 + 1"], frames).value == "2"


def test_an_endless_loop_ends_at_the_deadline(frames):
    runner = ForkRunner(timeout=0.5)
    started = time.perf_counter()
    result = runner.run(["while True: pass"], frames)
    assert isinstance(result.error, CodeTimeout)
    assert time.perf_counter() - started < 6.0
    assert runner.run(["1"], frames).value == "1"
    runner.close()


def test_a_hundred_megabytes_of_output_are_cut(runner, frames):
    result = runner.run(["print('x' * 100_000_000)\nprint('end')"], frames)
    assert result.error is None
    assert len(result.stdout) < 600
    assert "more characters were dropped" in result.stdout


def test_the_environment_is_empty_and_the_folder_too(runner, frames, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    ours = FreshRunner(timeout=3.0) if isinstance(runner, FreshRunner) else ForkRunner(timeout=3.0)
    result = ours.run(["import os\nprint(sorted(os.environ), os.listdir('.'))"], frames)
    assert "OPENAI" not in result.stdout
    assert "HOME" not in result.stdout
    assert result.stdout.rstrip().endswith("[]")
    if isinstance(ours, ForkRunner):
        ours.close()


def test_no_import_path_leads_to_another_data_state(runner, frames):
    code = (
        "from quantgraph.state import GLOBAL_DATA_STATE as again\nimport quantgraph.state\n"
        "(again is GLOBAL_DATA_STATE, quantgraph.state.GLOBAL_DATA_STATE is again, list(again.snapshot()['ohlcv']))"
    )
    assert runner.run([code], frames).value == "(True, True, ['close', 'open'])"


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


def test_threads_share_one_warm_process(frames):
    runner = ForkRunner(timeout=20.0)
    barrier = threading.Barrier(8)

    def call(number):
        barrier.wait()
        return runner.run([f"{number} * 2"], frames).value

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(call, range(8))) == [str(number * 2) for number in range(8)]
    pid = runner._process.pid
    assert runner.run(["1"], frames).value == "1"
    assert runner._process.pid == pid
    runner.close()


def test_a_warm_process_that_was_killed_is_started_again(frames):
    runner = ForkRunner()
    runner.run(["1"], frames)
    runner._process.kill()
    runner._process.wait()
    assert runner.run(["2"], frames).value == "2"
    runner.close()


def test_closing_ends_the_process_and_removes_its_folder(frames):
    runner = ForkRunner()
    runner.run(["1"], frames)
    pid, folder = runner._process.pid, runner._folder.name
    runner.close()
    assert not os.path.exists(folder)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


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
