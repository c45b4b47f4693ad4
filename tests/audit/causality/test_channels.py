"""What trades is what the walk computed before any process knew more, whatever joins two processes.

Eight strategies leave tomorrow's direction in a channel and look for it there. The seal is opened, so that each channel
works as well as it can. If the whole panel is run before the walk, the proof is deceived; as it is, it is not.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from contextlib import closing
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from channels import BEYOND, CHANNELS, HONEST, PAGE, PEEKING
from thinned import thinned

from quantgraph.audit.causality import CodeTrials, check_causality
from quantgraph.audit.causality._trials import read_panels
from quantgraph.errors import CodeFailed
from quantgraph.market import Moment
from quantgraph.sandbox import ForkRunner
from quantgraph.sandbox._server import PYTHON, ServerProcess

from .causality_panels import panel

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or not os.access("/dev/shm", os.W_OK), reason="the channels are those of Linux"
)

OPENED = """\
import sys
from quantgraph.sandbox import _lockdown, _worker
_lockdown.close_files = lambda: ""
_lockdown.close_calls = lambda: ""
_lockdown._set_limits = lambda memory, seconds: None
_worker.main(sys.argv[1:])
"""
ATTEMPTS = 20  # other processes on the machine disturb a channel
_LONG_AGO = time.time() - 7 * 86_400


class WholePanelFirst(CodeTrials):
    """Trials without the order: the code has seen the whole panel when it is walked."""

    def prefixes(self, panel, moments, **rows):
        self.whole(panel)
        yield from super().prefixes(panel, moments, **rows)


def check(trials, days):
    """The proof of every session."""
    return check_causality(trials, days, prove="all", warm_up=False)


def holds(trials, days, twin):
    """Whether a strategy is refused, or trades what its honest twin does."""
    try:
        verdict = check(trials, days)
    except CodeFailed:
        return True
    return not verdict.causal or verdict.signal.equals(twin)


def days_of(channel):
    return {"ohlcv": panel(channel.sessions, 1, gaps=False)}


def walked(trials, days):
    """The last row of each prefix's signal, as a walk has it."""
    panels = read_panels(days)
    close = panels["ohlcv"]["close"]
    moments = [Moment(pd.Timestamp(session)) for session in close.sessions]
    rows = [outcome.signal.values[-1] for outcome in trials.prefixes(panels, moments, last_row=True)]
    return pd.DataFrame(np.array(rows), index=close.frame.index, columns=close.frame.columns)


def knowledge(signal, peeking):
    """The share of sessions with a next one in which a signal says where it goes."""
    return float((signal == peeking).to_numpy()[:-1].mean())


@pytest.fixture(scope="module")
def opened():
    """A runner whose code may do what its user may."""
    runner = ForkRunner(timeout=60.0, isolation="none")
    runner._server = ServerProcess("none", [*PYTHON[:-1], OPENED])
    with closing(runner):
        runner.check()
        assert runner._server.level == "none"
        yield runner


@pytest.fixture(scope="module")
def sealed():
    with closing(ForkRunner(timeout=60.0)) as runner:
        yield runner


@pytest.fixture
def empty_folder(tmp_path):
    """Makes folders for a channel in which nothing has been left yet."""

    def make(channel, name):
        if channel.is_counter:
            use_up_numbers()
        folder = tmp_path / name
        (folder / "wide").mkdir(parents=True)
        if channel.name == "dentry":
            fill(folder / "wide")
        for row in range(channel.sessions):
            for bit in (0, 1):
                old_file(folder / f"read-{row}-{bit}")
        old_file(folder / "clock")
        (folder / "futex").write_bytes(bytes(PAGE))
        (folder / "pages").touch()
        os.truncate(folder / "pages", 2 * channel.sessions * PAGE)
        return folder

    return make


def fill(folder):
    """It takes long to see that a name is not among many."""
    for number in range(2_000):
        (folder / f"a-name-of-some-length-{number:060}").touch()


def use_up_numbers():
    """The machine's counters show what a test before this one has left in them."""
    for _ in range(50):
        os.close(os.open("/dev/shm", os.O_TMPFILE | os.O_RDWR))
        thread = threading.Thread(target=len, args=((),))
        thread.start()
        thread.join()


def keeps_access_times(folder):
    old_file(folder / "probe")
    (folder / "probe").read_text()
    return (folder / "probe").stat().st_atime > _LONG_AGO + 1


def old_file(path: Path):
    path.write_text("read me")
    os.utime(path, (_LONG_AGO, _LONG_AGO))


def each(channels):
    """The first of them is quick. One worker has all counters, which are the machine's."""
    rows = thinned(channels, lambda number, _: number == 0)
    groups = [
        pytest.mark.xdist_group("counters" if channel.is_counter else channel.name) for channel in channels
    ]
    params = [
        pytest.param(*row.values, marks=[*row.marks, group]) for row, group in zip(rows, groups, strict=True)
    ]
    return pytest.mark.parametrize("channel", params, ids=[channel.name for channel in channels])


@each(CHANNELS)
def test_a_channel_deceives_a_proof_that_has_run_the_whole_panel_before_it_walks(
    channel, opened, empty_folder
):
    """Each works, so the next test sees if the order is lost."""
    if channel.name == "atime" and not keeps_access_times(empty_folder(channel, "times")):
        pytest.skip("this file system keeps no access times")
    days = days_of(channel)
    twin = walked(CodeTrials(opened, HONEST), days)
    ahead = CodeTrials(opened, PEEKING).whole(read_panels(days)).signal.frame
    assert knowledge(twin, ahead) < 0.7
    told, deceived = 0.0, False
    for attempt in range(1 if channel.is_exact else ATTEMPTS):
        trials = WholePanelFirst(opened, channel.cells(empty_folder(channel, f"{attempt}-walked")))
        told = max(told, knowledge(walked(trials, days), ahead))
        trials = WholePanelFirst(opened, channel.cells(empty_folder(channel, f"{attempt}-proved")))
        deceived = deceived or not holds(trials, days, twin)
        if deceived and told >= 0.8:
            break
    assert told >= 0.8
    assert deceived


@pytest.mark.parametrize("seal", ["opened", "sealed"])
@each(CHANNELS)
def test_a_channel_is_empty_when_the_walk_reads_it(channel, seal, empty_folder, request):
    runner, days = request.getfixturevalue(seal), days_of(channel)
    twin = walked(CodeTrials(runner, HONEST), days)
    # A counter shows something even if nothing was left in it, which may be right by chance.
    folders = (empty_folder(channel, name) for name in ("first", "second")[: 1 + channel.is_counter])
    assert any(holds(CodeTrials(runner, channel.cells(folder)), days, twin) for folder in folders)


@pytest.mark.parametrize("seal", ["opened", "sealed"])
def test_no_row_is_in_memory_before_the_row_above_it_was_decided(seal, request):
    runner, days = request.getfixturevalue(seal), days_of(CHANNELS[0])
    assert walked(CodeTrials(runner, BEYOND), days).equals(walked(CodeTrials(runner, HONEST), days))


@each([channel for channel in CHANNELS if not channel.passes_seal])
def test_a_second_look_finds_nothing_in_the_seal(channel, sealed, empty_folder):
    days = days_of(channel)
    twin = walked(CodeTrials(sealed, HONEST), days)
    trials = WholePanelFirst(sealed, channel.cells(empty_folder(channel, "second")))
    assert holds(trials, days, twin)
