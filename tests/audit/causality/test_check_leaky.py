"""Leaky snippets are refused: the sparse ones and a part of the others; all, in both markets, by ``make zoo``.

``make test`` runs every sixth of them, and ``make proofs`` the others.
"""

from __future__ import annotations

import io
from contextlib import redirect_stdout, suppress
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from thinned import thinned

from quantgraph.audit.causality import CodeTrials, check_causality
from quantgraph.sandbox import default_runner

from .zoo import LEAKY
from .zoo_panels import WHOLE, in_suite, market

pytestmark = pytest.mark.proof

TIED = ("flat_days_by_tomorrow", "or_equal_if_it_pays", "unchanged_week_before_a_fall")
"""Snippets whose ties the future decides: a walk takes them for rounding, and decides them without it."""

CELLS = [
    (snippet, panel)
    for number, snippet in enumerate(LEAKY)
    for panel in snippet.panels
    if in_suite(number, panel) or (snippet.fires != "dense" and panel == snippet.panels[0])
]


@pytest.mark.parametrize(
    ("snippet", "panel"),
    thinned(CELLS, lambda number, _: number % 6 == 0),
    ids=[f"{snippet.name}-{panel}" for snippet, panel in CELLS],
)
def test_a_leaky_snippet_is_refused_with_a_counterexample(snippet, panel, a_share):
    frames = market(a_share if panel == "sse50" else "sample")
    trials = CodeTrials(default_runner(), snippet.cells, snippet.name)
    verdict = check_causality(trials, frames, prove="all" if snippet.only == "exhaustive" else "auto", seed=0)
    assert verdict.result == "not_causal", snippet.why
    assert verdict.counterexample.hints
    assert "\n" not in verdict.counterexample.message("en") + verdict.counterexample.message("zh")


@pytest.mark.proof
@pytest.mark.parametrize(
    ("snippet", "panel"),
    [
        cell
        for number, cell in enumerate(CELLS)
        if cell[0].name in TIED or (cell[0].only != "exhaustive" and (WHOLE or number % 16 == 0))
    ],
    ids=lambda value: getattr(value, "name", value),
)
def test_a_walked_leaky_snippet_is_refused_or_trades_what_was_known(snippet, panel, a_share):
    """The walked signal equals that of plain pandas on frames that end with each session."""
    frames = market(a_share if panel == "sse50" else "sample")
    trials = CodeTrials(default_runner(), snippet.cells, snippet.name)
    verdict = check_causality(trials, frames, prove="all", warm_up=False)
    assert verdict.result == "not_causal" or snippet.name in TIED, verdict.line
    if verdict.causal:
        whole = {name: {key: frame.frame for key, frame in fields.items()} for name, fields in frames.items()}
        expected = last_rows(snippet, whole)
        assert verdict.signal.fillna(0.0).equals(expected.reindex(columns=verdict.signal.columns).fillna(0.0))
        assert verdict.near_threshold > 0


def last_rows(snippet, panels):
    """Row by row: everything cut after it, the cells run by Python itself, the last row of what they hand over."""
    sessions = panels["ohlcv"]["close"].index
    rows = {}
    for day in sessions:
        snapshot = {
            name: {key: frame.loc[:day] for key, frame in fields.items()} for name, fields in panels.items()
        }
        handed = {}
        store = SimpleNamespace(
            update=lambda _, frames, handed=handed: handed.update(frames),
            snapshot=lambda snapshot=snapshot: snapshot,
        )
        scope = {"pd": pd, "np": np, "snapshot": snapshot, "GLOBAL_DATA_STATE": store}
        with suppress(Exception), redirect_stdout(io.StringIO()):
            for cell in snippet.cells:
                exec(cell, scope)
        if snippet.name in handed and day in handed[snippet.name].index:
            rows[day] = handed[snippet.name].loc[day]
    return pd.DataFrame(rows).T.reindex(sessions).rename_axis("trade_date")
