"""Cash over all orders together: sales first, charges included, and who is held when it does not fit."""

from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quantgraph.agents.dual_agent import _validation

NO_LIMIT = {"min_cash_ratio": 0.0, "cost_rate": 0.0}
check_cash = partial(_validation.check_cash, **NO_LIMIT)
fit_to_cash = partial(_validation.fit_to_cash, **NO_LIMIT)


def decision(action, target):
    return {"action": action, "target_cash_amount": target, "confidence": 0.5, "reasons": []}


def book(cash, **positions):
    value = sum(positions.values())
    portfolio = {"total_assets": cash + value, "available_cash": cash, "position_value": value}
    return positions, portfolio


def test_what_is_sold_pays_for_what_is_bought_wherever_it_stands():
    positions, portfolio = book(0.0, B=0.0, A=5_000.0)
    swap = {"B": decision("increase", 5_000.0), "A": decision("close", 0.0)}
    assert check_cash(swap, positions, portfolio) is None
    assert check_cash(dict(reversed(swap.items())), positions, portfolio) is None


def test_charges_of_a_sale_count_and_those_of_a_purchase_come_out_of_it():
    positions, portfolio = book(0.0, A=10_000.0, B=0.0)
    swap = {"A": decision("close", 0.0), "B": decision("increase", 10_000.0)}
    fault = check_cash(swap, positions, portfolio, cost_rate=0.001)
    # 10,000 less 10 come in, 10,000 go out.
    assert (fault.proceeds, fault.required_cash) == (9_990.0, 10_000.0)
    assert fault.shortfall == pytest.approx(10.0)


def test_a_hold_needs_no_cash_and_neither_does_a_reply_that_buys_nothing():
    positions, portfolio = book(0.0, A=5_000.0)
    assert check_cash({"A": decision("hold", 9_000.0)}, positions, portfolio) is None
    assert check_cash({"A": decision("hold", 5_000.0)}, positions, portfolio, min_cash_ratio=0.5) is None
    assert check_cash({"A": decision("decrease", 4_000.0)}, positions, portfolio, min_cash_ratio=0.5) is None
    assert check_cash({}, positions, portfolio) is None


def test_a_ratio_below_the_least_is_a_fault_of_its_own():
    positions, portfolio = book(20_000.0, A=80_000.0, B=0.0)
    fault = check_cash({"B": decision("increase", 12_000.0)}, positions, portfolio, min_cash_ratio=0.1)
    # 8,000 of 100,000 would be left, and 10,000 must stay.
    assert (fault.kind, fault.remaining_cash, fault.remaining_ratio, fault.shortfall) == (
        "ratio",
        8_000.0,
        0.08,
        2_000.0,
    )
    assert check_cash({"B": decision("increase", 10_000.0)}, positions, portfolio, min_cash_ratio=0.1) is None


def test_in_the_order_of_the_reply_the_first_that_does_not_fit_takes_what_is_left():
    positions, portfolio = book(10_000.0, A=0.0, B=0.0, C=0.0, D=1_000.0)
    wished = {
        "C": decision("increase", 3_000.0),
        "B": decision("increase", 9_000.0),
        "A": decision("increase", 5_000.0),
        "D": decision("close", 0.0),
    }
    fitted = fit_to_cash(wished, positions, portfolio, least_buys={"A": 1.0, "B": 700.0})
    # 11,000 with the sale: C takes 3,000, B the 8,000 that are left of its 9,000, and A nothing.
    assert fitted["B"] == wished["B"] | {
        "target_cash_amount": 8_000.0,
        "note": "an increase by 9000.00 is cut to the cash that is left, 8000.00",
        "wished_cash_amount": 9_000.0,
    }
    assert fitted["A"] == {
        "action": "hold",
        "target_cash_amount": 0.0,
        "confidence": 0.5,
        "reasons": [],
        "note": "an increase by 5000.00 does not fit the cash that is left, 0.00",
        "hold_reason": "rejected",
    }
    assert (fitted["C"], fitted["D"]) == (wished["C"], wished["D"])
    # A lot of B costs more than is left, so what comes after it has its turn; without a price none is bought.
    for least_buys in ({"A": 1.0, "B": 8_000.01}, {"A": 1.0}):
        fitted = fit_to_cash(wished, positions, portfolio, least_buys=least_buys)
        assert [fitted[name]["action"] for name in "ABCD"] == ["increase", "hold", "increase", "close"]


AMOUNT = st.floats(0, 50_000)


@given(
    held=st.lists(AMOUNT, min_size=4, max_size=4),
    targets=st.lists(AMOUNT, min_size=4, max_size=4),
    cash=AMOUNT,
    ratio=st.floats(0, 0.9),
    cost=st.floats(0, 0.01),
)
def test_what_fits_passes_the_check_whatever_the_order_of_the_symbols(held, targets, cash, ratio, cost):
    positions, portfolio = book(cash, **dict(zip("ABCD", held, strict=True)))
    wished = {
        name: decision("increase" if target > positions[name] else "decrease", target)
        for name, target in zip("ABCD", targets, strict=True)
    }
    options = {"min_cash_ratio": ratio, "cost_rate": cost}
    more = options | {"least_buys": dict.fromkeys("ABC", 100.0)}
    fitted = fit_to_cash(wished, positions, portfolio, **more)
    fault = check_cash(fitted, positions, portfolio, **options)
    assert fault is None or fault.shortfall < 0.01
    if check_cash(wished, positions, portfolio, **options) is None:
        assert fitted == wished
    assert fit_to_cash(wished, dict(reversed(positions.items())), portfolio, **more) == fitted
