"""No run tells another what it knows: strategies that try are refused, alone and beside those of other runs."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from contextlib import closing

import pytest
from talkers import HONEST, TALKERS
from thinned import thinned

from quantgraph.audit.causality import CodeTrials, check_causality
from quantgraph.audit.causality._trials import read_panels
from quantgraph.sandbox import ForkRunner

from .causality_panels import panel

pytestmark = pytest.mark.proof

DAYS = {"ohlcv": panel(34, 2, gaps=False)}
EXPECTED = "not causal: the signal of 600000.SH on "


@pytest.fixture
def runner():
    with closing(ForkRunner(timeout=30.0)) as made:
        yield made


@pytest.mark.proof
@pytest.mark.parametrize("way", TALKERS)
def test_a_strategy_that_asks_other_processes_is_refused(way, runner):
    verdict = check_causality(CodeTrials(runner, TALKERS[way]), DAYS, prove="all", warm_up=False)
    assert verdict.line.startswith(EXPECTED), verdict.line


def test_their_honest_twin_is_proved(runner):
    verdict = check_causality(CodeTrials(runner, HONEST), DAYS, prove="all", warm_up=False)
    assert verdict.line == "causal: proved at 34 of 34 sessions"


@pytest.mark.parametrize("way", thinned(TALKERS, lambda number, _: number == 0))
def test_the_audit_refuses_it(way, tmp_path, monkeypatch):
    monkeypatch.setenv("QUANTGRAPH_AUDIT", '{"prove": "all", "cuts": 3, "seed": 0}')
    (tmp_path / "talker.py").write_text(TALKERS[way][0])
    window = ["--symbols", "000343.SZ,688851.SH", "--start", "20250102", "--end", "20250228"]
    command = [sys.executable, "-m", "quantgraph", "audit", "talker.py", *window, "--json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, json.loads(done.stdout)["causal"]) == (1, False)


def test_a_run_does_not_hear_the_code_of_another_run(runner):
    """The other run's code knows all sessions, is alive while this one's walks, and waits to be asked."""
    tells_all = TALKERS["futex"][0].replace("range(max(0, len(up) - 2), len(up))", "range(len(up))")
    stop = threading.Event()

    def other_run():
        while not stop.is_set():
            assert runner.run([f"{tells_all}\ntime.sleep(0.5)"], read_panels(DAYS)).error is None

    other = threading.Thread(target=other_run)
    other.start()
    try:
        verdict = check_causality(CodeTrials(runner, TALKERS["futex"]), DAYS, prove="all", warm_up=False)
    finally:
        stop.set()
        other.join()
    assert verdict.line.startswith(EXPECTED), verdict.line
