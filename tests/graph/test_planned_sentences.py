"""Sentences with a trade plan, traded: what is filled, and when and at which price, follows from the price files alone."""

from __future__ import annotations

from itertools import pairwise
from math import floor
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from plain_prices import Bars, a_share, before, mean, nasdaq, ups
from sentence_play import SentenceModel, clause, reading

from quantgraph.broker import TradePlan
from quantgraph.broker.ledger import Ledger
from quantgraph.report import BuyAndHold
from quantgraph.runs import RunSpec, replay, run_strategy

pytestmark = pytest.mark.proof

SUMMER = ("20250506", "20251031")
HELD = """\
close = snapshot["ohlcv"]["close"]
GLOBAL_DATA_STATE.update("signal", {"buy_and_hold": (close * 0) + 1})
"""


@pytest.fixture
def trade(tmp_path, shared_data):
    """Run a sentence on a folder's files, and return its result with its fills: session, symbol, side, shares, price."""

    def run(sentence: str, source: str = "a_share", model: Any = "keyless") -> tuple[Any, list[tuple]]:
        result = run_strategy(
            sentence, source=Path(shared_data, "ai-trader", source), model=model, out=tmp_path
        )
        assert result["ended_because"] == "done", result.get("open_question") or result["error"]
        with Ledger(Path(result["run_dir"], "ledger.sqlite")) as ledger:
            orders = [each for each in ledger.order_records(result["run_id"]) if hasattr(each, "price")]
        return result, [
            (each.session, each.order.symbol, each.order.side, int(each.quantity), float(each.price))
            for each in orders
        ]

    return run


def month_starts(sessions: pd.Index, start: str, end: str) -> list[pd.Timestamp]:
    """The session after the first of a window, whose row is the first that is traded, and the first of later months."""
    days = sessions[(sessions >= pd.Timestamp(start)) & (sessions <= pd.Timestamp(end))]
    return [days[1], *(now for last, now in pairwise(days) if last.month != now.month)]


def stopped_trades(bars: Bars, code: str, stop: float) -> list[tuple]:
    """5 and 20-day crosses with a stop: T+1, levels down to the cent, less the dividend on an ex-day."""
    close, opened, low = (bars[name][code] for name in ("close", "open", "low"))
    fast, slow = (mean((bars["close"] / bars["pre_close"])[[code]].cumprod(), days) for days in (5, 20))
    enters, leaves = ups(fast, slow)[code], ups(slow, fast)[code]
    dividend = (close.shift(1) - bars["pre_close"][code]).round(4)
    trades, level, waits = list[tuple](), 0.0, False
    for last, day in pairwise(close.index):
        if level:
            level -= dividend[day]
            at_open = waits or opened[day] <= level or leaves[last]
            if at_open or low[day] <= level:
                trades.append((day, "sell", opened[day] if at_open else round(level, 2)))
                level = 0.0
            waits = False
        elif enters[last]:
            trades.append((day, "buy", opened[day]))
            level = floor(round((1 - stop) * opened[day] * 100, 6)) / 100
            waits = low[day] <= level
    return trades


def test_a_stop_that_was_said_is_sold_by_the_broker_at_its_level(trade):
    result, fills = trade("国电南瑞5日线上穿20日线买入，下穿卖出，跌5%止损，2025年")
    assert result["plan"] == {"stop_loss": "0.05"}
    traded = [(session, side, price) for session, _, side, _, price in fills]
    assert traded == stopped_trades(a_share(), "600406.SH", 0.05)
    differ = {*traded} ^ {*stopped_trades(a_share(), "600406.SH", 0.99)}
    assert f"{min(differ)[0]:%Y-%m-%d} 600406" in result["understanding"]["clauses"][2]["mattered"]["en"]
    assert replay(result["run_dir"]).identical


def test_a_third_of_the_account_that_was_said_is_what_a_purchase_takes(trade):
    """r2: 30% of the million is what the most lots of 100 shares come to."""
    result, fills = trade("招商银行：5日线上穿20日线买入，下穿卖出，每次只用三成资金，2025年5月6日到10月31日")
    assert result["plan"] == {"size": {"percent": "0.3"}}
    _, _, side, shares, price = fills[0]
    assert (side, shares) == ("buy", 100 * floor(300_000 / (100 * price)))


def test_the_callers_plan_wins_word_by_word_and_the_first_lines_say_so(shared_data, tmp_path):
    result = run_strategy(
        RunSpec(
            question="国电南瑞5日线上穿20日线买入，下穿卖出，跌5%止损，每次只用三成资金，2025年",
            plan=TradePlan(stop_loss=0.08),
        ),
        source=Path(shared_data, "ai-trader", "a_share"),
        model="keyless",
        out=tmp_path,
    )
    assert result["plan"] == {"size": {"percent": "0.3"}, "stop_loss": "0.08"}
    assert "计划以给出的参数为准：止损 8%，不是句子里的止损 5%" in result["notes"]


REGULAR = "每个月第一个交易日定投长江电力5000元，一直拿着不卖，2025年5月6日到10月31日"


def regular_buying() -> SentenceModel:
    return SentenceModel(
        readings=[
            reading(
                "600900.SH",
                SUMMER,
                clause("每个月第一个交易日", "plan", "每月第一个交易日买入"),
                clause("定投长江电力5000元", "plan", "每次定投买入长江电力5000元"),
                clause("一直拿着不卖", "exit", "一直持有，从不卖出"),
                plan={"trade_on": "month_start", "accumulate": {"amount": 5000, "on": "schedule"}},
            )
        ],
        cells=[HELD],
    )


@pytest.mark.parametrize("by", ["keyless", "model"])
def test_regular_buying_buys_on_the_first_session_of_each_month(trade, by):
    """s07: 5,000 yuan are one lot of a stock at 27 to 31."""
    result, fills = trade(REGULAR, model="keyless" if by == "keyless" else regular_buying().model)
    opened = a_share()["open"]["600900.SH"]
    days = month_starts(opened.index, *SUMMER)
    assert fills == [
        (day, "600900.SH", "buy", 100 * floor(5000 / (100 * opened[day])), opened[day]) for day in days
    ]
    assert result["plan"] == {"accumulate": {"amount": "5000", "on": "schedule"}, "trade_on": "month_start"}


def test_what_is_bought_more_at_each_rise_is_counted_from_the_last_purchase(trade):
    """s06: two tenths of the account at the open after a close 5% above the purchase before."""
    result, fills = trade(
        "中国平安收盘价上穿20日线买三成仓，之后每涨5%加两成仓，跌破20日线清仓，2025年5月6日到10月31日"
    )
    assert result["plan"] == {
        "size": {"percent": "0.3"},
        "accumulate": {"percent": "0.2", "on": "rise", "by": "0.05"},
    }
    bars = a_share()["close"][["601318.SH"]]
    close, below = bars["601318.SH"], (bars < mean(bars, 20))["601318.SH"]
    basis, added = np.nan, 0
    for session, _, side, _, price in fills:
        last = close.index[close.index.get_loc(session) - 1]
        if side == "buy" and not np.isnan(basis):
            assert close[last] >= 1.05 * basis
            added += 1
        assert side == "buy" or below[last]
        basis = price if side == "buy" else np.nan
    assert added


def test_a_ranking_on_a_schedule_holds_the_best_of_the_session_before(trade):
    """The three best by the close before each month's first session, a third of the account each."""
    codes = ["AAPL", "AMD", "AMZN", "GOOGL", "META", "MSFT", "NVDA", "TSLA"]
    result, fills = trade(
        f"{', '.join(codes)}: buy the 3 stocks with the highest 20-day return, sell the rest, rebalance "
        "monthly, from 2025-07-15 to 2025-10-30",
        source="us",
    )
    assert result["plan"] == {"max_positions": 3, "trade_on": "month_start"}
    close = nasdaq()["close"][codes]
    score, held = close / before(close, 20) - 1, set[str]()
    days = month_starts(close.index, "20250715", "20251030")[1:]
    assert {session for session, *_ in fills} <= set(days)
    for day in days:
        for _, code, side, _, _ in (each for each in fills if each[0] == day):
            held = held | {code} if side == "buy" else held - {code}
        last = close.index[close.index.get_loc(day) - 1]
        assert held == set(score.loc[last].nlargest(3).index)


def test_a_decider_without_signals_gets_the_stop_and_names_the_size(tmp_path):
    """The sample's first close below 95% of the purchase ends it; the next session buys and holds again."""
    result = run_strategy("000341.SZ，2024年，止损5%，每次只用三成资金", decider=BuyAndHold(), out=tmp_path)
    assert (result["ended_because"], result["plan"]) == ("done", {"stop_loss": "0.05"})
    clauses = result["understanding"]["clauses"]
    assert {each["words"]: each["status"] for each in clauses} == {
        "止损5%": "done",
        "每次只用三成资金": "not_done",
    }
    with Ledger(Path(result["run_dir"], "ledger.sqlite")) as ledger:
        bought, sold, *_ = ledger.order_records(result["run_id"])
    assert (bought.order.side, sold.order.side) == ("buy", "sell")
    assert float(sold.price) == floor(95 * float(bought.price)) / 100


def test_leverage_is_asked_about_beside_a_plan_that_is_carried_out(tmp_path):
    rule = "SYN30, 2024: buy the 5 stocks with the highest 20-day return, sell the rest"
    result = run_strategy(
        f"{rule}, on the first trading day of each month, stop loss 8%, 2x leverage", out=tmp_path
    )
    assert result["ended_because"] == "needs_answer"
    assert result["open_question"]["options"] == ["go on without 2x leverage"]
    assert result["account"] is None
