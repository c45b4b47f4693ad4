"""Fixtures of the sandbox's tests."""

from __future__ import annotations

import pytest

from quantgraph.market import Moment
from quantgraph.sandbox import ForkRunner
from quantgraph.state import DataState


@pytest.fixture
def frames(frame):
    """Two fields of five sessions and three symbols."""
    store = DataState()
    store.update("ohlcv", {"close": frame, "open": frame + 1})
    return store.view(Moment.at("2024-01-08")).frozen()


@pytest.fixture(scope="module")
def forker():
    """A shared ForkRunner with ordinary limits."""
    made = ForkRunner(timeout=15.0, memory_mb=512)
    yield made
    made.close()


@pytest.fixture(scope="module", autouse=True)
def kept_code():
    """Code runs every time: running it is the matter here."""
