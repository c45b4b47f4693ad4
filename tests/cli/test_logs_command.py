"""``quantgraph logs``: the steps of a run as a table, as JSON, and drawn."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from xml.etree import ElementTree as ET

import pandas as pd
import pytest
from typer.testing import CliRunner

from quantgraph.broker.ledger import Ledger, LoggedStep
from quantgraph.cli._main import app

DAYS = [pd.Timestamp(day) for day in ("2024-01-02", "2024-01-03")]
SYMBOLS = ("000001.SZ", "600519.SH")
RULE = "价格突破30日均线时买入，跌破时卖出"
ACTIONS = [
    {
        "type": "tool_call",
        "reasoning": "先看K线",
        "action": {"tool_name": "get_kline_data", "params": {"timeframe": "1d", "limit": 40}},
    },
    {
        "type": "calculation",
        "reasoning": "均线",
        "action": {"calculation_type": "MA", "formula": "sum(close[-30:]) / 30", "inputs": {}},
        "intermediate_result": {"ma30": 50200},
    },
    {
        "type": "decision",
        "reasoning": "够了",
        "action": {"action": "hold", "reason": "没有 <突破>\x1b[2J", "confidence": 0.75},
    },
]
RESULTS = [[{"close": 1.5}] * 40, {"talib": {"ma(30)": 50100.5}}, None]


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    """Two sessions of two symbols, three steps each; 600519.SH has one step more on the second."""
    folder = tmp_path / "runs" / "stepwise"
    with Ledger(folder / "ledger.sqlite") as ledger:
        ledger.open_run("stepwise", 1_000)
        for session in DAYS:
            for symbol in SYMBOLS:
                extra = ACTIONS[:1] if (session, symbol) == (DAYS[1], SYMBOLS[1]) else []
                for number, action in enumerate(extra + ACTIONS, 1):
                    step = LoggedStep(
                        rule_name="breakout",
                        rule=RULE,
                        symbol=symbol,
                        session=session,
                        step=number,
                        action_type=action["type"],
                        action={**action, "step": number},
                        result=RESULTS[ACTIONS.index(action)],
                        timestamp=f"{session:%Y-%m-%d}T09:00:00",
                    )
                    ledger.log_step("stepwise", step)
    return folder


def call(*arguments: object) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["logs", *map(str, arguments)])
    return result.exit_code, result.stdout, result.stderr


def rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines() if line.strip().startswith("2024-")]


def test_every_step_is_a_row_of_the_table(run_dir: Path) -> None:
    status, out, _ = call(run_dir)
    assert status == 0
    assert out.startswith("stepwise: 4 executions, 13 steps\n")
    told = rows(out)
    assert [(row[0], row[1], row[2]) for row in told[:4]] == [
        ("2024-01-02", "000001.SZ", "1"),
        ("2024-01-02", "000001.SZ", "2"),
        ("2024-01-02", "000001.SZ", "3"),
        ("2024-01-02", "600519.SH", "1"),
    ]
    assert len(told) == 13
    assert "get_kline_data: timeframe=1d, limit=40" in out
    assert "TA-Lib: ma(30)=50100.5 | ma30=50200" in out
    assert "共 40 条，末条：close=1.5" in out
    assert "交易日" in out  # headings are in the language of the rule
    assert r"hold: 没有 <突破>\x1b[2J" in out
    assert "\x1b" not in out


def test_the_options_select_sessions_symbols_and_steps(run_dir: Path) -> None:
    _, out, _ = call("stepwise", "--session", "20240103", "--symbol", "600519.sh", "--step", 4)
    assert [row[:4] for row in rows(out)] == [["2024-01-03", "600519.SH", "4", "decision"]]
    _, bare, _ = call("stepwise", "--session", "20240103", "--symbol", "600519", "--step", 4)
    assert bare == out
    _, out, _ = call(run_dir, "--session", "2024-01-02")
    assert len(rows(out)) == 6
    _, out, _ = call(run_dir, "--step", 4)
    assert len(rows(out)) == 1


def test_json_has_the_whole_steps(run_dir: Path) -> None:
    status, out, _ = call(run_dir, "--symbol", "000001.SZ", "--session", "20240102", "--json")
    told = json.loads(out)
    (execution,) = told["executions"]
    assert (status, told["run_id"]) == (0, "stepwise")
    assert {name: execution[name] for name in ("session", "symbol", "rule_name", "rule")} == {
        "session": "20240102",
        "symbol": "000001.SZ",
        "rule_name": "breakout",
        "rule": RULE,
    }
    assert [step["action"] for step in execution["steps"]] == [
        {**action, "step": number} for number, action in enumerate(ACTIONS, 1)
    ]
    assert [step["result"] for step in execution["steps"]] == RESULTS
    assert {step["timestamp"] for step in execution["steps"]} == {"2024-01-02T09:00:00"}
    assert out.count("\n") == 1


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (
            ["--symbol", "000002.SZ"],
            "--symbol 000002.SZ: the log has no such symbol; there is 000001.SZ, 600519.SH",
        ),
        (
            ["--session", "20240104"],
            "--session 20240104: the log has no such session; there is 20240102, 20240103",
        ),
        (["--session", "someday"], "session='someday' is not a date"),
        (["--step", "5"], "--step 5: the log has no such step; there is 1 to 4"),
        (["--step", "4", "--session", "20240102"], "--step 4: the log has no such step; there is 1 to 3"),
        (
            ["--draw", "x.svg"],
            "--draw x.svg: it draws one execution, and 4 are selected; name one by --session",
        ),
    ],
)
def test_what_is_not_there_is_told_in_one_line(run_dir: Path, options: list[str], told: str) -> None:
    status, out, err = call(run_dir, *options)
    assert (status, out) == (2, "")
    assert told in err
    assert err.count("\n") == 1


def test_an_unknown_run_is_told(run_dir: Path) -> None:
    status, _, err = call("nobody")
    assert status == 2
    assert "RUN='nobody' has no ledger" in err
    status, _, err = call("nobody", "--ledger", run_dir / "ledger.sqlite")
    assert status == 2
    assert err == "bad_option: RUN='nobody' is not in this ledger; it has stepwise\n"


def test_a_run_without_an_execution_log_says_so(tmp_path: Path) -> None:
    with Ledger(tmp_path / "runs" / "plain" / "ledger.sqlite") as ledger:
        ledger.open_run("plain", 1_000)
    status, out, _ = call("plain")
    assert (status, out) == (
        0,
        "plain: no execution log; its decider keeps no steps, or no session was decided yet\n",
    )
    assert json.loads(call("plain", "--json")[1]) == {"run_id": "plain", "executions": []}
    status, _, err = call("plain", "--draw", "x.svg")
    assert status == 2
    assert "the run has no execution log" in err


def test_one_execution_is_drawn(run_dir: Path, tmp_path: Path) -> None:
    chosen = (run_dir, "--session", "20240102", "--symbol", "600519.SH", "--draw")
    picture = tmp_path / "one.svg"
    assert call(*chosen, picture)[:2] == (0, f"{picture}\n")
    texts = [element.text for element in ET.parse(picture).iter("{http://www.w3.org/2000/svg}text")]
    assert texts[0] == f"600519.SH · 2024-01-02 · {RULE}"
    assert "TA-Lib: ma(30)=50100.5" in texts
    status, _, err = call(*chosen, tmp_path / "one.png")
    assert status == 2
    assert "must end in .svg" in err


def test_a_changed_row_is_told_in_one_line(run_dir: Path) -> None:
    with closing(sqlite3.connect(run_dir / "ledger.sqlite")) as connection, connection:
        connection.execute("UPDATE execution_logs SET action_data = '{' WHERE id = 1")
    status, out, err = call(run_dir)
    assert (status, out) == (2, "")
    assert err.startswith("bad_file: the execution log of run 'stepwise' was changed: 2024-01-02 000001.SZ: ")
