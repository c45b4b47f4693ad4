"""What decides: the port that every kind of decider fits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import pandas as pd

from quantgraph.broker.account import Account
from quantgraph.broker.orders import Order
from quantgraph.errors import BadOption
from quantgraph.market.rulebook import Rulebook
from quantgraph.state import View

__all__ = ["Decider", "require_rules"]


@runtime_checkable
class Decider(Protocol):
    """Turns what is known at a session's open and the account into orders.

    It needs a ``name``, which the ledger keeps with every session, and ``decide``. One that has options may
    say them in an attribute ``options``, a mapping of plain JSON: a run is then not continued with others.
    One that need not be asked in every session may say its rule as plain data in ``block_rule(account)``,
    see :class:`~quantgraph.broker.block.BlockRule`. One that sizes orders by a rulebook may have
    ``under(rules)``, which gives the decider that sizes by the market's.
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
