"""Every misbehaving model in the role ``validation``: code decides, a model can only add to what it finds."""

from __future__ import annotations

ROLE = "validation"


def test_only_a_review_with_an_error_stops_a_sound_signal(misbehaving, staged):
    state = staged(ROLE, misbehaving, ask=False)
    assert (state["ended_because"] == "done") == (misbehaving != "never_content")


def test_endless_review_errors_are_shown_to_the_user_and_the_run_ends(staged):
    assert staged(ROLE, "never_content", ask=True)["ended_because"] in {"no_progress", "max_retries"}
