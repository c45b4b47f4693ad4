"""Panels from long tables."""

from __future__ import annotations

import pandas as pd
import pytest

from quantgraph.data.market_data import long_to_panel


def test_long_to_panel_refuses_a_repeated_cell() -> None:
    table = pd.DataFrame(
        {"ts_code": ["a", "a"], "trade_date": pd.to_datetime(["2024-01-02"] * 2), "close": [1, 2]}
    )
    with pytest.raises(ValueError, match="more than once"):
        long_to_panel(table, ["close"], pd.DatetimeIndex(["2024-01-02"]), ["a"])
