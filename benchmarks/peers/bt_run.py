"""bt: a function that bt calls once a session; the rule is the function's, the book-keeping bt's.

The whole common rule: closes are bt's prices, and fills at the open are transactions at a price of their own,
which bt allows when it is given bid-offer spreads (here: none).
"""

from __future__ import annotations

import bt
import pandas as pd
from peers.measure import Figures, measure
from peers.panel import Panel
from peers.rule import Rule, cash_of


class Session:
    """The session that bt is in, and the fills so far; bt copies its algos, so it stands beside them."""

    def __init__(self, panel: Panel) -> None:
        self.rule = Rule(panel)
        self.names = panel.symbols.tolist()
        self.places = {day: t for t, day in enumerate(panel.index)}
        self.t = self.trades = 0


def bt_(panel: Panel) -> Figures:
    """A backtest cannot be run twice: making it belongs to the run."""
    closes = panel.frame(panel.close)
    spreads = {"bidoffer": pd.DataFrame(index=closes.index)}

    def once() -> tuple[int, float]:
        session = Session(panel)

        def trade(target: bt.Strategy) -> bool:
            session.t = session.places[target.now]
            for j, shares, price in session.rule.orders(session.t, target.capital):
                target.children[session.names[j]].transact(shares, price=price)
                session.trades += 1
            return True

        test = bt.Backtest(
            bt.Strategy("rule", [trade], children=[bt.Security(name) for name in session.names]),
            closes,
            initial_capital=cash_of(panel),
            commissions=lambda shares, price: session.rule.fees(session.t, shares, price),
            additional_data=spreads,
            progress_bar=False,
        )
        test.run()
        return session.trades, test.strategy.value

    return measure(once)
