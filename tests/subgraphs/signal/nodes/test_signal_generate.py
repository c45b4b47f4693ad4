"""Whatever the model's code does: one clear line, an intact store, bounded attempts, an end with a type."""

from __future__ import annotations

import time

import pytest
from states import flat
from thinned import thinned

from quantgraph.errors import CodeFailed
from quantgraph.sandbox import CodeResult, ForkRunner

ENOUGH = 20.0


@pytest.fixture(scope="module")
def small():
    """A runner that gives 256 MB, and time enough on a busy machine."""
    made = ForkRunner(timeout=ENOUGH, memory_mb=256)
    yield made
    made.close()


def hand_over(frame: str) -> str:
    return f"close = snapshot['ohlcv']['close']\nGLOBAL_DATA_STATE.update('signal', {{'s': {frame}}})"


BAD_CODE = {
    "raises": (
        "x = 1\nraise KeyError('nope')",
        "code_failed: line 2 (raise KeyError('nope')): KeyError: 'nope'",
    ),
    "is no Python": ("buy when it rises", "code_failed: line 1 (buy when it rises): SyntaxError"),
    "exits": ("import sys\nsys.exit(3)", "code_failed: line 2 (sys.exit(3)): SystemExit: 3"),
    "kills itself": (
        "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)",
        "code_refused: line 2 (os.kill(os.getpid(), signal.SIGKILL)): PermissionError",
    ),
    "ends itself": (
        "import os\nos._exit(0)",
        "code_failed: the code's process died: it exited with status 0",
    ),
    "reads the keys": ("open('.env').read()", "code_refused: line 1 (open('.env').read()): PermissionError"),
    "reads accounts": (
        "pd.read_csv('/etc/passwd')",
        "code_refused: line 1 (pd.read_csv('/etc/passwd')): PermissionError",
    ),
    "loops for ever": ("while True:\n    pass", "code_timeout: the code ran for more than 0.5 s"),
    "allocates 50 GB": (
        "a = np.ones(50 << 27)",
        "code_memory: line 1 (a = np.ones(50 << 27)): more than 256 MB",
    ),
    "uses old pandas": (
        "snapshot['ohlcv']['close'].fillna(method='ffill')",
        "code_failed: line 1 (snapshot['ohlcv']['close'].fillna(method='ffill')): TypeError",
    ),
    "hands over 0.5": (
        hand_over("close * 0 + 0.5"),
        "0.5 at (2024-01-02, 000341.SZ); signal values must be 1, 0, -1 or NaN",
    ),
    "hands over inf": (
        hand_over("close * np.inf"),
        "inf at (2024-01-02, 000341.SZ); signal values must be 1, 0, -1 or NaN",
    ),
    "hands over days after the data": (
        hand_over("(close * 0).set_axis(close.index + pd.Timedelta(days=365))"),
        "0 at (2025-01-01, 000341.SZ), which is not a session of the data (22 from 2024-01-02 to 2024-01-31)",
    ),
    "hands over one day more": (
        hand_over("pd.concat([close * 0, (close.iloc[:1] * 0).set_axis([pd.Timestamp('2024-02-01')])])"),
        "0 at (2024-02-01, 000341.SZ), which is not a session of the data",
    ),
    "hands over another symbol": (
        hand_over("(close * 0).set_axis(['600000.SH'], axis=1)"),
        "0 at (2024-01-02, 600000.SH), which is not a symbol of the data (000341.SZ)",
    ),
    "hands over booleans": (
        hand_over("close > 0"),
        "True at (2024-01-02, 000341.SZ); it must be a number: use .astype(float), the name held, or entries and exits",
    ),
    "hands over days of a longer panel of its own": (
        "close = snapshot['ohlcv']['close']\n"
        "more = pd.concat([close, close.iloc[:1].set_axis([pd.Timestamp('2024-02-01')])])\n"
        "GLOBAL_DATA_STATE.update('ohlcv', {'close': more})\n"
        "GLOBAL_DATA_STATE.update('signal', {'s': more * 0})",
        "code_failed: the code returned a signal of other data: signal['s'] has 0 at (2024-02-01, 000341.SZ)",
    ),
    "hands over a time zone": (hand_over("(close * 0).tz_localize('UTC')"), "has an index in time zone UTC"),
    "hands over nothing": ("1 + 1", "no_signal: the code handed over no signal"),
    "asks for the network": (
        "import urllib.request\nurllib.request.urlopen('http://127.0.0.1:9', timeout=0.2)",
        "code_refused: line 2 (urllib.request.urlopen('http://127.0.0.1:9', timeout=0.2)): URLError",
    ),
}


@pytest.mark.parametrize("name", thinned(BAD_CODE, lambda _, name: name != "loops for ever"))
def test_bad_code_ends_the_run_with_one_clear_line(name, play, graph_of, store, small):
    code, says = BAD_CODE[name]
    cast = play.Cast(code=code)
    small.timeout = 0.5 if "code_timeout" in says else ENOUGH
    begun = time.monotonic()
    final = graph_of(cast, runner=small, on_clarify="fail").invoke({"messages": [("user", play.SENTENCE)]})
    assert name != "loops for ever" or time.monotonic() - begun < 10
    (line,) = final["error_messages"]
    assert says in line
    assert "\n" not in line
    assert final["ended_because"] == "repeated_error"
    assert cast.turns["code"] == 3
    assert (final["data_ready"], final["signal_ready"]) == (True, False)
    snapshot = store.snapshot(final["data_ref"])
    assert snapshot["ohlcv"]["close"].shape == (22, 1)
    assert list(snapshot["signal"]) == []
    again = graph_of(play.Cast()).invoke({"messages": [("user", play.SENTENCE)]})
    assert again["ended_because"] == "done", "the next run is as good as before"


def test_a_model_that_reads_what_is_wrong_with_its_signal_mends_it(play, graph_of):
    cells = [hand_over("(close * 0).set_axis(close.index + pd.Timedelta(days=365))"), play.GOOD_CODE]
    cast = play.Cast(code=cells)
    final = graph_of(cast).invoke({"messages": [("user", play.SENTENCE)]})
    assert final["ended_because"] == "done"
    assert cast.turns["code"] == 1
    told = [message.text for call in cast.model.calls for message in call.messages if message.type == "tool"]
    assert any("which is not a session of the data" in text for text in told)


def test_code_that_prints_without_end_is_cut_and_its_signal_counts(play, graph_of, small):
    noisy = "for _ in range(100):\n    print('x' * 1_000_000)\n" + play.GOOD_CODE
    cast = play.Cast(code=noisy)
    small.timeout = ENOUGH
    final = graph_of(cast, runner=small).invoke({"messages": [("user", play.SENTENCE)]})
    assert final["ended_because"] == "done"
    answers = [
        message.text for call in cast.model.calls for message in call.messages if message.type == "tool"
    ]
    assert max(map(len, answers)) < 30_000
    assert any("99980100 more characters were dropped" in answer for answer in answers)


def test_a_model_that_never_stops_running_cells_is_stopped(play, graph_of):
    cast = play.Cast(code=lambda messages, turn: play.tool_call("python_repl", len(messages), query="1 + 1"))
    final = graph_of(cast, on_clarify="fail").invoke({"messages": [("user", play.SENTENCE)]})
    assert final["ended_because"] == "repeated_error"
    assert len([call for call in cast.model.calls if call.messages[-1].type == "tool"]) <= 3 * 12


# Reproducible ------------------------------------------------------------------------------------

RANDOM = {
    "numpy's global generator": "np.random.rand(*close.shape)",
    "a generator of numpy": "np.random.default_rng().random(close.shape)",
    "the standard library": "[[__import__('random').random() for _ in row] for row in close.to_numpy()]",
}


@pytest.mark.parametrize("name", RANDOM)
def test_unseeded_randomness_is_found_not_reproducible(name, play, graph_of):
    code = (
        "close = snapshot['ohlcv']['close']\n"
        f"draw = pd.DataFrame({RANDOM[name]}, index=close.index, columns=close.columns)\n"
        "GLOBAL_DATA_STATE.update('signal', {'lucky': (draw > 0.5).astype(float)})"
    )
    final = graph_of(play.Cast(code=code), on_clarify="fail").invoke({"messages": [("user", play.SENTENCE)]})
    assert final["ended_because"] == "repeated_error"
    assert final["error_messages"] == [
        "not_reproducible: two runs on the same data give different signals; seed what is random"
    ]
    assert flat(final)["strategy"] == {}
    assert final["signal_ready"] is False


def test_seeded_randomness_is_reproducible(play, graph_of):
    code = (
        "close = snapshot['ohlcv']['close']\n"
        "draw = pd.DataFrame(np.random.default_rng(7).random(close.shape), index=close.index, columns=close.columns)\n"
        "GLOBAL_DATA_STATE.update('signal', {'seeded': (draw > 0.5).astype(float)})"
    )
    final = graph_of(play.Cast(code=code)).invoke({"messages": [("user", play.SENTENCE)]})
    assert final["ended_because"] == "done"


def test_cells_that_failed_or_only_looked_are_not_part_of_the_strategy(play, graph_of):
    cells = ["half = 1 / 2", "1 / 0", "print(snapshot['ohlcv']['close'].describe())", play.GOOD_CODE]
    final = graph_of(play.Cast(code=cells)).invoke({"messages": [("user", play.SENTENCE)]})
    assert final["ended_because"] == "done"
    assert flat(final)["strategy"]["cells"] == [play.GOOD_CODE]


# Review ------------------------------------------------------------------------------------------


def test_a_model_that_finds_fault_without_showing_it_warns(play, graph_of):
    review = {"issues_found": [{"severity": "error", "message": "this buys at the top"}]}
    final = graph_of(play.Cast(review=review), on_clarify="fail").invoke(
        {"messages": [("user", play.SENTENCE)]}
    )
    assert final["ended_because"] == "done"
    unread, found = flat(final)["validation"]["issues_found"]
    assert unread["code"] == "not_compared"
    assert (found["severity"], found["code"], found["detail"]) == (
        "warning",
        "meaning_doubt",
        "this buys at the top",
    )


@pytest.mark.parametrize("review", ['{"validation_passed": true, "issues_found": []}', "all is well", ""])
def test_a_model_that_passes_everything_cannot_overrule_an_error_of_code(play, graph_of, review):
    short = play.GOOD_CODE.replace("signal})", "signal.iloc[:-3]})")
    final = graph_of(play.Cast(code=short, review=review), on_clarify="fail").invoke(
        {"messages": [("user", play.SENTENCE)]}
    )
    assert final["ended_because"] == "repeated_error"
    assert final["error_messages"] == ["misaligned: up_day lacks 3 of 22 sessions"]


def test_warnings_and_an_unreadable_review_are_told_and_stop_nothing(play, graph_of):
    warned = {"issues_found": [{"severity": "warning", "message": "few trades"}]}
    final = graph_of(play.Cast(review=warned)).invoke({"messages": [("user", play.SENTENCE)]})
    assert final["ended_because"] == "done"
    assert {"severity": "warning", "code": "model_finding", "message": "few trades"} in flat(final)[
        "validation"
    ]["issues_found"]
    unread = graph_of(play.Cast(review="fine by me")).invoke({"messages": [("user", play.SENTENCE)]})
    assert unread["ended_because"] == "done"
    codes = [issue["code"] for issue in flat(unread)["validation"]["issues_found"]]
    assert codes == ["not_compared", "no_review"]


def test_a_runner_of_the_users_own_that_fails_is_one_line_too(play, graph_of):
    class Broken:
        def run(self, cells, frames):
            return CodeResult(error=CodeFailed("the remote sandbox is asleep"))

    final = graph_of(play.Cast(), runner=Broken(), on_clarify="fail").invoke(
        {"messages": [("user", play.SENTENCE)]}
    )
    assert final["error_messages"] == ["code_failed: the remote sandbox is asleep"]
