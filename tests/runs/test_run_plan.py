"""A trade plan of a run: in its result, its identity, its graph and its replay."""

from __future__ import annotations

import json
from decimal import Decimal

import pandas as pd
import pytest

from quantgraph import create_trading_graph, run_strategy
from quantgraph.broker import TradePlan
from quantgraph.broker.ledger import Ledger
from quantgraph.cli import main
from quantgraph.data import open_source
from quantgraph.errors import BadOption
from quantgraph.market.money import money
from quantgraph.runs import RunSpec, open_run, replay

pytestmark = pytest.mark.proof

SENTENCE = "000341.SZ，收盘价上穿20日均线买入，下穿60日均线卖出，2024年"
PLAN = TradePlan(stop_loss=0.03, take_profit="0.05", max_holding=15)


@pytest.fixture(scope="module")
def planned(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs")
    return run_strategy(RunSpec(question=SENTENCE, plan=PLAN), out=out, model="keyless")


def test_the_exits_are_carried_out_told_and_replayed(planned):
    assert planned["plan"] == {"stop_loss": "0.03", "take_profit": "0.05", "max_holding": 15}
    trips = planned.round_trips
    closed = trips[trips["kind"] == "closed"]
    assert len(closed) > 2
    assert (closed["holding"] <= 15).all()
    assert closed["exit_reason"].str.contains("止损|止盈|持有到期").any()
    with Ledger(planned.folder / "ledger.sqlite") as book:
        assert book.check(planned["run_id"])
    assert replay(planned.folder).identical


def test_the_plan_is_part_of_the_identity_and_of_the_page(planned):
    configuration = json.loads((planned.folder / "run.json").read_text())["identity"]["configuration"]
    assert configuration["plan.stop_loss"] == "0.03"
    assert configuration["plan.max_holding"] == 15
    page = open_run(planned.folder).report().read_text(encoding="utf-8")
    assert "计划：止损 3%、止盈 5%、最多持有 15 个交易日" in page


def test_the_graph_takes_a_plan_and_refuses_what_is_none(planned):
    graph = create_trading_graph(model="keyless", plan=PLAN, on_clarify="default")
    summary = graph.invoke({"messages": [("user", SENTENCE)]})["summary"]
    assert summary["account"]["final_value"] == planned["account"]["final_value"]
    with pytest.raises(BadOption, match="plan must be a TradePlan"):
        create_trading_graph(plan={"stop_loss": 0.1})


def test_the_command_takes_the_plan_in_percent(planned, monkeypatch, tmp_path, capsys):
    options = ["--stop-loss", "3%", "--take-profit", "0.05", "--max-holding", "15"]
    command = ["quantgraph", "run", SENTENCE, "--headless", "--json", "--out", str(tmp_path), *options]
    monkeypatch.setattr("sys.argv", command)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0
    told = json.loads(capsys.readouterr().out)
    assert told["account"]["final_value"] == planned["account"]["final_value"]
    monkeypatch.setattr("sys.argv", [*command, "--trailing-stop", "much"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert "--trailing-stop much: must be a share, such as 8% or 0.08" in capsys.readouterr().err


def fills_of(result):
    with Ledger(result.folder / "ledger.sqlite") as book:
        return [fill for each in book.results(result["run_id"]) for fill in each.fills]


def test_the_first_purchases_of_thirty_stocks_are_a_tenth_of_the_account_each(tmp_path):
    rule = "5日均线上穿20日均线买入，下穿卖出，2024年"
    thirty = run_strategy(f"合成30成分股，{rule}", out=tmp_path, model="keyless")
    first = fills_of(thirty)[0]
    assert 90_000 < first.notional <= 100_000
    alone = run_strategy(f"000341.SZ，{rule}", out=tmp_path, model="keyless")
    assert fills_of(alone)[0].notional > 990_000
    pages = [open_run(each.folder).report().read_text(encoding="utf-8") for each in (thirty, alone)]
    assert "每次买入用账户的 1/10；30 只里最多持有 10 只，先后按代码（默认）" in pages[0]
    assert "每次买入用全部资金（默认）" in pages[1]


def test_regular_buying_alone_is_a_strategy_without_a_model(tmp_path):
    bought = fills_of(
        run_strategy("000341.SZ 2024年 每个月第一个交易日定投5000元", out=tmp_path, model="keyless")
    )
    # the run's first session is 2 January: it has no row before, so that month is bought on the 3rd
    days = ["0103", "0201", "0301", "0401", "0506", "0603", "0701", "0801", "0902", "1008", "1101", "1202"]
    assert [f"{fill.session:%m%d}" for fill in bought] == days
    assert all(4_500 < fill.notional + fill.cost <= 5_000 for fill in bought)


def test_cash_that_whole_lots_cannot_take_is_told(tmp_path):
    run = run_strategy("000341.SZ 2024年 每个月第一个交易日定投1500元", out=tmp_path, model="keyless")
    paid = [fill.notional + fill.cost for fill in fills_of(run)]
    mean = sum(paid) / len(paid)
    assert mean < 1_350
    assert f"每次说的是 1,500，按整手平均只买了 {mean:,.0f}，其余留作现金" in run["notes"]


def test_the_cash_that_is_said_is_the_runs_unless_the_caller_names_one(tmp_path):
    said = "000341.SZ，收盘价上穿20日均线买入，下穿60日均线卖出，2024年，用10万元本金"
    own = run_strategy(said, out=tmp_path, model="keyless")
    given = run_strategy(said, out=tmp_path, model="keyless", cash=30_000)
    equity = [each["equity"]["account"][0] for each in (own, given)]
    assert equity == [100_000, 30_000]
    assert 98_000 < fills_of(own)[0].notional <= 100_000
    assert replay(own.folder).identical


def test_costs_that_are_said_are_charged_and_a_benchmark_is_compared_with(tmp_path):
    said = "000341.SZ，收盘价上穿20日均线买入，下穿60日均线卖出，2024年，手续费万分之五，滑点千分之一"
    run = run_strategy(said, out=tmp_path, model="keyless", plan=TradePlan(benchmark="000342.SZ"))
    fill = fills_of(run)[0]
    assert fill.commission == money(fill.notional * Decimal("0.0005"))
    assert fill.slippage == money(fill.notional * Decimal("0.001"))
    source = open_source("sample")
    sessions = pd.DatetimeIndex(run["equity"]["sessions"])
    bars = source.bars(["000342.SZ"], sessions[0], sessions[-1])
    first, last = bars["open"]["000342.SZ"].loc[sessions[1]], bars["close"]["000342.SZ"].iloc[-1]
    assert run["index"]["return"] == pytest.approx(last / first - 1)
    assert run["plan"] == {"commission": "0.0005", "slippage_bps": "10", "benchmark": "000342.SZ"}
    assert replay(run.folder).identical
    page = open_run(run.folder).report().read_text(encoding="utf-8")
    assert "佣金 0.05%（税费另计）" in page
    assert "000342.SZ" in page


def test_a_benchmark_that_the_source_lacks_is_asked_about(tmp_path):
    said = "000341.SZ，收盘价上穿20日均线买入，下穿60日均线卖出，2024年，以沪深300为基准"
    run = run_strategy(said, out=tmp_path, model="keyless")
    assert run["error"].startswith("needs_answer: sample 没有它的行情，无法比较：以沪深300为基准")
