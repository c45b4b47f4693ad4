"""The block's fills and marks equal those of the journal."""

from decimal import Decimal

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from quantgraph.broker import TradePlan
from quantgraph.broker.blocks._kernel import MARK, ORDER
from quantgraph.broker.blocks._lines import CHARGES, fill_texts, mark_texts, reasons_of
from quantgraph.broker.ledger._journal import fill_body, marks_body, plain_order

D, DIGITS = Decimal, st.sampled_from([4, 8])
SYMBOLS = ("600000.SH", "000001.SZ", "300750.SZ", "688981.SH", "430047.BJ", "510300.SH")


def money(cents):
    return D(cents).scaleb(-2)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(
    st.lists(
        st.tuples(
            st.booleans(),
            st.booleans(),
            st.integers(0, len(SYMBOLS) - 1),
            *[st.integers(1, 10**10) | st.integers(1, 50_000)] * 2,
            *[st.integers(0, 10**14) | st.integers(0, 300)] * 6,
        ),
        max_size=5,
    ),
    DIGITS,
)
def test_fills_are_written_as_the_journal_writes_them(rows, digits):
    orders, wanted = np.zeros(len(rows), ORDER), []
    for place, (filled, sells, column, quantity, price, *cents) in enumerate(rows):
        order, side = orders[place], "sell" if sells else "buy"
        order["filled"], order["sells"], order["column"], order["t_plus"] = filled, sells, column, 1
        order["quantity"], order["price"], order["sequence"] = quantity, price, place + 1
        for name, value in zip(("notional", *CHARGES), cents, strict=True):
            order[name] = value
        notional, *charges = map(money, cents)
        text = plain_order(place + 1, SYMBOLS[column], side, quantity, "signal -1" if sells else "signal 1")
        told = f"{D(price).scaleb(-digits):f}".rstrip("0").removesuffix(".")
        wanted.append(fill_body(text, side, quantity, told, notional, charges, 1) if filled else "")
    assert fill_texts(orders, SYMBOLS, 10**digits, reasons_of(TradePlan())) == wanted


@settings(max_examples=100, deadline=None, derandomize=True)
@given(
    st.lists(
        st.dictionaries(
            st.integers(0, 3), st.tuples(st.integers(0, 10**10) | st.integers(0, 50_000), st.booleans())
        ),
        min_size=1,
        max_size=4,
    ),
    DIGITS,
)
def test_marks_are_written_as_the_journal_writes_them(days, digits):
    symbols = ("600000.SH", "平安", "é.SZ", "A")
    cells = [(column, price, carried) for day in days for column, (price, carried) in day.items()]
    ends = np.cumsum([0, *map(len, days)])
    wanted = [
        marks_body(
            {symbols[column]: price / 10**digits for column, (price, _) in day.items()},
            [symbols[column] for column, (_, carried) in day.items() if carried],
        )
        for day in days
    ]
    assert mark_texts(np.array(cells, MARK), ends, symbols, 10**digits) == wanted
