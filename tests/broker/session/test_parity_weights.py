"""Weights, entries and exits, and scores against bt, vectorbt and accounts in plain Python."""

from __future__ import annotations

import importlib.util
import json
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from quantgraph import SignalRule
from quantgraph.broker import Account, Market, TradePlan, simulate
from quantgraph.market import Rulebook
from quantgraph.state import DataState

ROOT = Path(__file__).parents[3]
THEIRS = json.loads((ROOT / "tests" / "data" / "parity" / "weights.json").read_text(encoding="utf-8"))
_SPEC = importlib.util.spec_from_file_location("parity_weights", ROOT / "scripts" / "parity_weights.py")
parity = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(parity)


@pytest.fixture(scope="module")
def panels(shared_data):
    return parity.panels()


def traded(opens, panel, frames, rules, cash, **plan):
    """The results of all sessions but the first, whose opens and closes are ``opens``."""
    store = DataState()
    store.update("ohlcv", {"open": opens, "close": opens})
    market = Market(store=store, data_ref=store.update(panel, frames), rules=rules)
    account = Account.opening(cash)
    days = list(opens.index[1:])
    return list(simulate(market, days, SignalRule(), account=account, plan=TradePlan(**plan)))


def worth(result, opens):
    """Cash and holdings at the session's opens."""
    held = {symbol: float(each.quantity) for symbol, each in result.account.positions.items()}
    return float(result.account.cash) + sum(
        shares * opens.at[result.session, symbol] for symbol, shares in held.items()
    )


@pytest.mark.parametrize("seed", range(parity.PATHS))
@pytest.mark.parametrize("name", ["sse", "nasdaq"])
def test_weights_are_worth_what_bt_makes_of_them(panels, name, seed):
    opens = panels[name]
    weights = parity.weights_of(opens, seed)
    for at, rate in enumerate((0, parity.COMMISSION)):
        rules = Rulebook.us(fractional=True, commission_bps=rate * 10_000)
        if not rate:
            rules = Rulebook.zero_cost("us", fractional=True)
        results = traded(opens, "weights", {"w": weights}, rules, parity.CASH, size="weights")
        days = weights.shift(1).dropna(how="all").index
        mine = [worth(each, opens) for each in results if each.session in days]
        theirs = THEIRS["bt"][name][seed][at]
        fills = sum(len(each.fills) for each in results)
        cents = (
            0.01 * fills if rate else 0.0
        )  # a fee is billed in whole cents here, and the seller's up to one
        assert max(abs(a - b) for a, b in zip(mine, theirs, strict=True)) < 0.01 + cents


@pytest.mark.parametrize("seed", range(parity.PATHS))
@pytest.mark.parametrize("name", ["sse", "nasdaq"])
def test_entries_and_exits_are_worth_what_vectorbt_makes_of_them(panels, name, seed):
    opens = panels[name]
    entries, exits = parity.events_of(opens, seed)
    plan = {"size": {"shares": 100}, "max_positions": opens.shape[1], "reentry": "any"}
    results = traded(
        opens,
        "signal",
        {"entries": entries, "exits": exits},
        Rulebook.zero_cost("us"),
        10 * parity.CASH,
        **plan,
    )
    assert worth(results[-1], opens) == pytest.approx(THEIRS["vectorbt"][name][seed], abs=0.01)


def mainland_fees(side, amount):
    """0.03 % and at least 5 yuan, 0.05 % of sales, 0.001 % of both, each half up to the cent, as of 2024."""

    def cents(value):
        return math.floor(value * 100 + 0.5 + 1e-7) / 100

    duty = cents(amount * 0.0005) if side == "sell" else 0.0
    return (max(5.0, cents(amount * RATE)) + duty + cents(amount * 0.00001)) if amount else 0.0


RATE = 0.00025


def plain_account(opens, weights, cash):
    """A second account: lots of 100 by largest remainder, sales first, a trade's amount with its fees."""
    held, values = dict.fromkeys(opens.columns, 0), []
    for at in range(1, len(opens)):
        price, row = opens.iloc[at], weights.iloc[at - 1]
        base = math.floor(round((cash + sum(held[s] * price[s] for s in held)) * 100, 4)) / 100
        moves = {
            s: move(weight * base - held[s] * price[s], price[s], held[s])
            for s, weight in row.dropna().items()
        }
        gone = [s for s in moves if row[s] == 0]
        for symbol in gone:
            del moves[symbol]
            cash += brought(price[symbol], held[symbol] / 100)
            held[symbol] = 0
        left = sum(each[2] for each in moves.values())
        for symbol in sorted(moves, key=lambda s: (-round(moves[s][2] / moves[s][3], 9), s)):
            if moves[symbol][3] <= left + 1e-7:
                left -= moves[symbol][3]
                moves[symbol][0] += moves[symbol][1]
        for symbol, (lots, sign, _, _) in sorted(moves.items(), key=lambda item: item[1][1]):
            cash -= paid(price[symbol], lots) if sign > 0 else -brought(price[symbol], lots)
            held[symbol] += sign * lots * 100
        assert cash > -1e-6
        values.append(cash + sum(held[s] * price[s] for s in held))
    return values, held


def move(lacking, price, held):
    """Lots, side, what rounding leaves over, and what a lot more in the holding costs."""
    lots = 0
    if lacking > 0:
        while paid(price, lots + 1) <= lacking + 1e-7:
            lots += 1
        return [lots, +1, lacking - paid(price, lots), paid(price, lots + 1) - paid(price, lots)]
    while brought(price, lots) < -lacking - 1e-7:
        lots += 1
    lots = min(lots, held // 100)
    more = brought(price, lots) - brought(price, lots - 1) if lots else math.inf
    return [lots, -1, brought(price, lots) + lacking, more]


def paid(price, lots):
    amount = round(price * lots * 100, 2)
    return amount + mainland_fees("buy", amount)


def brought(price, lots):
    amount = round(price * lots * 100, 2)
    return amount - mainland_fees("sell", amount)


@pytest.mark.parametrize("seed", range(6))
def test_lots_go_to_the_largest_remainders_as_in_a_second_account(seed):
    rng = np.random.default_rng(seed)
    days = pd.bdate_range("2024-01-02", periods=80)
    codes = [f"6000{at:02d}.SH" for at in range(12)]
    walk = 20 * np.exp(np.cumsum(rng.normal(0, 0.01, (len(days), len(codes))), axis=0))
    opens = pd.DataFrame((walk * rng.uniform(0.3, 6, len(codes))).round(2), days, codes)
    weights = parity.weights_of(opens, seed)
    results = traded(opens, "weights", {"w": weights}, Rulebook.mainland(), 1_000_000, size="weights")
    values, held = plain_account(opens, weights, 1_000_000.0)
    assert [worth(each, opens) for each in results] == pytest.approx(values, abs=0.006)
    ours = {symbol: int(each.quantity) for symbol, each in results[-1].account.positions.items()}
    assert ours == {symbol: shares for symbol, shares in held.items() if shares}
