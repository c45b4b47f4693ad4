"""The memory of a code process, read from outside: prices that were known are in it, later ones are not."""

from __future__ import annotations

import struct
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from quantgraph.audit.causality._trials import prefix
from quantgraph.errors import CodeUnavailable
from quantgraph.market import Moment
from quantgraph.sandbox import ForkRunner, open_prefix_run
from quantgraph.state.frames import cut_panels, freeze

pytestmark = pytest.mark.proof

KNOWN, LATER = 7351.062573137, 2918.734619028
CUT = 40
"""Rows that are known; with 7 columns their 2,240 bytes end inside a page."""
CODE = """\
import time
close = snapshot["ohlcv"]["close"]
GLOBAL_DATA_STATE.update("signal", {"s": (close > close.rolling(5).mean()) * 1.0})
"""
WAIT = "time.sleep(20)"


@pytest.fixture(scope="module")
def runner():
    made = ForkRunner(timeout=60.0)
    yield made
    made.close()


@pytest.fixture
def panel():
    """Every known price is one number, every later one another, in two fields."""
    days = pd.bdate_range("2024-01-02", periods=100, name="trade_date")
    columns = pd.Index([f"60000{place}.SH" for place in range(7)], dtype="str", name="ts_code")
    values = np.where(np.arange(100)[:, None] < CUT, KNOWN, LATER) * np.ones((100, 7))
    frame = freeze("ohlcv", "close", pd.DataFrame(values, index=days, columns=columns))
    return {"ohlcv": {"close": frame, "open": frame.prefix(100)}}, Moment(days[CUT - 1])


def scan(runner):
    """How often each of the two prices is in the memory of the runner's one child."""
    server = runner._server.process.pid
    (child,) = Path(f"/proc/{server}/task/{server}/children").read_text().split()
    found = dict.fromkeys((KNOWN, LATER), 0)
    try:
        with open(f"/proc/{child}/mem", "rb", buffering=0) as memory:
            for line in Path(f"/proc/{child}/maps").read_text().splitlines():
                place, rights, *_ = line.split()
                begin, end = (int(part, 16) for part in place.split("-"))
                if not rights.startswith("r") or line.endswith(("[vvar]", "[vsyscall]", "[vvar_vclock]")):
                    continue
                memory.seek(begin)
                data = memory.read(end - begin)
                for price in found:
                    found[price] += data.count(struct.pack("<d", price))
    except PermissionError:
        pytest.skip("reading the memory of a sealed process takes root, or CAP_SYS_PTRACE")
    return found


@contextmanager
def waiting(runner, frames):
    """A run over frames whose code has handed over its signal and waits."""

    def run():
        with suppress(CodeUnavailable):  # the runner is closed while the code waits
            runner.run([CODE, WAIT], frames)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    server = runner._server
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        time.sleep(0.5)
        pid = server.process.pid if server.process else None
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split() if pid else []
        if children and _sleeps(children[0]):
            break
    yield
    runner.close()
    thread.join(timeout=10)


def _sleeps(pid):
    """Whether a process is in a sleep of its own, not at work or waiting for a message."""
    return Path(f"/proc/{pid}/wchan").read_text() in ("hrtimer_nanosleep", "common_nsleep") or (
        Path(f"/proc/{pid}/syscall").read_text().split()[0] in ("35", "230", "115")
    )


@pytest.mark.proof
def test_a_whole_panel_is_found(runner, panel):
    frames, _ = panel
    with waiting(runner, frames):
        found = scan(runner)
    assert found[KNOWN] > CUT * 7
    assert found[LATER] > 60 * 7


@pytest.mark.proof
@pytest.mark.parametrize("cut", [prefix, cut_panels])
def test_a_panel_that_ends_at_a_moment_has_nothing_later(runner, panel, cut):
    frames, moment = panel
    with waiting(runner, cut(frames, moment)):
        found = scan(runner)
    assert found[KNOWN] >= CUT * 7
    assert found[LATER] == 0


@pytest.mark.proof
def test_rows_of_a_larger_frame_carry_no_others(runner, panel):
    """The host may hand over a part of a frame whose memory goes on: what is behind it is not sent."""
    frames, moment = panel
    with waiting(runner, cut_panels(frames, moment, copy=False)):
        found = scan(runner)
    assert found[KNOWN] >= CUT * 7
    assert found[LATER] == 0


def test_a_walk_has_nothing_later_than_its_moment_and_all_of_it_in_the_end(runner, panel):
    frames, moment = panel
    with open_prefix_run(runner, [CODE], frames) as steps:
        for session in frames["ohlcv"]["close"].sessions[: CUT : CUT // 4]:
            assert steps.at(Moment(pd.Timestamp(session))).error is None
        assert steps.at(moment).error is None
        found = scan(runner)
        assert found[KNOWN] >= CUT * 7
        assert found[LATER] == 0
        assert steps.at(Moment.at("2262-01-01")).error is None
        assert scan(runner)[LATER] >= 60 * 7
