"""What a session did, alone or in a block, and its lines in the journal: what is committed to a ledger."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from typing import Any

import pandas as pd

from quantgraph.broker.accounts._account import Account
from quantgraph.broker.accounts._corporate_actions import Event
from quantgraph.broker.accounts._orders import Fill, Outcome, Rejection
from quantgraph.broker.accounts._valuation import Mark

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
        Effects of corporate actions on its morning.
    outcomes
        A fill or a rejection for each order, in the order of submission.
    marks
        Marks of what is held at the end.
    value
        Cash, dividends that are owed, and holdings at these marks.
    notes
        The decision's notes, plain JSON.
    """

    session: pd.Timestamp
    decider: str
    account: Account
    events: tuple[Event, ...] = ()
    outcomes: tuple[Outcome, ...]
    marks: Mapping[str, Mark]
    value: Decimal
    notes: Mapping[str, Any] = field(default_factory=dict)

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
