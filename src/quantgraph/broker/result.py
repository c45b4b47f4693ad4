"""What one session did: the unit that is committed to a ledger."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

import pandas as pd

from quantgraph.broker.account import Account
from quantgraph.broker.orders import Fill, Outcome, Rejection
from quantgraph.broker.valuation import Mark

__all__ = ["SessionResult"]


@dataclass(frozen=True, kw_only=True)
class SessionResult:
    """What one session did.

    Attributes
    ----------
    session, decider
        Which session, and who decided.
    account
        After the session's fills.
    outcomes
        A fill or a rejection for each order, in the order they were submitted.
    marks
        Closing marks of what is held.
    value
        Cash and holdings at the close, in CNY.
    """

    session: pd.Timestamp
    decider: str
    account: Account
    outcomes: tuple[Outcome, ...]
    marks: Mapping[str, Mark]
    value: Decimal

    @property
    def fills(self) -> tuple[Fill, ...]:
        """The fills among the outcomes."""
        return tuple(outcome for outcome in self.outcomes if isinstance(outcome, Fill))

    @property
    def rejections(self) -> tuple[Rejection, ...]:
        """The rejections among the outcomes."""
        return tuple(outcome for outcome in self.outcomes if isinstance(outcome, Rejection))
