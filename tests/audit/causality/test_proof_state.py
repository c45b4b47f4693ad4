"""Where panels are cut: at places where a leak would show, and at random ones."""

from __future__ import annotations

import numpy as np

from quantgraph.audit.causality._state import ProofState, choose_cuts
from quantgraph.audit.causality._trials import read_panels

from .causality_panels import Inline, cross, panel


def test_cuts_are_where_a_leak_would_show():
    bars = panel(400, 2, seed=2)
    signal, close = cross(bars).to_numpy(), bars["close"].to_numpy()
    cuts, drawn = choose_cuts(signal, close, bars["close"].index.to_numpy(), count=40, seed=0)
    assert drawn == 20
    changed = {int(row) for row in np.flatnonzero((signal != 0).any(axis=1))}
    assert len(changed & set(cuts)) >= 4
    assert len({row - 1 for row in changed} & set(cuts)) >= 4
    missing = np.isnan(close).any(axis=1)
    assert len([row for row in cuts if missing[row]]) >= 4
    days = bars["close"].index
    assert len([row for row in cuts[:-1] if days[row].month != days[row + 1].month]) >= 4
    assert (cuts, 20) == choose_cuts(signal, close, days.to_numpy(), count=40, seed=0)
    assert cuts != choose_cuts(signal, close, days.to_numpy(), count=40, seed=1)[0]
    assert choose_cuts(signal, close, days.to_numpy(), count=400, seed=0) == (tuple(range(400)), 400)


def test_no_session_is_safe_from_the_cuts_that_are_drawn():
    """A leak at a tenth of the sessions, all far from the aimed places, is hit as often as the verdict says."""
    bars = panel(400, 2, seed=2, gaps=False)
    signal, close = bars["close"].to_numpy() * 0 + 1, bars["close"].to_numpy()
    days = bars["close"].index
    calm = np.flatnonzero((days.day > 6) & (days.day < 24))[::5][:40]
    missed = [
        not set(calm.tolist()) & set(choose_cuts(signal, close, days.to_numpy(), count=40, seed=seed)[0])
        for seed in range(400)
    ]
    assert np.mean(missed) <= 0.9**20 + 0.05  # 12 %; four standard deviations of 400 draws are 6 %


def test_futures_are_replaced_after_changes_before_changes_and_anywhere_in_turn():
    bars = panel(200, 1, gaps=False)
    state = ProofState(Inline(cross), read_panels(bars), "post_close", seed=3)
    changed = set(np.flatnonzero((cross(bars) != 0).to_numpy().any(axis=1)).tolist())
    cuts = state.future_cuts(6)
    assert list(cuts.values()) == ["diverging", "joint", "ordinary"] * 2
    rows = [*cuts]
    assert {rows[0], rows[3]} <= changed
    assert {rows[1] + 1, rows[4] + 1} <= changed
    assert cuts == state.future_cuts(6)
    assert len(state.future_cuts(500)) == 199  # every row but the last


def test_the_gap_of_a_symbol_is_a_place_to_replace_the_future():
    bars = panel(200, 1)
    state = ProofState(Inline(cross), read_panels(bars), "post_close", seed=3)
    gap = int(np.flatnonzero(bars["close"].isna().to_numpy().any(axis=1))[0])
    cuts = state.future_cuts(8)
    assert {row: moves for row, moves in cuts.items() if gap <= row < gap + 5 and moves == "diverging"}
