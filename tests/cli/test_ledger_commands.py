"""``quantgraph ledger show|check|export`` on a run, and ``verify`` on what it exports."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

from quantgraph.broker import Market, run_sessions
from quantgraph.broker.ledger import Ledger
from quantgraph.cli.main import app
from quantgraph.data import open_source
from quantgraph.market.rulebook import Rulebook
from quantgraph.report import BuyAndHold
from quantgraph.state import DataState

PRICES = "daily_prices_sse_50_20251009_20251119.csv"


@pytest.fixture
def run_dir(a_share: Path, tmp_path: Path) -> Path:
    """Two million in the main-board members of the SSE 50, bought on 2025-10-09 and held to 2025-11-19."""
    source = open_source(a_share / PRICES)
    symbols = [symbol for symbol in source.symbols() if not symbol.startswith("688")]
    days = source.sessions()
    store = DataState()
    ref = store.update("ohlcv", source.bars(symbols, days[0], days[-1]))
    market = Market(store=store, data_ref=ref, rules=Rulebook.mainland())
    with Ledger(tmp_path / "runs" / "held" / "ledger.sqlite") as ledger:
        run_sessions(market, days, BuyAndHold(), cash=2_000_000, ledger=ledger, run_id="held")
    return tmp_path / "runs" / "held"


def call(*arguments: object) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["ledger", *map(str, arguments)])
    return result.exit_code, result.stdout, result.stderr


def test_show_tells_where_the_run_stands(run_dir: Path) -> None:
    status, out, _ = call("show", run_dir, "--json")
    told = json.loads(out)
    assert (status, told["sessions"], told["first"], told["last"]) == (0, 30, "2025-10-09", "2025-11-19")
    worth = sum(row["quantity"] * row["mark"] for row in told["positions"])
    assert told["value"] == pytest.approx(float(told["cash"]) + worth)
    assert all(row["sessions"] == 30 for row in told["positions"])
    status, out, _ = call("show", run_dir)
    assert status == 0
    assert "601398.SH" in out


def test_the_name_of_a_run_is_looked_for_in_the_runs_folder(run_dir: Path) -> None:
    assert call("check", "held")[0] == 0


def test_check_is_0_for_a_sound_run_and_1_for_a_changed_line(run_dir: Path) -> None:
    status, out, _ = call("check", run_dir, "--json")
    assert (status, json.loads(out)["sound"]) == (0, True)
    with sqlite3.connect(run_dir / "ledger.sqlite") as connection:
        connection.execute(
            'update journal set body = replace(body, \'"cash":"\', \'"cash":"1\') where line = 60'
        )
    connection.close()
    status, out, err = call("check", run_dir, "--json")
    told = json.loads(out)
    assert (status, told["sound"]) == (1, False)
    assert "chain breaks at line 60" in told["problem"]
    assert "chain breaks at line 60" in err


def test_export_writes_the_journal_and_the_fills(run_dir: Path, tmp_path: Path) -> None:
    assert call("export", run_dir, "--to", tmp_path / "journal.jsonl")[0] == 0
    rows = [json.loads(line) for line in (tmp_path / "journal.jsonl").read_text().splitlines()]
    assert [row["line"] for row in rows] == list(range(len(rows)))
    assert {"run", "deposit", "fill", "marks", "day"} <= {row["kind"] for row in rows}
    assert call("export", run_dir, "--to", tmp_path / "fills.parquet", "--format", "parquet")[0] == 0
    fills = pd.read_parquet(tmp_path / "fills.parquet")
    assert len(fills) == sum(row["kind"] == "fill" for row in rows)
    assert (fills["notional"] == (fills["price"] * fills["quantity"]).round(2)).all()


def test_what_is_exported_for_ai_trader_follows_record_by_record(
    run_dir: Path, a_share: Path, tmp_path: Path
) -> None:
    exported = tmp_path / "position.jsonl"
    assert call("export", run_dir, "--to", exported, "--format", "positions")[0] == 0
    status, out, _ = call("verify", exported, "--prices", a_share / PRICES, "--market", "cn", "--json")
    told = json.loads(out)
    assert (status, told["mismatches"]) == (0, [])
    with Ledger(run_dir / "ledger.sqlite") as ledger:
        assert told["final_value"] == pytest.approx(ledger.values("held").iloc[-1], abs=1e-6)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("show", "nowhere"), "bad_option: RUN='nowhere' has no ledger"),
        (("check", "held", "--ledger", "no.sqlite"), "bad_option: --ledger no.sqlite is no file"),
        (("export", "held", "--to", "x.xlsx", "--format", "csv"), "a file that ends in .csv or .parquet"),
    ],
)
def test_what_cannot_be_done_is_one_line_and_status_2(
    run_dir: Path, arguments: tuple[str, ...], told: str
) -> None:
    status, out, err = call(*arguments)
    assert (status, out) == (2, "")
    assert told in err
    assert len(err.strip().splitlines()) == 1
