"""A run that goes on to a later end: one ledger, and a past that is proved to be as it was."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from quantgraph import run_strategy
from quantgraph.broker.ledger import Ledger
from quantgraph.errors import BadOption, LedgerConflict
from quantgraph.runs import replay, resume_run, run_signal

RULE = "000341.SZ, 600958.SH: buy when the 3-day average crosses above the 8-day average, sell when it crosses below"
CHILD = Path(__file__).parent / "growing_child.py"
DAYS = pd.bdate_range("2025-01-06", periods=60)


def lines(run):
    """All that is in the chain, and what is beside it."""
    with Ledger(Path(run["run_dir"]) / "ledger.sqlite") as book:
        journal = [(row["session"], row["kind"], row["body"]) for row in book.journal(run["run_id"])]
        return journal, [end for end, _ in book.windows(run["run_id"])]


@pytest.fixture
def prices():
    """Prices of two stocks that cross their averages now and then."""
    steps = np.random.default_rng(5).normal(0, 0.02, (len(DAYS), 2))
    close = pd.DataFrame(10 * np.exp(steps.cumsum(axis=0)), DAYS, ["600000.SH", "000001.SZ"]).round(2)
    opens = close.shift(1).fillna(10.0)
    high, low = np.maximum(opens, close), np.minimum(opens, close)
    fields = {"open": opens, "high": high, "low": low, "close": close}
    return {code: pd.DataFrame({name: frame[code] for name, frame in fields.items()}) for code in close}


def up_to(prices, end):
    return {name: frame.loc[:end] for name, frame in prices.items()}


def above(panels):
    close = panels["ohlcv"]["close"]
    return (close > close.rolling(3).mean()).astype(float)


def test_a_run_that_is_extended_three_times_is_one_run(tmp_path):
    one = run_strategy(f"{RULE}, 20250303 to 20250630", source="sample", out=tmp_path / "one")
    grown = run_strategy(f"{RULE}, 20250303 to 20250331", source="sample", out=tmp_path / "grown")
    for end in ("20250430", "20250530", "20250630"):
        grown = resume_run(grown["run_dir"], end=end)
        assert (grown["ended_because"], grown["window"]["end"]) == ("done", end)
    (journal, _), (whole, _) = lines(grown), lines(one)
    assert journal == whole
    assert sum(kind == "fill" for _, kind, _ in journal) > 4
    assert lines(grown)[1] == ["20250331", "20250430", "20250530", "20250630"]
    assert grown["equity"] == one["equity"]
    assert grown["account"] == one["account"]
    assert replay(grown["run_dir"]).identical
    with pytest.raises(BadOption, match="has traded up to 20250630"):
        resume_run(grown["run_dir"], end="20250601")


def test_the_past_of_longer_data_is_as_it_was_or_the_first_change_is_named(tmp_path, prices):
    begun = {"symbols": ("600000.SH", "000001.SZ"), "start": "20250120", "out": tmp_path}
    run = run_strategy(above, source=up_to(prices, DAYS[29]), end=f"{DAYS[29]:%Y%m%d}", **begun)
    later = f"{DAYS[49]:%Y%m%d}"
    revised = {name: frame.copy() for name, frame in prices.items()}
    bar = revised["000001.SZ"].loc[DAYS[20]]
    revised["000001.SZ"].loc[DAYS[20], "low"] = bar["low"] - 0.01
    named = rf"low of 000001.SZ on {DAYS[20]:%Y-%m-%d} was {bar['low']:.10g} and is {bar['low'] - 0.01:.10g}"
    before = lines(run)
    with pytest.raises(LedgerConflict, match=named):
        resume_run(run["run_dir"], end=later, strategy=above, source=up_to(revised, DAYS[49]))
    assert lines(run) == before
    grown = resume_run(run["run_dir"], end=later, strategy=above, source=up_to(prices, DAYS[49]))
    one = run_strategy(above, source=prices, end=later, **begun)
    assert lines(grown)[0] == lines(one)[0]
    assert replay(grown["run_dir"]).identical


def test_a_longer_frame_goes_on_and_one_that_says_something_else_of_the_past_does_not(tmp_path, prices):
    closes = pd.DataFrame({code: frame["close"] for code, frame in prices.items()})
    signal = above({"ohlcv": {"close": closes}}).iloc[5:]
    run = run_signal(signal.loc[: DAYS[29]], prices=prices, out=tmp_path)
    later = {"end": f"{DAYS[49]:%Y%m%d}", "source": prices}
    with pytest.raises(BadOption, match="is one of a signal of your own: give strategy= again"):
        resume_run(run["run_dir"], **later)
    other = signal.copy()
    other.iloc[10, 0] = 1 - other.iloc[10, 0]
    with pytest.raises(LedgerConflict, match=rf"yours of 600000.SH on {signal.index[10]:%Y-%m-%d} was"):
        resume_run(run["run_dir"], strategy=other.loc[: DAYS[49]], **later)
    grown = resume_run(run["run_dir"], strategy=signal.loc[: DAYS[49]], **later)
    one = run_signal(signal.loc[: DAYS[49]], prices=prices, out=tmp_path)
    assert lines(grown)[0] == lines(one)[0]


def test_a_run_of_a_sentence_takes_no_strategy(tmp_path):
    run = run_strategy(f"{RULE}, 20250303 to 20250310", source="sample", out=tmp_path)
    with pytest.raises(BadOption, match="has no signal of your own: give end= without strategy="):
        resume_run(run["run_dir"], end="20250331", strategy=above)


@pytest.mark.proof
@pytest.mark.timeout(300)
def test_a_run_that_is_killed_at_each_step_of_going_on_is_the_undisturbed_one(tmp_path):
    one = run_strategy(f"{RULE}, 20250303 to 20250430", source="sample", out=tmp_path / "one")
    killed = set()
    for step in range(1, 7):
        run = run_strategy(f"{RULE}, 20250303 to 20250331", source="sample", out=tmp_path / str(step))
        for end, last in (("20250430", step), ("20250430" if step < 3 else "-", 99)):
            done = subprocess.run(
                [sys.executable, str(CHILD), run["run_dir"], end, str(last)],
                check=False,
                capture_output=True,
                text=True,
            )
            killed |= {step} if done.returncode == -9 else set()
        assert done.stdout.strip() == "done", done.stderr
        assert lines(run)[0] == lines(one)[0], step
        assert replay(run["run_dir"]).identical, step
    assert killed >= {1, 2, 3, 4, 5}
