"""How strategies run: functions and code, on whole panels, in walks and in series."""

from __future__ import annotations

import multiprocessing
import os

import numpy as np
import pandas as pd
import pytest

from quantgraph.audit.causality import CodeTrials, FunctionTrials, check_causality
from quantgraph.audit.causality._trials import Trials, axes_of, prefix, read_panels
from quantgraph.errors import CodeTimeout
from quantgraph.market import Moment
from quantgraph.sandbox import CodeResult, default_runner
from quantgraph.tools._code import TrustedRunner

from .causality_panels import cross, panel, state


def moments(frames, *rows):
    return [Moment(pd.Timestamp(axes_of(frames).sessions[row])) for row in rows]


def held(p):
    return p["close"] > 0


@pytest.mark.parametrize(
    "strategy",
    [
        lambda p: held(p).to_numpy(),
        lambda p: held(p).astype(int),
        held,
        lambda p: held(p).astype("float32").astype(object),
        lambda p: held(p).astype("boolean"),
    ],
)
def test_a_function_may_answer_in_any_numbers(strategy):
    frames = read_panels(panel(30))
    signal = FunctionTrials(strategy).whole(frames).signal
    assert np.array_equal(signal.values, held(panel(30)).to_numpy(dtype=float))
    assert signal.symbols == axes_of(frames).symbols


def test_a_series_is_a_signal_of_one_symbol():
    signal = FunctionTrials(lambda p: p["close"].iloc[:, 0]).whole(read_panels(panel(30, 1))).signal
    assert signal.values.shape == (30, 1)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda p: p["close"].iloc[-1], "a Series"),
        (lambda p: p["close"].to_numpy()[:-1], r"array of shape \(29, 3\); it must be \(30, 3\)"),
        (lambda p: p["close"].reset_index(drop=True), "index must be ascending"),
        (lambda p: p["close"].astype(str) + "x", "not numbers"),
        (lambda p: None, "a NoneType"),
        (lambda p: p["nothing"], "KeyError: 'nothing'"),
    ],
)
def test_what_is_no_signal_is_said(answer, words):
    outcome = FunctionTrials(answer).whole(read_panels(panel(30)))
    assert outcome.signal is None
    with pytest.raises(AssertionError, match=words):
        raise AssertionError(outcome.error)


def test_a_function_is_given_the_panel_as_it_came():
    flat, nested = panel(30), {"ohlcv": panel(30), "indicators": {"pe": panel(30)["close"]}}
    assert FunctionTrials(lambda p: p["close"]).whole(read_panels(flat)).error == ""
    assert (
        FunctionTrials(lambda p: p["indicators"]["pe"] / p["ohlcv"]["close"]).whole(read_panels(nested)).error
        == ""
    )


def test_a_walk_is_one_fresh_process_that_has_seen_nothing_longer():
    seen = []

    def strategy(p):
        seen.append(len(p["close"]))
        return p["close"] * 0 + max(seen) + 1_000 * len(seen)

    trials, frames = FunctionTrials(strategy), read_panels(panel(30, gaps=False))
    tops = [
        float(outcome.signal.values.max()) for outcome in trials.prefixes(frames, moments(frames, 4, 9, 19))
    ]
    assert tops == [1_005, 2_010, 3_020]
    assert float(trials.whole(frames).signal.values.max()) == 1_030
    assert seen == []


def test_a_function_that_ends_its_process_has_no_signal_and_the_walk_goes_on():
    def strategy(p):
        if len(p["close"]) == 10:
            os._exit(3)
        return p["close"]

    frames = read_panels(panel(30))
    first, second, third = FunctionTrials(strategy).prefixes(frames, moments(frames, 4, 9, 19))
    assert (first.error, second.error, third.error) == ("", "the function ended its process", "")
    assert len(third.signal.sessions) == 20


def test_without_fork_the_function_runs_in_this_process(monkeypatch):
    monkeypatch.setattr(multiprocessing, "get_all_start_methods", lambda: ["spawn"])
    here = []
    verdict = check_causality(lambda p: here.append(1) or state(p), panel(30))
    assert verdict.causal
    assert len(here) > 30


def test_what_runs_within_reach_of_the_whole_panel_is_unsealed():
    cell = 'c = snapshot["ohlcv"]["close"]\nGLOBAL_DATA_STATE.update("signal", {"s": np.sign(c.diff())})'
    days = {"ohlcv": panel(30)}
    told = {
        "function": check_causality(lambda p: state(p["ohlcv"]), days),
        "sealed": check_causality(CodeTrials(default_runner(), [cell]), days),
        "trusted": check_causality(CodeTrials(TrustedRunner(), [cell]), days),
    }
    assert {name: verdict.isolated for name, verdict in told.items()} == {
        "function": False,
        "sealed": True,
        "trusted": False,
    }
    assert told["sealed"].line == "causal: proved at 30 of 30 sessions"
    assert (
        told["function"].line
        == told["trusted"].line
        == f"{told['sealed'].line}; not isolated: it ran within reach of all data"
    )
    assert told["function"].text("zh").endswith("；未隔离：运行时全部数据都在其可及范围")
    assert told["function"].coverage["isolated"] is False


class _Runner:
    """A runner of one's own: it has ``run`` and nothing else."""

    def __init__(self, error=None):
        self.error, self.sessions = error, []

    def run(self, cells, frames):
        close = frames["ohlcv"]["close"].frame
        self.sessions.append(len(close))
        return CodeResult(signals={"first": close * 0.0, "last": (close > 50) * 1.0}, error=self.error)


def test_code_is_judged_by_the_signal_named_or_the_last_one():
    frames = read_panels({"ohlcv": panel(30)})
    assert (
        CodeTrials(_Runner(), ["x"], "first")
        .whole(frames)
        .signal.values[~np.isnan(frames["ohlcv"]["close"].values)]
        .max()
        == 0
    )
    assert CodeTrials(_Runner(), ["x"]).whole(frames).signal.values.max() in (0, 1)
    assert CodeTrials(_Runner(), ["x"], "other").whole(frames).error == "no signal other was handed over"


def test_a_runner_with_run_only_is_walked_by_prefixes():
    runner, frames = _Runner(), read_panels({"ohlcv": panel(30)})
    list(CodeTrials(runner, ["x"]).prefixes(frames, moments(frames, 2, 7)))
    assert runner.sessions == [3, 8]


def test_code_finds_bars_without_a_panel_name_among_the_bars():
    cell = 'GLOBAL_DATA_STATE.update("signal", {"s": snapshot["ohlcv"]["close"] * 0.0})'
    trials, frames = CodeTrials(default_runner(), [cell]), read_panels(panel(30))
    assert trials.whole(frames).error == ""
    assert next(trials.prefixes(frames, moments(frames, 4))).error == ""


def test_a_timeout_is_raised_not_taken_for_a_leak():
    with pytest.raises(CodeTimeout):
        CodeTrials(_Runner(CodeTimeout("too long")), ["x"]).whole(read_panels({"ohlcv": panel(30)}))


def test_a_sandbox_walk_gives_what_single_runs_give():
    cell = 'c = snapshot["ohlcv"]["close"]\nGLOBAL_DATA_STATE.update("signal", {"s": np.sign(c.diff())})'
    trials, frames = CodeTrials(default_runner(), [cell]), read_panels({"ohlcv": panel(30)})
    places = moments(frames, 3, 11, 29)
    for moment, outcome in zip(places, trials.prefixes(frames, places)):
        alone = trials.whole(prefix(frames, moment)).signal
        assert np.array_equal(outcome.signal.values, alone.values, equal_nan=True)
    assert isinstance(trials, Trials)
    assert not isinstance(cross, Trials)
