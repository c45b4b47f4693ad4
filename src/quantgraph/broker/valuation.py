"""What holdings are worth: at the session's close, a missing close carries the last known one."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
import pandas as pd

from quantgraph.broker.account import Account
from quantgraph.errors import NoData
from quantgraph.market.money import ZERO, exact, money
from quantgraph.state import View

__all__ = ["Mark", "last_closes", "mark", "value_of", "values_of"]


@dataclass(frozen=True, kw_only=True)
class Mark:
    """The price a holding is valued at; ``carried`` when it is an earlier session's close."""

    price: Decimal
    carried: bool = False


def last_closes(view: View, symbols: Iterable[str]) -> dict[str, Decimal]:
    """Find the last close known at the view's moment of each symbol that has one."""
    closes = view["ohlcv"]["close"]
    known = {symbol: closes[symbol].to_numpy() for symbol in symbols if symbol in closes.columns}
    priced = {symbol: column[~np.isnan(column)] for symbol, column in known.items()}
    return {symbol: exact(float(column[-1])) for symbol, column in priced.items() if len(column)}


def mark(account: Account, view: View) -> dict[str, Mark]:
    """Mark all holdings at the close of the view's session.

    Raises
    ------
    NoData
        If a holding never had a close.
    FutureRequested
        If the view stands before the close.
    """
    if not account.positions:
        return {}
    row = view.row("ohlcv", "close", view.moment.session)
    closes = dict(zip(row.index.tolist(), row.tolist(), strict=True))
    marks = {
        symbol: Mark(price=exact(close))
        for symbol in account.positions
        if not math.isnan(close := closes.get(symbol, math.nan))
    }
    missing = [symbol for symbol in account.positions if symbol not in marks]
    if missing:
        marks |= {
            symbol: Mark(price=price, carried=True) for symbol, price in last_closes(view, missing).items()
        }
    return {symbol: _marked(symbol, marks, view) for symbol in account.positions}


def value_of(account: Account, marks: Mapping[str, Mark]) -> Decimal:
    """Cash and holdings in CNY; each holding is rounded half up to the cent."""
    holdings = (
        money(marks[symbol].price * position.quantity) for symbol, position in account.positions.items()
    )
    return account.cash + sum(holdings, ZERO)


def values_of(cash: Decimal, values: Iterable[tuple[pd.Timestamp, Decimal]]) -> pd.Series[float]:
    """Values of a run as a float series that begins with the initial cash, see :meth:`Ledger.values`."""
    pairs = list(values)
    if pairs:
        pairs.insert(0, (pairs[0][0] - pd.Timedelta(days=1), cash))
    index = pd.DatetimeIndex([session for session, _ in pairs], dtype="datetime64[us]", name="trade_date")
    return pd.Series([float(value) for _, value in pairs], index=index, dtype="float64", name="value")


def _marked(symbol: str, marks: Mapping[str, Mark], view: View) -> Mark:
    if symbol not in marks:
        raise NoData(f"{symbol} is held and has no close up to {view.moment.session:%Y-%m-%d}", symbol=symbol)
    return marks[symbol]
