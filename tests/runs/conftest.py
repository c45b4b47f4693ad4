"""What the tests of runs share."""

from __future__ import annotations

import pytest

from quantgraph.llm import KeylessPlanner


@pytest.fixture
def asked(monkeypatch):
    """What the planner was asked, in order."""
    calls = []
    answer = KeylessPlanner._generate

    def counting(self, messages, *args, **options):
        calls.append(messages)
        return answer(self, messages, *args, **options)

    monkeypatch.setattr(KeylessPlanner, "_generate", counting)
    return calls
