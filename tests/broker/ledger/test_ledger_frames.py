"""Records of a ledger as frames: the columns, the types and the numbers that are documented, empty ones included."""

from decimal import Decimal

import pandas as pd

from quantgraph.broker.accounts._account import Delisting, Dividend, Payment, Split
from quantgraph.broker.accounts._orders import Fill, Order, Rejection
from quantgraph.broker.ledger._frames import (
    EVENT_COLUMNS,
    ORDER_COLUMNS,
    events_frame,
    fills_frame,
    orders_frame,
    rejections_frame,
)
from quantgraph.broker.ledger._journal import iso, outcome_line

D = Decimal
DAY, PAY = pd.Timestamp("2024-01-02"), pd.Timestamp("2024-01-09")
ODD = "\x1b[2J \\ud83d"  # a backslash; half of a surrogate pair is shown so
BUY = Order(symbol="600000.SH", side="buy", quantity=1000, sequence=1, reason="<b>突破</b>")
LIMIT = {"type": "limit", "limit_price": D("10.05"), "reason": f"{ODD} \ud83d"}
TARGET = Order(symbol="AAPL", target_weight=D("0.05"), sequence=2, **LIMIT)
CUT = Fill(
    order=BUY,
    session=DAY,
    side="buy",
    price=D("10.10"),
    quantity=400,
    notional=D("4040.00"),
    commission=D("5.00"),
    stamp_duty=D("0.00"),
    transfer_fee=D("0.04"),
    slippage=D("2.02"),
    rest=Rejection(order=BUY, session=DAY, code="volume_cap", message="400 of 1000"),
)
REFUSED = Rejection(order=TARGET, session=DAY, code="limit_up", message="at the limit")
TYPES = {
    "trade_date": "datetime64[us]",
    "pay": "datetime64[us]",
    "sequence": "int64",
    **dict.fromkeys(("ts_code", "side", "type", "wish", "code", "message", "reason", "kind"), "str"),
}


def lines_of(*outcomes):
    return [(iso(outcome.session), *outcome_line(outcome)) for outcome in outcomes]


def dtypes_follow(frame):
    return {name: str(kind) for name, kind in frame.dtypes.items()} == {
        name: TYPES.get(name, "float64") for name in frame.columns
    }


def test_a_fill_is_a_row_of_numbers_with_the_sum_of_its_charges():
    frame = fills_frame(lines_of(CUT))
    row = frame.iloc[0].to_dict()
    assert (row["trade_date"], row["ts_code"], row["side"], row["sequence"]) == (DAY, "600000.SH", "buy", 1)
    assert (row["quantity"], row["price"], row["notional"]) == (400.0, 10.1, 4040.0)
    assert (row["commission"], row["transfer_fee"], row["regulatory"], row["slippage"]) == (
        5.0,
        0.04,
        0.0,
        2.02,
    )
    assert (row["cost"], row["reason"]) == (7.06, "<b>突破</b>")
    assert dtypes_follow(frame)


def test_an_order_is_one_row_whether_it_was_filled_cut_or_refused():
    frame = orders_frame(lines_of(CUT, REFUSED))
    cut, refused = frame.to_dict("records")
    assert (cut["wish"], cut["size"], cut["quantity"], cut["code"]) == ("quantity", 1000, 400, "volume_cap")
    assert pd.isna(cut["limit_price"])
    assert (refused["side"], refused["type"], refused["wish"], refused["size"]) == (
        "",
        "limit",
        "target_weight",
        0.05,
    )
    assert (refused["limit_price"], refused["quantity"], refused["cost"]) == (10.05, 0.0, 0.0)
    told = (refused["code"], refused["message"], refused["reason"])
    assert told == ("limit_up", "at the limit", f"{ODD} \\ud83d")
    assert pd.isna(refused["price"])
    assert dtypes_follow(frame)


def test_rejections_include_the_rest_that_the_volume_cap_cut_off():
    frame = rejections_frame(lines_of(CUT, REFUSED))
    assert frame["code"].tolist() == ["volume_cap", "limit_up"]
    assert frame["size"].tolist() == [1000.0, 0.05]
    assert dtypes_follow(frame)


def test_events_are_rows_in_which_only_their_own_columns_have_numbers():
    frame = events_frame(
        [
            Dividend(symbol="A", session=DAY, quantity=100, per_share=D("0.5"), amount=D("50.00"), pay=PAY),
            Payment(symbol="A", session=PAY, amount=D("50.00")),
            Split(symbol="B", session=DAY, ratio=D("1.5"), before=100, after=150, cash=D("0.25")),
            Delisting(symbol="C", session=DAY, quantity=200, per_share=D(0), amount=D(0)),
        ]
    )
    assert frame["kind"].tolist() == ["dividend", "payment", "split", "delisting"]
    given = [{name for name in EVENT_COLUMNS[3:] if pd.notna(row[name])} for row in frame.to_dict("records")]
    assert given == [
        {"quantity", "per_share", "amount", "pay"},
        {"amount"},
        {"ratio", "before", "after", "cash"},
        {"quantity", "per_share", "amount"},
    ]
    assert (frame["amount"][0], frame["pay"][0], frame["after"][2]) == (50.0, PAY, 150.0)
    assert dtypes_follow(frame)


def test_frames_of_nothing_have_the_same_columns_and_types():
    for frame in (fills_frame([]), orders_frame([]), rejections_frame([]), events_frame([])):
        assert len(frame) == 0
        assert dtypes_follow(frame)
    assert tuple(orders_frame([]).columns) == ORDER_COLUMNS
