"""Trusted code runs in this process: without walls, but without the tool's known traps."""

from __future__ import annotations

import sys

import pandas as pd
import pytest

from quantgraph.errors import CodeFailed, CodeMemoryExceeded
from quantgraph.market import Moment
from quantgraph.sandbox import CodeRunner, ForkRunner, open_prefix_run
from quantgraph.settings import load_settings
from quantgraph.state import GLOBAL_DATA_STATE
from quantgraph.tools._code import TrustedRunner, code_runner

HAND_OVER = "GLOBAL_DATA_STATE.update('signal', {'s': (snapshot['ohlcv']['close'] > 3).astype(float)})"


@pytest.fixture
def frames(store, frame):
    store.update("ohlcv", {"close": frame})
    return store.view(Moment.at("2024-01-08")).frozen()


@pytest.fixture
def runner():
    return TrustedRunner()


def test_it_is_a_code_runner_and_every_result_says_what_it_is(runner, frames):
    assert isinstance(runner, CodeRunner)
    assert runner.run(["1"], frames).isolation == "trusted"
    assert runner.run(["1 / 0"], frames).isolation == "trusted"


def test_a_signal_is_handed_over_and_the_hosts_store_is_not_touched(runner, frames, frame):
    head = GLOBAL_DATA_STATE.head
    result = runner.run([HAND_OVER], frames)
    pd.testing.assert_frame_equal(
        result.signals["s"], (frame > 3).astype(float), check_names=False, check_freq=False
    )
    assert GLOBAL_DATA_STATE.head == head


def test_it_gives_what_a_process_of_its_own_gives(runner, frames):
    apart = ForkRunner()
    for cells in (
        [HAND_OVER, "print('a')\nprint('b'); len(snapshot['ohlcv'])"],
        ["x = 2\nraise ValueError('no')"],
        ["x = 1", "y = x +"],
        ["snapshot['ohlcv']['open']"],
    ):
        one, two = runner.run(cells, frames), apart.run(cells, frames)
        assert (one.stdout, one.value) == (two.stdout, two.value)
        assert list(one.signals) == list(two.signals)
        assert (one.error and one.error.line) == (two.error and two.error.line)
    apart.close()


def test_functions_and_comprehensions_see_what_the_cell_imported(runner, frames):
    cells = [
        "import math\nlimit = 2",
        "def f(x):\n    return math.floor(x) + limit\n[f(n) for n in range(limit)]",
    ]
    assert runner.run(cells, frames).value == "[2, 3]"


def test_a_last_expression_that_fails_is_run_once(runner, frames, monkeypatch):
    counted = []
    monkeypatch.setattr(sys, "counted_by_a_test", counted, raising=False)
    result = runner.run(["import sys\nsys.counted_by_a_test.append(1) or 1 / 0"], frames)
    assert counted == [1]
    assert (
        result.error.message
        == "line 2 (sys.counted_by_a_test.append(1) or 1 / 0): ZeroDivisionError: division by zero"
    )


@pytest.mark.parametrize("end", ["import sys\nsys.exit(3)", "raise SystemExit", "exit()"])
def test_code_that_exits_does_not_end_the_host(runner, frames, end):
    result = runner.run([end], frames)
    assert type(result.error) is CodeFailed
    assert "SystemExit" in result.error.message or "NameError" in result.error.message


def test_the_user_can_interrupt_it(runner, frames):
    with pytest.raises(KeyboardInterrupt):
        runner.run(["raise KeyboardInterrupt"], frames)


def test_memory_that_is_not_there_is_said(runner, frames):
    assert type(runner.run(["raise MemoryError"], frames).error) is CodeMemoryExceeded


def test_a_file_that_the_system_denies_is_no_refusal_of_ours(runner, frames):
    result = runner.run(["raise PermissionError(13, 'Permission denied')"], frames)
    assert type(result.error) is CodeFailed


def test_calls_share_no_variable_and_output_is_caught_and_cut(frames, capsys):
    runner = TrustedRunner(output_limit=10)
    assert runner.run(["x = 1\nprint('x' * 30)"], frames).stdout.startswith("x" * 10 + "\n… 21 more")
    assert "NameError" in runner.run(["x"], frames).error.message
    assert capsys.readouterr().out == ""


def test_code_that_starts_with_the_word_python_is_left_as_it_is(runner, frames):
    assert runner.run(["python_ret = 5\npython_ret"], frames).value == "5"


def test_a_walk_is_cut_at_each_moment(runner, frames):
    with open_prefix_run(runner, ["snapshot['ohlcv']['close'].shape"], frames) as walk:
        assert walk.at(Moment.at("2024-01-04")).value == "(3, 3)"


def test_the_settings_choose_the_runner(monkeypatch):
    assert isinstance(code_runner(load_settings(code_isolation="trusted")), TrustedRunner)
    monkeypatch.setenv("QUANTGRAPH_CODE_ISOLATION", "limits_only")
    chosen = code_runner(load_settings(code_timeout=3.5, code_memory_mb=300))
    assert (chosen.timeout, chosen.memory_mb, chosen.isolation) == (3.5, 300, "limits_only")
