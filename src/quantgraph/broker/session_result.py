"""What one session did: the unit that is committed to a ledger."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

import pandas as pd

from quantgraph.broker.account import Account
from quantgraph.broker.corporate_actions import Event
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
    events
        What corporate actions did on its morning.
    outcomes
        A fill or a rejection for each order, in the order they were submitted.
    marks
        Marks of what is held at the end.
    value
        Cash, dividends on their way and holdings at these marks.
    """

    session: pd.Timestamp
    decider: str
    account: Account
    events: tuple[Event, ...] = ()
    outcomes: tuple[Outcome, ...]
    marks: Mapping[str, Mark]
    value: Decimal

    @property
    def fills(self) -> tuple[Fill, ...]:
        """The fills among the outcomes."""
        return tuple(outcome for outcome in self.outcomes if isinstance(outcome, Fill))

    @property
    def rejections(self) -> tuple[Rejection, ...]:
        """The rejections among the outcomes, and the rests of fills that a cap cut."""
        refused = [outcome for outcome in self.outcomes if isinstance(outcome, Rejection)]
        return tuple(refused + [fill.rest for fill in self.fills if fill.rest is not None])
