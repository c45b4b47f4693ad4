"""Honest snippets are causal: every fourth one; all, in both markets, at more cuts, by ``make zoo``."""

from __future__ import annotations

import pytest
from thinned import thinned

from quantgraph.audit.causality import CodeTrials, check_causality
from quantgraph.sandbox import default_runner

from .zoo import HONEST
from .zoo_panels import CUTS, WHOLE, market

pytestmark = pytest.mark.proof

CELLS = [
    (snippet, panel)
    for number, snippet in enumerate(HONEST)
    for panel in snippet.panels
    if WHOLE or (panel != "sample" and (number % 4 == 0 or snippet.name.endswith("_by_a_product")))
]


@pytest.mark.parametrize(
    ("snippet", "panel"),
    thinned(CELLS, lambda number, _: number % 5 == 0),
    ids=[f"{snippet.name}-{panel}" for snippet, panel in CELLS],
)
def test_an_honest_snippet_is_causal(snippet, panel, a_share):
    frames = market(a_share if panel == "sse50" else "sample")
    trials = CodeTrials(default_runner(), snippet.cells, snippet.name)
    verdict = check_causality(trials, frames, prove="sampled", cuts=CUTS, seed=0)
    assert verdict.causal, verdict.line
    assert verdict.coverage["proved"] == CUTS


@pytest.mark.proof
@pytest.mark.parametrize(
    ("snippet", "panel"),
    CELLS if WHOLE else [cell for cell in CELLS if cell[0].name.endswith("_by_a_product")][::2],
    ids=lambda value: getattr(value, "name", value),
)
def test_an_honest_snippet_is_walked_to_the_signal_it_handed_over(snippet, panel, a_share):
    """Equal in every cell except those that rounding flips."""
    frames = market(a_share if panel == "sse50" else "sample")
    trials = CodeTrials(default_runner(), snippet.cells, snippet.name)
    verdict = check_causality(trials, frames, prove="all", warm_up=False)
    assert verdict.causal, verdict.line
    whole = trials.whole(frames).signal.frame
    walked = verdict.signal.reindex(columns=whole.columns)
    differing = (walked.fillna(0.0) != whole.fillna(0.0)).to_numpy().sum()
    assert differing <= verdict.near_threshold
