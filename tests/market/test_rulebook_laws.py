"""What holds of any rulebook, and of the rule files themselves."""

import datetime as dt
import tomllib
from decimal import Decimal
from importlib.resources import files

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quantgraph.market.rules._order_rules import ListingStatus
from quantgraph.market.rules._rulebook import Rulebook

D = Decimal
CN = Rulebook.mainland(slippage_bps=3)
SYMBOLS = ("600000.SH", "000001.SZ", "300750.SZ", "688981.SH", "920002.BJ", "510300.SH", "588000.SH")
days = st.dates(dt.date(2021, 11, 15), dt.date(2027, 12, 31))  # every board is open
statuses = st.builds(
    ListingStatus,
    st=st.booleans(),
    listing_day=st.none() | st.integers(1, 10),
    delisting_day=st.none() | st.integers(1, 15),
)


@given(st.sampled_from(SYMBOLS), days, st.integers(11, 10**6), statuses)
def test_limits_are_on_the_tick_and_on_either_side(symbol, day, cents, status):
    pre_close = D(cents) / 100
    limits = CN.limits(symbol, day, pre_close, status)
    if limits is None:
        assert status.listing_day or status.delisting_day
        return
    upper, lower = limits
    tick = CN.tick(symbol, day, pre_close)
    assert upper % tick == lower % tick == 0
    assert tick <= lower < pre_close < upper


@given(st.sampled_from(SYMBOLS), days, st.integers(1, 1000), st.integers(1, 10**6))
def test_charges_are_whole_cents_and_sellers_pay_no_less(symbol, day, hands, cents):
    quantity, notional = 100 * hands, D(cents) * hands
    buy, sell = (CN.charges(symbol, side, quantity, notional, day) for side in ("buy", "sell"))
    parts = (sell.commission, sell.stamp_duty, sell.transfer_fee, sell.regulatory, sell.slippage)
    assert all(part >= 0 and part == part.quantize(D("0.01")) for part in parts)
    assert sell.total == sum(parts) >= buy.total >= 5


@pytest.mark.parametrize("name", ["mainland.toml", "us.toml"])
def test_every_row_of_a_rule_file_is_dated_and_has_a_source(name):
    text = files("quantgraph.market").joinpath("_rules", name).read_text(encoding="utf-8")
    tables = dict(_tables(tomllib.loads(text)))
    assert len(tables) >= 3
    for table, rows in tables.items():
        assert all(row["source"].strip() for row in rows), table
        if table in {"codes", "halts"}:
            continue
        since = [row["since"] for row in rows]
        assert all(type(day) is dt.date for day in since), table
        assert since == sorted(set(since)), table


def _tables(tree, path=""):
    for name, entry in tree.items():
        if isinstance(entry, list):
            yield f"{path}{name}", entry
        else:
            yield from _tables(entry, f"{path}{name}.")
