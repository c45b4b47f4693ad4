"""What decides: the port that every kind of decider fits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Protocol, runtime_checkable

import pandas as pd

from quantgraph.broker.account import Account
from quantgraph.broker.orders import Order
from quantgraph.errors import BadOption
from quantgraph.market.rulebook import Rulebook
from quantgraph.state import View

__all__ = ["Decider", "require_rules", "validate_orders"]

_ORDER = tuple(field.name for field in fields(Order))


@runtime_checkable
class Decider(Protocol):
    """Turns what is known at a session's open and the account into orders.

    It needs a ``name``, which the ledger keeps with every session, and ``decide``. One that has options may
    say them in an attribute ``options``, a mapping of plain JSON: a run is then not continued with others.
    One that need not be asked in every session may say its rule as plain data in ``block_rule(account)``,
    see :class:`~quantgraph.broker.vectorized.block.BlockRule`. One that sizes orders by a rulebook may have
    ``under(rules)``, which gives the decider that sizes by the market's. One that does not trade the signal
    may say so by ``uses_signal = False``: the sessions that the signal needs before it counts are its too.
    """

    @property
    def name(self) -> str:
        """Part of the key under which the ledger keeps its days."""

    def decide(self, view: View, account: Account, session: pd.Timestamp) -> Sequence[Order]:
        """Orders for the session, to be filled in it.

        Parameters
        ----------
        view
            The data as known at the session's open: ``view["ohlcv"]["open"]`` ends with this session,
            ``view["ohlcv"]["close"]`` with the one before; ``view.row("ohlcv", "open")`` is the last row.
        account
            The account on that morning: what was bought before may be sold.
        session
            The session.
        """


def validate_orders(name: str, returned: object, session: pd.Timestamp) -> list[Order]:
    """Take what a decider returned as values of one's own: what it does to its own later changes nothing.

    Raises
    ------
    BadOption
        If it is no list of orders.
    """
    orders = list(returned) if isinstance(returned, list | tuple) else [None]
    if not all(isinstance(order, Order) for order in orders):
        raise BadOption(
            f"decider {name!r} returned {returned!r:.80} on {session:%Y-%m-%d}; a list of Order is wanted",
            parameter="decider",
        )
    return [Order(**{name: getattr(order, name) for name in _ORDER}) for order in orders]


def require_rules(given: Rulebook | None, rules: Rulebook) -> None:
    """See that a decider that was made with a rulebook of its own has the market's.

    Raises
    ------
    BadOption
        If it has another one.
    """
    if given not in (None, rules):
        raise BadOption(
            f"rules of the decider ({given and given.name}) and of the market ({rules.name}) differ; give "
            "both the same, or the decider none",
            parameter="rules",
        )
