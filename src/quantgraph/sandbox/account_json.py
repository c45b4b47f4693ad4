"""An account, and orders, as plain JSON: amounts are text, so that they stay exact."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import fields
from decimal import Decimal
from functools import lru_cache
from typing import Any

import pandas as pd

from quantgraph.broker import Account, Order, Position, Quantity, Receivable
from quantgraph.errors import BadOption, CodeFailed
from quantgraph.market.moment import session_of
from quantgraph.state.frames import is_plain

__all__ = [
    "account_from_json",
    "account_to_json",
    "date_text",
    "orders_from_json",
    "orders_to_json",
    "parse_session",
]

_MOST_ORDERS = 10_000
_MOST_REASON = 2_000
_MOST_SEQUENCE = 1 << 31
_NUMBER = re.compile(r"-?[0-9]{1,200}(\.[0-9]{1,200})?(E[+-][0-9]{1,2})?")
_DIGITS = 15
"""More than any amount or number of shares has before its point."""


def date_text(session: pd.Timestamp) -> str:
    """Write a date."""
    return session.date().isoformat()


@lru_cache(maxsize=10_000)
def parse_session(text: str) -> pd.Timestamp:
    """Read a date."""
    return session_of(text)


def account_to_json(account: Account) -> dict[str, Any]:
    """Write an account."""
    return {
        "cash": str(account.cash),
        "positions": [
            [symbol, _plain(held.quantity), _plain(held.sellable), str(held.cost), date_text(held.entered)]
            for symbol, held in account.positions.items()
        ],
        "receivables": [[owed.symbol, str(owed.amount), date_text(owed.pay)] for owed in account.receivables],
    }


def account_from_json(told: dict[str, Any]) -> Account:
    """Read what :func:`account_to_json` wrote."""
    return Account(
        cash=Decimal(told["cash"]),
        positions={
            symbol: Position(
                quantity=_quantity(quantity),
                sellable=_quantity(sellable),
                cost=Decimal(cost),
                entered=parse_session(entered),
            )
            for symbol, quantity, sellable, cost, entered in told["positions"]
        },
        receivables=tuple(
            Receivable(symbol=symbol, amount=Decimal(amount), pay=parse_session(pay))
            for symbol, amount, pay in told["receivables"]
        ),
    )


def orders_to_json(orders: Iterable[Order]) -> list[dict[str, Any]]:
    """Write orders; what an order does not say is left out."""
    told = [{name: getattr(order, name) for name in _READ} for order in orders]
    return [{name: _plain(value) for name, value in order.items() if value is not None} for order in told]


def orders_from_json(told: object) -> list[Order]:
    """Read what :func:`orders_to_json` wrote, or somebody else who may have written anything.

    Raises
    ------
    CodeFailed
        At the first order that is none, by its place in the list.
    """
    if type(told) is not list:
        raise CodeFailed(f"{type(told).__name__} where a list of orders is wanted")
    if len(told) > _MOST_ORDERS:
        raise CodeFailed(f"{len(told)} orders for one session; at most {_MOST_ORDERS} are taken")
    return [_order(place, entry) for place, entry in enumerate(told, 1)]


def _order(place: int, told: object) -> Order:
    try:
        if type(told) is not dict:
            raise TypeError(f"{type(told).__name__} where an object is wanted")
        strange = sorted(told.keys() - _READ.keys())
        if strange:
            raise ValueError(f"there is no {strange[0]!r:.60} in an order")
        return Order(**{name: _read(name, value) for name, value in told.items()})
    except (TypeError, ValueError, BadOption) as error:
        raise CodeFailed(f"order {place}: {error}", order=place) from error


def _read(name: str, value: object) -> Any:
    try:
        return _READ[name](value)
    except ValueError as error:
        raise ValueError(f"{name}={value!r:.60}; {error}") from None


def _plain(value: object) -> object:
    return str(value) if isinstance(value, Decimal) else value


def _quantity(told: object) -> Quantity:
    if type(told) is int:
        if abs(told) >= 10**_DIGITS:
            raise ValueError(f"fewer than {_DIGITS} digits are wanted")
        return told
    return _decimal(told)


def _decimal(told: object) -> Decimal:
    if type(told) is not str or not _NUMBER.fullmatch(told):
        raise ValueError("a number is wanted, an exact one as text")
    number = Decimal(told)
    if number.adjusted() >= _DIGITS:
        raise ValueError(f"fewer than {_DIGITS} digits before the point are wanted")
    return number


def _sequence(told: object) -> int:
    if type(told) is not int or not 0 < told < _MOST_SEQUENCE:
        raise ValueError(f"a whole number from 1 to {_MOST_SEQUENCE - 1} is wanted")
    return told


def _word(told: object) -> str:
    if not is_plain(told):
        raise ValueError("a short word without control characters or quotes is wanted")
    return told


def _reason(told: object) -> str:
    if type(told) is not str or len(told) > _MOST_REASON or not told.replace("\n", " ").isprintable():
        raise ValueError(f"text of at most {_MOST_REASON} characters that can be printed is wanted")
    return told


_READ: dict[str, Callable[[object], Any]] = {
    **{field.name: _word for field in fields(Order)},
    "quantity": _quantity,
    "target_quantity": _quantity,
    "target_weight": _decimal,
    "target_value": _decimal,
    "limit_price": _decimal,
    "sequence": _sequence,
    "reason": _reason,
}
