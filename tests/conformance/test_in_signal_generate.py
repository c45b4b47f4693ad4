"""Every misbehaving model in the role ``signal_generate``."""

from __future__ import annotations

import pytest
from faulty_models import misbehaving_in, slow_model

pytestmark = pytest.mark.proof

ROLE = "signal_generate"


def test_with_nobody_to_ask_the_run_ends_typed_within_its_bounds(misbehaving, staged, right):
    state = staged(ROLE, misbehaving, ask=False)
    assert state["ended_because"] == "done" or misbehaving not in right


def test_with_answers_the_run_ends_typed_within_its_bounds(failing, staged):
    staged(ROLE, failing, ask=True)


def test_a_model_slower_than_the_node_timeout_ends_the_run(play, stands, monkeypatch):
    monkeypatch.setenv("QUANTGRAPH_NODE_SECONDS", "0.8")
    cast = misbehaving_in(ROLE, slow_model(0.9))
    state = stands(play(cast))
    assert state["ended_because"] == "timeout"
    assert len(cast[ROLE].calls) == 1
