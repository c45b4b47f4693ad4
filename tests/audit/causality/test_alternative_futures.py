"""Alternative futures: the past stays, bars are valid, prices on their grid and within limits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
from hypothesis import given, settings
from hypothesis import strategies as st

from quantgraph.audit.causality._futures import AlternativeFutures, FutureSpec
from quantgraph.audit.causality._trials import axes_of, prefix, read_panels
from quantgraph.market import Moment
from quantgraph.market.actions import actions_of

from .causality_panels import panel
from .zoo_panels import market


@given(
    seed=st.integers(0, 999),
    kind=st.sampled_from(["resampled", "missing"]),
    phase=st.sampled_from(["open", "close", "post_close"]),
    opposite=st.booleans(),
    cut=st.integers(0, 38),
)
@settings(max_examples=40, deadline=None)
def test_an_alternative_future_keeps_the_past_and_has_valid_bars(seed, kind, phase, opposite, cut):
    bars = panel(40, 3, seed) | {"is_st": panel(40)["close"] * 0.0}
    dividend = bars["close"] * np.nan
    dividend.iloc[20, 1] = 0.5
    bars |= {"dividend": dividend, "action_declared": dividend * 0 + 20240110}
    frames = read_panels({"ohlcv": bars})
    moment = Moment(pd.Timestamp(axes_of(frames).sessions[cut]), phase)
    spec = FutureSpec(kind=kind, cut=cut, phase=phase, seed=seed, opposite=opposite)
    other = AlternativeFutures(frames).panel(spec)
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
    if kind == "resampled" and phase == "post_close":
        other_way = (
            AlternativeFutures(frames).panel(replace(spec, opposite=not opposite))["ohlcv"]["close"].frame
        )
        before = made["close"].ffill().iloc[cut]
        ways = [np.sign(frame.iloc[cut + 1] - before).dropna() for frame in (made["close"], other_way)]
        assert (ways[0] + ways[1] == 0).all()  # what is best in one is worst in the other


def test_resampled_prices_lie_on_their_grid_and_inside_their_limits(a_share):
    """A tenth up or down for the main boards, a fifth for STAR: in cents, half a cent for what is rounded."""
    frames = market(a_share)
    spec = FutureSpec(kind="resampled", cut=90, phase="post_close", seed=5)
    bars = {
        name: frame.frame.iloc[90:] for name, frame in AlternativeFutures(frames).panel(spec)["ohlcv"].items()
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


def test_only_the_sessions_after_the_cut_are_replaced_and_only_as_many_as_asked_for():
    frames = read_panels(panel(40, 3, gaps=False))
    spec = FutureSpec(kind="resampled", cut=5, phase="post_close", seed=1)
    for sessions, rows in ((None, list(range(6, 40))), (2, [6, 7])):
        other = AlternativeFutures(frames).panel(replace(spec, sessions=sessions))
        changed = other[""]["close"].values != frames[""]["close"].values
        assert np.flatnonzero(changed.any(axis=1)).tolist() == rows
