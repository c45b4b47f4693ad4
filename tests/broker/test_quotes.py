"""Quotes have what is known of a session at its open, and after its close."""

import math

import numpy as np
import pandas as pd
import pytest

from quantgraph.broker.accounts import quotes_at
from quantgraph.broker.accounts._quotes import Quote
from quantgraph.errors import FutureRequested, UnknownField
from quantgraph.market import Moment
from quantgraph.market.rules import ListingStatus
from quantgraph.state import DataState

NAN = math.nan
DAYS = pd.DatetimeIndex(["2024-01-02", "2024-01-03"])
CODES = ["600000.SH", "600036.SH"]


def quotes(fields, phase, day=1):
    frames = {name: pd.DataFrame([[1.0, 1.0], row], DAYS, CODES) for name, row in fields.items()}
    store = DataState()
    return quotes_at(store.view(Moment(DAYS[day], phase), store.update("ohlcv", frames)))


BARS = {
    "open": [10.0, 20.0],
    "high": [10.5, 20.5],
    "low": [9.5, 19.5],
    "close": [10.2, 20.2],
    "vol": [12.5, 0.0],
    "pre_close": [9.9, 19.9],
    "up_limit": [10.89, NAN],
    "down_limit": [8.91, 17.91],
}


def test_at_the_open_nothing_later_is_known():
    quote = quotes(BARS, "open")["600000.SH"]
    assert (quote.open, quote.pre_close, quote.up_limit, quote.down_limit) == (10.0, 9.9, 10.89, 8.91)
    assert (quote.high, quote.low, quote.close, quote.volume) == (None, None, None, None)


def test_once_it_is_over_all_is_known_and_volume_is_in_shares():
    quote = quotes(BARS, "close")["600000.SH"]
    assert (quote.high, quote.low, quote.close, quote.volume) == (10.5, 9.5, 10.2, 1250.0)


def test_a_field_that_the_data_does_not_have_is_nothing():
    quote = quotes({"open": [10.0, 20.0]}, "close")["600036.SH"]
    later = [quote.high, quote.low, quote.close, quote.volume]
    assert np.isnan([*later, quote.pre_close, quote.up_limit, quote.down_limit]).all()


def test_they_are_a_mapping_of_the_symbols_of_the_open():
    found = quotes(BARS, "close")
    assert list(found) == CODES
    assert (len(found), "600000.SH" in found, "600519.SH" in found) == (2, True, False)
    with pytest.raises(KeyError):
        found["600519.SH"]


def test_a_symbol_that_another_field_lacks_has_none_of_it():
    opens = pd.DataFrame([[10.0, 20.0]] * 2, DAYS, CODES)
    store = DataState()
    ref = store.update("ohlcv", {"open": opens, "close": opens[["600000.SH"]]})
    found = quotes_at(store.view(Moment(DAYS[1], "close"), ref))
    assert found["600000.SH"].close == 10.0
    assert math.isnan(found["600036.SH"].close)


def test_the_status_is_what_the_data_says_of_the_day():
    fields = BARS | {"is_st": [1.0, 0.0], "listing_day": [NAN, 3.0], "delisting_day": [2.0, NAN]}
    for phase in ("open", "close"):
        found = quotes(fields, phase)
        assert found["600000.SH"].status == ListingStatus(st=True, delisting_day=2)
        assert found["600036.SH"].status == ListingStatus(listing_day=3)
    assert quotes(BARS, "open")["600000.SH"].status == ListingStatus()


def test_quotes_before_the_open_are_refused():
    with pytest.raises(FutureRequested):
        quotes(BARS, "pre_open")
    with pytest.raises(UnknownField):
        quotes({"close": [1.0, 1.0]}, "close")


@pytest.mark.parametrize(
    ("quote", "suspended"),
    [
        (Quote(open=NAN), True),
        (Quote(open=NAN, close=NAN), True),
        (Quote(open=NAN, close=10.0), False),
        (Quote(open=10.0), False),
        (Quote(open=10.0, close=10.0, volume=0.0), True),
        (Quote(open=10.0, close=10.0, volume=NAN), False),
    ],
)
def test_a_session_without_a_price_or_without_trading_is_a_suspension(quote, suspended):
    assert quote.suspended is suspended


def test_at_the_open_a_close_order_is_judged_at_the_open_and_a_limit_order_at_its_limit():
    quote = Quote(open=10.0)
    assert quote.price("close", "buy") == 10.0
    assert (quote.price("limit", "buy", 10.5), quote.price("limit", "buy", 9.5)) == (10.0, 9.5)
    assert (quote.price("limit", "sell", 9.5), quote.price("limit", "sell", 10.5)) == (10.0, 10.5)


def test_without_a_low_or_high_a_limit_beyond_the_open_is_not_reached():
    quote = Quote(open=10.0, high=NAN, low=NAN, close=10.0)
    assert quote.price("limit", "buy", 9.5) is None
    assert quote.price("limit", "sell", 10.5) is None
    assert quote.price("limit", "buy", 10.0) == 10.0
