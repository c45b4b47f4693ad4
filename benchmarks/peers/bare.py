"""The common rule as a bare numba loop over arrays: the measure that everything else is divided by."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numba as nb
import numpy as np
from peers.measure import Figures, measure
from peers.panel import Panel
from peers.rule import TICKET, cash_of, fees_of, largest_buy, rates_of


class Trades(NamedTuple):
    """One entry per fill, in the order of execution; sells have negative quantities, money is in cents."""

    session: np.ndarray
    symbol: np.ndarray
    quantity: np.ndarray
    price: np.ndarray
    fees: np.ndarray


def bare(panel: Panel) -> Figures:
    """Nothing but the rule."""
    run = prepare(panel)

    def once() -> tuple[int, float]:
        trades, equity = run()
        return len(trades.session), equity[-1] / 100

    return measure(once, compiles=True)


def prepare(panel: Panel) -> Callable[[], tuple[Trades, np.ndarray]]:
    """Return a call that simulates once: the trades, and the equity in cents per session."""
    arrays = panel.open, panel.close, panel.up_limit, panel.down_limit, panel.signal, *rates_of(panel)
    cash = cash_of(panel) * 100

    def run() -> tuple[Trades, np.ndarray]:
        *trades, equity = _simulate(*arrays, cash)
        return Trades(*trades), equity

    return run


@nb.njit(cache=True)
def _cents(price):
    return np.int64(price * 100 + 0.5)


@nb.njit(cache=True)
def _simulate(opens, closes, up, down, signal, stamp, transfer, cash):  # noqa: C901, PLR0912, PLR0915, PLR0917
    days, symbols = opens.shape
    most = np.count_nonzero(signal)  # every fill has an opinion of its own
    session, symbol = np.empty(most, np.int32), np.empty(most, np.int32)
    quantity, price, paid = np.empty(most, np.int64), np.empty(most, np.int64), np.empty(most, np.int64)
    opinions = np.zeros(symbols, np.int8)
    shares, marks = np.zeros(symbols, np.int64), np.zeros(symbols, np.int64)
    held, entries = np.empty(symbols, np.int64), np.empty(symbols, np.int64)
    equity = np.empty(days, np.int64)
    equity[0] = cash
    count = holdings = 0
    for t in range(1, days):
        wanted = 0
        for j in range(symbols):
            opinion = signal[t - 1, j]
            if opinion != 0:
                opinions[j] = opinion
                if opinion > 0 and shares[j] == 0:
                    entries[wanted] = j
                    wanted += 1
        # Sells; ``held`` stays ascending.
        kept = 0
        for i in range(holdings):
            j = held[i]
            if opinions[j] < 0 and opens[t, j] > down[t, j]:
                at = _cents(opens[t, j])
                fees = fees_of(at * shares[j], stamp[t], transfer[t])
                cash += at * shares[j] - fees
                session[count], symbol[count], quantity[count] = t, j, -shares[j]
                price[count], paid[count] = at, fees
                count += 1
                shares[j] = 0
            else:
                held[kept] = j
                kept += 1
        # Buys; those made are moved to the front of ``entries``.
        bought = 0
        ticket = min(TICKET * 100, cash // max(wanted, 1))
        for i in range(wanted):
            j = entries[i]
            if opens[t, j] < up[t, j]:
                at = _cents(opens[t, j])
                size = largest_buy(at, ticket, transfer[t])
                if size > 0:
                    fees = fees_of(at * size, 0, transfer[t])
                    cash -= at * size + fees
                    session[count], symbol[count], quantity[count] = t, j, size
                    price[count], paid[count] = at, fees
                    count += 1
                    shares[j] = size
                    entries[bought] = j
                    bought += 1
        # Merge them into ``held``, from the back.
        i, k, holdings = kept - 1, bought - 1, kept + bought
        while k >= 0:
            if i >= 0 and held[i] > entries[k]:
                held[i + k + 1] = held[i]
                i -= 1
            else:
                held[i + k + 1] = entries[k]
                k -= 1
        value = cash
        for i in range(holdings):
            j = held[i]
            if not np.isnan(closes[t, j]):
                marks[j] = _cents(closes[t, j])
            value += shares[j] * marks[j]
        equity[t] = value
    return session[:count], symbol[:count], quantity[:count], price[:count], paid[:count], equity
