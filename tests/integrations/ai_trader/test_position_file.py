"""AI-Trader's position.jsonl is read strictly and written back byte for byte."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from quantgraph.errors import BadFile
from quantgraph.integrations.ai_trader import write_positions
from quantgraph.integrations.ai_trader._trades import PositionRecord, read_positions

LEDGERS = {
    "us/positions/claude-3.7-sonnet.position.jsonl": 73,
    "us/positions/qwen3-max.position.jsonl": 30,
    "a_share/positions/claude-3.7-sonnet.position.jsonl": 125,
    "a_share/positions/qwen3-max.position.jsonl": 76,
}


@pytest.fixture(params=LEDGERS)
def ledger(request, shared_data: Path) -> Path:
    return shared_data / "ai-trader" / request.param


def line(**changes) -> str:
    document = {
        "date": "2024-01-02",
        "id": 1,
        "this_action": {"action": "buy", "symbol": "A", "amount": 1},
        "positions": {"A": 1, "CASH": 9.5},
    }
    return json.dumps({**document, **changes})


def test_a_file_that_was_not_changed_keeps_its_bytes(ledger, tmp_path):
    records = read_positions(ledger)
    assert len(records) == next(count for name, count in LEDGERS.items() if str(ledger).endswith(name))
    write_positions(tmp_path / "copy.jsonl", records)
    assert (tmp_path / "copy.jsonl").read_bytes() == ledger.read_bytes()


def test_a_record_has_what_its_line_says(shared_data):
    records = read_positions(shared_data / "ai-trader/us/positions/qwen3-max.position.jsonl")
    assert (records[0].action, records[0].cash, set(records[0].positions.values())) == (None, 10000.0, {0})
    assert len(records[0].positions) == 101
    last = records[-1]
    assert (last.date, last.id, last.action, last.symbol) == ("2025-10-30", 29, "buy", "GOOG")
    assert (last.amount, last.price, last.cash) == (2, 291.72, 108.88499999999897)


def test_optional_keys_survive(tmp_path):
    costs = {"commission": 5.0, "stamp_duty": 0.5, "total_cost": 5.5}
    action = {"action": "sell", "symbol": "A", "amount": 1, "price": 9.5, "trading_costs": costs}
    written = line(this_action=action) + "\n"
    (tmp_path / "costs.jsonl").write_text(written)
    (record,) = read_positions(tmp_path / "costs.jsonl")
    assert (record.price, record.fees) == (9.5, 5.5)
    assert replace(record, costs={"commission": 5.0, "transfer_fee": 0.25}).fees == 5.25
    write_positions(tmp_path / "copy.jsonl", [record])
    assert (tmp_path / "copy.jsonl").read_text() == written


BAD_LINES = {
    line()[:40]: "invalid JSON",
    "[1]": "the line is not a JSON object",
    '{"date": "2024-01-02", "id": 1}': "misses positions",
    line(more=1): "has more",
    line(date=20240102): "date is not printable text",
    line(id="1"): "id is not a whole number",
    line(id=True): "id is not a whole number",
    line(positions=[]): "positions is not a JSON object",
    line(positions={"A": 1}): "has no CASH",
    line(positions={"A": 1.5, "CASH": 1.0}): "positions.A is not a whole number",
    line(positions={"A": 1, "CASH": "1"}): "positions.CASH is not a number",
    line(positions={"A": 1, "CASH": None}): "positions.CASH is not a number; found None",
    line(positions={"A": 1, "CASH": True}): "positions.CASH is not a number; found True",
    line(positions={"A": 1, "CASH": 10**17}): "positions.CASH is too large to be exact",
    line(positions={"A": 1, "CASH": 10**400}): "positions.CASH is too large to be exact",
    line(date="2025-13-40"): "date is not a date YYYY-MM-DD; found '2025-13-40'",
    line(positions={"A": 1, "CASH": float("nan")}): "positions.CASH is not finite",
    line(positions={"A": 1, "CASH": float("inf")}): "positions.CASH is not finite",
    line(positions={"\u001b[2J": 1, "CASH": 1.0}): "a key is not printable text",
    line(this_action="buy"): "this_action is not a JSON object",
    line(this_action={"action": "buy", "symbol": "A"}): "misses amount",
    line(this_action={"action": "short", "symbol": "A", "amount": 1}): "not one of buy, sell, no_trade",
    line(this_action={"action": ["buy"], "symbol": "A", "amount": 1}): "not one of buy, sell, no_trade",
    line(this_action={"action": "buy", "symbol": "A", "amount": 1.0}): "amount is not a whole number",
    line(this_action={"action": "buy", "symbol": "A", "amount": 10**17}): "amount is not a whole number",
    line(this_action={"action": "buy", "symbol": "A", "amount": -1}): "amount is negative",
    line(this_action={"action": "no_trade", "symbol": "A", "amount": 0}): "no_trade with a symbol",
    line(this_action={"action": "buy", "symbol": "A", "amount": 1, "trading_costs": {"x": -1}}): "negative",
    line(
        this_action={
            "action": "buy",
            "symbol": "A",
            "amount": 1,
            "trading_costs": {"commission": 5.0, "total_cost": 50.0},
        }
    ): "not the sum of its parts",
    line()[:-1] + ', "id": 2}': "id is there more than once",
    "[" * 100_000: "invalid JSON",
    '{"id": ' + "1" * 5000 + "}": "invalid JSON",
}


def test_a_total_alone_is_cost_enough(tmp_path):
    action = {"action": "buy", "symbol": "A", "amount": 1, "trading_costs": {"total_cost": 5.0}}
    (tmp_path / "costs.jsonl").write_text(line(this_action=action))
    assert [record.fees for record in read_positions(tmp_path / "costs.jsonl")] == [5.0]


@pytest.mark.parametrize(("text", "reason"), BAD_LINES.items(), ids=BAD_LINES.values())
def test_a_line_that_is_no_record_is_named(text, reason, tmp_path):
    path = tmp_path / "bad.jsonl"
    path.write_text(line(id=0) + "\n\n" + text + "\n")
    with pytest.raises(BadFile, match="line 3: .*" + reason) as caught:
        read_positions(path)
    assert "\n" not in str(caught.value)
    assert caught.value.data["line"] == 3


@pytest.mark.parametrize("content", [b"", b"\n \n", b"date,id\n1,2\n", b"\xff\xfe\n"])
def test_a_file_without_a_record_is_refused(content, tmp_path):
    (tmp_path / "bad.jsonl").write_bytes(content)
    with pytest.raises(BadFile, match="has no record"):
        read_positions(tmp_path / "bad.jsonl")


def test_paths_that_cannot_be_used_are_named(tmp_path):
    for path in (tmp_path, tmp_path / "missing.jsonl"):
        with pytest.raises(BadFile, match="cannot be read"):
            read_positions(path)
    with pytest.raises(BadFile, match="cannot be written"):
        write_positions(tmp_path / "missing" / "out.jsonl", [])


def test_a_write_that_fails_leaves_the_old_file(tmp_path):
    path = tmp_path / "out.jsonl"
    path.write_text("before")
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_positions(path, [PositionRecord(date="2024-01-02", id=0, positions={}, cash=float("nan"))])
    assert path.read_text() == "before"
    assert list(tmp_path.glob(".out*")) == []
