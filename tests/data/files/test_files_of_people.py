"""Files in the forms of vendors and terminals, each with its right value: bars, symbols, returns, or the reason."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from quantgraph import run_strategy
from quantgraph.data import open_source
from quantgraph.errors import BadFile
from quantgraph.runs import run_signal
from quantgraph.runtime import Resources
from quantgraph.settings import load_settings

US, CN = "truth_us.csv", "truth_600000.csv"
READ = {
    "600000_mootdx.csv": ("600000.SH", CN),
    "600000_wind.csv": ("600000.SH", CN),
    "em.csv": ("600000.SH", CN),
    "jq.csv": ("600000.SH", CN),
    "qlib.csv": ("600000.SH", CN),
    "rq.csv": ("600000.SH", CN),
    "ths_all.csv": ("600000.SH", CN),
    "tushare_float_dates.csv": ("600000.SH", CN),
    "vnpy_600000_SSE.csv": ("600000.SH", CN),
    "AAPL.US.csv": ("AAPL", US),
    "AAPL_1600.csv": ("AAPL", US),
    "AAPL_2400.csv": ("AAPL", US),
    "AAPL_alpaca.csv": ("AAPL", US),
    "AAPL_day.csv": ("AAPL", US),
    "AAPL_tradetime.csv": ("AAPL", US),
    "NASDAQ_AAPL, 1D.csv": ("AAPL", US),
    "polygon_day_aggs.csv": ("AAPL", US),
    "yf_group_by_ticker.csv": ("AAPL", US),
}


@pytest.fixture
def files(shared_data):
    return shared_data / "files"


@pytest.mark.parametrize("name", READ)
def test_a_file_gives_the_days_prices_shares_and_symbol_that_lie_behind_it(name, files):
    symbol, truth = READ[name]
    market, behind = open_source(files / name).market, pd.read_csv(files / truth)
    assert symbol in market.symbols
    assert [f"{day:%Y-%m-%d}" for day in market.sessions] == behind["date"].tolist()
    for field in ("open", "high", "low", "close"):
        np.testing.assert_allclose(market.bars[field][symbol], behind[field], atol=0.0051)
    np.testing.assert_allclose(market.bars["vol"][symbol] * 100, behind["shares"], rtol=1e-3)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("AAPL_header_twice.csv", "row 31, column Date: Date is not a date"),
        ("BTCUSDT-1d-2024-01.csv", "put one with the names date, open, high"),
        ("sh600000_tx_old.csv", "misses the column(s)"),
        ("KO_weekly.csv", "are weekly bars; .*say bar=weekly"),
        ("weekly_600000.csv", "are weekly bars; .*say bar=weekly"),
    ],
)
def test_what_cannot_be_read_as_days_is_refused_with_the_reason(name, words, files):
    with pytest.raises(BadFile, match=words.replace("(s)", r"\(s\)")):
        open_source(files / name).sessions()


def bought(symbol: str, days: pd.DatetimeIndex) -> pd.DataFrame:
    return pd.DataFrame({symbol: 1.0}, index=days)


@pytest.mark.parametrize("name", ["daily_adjusted_MSFT.csv", "MSFT_yahoo_raw.csv"])
def test_splits_and_dividends_of_a_vendor_give_the_return_of_the_share(name, files, tmp_path):
    # Adjusted prices, bought at the second open and held: the right value of the table of these files.
    behind = pd.read_csv(files / US)
    right = behind["close"].iloc[-1] / behind["open"].iloc[1] - 1
    source = open_source(files / name)
    own = run_signal(bought("MSFT", source.sessions()), prices=files / name, out=tmp_path)
    assert own["account"]["return"] == pytest.approx(-0.0018, abs=5e-4)
    assert own["account"]["return"] == pytest.approx(right, abs=0.01)
    rule = "MSFT, buy when the close is above 1, sell when it is below 1"
    said = run_strategy(rule, source=files / name, model="keyless", out=tmp_path)
    command = [sys.executable, "-m", "quantgraph", "run", rule, "--source", str(files / name), "--json"]
    command += ["--headless", "--model", "keyless", "--out", str(tmp_path / "command")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["account"] == said["account"]
    assert said["account"]["return"] == pytest.approx(own["account"]["return"], abs=5e-3)


@pytest.mark.parametrize("name", READ)
def test_a_sentence_and_a_signal_of_ones_own_earn_what_the_share_does(name, files, tmp_path):
    symbol, truth = READ[name]
    behind = pd.read_csv(files / truth)
    right = behind["close"].iloc[-1] / behind["open"].iloc[1] - 1
    rule = f"{symbol}, buy when the close is above 1, sell when it is below 1"
    said = run_strategy(rule, source=files / name, model="keyless", out=tmp_path)
    days = open_source(files / name).sessions()
    own = run_signal(bought(symbol, days), prices=files / name, out=tmp_path)
    for run in (said, own):
        assert (run["ended_because"], run["symbols"]) == ("done", [symbol])
        assert run["account"]["return"] == pytest.approx(right, abs=2e-3)  # fees, and whole lots


def test_weeks_are_counted_as_weeks(files, tmp_path):
    weekly = Resources(settings=load_settings(tables={"bar": "weekly"}))
    days = pd.DatetimeIndex(pd.read_csv(files / "KO_weekly.csv", parse_dates=["Date"])["Date"])
    run = run_signal(bought("KO", days), prices=files / "KO_weekly.csv", out=tmp_path, resources=weekly)
    account = run["account"]
    # 52 periods a year: 24.7 % a year and a Sharpe ratio of 1.12 (with 252: 189.7 % and 2.45).
    assert (account["annual_return"], account["sharpe"]) == (
        pytest.approx(0.247, abs=2e-3),
        pytest.approx(1.12, abs=0.01),
    )
    assert run["periods_per_year"] == 52
