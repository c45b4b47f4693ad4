"""What array code refuses is remembered with its reason: a run asks it again only where that may change."""

import numpy as np
import pandas as pd
import pytest

from quantgraph.agents import SignalRule
from quantgraph.broker import Account, Market, RunContext, TradePlan
from quantgraph.broker.accounts import Block
from quantgraph.broker.ledger import Ledger
from quantgraph.broker.session import _simulate, advance, run_sessions
from quantgraph.market import Rulebook
from quantgraph.state import DataState


def walk(days, codes, digits=2):
    rng = np.random.default_rng(3)
    closes = 20 * np.exp(rng.normal(0, 0.01, (len(days), len(codes))).cumsum(0))
    return pd.DataFrame(closes if digits is None else closes.round(digits), days, codes)


@pytest.fixture
def tried(monkeypatch):
    """The first session of each try of array code, and whether it was refused."""
    tries, trade = [], _simulate._trade_block

    def counted(market, sessions, *rest):
        block = trade(market, sessions, *rest)
        tries.append((sessions[0], block is None))
        return block

    monkeypatch.setattr(_simulate, "_trade_block", counted)
    return tries


def trade(prices, rules, ledger, **plan):
    """A run of a crossover by every path, and again order by order: the journals."""
    signal = (prices > prices.rolling(5).mean()).astype(float).diff()
    store = DataState()
    ref = store.update("ohlcv", {"open": prices, "close": prices})
    ref = store.update("signal", {"s": signal}, base=ref)
    journals = []
    for name, least in (("blocks", 0), ("orders", 10**9)):
        market = Market(store=store, data_ref=ref, rules=rules, blocks_from=least)
        options = {"cash": 200_000, "ledger": ledger, "run_id": name, "plan": TradePlan(**plan)}
        run_sessions(market, list(prices.index), SignalRule(), **options)
        journals.append([*ledger.results(name)])
    return journals


@pytest.mark.parametrize(
    ("codes", "digits", "rules"),
    [
        (["600000.SH", "600036.SH"], None, Rulebook.mainland()),
        (["600000.SH", "600036.SH"], 2, Rulebook.mainland(volume_share=None, slippage_bps="0.0000000003")),
    ],
    ids=["prices finer than four decimals", "fees of another kind"],
)
def test_a_run_that_array_code_cannot_trade_asks_it_once(codes, digits, rules, tried, tmp_path):
    days = pd.bdate_range("2023-01-02", periods=300, name="trade_date")
    with Ledger(tmp_path / "l.db") as ledger:
        blocks, orders = trade(walk(days, codes, digits), rules, ledger)
    assert len(blocks) == 300
    assert blocks == orders
    assert sum(refused for _, refused in tried) <= 1


@pytest.mark.parametrize("by", [1, 40], ids=["dollars", "below one dollar"])
@pytest.mark.parametrize(
    "rules",
    [
        Rulebook.us(),
        Rulebook.us(commission_per_share="0.0035", commission_min=1),
        Rulebook.us(commission_per_share="0.0035", commission_min=1, slippage_bps=3, fractional=True),
    ],
)
def test_us_shares_are_traded_in_blocks_with_what_regulators_take(rules, by, tried, tmp_path):
    days = pd.bdate_range("2023-01-02", periods=300, name="trade_date")
    with Ledger(tmp_path / "l.db") as ledger:
        blocks, orders = trade((walk(days, ["AAA", "BBB"]) / by).round(4), rules, ledger)
    assert blocks == orders
    assert sum(fill.regulatory for day in blocks for fill in day.fills) > 1
    assert not any(refused for _, refused in tried)


@pytest.mark.parametrize(
    "plan",
    [
        {"rank": "ohlcv.close", "max_positions": 2},
        {"rank": "-ohlcv.open", "max_positions": 1, "size": {"shares": 300}},
        {"trade_on": "week_start", "exit_on": "every", "entry_row": "last"},
        {"no_entry_on": {"weekdays": [1, 5]}, "min_holding": 6},
        {"cooldown": 7, "max_holding": 4},
        {"size": "equal_weight", "cooldown": 3, "no_entry_on": {"weekdays": [2]}},
        {"rebalance": 5, "band": 0.02, "max_positions": 3},
        {"accumulate": {"amount": 2900, "on": "schedule"}, "trade_on": "week_start"},
        {"accumulate": {"percent": 0.05, "on": "fall", "by": 0.03, "times": 3}, "size": {"percent": 0.1}},
    ],
    ids=str,
)
def test_words_of_a_plan_are_traded_in_blocks(plan, tried, tmp_path):
    days = pd.bdate_range("2023-01-02", periods=300, name="trade_date")
    for rules in (Rulebook.mainland(), Rulebook.us(fractional=True)):
        codes = ["600000.SH", "600036.SH", "601318.SH", "600519.SH"] if rules.market == "cn" else list("ABCD")
        with Ledger(tmp_path / f"{rules.market}.db") as ledger:
            blocks, orders = trade(walk(days, codes), rules, ledger, **plan)
        assert blocks == orders
        assert sum(len(day.fills) for day in blocks) > 10
        assert not any(refused for _, refused in tried)


def test_a_word_that_array_code_does_not_carry_out_is_named():
    prices = walk(pd.bdate_range("2023-01-02", periods=30, name="trade_date"), ["600000.SH", "600036.SH"])
    run = RunContext(plan=TradePlan(size="equal_weight", stop_loss=0.02))
    store = DataState()
    ref = store.update("ohlcv", dict.fromkeys(("open", "high", "low", "close"), prices))
    ref = store.update("signal", {"s": prices * 0 + 1}, base=ref)
    market = Market(store=store, data_ref=ref, rules=Rulebook.mainland(), blocks_from=0)
    [*advance(market, list(prices.index), SignalRule(), account=Account.opening(200_000), run=run)]
    assert run.kept["refused"].why.en == "exits of positions that are bought in parts"


def test_a_rank_on_other_symbols_than_the_prices_is_refused_once_with_its_reason(tried):
    prices = walk(pd.bdate_range("2023-01-02", periods=200, name="trade_date"), ["600000.SH", "600036.SH"])
    store = DataState()
    store.update("ohlcv", {"open": prices, "close": prices})
    store.update("indicators", {"pe": prices[["600036.SH"]]})
    ref = store.update("signal", {"s": prices * 0 + 1})
    market = Market(store=store, data_ref=ref, rules=Rulebook.mainland(), blocks_from=0)
    run = RunContext(plan=TradePlan(rank="-indicators.pe"))
    [*advance(market, list(prices.index), SignalRule(), account=Account.opening(200_000), run=run)]
    assert [refused for _, refused in tried] == [True]
    assert run.kept["refused"].why.en == "a rank on other days or symbols"


@pytest.mark.parametrize("year", [2004, 2007, 2012, 2015])
def test_early_years_with_duty_for_buyers_and_a_fee_of_the_face_value_are_traded_in_blocks(
    year, tried, tmp_path
):
    days = pd.bdate_range(f"{year}-01-05", periods=400, name="trade_date")
    with Ledger(tmp_path / "l.db") as ledger:
        blocks, orders = trade(walk(days, ["600000.SH", "000001.SZ"]), Rulebook.mainland(), ledger)
    assert blocks == orders
    assert not any(refused for _, refused in tried)
    bought = next(fill for day in blocks for fill in day.fills if fill.side == "buy")
    assert (bought.stamp_duty > 0) == (year in {2004, 2007})


def test_one_cell_that_it_cannot_trade_costs_few_sessions(tried):
    days = pd.bdate_range("2023-01-02", periods=300, name="trade_date")
    prices = walk(days, ["600000.SH", "600036.SH"])
    prices.iloc[100, 0] += 1e-7
    store = DataState()
    ref = store.update("ohlcv", {"open": prices, "close": prices})
    ref = store.update("signal", {"s": prices * 0 + 1}, base=ref)
    market = Market(store=store, data_ref=ref, rules=Rulebook.mainland(), blocks_from=0)
    parts = [*advance(market, list(days), SignalRule(), account=Account.opening(200_000))]
    one_by_one = [part for part in parts if not isinstance(part, Block)]
    assert 1 <= len(one_by_one) <= 2
    assert sum(refused for _, refused in tried) <= 2
