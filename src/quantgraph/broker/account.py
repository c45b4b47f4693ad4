"""Cash and positions. Immutable: a fill makes a new account."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from types import MappingProxyType
from typing import Any

import pandas as pd

from quantgraph.broker.orders import Fill
from quantgraph.errors import BadOption
from quantgraph.market.money import ZERO, exact, money

__all__ = ["Account", "Position"]


@dataclass(frozen=True, kw_only=True)
class Position:
    """Shares of one symbol.

    Attributes
    ----------
    quantity
        Shares held.
    sellable
        Shares that may be sold in the open session; shares bought in it are not among them (T+1).
    cost
        CNY paid for the shares still held, fees included; a partial sale takes its share of it.
    entered
        Session in which the position was opened from nothing.
    """

    quantity: int
    sellable: int
    cost: Decimal
    entered: pd.Timestamp

    @property
    def bought_today(self) -> int:
        """Shares bought in the open session."""
        return self.quantity - self.sellable


def _read_only(positions: Mapping[str, Position]) -> Mapping[str, Position]:
    return MappingProxyType(dict(sorted(positions.items())))


@dataclass(frozen=True, kw_only=True)
class Account:
    """Cash in CNY to the cent, and positions by ``ts_code``, in ascending order.

    Examples
    --------
    >>> Account.opening(100_000)
    Account(cash=Decimal('100000.00'), positions=mappingproxy({}))
    """

    cash: Decimal
    positions: Mapping[str, Position] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "positions", _read_only(self.positions))

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (self.cash, dict(self.positions))

    @classmethod
    def opening(cls, cash: Decimal | float | str) -> Account:
        """Begin an account that holds nothing but cash.

        Raises
        ------
        BadOption
            If the cash is negative, not finite, or not a whole number of cents.
        """
        amount = exact(cash, name="cash")
        if amount < 0 or money(amount) != amount:
            raise BadOption(f"cash={cash!r}; at least 0 and in whole cents is wanted", parameter="cash")
        return cls(cash=money(amount))

    def quantity(self, symbol: str) -> int:
        """Shares held of a symbol, 0 when there are none."""
        position = self.positions.get(symbol)
        return position.quantity if position else 0

    def open_session(self) -> Account:
        """Return the account on the next session's morning: what was bought before may be sold."""
        return replace(
            self,
            positions={
                symbol: replace(position, sellable=position.quantity)
                for symbol, position in self.positions.items()
            },
        )

    def apply(self, fill: Fill) -> Account:
        """Return the account after a fill that the desk made for it."""
        symbol = fill.order.symbol
        positions = dict(self.positions)
        after = (
            _bought(positions.get(symbol), fill)
            if fill.order.side == "buy"
            else _sold(positions[symbol], fill)
        )
        if after.quantity:
            positions[symbol] = after
        else:
            del positions[symbol]
        return Account(cash=self.cash + fill.cash_change, positions=positions)


def _bought(held: Position | None, fill: Fill) -> Position:
    paid = -fill.cash_change
    if held is None:
        return Position(quantity=fill.quantity, sellable=0, cost=paid, entered=fill.session)
    return replace(held, quantity=held.quantity + fill.quantity, cost=held.cost + paid)


def _sold(held: Position, fill: Fill) -> Position:
    left = held.quantity - fill.quantity
    return replace(
        held,
        quantity=left,
        sellable=held.sellable - fill.quantity,
        cost=money(held.cost * left / held.quantity) if left else ZERO,
    )


def _rebuild(cash: Decimal, positions: dict[str, Position]) -> Account:
    return Account(cash=cash, positions=positions)
