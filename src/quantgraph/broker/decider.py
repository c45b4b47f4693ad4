"""The decider protocol, and :class:`BlockRule`: a decider's rule as plain data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from decimal import Decimal
from fractions import Fraction
from typing import Protocol, runtime_checkable

import pandas as pd

from quantgraph.broker.account import Account
from quantgraph.broker.orders import Order
from quantgraph.errors import BadOption
from quantgraph.market.rulebook import Rulebook
from quantgraph.state import View

__all__ = ["BlockRule", "Decider", "require_rules", "validate_orders"]

_ORDER = tuple(field.name for field in fields(Order))


@runtime_checkable
class Decider(Protocol):
    """Turns what is known at a session's open and the account into orders.

    Required are ``name``, which the ledger keeps with every session, and ``decide``. Optional are

    - ``options``, a mapping of plain JSON: a run is not continued with other options;
    - ``block_rule(account)``: a :class:`BlockRule`, or None to be called in the next session;
    - ``under(rules)``: the same decider, sizing its orders by the market's rulebook;
    - ``uses_signal = False``: the decider also trades the sessions that a signal needs as warm-up.
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


@dataclass(frozen=True, kw_only=True)
class BlockRule:
    """A decider's rule as plain data, see :class:`~quantgraph.agents.SignalRule`.

    Attributes
    ----------
    name
        The decider's name.
    trades
        False keeps the holdings as they are.
    signal
        Name of the signal; None means the only one there is.
    weights
        Share of the investable equity by symbol; None means equal shares.
    max_positions
        Largest number of positions; None means no limit.
    max_weight, cash_reserve
        Exact fractions.
    ticket
        Cash of one entry; None means a share of the investable equity.
    rules
        The rulebook that sizes are computed with; None means the market's.
    """

    name: str
    trades: bool
    signal: str | None = None
    weights: Mapping[str, Fraction] | None = None
    max_positions: int | None = None
    max_weight: Fraction = Fraction(1)
    cash_reserve: Fraction = Fraction(0)
    ticket: Decimal | None = None
    rules: Rulebook | None = None


def validate_orders(name: str, returned: object, session: pd.Timestamp) -> list[Order]:
    """Copy the orders that a decider returned: later changes to its own objects have no effect.

    Raises
    ------
    BadOption
        If it is not a list of orders.
    """
    orders = list(returned) if isinstance(returned, list | tuple) else [None]
    if not all(isinstance(order, Order) for order in orders):
        raise BadOption(
            f"decider {name!r} returned {returned!r:.80} on {session:%Y-%m-%d}; must be a list of Order",
            parameter="decider",
        )
    return [Order(**{name: getattr(order, name) for name in _ORDER}) for order in orders]


def require_rules(given: Rulebook | None, rules: Rulebook) -> None:
    """Check that a decider with a rulebook of its own has the market's.

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
