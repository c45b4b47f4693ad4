"""No honest snippet is accused in the market of the SSE 50."""

from __future__ import annotations

import pytest

from quantgraph.audit import CodeTrials, check_causality
from quantgraph.sandbox import default_runner

from .zoo import HONEST
from .zoo_panels import market


@pytest.mark.parametrize("snippet", HONEST, ids=lambda snippet: snippet.name)
def test_an_honest_snippet_is_passed(snippet, a_share):
    trials = CodeTrials(default_runner(), snippet.cells, snippet.name)
    verdict = check_causality(trials, market(a_share), exhaustive=False)
    assert verdict.causal, verdict.line
    assert verdict.coverage["proved"] == 40
