"""No honest snippet is accused in the sample market; its code runs in this process, which is quicker."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

from quantgraph.audit import CodeTrials, check_causality
from quantgraph.errors import CodeFailed
from quantgraph.sandbox import CodeResult
from quantgraph.state import DataState

from .zoo import HONEST
from .zoo_panels import market


class Here:
    """A runner without a process of its own: for code that is known to be tame."""

    def run(self, cells, frames):
        store = DataState()
        store.adopt(frames)
        scope = {"pd": pd, "np": np, "GLOBAL_DATA_STATE": store, "snapshot": store.snapshot()}
        try:
            with warnings.catch_warnings(action="ignore"):
                for cell in cells:
                    exec(cell, scope)
        except Exception as error:
            return CodeResult(error=CodeFailed(f"{type(error).__name__}: {error}"))
        return CodeResult(signals=dict(store.snapshot()["signal"]))


@pytest.mark.parametrize("snippet", HONEST, ids=lambda snippet: snippet.name)
def test_an_honest_snippet_is_passed(snippet):
    trials = CodeTrials(Here(), snippet.cells, snippet.name)
    verdict = check_causality(trials, market("sample"), exhaustive=False)
    assert verdict.causal, verdict.line
    assert verdict.coverage["proved"] == 40
