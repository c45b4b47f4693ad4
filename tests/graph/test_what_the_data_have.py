"""What a sentence asks for and the data do not have: the nearest thing is done and named first, or it is asked."""

from __future__ import annotations

import subprocess
import sys

import pandas as pd
import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from quantgraph import create_trading_graph, run_strategy
from quantgraph.broker import TradePlan
from quantgraph.errors import BadOption, NoSignal
from quantgraph.market import Rulebook
from quantgraph.runs import RunSpec, resume_run, run_signal

pytestmark = pytest.mark.proof

RULE = "buy when the 5-day average crosses above the 20-day average, sell when it crosses below"
SHARE = "600519.SH"


@pytest.fixture(scope="module")
def prices(a_share, tmp_path_factory):
    """The real prices of 50 stocks, without the list of the index that they are."""
    table = pd.read_csv(a_share / "daily_prices_sse_50_20250102_20251031.csv")
    path = tmp_path_factory.mktemp("prices") / "prices.csv"
    table[table["trade_date"] >= 20250610].to_csv(path, index=False)
    return path


def run(sentence: str, source, folder, **options):
    return run_strategy(sentence, source=source, model="keyless", out=folder, **options)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (
            "上证50成分股，5日均线上穿20日均线买入，下穿卖出，2025年7月到10月",
            "没有 000016.SH（上证50）的成分股名单：交易它的全部 50 只股票",
        ),
        (
            f"SSE 50 members, {RULE}, 2025-07 to 2025-10",
            "has no list of the members of 000016.SH (上证50): all its 50 symbols",
        ),
    ],
)
def test_an_index_on_a_file_of_as_many_stocks_is_these(name, words, prices, tmp_path):
    result = run(name, prices, tmp_path)
    assert (result["ended_because"], len(result["symbols"])) == ("done", 50)
    assert words in result["notes"][0]


def test_another_index_is_refused_with_what_can_be_said(prices, tmp_path):
    error = run(f"CSI 300 members, {RULE}, 2025-07 to 2025-10", prices, tmp_path)["error"]
    assert (
        "has no list of the members of 000300.SH; say ALL for all its 50 symbols, or codes such as 600028.SH"
        in error
    )


@pytest.mark.parametrize("symbols", ["ALL", "全部股票"])
def test_all_symbols_trade_under_the_rules_of_their_codes(symbols, prices, tmp_path):
    spec = RunSpec(question=f"{RULE}, 2025-07 to 2025-10", symbols=symbols)
    result = run(spec, prices, tmp_path)
    assert (result["ended_because"], len(result["symbols"])) == ("done", 50)


def test_a_window_from_before_the_data_is_shown_as_it_was_judged(prices, tmp_path):
    result = run(f"{SHARE}, {RULE}, 2025-01 to 2025-10", prices, tmp_path)
    # 20 sessions for the average and one for the crossing, from 2025-06-10 on: judged from the 22nd session.
    days = sorted(pd.read_csv(prices)["trade_date"].unique())
    first = pd.Timestamp(str(days[21]))
    assert result["notes"][0] == (
        f"the data begin on 2025-06-10: judged from {first:%Y-%m-%d}, not from 2025-01-01"
    )


def test_a_lacking_benchmark_is_asked_about_before_the_run(prices):
    graph = create_trading_graph(source=prices, model="keyless", checkpointer=InMemorySaver())
    thread = {"configurable": {"thread_id": "1"}}
    state = graph.invoke(
        {"messages": [("user", f"{SHARE}, {RULE}, 2025-07 to 2025-10, benchmark SPY")]}, thread
    )
    (asked,) = state["__interrupt__"]
    assert "has no prices to compare with: benchmark SPY" in asked.value["question"]
    state = graph.invoke(Command(resume=asked.value["options"][0]), thread)
    assert state["ended_because"] == "done"
    assert "not done: benchmark SPY" in [
        f"{'not done' if each['status'] == 'not_done' else each['status']}: {each['words']}"
        for each in state["quantgraph"]["request"]["understanding"]["clauses"]
    ]


def test_a_lacking_benchmark_of_an_option_is_refused_at_once(prices, tmp_path):
    with pytest.raises(BadOption, match=r"benchmark=SPY: .* has no levels of SPY"):
        run(f"{SHARE}, {RULE}, 2025-07 to 2025-10", prices, tmp_path, plan=TradePlan(benchmark="SPY"))
    assert list(tmp_path.iterdir()) == []


def test_a_benchmark_that_ends_before_the_run_is_left_out_and_said(prices, tmp_path):
    table, other = pd.read_csv(prices, dtype={"trade_date": str}), "600036.SH"
    known = table[(table["ts_code"] != other) | (table["trade_date"] < "20250801")]
    options = {"plan": TradePlan(benchmark=other), "source": known, "out": tmp_path, "model": "keyless"}
    result = run_strategy(f"{SHARE}, {RULE}, 2025-07 to 2025-10", **options)
    assert result["ended_because"] == "done"
    assert result["index"] is None
    assert f"the source has no {other} to compare with" in result["notes"]


@pytest.fixture
def without_unit(prices, tmp_path):
    """Prices of one stock whose volumes are in a unit that nothing shows."""
    table = pd.read_csv(prices)
    path = tmp_path / "open.csv"
    of_one = table[table["ts_code"] == SHARE]
    of_one.drop(columns=["vol", "amount"]).assign(成交量=of_one["vol"]).to_csv(path, index=False)
    return path


@pytest.mark.parametrize("drop", [[], ["成交量"]], ids=["a volume without a unit", "no volume"])
def test_volumes_that_are_not_known_are_missed_by_who_reads_them_alone(drop, without_unit, tmp_path):
    frame = pd.read_csv(without_unit, dtype={"trade_date": str}).drop(columns=drop)
    options = {"out": tmp_path, "model": "keyless"}

    def above_average(field):
        def signal(data):
            values = data["ohlcv"][field]
            return (values > values.rolling(5).mean()).astype(float)

        return signal

    closes = run_strategy(above_average("close"), source=frame, **options)
    assert closes["ended_because"] == "done"
    with pytest.raises(NoSignal, match="KeyError: 'vol'; the bars have open, high, low, close"):
        run_strategy(above_average("vol"), source=frame, **options)
    bought = pd.DataFrame({SHARE: 1.0}, index=closes.signal.index[:1])
    assert run_signal(bought, prices=frame, **options)["ended_because"] == "done"
    capped = RunSpec(question="", rules=Rulebook.mainland(volume_share=0.1))
    with pytest.raises(BadOption, match=r"volume_share=0\.1 needs the field 'vol'.* volume_unit"):
        run_strategy(capped, strategy=bought, source=frame, **options)
    volumes = f"{SHARE}，2025年7月到10月，成交量高于5日均量时买入，跌破20日均线卖出"
    asked = run_strategy(volumes, source=frame, **options)
    assert asked["ended_because"] == "needs_answer"
    assert "没有单位明确的成交量或成交额，无法判断：成交量、均量。知道单位时用 volume_unit" in asked["error"]
    answer = "收盘价高于20日均线时买入，跌破20日均线卖出"
    assert resume_run(asked.folder, answer=answer, source=frame)["ended_because"] == "done"


def test_a_volume_without_a_unit_stops_no_rule_on_closes(without_unit, tmp_path):
    path = without_unit

    def command(rule: str):
        told = f"{SHARE}, {rule}, 2025-07 to 2025-10"
        options = ["--source", str(path), "--headless", "--model", "keyless", "--out", str(tmp_path / "runs")]
        return subprocess.run(
            [sys.executable, "-m", "quantgraph", "run", told, *options],
            capture_output=True,
            text=True,
            check=False,
        )

    closes = command("buy when the close is above the 5-day average, sell below it")
    assert closes.returncode == 0, closes.stderr
    assert (
        "vol = 成交量 (in a unit that nothing shows, so left out; say it with volume_unit)" in closes.stdout
    )
    volumes = command(
        "buy when volume is above twice its 5-day average, sell when volume is below half of it"
    )
    assert volumes.returncode == 2
    assert "say volume_unit=shares or volume_unit=hands" in volumes.stderr
