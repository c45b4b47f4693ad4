"""A signal stands on the sessions and symbols of the data, and its cells are numbers, or it does not enter."""

from __future__ import annotations

from decimal import Decimal

import hypothesis.strategies as st
import numpy as np
import pandas as pd
import pytest
from hypothesis import given

from quantgraph import DataState
from quantgraph.errors import BadFrame

DAYS = pd.to_datetime(["2024-01-02", "2024-01-03", "2024-01-05"])
CLOSE = pd.DataFrame([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], index=DAYS, columns=["000001.SZ", "600000.SH"])
ZERO = CLOSE * 0


def dated(*days):
    return ZERO.set_axis(pd.to_datetime(list(days)))


OUTSIDE = {
    "after": (dated("2024-01-02", "2024-01-03", "2024-01-08"), "2024-01-08", "000001.SZ"),
    "before": (dated("2023-12-29", "2024-01-03", "2024-01-05"), "2023-12-29", "000001.SZ"),
    "between": (dated("2024-01-02", "2024-01-04", "2024-01-05"), "2024-01-04", "000001.SZ"),
    "another symbol": (ZERO.set_axis(["000001.SZ", "600519.SH"], axis=1), "2024-01-02", "600519.SH"),
    "a later row and another symbol": (
        dated("2024-01-02", "2024-01-03", "2024-01-08").assign(c=0.0),
        "2024-01-02",
        "c",
    ),
}


@pytest.fixture
def state():
    made = DataState()
    made.update("ohlcv", {"close": CLOSE})
    return made


@pytest.mark.parametrize("name", OUTSIDE)
def test_a_cell_outside_of_the_data_is_refused_with_its_place(state, name):
    signal, session, symbol = OUTSIDE[name]
    before = state.head
    with pytest.raises(BadFrame, match=rf"has 0 at \({session}, {symbol}\), which is not a s") as caught:
        state.update("signal", {"s": signal})
    assert caught.value.data == {"session": session, "symbol": symbol, "value": 0.0}
    assert state.head == before
    with pytest.raises(BadFrame, match="which is not a"):
        state.override(signal={"s": signal})


def test_it_says_what_would_be_valid(state):
    with pytest.raises(BadFrame) as caught:
        state.update("signal", {"s": OUTSIDE["after"][0]})
    assert caught.value.message == (
        "signal['s'] has 0 at (2024-01-08, 000001.SZ), which is not a session of the data (3 from 2024-01-02 to "
        "2024-01-05); sessions and symbols must be those of the data: use signal.reindex(index=close.index, "
        "columns=close.columns)"
    )
    mended = OUTSIDE["after"][0].reindex(index=CLOSE.index, columns=CLOSE.columns)
    state.update("signal", {"s": mended})


@pytest.mark.parametrize(
    "signal", [ZERO, ZERO[["600000.SH", "000001.SZ"]], ZERO[["600000.SH"]], ZERO.iloc[1:], ZERO.iloc[[0, 2]]]
)
def test_fewer_sessions_fewer_symbols_and_another_order_are_accepted(state, signal):
    ref = state.update("signal", {"s": signal})
    assert state.snapshot(ref)["signal"]["s"].shape == signal.shape


def test_the_data_are_the_closes_and_without_them_all_prices_together():
    state = DataState()
    later = dated("2024-01-03", "2024-01-05", "2024-01-08") + 1
    state.update("signal", {"free": dated("1999-01-04", "1999-01-05", "1999-01-06")})
    state.update("ohlcv", {"open": CLOSE, "high": later.set_axis(["000001.SZ", "c"], axis=1)})
    union = pd.DataFrame(0.0, index=CLOSE.index.union(later.index), columns=["000001.SZ", "600000.SH", "c"])
    state.update("signal", {"s": union})
    state.update("ohlcv", {"close": CLOSE})
    with pytest.raises(BadFrame, match="2024-01-02, c"):
        state.update("signal", {"s": union})


def test_a_signal_is_held_against_the_commit_that_it_is_based_on(state):
    short, longer = state.head, pd.concat([CLOSE, CLOSE.set_axis(DAYS + pd.Timedelta(days=7))])
    state.update("ohlcv", {"close": longer})
    state.update("signal", {"s": longer * 0})
    with pytest.raises(BadFrame, match="2024-01-09"):
        state.update("signal", {"s": longer * 0}, base=short)
    state.override(ohlcv={"close": longer}, signal={"s": longer * 0}, base=short)


NOT_NUMBERS = {
    "booleans": (
        ZERO.astype(bool),
        r"False at \(2024-01-02, 000001.SZ\); it must be a number: use .astype\(float\)",
    ),
    "nullable booleans": (ZERO.astype("boolean"), r"use .astype\(float\)"),
    "sparse booleans": (ZERO.astype(pd.SparseDtype(bool)), r"use .astype\(float\)"),
    "booleans in objects": (ZERO.astype(bool).astype(object), r"use .astype\(float\)"),
    "a boolean among numbers": (
        ZERO.astype(object).mask(CLOSE == 4, other=True),
        r"True at \(2024-01-03, 600000.SH\); it must be a number",
    ),
    "None": (ZERO.astype(object).mask(CLOSE == 3, None), r"None at \(2024-01-03, 000001.SZ\)"),
    "text": (ZERO.astype(object).mask(CLOSE == 3, "buy"), r"'buy' at \(2024-01-03, 000001.SZ\)"),
    "numbers in objects": (ZERO.astype(object), r"dtype object in column 000001.SZ.*astype\(float\)"),
    "categories": (ZERO.astype("category"), r"dtype category.*astype\(float\)"),
    "decimals": (ZERO.map(Decimal), r"Decimal\('0'\) at \(2024-01-02"),
    "complex numbers": (ZERO.astype(complex), r"0j at \(2024-01-02"),
    "times": (ZERO.astype("datetime64[ns]"), "must be a number"),
    "2": (ZERO + 2, r"2 at \(2024-01-02, 000001.SZ\); signal values must be 1, 0, -1 or NaN"),
    "infinity": (ZERO.mask(CLOSE == 4, np.inf), r"inf at \(2024-01-03, 600000.SH\)"),
    "no row": (ZERO.iloc[:0], r"shape \(0, 2\)"),
    "a time zone": (ZERO.tz_localize("UTC"), "time zone UTC"),
    "dates as text": (ZERO.set_axis(["a", "b", "c"]), "index of str"),
    "periods": (ZERO.set_axis(DAYS.to_period("D")), "index of period"),
    "two levels": (ZERO.set_axis(pd.MultiIndex.from_product([["x"], DAYS])), "index of object"),
    "two levels of columns": (
        ZERO.set_axis(pd.MultiIndex.from_product([["x"], ZERO.columns]), axis=1),
        "as column 0",
    ),
    "a column twice": (ZERO[["600000.SH", "600000.SH"]], "column '600000.SH' twice"),
    "numbers for columns": (ZERO.set_axis([0, 1], axis=1), "has 0 as column 0"),
    "another order": (ZERO.iloc[::-1], r"not sorted: row 1 \(2024-01-03\)"),
    "a session twice": (ZERO.iloc[[0, 0, 1]], "session 2024-01-02 twice"),
    "no midnight": (ZERO.set_axis(DAYS + pd.Timedelta(hours=15)), "dates at midnight"),
    "a series": (ZERO["600000.SH"], "not Series"),
    "an array": (ZERO.to_numpy(), "not ndarray"),
    "nothing": (None, "not NoneType"),
    "a dict": ({"600000.SH": [0, 0, 0]}, "not dict"),
}


@pytest.mark.parametrize("name", NOT_NUMBERS)
def test_what_is_not_a_frame_of_numbers_is_refused_in_one_line(state, name):
    signal, says = NOT_NUMBERS[name]
    with pytest.raises(BadFrame, match=says) as caught:
        state.update("signal", {"s": signal})
    assert "\n" not in caught.value.message


@given(
    days=st.lists(st.integers(-2, 6), min_size=1, max_size=6),
    symbols=st.lists(st.sampled_from(["000001.SZ", "600000.SH", "c"]), min_size=1, max_size=4),
    value=st.sampled_from([1.0, 0.0, -1.0, np.nan, 0.5, np.inf, -np.inf]),
)
def test_exactly_what_the_rule_says_enters(days, symbols, value):
    state = DataState()
    state.update("ohlcv", {"close": CLOSE})
    index = pd.DatetimeIndex([pd.Timestamp("2024-01-02") + pd.Timedelta(days=day) for day in days])
    signal = pd.DataFrame(value, index=index, columns=symbols)
    valid = (
        days == sorted(set(days))
        and set(days) <= {0, 1, 3}
        and len(set(symbols)) == len(symbols)
        and "c" not in symbols
        and (np.isnan(value) or value in {1.0, 0.0, -1.0})
    )
    try:
        state.update("signal", {"s": signal})
    except BadFrame:
        assert not valid
    else:
        assert valid
