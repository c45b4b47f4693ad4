"""A rule that watches one thing and trades another: its data, its signal, its account and its benchmark."""

from __future__ import annotations

import json

import pandas as pd
import pytest
from states import flat

from quantgraph import create_trading_graph
from quantgraph.broker.ledger import Ledger
from quantgraph.runtime import Resources
from quantgraph.state import DataState

INDEX, STOCK, OTHER = "000016.SH", "600519.SH", "601318.SH"
SENTENCE = f"{INDEX} closes above its 20-day average: buy {STOCK}, sell when it closes below, 2025-03-03 to 2025-10-31"
SPAN = {
    "start_date": "20250303",
    "end_date": "20251031",
    "strategy_desc": "above or below the 20-day average",
}
BY_INDEX = f"""\
level = snapshot["index"]["close"]["{INDEX}"]
mean = level.rolling(20).mean()
side = (level > mean) * 1.0 - (level < mean) * 1.0
signal = pd.DataFrame({{"{STOCK}": side.where(mean.notna())}})
GLOBAL_DATA_STATE.update("signal", {{"above_mean": signal}})
"""
BOTH = BY_INDEX.replace(
    "signal = pd", f'signal = pd.DataFrame(1.0, index=level.index, columns=["{OTHER}"])\nsignal = pd', 1
)


def index_closes(a_share) -> pd.Series:
    """Closes of the index's file, by the vendor's own keys."""
    stored = json.loads((a_share / "index_daily_sse_50_20250102_20251031.json").read_text())
    rows = stored["Time Series (Daily)"]
    closes = {pd.Timestamp(day): float(row["4. close"]) for day, row in rows.items()}
    return pd.Series(closes).sort_index()


@pytest.fixture(scope="module")
def traded(a_share, tmp_path_factory, play):
    """The final state of the run, its ledger, and its store."""
    cast = play.Cast(
        reflect=play.intent(ts_code=f"{INDEX},{STOCK}", watch=INDEX, trade=STOCK, **SPAN), code=BY_INDEX
    )
    store, ledger = DataState(), Ledger(tmp_path_factory.mktemp("watching") / "ledger.sqlite")
    graph = create_trading_graph(
        model=cast.model, source=a_share, on_clarify="fail", resources=Resources(store=store, ledger=ledger)
    )
    final = graph.invoke({"messages": [("user", SENTENCE)], "run_id": "r"})
    return final, ledger, store


def test_an_index_is_a_series_and_the_signal_has_the_traded_stock_alone(traded, a_share):
    final, _, store = traded
    assert final["ended_because"] == "done", final["error_messages"]
    snapshot = store.snapshot(final["data_ref"])
    assert list(snapshot["ohlcv"]["close"].columns) == [STOCK]
    assert list(snapshot["index"]["close"].columns) == [INDEX]
    signal = snapshot["signal"]["above_mean"]
    level = index_closes(a_share)
    mean = level.rolling(20).mean()
    expected = (
        ((level > mean) * 1.0 - (level < mean) * 1.0).where(mean.notna()).loc["2025-03-03":"2025-10-31"]
    )
    assert signal[STOCK].tolist() == expected.tolist()
    assert list(signal.columns) == [STOCK]


def test_orders_name_what_is_traded_and_the_benchmark_holds_it(traded):
    final, ledger, _ = traded
    assert {fill.order.symbol for fill in ledger.fill_records("r")} == {STOCK}
    assert final["summary"]["benchmark"]["symbols"] == 1
    assert flat(final)["understanding"]["watch"] == flat(final)["understanding"]["index"] == [INDEX]
    assert flat(final)["understanding"]["trade"] == [STOCK]


def test_a_watched_stock_is_fetched_and_neither_traded_nor_in_the_benchmark(a_share, play):
    code = BY_INDEX.replace('snapshot["index"]["close"]', 'snapshot["ohlcv"]["close"]').replace(INDEX, OTHER)
    both = f'{code}signal["{OTHER}"] = 1.0\nGLOBAL_DATA_STATE.update("signal", {{"above_mean": signal}})\n'
    codes = {"ts_code": f"{OTHER},{STOCK}", "watch": OTHER, "trade": STOCK}
    cast = play.Cast(
        reflect=play.intent(**codes, **SPAN), code=lambda messages, turn: both if turn == 1 else code
    )
    store = DataState()
    graph = create_trading_graph(
        model=cast.model, source=a_share, on_clarify="fail", resources=Resources(store=store)
    )
    final = graph.invoke({"messages": [("user", SENTENCE.replace(INDEX, OTHER))]})
    assert final["ended_because"] == "done", final["error_messages"]
    assert "which is only watched" in " ".join(cast.said["code"][1:]) + " ".join(final["execution_history"])
    assert list(store.snapshot(final["data_ref"])["signal"]["above_mean"].columns) == [STOCK]
    assert sorted(store.snapshot(final["data_ref"])["ohlcv"]["close"].columns) == [STOCK, OTHER]
    assert final["summary"]["benchmark"]["symbols"] == 1
