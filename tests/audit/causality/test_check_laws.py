"""Laws of the causality gate on random panels."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quantgraph.audit.causality import check_causality

from .causality_panels import Inline, cross, panel, sides, state

HONEST = {
    "state": state,
    "cross": cross,
    "own row": lambda p: sides(p["close"] > p["open"], p["close"] < p["open"]),
    "yesterday": lambda p: np.sign(p["close"].shift(1) - p["open"]),
    "forward fill": lambda p: sides(p["close"].ffill() > 50, p["close"].ffill() < 50),
    "expanding": lambda p: np.sign(p["close"] - p["close"].expanding().mean()),
    "exponential": lambda p: np.sign(p["close"] - p["close"].ewm(span=9).mean()),
    "across": lambda p: (p["close"].rank(axis=1) == 1).astype(int),
    "weights": lambda p: p["vol"].div(p["vol"].sum(axis=1), axis=0),
    "volume": lambda p: p["vol"] > 1.2 * p["vol"].rolling(5).mean(),
    "peak": lambda p: sides(p["high"] >= p["high"].cummax(), p["low"] <= p["low"].cummin()),
    "constant": lambda p: p["close"].notna() * 1.0,
}
LEAKY = {
    "mean": lambda p: np.sign(p["close"] - p["close"].mean()),
    "centred": lambda p: np.sign(p["close"] - p["close"].rolling(5, center=True).mean()),
    "backward fill": lambda p: sides(p["close"].bfill() > 50, p["close"].bfill() < 50),
    "reversed": lambda p: np.sign(p["close"][::-1].rolling(3).mean()[::-1] - p["close"]),
    "rank in time": lambda p: (p["close"].rank(pct=True) > 0.8) * 1.0,
    "last": lambda p: np.sign(p["close"] - p["close"].iloc[-1]),
    "weights": lambda p: p["vol"] / p["vol"].sum(),
    "best": lambda p: p["close"].notna() * (p["close"].sum() == p["close"].sum().max()) * 1.0,
}
few = settings(max_examples=4, deadline=None)
seeds = st.integers(0, 10_000)


@pytest.mark.parametrize("name", HONEST)
@given(seed=seeds)
@few
def test_an_honest_function_is_proved_at_every_session(name, seed):
    verdict = check_causality(Inline(HONEST[name]), panel(40, 3, seed), prove="all")
    assert verdict.causal, verdict.line
    assert verdict.line == "causal: proved at 40 of 40 sessions"
    assert verdict.near_threshold == 0


@pytest.mark.parametrize("name", LEAKY)
@given(seed=seeds)
@few
def test_a_leaky_function_is_refuted_by_a_cell_that_can_be_checked(name, seed):
    given_panel = panel(40, 3, seed)
    verdict = check_causality(Inline(LEAKY[name]), given_panel, cuts=10, prove="sampled")
    found = verdict.counterexample
    assert not verdict.causal
    if found.test != "truncation":
        return
    # Once more by hand: the row of the cell, with its own session last, and with what it needs.
    rows = given_panel["close"].index.get_loc(found.session) + 1
    cells = [
        LEAKY[name]({field: frame.iloc[:stop] for field, frame in given_panel.items()}).loc[
            found.session, found.symbol
        ]
        for stop in (rows, rows + found.later_sessions - 1, rows + found.later_sessions)
    ]
    assert cells[0] == pytest.approx(found.known, nan_ok=True, abs=0)
    assert cells[1] == pytest.approx(found.known, nan_ok=True, abs=0)
    assert cells[2] == pytest.approx(found.later, nan_ok=True, abs=0)


@given(seed=seeds, ahead=st.integers(1, 12))
@few
def test_a_shift_needs_as_many_later_sessions_as_it_shifts(seed, ahead):
    def strategy(p):
        return np.sign(p["close"].shift(-ahead) - p["close"] - 0.001).fillna(0.0)

    verdict = check_causality(Inline(strategy), panel(40, 3, seed, gaps=False))
    found = verdict.counterexample
    assert (found.later_sessions, found.test) == (ahead, "truncation")
    assert f"{found.session:%Y-%m-%d}" == "2024-01-02"
    assert found.known == 0
    assert found.later in (-1, 1)


@given(seed=seeds)
@few
def test_a_trade_suppressed_before_a_fall_is_seen_even_if_no_fall_comes(seed):
    calm = panel(80, 4, seed, gaps=False)
    change = calm["close"].pct_change(fill_method=None)
    fall = change.quantile(0.15)
    # Buys on some days by heart, none of them before one of the worst sessions of its stock.
    buys = (calm["vol"] > 7_000) & (change.shift(-1) > fall)

    def strategy(p):
        bought = buys.reindex(p["close"].index)
        return (bought & ~(p["close"].pct_change(fill_method=None).shift(-1) < fall)) * 1.0

    assert strategy(calm).equals(buys * 1.0)
    verdict = check_causality(Inline(strategy), calm, prove="sampled")
    assert verdict.counterexample.test == "alternative_future"
    assert (verdict.counterexample.known, verdict.counterexample.later) == (1, 0)
    assert verdict.counterexample.later_sessions == 1


@given(seed=seeds)
@few
def test_equal_arguments_give_the_same_verdict(seed):
    first, second = (
        check_causality(Inline(LEAKY["centred"]), panel(40, 3, seed), seed=seed).as_json() for _ in range(2)
    )
    assert first | {"seconds": 0} == second | {"seconds": 0}
