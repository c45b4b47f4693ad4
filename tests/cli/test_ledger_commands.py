"""``quantgraph ledger show|check|export`` on a run, and ``verify`` on what it exports."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

from quantgraph.broker import Decider, Decision, DecisionContext, Market, Order
from quantgraph.broker.ledger import Ledger
from quantgraph.broker.session import run_sessions
from quantgraph.cli._main import app
from quantgraph.data import open_source
from quantgraph.market import Rulebook
from quantgraph.report import BuyAndHold
from quantgraph.state import DataState

pytestmark = pytest.mark.proof

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
    assert told["value"] == pytest.approx(told["cash"] + told["owed"] + worth)
    money = ("initial_cash", "cash", "owed", "value", "realised", "dividends")
    assert {name: type(told[name]) for name in money} == dict.fromkeys(money, float)
    assert all(row["sessions"] == 30 for row in told["positions"])
    status, out, _ = call("show", run_dir)
    assert status == 0
    assert "601398.SH" in out
    assert f"value {told['value']:,.2f}, cash {told['cash']:,.2f}, dividends on their way 0.00, " in out


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


def damage(run_dir: Path, statement: str) -> None:
    with closing(sqlite3.connect(run_dir / "ledger.sqlite")) as connection, connection:
        connection.execute(statement)


@pytest.mark.parametrize(
    "statement",
    [
        "update journal set body = '{}' where kind = 'fill'",
        "update journal set body = 'x' where kind = 'day'",
        "update journal set body = '{}' where kind = 'deposit'",
        "delete from journal where kind = 'deposit'",
        "delete from journal where line = 0",
        "delete from journal where line < 2",
    ],
)
def test_a_damaged_ledger_is_not_shown_but_named(run_dir: Path, tmp_path: Path, statement: str) -> None:
    damage(run_dir, statement)
    for command in (("show",), ("show", "--json"), ("export", "--to", tmp_path / "x.jsonl")):
        status, out, err = call(*command, run_dir)
        assert (status, out, err.count("\n")) == (1, "", 1)
        assert err.startswith("ledger_conflict: run 'held'")
        assert err.endswith("; run 'quantgraph ledger check'\n")
    status, _, err = call("check", run_dir)
    assert (status, err.count("\n")) == (1, 1)
    assert not (tmp_path / "x.jsonl").exists()


def result_of(run_dir: Path, **changes: object) -> None:
    """What a run that is done leaves beside its ledger."""
    with Ledger(run_dir / "ledger.sqlite") as ledger:
        values = ledger.values("held")
    told = {
        "run_id": "held",
        "ended_because": "done",
        "equity": {"sessions": [f"{day:%Y%m%d}" for day in values.index]},
        "account": {"final_value": float(values.iloc[-1])},
    }
    (run_dir / "result.json").write_text(json.dumps(told | changes))


def test_lines_that_were_cut_off_the_end_are_missed_by_the_result_beside_it(run_dir: Path) -> None:
    result_of(run_dir)
    assert call("check", run_dir)[0] == 0
    damage(run_dir, "delete from journal where session = '2025-11-19'")
    status, out, err = call("check", run_dir)
    assert (status, out, err.count("\n")) == (1, "", 1)
    assert "result.json ends on 20251119 with " in err
    assert "the ledger on 20251118 with " in err
    assert err.endswith(": lines at the end are missing\n")
    assert json.loads(call("check", run_dir, "--json")[1])["sound"] is False
    damage(run_dir, "delete from journal where session <> ''")
    assert "the ledger before its first session: lines at the end are missing" in call("check", run_dir)[2]


def test_only_a_done_result_of_this_run_counts(run_dir: Path) -> None:
    result_of(run_dir, account={"final_value": 1.0})
    assert call("check", run_dir)[2].endswith(": one of them was changed\n")
    for other in ({"ended_because": None}, {"run_id": "another"}, {"account": None}):
        result_of(run_dir, **({"account": {"final_value": 1.0}} | other))
        assert call("check", run_dir)[0] == 0
    result_of(run_dir, equity=None)
    status, _, err = call("check", run_dir)
    assert (status, err.count("\n")) == (2, 1)
    assert "result.json is not a result of a run" in err


def test_a_run_is_found_by_its_file_or_as_the_only_one_of_a_ledger(run_dir: Path, tmp_path: Path) -> None:
    file = run_dir / "ledger.sqlite"
    shutil.copytree(run_dir, tmp_path / "copy")
    for way in ((file,), (tmp_path / "copy",), ("--ledger", file), ("held", "--ledger", f"sqlite:///{file}")):
        status, out, _ = call("check", *way)
        assert (status, out.split(":")[0]) == (0, "held")
    with Ledger(file) as ledger:
        ledger.open_run("another", 100)
    for way in ((file,), ("--ledger", file)):
        status, out, err = call("show", *way)
        assert (status, out, err.count("\n")) == (2, "", 1)
        assert "the ledger holds several runs: another, held; give one as RUN" in err
    status, out, _ = call("show", "another", "--ledger", file)
    assert (status, out) == (0, "another: no session yet, cash 100.00\n")


def test_a_folder_of_runs_lists_them(run_dir: Path) -> None:
    status, out, err = call("show", run_dir.parent)
    assert (status, out) == (2, "")
    assert err.endswith("is a folder of runs; take one of held\n")


def test_fractions_of_shares_are_shown_in_full(tmp_path: Path) -> None:
    days = pd.DatetimeIndex(["2024-06-13", "2024-06-14"])
    bars = {name: pd.DataFrame({"AAPL": [300.0, 300.0]}, index=days) for name in ("open", "close")}
    store = DataState()
    rules = Rulebook.zero_cost("us", fractional=True)
    market = Market(store=store, data_ref=store.update("ohlcv", bars), rules=rules)
    with Ledger(tmp_path / "runs" / "part" / "ledger.sqlite") as ledger:
        run_sessions(market, days, BuyAndHold(), cash=1_000, ledger=ledger, run_id="part")
    status, out, _ = call("show", "part")
    assert status == 0
    assert "3.333333333 " in out  # 1,000 by 300
    assert " 300.00 " in out


@pytest.mark.parametrize("name", ["x.csv", "x.parquet", "x.jsonl"])
def test_an_export_into_no_folder_or_onto_one_is_one_clear_line(
    run_dir: Path, tmp_path: Path, name: str
) -> None:
    (tmp_path / name).mkdir()
    form = name.removeprefix("x.")
    for place, why in ((tmp_path / "no" / name, "there is no folder"), (tmp_path / name, "is a folder")):
        status, out, err = call("export", run_dir, "--to", place, "--format", form)
        assert (status, out, err.count("\n")) == (2, "", 1)
        assert err.startswith(f"bad_option: --to {place}: ")
        assert why in err
        assert "None" not in err


def test_export_writes_the_journal_and_the_fills(run_dir: Path, tmp_path: Path) -> None:
    assert call("export", run_dir, "--to", tmp_path / "journal.jsonl")[0] == 0
    rows = [json.loads(line) for line in (tmp_path / "journal.jsonl").read_text().splitlines()]
    assert [row["line"] for row in rows] == list(range(len(rows)))
    assert {"run", "deposit", "fill", "marks", "day"} <= {row["kind"] for row in rows}
    assert call("export", run_dir, "--to", tmp_path / "fills.parquet", "--format", "parquet")[0] == 0
    fills = pd.read_parquet(tmp_path / "fills.parquet")
    assert len(fills) == sum(row["kind"] == "fill" for row in rows)
    assert (fills["notional"] == (fills["price"] * fills["quantity"]).round(2)).all()


def test_an_export_without_a_file_is_named_after_the_run_and_replaces_nothing(run_dir: Path) -> None:
    assert call("export", run_dir, "--format", "csv") == (0, "held.csv\n", "")
    written = Path("held.csv").read_text()
    status, out, err = call("export", run_dir, "--format", "csv")
    assert (status, out, Path("held.csv").read_text()) == (2, "", written)
    assert err == "bad_option: held.csv exists already; --to FILE names another, or the same to replace it\n"
    assert call("export", run_dir, "--format", "csv", "--to", "held.csv") == (
        0,
        "held.csv\n",
        "held.csv was there and is replaced\n",
    )
    for form, name in (
        ("jsonl", "held.jsonl"),
        ("parquet", "held.parquet"),
        ("rejections", "held-rejections.csv"),
        ("notes", "held-notes.jsonl"),
        ("positions", "held-position.jsonl"),
    ):
        assert call("export", run_dir, "--format", form)[:2] == (0, f"{name}\n")
        assert Path(name).is_file()


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
        (("show", "README.md"), "cannot be used as a run's database: file is not a database"),
        (("check", "typo", "--ledger", "runs/held/ledger.sqlite"), "run_id='typo' is not in this ledger"),
        (("check", "held", "--ledger", "no.sqlite"), "bad_option: --ledger no.sqlite is not a file"),
        (("export", "held", "--to", "x.xlsx", "--format", "csv"), "must be .csv or .parquet"),
    ],
)
def test_wrong_usage_is_one_line_and_status_2(run_dir: Path, arguments: tuple[str, ...], told: str) -> None:
    Path("README.md").write_text("no ledger " * 100)
    status, out, err = call(*arguments)
    assert (status, out) == (2, "")
    assert told in err
    assert len(err.strip().splitlines()) == 1


def test_notes_of_decisions_are_shown_and_exported(tmp_path: Path) -> None:
    class Says(Decider):
        name = "says"

        def decide(self, context: DecisionContext) -> Decision:
            return Decision(notes={"why": "观望"}) if context.session.day == 14 else Decision()

    days = pd.DatetimeIndex(["2024-06-13", "2024-06-14"])
    price, store = pd.DataFrame({"600000.SH": [8.0, 8.1]}, index=days), DataState()
    ref = store.update("ohlcv", {"open": price, "close": price})
    market = Market(store=store, data_ref=ref, rules=Rulebook.mainland())
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        run_sessions(market, days, Says(), cash=10_000, ledger=ledger, run_id="r")
    file, notes = tmp_path / "ledger.sqlite", tmp_path / "notes.jsonl"
    assert 'notes of 2024-06-14: {"why": "观望"}\n' in call("show", file)[1]
    assert json.loads(call("show", file, "--json")[1])["notes"] == {"2024-06-14": {"why": "观望"}}
    assert call("export", file, "--to", notes, "--format", "notes")[0] == 0
    assert notes.read_text("utf-8") == '{"session":"2024-06-14","notes":{"why":"观望"}}\n'


def test_refused_orders_are_counted_by_code_and_exported_for_a_spreadsheet(tmp_path: Path) -> None:
    class Wrong(Decider):
        name = "wrong"

        def decide(self, context: object) -> list[Order]:
            return [Order(symbol="FOO", side="buy", quantity=100, sequence=1, reason="it rises, they say")]

    days = pd.DatetimeIndex(["2024-06-13", "2024-06-14"])
    price, store = pd.DataFrame({"600000.SH": [8.0, 8.1]}, index=days), DataState()
    market = Market(
        store=store,
        data_ref=store.update("ohlcv", {"open": price, "close": price}),
        rules=Rulebook.mainland(),
    )
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        run_sessions(market, days, Wrong(), cash=10_000, ledger=ledger, run_id="r")
        (first, _) = ledger.rejection_records("r")
    file, table = tmp_path / "ledger.sqlite", tmp_path / "refused.csv"
    assert "0 fills, 2 rejections (unknown_symbol 2)\n" in call("show", file)[1]
    assert call("export", file, "--to", table, "--format", "rejections")[0] == 0
    rows = pd.read_csv(table, dtype=str).to_dict("records")
    assert [row.pop("trade_date") for row in rows] == ["2024-06-13", "2024-06-14"]
    assert rows[0] == {
        "sequence": "1",
        "ts_code": "FOO",
        "side": "buy",
        "wish": "quantity",
        "size": "100",
        "code": "unknown_symbol",
        "message": first.message,
        "reason": "it rises, they say",
    }
