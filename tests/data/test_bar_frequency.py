"""Rows that are not days: named, asked about, and counted as what they are in yearly numbers."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from quantgraph.data import open_source
from quantgraph.errors import BadFile
from quantgraph.market import bar_of, sessions, sessions_in_a_year
from quantgraph.report import value_numbers
from quantgraph.runs import run_signal, write_page
from quantgraph.runtime import Resources
from quantgraph.settings import load_settings

DAYS = sessions("20190101", "20231231", exchange="XNYS")
WEEKS = DAYS.to_series().groupby(DAYS.to_period("W")).last().pipe(pd.DatetimeIndex)
MONTHS = DAYS.to_series().groupby(DAYS.to_period("M")).last().pipe(pd.DatetimeIndex)


def bars(index, symbol="KO"):
    close = 100 * np.exp(np.cumsum(np.random.default_rng(3).normal(0.004, 0.02, len(index))))
    prices = dict.fromkeys(("open", "high", "low", "close"), close)
    return pd.DataFrame({"date": index, "symbol": symbol, **prices, "volume": 1e6})


@pytest.mark.parametrize(
    ("index", "bar", "periods"),
    [
        (DAYS, "daily", 252),
        (sessions("20200101", "20201231", exchange="XSHG"), "daily", 252),
        (DAYS[:5], "daily", 252),
        (WEEKS, "weekly", 52),
        (MONTHS, "monthly", 12),
        (DAYS[:300].append(WEEKS[WEEKS > DAYS[299]]), "irregular", None),
        (MONTHS[::3], "irregular", 4),
    ],
    ids=["US days", "mainland days", "a few rows", "weeks", "months", "half days, half weeks", "quarters"],
)
def test_the_dates_tell_what_a_row_is_of(index, bar, periods):
    assert bar_of(index) == bar
    assert periods is None or sessions_in_a_year(index) == periods


@pytest.mark.parametrize(("index", "bar"), [(WEEKS, "weekly"), (MONTHS, "monthly")])
def test_bars_that_are_not_daily_are_refused_unless_it_is_said(index, bar, tmp_path):
    bars(index).to_csv(tmp_path / "KO.csv", index=False)
    for source in (tmp_path / "KO.csv", bars(index)):
        with pytest.raises(BadFile, match=f"are {bar} bars; .*say bar={bar}, with --table") as asked:
            open_source(source).symbols()
        assert (asked.value.data["parameter"], asked.value.data["choices"]) == ("bar", (bar,))
        told = load_settings(tables={"bar": bar})
        assert len(open_source(source, settings=told).sessions()) == len(index)
    with pytest.raises(BadFile, match="bar='monthly' is set, and its rows are daily"):
        open_source(bars(DAYS), settings=load_settings(tables={"bar": "monthly"})).symbols()


def test_yearly_numbers_are_of_the_bars_there_are():
    values = pd.Series(bars(WEEKS)["close"].to_numpy(), WEEKS)
    numbers, returns = value_numbers(values), values.pct_change().dropna()
    assert numbers["sharpe"] == pytest.approx(returns.mean() / returns.std() * 52**0.5)
    assert numbers["annual_return"] == pytest.approx((values.iloc[-1] / values.iloc[0]) ** (52 / 260) - 1)


@pytest.mark.proof
def test_a_run_of_weekly_bars_says_so_first(tmp_path):
    table = bars(WEEKS)
    signal = pd.DataFrame({"KO": 0.0}, index=WEEKS)
    signal.iloc[0] = 1.0
    with pytest.raises(BadFile, match="are weekly bars"):
        run_signal(signal, prices=table, out=tmp_path)
    told = Resources(source=table, settings=load_settings(tables={"bar": "weekly"}))
    result = run_signal(signal, resources=told, out=tmp_path)
    assert result["periods_per_year"] == 52
    assert result["notes"][0].startswith("the bars are not daily: yearly numbers are of 52 bars a year")
    assert "52 / sessions" in write_page([result.folder]).read_text(encoding="utf-8")
