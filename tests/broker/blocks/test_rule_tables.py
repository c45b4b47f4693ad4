"""Charges, price bands and divisions of the array code equal the rulebook's decimals."""

import datetime as dt
from decimal import Decimal

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from quantgraph.broker.blocks import _kernel as _account_kernel
from quantgraph.broker.blocks._lines import counted, exact_rates, kinds_of, terms_of
from quantgraph.market import Rulebook

D = Decimal
SYMBOLS = (
    *("600000.SH", "000001.SZ", "300750.SZ", "688981.SH", "430047.BJ", "510300.SH"),
    *("588000.SH", "511880.SH", "518880.SH", "513100.SH", "159915.SZ", "600036.SH"),
)
BOOKS = [
    Rulebook.mainland(funds={"159915.SZ": "stock_20"}),
    Rulebook.zero_cost(),
    Rulebook.mainland(commission_rate="0.00012345", commission_min="0.015", slippage_bps="2.75"),
    Rulebook.mainland(commission_rate="0.003", commission_min=0, slippage_bps="9999.5"),
    Rulebook.us(),
    Rulebook.us(commission_per_share="0.0035", commission_min="0.355", slippage_bps="2.75"),
    Rulebook.us(commission_per_share="0.00001", commission_bps="1.5"),
    Rulebook.us(commission_per_share="0.0035", commission_min="0.355", slippage_bps="2.75", fractional=True),
    Rulebook.us(commission_per_share="0.00001", commission_bps="1.5", fractional=True),
]
DAYS = st.dates(dt.date(1999, 1, 1), dt.date(2026, 12, 31))
CHANGES = st.sampled_from(
    [
        dt.date(2005, 1, 24),
        dt.date(2007, 5, 30),
        dt.date(2008, 9, 19),
        dt.date(2012, 6, 1),
        dt.date(2015, 8, 1),
        dt.date(2020, 8, 24),
        dt.date(2022, 4, 29),
        dt.date(2023, 8, 28),
    ]
).flatmap(lambda day: st.sampled_from([day - dt.timedelta(days=1), day]))


def term_of(rules, symbol, day):
    symbols = (symbol, *SYMBOLS)
    kinds, examples = kinds_of(symbols, rules)
    _, terms = terms_of(rules, examples, np.array([day], "datetime64[us]"), 10**4)
    kind = kinds[0]
    return None if kind < 0 else terms[0, kind]


@settings(max_examples=400, deadline=None, derandomize=True)
@given(
    st.sampled_from(BOOKS),
    st.sampled_from(SYMBOLS),
    DAYS | CHANGES,
    st.sampled_from(["buy", "sell"]),
    st.tuples(st.integers(0, 10**6) | st.integers(0, 10**14), st.integers(1, 10**5) | st.integers(1, 10**12)),
)
def test_charges_are_the_rulebooks(rules, symbol, day, side, sizes):
    (money, shares), symbol = sizes, symbol if rules.market == "cn" else "AAPL"
    parts_of_share, of_cent = counted(rules)
    term = term_of(rules, symbol, day)
    if term is None:
        assert (symbol, rules.funds) == ("159915.SZ", ())
        return
    wanted = rules.charges(symbol, side, D(shares) / parts_of_share, D(money) / of_cent / 100, day)
    lots, cap, t_plus = rules.lots(symbol, day), rules.order_cap(symbol, day), rules.t_plus(symbol, day)
    smallest = lots.first * parts_of_share, lots.step * parts_of_share, t_plus
    assert tuple(term[["first", "step", "t_plus"]]) == smallest
    assert term["cap"] == min((cap or 10**12) * parts_of_share, 2**62)
    parts = (wanted.commission, wanted.stamp_duty, wanted.transfer_fee, wanted.regulatory, wanted.slippage)
    charges = _account_kernel.charges_of(money, shares, side == "sell", term)
    assert charges == tuple(int(part * 100) for part in parts)


@settings(max_examples=400, deadline=None, derandomize=True)
@given(st.sampled_from(SYMBOLS), DAYS, st.integers(1, 2000) | st.integers(1, 10**10))
def test_limits_are_the_rulebooks(symbol, day, before):
    term = term_of(BOOKS[0], symbol, day)
    wanted = BOOKS[0].limits(symbol, day, D(before).scaleb(-4))
    assert wanted is not None
    assert term["band"] == 1
    assert _account_kernel.band_of(before, term) == tuple(int(limit * 10_000) for limit in wanted)


@settings(max_examples=300, deadline=None, derandomize=True)
@example(10**14, 2**60 - 1, 2**60)  # floats see no difference to one
@example(4 * 10**18, 10**14 - 1, 10**14)
@example(2 * 10**18, 10**9, 10**14 - 1)
@given(st.integers(0, 10**14), st.integers(0, 2**60), st.integers(1, 2**60))
def test_a_share_of_an_amount_is_rounded_down_exactly(amount, numerator, denominator):
    numerator = min(numerator, denominator)
    assert _account_kernel._floor(amount, numerator, denominator) == amount * numerator // denominator


def test_rates_finer_than_fourteen_decimals_are_not_taken():
    assert all(exact_rates(rules) for rules in BOOKS)
    assert not exact_rates(Rulebook.mainland(commission_rate="0.000250000000001"))
    assert not exact_rates(Rulebook.mainland(slippage_bps="0.00000000001"))
