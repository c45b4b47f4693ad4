"""A source with symbols of two markets: a run of one of them is as if the other were not there."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from quantgraph import run_strategy
from quantgraph.market import sessions
from quantgraph.runs import replay

pytestmark = pytest.mark.proof

SENTENCES = {
    "AAPL": "AAPL, buy when the 5-day average crosses above the 20-day average, sell when it crosses below, 2024",
    "600519.SH": "600519.SH，5日均线上穿20日均线买入，下穿卖出，2024年",
}


def bars(exchange, seed, volume):
    """Two years of a random walk on the days of an exchange."""
    days = sessions("2023-01-01", "2024-12-31", exchange=exchange)
    steps = np.random.default_rng(seed).normal(0.0003, 0.015, len(days))
    close = (50 * np.exp(steps.cumsum())).round(2)
    rows = {"open": close, "high": close + 0.2, "low": close - 0.2, "close": close, volume: 1e6}
    return pd.DataFrame(rows, days)


@pytest.mark.parametrize("code", SENTENCES)
def test_days_of_the_other_exchange_change_nothing(code, tmp_path):
    both = {"AAPL": bars("XNYS", 1, "volume"), "600519.SH": bars("XSHG", 2, "成交量(股)")}
    alone, beside = (
        run_strategy(SENTENCES[code], source=source, out=tmp_path, model="keyless")
        for source in ({code: both[code]}, both)
    )
    assert alone["account"]["trades"] > 4
    assert beside["account"] == alone["account"]
    assert beside["equity"] == alone["equity"]
    assert replay(beside.folder).identical


def test_a_name_that_begins_the_sentence_is_that_of_the_only_symbol(tmp_path):
    said = "老干妈，5日均线上穿20日均线买入，下穿卖出，2024年"
    source = {"600519.SH": bars("XSHG", 2, "成交量(股)")}
    run = run_strategy(said, source=source, out=tmp_path, model="keyless")
    assert run["ended_because"] == "done"
    told = [each for each in run["understanding"]["clauses"] if each["status"] == "default"]
    assert told == [{"words": "老干妈", "became": "600519.SH，数据里唯一的证券", "status": "default"}]
    other = run_strategy(f"{said}，胡说", source=source, out=tmp_path, model="keyless")
    assert other["ended_because"] == "needs_answer"
