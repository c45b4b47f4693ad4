"""Fixtures of the audit's tests."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="module", autouse=True)
def kept_code():
    """Code runs every time: what it does in another run is the matter here."""
