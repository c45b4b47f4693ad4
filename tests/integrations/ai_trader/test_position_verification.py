"""Verifying position.jsonl: real ledgers follow, each damage is told once, at its record."""

from __future__ import annotations

import csv
import gzip
import json
import math
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from position_records import records_of

from quantgraph.data.files import FileSource
from quantgraph.errors import BadFile, BadOption
from quantgraph.integrations.ai_trader import verify_positions, write_positions
from quantgraph.integrations.ai_trader._trades import read_positions

US = "us/daily_prices_nasdaq_100_20250610_20251030.csv.gz"
CN = "a_share/daily_prices_sse_50_20251009_20251119.csv"
REAL = {
    "us/positions/claude-3.7-sonnet.position.jsonl": (US, "us", 73, 22, 10_711.69),
    "us/positions/qwen3-max.position.jsonl": (US, "us", 30, 22, 10_343.925),
    "a_share/positions/claude-3.7-sonnet.position.jsonl": (CN, "cn", 125, 30, 101_075),
    "a_share/positions/qwen3-max.position.jsonl": (CN, "cn", 76, 30, 96_003),
}


@pytest.fixture(scope="module")
def sources(shared_data):
    return {name: FileSource(shared_data / "ai-trader" / name) for name in (US, CN)}


def plain_values(ledger: Path, prices: Path) -> list[float]:
    """Initial cash and the account at each close, in plain loops."""
    closes, state = defaultdict(dict), {}
    opened = gzip.open if prices.suffix == ".gz" else open
    with opened(prices, "rt", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            day = row.get("date") or f"{pd.Timestamp(row['trade_date']):%Y-%m-%d}"
            closes[day][row.get("symbol") or row["ts_code"]] = float(row["close"])
    for text in ledger.read_text().splitlines():
        document = json.loads(text)
        state[document["date"]] = document["positions"]
    first, last = min(state), max(state)
    current, values = state[first], [state[first]["CASH"]]
    for day in sorted(closes):
        if first <= day <= last:
            current = state.get(day, current)
            held = [shares * closes[day][name] for name, shares in current.items() if name != "CASH"]
            values.append(current["CASH"] + sum(held))
    return values


@pytest.mark.parametrize("name", REAL)
def test_a_real_ledger_follows_from_the_prices_and_has_its_published_value(name, shared_data, sources):
    prices, market, records, sessions, value = REAL[name]
    found = verify_positions(shared_data / "ai-trader" / name, sources[prices], market)
    assert found.mismatches == ()
    assert (found.records, found.sessions, found.carried) == (records, sessions, 0)
    last_date = {US: "2025-10-30", CN: "2025-11-19"}[prices]
    assert (found.first_date, found.last_date) == ("2025-10-01", last_date)
    assert found.final_value == pytest.approx(value, abs=1e-9)
    values = plain_values(shared_data / "ai-trader" / name, shared_data / "ai-trader" / prices)
    assert found.total_return == pytest.approx(values[-1] / values[0] - 1, abs=1e-12)
    falls = [value / max(values[: row + 1]) - 1 for row, value in enumerate(values)]
    assert found.max_drawdown == pytest.approx(min(falls), abs=1e-12)


def test_prices_that_end_earlier_are_told_as_missing_sessions(shared_data):
    first = shared_data / "ai-trader/a_share/daily_prices_sse_50_20250102_20251031.csv"
    ledger = shared_data / "ai-trader/a_share/positions/qwen3-max.position.jsonl"
    found = verify_positions(ledger, first, "cn")
    assert {each.field for each in found.mismatches} == {"date"}
    assert {each.date for each in found.mismatches} == {
        record.date for record in read_positions(ledger) if record.date > "2025-10-31"
    }
    assert "2025-01-02 to 2025-10-31" in found.mismatches[0].message


# --- one damage, one mismatch ---------------------------------------------------------------------


def set_in(*keys, to):
    def damage(documents, row):
        place = documents[row]
        for key in keys[:-1]:
            place = place[key]
        place[keys[-1]] = to(place[keys[-1]]) if callable(to) else to

    return damage


def lose(documents, row):
    del documents[row]


def repeat(documents, row):
    documents.insert(row, documents[row - 1])


DAMAGES = {
    "amount": (set_in("this_action", "amount", to=lambda n: n + 1), "this_action.amount"),
    "id": (set_in("id", to=lambda n: n + 1), "id"),
    "id again": (set_in("id", to=lambda n: n - 1), "id"),
    "last digit": (set_in("positions", "CASH", to=lambda cash: math.nextafter(cash, 0)), "positions.CASH"),
    "cash": (set_in("positions", "CASH", to=lambda cash: cash + 1000), "positions.CASH"),
    "negative cash": (set_in("positions", "CASH", to=-5.0), "positions.CASH"),
    "unrelated symbol": (set_in("positions", "GFS", to=7), "positions.GFS"),
    "unlisted symbol": (lambda documents, row: documents[row]["positions"].pop("GFS"), "positions.GFS"),
    "unknown symbol": (set_in("this_action", "symbol", to="ZZZZ"), "this_action.symbol"),
    "date without a session": (set_in("date", to="2025-10-04"), "date"),
    "date before the one before": (set_in("date", to="2025-09-30"), "date"),
    "no date": (set_in("date", to="yesterday"), "date"),
    "no action": (lambda documents, row: documents[row].pop("this_action"), "this_action"),
    "text for cash": (set_in("positions", "CASH", to="much"), "positions.CASH"),
    "lost line": (lose, "id"),
    "repeated line": (repeat, "id"),
}


@pytest.mark.parametrize("kind", DAMAGES)
def test_a_damage_is_told_once_at_its_record_wherever_it_is(kind, shared_data, sources, tmp_path):
    whole = (shared_data / "ai-trader/us/positions/qwen3-max.position.jsonl").read_text().splitlines()
    damage, field = DAMAGES[kind]
    for row in range(1, len(whole)):
        documents = [json.loads(text) for text in whole]
        damage(documents, row)
        if kind == "lost line" and row == len(whole) - 1:
            continue  # nothing tells that there was one more
        path = tmp_path / "damaged.jsonl"
        path.write_text("".join(json.dumps(document) + "\n" for document in documents))
        found = verify_positions(path, sources[US], "us").mismatches
        assert [each.line for each in found] == [row + 1], (row, found)
        assert field.startswith(found[0].field), (row, found)  # of no_trade, the whole action is wrong
        json.dumps([vars(each) for each in found], allow_nan=False)


def test_the_state_says_which_amount_was_meant(shared_data, sources, tmp_path):
    path = shared_data / "ai-trader/us/positions/qwen3-max.position.jsonl"
    records = read_positions(path)
    write_positions(tmp_path / "damaged.jsonl", [records[0], replace(records[1], amount=41), *records[2:]])
    (found,) = verify_positions(tmp_path / "damaged.jsonl", sources[US], "us").mismatches
    assert (found.line, found.id, found.date) == (2, 1, "2025-10-02")
    assert (found.field, found.expected, found.found) == ("this_action.amount", 40, 41)


def test_a_purchase_told_as_a_sale_is_no_negative_amount(check):
    records = built((DAYS[0], "buy", A, 100, 10.0))
    assert only(check([records[0], replace(records[1], action="sell"), *records[2:]], "us")) == (
        2,
        "positions.CASH",
        99_000.0,
    )


def test_an_error_the_tool_went_on_from_is_told_once_too(shared_data, sources, tmp_path):
    """Three records without a trade have a cash of 100: only the first of them does not follow."""
    records = read_positions(shared_data / "ai-trader/us/positions/qwen3-max.position.jsonl")
    idle = [replace(record, cash=100.0) for record in records[10:13]]
    assert {record.action for record in idle} == {"no_trade"}
    write_positions(tmp_path / "damaged.jsonl", [*records[:10], *idle])
    (found,) = verify_positions(tmp_path / "damaged.jsonl", sources[US], "us").mismatches
    assert (found.line, found.field, found.found) == (11, "positions.CASH", 100.0)


@pytest.mark.parametrize("cut", [1, 50, -1])
def test_a_torn_last_line_is_told_and_the_rest_is_valued(cut, shared_data, sources, tmp_path):
    content = (shared_data / "ai-trader/a_share/positions/qwen3-max.position.jsonl").read_bytes()
    lines = content.splitlines(keepends=True)
    (tmp_path / "torn.jsonl").write_bytes(b"".join(lines[:-1]) + lines[-1].rstrip()[:cut])
    found = verify_positions(tmp_path / "torn.jsonl", sources[CN], "cn")
    assert [(each.line, each.id, each.field) for each in found.mismatches] == [(76, None, "json")]
    assert found.records == 75
    assert found.final_value is not None


def test_many_lines_of_garbage_are_told_one_by_one(tmp_path):
    write_positions(tmp_path / "long.jsonl", built())
    content = (tmp_path / "long.jsonl").read_bytes().splitlines(keepends=True)
    (tmp_path / "long.jsonl").write_bytes(content[0] + b"garbage\n" * 300 + b"".join(content[1:]))
    BARS.to_csv(tmp_path / "prices.csv", index=False)
    found = verify_positions(tmp_path / "long.jsonl", tmp_path / "prices.csv", "cn")
    assert [each.line for each in found.mismatches] == list(range(2, 302))


def test_a_missing_end_of_line_is_no_mismatch(shared_data, sources, tmp_path):
    content = (shared_data / "ai-trader/us/positions/qwen3-max.position.jsonl").read_bytes()
    (tmp_path / "whole.jsonl").write_bytes(content.rstrip())
    assert verify_positions(tmp_path / "whole.jsonl", sources[US], "us").mismatches == ()


# --- the rules, on prices of our own --------------------------------------------------------------

A, B = "600000.SH", "600036.SH"
DAYS = ["2024-01-02", "2024-01-03", "2024-01-04"]
BARS = pd.DataFrame(
    [
        (A, "2024-01-02", 10.0, 10.5, 9.5, 10.2, 1e6),
        (A, "2024-01-03", 10.1, 10.6, 9.6, 10.3, 1e6),
        (A, "2024-01-04", 10.2, 10.7, 9.7, 10.4, 1e6),
        (B, "2024-01-02", 30.0, 31.0, 29.0, 30.5, 1e6),
        (B, "2024-01-04", 32.0, 33.0, 31.0, 32.5, 1e6),
    ],
    columns=["symbol", "date", "open", "high", "low", "close", "volume"],
)


@pytest.fixture
def check(tmp_path):
    """Verify records against the prices above."""
    BARS.to_parquet(tmp_path / "prices.parquet")

    def verify(records, market="cn"):
        write_positions(tmp_path / "ledger.jsonl", records)
        return verify_positions(tmp_path / "ledger.jsonl", tmp_path / "prices.parquet", market)

    return verify


def built(*fills, cash=100_000.0):
    return records_of("2024-01-01", cash, [A, B], fills, sessions=DAYS)


def only(found):
    (mismatch,) = found.mismatches
    return mismatch.line, mismatch.field, mismatch.found


def test_values_are_closes_and_a_missing_one_is_carried_and_counted(check):
    found = check(built((DAYS[0], "buy", B, 1000, 30.0)))
    # cash 70000: 100000, then 100500, 100500 with the close of the day before, 102500
    assert (found.final_value, found.sessions, found.carried) == (102_500.0, 3, 1)
    assert found.total_return == pytest.approx(0.025)
    assert found.max_drawdown == 0.0
    assert found.mismatches == ()


def test_the_drawdown_begins_at_the_initial_cash(check):
    found = check(built((DAYS[0], "buy", A, 1000, 10.5), (DAYS[1], "sell", A, 1000, 10.0)))
    # 10500 paid for what closes at 10.2: 99700, then 99500
    assert found.max_drawdown == pytest.approx(-0.005)


def test_nothing_is_sold_on_the_day_it_was_bought_in_the_mainland(check):
    same_day = built((DAYS[0], "buy", A, 200, 10.0), (DAYS[0], "sell", A, 100, 10.0))
    assert only(check(same_day)) == (3, "this_action.amount", 100)
    assert "T+1" in check(same_day).mismatches[0].message
    assert check(same_day, "us").mismatches == ()


def test_shares_of_an_earlier_day_may_be_sold_beside_a_purchase(check):
    bought, added = (DAYS[0], "buy", A, 200, 10.0), (DAYS[1], "buy", A, 100, 10.1)
    assert check(built(bought, added, (DAYS[1], "sell", A, 200, 10.1))).mismatches == ()
    assert only(check(built(bought, added, (DAYS[1], "sell", A, 300, 10.1)))) == (
        4,
        "this_action.amount",
        300,
    )


def test_lots_of_100_are_bought(check):
    odd = built((DAYS[0], "buy", A, 150, 10.0))
    assert only(check(odd)) == (2, "this_action.amount", 150)
    assert check(odd, "us").mismatches == ()


@pytest.mark.parametrize(
    ("amount", "right"), [(150, True), (50, True), (100, True), (30, False), (120, False)]
)
def test_an_odd_rest_is_sold_whole(check, amount, right):
    found = check(built((DAYS[0], "buy", A, 150, 10.0), (DAYS[1], "sell", A, amount, 10.1)))
    assert [each.line for each in found.mismatches] == ([2] if right else [2, 3])


def test_more_than_there_is_cannot_be_sold_or_spent(check):
    fine = built((DAYS[0], "buy", A, 100, 10.0), (DAYS[1], "sell", A, 100, 10.1))
    oversold = replace(fine[2], amount=200, positions={A: -100, B: 0}, cash=fine[1].cash + 200 * 10.1)
    assert only(check([*fine[:2], oversold])) == (3, f"positions.{A}", -100)
    broke = replace(fine[1], amount=20_000, positions={A: 20_000, B: 0}, cash=-100_000.0)
    still = replace(broke, date=DAYS[1], id=2, action="no_trade", symbol="", amount=0, price=None)
    assert only(check([fine[0], broke, still])) == (2, "positions.CASH", -100_000.0)


def test_a_suspended_symbol_has_no_price(check):
    bought = built((DAYS[1], "buy", B, 100, 30.0))
    line, field, symbol = only(check(bought))
    assert (line, field, symbol) == (3, "this_action.symbol", B)
    assert f"no price on {DAYS[1]}" in check(bought).mismatches[0].message


def test_an_unlisted_price_is_the_open_and_a_listed_one_was_traded(check):
    at_open, at_close = built((DAYS[0], "buy", A, 100, 10.0)), built((DAYS[0], "buy", A, 100, 10.2))
    without = [replace(record, price=None) for record in at_open]
    for records in (at_open, at_close, without):
        assert check(records).mismatches == ()
    assert only(check([replace(record, price=None) for record in at_close]))[:2] == (2, "positions.CASH")
    above = built((DAYS[0], "buy", A, 100, 10.51))
    assert only(check(above)) == (2, "this_action.price", 10.51)


def test_costs_explain_the_cash(check):
    paid = {"commission": 5.0, "transfer_fee": 0.01, "total_cost": 5.01}
    taken = {"commission": 5.0, "stamp_duty": 0.51, "transfer_fee": 0.01}
    records = built((DAYS[0], "buy", A, 100, 10.0, paid), (DAYS[1], "sell", A, 100, 10.1, taken))
    # 100000 - 1000 - 5.01 = 98994.99, and 1010 - 5.52 more
    assert records[-1].cash == pytest.approx(99_999.47, abs=1e-9)
    assert check(records).mismatches == ()
    forgotten = [records[0], replace(records[1], costs=None), *records[2:]]
    assert only(check(forgotten))[:2] == (2, "positions.CASH")


def test_trades_of_nothing_change_nothing(check):
    records = built((DAYS[0], "buy", A, 100, 10.0))
    nothing = replace(records[1], id=2, action="sell", amount=0, price=None)
    rest = [replace(record, id=record.id + 1) for record in records[2:]]
    assert check([*records[:2], nothing, *rest]).mismatches == ()
    moving = replace(nothing, cash=records[1].cash + 1)
    assert only(check([*records[:2], moving, *rest]))[:2] == (3, "positions.CASH")


def test_a_ledger_opens_with_cash_alone(check):
    records = built((DAYS[0], "buy", A, 100, 10.0))
    assert only(check([replace(records[0], positions={A: 0, B: 5}), *records[1:]])) == (
        1,
        f"positions.{B}",
        5,
    )
    assert only(check([replace(records[0], cash=-1.0), *records[1:]])) == (1, "positions.CASH", -1.0)
    assert only(check([replace(records[0], date="never"), *records[1:]])) == (1, "date", "'never'")
    headless = check(records[1:])
    assert only(headless) == (1, "id", 1)
    assert (headless.total_return, headless.max_drawdown) == (None, None)
    renamed = [replace(record, id=record.id - 1) for record in records[1:]]
    assert only(check(renamed)) == (1, "this_action", "buy")


def test_a_second_registration_does_not_follow(check):
    records = built()
    again = replace(records[0], date=DAYS[0])
    assert only(check([records[0], again, *records[2:]])) == (2, "id", 0)


def test_a_torn_registration_is_one_mismatch(tmp_path):
    write_positions(tmp_path / "torn.jsonl", built((DAYS[0], "buy", A, 100, 10.0)))
    content = (tmp_path / "torn.jsonl").read_bytes()
    for damaged in (content[20:], b"garbage\n" + content):
        (tmp_path / "torn.jsonl").write_bytes(damaged)
        BARS.to_csv(tmp_path / "prices.csv", index=False)
        found = verify_positions(tmp_path / "torn.jsonl", tmp_path / "prices.csv", "cn")
        assert [(each.line, each.field) for each in found.mismatches] == [(1, "json")]


def test_a_holding_that_never_had_a_price_has_no_value(check):
    records = built()
    strange = [replace(record, positions={**record.positions, "C": 100}) for record in records[1:]]
    found = check([records[0], *strange])
    assert (found.final_value, found.total_return, found.max_drawdown) == (None, None, None)
    assert only(found) == (2, "positions.C", 100)


def test_a_ledger_that_was_only_registered_is_worth_its_cash(check):
    found = check(built()[:1])
    assert (found.final_value, found.total_return, found.sessions) == (100_000.0, 0.0, 0)


@pytest.mark.parametrize("date", ["2025-13-40", "2025-10-9", "2025-10-09T00:00", "20251010", "Oct 9"])
@pytest.mark.parametrize("row", [0, 1, -1])
def test_a_malformed_date_is_a_mismatch_of_its_line_alone(date, row, shared_data, tmp_path):
    whole = (shared_data / "ai-trader/a_share/positions/qwen3-max.position.jsonl").read_text().splitlines()
    documents = [json.loads(text) for text in whole]
    documents[row]["date"] = date
    path = tmp_path / "damaged.jsonl"
    path.write_text("".join(json.dumps(document) + "\n" for document in documents))
    found = verify_positions(path, shared_data / "ai-trader" / CN, "cn")
    assert only(found) == (row % len(whole) + 1, "date", repr(date))
    assert "is not a date YYYY-MM-DD" in found.mismatches[0].message
    assert found.final_value is not None


def test_other_markets_and_files_are_refused(check, tmp_path):
    with pytest.raises(BadOption, match="market='crypto'; valid: cn, us"):
        check(built(), "crypto")
    with pytest.raises(BadFile, match="cannot be read"):
        verify_positions(tmp_path / "missing.jsonl", tmp_path / "prices.parquet", "cn")
    with pytest.raises(BadOption, match="existing path"):
        verify_positions(tmp_path / "ledger.jsonl", tmp_path / "missing.csv", "cn")
