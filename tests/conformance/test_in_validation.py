"""Every misbehaving model in the role ``validation``: code decides, a model can only add to what it finds."""

from __future__ import annotations

ROLE = "validation"


def test_no_review_keeps_a_sound_signal_from_being_traded_but_one_that_finds_an_error(misbehaving, staged):
    state = staged(ROLE, misbehaving, ask=False)
    assert (state["ended_because"] == "done") == (misbehaving != "never_content")


def test_a_reviewer_who_is_never_content_is_put_to_the_user_and_the_run_ends(staged):
    assert staged(ROLE, "never_content", ask=True)["ended_because"] in {"no_progress", "max_retries"}
