"""A walk runs the same cells at one moment after the other, and nothing later is anywhere in its process."""

from __future__ import annotations

import os
import re
import time

import numpy as np
import pandas as pd
import pytest

from quantgraph.errors import BadOption, CodeFailed, CodeMemoryExceeded, CodeTimeout
from quantgraph.market import Moment
from quantgraph.sandbox import ForkRunner, open_prefix_run
from quantgraph.state import DataState

pytestmark = pytest.mark.proof

HAND_OVER = "GLOBAL_DATA_STATE.update('signal', {'s': (snapshot['ohlcv']['close'] > 3).astype(float)})"
SHAPES = "{p: {n: snapshot[p][n].shape[0] for n in snapshot[p]} for p in ('ohlcv', 'indicators')}"


@pytest.fixture
def panels(frame):
    """Fields known at different phases, and two that have sessions of their own."""
    store = DataState()
    store.update("ohlcv", {"pre_close": frame - 1, "open": frame + 1, "close": frame})
    store.update("ohlcv", {"dividend": frame.iloc[[2], :2]})
    store.update("indicators", {"pe": frame * 2, "rare": frame.iloc[[0, 4]]})
    return store.view(Moment.at("2024-01-08")).frozen()


class OnlyRun:
    """A runner of a user's own."""

    def __init__(self, runner):
        self._runner = runner

    def run(self, cells, frames):
        return self._runner.run(cells, frames)


@pytest.fixture(params=["prefixes", "only run"])
def runner(request, forker):
    return forker if request.param == "prefixes" else OnlyRun(forker)


def moments(frame):
    return [
        Moment(session, phase)
        for session in frame.index
        for phase in ("pre_open", "open", "close", "post_close")
    ]


def test_at_each_moment_it_is_as_if_only_that_view_had_been_handed_over(runner, forker, panels, frame):
    store = DataState()
    store.adopt(panels)
    cells = [
        "close = snapshot['ohlcv']['close']",
        "GLOBAL_DATA_STATE.update('signal', {'s': close.gt(4) * 1.0})",
    ]
    cells.append(f"print(close.sum().sum(), snapshot['ohlcv']['dividend'].to_dict()); {SHAPES}")
    with open_prefix_run(runner, cells, panels) as steps:
        for moment in moments(frame):
            step, alone = steps.at(moment), forker.run(cells, store.view(moment).frozen())
            assert (step.stdout, step.value, step.isolation) == (alone.stdout, alone.value, "full")
            if alone.error is None:
                pd.testing.assert_frame_equal(step.signals["s"], alone.signals["s"])
            else:
                assert step.error.message == alone.error.message


def test_rows_are_there_from_the_phase_on_in_which_they_are_known(runner, panels):
    told, names = [], ["pre_close", "open", "close", "dividend", "pe", "rare"]
    with open_prefix_run(runner, [SHAPES], panels) as steps:
        for session, phase in (
            ("2024-01-03", "pre_open"),
            ("2024-01-03", "open"),
            ("2024-01-03", "close"),
            ("2024-01-04", "pre_open"),
            ("2024-01-08", "post_close"),
        ):
            rows = eval(steps.at(Moment.at(session, phase)).value)
            told.append([(rows["ohlcv"] | rows["indicators"])[name] for name in names])
    assert told == [
        [2, 1, 1, 0, 1, 1],
        [2, 2, 1, 0, 1, 1],
        [2, 2, 2, 0, 1, 1],
        [3, 2, 2, 1, 2, 1],
        [5, 5, 5, 1, 5, 2],
    ]


def data_memory(pid):
    """All that a process or its host could have put data into, region by region."""
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for line in maps:
            places, rights = line.split()[:2]
            if rights.startswith("rw") or rights == "r--s":
                first, last = (int(place, 16) for place in places.split("-"))
                memory.seek(first)
                yield memory.read(last - first)


@pytest.mark.skipif(os.getuid() != 0, reason="only root reads the memory of a sealed process")
def test_nothing_later_is_anywhere_in_the_memory_of_the_process(frame):
    # Numbers that share six random bytes: one search finds them all, and their first two bytes tell them apart.
    shared = os.urandom(6)
    marks = np.frombuffer(b"".join(shared + bytes([number, 0x40]) for number in range(5)))
    store = DataState()
    store.update("ohlcv", {"close": pd.DataFrame(marks.reshape(5, 1), index=frame.index, columns=["a"])})
    runner = ForkRunner()
    with open_prefix_run(
        runner, ["import os\nos.getpid()"], store.view(Moment.at("2024-01-08")).frozen()
    ) as steps:
        for number in (0, 3, 4):
            pid = int(steps.at(Moment(frame.index[number])).value)
            found = set()
            for region in data_memory(pid):
                found |= {
                    place.group(1)[0] for place in re.finditer(re.escape(shared) + b"([\0-\4])@", region)
                }
            assert found == set(range(number + 1))
    runner.close()


def test_what_a_frame_leads_to_ends_with_its_last_row(forker, panels):
    search = (
        "base, sizes = snapshot['ohlcv']['close'].to_numpy(), []\n"
        "while isinstance(base, np.ndarray): sizes.append(base.size); base = base.base\n"
        "max(sizes), base.nbytes"
    )
    with open_prefix_run(forker, [search], panels) as steps:
        assert steps.at(Moment.at("2024-01-04")).value == "(9, 72)"
        assert steps.at(Moment.at("2024-01-05")).value == "(12, 96)"


def test_frames_are_read_only_down_to_their_memory(forker, panels):
    code = (
        "b = snapshot['ohlcv']['close'].to_numpy()\n"
        "while isinstance(b, np.ndarray): last, b = b, b.base\n"
        "try: last.flags.writeable = True\nexcept ValueError as error: print('refused')\n"
        "try: b[0] = 1\nexcept TypeError: print('refused')"
    )
    with open_prefix_run(forker, [code], panels) as steps:
        assert steps.at(Moment.at("2024-01-05")).stdout == "refused\nrefused\n"


def test_rows_grow_over_every_doubling_as_they_were(forker):
    sessions = pd.date_range("2000-01-01", periods=300)
    values = np.random.default_rng(1).random((300, 3))
    values[5, 1] = np.nan
    panel = pd.DataFrame(values, index=sessions, columns=["a", "b", "c"])
    store = DataState()
    store.update("ohlcv", {"close": panel})
    frames = store.view(Moment(sessions[-1])).frozen()
    code = "import hashlib\nc = snapshot['ohlcv']['close']\nhashlib.md5(c.to_numpy().tobytes()).hexdigest()"
    with open_prefix_run(forker, [code], frames) as steps:
        for number in [0, 0, 1, 14, 15, 16, 17, 31, 32, 100, 255, 256, 299]:
            import hashlib

            wanted = hashlib.md5(values[: number + 1].tobytes()).hexdigest()
            assert steps.at(Moment(sessions[number])).value == repr(wanted)


def test_every_step_has_a_namespace_and_a_store_of_its_own(runner, panels):
    cells = ["before = 'kept' in globals(), list(snapshot['signal'])\nkept = 1", f"{HAND_OVER}\nbefore"]
    with open_prefix_run(runner, cells, panels) as steps:
        for session in ("2024-01-03", "2024-01-04"):
            assert steps.at(Moment.at(session)).value == "(False, [])"


def test_unseeded_randomness_differs_from_step_to_step(forker, panels):
    with open_prefix_run(forker, ["np.random.rand()"], panels) as steps:
        assert len({steps.at(Moment.at("2024-01-03")).value for _ in range(3)}) == 3


def test_a_step_that_fails_gives_its_error_and_the_walk_goes_on(runner, panels):
    cells = ["rows = len(snapshot['ohlcv']['close'])\nif rows == 3:\n    raise ValueError(rows)\nrows"]
    with open_prefix_run(runner, cells, panels) as steps:
        assert steps.at(Moment.at("2024-01-03")).value == "2"
        failed = steps.at(Moment.at("2024-01-04"))
        assert failed.error.message == "line 3 (raise ValueError(rows)): ValueError: 3"
        assert steps.at(Moment.at("2024-01-05")).error is None
    with open_prefix_run(runner, ["def f(:"], panels) as steps:
        for session in ("2024-01-03", "2024-01-04"):
            assert "SyntaxError" in steps.at(Moment.at(session)).error.message


@pytest.mark.proof
@pytest.mark.parametrize(
    ("end", "kind", "words"),
    [
        ("import os; os._exit(3)", CodeFailed, "it exited with status 3"),
        ("import ctypes; ctypes.string_at(0)", CodeFailed, "died of SIGSEGV"),
        ("while True: pass", CodeTimeout, "more than 1 s"),
        ("np.ones(50 << 27)", CodeMemoryExceeded, "256 MB"),
    ],
)
def test_a_step_that_ends_the_process_does_not_end_the_walk(panels, end, kind, words):
    runner = ForkRunner(timeout=1.0 if kind is CodeTimeout else 20.0, memory_mb=256)
    cells = [f"rows = len(snapshot['ohlcv']['close'])\nif rows == 3:\n    {end}\n", "str(rows)"]
    with open_prefix_run(runner, cells, panels) as steps:
        assert steps.at(Moment.at("2024-01-03")).value == "'2'"
        started = time.perf_counter()
        error = steps.at(Moment.at("2024-01-04")).error
        assert (type(error), words in error.message) == (kind, True)
        assert time.perf_counter() - started < 4.0
        assert steps.at(Moment.at("2024-01-05")).value == "'4'"
        assert steps.at(Moment.at("2024-01-08")).value == "'5'"
    runner.close()


@pytest.mark.proof
def test_the_deadline_is_each_steps_own(panels):
    runner = ForkRunner(timeout=1.0)
    runner.run(["1"], panels)
    with open_prefix_run(runner, ["import time; time.sleep(0.3)"], panels) as steps:
        for session in ("2024-01-02", "2024-01-03", "2024-01-04", "2024-01-05"):
            assert steps.at(Moment.at(session)).error is None
    runner.close()


def test_a_step_that_writes_into_its_own_reply_is_found_out(forker, panels):
    noise = (
        "import os\nif len(snapshot['ohlcv']['close']) == 3:\n    for n in range(3, 64):\n"
        "        try: os.write(n, b'x' * 100)\n        except OSError: pass"
    )
    with open_prefix_run(forker, [noise, "1"], panels) as steps:
        assert steps.at(Moment.at("2024-01-03")).value == "1"
        assert "unreadable" in steps.at(Moment.at("2024-01-04")).error.message
        assert steps.at(Moment.at("2024-01-05")).value == "1"


def test_a_reading_that_fails_leaves_nothing_to_the_next_step(forker, panels, monkeypatch):
    from quantgraph.sandbox._result import Call

    def stop(*arguments, **named):
        raise KeyboardInterrupt

    with open_prefix_run(forker, ["len(snapshot['ohlcv']['close'])"], panels) as steps:
        assert steps.at(Moment.at("2024-01-03")).value == "2"
        with monkeypatch.context() as patch:
            patch.setattr(Call, "read_result", stop)
            with pytest.raises(KeyboardInterrupt):
                steps.at(Moment.at("2024-01-04"))
        assert steps.at(Moment.at("2024-01-05")).value == "4"


def test_a_signal_far_away_is_an_error_of_its_step_alone(forker, panels):
    code = (
        "import os, json, struct\nif len(snapshot['ohlcv']['close']) == 3:\n"
        "    axis = {'sessions': [86_400_000_000 * 365 * 18_100] * 2, 'symbols': ['a']}\n"
        "    told = {'stdout': '', 'value': '', 'error': None, 'axes': [axis],"
        " 'frames': [{'panel': 'signal', 'name': 's', 'axis': 0}]}\n"
        "    text = json.dumps(told).encode()\n    for n in range(3, 64):\n"
        "        try: os.write(n, struct.pack('<QQ', len(text), 16) + text + struct.pack('<2d', 1, 1))\n"
        "        except OSError: pass"
    )
    with open_prefix_run(forker, [code, "1"], panels) as steps:
        assert steps.at(Moment.at("2024-01-03")).value == "1"
        assert "unreadable" in steps.at(Moment.at("2024-01-04")).error.message
        assert steps.at(Moment.at("2024-01-05")).value == "1"


def test_moments_have_to_ascend(runner, panels):
    with open_prefix_run(runner, ["1"], panels) as steps:
        steps.at(Moment.at("2024-01-04", "close"))
        steps.at(Moment.at("2024-01-04", "close"))
        with pytest.raises(
            BadOption, match="moment=2024-01-04 open is before the last one, 2024-01-04 close"
        ):
            steps.at(Moment.at("2024-01-04", "open"))


def test_closing_ends_the_child(panels):
    runner = ForkRunner(timeout=5.0)
    with open_prefix_run(runner, ["import os\nos.getpid()"], panels) as steps:
        child = int(steps.at(Moment.at("2024-01-04")).value)
        os.kill(child, 0)
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)
    runner.close()


def test_only_new_rows_are_written(forker, monkeypatch):
    written = []
    write = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda *what: written.append(len(what[1])) or write(*what))
    sessions = pd.date_range("2000-01-01", periods=400)
    store = DataState()
    store.update(
        "ohlcv", {"close": pd.DataFrame(np.ones((400, 50)), index=sessions, columns=map(str, range(50)))}
    )
    with open_prefix_run(forker, ["1"], store.view(Moment(sessions[-1])).frozen()) as steps:
        for session in sessions[-100:]:
            steps.at(Moment(session))
    assert written == [301 * 8, 301 * 50 * 8, *[8, 50 * 8] * 99]
