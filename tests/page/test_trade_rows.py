"""What each sale closed, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from quantgraph.page._drawings import per_symbol, trade_rows

from .page_views import view_of

DAYS = ["2024-01-02", "2024-01-03", "2024-01-04", "2024-01-05"]
LOW, HIGH = [9.5, 8.0, 9.0, 1.0], [10.5, 11.0, 14.0, 99.0]


def fill(day, side, quantity, price, cost=0.0):
    return DAYS[day], "A", side, quantity, price, quantity * price, cost, 1, ""


def test_a_sale_closes_at_average_cost_and_knows_how_far_the_price_went():
    fills = [
        fill(0, "buy", 100.0, 10.0, 5.0),
        fill(1, "buy", 100.0, 12.0, 5.0),
        fill(3, "sell", 150.0, 13.0, 3.0),
    ]
    row = trade_rows(view_of(fills, DAYS, low=LOW, high=HIGH)).iloc[-1]
    # 200 shares cost 2,200 and 10 in charges: 150 of them 1,657.50; the sale brings 1,950 less 3
    assert row["profit"] == pytest.approx(1950 - 3 - 1657.5)
    assert row["holding"] == 3
    # sold at the open of the fourth session: its low and high were not lived through
    assert row["mae"] == pytest.approx(8.0 / 11.0 - 1)
    assert row["mfe"] == pytest.approx(14.0 / 11.0 - 1)


def test_a_position_that_was_sold_whole_begins_anew():
    fills = [
        fill(0, "buy", 100.0, 10.0),
        fill(1, "sell", 100.0, 9.0),
        fill(2, "buy", 100.0, 10.0),
        fill(3, "sell", 100.0, 12.0),
    ]
    rows = trade_rows(view_of(fills, DAYS, low=LOW, high=HIGH))
    assert rows["holding"].tolist()[1::2] == [1, 1]
    assert rows["profit"].tolist()[1::2] == pytest.approx([-100, 200])
    assert rows["profit"].isna().tolist() == [True, False, True, False]
    table = per_symbol(rows)
    assert table.loc["A", ["buys", "sells", "profit", "won"]].tolist() == [2, 2, 100, 1]


def test_a_split_keeps_the_cost_and_hides_how_far_the_price_went():
    fills = [fill(0, "buy", 100.0, 10.0), fill(2, "sell", 200.0, 6.0)]
    rows = trade_rows(view_of(fills, DAYS, low=LOW, high=HIGH, splits={"A": [(DAYS[1], 100.0)]}))
    assert rows["profit"].iloc[-1] == pytest.approx(200)
    assert np.isnan(rows["mae"].iloc[-1])


def test_without_bars_or_fills_nothing_is_invented():
    rows = trade_rows(view_of([fill(0, "buy", 100.0, 10.0), fill(1, "sell", 100.0, 9.0)], DAYS))
    assert rows["profit"].iloc[-1] == pytest.approx(-100)
    assert np.isnan(rows["mfe"].iloc[-1])
    assert trade_rows(view_of([], DAYS)).empty
