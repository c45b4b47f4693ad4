"""Each word of a trade plan, and thirty plans of several, on real prices: equal to an account in plain Python."""

from __future__ import annotations

import csv
import gzip
import random
from datetime import date
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from load_script import load_script

from quantgraph import SignalRule
from quantgraph.broker import Account, Market, TradePlan, simulate
from quantgraph.broker.ledger import Ledger
from quantgraph.broker.session import run_sessions
from quantgraph.market import Rulebook
from quantgraph.state import DataState

pytestmark = pytest.mark.proof

plain = load_script(Path(__file__).parents[1] / "plan_account.py")
FIELDS = ("open", "high", "low", "close")
CASH = 3_000_000

WORDS = {
    "nothing": {},
    "percent": {"size": {"percent": "0.3"}},
    "cash": {"size": {"cash": "200000"}, "max_positions": 20},
    "shares": {"size": {"shares": "1500"}},
    "equal_weight": {"size": "equal_weight", "trade_on": "week_start"},
    "max_positions": {"max_positions": 3},
    "rank": {"rank": "ohlcv.close", "max_positions": 4},
    "rank lowest": {"rank": "-ohlcv.vol", "max_positions": 4},
    "reserve": {"cash_reserve": "0.25"},
    "week": {"trade_on": "week_start"},
    "month": {"trade_on": "month_start"},
    "quarter": {"trade_on": "quarter_start"},
    "every 7": {"trade_on": 7},
    "regular": {"accumulate": {"amount": "30000", "on": "schedule"}, "trade_on": "month_start"},
    "rise": {
        "accumulate": {"percent": "0.05", "on": "rise", "by": "0.03", "times": 2},
        "size": {"percent": "0.05"},
    },
    "fall": {"accumulate": {"shares": "700", "on": "fall", "by": "0.02"}, "size": {"percent": "0.05"}},
    "rebalance": {"rebalance": "month_start", "band": "0.01"},
    "stop": {"stop_loss": "0.04"},
    "target": {"take_profit": "0.05"},
    "trailing": {"trailing_stop": "0.05"},
    "holding": {"max_holding": 8},
    "range": {"stop_loss": {"atr": "1.5", "window": 10}, "take_profit": {"atr": "3", "window": 10}},
    "trailing range": {"trailing_stop": {"atr": "2"}},
    "any": {"stop_loss": "0.03", "reentry": "any"},
    "exit on every": {"trade_on": "week_start", "exit_on": "every"},
    "last row": {"trade_on": "week_start", "entry_row": "last"},
    "no entry on": {"no_entry_on": {"weekdays": [5], "months": [4, 8], "sessions": [1, -1]}},
    "no resize on": {"size": "equal_weight", "trade_on": 3, "no_entry_on": {"weekdays": [3, 4]}},
    "cooldown": {"cooldown": 5, "stop_loss": "0.03", "reentry": "any"},
    "min holding": {"min_holding": 9, "stop_loss": "0.04"},
    "min holding of a week": {"min_holding": 7, "trade_on": "week_start"},
}
TIMED = {
    "exit_on": [None, "every"],
    "entry_row": [None, "last"],
    "no_entry_on": [None, {"weekdays": [1, 2], "sessions": [-2]}, {"months": [7], "sessions": [3, 4, 5]}],
    "cooldown": [None, 1, 8],
    "min_holding": [None, 2, 6],
}
CHOICES = {
    "size": [None, {"percent": "0.2"}, {"cash": "250000"}, {"shares": "900"}, "equal_weight"],
    "max_positions": [None, 2, 6, 15],
    "trade_on": [None, "week_start", "month_start", 4],
    "rank": [None, "ohlcv.vol", "-ohlcv.close"],
    "cash_reserve": [None, "0.1"],
    "accumulate": [None, None, {"percent": "0.04", "on": "rise", "by": "0.02", "times": 3}, {"amount": "20000", "on": "schedule"}],
    "rebalance": [None, None, "month_start"],
    "stop_loss": [None, "0.03", "0.08", {"atr": "2.5", "window": 14}],
    "take_profit": [None, "0.04", "0.15"],
    "trailing_stop": [None, "0.06"],
    "max_holding": [None, 5, 30],
    "reentry": [None, "any"],
}  # fmt: skip


def combined(seed, choices=CHOICES):
    """A plan of several words that fit together."""
    rng = random.Random(seed)
    said = {name: value for name, values in choices.items() if (value := rng.choice(values)) is not None}
    kind = next(iter(said["size"])) if isinstance(said.get("size"), dict) else said.get("size")
    if kind in {"cash", "shares"}:
        said.pop("rebalance", None)
    if "rebalance" in said or kind == "equal_weight":
        said.pop("accumulate", None)
        said["band"] = "0.02"
    return said


PLANS = WORDS | {f"plan {seed}": combined(seed) for seed in range(30)}
PLANS |= {f"timed {seed}": combined(seed, CHOICES | TIMED) for seed in range(103, 111)}


def sse_50(shared_data):
    file = shared_data / "ai-trader" / "a_share" / "daily_prices_sse_50_20250102_20251031.csv"
    with file.open(encoding="utf-8") as lines:
        for row in csv.DictReader(lines):
            day = date.fromisoformat(row["trade_date"])
            yield row | {"day": day, "symbol": row["ts_code"]}


def nasdaq_100(shared_data):
    file = shared_data / "ai-trader" / "us" / "daily_prices_nasdaq_100_20250610_20251030.csv.gz"
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        for row in csv.DictReader(lines):
            yield row | {"day": date.fromisoformat(row["date"]), "vol": row["volume"]}


SOURCES = {"cn": (sse_50, (*FIELDS, "pre_close", "vol")), "us": (nasdaq_100, (*FIELDS, "vol"))}


class World:
    """Real prices of every n-th symbol with a signal, for both sides."""

    def __init__(self, market, shared_data, every):
        read, fields = SOURCES[market]
        rows = list(read(shared_data))
        symbols = sorted({row["symbol"] for row in rows})[::every]
        self.bars = plain.panel([row for row in rows if row["symbol"] in symbols], fields)
        self.mainland = market == "cn"
        days = sorted(self.bars["open"])
        index = pd.DatetimeIndex(days, name="trade_date").as_unit("us")
        frames = {
            name: pd.DataFrame(
                [[float(self.bars[name][day].get(symbol, "nan")) for symbol in symbols] for day in days],
                index,
                symbols,
            )
            for name in fields
        }
        mean = frames["close"].rolling(10).mean()
        state = np.where(frames["close"] > mean, 1.0, -1.0)
        signal = pd.DataFrame(np.where(mean.isna(), np.nan, state), index, symbols)
        self.signal = [dict(zip(symbols, row, strict=True)) for row in signal.to_numpy().tolist()]
        store = DataState()
        store.update("ohlcv", frames)
        rules = Rulebook.mainland() if self.mainland else Rulebook.zero_cost("us")
        ref = store.update("signal", {"state": signal})
        self.market = Market(store=store, data_ref=ref, rules=rules, blocks_from=0)
        self.days = list(index)


@pytest.fixture(scope="module", params=["cn", "us"])
def world(request, shared_data):
    return World(request.param, shared_data, 5)


@pytest.fixture(scope="module", params=["cn", "us"])
def whole_world(request, shared_data):
    return World(request.param, shared_data, 1)


def exact(value):
    """A plan's numbers as fractions."""
    if isinstance(value, dict):
        return {name: part if name == "on" else exact(part) for name, part in value.items()}
    return Fraction(value) if isinstance(value, str) and value[0] in "0123456789" else value


def told(fills):
    return [
        (fill.session.date(), fill.order.symbol, fill.side, int(fill.quantity), Fraction(fill.price))
        for fill in fills
    ]


def check(world, said):
    expected = plain.PlanAccount(
        bars=world.bars, signal=world.signal, plan=exact(said), cash=CASH * 100, mainland=world.mainland
    ).run()
    plan, account = TradePlan.of(said), Account.opening(CASH)
    results = list(simulate(world.market, world.days, SignalRule(), account=account, plan=plan))
    fills = [told(result.fills) for result in results]
    mine = [fill for each in fills for fill in sorted(each)]
    theirs = sorted(expected.fills, key=lambda fill: fill[0])
    theirs = [
        fill
        for day in dict.fromkeys(fill[0] for fill in theirs)
        for fill in sorted(f for f in theirs if f[0] == day)
    ]
    for one, other in zip(mine, theirs, strict=False):
        assert one == other
    assert len(mine) == len(theirs)
    assert [Fraction(result.value) for result in results] == expected.values
    assert results[-1].account.cash * 100 == expected.cash
    return results


@pytest.mark.parametrize("name", PLANS)
def test_a_plan_is_carried_out_to_the_cent(world, name):
    assert sum(len(result.fills) for result in check(world, PLANS[name])) >= 10


@pytest.mark.proof
@pytest.mark.parametrize("name", PLANS)
def test_a_plan_is_carried_out_to_the_cent_on_all_symbols(whole_world, name, tmp_path):
    results = check(whole_world, PLANS[name])
    parts = [1, 3, 40, len(whole_world.days) - 2, len(whole_world.days)]
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        for part in parts:  # in blocks where the plan allows it, and stopped in between
            run_sessions(
                whole_world.market,
                whole_world.days[:part],
                SignalRule(),
                cash=CASH,
                ledger=ledger,
                run_id="run",
                plan=TradePlan.of(PLANS[name]),
            )
        ledger.check("run")
        read = list(ledger.results("run"))
    assert [(each.outcomes, each.value) for each in read] == [(each.outcomes, each.value) for each in results]
