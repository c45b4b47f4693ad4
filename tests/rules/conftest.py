"""Commits of the real price files, for the rules' tests."""

import pytest

from quantgraph.data import open_source
from quantgraph.state import DataState


def commit_of(path):
    """A store with all prices of a file or folder, and its snapshot."""
    source, store = open_source(path), DataState()
    sessions = source.sessions()
    store.update("ohlcv", source.bars(source.symbols(), sessions[0], sessions[-1]))
    return store


@pytest.fixture(scope="session")
def sse_50(a_share):
    """Mainland prices with suspensions and ex-dates."""
    return commit_of(a_share)


@pytest.fixture(scope="session")
def nasdaq_100(shared_data):
    """Prices of US shares."""
    return commit_of(shared_data / "ai-trader" / "us" / "daily_prices_nasdaq_100_20250610_20251030.csv.gz")
