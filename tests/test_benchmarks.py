"""The benchmarks run, and hold their bounds even while other tests share the machine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.proof

ROOT = Path(__file__).resolve().parents[1]


def shown(script, *arguments, **environment):
    """What a benchmark shows; it exits with 1 when a bound is missed."""
    done = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / script), *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.proof
@pytest.mark.timeout(300)
def test_the_core_costs_stay_within_their_bounds(shared_data):
    told = shown("core.py", BENCH_SLACK="4")
    assert "quantgraph run, SSE 50 x 200 sessions" in told
    assert "trading 300 x 1250 in blocks, durable ledger" in told
    assert "the loop over 200 sessions, 128 a step, durable ledger" in told


@pytest.mark.proof
def test_recording_and_replaying_stay_within_their_bounds():
    assert "recording a model call of 7 kB" in shown("replay.py", BENCH_SLACK="4")


def test_a_clean_run_takes_three_calls_and_six_thousand_tokens_at_most():
    told = shown("calls.py")
    calls = [line.split()[-4] for line in told.splitlines() if line.startswith("model calls")]
    assert calls == ["3.000", "3.000"]
    assert "tokens of a clean run (en)" in told


@pytest.mark.proof
def test_the_dual_agent_stays_within_its_bounds():
    told = shown("dual_agent.py", BENCH_SLACK="4")
    assert "the dual agent, 300 symbols, a session" in told


@pytest.mark.proof
def test_the_stepwise_agent_stays_within_its_bound():
    told = shown("execution_agent.py", BENCH_SLACK="4")
    assert "the stepwise agent, 4 symbols of 5 steps, a session" in told
    assert "20 steps logged and 20 calls recorded" in told


@pytest.mark.proof
def test_the_trader_stays_within_its_bound():
    told = shown("trader.py", BENCH_SLACK="4")
    assert "the trader, 100 symbols, five calls, a session" in told
    assert "6 steps logged and 6 calls recorded" in told


@pytest.mark.proof
@pytest.mark.timeout(300)
def test_our_fills_and_equity_are_those_of_the_bare_loop_and_of_exact_decimals():
    shown("market.py", "--sizes", "s", "--tools", "bare,ours", BENCH_SLACK="30")
