"""backtrader: a Strategy that is called before each open and fills there (``cheat_on_open``).

The whole common rule: the strategy says it; orders, commissions and the account are backtrader's.
"""

from __future__ import annotations

from typing import Any

import backtrader
import pandas as pd
from peers.measure import Figures, measure
from peers.panel import Panel
from peers.rule import Rule, cash_of


class Fees(backtrader.CommInfoBase):
    """Fees of the rule in the session ``t``."""

    params = (("rule", None),)
    t = 0

    def _getcommission(self, size: float, price: float, pseudoexec: bool) -> float:  # noqa: ARG002
        return self.p.rule.fees(self.t, size, price)


class Trade(backtrader.Strategy):
    """Submits the rule's orders of the session."""

    params = (("rule", None), ("fees", None))
    trades = 0

    def next_open(self) -> None:
        """Order before the open."""
        t = self.p.fees.t = len(self.data) - 1
        for j, shares, _ in self.p.rule.orders(t, self.broker.getcash()):
            (self.buy if shares > 0 else self.sell)(data=self.datas[j], size=abs(shares))

    def notify_order(self, order: Any) -> None:
        """Count the fills."""
        self.trades += order.status == order.Completed


def backtrader_(panel: Panel) -> Figures:
    """The bars of a feed are read in the run, as backtrader does it."""
    bars = [_bars(panel, j) for j in range(len(panel.symbols))]

    def once() -> tuple[int, float]:
        cerebro = backtrader.Cerebro(cheat_on_open=True, stdstats=False)
        for frame in bars:
            cerebro.adddata(backtrader.feeds.PandasData(dataname=frame))
        rule = Rule(panel)
        fees = Fees(rule=rule)
        cerebro.broker.setcash(cash_of(panel))
        cerebro.broker.set_checksubmit(False)
        cerebro.broker.addcommissioninfo(fees)
        cerebro.addstrategy(Trade, rule=rule, fees=fees)
        strategy = cerebro.run()[0]
        return strategy.trades, cerebro.broker.getvalue()

    return measure(once)


def _bars(panel: Panel, j: int) -> pd.DataFrame:
    opens, closes = panel.open[:, j], panel.close[:, j]
    high, low = pd.DataFrame([opens, closes]).agg(["max", "min"]).to_numpy()
    bars = {"open": opens, "high": high, "low": low, "close": closes, "volume": 0.0, "openinterest": 0.0}
    return pd.DataFrame(bars, index=panel.index)
