"""What was traded, and how much of it: turnover."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import get_args

import pandas as pd

from quantgraph.broker.corporate_actions import Delisting
from quantgraph.broker.orders import Fill
from quantgraph.errors import BadOption
from quantgraph.market.money import to_decimal
from quantgraph.market.rulebook import Side
from quantgraph.report._series import per_year, values_array


@dataclass(frozen=True, kw_only=True)
class Trade:
    """A purchase or a sale.

    Attributes
    ----------
    quantity
        Shares, > 0.
    price
        Per share, >= 0: a delisting without payment is a sale at 0.
    cost
        Fees, taxes and slippage of the trade together.
    """

    session: pd.Timestamp
    symbol: str
    side: Side
    quantity: Decimal | float
    price: Decimal | float
    cost: Decimal | float

    def __post_init__(self) -> None:
        where = f"of the trade in {self.symbol} on {self.session:%Y-%m-%d}"
        if self.side not in get_args(Side):
            raise BadOption(f"side={self.side!r} {where} must be 'buy' or 'sell'", parameter="side")
        if not to_decimal(self.quantity, name="quantity") > 0:
            raise BadOption(f"quantity={self.quantity} {where} must be > 0", parameter="quantity")
        if to_decimal(self.price, name="price") < 0:
            raise BadOption(f"price={self.price} {where} must be >= 0", parameter="price")
        to_decimal(self.cost, name="cost")

    @classmethod
    def of(cls, fill: Fill | Delisting) -> Trade:
        """Make the trade of a fill, with all its costs; a delisting is a sale for what was paid."""
        if isinstance(fill, Delisting):
            return cls(
                session=fill.session,
                symbol=fill.symbol,
                side="sell",
                quantity=fill.quantity,
                price=fill.per_share,
                cost=fill.per_share * fill.quantity - fill.amount,
            )
        return cls(
            session=fill.session,
            symbol=fill.order.symbol,
            side=fill.side,
            quantity=fill.quantity,
            price=fill.price,
            cost=fill.cost,
        )

    @property
    def notional(self) -> Decimal:
        """Quantity times price."""
        return to_decimal(self.quantity) * to_decimal(self.price)


def turnover(trades: Iterable[Trade], values: pd.Series[float]) -> float:
    """``sum(quantity * price) / mean(V[1:])``: both sides, over the mean value of the sessions.

    Buying everything once and selling it once is about 2. (US SEC Form N-1A, item 13, divides the lesser of
    purchases and sales instead: about 1.)

    Parameters
    ----------
    trades
        All of the run.
    values
        Of the run, beginning with the initial cash, which does not count as a session.

    Returns
    -------
    float
        NaN without a session.

    Raises
    ------
    BadOption
        If the session of a trade is not one of the values'.
    """
    array = values_array(values)[1:]
    sessions = set(values.index[1:])
    traded = Decimal(0)
    for trade in trades:
        if trade.session not in sessions:
            raise BadOption(
                f"trades has {trade.symbol} on {trade.session:%Y-%m-%d}, not a session of the values",
                parameter="trades",
            )
        traded += trade.notional
    return float(traded) / float(array.mean()) if len(array) else math.nan


def annual_turnover(
    trades: Iterable[Trade], values: pd.Series[float], *, periods_per_year: int = 252
) -> float:
    """``turnover * periods_per_year / n`` over ``n`` sessions; NaN without a session."""
    whole = turnover(trades, values)
    return math.nan if math.isnan(whole) else whole * per_year(periods_per_year) / (len(values) - 1)
