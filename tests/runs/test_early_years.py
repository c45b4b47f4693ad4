"""Runs over years before the first known rules and fees: they trade to the end, with the fees of the day."""

from __future__ import annotations

from decimal import ROUND_CEILING, Decimal

import numpy as np
import pandas as pd
import pytest

from quantgraph import run_strategy
from quantgraph.broker.ledger import Ledger
from quantgraph.market import sessions

pytestmark = pytest.mark.proof

D = Decimal


def bars(exchange, year):
    """A year of prices that swing about 20."""
    days = sessions(f"{year}-01-01", f"{year}-12-31", exchange=exchange)
    close = (20 + 3 * np.sin(np.arange(len(days)) / 9)).round(2)
    rows = {"open": close, "high": close + 0.1, "low": close - 0.1, "close": close, "volume": 1e6}
    return pd.DataFrame(rows, days)


def fills_of(run):
    with Ledger(run.folder / "ledger.sqlite") as book:
        return [fill for result in book.results(run["run_id"]) for fill in result.fills]


def cents(amount):
    return amount.quantize(D("0.01"))


def test_shanghai_in_2006_pays_stamp_duty_on_both_sides_and_a_fee_by_shares(tmp_path):
    source = {"600000.SH": bars("XSHG", 2006).rename(columns={"volume": "成交量(股)"})}
    said = "600000.SH，5日均线上穿20日均线买入，下穿卖出，2006年"
    run = run_strategy(said, source=source, out=tmp_path, model="keyless")
    assert run["ended_because"] == "done", run["error"]
    bought, sold = fills_of(run)[:2]
    for fill in (bought, sold):
        assert fill.stamp_duty == cents(fill.notional * D("0.001"))
        assert fill.transfer_fee == cents(fill.quantity * D("0.001"))
        assert fill.commission == cents(fill.notional * D("0.00025"))
    told = "、".join(run["notes"])
    assert "每手股数（2006-07-01 起）" in told
    assert "印花税" not in told


def test_new_york_in_2006_pays_the_fees_of_the_day(tmp_path):
    said = (
        "AAPL, buy when the 5-day average crosses above the 20-day average, sell when it crosses below, 2006"
    )
    run = run_strategy(said, source={"AAPL": bars("XNYS", 2006)}, out=tmp_path, model="keyless")
    assert run["ended_because"] == "done", run["error"]
    sold = next(fill for fill in fills_of(run) if fill.side == "sell")
    section_31 = (sold.notional * D("30.70") / 1_000_000).quantize(D("0.01"), rounding=ROUND_CEILING)
    activity = min(D("3.75"), sold.quantity * D("0.000075")).quantize(D("0.01"), rounding=ROUND_CEILING)
    assert sold.regulatory == section_31 + activity
    assert "not known" not in ", ".join(run["notes"])


def test_before_all_tables_the_first_fees_are_taken_and_named(tmp_path):
    said = (
        "AAPL, buy when the 5-day average crosses above the 20-day average, sell when it crosses below, 1999"
    )
    run = run_strategy(said, source={"AAPL": bars("XNYS", 1999)}, out=tmp_path, model="keyless")
    assert run["ended_because"] == "done", run["error"]
    told = ", ".join(run["notes"])
    assert "SEC section 31 fee (from 2005-01-07), FINRA activity fee (from 2004-11-01)" in told
