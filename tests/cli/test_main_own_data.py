"""Files of one's own, as they come: run by the command, with what was taken for what on the first lines."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from quantgraph import run_strategy
from quantgraph.cli._main import app
from quantgraph.runs import RunSpec
from quantgraph.runtime import Resources
from quantgraph.settings import load_settings

pytestmark = pytest.mark.proof

RULE = "5-day average crosses above the 20-day average buy, below sell"
OF_VOLUME = (
    "buy when volume is above 1.2 times its 5-day average, sell when volume is below its 5-day average"
)


def bars(symbols=("AAPL",)):
    index = pd.bdate_range("2024-01-02", periods=80, name="Date")
    close = 50 + 10 * np.sin(np.arange(80) / 6)
    table = {"Open": close, "High": close + 1, "Low": close - 1, "Close": close, "Volume": 1_000_000}
    return pd.concat([pd.DataFrame(table, index=index).assign(Ticker=symbol) for symbol in symbols])


def command(*arguments):
    return CliRunner().invoke(app, list(map(str, arguments)))


def test_a_file_of_yfinance_is_traded_by_the_rules_of_its_market(tmp_path):
    file = tmp_path / "AAPL.csv"
    bars().drop(columns="Ticker").to_csv(file)
    told = command("run", f"AAPL, {RULE}", "--source", file, "--headless", "--out", tmp_path / "runs")
    assert told.exit_code == 0, told.output
    data = "data: AAPL.csv: ts_code = its name; trade_date = Date; vol = Volume"
    assert told.stdout.startswith("traded: AAPL\n")
    assert any(line.startswith(data) for line in told.stdout.splitlines())
    (folder,) = (tmp_path / "runs").glob("2*")
    result = json.loads((folder / "result.json").read_text())
    assert result["account"]["trades"] > 0
    assert result["source"]["provenance"][0].endswith(
        "vol = Volume (in shares, by the convention of its name)"
    )
    assert json.loads((folder / "run.json").read_text())["spec"]["rules"]["market"] == "us"
    page = (folder / "report.html").read_text()
    assert "ts_code = its name" in page
    assert str(tmp_path) not in page


@pytest.mark.parametrize("symbols", ["600519", "600519.SH", "sh600519"])
def test_bare_and_prefixed_codes_are_those_of_the_file(tmp_path, symbols):
    bars(["600519"]).to_csv(tmp_path / "bars.csv")
    options = ["--source", tmp_path / "bars.csv", "--symbols", symbols, "--out", tmp_path / "runs"]
    told = command("run", RULE, "--json", "--headless", *options)
    assert told.exit_code == 0, told.output
    assert json.loads(told.stdout)["symbols"] == ["600519.SH"]


def test_in_python_frames_are_sources_and_one_text_is_one_symbol(tmp_path):
    resources = Resources(settings=load_settings(runs_dir=tmp_path))
    result = run_strategy(RULE, symbols="AAPL", source=bars(["AAPL", "MSFT"]), resources=resources)
    assert result["ended_because"] == "done"
    assert result["symbols"] == ["AAPL"]
    assert result.trades["ts_code"].unique().tolist() == ["AAPL"]
    spec = json.loads((result.folder / "run.json").read_text())["spec"]
    assert RunSpec.from_json(spec).rules.market == "us"


def test_what_only_its_owner_knows_is_asked_for_on_one_line(tmp_path):
    file = tmp_path / "mine.csv"
    table = bars(["600519.SH"]).rename(columns={"Volume": "成交量"})
    table.to_csv(file)
    told = command("run", OF_VOLUME, "--source", file, "--headless", "--out", tmp_path / "runs")
    assert told.exit_code == 2
    assert "mine.csv, column 成交量: neither its name nor its numbers show its unit" in told.stderr
    assert "say volume_unit=shares or volume_unit=hands, with --table" in told.stderr
    told = command("run", RULE, "--source", file, "--headless", "--table", "volume_unit=barrels")
    assert (told.exit_code, "volume_unit" in told.stderr) == (2, True)
    told = command("run", RULE, "--source", file, "--headless", "--table", "hands")
    assert (told.exit_code, "--table hands: must be KEY=VALUE" in told.stderr) == (2, True)


def test_what_is_said_of_a_file_stays_with_the_run(tmp_path):
    file = tmp_path / "data.csv"
    table = bars().drop(columns="Ticker").rename(columns={"Volume": "成交量"})
    table.to_csv(file)
    options = ["--symbols", "600519.SH", "--table", "volume_unit=hands", "--out", tmp_path / "runs"]
    told = command("run", "600519.SH, 2024", "--source", file, "--json", *options)
    assert told.exit_code == 1, told.output  # its question has no answer
    (folder,) = (tmp_path / "runs").glob("2*")
    assert json.loads((folder / "run.json").read_text())["source"]["tables"] == {"volume_unit": "hands"}
    told = command("resume", folder, "--answer", RULE, "--headless", "--json")
    assert json.loads(told.stdout)["ended_because"] == "done", told.output
    assert json.loads(told.stdout)["symbols"] == ["600519.SH"]
    assert command("replay", folder).exit_code == 0


def test_a_source_of_one_symbol_does_not_ask_which_and_all_of_it_is_the_window(tmp_path):
    file = tmp_path / "AAPL.csv"
    dates = pd.bdate_range("2021-01-04", periods=800, name="Date")
    pd.concat([bars().drop(columns="Ticker")] * 10).set_axis(dates).to_csv(file)
    arguments = ["run", RULE, "--source", str(file), "--out", str(tmp_path / "runs"), "--json"]
    told = command(*arguments, "--headless")
    assert told.exit_code == 0, told.output
    result = json.loads(told.stdout)
    assert result["symbols"] == ["AAPL"]
    assert result["window"] == {"start": "20210104", "end": f"{dates[-1]:%Y%m%d}"}
    assert "symbol: AAPL" in str(result["understanding"])
    told = CliRunner().invoke(app, arguments, input="1\n")
    assert told.exit_code == 0, told.output
    assert "Which stocks" not in told.stderr
    assert f"1. from 20210104 to {dates[-1]:%Y%m%d}" in told.stderr
    assert json.loads(told.stdout)["window"] == result["window"]


def test_a_window_that_is_said_and_another_symbol_stay_as_said(tmp_path):
    file = tmp_path / "AAPL.csv"
    bars().drop(columns="Ticker").to_csv(file)
    options = ["--source", file, "--out", tmp_path / "runs", "--json", "--headless"]
    result = json.loads(command("run", f"{RULE}, 20240301 to 20240401", *options).stdout)
    assert result["window"] == {"start": "20240301", "end": "20240401"}
    told = command("run", f"MSFT, {RULE}, 2024", *options)
    assert json.loads(told.stdout)["ended_because"] == "data_unavailable"
    assert "MSFT" in told.stderr


def test_a_frame_or_file_without_a_symbol_is_of_the_only_one_that_is_given(tmp_path):
    frame = bars().drop(columns="Ticker")
    resources = Resources(settings=load_settings(runs_dir=tmp_path))
    result = run_strategy(f"{RULE}, 2024", symbols="AAPL", source=frame, resources=resources)
    assert (result["ended_because"], result["symbols"]) == ("done", ["AAPL"])
    frame.to_csv(tmp_path / "data.csv")
    arguments = ["--source", tmp_path / "data.csv", "--symbols", "AAPL"]
    told = command("audit", result.folder / "strategy.py", *arguments)
    assert told.exit_code == 0, told.output
    told = command("run", f"{RULE}, 2024", "--source", tmp_path / "data.csv", "--headless")
    assert (told.exit_code, "say it: --symbols AAPL" in told.stderr) == (2, True)


def test_a_file_without_a_symbol_is_of_the_only_one_that_is_said_or_answered(tmp_path):
    file, out = tmp_path / "data.csv", ["--out", str(tmp_path / "runs")]
    bars().drop(columns="Ticker").to_csv(file)
    told = command("run", f"MSFT, {RULE}, 2024", "--source", file, "--headless", "--json", *out)
    assert json.loads(told.stdout)["symbols"] == ["MSFT"], told.output
    assert command("replay", *out).exit_code == 0
    told = command("run", f"MSFT or AAPL, {RULE}, 2024", "--source", file, "--headless", *out)
    assert (told.exit_code, "misses the column(s) ts_code" in told.stderr) == (2, True)
    arguments = ["run", f"{RULE}, 2024", "--source", str(file), "--json", *out]
    told = CliRunner().invoke(app, arguments, input="TSLA\n")
    assert json.loads(told.stdout)["symbols"] == ["TSLA"], told.output
    resources = Resources(settings=load_settings(runs_dir=tmp_path / "runs"))
    result = run_strategy(f"MSFT, {RULE}, 2024", source=file, resources=resources)
    assert (result["ended_because"], result["symbols"]) == ("done", ["MSFT"])


def test_closes_alone_make_a_proved_signal_and_end_before_the_first_session(tmp_path):
    file = tmp_path / "closes.csv"
    closes = bars()["Close"]
    pd.DataFrame({"AAPL": closes, "MSFT": 2 * closes}).to_csv(file)
    arguments = ["run", f"AAPL, {RULE}, 2024", "--source", file, "--headless", "--out", tmp_path / "runs"]
    told = command(*arguments)
    assert told.exit_code == 1
    assert "no_open_prices: AAPL: closes and no open prices" in told.stderr
    assert "--signal-only" in told.stderr
    (folder,) = (tmp_path / "runs").glob("2*")
    result = json.loads((folder / "result.json").read_text())
    assert result["ended_because"] == "no_open_prices"
    assert result["causality"]["causal"]
    assert result["account"] is None
    assert command("replay", folder).exit_code == 0
    told = command(*arguments, "--signal-only", "--json")
    assert json.loads(told.stdout)["ended_because"] == "done", told.output
    average = closes.rolling(5).mean() - closes.rolling(20).mean()
    buys = (average > 0) & (average.shift() <= 0) & average.shift().notna()
    (only,) = set((tmp_path / "runs").glob("2*")) - {folder}
    signal = pd.read_parquet(only / "signal.parquet")
    assert (signal.iloc[:, 0] > 0).sum() == buys.sum() > 0


def test_what_a_file_does_not_tell_is_asked_on_the_terminal(tmp_path):
    file = tmp_path / "600519.csv"
    bars().drop(columns="Ticker").rename(columns={"Volume": "成交量"}).to_csv(file)
    sentence, out = f"600519.SH, {OF_VOLUME}, 2024", str(tmp_path / "runs")
    arguments = ["run", sentence, "--source", str(file), "--out", out]
    told = CliRunner().invoke(app, arguments, input="2\n1\n")  # the unit; volumes that never vary buy nothing
    assert told.exit_code == 0, told.output
    assert "  2. hands\n" in told.stderr
    (folder,) = (tmp_path / "runs").glob("2*")
    assert json.loads((folder / "run.json").read_text())["source"]["tables"] == {"volume_unit": "hands"}
    assert CliRunner().invoke(app, arguments, input="\n").exit_code == 2
