"""The warm-up of a signal: hand-counted sessions."""

from __future__ import annotations

import numpy as np
import pytest

from quantgraph.audit.causality import check_causality
from quantgraph.audit.causality._warm_up import measure_warm_up
from quantgraph.data import open_source

from .causality_panels import Inline, cross, panel, state

CALM = panel(200, 6, seed=5, gaps=False)


@pytest.mark.parametrize("window", [2, 5, 20, 60])
def test_a_mean_of_n_closes_needs_n_sessions(window):
    assert measure_warm_up(Inline(lambda p: p["close"].rolling(window).mean()), CALM) == window


@pytest.mark.parametrize("slow", [5, 13, 30])
def test_a_state_needs_its_slow_mean_and_a_crossing_one_session_more(slow):
    assert measure_warm_up(Inline(lambda p: state(p, 2, slow)), CALM) == slow
    assert measure_warm_up(Inline(lambda p: cross(p, 2, slow)), CALM) == slow + 1


@pytest.mark.parametrize(
    ("strategy", "needed"),
    [
        (lambda p: (p["close"] > p["open"]) * 1.0, 1),
        (lambda p: p["close"] * 0.0, 1),
        (lambda p: np.sign(p["close"].diff()), 2),
        (lambda p: np.sign(p["close"].diff()).fillna(0.0), 2),
        (lambda p: p["close"].shift(10).rolling(5).max(), 15),
    ],
)
def test_other_needs_by_hand(strategy, needed):
    assert measure_warm_up(Inline(strategy), CALM) == needed


@pytest.mark.parametrize(
    "strategy",
    [
        lambda p: p["close"].expanding().mean(),
        lambda p: p["close"].cumsum(),
        lambda p: (p["close"] >= p["close"].cummax()) * 1.0,
        lambda p: np.sign(p["close"] - p["close"].expanding().mean()),
    ],
)
def test_what_depends_on_the_whole_history_has_no_warm_up(strategy):
    verdict = check_causality(Inline(strategy), CALM)
    assert verdict.causal
    assert verdict.warm_up is None
    assert verdict.coverage["later_starts"] > 0


def test_an_exponential_mean_settles_when_its_oldest_weight_is_below_what_rounding_turns():
    # (2/3) ** n is 1e-9 at n = 51; the last weights differ by a price's size around that.
    warm_up = measure_warm_up(Inline(lambda p: p["close"].ewm(span=5, adjust=False).mean()), CALM)
    assert 35 < warm_up < 95


def test_a_declared_look_back_is_judged():
    short = check_causality(Inline(lambda p: cross(p, 3, 12)), CALM, lookback=12)
    assert short.causal
    assert short.notes == ("the declared look-back of 12 sessions is too short: the signal needs 13",)
    assert check_causality(Inline(lambda p: cross(p, 3, 12)), CALM, lookback=13).notes == ()
    endless = check_causality(Inline(lambda p: p["close"].cumsum()), CALM, lookback=100)
    assert endless.notes[0].endswith("the signal needs the whole history")
    assert "全部历史" in endless.findings("zh")[0].message


def test_a_panel_that_is_too_short_for_a_mean_does_not_say_what_it_needs():
    assert measure_warm_up(Inline(lambda p: p["close"].rolling(58).mean()), panel(60, gaps=False)) is None


def test_ties_of_one_stock_s_averages_do_not_hide_its_need():
    """In three sessions the two averages are equal, and the last bit of a sum says which is above."""
    source = open_source("sample")
    days = source.sessions()
    close = source.bars(["000341.SZ"], days[0], days[-1])["close"].loc[:"2025-12-31"]
    tied = 4 * close.rolling(5).sum() - close.rolling(20).sum()
    assert int((tied.abs() < 1e-9).to_numpy().sum()) == 3
    bars = {"close": close, "open": close}
    assert measure_warm_up(Inline(lambda p: cross(p, 5, 20)), bars) == 21
