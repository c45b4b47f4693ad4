"""The execution log: each step once, as it was logged, whoever writes at the same time and whenever it is killed."""

import json
import resource
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace

import pandas as pd
import pytest

from quantgraph.broker.ledger import Ledger, LoggedStep
from quantgraph.errors import BadFile, BadOption, LedgerConflict, StorageUnavailable

DAY, NEXT = (pd.Timestamp(day).as_unit("us") for day in ("2024-01-02", "2024-01-03"))
RULE = "价格突破30日均线且RSI在正常区间时建仓"
BARS = {
    "type": "tool_call",
    "step": 1,
    "reasoning": "需要获取K线数据来分析价格趋势",
    "action": {
        "tool_name": "get_kline_data",
        "params": {"symbol": "600519.SH", "timeframe": "1d", "limit": 1},
    },
}
ROWS = [{"time": 1234567890, "open": 50000, "high": 51000, "low": 49000, "close": 50500, "volume": 1000}]
BUY = {
    "type": "decision",
    "step": 2,
    "reasoning": "满足建仓条件",
    "action": {"action": "buy", "reason": "价格突破30日均线", "confidence": 0.75},
}


def step(number=1, action=BARS, result=None, symbol="600519.SH", session=DAY, **more):
    fields = {"rule_name": "breakout", "rule": RULE, "timestamp": f"{session:%Y-%m-%d}T09:00:00", **more}
    return LoggedStep(
        symbol=symbol,
        session=session,
        step=number,
        action_type=action["type"],
        action=action,
        result=result,
        **fields,
    )


def two_steps(**more):
    return [step(1, BARS, ROWS, **more), step(2, BUY, **more)]


@pytest.fixture
def ledger(tmp_path):
    with Ledger(tmp_path / "ledger.db") as ledger:
        ledger.open_run("r", 1_000)
        yield ledger


def rows(ledger, query):
    with closing(sqlite3.connect(ledger.where)) as connection:
        return connection.execute(query).fetchall()


def change(ledger, statement):
    with closing(sqlite3.connect(ledger.where)) as connection, connection:
        assert connection.execute(statement).rowcount == 1


def test_steps_are_read_as_they_were_logged(ledger):
    for each in two_steps():
        ledger.log_step("r", each)
    (execution,) = ledger.executions("r")
    assert list(execution.steps) == two_steps()
    assert (execution.run_id, execution.session, execution.symbol) == ("r", DAY, "600519.SH")
    assert (execution.rule_name, execution.rule) == ("breakout", RULE)


def test_the_tables_have_the_documented_columns_and_the_simulated_moment(ledger):
    for each in two_steps():
        ledger.log_step("r", each)
    names = {
        table: [row[1] for row in rows(ledger, f"PRAGMA table_info({table})")]
        for table in ("saved_rules", "execution_logs")
    }
    assert names == {
        "saved_rules": ["id", "name", "content", "content_hash", "created_at"],
        "execution_logs": [
            "id", "rule_id", "symbol", "execution_id", "step", "action_type", "action_data", "result_data",
            "timestamp",
        ],
    }  # fmt: skip
    ((rule_id, name, content, created),) = rows(
        ledger, "SELECT id, name, content, created_at FROM saved_rules"
    )
    assert (name, content, created) == ("breakout", RULE, "2024-01-02T09:00:00")
    logged = rows(
        ledger, "SELECT rule_id, step, action_type, action_data, result_data, timestamp FROM execution_logs"
    )
    assert [row[:3] for row in logged] == [(rule_id, 1, "tool_call"), (rule_id, 2, "decision")]
    assert [json.loads(row[3]) for row in logged] == [BARS, BUY]
    assert (json.loads(logged[0][4]), logged[1][4]) == (ROWS, None)
    assert {row[5] for row in logged} == {"2024-01-02T09:00:00"}
    (key,) = {
        row[2:5] for row in rows(ledger, "PRAGMA foreign_key_list(execution_logs)") if row[2] == "saved_rules"
    }
    assert key == ("saved_rules", "rule_id", "id")


def test_a_ledger_without_a_step_has_no_tables_for_them(ledger):
    assert ledger.executions("r") == []
    assert rows(ledger, "SELECT name FROM sqlite_master WHERE type = 'table'") == [("journal",), ("windows",)]


def test_runs_sessions_symbols_and_rules_are_executions_of_their_own(ledger):
    ones = [
        step(),
        step(symbol="000001.SZ"),
        step(session=NEXT),
        step(rule="another rule"),
        step(rule_name="another name"),
    ]
    for each in ones:
        ledger.log_step("r", each)
    ledger.log_step("other", step())
    assert len({each.execution_id for each in ledger.executions("r") + ledger.executions("other")}) == 6
    found = [(f"{each.session:%m%d}", each.symbol) for each in ledger.executions("r")]
    assert found == [("0102", "000001.SZ"), *[("0102", "600519.SH")] * 3, ("0103", "600519.SH")]
    assert [each.session for each in ledger.executions("r", session=NEXT)] == [NEXT]
    assert [each.symbol for each in ledger.executions("r", symbol="000001.SZ")] == ["000001.SZ"]
    assert len(rows(ledger, "SELECT id FROM saved_rules")) == 3


def test_step_one_begins_an_execution_anew(ledger):
    for each in two_steps():
        ledger.log_step("r", each)
    ledger.log_step("r", step(symbol="000001.SZ"))
    with Ledger(ledger.where) as again:
        again.log_step("r", step(result="second try"))
    first, second = ledger.executions("r")
    assert first.symbol == "000001.SZ"
    assert [each.result for each in second.steps] == ["second try"]


def test_a_step_twice_or_before_step_one_is_a_conflict(ledger):
    with pytest.raises(
        LedgerConflict, match=r"2024-01-02, 600519.SH: step 2 is there already, or step 1 is not"
    ):
        ledger.log_step("r", step(2, BUY))
    for each in two_steps():
        ledger.log_step("r", each)
    with pytest.raises(LedgerConflict, match="step 2 is there already"):
        ledger.log_step("r", step(2, BUY))
    assert list(ledger.executions("r")[0].steps) == two_steps()


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"number": 0}, "step=0; must be a whole number >= 1"),
        ({"number": True}, "step=True; must be"),
        ({"timestamp": "yesterday"}, "timestamp='yesterday' is not an ISO 8601 time"),
        ({"timestamp": "2024-01-02T09:00:00+08:00"}, "has a time zone"),
        ({"action": {"type": "x" * 41}}, "must have 1 to 40 characters"),
    ],
)
def test_a_step_that_cannot_be_one_is_refused(wrong, told):
    with pytest.raises(BadOption, match=told.replace("(", r"\(").replace("+", r"\+")):
        step(**wrong)


@pytest.mark.parametrize("result", [float("nan"), {"a": {1, 2}}, object()])
def test_a_result_that_is_not_json_is_refused(ledger, result):
    with pytest.raises(BadOption, match="result of a step is not JSON"):
        ledger.log_step("r", step(result=result))
    assert ledger.executions("r") == []


def test_text_that_databases_do_not_take_is_escaped(ledger):
    odd = step(rule="a\0b\udcff", symbol="X\udcff", result="\0\udcff")
    ledger.log_step("r", odd)
    (execution,) = ledger.executions("r")
    assert (execution.rule, execution.symbol) == (r"a\x00b\udcff", r"X\udcff")
    assert execution.steps[0].result == "\0?"
    assert ledger.executions("r", symbol="X\udcff") == [execution]


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        ("UPDATE execution_logs SET action_data = '{' WHERE step = 2", "2024-01-02 600519.SH: Expecting"),
        ("UPDATE execution_logs SET action_data = '[]' WHERE step = 2", "is not a JSON object"),
        ("UPDATE execution_logs SET result_data = 'x' WHERE step = 1", "Expecting value"),
        ("UPDATE execution_logs SET timestamp = 'x' WHERE step = 1", "not an ISO 8601 time"),
        ("DELETE FROM execution_logs WHERE step = 1", "it begins with step 2"),
        ("UPDATE executions SET symbol = '000001.SZ'", "do not lead to its execution_id"),
        ("UPDATE executions SET session = 'today'", "was changed: today 600519.SH"),
        ("UPDATE saved_rules SET content = 'sell all'", "do not lead to its execution_id"),
        ("DELETE FROM saved_rules", "was changed"),
    ],
)
def test_an_unreadable_row_is_a_bad_file(ledger, statement, told):
    for each in two_steps():
        ledger.log_step("r", each)
    change(ledger, statement)
    with pytest.raises(BadFile, match="the execution log of run 'r' was changed") as refused:
        ledger.executions("r")
    assert told in refused.value.message


def test_threads_lose_no_step_and_every_id_is_its_own(ledger):
    symbols = [f"{number:06}.SZ" for number in range(8)]

    def execute(symbol):
        for number in range(1, 11):
            ledger.log_step("r", step(number, {**BARS, "step": number}, ROWS, symbol=symbol))

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(execute, symbols))
    found = ledger.executions("r")
    assert [each.symbol for each in found] == symbols
    assert [[one.step for one in each.steps] for each in found] == [list(range(1, 11))] * 8
    ((ids,),) = rows(ledger, "SELECT count(DISTINCT id) FROM execution_logs")
    assert ids == 80


def test_the_log_is_beside_the_journal_and_does_not_disturb_its_check(ledger):
    before = list(ledger.journal("r"))
    for each in two_steps():
        ledger.log_step("r", each)
    assert list(ledger.journal("r")) == before
    assert ledger.check("r") == len(before)


def test_a_medium_that_cannot_be_written_is_read(ledger, monkeypatch):
    for each in two_steps():
        ledger.log_step("r", each)
    monkeypatch.setattr("quantgraph._util.database._only_readable", lambda _: True)
    with Ledger(ledger.where) as reading:
        assert [len(each.steps) for each in reading.executions("r")] == [2]


def test_a_full_disk_is_told_and_the_log_goes_on_when_there_is_room(ledger):
    ledger.log_step("r", step())
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8192, before[1]))  # to whoever writes, a disk that is full
    try:
        with pytest.raises(StorageUnavailable, match=r"ledger.db cannot be written"):
            ledger.log_step("r", step(2, BUY, "x" * 100_000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    ledger.log_step("r", step(2, BUY))
    assert list(ledger.executions("r")[0].steps) == [step(), step(2, BUY)]


def test_one_rule_has_one_row_in_whatever_session_it_is_executed(ledger):
    for session in (DAY, NEXT):
        ledger.log_step("r", step(session=session))
        with Ledger(ledger.where) as other:
            other.log_step("r", replace(step(session=session), symbol="000001.SZ"))
    assert rows(ledger, "SELECT created_at FROM saved_rules") == [("2024-01-02T09:00:00",)]
