"""How strategies are run, what is put in the place of the future, and where panels are cut."""

from __future__ import annotations

import multiprocessing
import os
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quantgraph.audit import CodeTrials, FunctionTrials, Trials, check_causality
from quantgraph.audit.causality._alternative_futures import AlternativeFutures, FutureSpec, perturbed
from quantgraph.audit.causality._cuts import secret_cuts
from quantgraph.audit.causality._panel_slices import axes_of, prefix, read_panels
from quantgraph.errors import CodeTimeout
from quantgraph.market.actions import actions_of
from quantgraph.market.moment import Moment
from quantgraph.sandbox import CodeResult, default_runner
from quantgraph.tools.trusted_runner import TrustedRunner

from .causality_panels import Inline, cross, panel, state
from .zoo_panels import market


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
        (lambda p: p["close"].to_numpy()[:-1], r"array of shape \(29, 3\); \(30, 3\) is wanted"),
        (lambda p: p["close"].reset_index(drop=True), "index is not ascending"),
        (lambda p: p["close"].astype(str) + "x", "no numbers"),
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
    tops = [float(outcome.signal.values.max()) for outcome in trials.walk(frames, moments(frames, 4, 9, 19))]
    assert tops == [1_005, 2_010, 3_020]
    assert float(trials.whole(frames).signal.values.max()) == 1_030
    assert seen == []


def test_a_function_that_ends_its_process_has_no_signal_and_the_walk_goes_on():
    def strategy(p):
        if len(p["close"]) == 10:
            os._exit(3)
        return p["close"]

    frames = read_panels(panel(30))
    first, second, third = FunctionTrials(strategy).walk(frames, moments(frames, 4, 9, 19))
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
    assert {name: verdict.sealed for name, verdict in told.items()} == {
        "function": False,
        "sealed": True,
        "trusted": False,
    }
    assert told["sealed"].line == "causal: proved at 30 of 30 sessions"
    assert (
        told["function"].line
        == told["trusted"].line
        == f"{told['sealed'].line}; unsealed: it ran within reach of all data"
    )
    assert told["function"].text("zh").endswith("；未隔离：运行时全部数据都在其可及范围")
    assert told["function"].coverage["sealed"] is False


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
    list(CodeTrials(runner, ["x"]).walk(frames, moments(frames, 2, 7)))
    assert runner.sessions == [3, 8]


def test_code_finds_bars_without_a_panel_name_among_the_bars():
    cell = 'GLOBAL_DATA_STATE.update("signal", {"s": snapshot["ohlcv"]["close"] * 0.0})'
    trials, frames = CodeTrials(default_runner(), [cell]), read_panels(panel(30))
    assert trials.whole(frames).error == ""
    assert next(trials.walk(frames, moments(frames, 4))).error == ""
    with trials.series() as run:
        assert [run(frames).error for _ in range(2)] == ["", ""]


def test_a_timeout_is_raised_not_taken_for_a_leak():
    with pytest.raises(CodeTimeout):
        CodeTrials(_Runner(CodeTimeout("too long")), ["x"]).whole(read_panels({"ohlcv": panel(30)}))


def test_a_sandbox_walk_gives_what_single_runs_give():
    cell = 'c = snapshot["ohlcv"]["close"]\nGLOBAL_DATA_STATE.update("signal", {"s": np.sign(c.diff())})'
    trials, frames = CodeTrials(default_runner(), [cell]), read_panels({"ohlcv": panel(30)})
    places = moments(frames, 3, 11, 29)
    for moment, outcome in zip(places, trials.walk(frames, places)):
        alone = trials.whole(prefix(frames, moment)).signal
        assert np.array_equal(outcome.signal.values, alone.values, equal_nan=True)
    assert isinstance(trials, Trials)
    assert not isinstance(cross, Trials)


def test_at_the_open_the_last_row_holds_only_what_is_known():
    frames = read_panels(panel(30, gaps=False))
    cut = prefix(frames, Moment(pd.Timestamp(axes_of(frames).sessions[9]), "open"))[""]
    assert {len(frame.sessions) for frame in cut.values()} == {10}
    assert not np.isnan(cut["open"].values).any()
    for name in ("high", "low", "close", "vol"):
        assert np.isnan(cut[name].values[9]).all()
        assert not np.isnan(cut[name].values[:9]).any()


@given(
    seed=st.integers(0, 999),
    kind=st.sampled_from(["redrawn", "missing"]),
    phase=st.sampled_from(["open", "close", "post_close"]),
    falling=st.booleans(),
    cut=st.integers(0, 38),
)
@settings(max_examples=40, deadline=None)
def test_another_future_keeps_the_past_and_holds_sane_bars(seed, kind, phase, falling, cut):
    bars = panel(40, 3, seed) | {"is_st": panel(40)["close"] * 0.0}
    dividend = bars["close"] * np.nan
    dividend.iloc[20, 1] = 0.5
    bars |= {"dividend": dividend, "action_declared": dividend * 0 + 20240110}
    frames = read_panels({"ohlcv": bars})
    moment = Moment(pd.Timestamp(axes_of(frames).sessions[cut]), phase)
    how = FutureSpec(kind=kind, cuts=np.full(3, cut), phase=phase, seed=seed, falling=falling)
    other = AlternativeFutures(frames).of(how)
    for name, frame in prefix(frames, moment)["ohlcv"].items():
        known = prefix(other, moment)["ohlcv"][name]
        assert np.array_equal(known.values, frame.values, equal_nan=True), name
    made = {name: frame.frame for name, frame in other["ohlcv"].items()}
    price = made["close"].dropna(how="all")
    assert not (price <= 0).to_numpy().any()
    for name in ("open", "close", "low"):
        assert not (made["high"] < made[name]).to_numpy().any()
        assert not (made["low"] > made[name]).to_numpy().any() or name == "low"
    flags = made["is_st"].to_numpy()
    assert np.isin(flags[~np.isnan(flags)], [0.0, 1.0]).all()
    actions_of(made)
    if kind == "redrawn" and phase == "post_close":
        opposite = AlternativeFutures(frames).of(replace(how, falling=not falling))["ohlcv"]["close"].frame
        before = made["close"].ffill().iloc[cut]
        ways = [np.sign(other.iloc[cut + 1] - before).dropna() for other in (made["close"], opposite)]
        assert (ways[0] + ways[1] == 0).all()  # what is best in one is worst in the other


def test_redrawn_prices_lie_on_their_grid_and_inside_their_limits(a_share):
    """A tenth up or down for the main boards, a fifth for STAR: in cents, half a cent for what is rounded."""
    frames = market(a_share)
    how = FutureSpec(kind="redrawn", cuts=np.full(50, 90), phase="post_close", seed=5)
    bars = {
        name: frame.frame.iloc[90:] for name, frame in AlternativeFutures(frames).of(how)["ohlcv"].items()
    }
    before = bars["close"].ffill().shift(1)
    band = np.array([0.2 if symbol.startswith("688") else 0.1 for symbol in before.columns])
    for name in ("open", "high", "low", "close"):
        cents = bars[name].to_numpy()[1:] * 100
        assert np.nanmax(np.abs(cents - np.rint(cents))) < 1e-6
        room = np.abs(bars[name] / before - 1).to_numpy()[1:] - band - 0.01 / before.to_numpy()[1:]
        assert np.nanmax(room) <= 0
    hands = bars["vol"].to_numpy()[1:]
    assert np.isin(hands[~np.isnan(hands)], frames["ohlcv"]["vol"].values).all()
    first = np.abs(np.log(bars["close"].iloc[1] / before.iloc[1]))
    usual = np.abs(frames["ohlcv"]["close"].frame.ffill().pct_change(fill_method=None)).median()
    assert (first > usual).mean() > 0.9  # it begins with some of the best and of the worst sessions
    true = frames["ohlcv"]["close"].values[91:]
    assert np.nanmean(bars["close"].to_numpy()[1:] == true) < 0.05


def test_symbols_can_be_cut_on_days_of_their_own():
    frames = read_panels(panel(40, 3, gaps=False))
    how = FutureSpec(kind="redrawn", cuts=np.array([5, 20, 30]), phase="post_close", seed=1)
    changed = AlternativeFutures(frames).of(how)[""]["close"].values != frames[""]["close"].values
    assert [int(column.argmax()) for column in changed.T] == [6, 21, 31]
    limited = FutureSpec(kind="redrawn", cuts=np.full(3, 5), phase="post_close", seed=1, sessions=2)
    changed = AlternativeFutures(frames).of(limited)[""]["close"].values != frames[""]["close"].values
    assert np.flatnonzero(changed.any(axis=1)).tolist() == [6, 7]


def test_appended_and_nudged_panels_keep_what_was_there():
    frames = read_panels(panel(40))
    longer, moved = AlternativeFutures(frames).extended(1), perturbed(frames, moments(frames, 19)[0], 0, 1.0)
    assert len(axes_of(longer).sessions) > 45
    for name, frame in frames[""].items():
        assert np.array_equal(longer[""][name].values[:40], frame.values, equal_nan=True)
        assert np.array_equal(moved[""][name].values[20:], frame.values[20:], equal_nan=True)
        assert np.allclose(moved[""][name].values, frame.values, rtol=1e-8, equal_nan=True)
        assert not np.array_equal(moved[""][name].values[:20], frame.values[:20], equal_nan=True)


def test_cuts_are_where_a_leak_would_show():
    bars = panel(400, 2, seed=2)
    signal, close = cross(bars).to_numpy(), bars["close"].to_numpy()
    cuts, drawn = secret_cuts(signal, close, bars["close"].index.to_numpy(), count=40, seed=0)
    assert drawn == 20
    changed = {int(row) for row in np.flatnonzero((signal != 0).any(axis=1))}
    assert len(changed & set(cuts)) >= 4
    assert len({row - 1 for row in changed} & set(cuts)) >= 4
    missing = np.isnan(close).any(axis=1)
    assert len([row for row in cuts if missing[row]]) >= 4
    days = bars["close"].index
    assert len([row for row in cuts[:-1] if days[row].month != days[row + 1].month]) >= 4
    assert (cuts, 20) == secret_cuts(signal, close, days.to_numpy(), count=40, seed=0)
    assert cuts != secret_cuts(signal, close, days.to_numpy(), count=40, seed=1)[0]
    assert secret_cuts(signal, close, days.to_numpy(), count=400, seed=0) == (tuple(range(400)), 400)


def test_no_session_is_safe_from_the_cuts_that_are_drawn():
    """A leak at a tenth of the sessions, all far from the aimed places, is hit as often as the verdict says."""
    bars = panel(400, 2, seed=2, gaps=False)
    signal, close = bars["close"].to_numpy() * 0 + 1, bars["close"].to_numpy()
    days = bars["close"].index
    calm = np.flatnonzero((days.day > 6) & (days.day < 24))[::5][:40]
    missed = [
        not set(calm.tolist()) & set(secret_cuts(signal, close, days.to_numpy(), count=40, seed=seed)[0])
        for seed in range(400)
    ]
    assert np.mean(missed) <= 0.9**20 + 0.05  # 12 %; four standard deviations of 400 draws are 6 %


def test_a_strategy_across_symbols_is_not_accused_by_cuts_of_single_symbols():
    verdict = check_causality(
        Inline(lambda p: np.sign(p["close"].sub(p["close"].mean(axis=1), axis=0))),
        panel(60, 4),
        exhaustive=False,
    )
    assert verdict.causal
    assert verdict.coverage["corruptions"]["redrawn"] == 24
