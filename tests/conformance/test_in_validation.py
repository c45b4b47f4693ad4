"""Every misbehaving model in the role ``validation``: code decides, a model can only add to what it finds."""

from __future__ import annotations

ROLE = "validation"


def test_no_review_stops_a_sound_signal(misbehaving, staged):
    assert staged(ROLE, misbehaving, ask=False)["ended_because"] == "done"


def test_a_reply_that_is_no_rule_is_no_second_reading(staged):
    state = staged(ROLE, "never_content", ask=True)
    assert state["ended_because"] == "done"
    issues = state["quantgraph"]["progress"]["validation"]["issues_found"]
    assert [each["severity"] for each in issues if each["code"] == "not_compared"] == ["warning"]
