"""The position.jsonl of a run of ours: dividends, splits and delistings, verified, and read as AI-Trader reads."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import pandas as pd
import pytest

from quantgraph.broker import Account, Fill, Order, SessionResult
from quantgraph.broker.accounts import Delisting, Dividend, Payment, Split
from quantgraph.errors import BadOption
from quantgraph.integrations.ai_trader import positions_of_results, verify_positions, write_positions
from quantgraph.integrations.ai_trader._trades import read_positions, record_line

DAYS = pd.bdate_range("2024-01-02", periods=5)
OPENS = {"AAA": [10.0, 10.0, 10.0, 5.0, 5.0], "BBB": [3.3333, 3.3333, 3.3333, 3.3333, 3.3333]}
ZERO = Decimal(0)


@pytest.fixture
def prices(tmp_path) -> Path:
    rows = [
        f"{symbol},{day:%Y-%m-%d},{at},{at},{at},{at},1000"
        for symbol, opens in OPENS.items()
        for day, at in zip(DAYS, opens, strict=True)
    ]
    file = tmp_path / "prices.csv"
    file.write_text("\n".join(["symbol,date,open,high,low,close,volume", *rows]) + "\n")
    return file


def fill(day: int, side: str, symbol: str, shares, price: float) -> Fill:
    exact = Decimal(str(price))
    return Fill(
        order=Order(symbol=symbol, side=side, quantity=shares, sequence=1),
        session=DAYS[day],
        side=side,
        price=exact,
        quantity=shares,
        notional=(exact * shares).quantize(Decimal("0.01")),
        **dict.fromkeys(("commission", "stamp_duty", "transfer_fee"), ZERO),
    )


def session(day: int, *outcomes, events=()) -> SessionResult:
    return SessionResult(
        session=DAYS[day],
        decider="trader",
        account=Account.opening(0),
        events=tuple(events),
        outcomes=outcomes,
        marks={},
        value=ZERO,
    )


def results() -> list[SessionResult]:
    """100 AAA and 30 BBB are bought; AAA earns 0.10 a share, paid a day later, and is split; BBB is delisted."""
    earned = {"symbol": "AAA", "quantity": 100, "per_share": Decimal("0.1"), "amount": Decimal("10.00")}
    paid = Payment(symbol="AAA", session=DAYS[2], amount=Decimal("10.00"))
    split = Split(symbol="AAA", session=DAYS[3], ratio=Decimal(2), before=100, after=200)
    gone = Delisting(
        symbol="BBB", session=DAYS[4], quantity=30, per_share=Decimal("3.00"), amount=Decimal("90.00")
    )
    return [
        session(0, fill(0, "buy", "AAA", 100, 10.0), fill(0, "buy", "BBB", 30, 3.3333)),
        session(1, events=[Dividend(session=DAYS[1], pay=DAYS[2], **earned)]),
        session(2, events=[paid]),
        session(3, fill(3, "sell", "AAA", 50, 5.0), events=[split]),
        session(4, events=[gone]),
    ]


def records(**options):
    given = {"opening_date": "2024-01-01", "cash": Decimal(2000), "symbols": ["AAA", "BBB"]} | options
    return list(positions_of_results(results(), **given))


def test_corporate_actions_have_records_of_their_own(tmp_path, prices):
    after_buys = 2000.0 - 10.0 * 100 - 3.3333 * 30
    told = [json.loads(record_line(each)) for each in records(with_price=False)]
    assert [(each["id"], each["date"]) for each in told] == [
        *((0, "2024-01-01"), (1, "2024-01-02"), (2, "2024-01-02"), (3, "2024-01-03")),
        *((4, "2024-01-04"), (5, "2024-01-04"), (6, "2024-01-05"), (7, "2024-01-05")),
        *((8, "2024-01-08"), (9, "2024-01-08")),
    ]
    nothing = {"action": "no_trade", "symbol": "", "amount": 0}
    assert [each["this_action"] for each in told[3:]] == [
        nothing,
        {"action": "dividend", "symbol": "AAA", "amount": 0, "cash": 10.0},
        nothing,
        {"action": "split", "symbol": "AAA", "amount": 200, "ratio": 2.0, "cash": 0.0},
        {"action": "sell", "symbol": "AAA", "amount": 50},
        {"action": "delisting", "symbol": "BBB", "amount": 30, "cash": 90.0},
        nothing,
    ]
    assert told[6]["positions"] == {"AAA": 200, "BBB": 30, "CASH": after_buys + 10.0}
    assert told[9]["positions"] == {"AAA": 150, "BBB": 0, "CASH": after_buys + 10.0 + 0.0 + 5.0 * 50 + 90.0}
    file = tmp_path / "position.jsonl"
    write_positions(file, records(with_price=False))
    assert read_positions(file) == records(with_price=False)
    assert verify_positions(file, prices, "us").mismatches == ()


def test_the_last_record_of_a_date_is_its_state(tmp_path):
    """AI-Trader takes the record of a date with the largest id, whatever its action is."""
    documents = [json.loads(record_line(each)) for each in records()]
    last = {
        each["date"]: max(one["id"] for one in documents if one["date"] == each["date"]) for each in documents
    }
    for document in documents:
        if document["id"] == last[document["date"]]:
            assert set(document["positions"]) == {"AAA", "BBB", "CASH"}
    ids = [each["id"] for each in documents]
    assert ids == sorted(set(ids))


@pytest.mark.parametrize(
    ("line", "change", "field"),
    [
        (5, ('"cash": 10.0}', '"cash": 11.0}'), "positions.CASH"),
        (5, ('"cash": 10.0}', '"cash": 0.0}'), "positions.CASH"),
        (5, ('"amount": 0', '"amount": 5'), "this_action.amount"),
        (7, ('"ratio": 2.0', '"ratio": 3.0'), "positions.AAA"),
        (7, ('"ratio": 2.0, ', ""), "this_action.ratio"),
        (7, ('"amount": 200', '"amount": 100'), "this_action.amount"),
        (9, ('"amount": 30', '"amount": 20'), "this_action.amount"),
        (9, ('"cash": 90.0', '"cash": 80.0'), "positions.CASH"),
        (5, ('"symbol": "AAA"', '"symbol": "ZZZ"'), "this_action.symbol"),
        (5, ('"cash": 10.0}', '"cash": -10.0}'), "this_action.cash"),
        (2, ('"amount": 100', '"cash": 1.0, "amount": 100'), "this_action"),
    ],
)
def test_a_corporate_action_that_does_not_follow_is_named(tmp_path, prices, line, change, field):
    file = tmp_path / "position.jsonl"
    lines = [record_line(each) for each in records(with_price=False)]
    lines[line - 1] = lines[line - 1].replace(*change, 1)
    file.write_text("\n".join(lines) + "\n")
    found = verify_positions(file, prices, "us").mismatches
    assert (found[0].line, found[0].field) == (line, field)


def test_fractions_of_shares_cannot_be_held():
    part = [session(0, fill(0, "buy", "AAA", Decimal("0.5"), 10.0))]
    with pytest.raises(BadOption, match=r"0\.5 AAA on 2024-01-02: .*fractions of shares"):
        list(positions_of_results(part, opening_date="2024-01-01", cash=Decimal(100), symbols=["AAA"]))


def test_a_fold_in_doubles_may_end_half_a_cent_a_trade_below_zero(tmp_path, prices):
    """The ledger pays 33.33 for ten shares at 3.3333 and keeps 0.00; in doubles 0.003 is missing."""
    ten = [session(0, *(fill(0, "buy", "BBB", 10, 3.3333) for _ in range(1)))]
    made = list(positions_of_results(ten, opening_date="2024-01-01", cash=Decimal("33.33"), symbols=["BBB"]))
    assert made[-1].cash == pytest.approx(33.33 - 33.333)
    write_positions(tmp_path / "position.jsonl", made)
    assert verify_positions(tmp_path / "position.jsonl", prices, "us").mismatches == ()
