import numpy as np
import pandas as pd
import pytest

from quantgraph.broker import Market
from quantgraph.market import Rulebook
from quantgraph.state import DataState


@pytest.fixture
def toy():
    """Four sessions of two symbols; B is suspended on the third and has no price on it."""
    index = pd.DatetimeIndex(["2024-01-02", "2024-01-03", "2024-01-04", "2024-01-05"])
    columns = ["600000.SH", "600036.SH"]
    opens = pd.DataFrame([[10.0, 30.0], [10.1, 30.3], [10.2, np.nan], [10.3, 30.9]], index, columns)
    closes = pd.DataFrame([[10.05, 30.2], [10.15, 30.4], [10.25, np.nan], [10.35, 31.0]], index, columns)
    before = pd.DataFrame([[9.95, 29.9], [10.05, 30.2], [10.15, 30.4], [10.25, 30.4]], index, columns)
    store = DataState()
    ref = store.update("ohlcv", {"open": opens, "close": closes, "pre_close": before})
    return store, ref, index


@pytest.fixture
def market(toy):
    """The four sessions under the mainland's rules."""
    store, ref, _ = toy
    return Market(store=store, data_ref=ref, rules=Rulebook.mainland(), blocks_from=0)
