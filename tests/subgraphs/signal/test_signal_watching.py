"""A rule that watches one thing and trades another: its data, its signal, its account and its benchmark."""

from __future__ import annotations

import json

import pandas as pd
import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from states import flat

from quantgraph import create_trading_graph
from quantgraph.broker.ledger import Ledger
from quantgraph.runtime import Resources
from quantgraph.state import DataState
from quantgraph.subgraphs.signal import create_signal_subgraph

pytestmark = pytest.mark.proof

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


RISING = "只有上证50指数在60日均线上方时才开仓：成分股RSI(6)低于20买入，高于80卖出；指数跌破60日线全部清仓"
MEMBERS = f"""\
import talib
close = snapshot["ohlcv"]["close"]
level = snapshot["index"]["close"]["{INDEX}"].reindex(close.index)
mean = level.rolling(60).mean()
six = snapshot.adjusted("close").apply(lambda prices: pd.Series(talib.RSI(prices.dropna(), 6), prices.dropna().index).reindex(prices.index))
entry = (six < 20).mul(level > mean, axis=0)
leave = six > 80
leave[level < mean] = True
signal = pd.DataFrame(0.0, close.index, close.columns).mask(entry, 1.0).mask(leave, -1.0)
signal = signal.where(six.notna()).where(mean.notna(), axis=0)
GLOBAL_DATA_STATE.update("signal", {{"rsi_in_a_rising_market": signal}})
"""


def run_signal(source, text, **options):
    store = DataState()
    graph = create_signal_subgraph(
        resources=Resources(source=source, store=store, on_clarify="default", **options)
    )
    final = graph.invoke({"messages": [("user", text)]})
    return final, None if final["ended_because"] != "done" else store.snapshot(final["data_ref"])


@pytest.mark.parametrize(
    "symbols",
    [
        {"ts_code": INDEX, "watch": INDEX, "trade": INDEX},
        {"ts_code": INDEX, "watch": INDEX},
        {"ts_code": "上证50", "watch": "上证50指数", "trade": INDEX},
    ],
)
def test_an_index_over_its_own_members_by_a_model_is_what_the_planner_computes(a_share, play, symbols):
    text = f"{RISING}，2025年4月到10月"
    planned, expected = run_signal(a_share, text)
    assert planned["ended_because"] == "done", planned["error_messages"]
    span = {"start_date": "20250401", "end_date": "20251031", "strategy_desc": RISING}
    cast = play.Cast(reflect=play.intent(**symbols, **span), code=MEMBERS)
    final, snapshot = run_signal(a_share, text, model=cast.model)
    assert final["ended_because"] == "done", final["error_messages"]
    assert cast.turns["code"] == 1, "no finding sent it back"
    assert list(snapshot["index"]["close"].columns) == [INDEX]
    assert len(snapshot["ohlcv"]["close"].columns) == 50
    (signal,), (reference,) = (
        [panels["signal"][name].loc["20250401":"20251031"] for name in panels["signal"]]
        for panels in (snapshot, expected)
    )
    pd.testing.assert_frame_equal(signal, reference.where(signal.notna()), check_names=False)
    assert (signal == 1).to_numpy().any()


def test_the_market_is_the_index_of_the_source_and_said_as_a_default(a_share):
    text = f"{STOCK} 5日线上穿20日线买入，但当天大盘跌超1%就不买，下穿卖出，2025年3月到10月"
    final, snapshot = run_signal(a_share, text)
    understanding = flat(final)["understanding"]
    assert (understanding["watch"], understanding["trade"]) == ([INDEX], [STOCK])
    assert {"words": "", "became": f"大盘: {INDEX}", "status": "default"} in understanding["clauses"]
    (signal,) = (snapshot["signal"][name][STOCK] for name in snapshot["signal"])
    close = (snapshot["ohlcv"]["close"] / snapshot["ohlcv"]["pre_close"])[STOCK].cumprod()  # over ex-dates
    level = index_closes(a_share).reindex(close.index)
    apart = close.rolling(5).mean() - close.rolling(20).mean()
    rises = (apart > 0) & (apart.shift(1) <= 0)
    fell = level / level.shift(1) - 1 < -0.01
    begin = pd.Timestamp("20250303")
    assert (signal[begin:] == 1).tolist() == (rises & ~fell)[begin:].tolist()


def test_levels_and_fields_that_a_source_lacks_are_asked_about_at_once(a_share, play, store, runner):
    def question(text, **params):
        read = play.intent(start_date="20250303", end_date="20251031", strategy_desc=text, **params)
        graph = create_signal_subgraph(
            resources=Resources(
                source=a_share, store=store, runner=runner, model=play.Cast(reflect=read).model
            ),
            checkpointer=InMemorySaver(),
        )
        asked = graph.invoke({"messages": [("user", text)]}, {"configurable": {"thread_id": text}})
        return asked["__interrupt__"][0].value

    found = question(
        f"沪深300指数站上20日线买入{STOCK}，2025年3月到10月",
        ts_code=f"000300.SH,{STOCK}",
        watch="000300.SH",
        trade=STOCK,
    )
    assert (found["kind"], found["unread"], found["options"]) == (
        "symbol",
        ["000300.SH"],
        [INDEX, "不使用 000300.SH"],
    )
    assert f"有行情的指数：{INDEX}" in found["question"]
    found = question(
        f"{STOCK} 市盈率最低且ROE大于10%时买入，2025年3月到10月",
        ts_code=STOCK,
        required_indicators=["pe", "roe"],
    )
    assert (found["kind"], found["unread"]) == ("fields", ["pe", "roe"])
    assert "现有：无；行情有：open、high、low、close" in found["question"]
    assert "up_limit" not in found["question"]


def test_a_market_without_an_index_is_asked_about_and_may_be_given_up(play, store, runner, tmp_path):
    days = pd.bdate_range("2024-01-02", periods=60)
    rows = [f"AAPL,{day:%Y%m%d},10,12,9,{10 + at % 3},1000" for at, day in enumerate(days)]
    (tmp_path / "bars.csv").write_text("\n".join(["ts_code,trade_date,open,high,low,close,vol", *rows]))
    text = "AAPL: buy after an up day unless the market fell more than 1%, January 2024"
    read = play.intent(ts_code="AAPL", strategy_desc=text)
    graph = create_signal_subgraph(
        resources=Resources(
            source=tmp_path / "bars.csv", store=store, runner=runner, model=play.Cast(reflect=read).model
        ),
        checkpointer=InMemorySaver(),
    )
    thread = {"configurable": {"thread_id": "1"}}
    asked = graph.invoke({"messages": [("user", text)]}, thread)["__interrupt__"][0].value
    assert (asked["kind"], asked["unread"]) == ("plan", ["the market"])
    assert "Indices with levels: none" in asked["question"]
    final = graph.invoke(Command(resume="go on without the market"), thread)
    assert final["ended_because"] == "done", final["error_messages"]
    assert {"words": "the market", "became": "", "status": "not_done"} in flat(final)["understanding"][
        "clauses"
    ]
