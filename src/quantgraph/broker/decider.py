"""What decides: the port that every kind of decider fits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import pandas as pd

from quantgraph.broker.account import Account
from quantgraph.broker.orders import Order
from quantgraph.state import View

__all__ = ["Decider"]


@runtime_checkable
class Decider(Protocol):
    """Turns what is known at a session's open and the account into orders.

    One that has options may say them in an attribute ``options``, a mapping of plain JSON: a run is then not
    continued with others. One that need not be asked in every session may say its rule as plain data in
    ``block_rule(account)``, see :class:`~quantgraph.broker.block.BlockRule`.
    """

    @property
    def name(self) -> str:
        """Part of the key under which the ledger keeps its days."""

    def decide(self, view: View, account: Account, session: pd.Timestamp) -> Sequence[Order]:
        """Orders for the session, to be filled in it.

        Parameters
        ----------
        view
            The data as known at the session's open.
        account
            The account on that morning: what was bought before may be sold.
        session
            The session.
        """
