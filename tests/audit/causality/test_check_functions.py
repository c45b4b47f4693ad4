"""Functions that keep data are refused and honest ones are causal, each at the moment at which it decides."""

from __future__ import annotations

import numpy as np
import pytest
from thinned import thinned

from quantgraph.audit.causality import FunctionTrials, check_causality

from .zoo import HONEST_FUNCTIONS, LEAKY_FUNCTIONS, UNSEEN_FUNCTIONS
from .zoo_panels import CUTS, WHOLE, whole_bars

pytestmark = pytest.mark.proof


def panel_of(a_share):
    return {name: frame.iloc[:120, :20] for name, frame in whole_bars(a_share).items()}


def verdict_of(case, a_share, **options):
    bars = panel_of(a_share)
    trials = FunctionTrials(case.make(bars))
    return check_causality(trials, bars, prove="sampled", decide_at=case.decide_at, seed=0, **options)


@pytest.mark.parametrize(
    "case", thinned(LEAKY_FUNCTIONS, lambda number, _: number == 0), ids=lambda case: case.name
)
def test_a_leaky_function_is_refused(case, a_share):
    verdict = verdict_of(case, a_share)
    if verdict.causal and case.memory:  # no run before showed it a later row
        assert case.decide_at == "post_close"
        bars, honest = panel_of(a_share), case.make({})
        for rows, (session, row) in enumerate(verdict.signal.iterrows(), 1):
            last = honest({name: frame.iloc[:rows] for name, frame in bars.items()}).iloc[-1]
            assert np.array_equal(row.fillna(0), last.fillna(0)), session
        return
    assert verdict.result == "not_causal", case.why
    assert verdict.counterexample.phase == case.decide_at


@pytest.mark.parametrize(
    "case",
    thinned(HONEST_FUNCTIONS if WHOLE else HONEST_FUNCTIONS[::2], lambda number, _: number == 1),
    ids=lambda case: case.name,
)
def test_an_honest_function_is_passed(case, a_share):
    verdict = verdict_of(case, a_share, cuts=CUTS)
    assert verdict.causal, verdict.line


@pytest.mark.parametrize(
    "case", thinned(UNSEEN_FUNCTIONS, lambda number, _: number == 0), ids=lambda case: case.name
)
def test_a_future_that_is_not_in_the_panel_cannot_be_seen_in_it(case, a_share):
    # The limit of the method, held here so that the documentation stays true.
    assert verdict_of(case, a_share).causal
