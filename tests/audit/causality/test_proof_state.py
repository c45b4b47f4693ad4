"""Where panels are cut: at places where a leak would show, and at random ones."""

from __future__ import annotations

import numpy as np

from quantgraph.audit.causality import run_first
from quantgraph.audit.causality._first_run import random_rows
from quantgraph.audit.causality._proofs import ProofState, _revealing_cuts
from quantgraph.audit.causality._trials import read_panels

from .causality_panels import Inline, cross, panel


def proof_state(bars):
    trials, panel = Inline(cross), read_panels(bars)
    return ProofState(trials, panel, "post_close", 3, run_first(trials, panel, prove="sampled", cuts=8))


def test_cuts_are_where_a_leak_would_show():
    bars = panel(400, 2, seed=2)
    signal, close, days = cross(bars).to_numpy(), bars["close"].to_numpy(), bars["close"].index
    walked = random_rows(400, 40, seed=0)
    assert len(walked) == 20

    def others(count, seed=0):
        return _revealing_cuts(signal, close, days.to_numpy(), count=count, but=walked, seed=seed)

    cuts = others(20)
    assert len(cuts) == 20
    assert not {*cuts} & {*walked}
    changed = {int(row) for row in np.flatnonzero((signal != 0).any(axis=1))}
    assert len(changed & set(cuts)) >= 3
    assert len({row - 1 for row in changed} & set(cuts)) >= 3
    missing = np.isnan(close).any(axis=1)
    assert len([row for row in cuts if missing[row]]) >= 3
    assert len([row for row in cuts if days[row].month != days[row + 1].month]) >= 3
    assert cuts == others(20)
    assert cuts != others(20, seed=1)
    assert {*others(400), *walked} == {*range(399)}  # every row but the last


def test_no_session_is_safe_from_the_cuts_that_are_drawn():
    """A leak at a tenth of the sessions is hit as often as the verdict says, wherever it is."""
    missed = [not {*range(0, 400, 10)} & {*random_rows(400, 40, seed)} for seed in range(400)]
    assert np.mean(missed) <= 0.9**20 + 0.05  # 12 %; four standard deviations of 400 draws are 6 %


def test_futures_are_replaced_after_changes_before_changes_and_anywhere_in_turn():
    bars = panel(200, 1, gaps=False)
    state = proof_state(bars)
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
    state = proof_state(bars)
    gap = int(np.flatnonzero(bars["close"].isna().to_numpy().any(axis=1))[0])
    cuts = state.future_cuts(8)
    assert {row: moves for row, moves in cuts.items() if gap <= row < gap + 5 and moves == "diverging"}
