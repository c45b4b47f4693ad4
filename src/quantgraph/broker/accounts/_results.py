"""What a session did, alone or in a block, and what its holdings are marked at."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from typing import Any, Literal

import numpy as np
import pandas as pd

from quantgraph.broker._plan import ExitRule
from quantgraph.broker.accounts._account import Account, Event, price_after_actions
from quantgraph.broker.accounts._orders import Fill, Outcome, Rejection
from quantgraph.errors import NoData
from quantgraph.market.money import market_value, to_decimal, trim_zeros
from quantgraph.state import BaseView

MarkAt = Literal["close", "open"]
"""The price of a session that holdings are valued at."""


@dataclass(frozen=True, kw_only=True)
class Mark:
    """The price a holding is valued at; ``carried`` if it is an earlier session's."""

    price: Decimal
    carried: bool = False


Line = tuple[str, str]
"""Kind and body."""


@dataclass(frozen=True, kw_only=True)
class DayLines:
    """A session in the journal: its lines, the ``day`` line last."""

    session: str
    lines: Sequence[Line]


@dataclass(frozen=True, kw_only=True)
class SessionResult:
    """What one session did: the unit that is committed to a ledger.

    Attributes
    ----------
    session, decider
        The session, and the decider's name.
    account
        After the session's fills.
    events
        Effects of corporate actions before its open.
    outcomes
        A fill or a rejection for each order, in the order of submission.
    marks
        Marks of what is held at the end.
    value
        Cash, dividends that are owed, and holdings at these marks.
    notes
        The decision's notes, plain JSON.
    exits
        The decision's exit rules.
    """

    session: pd.Timestamp
    decider: str
    account: Account
    events: tuple[Event, ...] = ()
    outcomes: tuple[Outcome, ...]
    marks: Mapping[str, Mark]
    value: Decimal
    notes: Mapping[str, Any] = field(default_factory=dict)
    exits: tuple[ExitRule, ...] = ()

    @property
    def fills(self) -> tuple[Fill, ...]:
        """The fills among the outcomes."""
        return tuple(outcome for outcome in self.outcomes if isinstance(outcome, Fill))

    @property
    def rejections(self) -> tuple[Rejection, ...]:
        """The rejections among the outcomes, then the parts of fills that the volume cap cut off."""
        rejected = [outcome for outcome in self.outcomes if isinstance(outcome, Rejection)]
        return tuple(rejected + [fill.rest for fill in self.fills if fill.rest is not None])


@dataclass(frozen=True, kw_only=True)
class Block:
    """What a block of sessions did.

    Attributes
    ----------
    sessions, values
        The sessions that were traded, and the account's value at the end of each.
    account
        After the last of them.
    write
        Writes their lines.
    """

    sessions: tuple[pd.Timestamp, ...]
    values: tuple[Decimal, ...]
    account: Account
    write: Callable[[], Sequence[DayLines]]

    @cached_property
    def days(self) -> Sequence[DayLines]:
        """Their lines for the journal, written on first use."""
        return self.write()


def last_closes(view: BaseView, symbols: Iterable[str], *, field: MarkAt = "close") -> dict[str, Decimal]:
    """The last price known at the view's moment, of each symbol that has one.

    Prices are adjusted for later corporate actions, see
    :func:`~quantgraph.broker.accounts._account.price_after_actions`.
    """
    today = view.moment.session
    happened = [action for action in view.actions() if action.ex <= today]
    prices = view["ohlcv"][field]
    found = {}
    for symbol in symbols:
        if symbol not in prices.columns:
            continue
        column = prices[symbol].to_numpy()
        known = np.flatnonzero(~np.isnan(column))
        if known.size:
            price, since = to_decimal(float(column[known[-1]])), prices.index[known[-1]]
            since_then = (action for action in happened if action.symbol == symbol and action.ex > since)
            found[symbol] = price_after_actions(price, since_then)
    return found


def last_prices(view: BaseView, symbols: Iterable[str]) -> dict[str, Decimal]:
    """The last known closes; of a symbol that never closed with a price, the last open."""
    closes = last_closes(view, symbols)
    return last_closes(view, set(symbols) - closes.keys(), field="open") | closes


def mark(account: Account, view: BaseView, *, at: MarkAt = "close") -> dict[str, Mark]:
    """Mark all holdings at the close, or the open, of the view's session.

    Raises
    ------
    NoData
        If a holding never had a price.
    FutureRequested
        If the price is not known at the view's moment.
    """
    if not account.positions:
        return {}
    prices = view.numbers("ohlcv", at, view.moment.session)
    marks = {
        symbol: Mark(price=to_decimal(price))
        for symbol in account.positions
        if not math.isnan(price := prices.get(symbol, math.nan))
    }
    for price_of in (at, "close"):  # a symbol bought at its first close has no open before
        missing = [symbol for symbol in account.positions if symbol not in marks]
        if missing:
            carried = last_closes(view, missing, field=price_of)
            marks |= {symbol: Mark(price=price, carried=True) for symbol, price in carried.items()}
    return {symbol: _read_mark(symbol, marks, view) for symbol in account.positions}


def value_of(account: Account, marks: Mapping[str, Mark]) -> Decimal:
    """Cash, dividends that are owed and holdings, exact: at least two decimals."""
    holdings = (
        market_value(marks[name].price, position.quantity) for name, position in account.positions.items()
    )
    return trim_zeros(account.cash + account.owed + sum(holdings, Decimal(0)))


def value_series(cash: Decimal, values: Iterable[tuple[pd.Timestamp, Decimal]]) -> pd.Series[float]:
    """Values of a run as a float series that begins with the initial cash, see :meth:`Ledger.values`."""
    pairs = list(values)
    if pairs:
        pairs.insert(0, (pairs[0][0] - pd.Timedelta(days=1), cash))
    index = pd.DatetimeIndex([session for session, _ in pairs], dtype="datetime64[us]", name="trade_date")
    return pd.Series([float(value) for _, value in pairs], index=index, dtype="float64", name="value")


def _read_mark(symbol: str, marks: Mapping[str, Mark], view: BaseView) -> Mark:
    if symbol not in marks:
        raise NoData(f"{symbol} is held without a price up to {view.moment.session:%Y-%m-%d}", symbol=symbol)
    return marks[symbol]
