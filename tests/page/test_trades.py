"""What each sale closed, by hand."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from quantgraph.page._trades import (
    per_reason,
    per_symbol,
    reason_words,
    round_trip_rows,
    trade_rows,
    with_words,
)

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
    view = view_of(fills, DAYS, low=LOW, high=HIGH)
    rows = trade_rows(view)
    assert rows["holding"].tolist()[1::2] == [1, 1]
    assert rows["profit"].tolist()[1::2] == pytest.approx([-100, 200])
    assert rows["profit"].isna().tolist() == [True, False, True, False]
    table = per_symbol(rows, round_trip_rows(view))
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


def test_what_is_held_at_the_end_is_a_round_trip_at_the_last_close():
    fills = [fill(0, "buy", 100.0, 10.0, 5.0), fill(2, "sell", 60.0, 13.0, 3.0)]
    closed, held = round_trip_rows(view_of(fills, DAYS, low=LOW, high=HIGH)).itertuples(index=False)
    assert (closed.kind, closed.opened, closed.closed, closed.holding, closed.entry, closed.exit) == (
        "closed", 0, 2, 2, 0, 1,
    )  # fmt: skip
    # 60 of 100 shares cost 603 with charges, and brought 780 less 3
    assert closed.profit == pytest.approx(777 - 603)
    assert closed.gain == pytest.approx(777 / 603 - 1)
    # the closes of the view are its lows: the last is 1.0, and 40 shares had cost 402
    assert (held.kind, held.quantity, held.exit_price, held.exit, held.exit_reason) == (
        "open",
        40,
        1,
        -1,
        "open",
    )
    assert held.profit == pytest.approx(40 - 402)
    # held to the close of the last session: its low and high were lived through
    assert (held.closed, held.mae, held.mfe) == (3, pytest.approx(-0.9), pytest.approx(8.9))


def test_a_delisting_closes_what_is_held_for_what_was_paid():
    fills = [fill(0, "buy", 100.0, 10.0, 5.0)]
    (trip,) = round_trip_rows(view_of(fills, DAYS, delistings={"A": [(DAYS[2], 200.0)]})).itertuples(
        index=False
    )
    assert (trip.kind, trip.closed, trip.exit_price, trip.exit_reason) == ("delisted", 2, 2.0, "delisted")
    assert trip.profit == pytest.approx(200 - 1005)
    assert trip.gain == pytest.approx(200 / 1005 - 1)


def test_a_rule_s_codes_become_its_words_and_a_decider_s_reason_stays():
    rule = {"entry": "5日均线上穿20日均线", "exit": ""}
    assert reason_words("signal 1", rule, "zh", selling=False, price=9) == "5日均线上穿20日均线"
    assert reason_words("signal -1", rule, "zh", selling=True, price=9) == "卖出信号"
    assert reason_words("weak quarter", rule, "en", selling=True, price=9) == "weak quarter"


def test_exits_that_a_model_explains_each_time_anew_are_one_total():
    fills = [
        fill(0, "buy", 100.0, 10.0),
        fill(1, "sell", 50.0, 9.0),
        fill(2, "sell", 20.0, 12.0),
        fill(2, "sell", 30.0, 12.0),
    ]
    texts = [
        "cheap",
        "It fell below what I had paid for it, so I sell half.",
        "It rose far above all averages; I take some.",
        "sold",
    ]
    view = view_of(
        [(*each[:8], text) for each, text in zip(fills, texts, strict=True)], DAYS, low=LOW, high=HIGH
    )
    trips, rows = with_words(round_trip_rows(view), view.fills, {}, "en")
    assert rows["words"].tolist() == texts
    assert [(each["reason"], each["count"]) for each in per_reason(trips)] == [
        ("reasons of the model, each its own", 2),
        ("sold", 1),
    ]


def test_totals_by_the_reason_of_the_exit():
    fills = [fill(0, "buy", 100.0, 10.0), fill(1, "sell", 50.0, 9.0), fill(2, "sell", 20.0, 12.0)]
    fills = [(*each[:8], "signal -1" if each[2] == "sell" else "signal 1") for each in fills]
    trips = round_trip_rows(view_of(fills, DAYS, low=LOW, high=HIGH))
    told, rows = with_words(trips, view_of(fills, DAYS).fills, {"entry": "up", "exit": "crosses below"}, "en")
    assert rows["words"].tolist() == ["up", "crosses below", "crosses below"]
    sold, held = per_reason(told)
    assert sold == {"reason": "crosses below", "count": 2, "won": 1, "profit": pytest.approx(-50 + 40)}
    assert held["reason"] == "still held at the end"


def test_what_is_held_is_an_open_profit_of_its_symbol():
    view = view_of([fill(0, "buy", 100.0, 10.0), fill(1, "buy", 100.0, 12.0)], DAYS, low=LOW, high=HIGH)
    table = per_symbol(trade_rows(view), round_trip_rows(view))
    # the last close is that of LOW: 200 shares, bought for 2,200
    assert table.loc["A", "open_profit"] == pytest.approx(200 * LOW[-1] - 2200)
    assert np.isnan(table.loc["A", "profit"])


@pytest.mark.parametrize(
    ("code", "price", "en", "zh"),
    [
        ("stop_loss 9.20, 8% below 10", 9.2, "stop 9.20, 8% below 10", "止损 9.20（比 10 低 8%）"),
        (
            "stop_loss 9.20, 8% below 10",
            8.7,
            "stop 9.20, 8% below 10, filled 8.7 at the open",
            "止损 9.20（比 10 低 8%），按开盘价 8.7 成交",
        ),
        (
            "take_profit 11.01, 10.01% above 10, reached in the entry session, tried again",
            11.5,
            "target 11.01, 10.01% above 10, reached in the entry session, tried again, filled 11.5 at the open",
            "止盈 11.01（比 10 高 10.01%），买入当日触及，再次尝试，按开盘价 11.5 成交",
        ),
        ("max_holding 20", 9.0, "held long enough 20", "持有到期 20"),
    ],
)
def test_the_exits_of_a_plan_are_told_in_words_and_counted_by_kind(code, price, en, zh):
    assert reason_words(code, {}, "en", selling=True, price=price) == en
    assert reason_words(code, {}, "zh", selling=True, price=price) == zh
    trips = pd.DataFrame(
        {
            "entry_reason": ["signal 1"] * 2,
            "exit_reason": [code, "signal -1"],
            "profit": 1.0,
            "entry_price": 10.0,
            "exit_price": price,
        }
    )
    rows = pd.DataFrame({"side": [], "reason": [], "price": []}, dtype=str)
    told, _ = with_words(trips, rows, {"exit": "crosses below"}, "en")
    kind = en.rstrip("0123456789 ") if code.startswith("max") else en.split()[0]
    assert [row["reason"] for row in per_reason(told)] == [kind, "crosses below"]
