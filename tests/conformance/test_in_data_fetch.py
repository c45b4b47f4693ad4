"""Every misbehaving model in the role ``data_fetch``."""

from __future__ import annotations

ROLE = "data_fetch"


def test_with_nobody_to_ask_the_run_ends_typed_within_its_bounds(misbehaving, staged, right):
    state = staged(ROLE, misbehaving, ask=False)
    assert state["ended_because"] == "done" or misbehaving not in right


def test_with_answers_the_run_ends_typed_within_its_bounds(failing, staged):
    staged(ROLE, failing, ask=True)
