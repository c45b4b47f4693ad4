"""Generated code runs elsewhere: what it does there stays there."""

from __future__ import annotations

import atexit
import gc
import os
import select
import subprocess
import sys
import threading
import time
import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest

from quantgraph._frames import freeze
from quantgraph.errors import CodeFailed, CodeMemoryExceeded, CodeTimeout
from quantgraph.market.moment import Moment
from quantgraph.sandbox import CodeRunner, ForkRunner, FreshRunner
from quantgraph.sandbox.warm import WarmProcess
from quantgraph.state import DataState

SIGNAL = "GLOBAL_DATA_STATE.update('signal', {'s': (snapshot['ohlcv']['close'] > 3).astype(float)})"


@pytest.fixture
def frames(frame):
    store = DataState()
    store.update("ohlcv", {"close": frame, "open": frame + 1})
    return store.view(Moment.at("2024-01-08")).frozen()


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
    ours = FreshRunner(timeout=15.0) if isinstance(runner, FreshRunner) else ForkRunner(timeout=15.0)
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
    pid = runner._warm.process.pid
    assert runner.run(["1"], frames).value == "1"
    assert runner._warm.process.pid == pid
    runner.close()


def test_a_warm_process_that_was_killed_is_started_again(frames):
    runner = ForkRunner()
    runner.run(["1"], frames)
    runner._warm.process.kill()
    runner._warm.process.wait()
    assert runner.run(["2"], frames).value == "2"
    runner.close()


def test_closing_ends_the_process_and_removes_its_folder(frames):
    runner = ForkRunner()
    runner.run(["1"], frames)
    pid, folder = runner._warm.process.pid, runner._warm.folder.name
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


FORGE = """
import json, os, struct
def answer(header, body=b"", lengths=None):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<QQ", *(lengths or (len(text), len(body)))) + text + body
def everywhere(content):
    for number in range(3, 64):
        try:
            os.write(number, content)
        except OSError:
            pass
    os._exit(0)
AXIS = {"sessions": [1704153600000000], "symbols": ["a"]}
ENTRY = {"panel": "signal", "name": "s", "axis": 0}
PLAIN = {"stdout": "", "value": "", "error": None, "frames": [], "axes": []}
"""

FORGERIES = {
    "garbage": "everywhere(os.urandom(1000))",
    "text": "everywhere(b'no reply at all, but some text')",
    "huge header": "everywhere(answer(PLAIN, lengths=(1 << 63, 0)))",
    "huge body": "everywhere(answer(PLAIN, lengths=(10, 1 << 62)))",
    "all ones": "everywhere(b'\\xff' * 5000)",
    "no JSON": "everywhere(answer(b'{'))",
    "no UTF-8": "everywhere(answer(b'\\xff\\xfe\\xfa\\x00'))",
    "a list": "everywhere(answer([1, 2]))",
    "null": "everywhere(answer(None))",
    "empty": "everywhere(answer({}))",
    "deep": "everywhere(answer(b'[' * 100_000))",
    "no text": "everywhere(answer({**PLAIN, 'stdout': None}))",
    "no value": "everywhere(answer({k: v for k, v in PLAIN.items() if k != 'value'}))",
    "error is text": "everywhere(answer({**PLAIN, 'error': 'x'}))",
    "error is a list": "everywhere(answer({**PLAIN, 'error': [1]}))",
    "error has a line of text": (
        "everywhere(answer({**PLAIN, 'error': {'code': 1, 'type': '', 'text': '', 'message': '', 'line': 'x'}}))"
    ),
    "frames are a number": "everywhere(answer({**PLAIN, 'frames': 5}))",
    "axes are text": "everywhere(answer({**PLAIN, 'axes': 'ab'}))",
    "no such axis": "everywhere(answer({**PLAIN, 'frames': [ENTRY]}))",
    "axis is a flag": "everywhere(answer({**PLAIN, 'axes': [AXIS], 'frames': [{**ENTRY, 'axis': False}]}, bytes(8)))",
    "days beyond 64 bits": "everywhere(answer({**PLAIN, 'axes': [{**AXIS, 'sessions': [1 << 70]}]}))",
    "days are fractions": "everywhere(answer({**PLAIN, 'axes': [{**AXIS, 'sessions': [0.5]}]}))",
    "symbols are lists": "everywhere(answer({**PLAIN, 'axes': [{**AXIS, 'symbols': [[]]}]}))",
    "symbol breaks the line": (
        "everywhere(answer({**PLAIN, 'axes': [{**AXIS, 'symbols': ['a\\nb']}], 'frames': [ENTRY]}, bytes(8)))"
    ),
    "name breaks the line": (
        "everywhere(answer({**PLAIN, 'axes': [AXIS], 'frames': [{**ENTRY, 'name': 'a\\nb'}]}, bytes(8)))"
    ),
    "name is a surrogate": (
        "everywhere(answer({**PLAIN, 'axes': [AXIS], 'frames': [{**ENTRY, 'name': '\\ud800'}]}, bytes(8)))"
    ),
    "no midnight": (
        "everywhere(answer({**PLAIN, 'axes': [{**AXIS, 'sessions': [1]}], 'frames': [ENTRY]}, bytes(8)))"
    ),
    "not a time": (
        "everywhere(answer({**PLAIN, 'axes': [{**AXIS, 'sessions': [-1 << 63]}], 'frames': [ENTRY]}, bytes(8)))"
    ),
    "last of times": (
        "everywhere(answer({**PLAIN, 'axes': [{**AXIS, 'sessions': [(1 << 63) - 1]}], 'frames': [ENTRY]}, bytes(8)))"
    ),
    "a signal of 0.5": (
        "everywhere(answer({**PLAIN, 'axes': [AXIS], 'frames': [ENTRY]}, struct.pack('<d', 0.5)))"
    ),
    "frame larger than body": "everywhere(answer({**PLAIN, 'axes': [AXIS], 'frames': [ENTRY, ENTRY]}, bytes(8)))",
    "body larger than frames": "everywhere(answer(PLAIN, bytes(64)))",
    "a patched check": """
import quantgraph._frames, quantgraph.state
def lax(panel, name, frame, strict=quantgraph._frames.freeze):
    return strict('ohlcv', name, frame)
quantgraph._frames.freeze = quantgraph.state.freeze = lax
GLOBAL_DATA_STATE.update('signal', {'s': snapshot['ohlcv']['close'] * 0 + 0.5})
""",
}


@pytest.mark.parametrize("case", FORGERIES)
def test_a_forged_reply_is_an_error_and_the_next_call_works(forgers, frames, case):
    result = forgers.run([FORGE, FORGERIES[case]], frames)
    assert type(result.error) is CodeFailed
    assert result.error.message == "the code's process sent an unreadable reply"
    assert (result.stdout, result.value, result.signals) == ("", "", {})
    assert forgers.run(["1 + 1"], frames).value == "2"


@pytest.fixture(scope="module")
def forgers():
    made = ForkRunner(timeout=15.0, memory_mb=512)
    yield made
    made.close()


@pytest.mark.parametrize("case", ["garbage", "huge body", "deep", "a signal of 0.5", "a patched check"])
def test_a_forged_reply_of_a_fresh_process_is_an_error_too(frames, case):
    result = FreshRunner(timeout=15.0).run([FORGE, FORGERIES[case]], frames)
    assert result.error.message == "the code's process sent an unreadable reply"
    assert result.signals == {}


def test_a_reply_that_ends_early_is_a_death(forgers, frames):
    result = forgers.run([FORGE, "everywhere(answer(PLAIN, lengths=(5000, 0)))"], frames)
    assert "died without a word" in result.error.message


def test_text_that_is_too_long_or_cannot_be_encoded_is_cut_and_replaced(forgers, frames):
    told = "{'code': 'code_failed', 'type': 'E\\n', 'text': '', 'message': 'a\\nb\\ud800', 'line': None}"
    code = (
        "everywhere(answer({**PLAIN, 'stdout': 'x' * 100_000 + '\\ud800', 'value': '\\ud800', 'error': %s}))"
    )
    result = forgers.run([FORGE, code % told], frames)
    assert result.error.message == "E: a b?"
    assert (len(result.stdout), result.value) == (20_100, "?")


def test_a_reply_without_end_does_not_fill_the_hosts_memory(frames):
    code = "import os\ntry:\n    while True: os.write(3, b'\\0' * (1 << 20))\nexcept OSError: os._exit(0)"
    tracemalloc.start()
    result = FreshRunner(timeout=15.0).run([code], frames)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert result.error.message == "the code's process sent an unreadable reply"
    assert peak < 20_000_000


def test_a_signal_that_was_there_comes_back_only_when_it_is_another(forgers, frame):
    store = DataState()
    store.update("ohlcv", {"close": frame})
    store.update("signal", {"old": frame * 0, "same": frame * 0, "more": frame * 0})
    known = store.view(Moment.at("2024-01-08")).frozen()
    code = (
        "zero = snapshot['ohlcv']['close'] * 0\n"
        "GLOBAL_DATA_STATE.update('signal', {'old': zero + 1, 'same': zero, 'new': zero})"
    )
    result = forgers.run([code], known)
    assert list(result.signals) == ["old", "new"]
    assert result.signals["old"].eq(1.0).to_numpy().all()


def test_restarting_removes_the_old_folder_and_registers_nothing_new(frames):
    registered = atexit._ncallbacks()
    runner = ForkRunner()
    folders = []
    for _ in range(3):
        assert runner.run(["import os; os.mkdir('left')"], frames).error is None
        folders.append(runner._warm.folder.name)
        runner._warm.process.kill()
        runner._warm.process.wait()
    runner.run(["1"], frames)
    assert [os.path.exists(folder) for folder in folders] == [False] * 3
    assert atexit._ncallbacks() <= registered + 1
    runner.close()


def test_a_runner_that_is_forgotten_ends_its_process(frames):
    runner = ForkRunner()
    runner.run(["1"], frames)
    process, folder = runner._warm.process, runner._warm.folder.name
    del runner
    gc.collect()
    assert process.returncode is not None
    assert not os.path.exists(folder)


def test_a_message_without_a_connection_does_not_end_the_warm_process(frames):
    runner = ForkRunner()
    runner.run(["1"], frames)
    pid = runner._warm.process.pid
    runner._warm._control.sendall(b"0000000000003.000000")
    assert runner.run(["2"], frames).value == "2"
    assert runner._warm.process.pid == pid
    runner.close()


def test_when_no_process_can_be_made_the_call_says_so(frames):
    code = (
        "import errno, os, sys\nfork = os.fork\n"
        "def refuse():\n    os.fork = fork\n    raise OSError(errno.EAGAIN, 'no more processes')\n"
        "os.fork = refuse\nfrom quantgraph.sandbox.worker import main\nmain(sys.argv[1:])"
    )
    long = pd.DataFrame(np.ones((2000, 100)), index=pd.date_range("2000-01-01", periods=2000))
    large = {
        "ohlcv": {"close": freeze("ohlcv", "close", long.rename(columns=str))}
    }  # more than a socket holds
    for request in (frames, large):
        runner = ForkRunner()
        runner._warm = WarmProcess([sys.executable, "-c", code])
        result = runner.run(["1"], request)
        assert result.error.message == (
            "BlockingIOError: no process could be made for the code: [Errno 11] no more processes"
        )
        assert runner.run(["2"], frames).value == "2"
        runner._warm.close()


def test_a_process_that_does_not_start_is_one_line_and_leaves_nothing(frames):
    runner = ForkRunner()
    runner._warm = WarmProcess([sys.executable, "-c", "pass"])
    with pytest.raises(CodeFailed, match="the code process did not start; try: "):
        runner.run(["1"], frames)
    assert (runner._warm.process, runner._warm.folder) == (None, None)


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="waits for a process that is not its child")
def test_when_the_host_is_killed_the_warm_process_its_child_and_its_folder_end(tmp_path):
    code = (
        "import threading\nfrom quantgraph.sandbox import ForkRunner\nrunner = ForkRunner()\nrunner.run(['1'], {})\n"
        "threading.Thread(target=runner.run, args=([open(0).read()], {})).start()\n"
        "print(runner._warm.process.pid, runner._warm.folder.name, flush=True)"
    )
    fifo = tmp_path / "child"
    os.mkfifo(fifo)
    cell = f"import os\nwith open({str(fifo)!r}, 'w') as out: out.write(str(os.getpid()))\nwhile True: pass"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as host:
        host.stdin.write(cell)
        host.stdin.close()
        pid, folder = host.stdout.readline().split()
        warm, child = os.pidfd_open(int(pid)), os.pidfd_open(int(fifo.read_text()))
        host.kill()
        for process in (warm, child):
            assert select.select([process], [], [], 10)[0]
            os.close(process)
        assert not os.path.exists(folder)
