"""One symbol's adjustment: the same numbers as a whole panel's, which other tests hold against real data."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quantgraph.errors import BadFrame
from quantgraph.market.actions import adjusted
from quantgraph.tools.trading import column_adjustment

DAYS = pd.bdate_range("2024-01-02", periods=9).astype("datetime64[us]")
SYMBOLS = ["000001.SZ", "600519.SH", "AAPL"]


def columns_of(fields, symbol):
    return {name: (frame.index.to_numpy(), frame[symbol].to_numpy()) for name, frame in fields.items()}


@st.composite
def panels(draw):
    """Fields of any method, with gaps, some ending a session later, as a view's do at the open."""

    def frame(rows, low, high, holes):
        cell = st.floats(low, high, allow_nan=False)
        cells = st.one_of(st.just(float("nan")), cell) if holes else cell
        values = draw(st.lists(cells, min_size=rows * 3, max_size=rows * 3))
        return pd.DataFrame(np.reshape(values, (rows, 3)), index=DAYS[:rows], columns=SYMBOLS)

    fields = {"close": frame(8, 10, 20, holes=True)}
    for name, low, high in (("adj_factor", 1, 3), ("pre_close", 10, 20), ("dividend", 0, 1), ("split", 1, 2)):
        if draw(st.booleans()):
            fields[name] = frame(draw(st.integers(7, 9)), low, high, holes=True)
    return fields


@given(panels())
def test_it_is_the_column_of_the_adjusted_panel(fields):
    try:
        whole = adjusted(fields)
    except KeyError:
        whole = None  # nothing to adjust by
    for symbol in SYMBOLS:
        sessions = fields["close"].index.to_numpy()
        factor = column_adjustment(symbol, columns_of(fields, symbol), sessions)
        close = fields["close"][symbol].to_numpy()
        if factor is None:
            assert whole is None or whole[symbol].isna().all()
        else:
            np.testing.assert_allclose(close * factor, whole[symbol].to_numpy(), rtol=1e-12)


def test_a_dividend_of_ten_percent_lowers_what_was_before_by_a_tenth():
    days = DAYS[:3].to_numpy()
    columns = {
        "close": (days, np.array([10.0, 10.0, 9.0])),
        "dividend": (days, np.array([np.nan, np.nan, 1.0])),
    }
    assert column_adjustment("600519.SH", columns, days) == pytest.approx([0.9, 0.9, 1.0])


def test_without_a_field_to_adjust_by_there_is_none():
    days = DAYS[:2].to_numpy()
    assert column_adjustment("600519.SH", {"close": (days, np.array([1.0, 2.0]))}, days) is None


def test_a_dividend_as_large_as_the_price_is_refused():
    days = DAYS[:2].to_numpy()
    columns = {"close": (days, np.array([5.0, 1.0])), "dividend": (days, np.array([np.nan, 5.0]))}
    with pytest.raises(BadFrame, match=r"has 5 at .*, and the close before it is 5; it must be less"):
        column_adjustment("600519.SH", columns, days)
