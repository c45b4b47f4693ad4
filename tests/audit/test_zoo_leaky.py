"""Every leaky snippet is refused, in both markets."""

from __future__ import annotations

import pytest

from quantgraph.audit import CodeTrials, check_causality
from quantgraph.sandbox import default_runner

from .zoo import LEAKY
from .zoo_panels import is_judged, market

CELLS = [
    (snippet, panel)
    for number, snippet in enumerate(LEAKY)
    for panel in snippet.panels
    if is_judged(number, panel) or snippet.fires != "dense"
]


@pytest.mark.parametrize(
    ("snippet", "panel"), CELLS, ids=[f"{snippet.name}-{panel}" for snippet, panel in CELLS]
)
def test_a_leaky_snippet_is_refused_with_a_counterexample(snippet, panel, a_share):
    frames = market(a_share if panel == "sse50" else "sample")
    trials = CodeTrials(default_runner(), snippet.cells, snippet.name)
    verdict = check_causality(trials, frames, exhaustive=snippet.only == "exhaustive", seed=0)
    assert verdict.result == "not_causal", snippet.why
    assert verdict.counterexample.places
    assert "\n" not in verdict.counterexample.message("en") + verdict.counterexample.message("zh")
