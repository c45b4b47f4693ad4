"""Trades of a position.jsonl: from records to fills, and back to the same records."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from position_records import records_of

from quantgraph.data.files import FileSource
from quantgraph.errors import BadOption, NoData, UnknownSymbol
from quantgraph.integrations.ai_trader import write_positions
from quantgraph.integrations.ai_trader._trades import PositionFill, PositionRecord, fills_of, read_positions

LEDGERS = {
    "us/positions/claude-3.7-sonnet.position.jsonl": 73,
    "us/positions/qwen3-max.position.jsonl": 30,
    "a_share/positions/claude-3.7-sonnet.position.jsonl": 125,
    "a_share/positions/qwen3-max.position.jsonl": 76,
}
PRICES = {
    "us": "us/daily_prices_nasdaq_100_20250610_20251030.csv.gz",
    "a_share": "a_share/daily_prices_sse_50_20251009_20251119.csv",
}
SESSIONS = ["2024-01-02", "2024-01-03", "2024-01-04"]
SYMBOLS = ["600000.SH", "600036.SH"]


@pytest.fixture(params=LEDGERS)
def ledger(request, shared_data: Path) -> Path:
    return shared_data / "ai-trader" / request.param


def test_the_trades_of_a_real_ledger_build_it_again(ledger, shared_data):
    records = read_positions(ledger)
    source = FileSource(shared_data / "ai-trader" / PRICES[ledger.parts[-3]])
    fills = fills_of(records, source.market.bars["open"])
    sessions = source.sessions().strftime("%Y-%m-%d")
    sessions = [day for day in sessions if "2025-10-01" <= day <= records[-1].date]
    built = records_of("2025-10-01", records[0].cash, list(records[0].positions), fills, sessions=sessions)

    def told(some):
        """Without ids, without what changed nothing, and without the prices only some rows have."""
        moving = [record for record in some if record.amount or record.action is None]
        return [
            (each.date, each.action, each.symbol, each.amount, dict(each.positions), each.cash)
            for each in moving
        ]

    assert told(built) == told(records)
    assert [record.id for record in built] == list(range(len(built)))
    assert {record.date for record in built} == {"2025-10-01", *sessions}


def latest(path: Path, today: str) -> tuple[dict, int]:
    """What AI-Trader reads before it trades: the largest id of today, else of the newest day before."""
    documents = [json.loads(text) for text in path.read_text().splitlines()]
    day = max(each["date"] for each in documents if each["date"] <= today)
    newest = max((each for each in documents if each["date"] == day), key=lambda each: each["id"])
    return newest["positions"], newest["id"]


def test_sessions_without_a_trade_say_so_and_the_file_reads_as_ai_trader_reads(tmp_path):
    fills = [
        ("2024-01-03", "buy", "600036.SH", 100, 30.3, {"commission": 5.0, "transfer_fee": 0.03}),
        ("2024-01-03", "buy", "600000.SH", 200, 10.1),
    ]
    records = records_of("2024-01-01", 10_000, SYMBOLS, fills, sessions=SESSIONS)
    write_positions(tmp_path / "position.jsonl", records)
    documents = [json.loads(text) for text in (tmp_path / "position.jsonl").read_text().splitlines()]
    assert documents[0] == {
        "date": "2024-01-01",
        "id": 0,
        "positions": {"600000.SH": 0, "600036.SH": 0, "CASH": 10000.0},
    }
    assert [(each["date"], each["id"]) for each in documents] == [
        ("2024-01-01", 0),
        ("2024-01-02", 1),
        ("2024-01-03", 2),
        ("2024-01-03", 3),
        ("2024-01-04", 4),
    ]
    assert documents[1]["this_action"] == {"action": "no_trade", "symbol": "", "amount": 0}
    assert documents[2]["this_action"] == {
        "action": "buy",
        "symbol": "600036.SH",
        "amount": 100,
        "price": 30.3,
        "trading_costs": {"commission": 5.0, "transfer_fee": 0.03},
    }
    assert list(documents[2]) == ["date", "id", "this_action", "positions"]
    # 10000 - 3030 - 5.03, and 2020 less
    assert latest(tmp_path / "position.jsonl", "2024-01-03") == (
        {"600000.SH": 200, "600036.SH": 100, "CASH": pytest.approx(4944.97, abs=1e-9)},
        3,
    )
    assert latest(tmp_path / "position.jsonl", "2024-01-09")[1] == 4
    assert all(isinstance(each["positions"]["CASH"], float) for each in documents)


def test_trades_on_the_opening_date_are_kept_and_an_idle_one_is_not_told():
    traded = records_of(
        "2024-01-02", 1000.0, SYMBOLS, [("2024-01-02", "buy", "600000.SH", 1, 10.0)], sessions=SESSIONS
    )
    assert [(record.date, record.action) for record in traded[:2]] == [
        ("2024-01-02", None),
        ("2024-01-02", "buy"),
    ]
    idle = records_of("2024-01-02", 1000.0, SYMBOLS, [], sessions=SESSIONS)
    assert [record.date for record in idle] == SESSIONS


@pytest.mark.parametrize(
    ("fills", "error", "reason"),
    [
        ([("2024-01-02", "sell", "600000.SH", 1, 10.0)], BadOption, "more than there is.* -1 shares"),
        ([("2024-01-02", "buy", "600000.SH", 101, 10.0)], BadOption, "more than there is.*-10.00 of cash"),
        ([("2024-01-02", "buy", "600519.SH", 1, 10.0)], UnknownSymbol, "600519.SH"),
    ],
)
def test_trades_that_make_no_ledger_are_refused(fills, error, reason):
    with pytest.raises(error, match=reason):
        records_of("2024-01-02", 1000.0, SYMBOLS, fills, sessions=SESSIONS)


def test_cash_spent_to_the_last_cent_may_end_a_hair_below_zero():
    """0.3 - 3 * 0.1 is -5.6e-17 in doubles."""
    fills = [PositionFill("2024-01-02", "buy", "600000.SH", 3, 0.1)]
    last = records_of("2024-01-01", 0.3, SYMBOLS, fills, sessions=SESSIONS[:1])[-1]
    assert -1e-15 < last.cash < 0


def test_a_trade_without_a_price_anywhere_is_an_error():
    record = PositionRecord(
        date="2024-01-02", id=1, action="buy", symbol="A", amount=1, positions={"A": 1}, cash=0.0
    )
    opens = pd.DataFrame({"A": [float("nan"), 2.0]}, index=pd.to_datetime(["2024-01-02", "2024-01-03"]))
    for unknown in (record, replace(record, date="2024-01-04"), replace(record, symbol="B")):
        with pytest.raises(NoData, match="no open"):
            fills_of([unknown], opens)
    assert fills_of([replace(record, date="2024-01-03")], opens)[0].price == 2.0
    assert fills_of([replace(record, price=3.0), replace(record, amount=0)], opens) == [
        PositionFill("2024-01-02", "buy", "A", 1, 3.0)
    ]
