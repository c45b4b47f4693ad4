"""What to compare with, traded through the same desk and valued by the same function."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import ROUND_DOWN, Decimal

import pandas as pd

from quantgraph.broker.account import Account
from quantgraph.broker.desk import largest_buy
from quantgraph.broker.orders import Order, Outcome
from quantgraph.broker.quotes import quotes_at
from quantgraph.broker.simulate import simulate
from quantgraph.broker.valuation import values_of
from quantgraph.errors import BadWindow
from quantgraph.market.money import CENT, exact
from quantgraph.market.rulebook import Rulebook
from quantgraph.state import DataState, View

__all__ = ["Benchmark", "equal_weight_buy_and_hold"]


@dataclass(frozen=True, kw_only=True)
class Benchmark:
    """A comparison.

    Attributes
    ----------
    values
        One value per session, beginning with the initial cash, as :meth:`Ledger.values` gives them.
    outcomes
        What became of its orders.
    """

    values: pd.Series[float]
    outcomes: tuple[Outcome, ...]


def equal_weight_buy_and_hold(
    store: DataState,
    data_ref: str,
    sessions: Iterable[object],
    *,
    cash: Decimal | float | str,
    rules: Rulebook,
) -> Benchmark:
    """Equal cash into every symbol that trades at the first session's open, held to the end.

    Lots, limits and fees hold as for any strategy; what a lot does not take stays in cash.

    Raises
    ------
    BadWindow
        If there is no session.
    """
    start = Account.opening(cash)
    results = list(simulate(store, data_ref, sessions, _BuyOnce(rules), account=start, rules=rules))
    if not results:
        raise BadWindow("a benchmark needs at least one session", parameter="sessions")
    values = values_of(start.cash, [(result.session, result.value) for result in results])
    return Benchmark(
        values=values, outcomes=tuple(outcome for result in results for outcome in result.outcomes)
    )


class _BuyOnce:
    """Buys everything once, in its first session."""

    name = "equal_weight_buy_and_hold"

    def __init__(self, rules: Rulebook) -> None:
        self._rules = rules
        self._done = False

    def decide(self, view: View, account: Account, session: pd.Timestamp) -> list[Order]:
        if self._done:
            return []
        self._done = True
        opens = {symbol: quote.open for symbol, quote in quotes_at(view).items() if quote.open > 0}
        ticket = (account.cash / max(1, len(opens))).quantize(CENT, rounding=ROUND_DOWN)
        sizes = {
            symbol: largest_buy(exact(price), ticket, self._rules, session) for symbol, price in opens.items()
        }
        wanted = [(symbol, quantity) for symbol, quantity in sorted(sizes.items()) if quantity]
        return [
            Order(symbol=symbol, side="buy", quantity=quantity, sequence=sequence, reason="buy and hold")
            for sequence, (symbol, quantity) in enumerate(wanted, start=1)
        ]
