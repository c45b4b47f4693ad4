"""Code that detects the test gains nothing: it is refused, or its signal without the future trades.

The default suite walks one half of the adversaries and samples the other; ``make zoo`` does both for all.
"""

from __future__ import annotations

import numpy as np
import pytest
from thinned import thinned

from quantgraph.audit.causality import CodeTrials, check_causality
from quantgraph.errors import CodeFailed
from quantgraph.sandbox import default_runner

from .zoo.adversaries import ADVERSARIES, AHEAD_OF_EVENTS, BEST_NAME_LAST, HONEST
from .zoo_panels import WHOLE, market

pytestmark = pytest.mark.proof

WALKED, SAMPLED = (ADVERSARIES, ADVERSARIES) if WHOLE else (ADVERSARIES[::2], ADVERSARIES[1::2])


def trials_of(cells, frames):
    """The cells with the panel's marks filled in, as a model that had seen it would have them by heart."""
    close = frames["ohlcv"]["close"].values
    last = float(np.nansum(close[-1]))
    marks = f"TOTAL, GAPS, LAST = {len(close)}, {int(np.isnan(close).sum())}, {last!r}\n"
    return CodeTrials(default_runner(), [marks + cells[0]], "s")


@pytest.fixture(scope="module")
def twin(a_share):
    """What the honest code says of the whole panel, which is what it says of every prefix."""
    frames = market(a_share)
    return trials_of(HONEST, frames).whole(frames).signal.frame


@pytest.mark.parametrize(
    "adversary", thinned(WALKED, lambda number, _: number == 0), ids=lambda adversary: adversary.name
)
def test_a_walked_adversary_is_refused_or_trades_its_honest_twin(adversary, a_share, twin):
    frames = market(a_share)
    verdict = check_causality(trials_of(adversary.cells, frames), frames, prove="all", warm_up=False)
    expected = twin.copy()
    expected.iloc[:, : adversary.out] = -1.0
    assert not verdict.causal or verdict.signal.equals(expected), verdict.line


@pytest.mark.parametrize("seed", range(5 if WHOLE else 1))
@pytest.mark.parametrize(
    "adversary", thinned(SAMPLED, lambda number, _: number == 0), ids=lambda adversary: adversary.name
)
def test_a_sampled_adversary_is_refused(adversary, seed, a_share):
    frames = market(a_share)
    verdict = check_causality(
        trials_of(adversary.cells, frames), frames, prove="sampled", seed=seed, warm_up=False
    )
    assert verdict.result in ("not_causal", "not_deterministic", "undecided"), verdict.line


@pytest.mark.parametrize("walk", ["all", "sampled"])
def test_the_honest_twin_is_causal(walk, a_share, twin):
    frames = market(a_share)
    verdict = check_causality(trials_of(HONEST, frames), frames, prove=walk, seed=0, warm_up=False)
    assert verdict.causal, verdict.line
    assert walk != "all" or verdict.signal.equals(twin)


@pytest.mark.parametrize("seed", range(5 if WHOLE else 2))
def test_what_is_announced_in_the_future_does_not_come_in_another_one(seed):
    frames = market("sample")
    trials = CodeTrials(default_runner(), AHEAD_OF_EVENTS, "s")
    verdict = check_causality(trials, frames, prove="sampled", seed=seed, warm_up=False)
    assert verdict.result == "not_causal"


@pytest.mark.parametrize("walk", ["all", "sampled"])
def test_the_order_of_names_does_not_choose_the_signal_in_hindsight(walk, a_share):
    frames = market(a_share)
    best = next(reversed(default_runner().run(BEST_NAME_LAST, frames).signals))
    trials = CodeTrials(default_runner(), BEST_NAME_LAST, best)
    with pytest.raises(CodeFailed, match="handed over in another order"):
        check_causality(trials, frames, prove=walk, seed=0, warm_up=False)
