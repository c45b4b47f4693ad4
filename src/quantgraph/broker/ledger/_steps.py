"""Steps of a decision, as a decider tells them and a ledger gives them back; who keeps them is a wing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

import pandas as pd

from quantgraph._util.values import is_whole
from quantgraph.errors import BadOption

_ACTION_TYPE_LENGTH = 40


@dataclass(frozen=True, kw_only=True)
class LoggedStep:
    """One step of the execution of a rule for one symbol in one session.

    Attributes
    ----------
    rule_name, rule
        Name and text of the rule that is executed.
    symbol, session
        What it is executed for, and when.
    step
        From 1. Step 1 begins the execution anew: the rows of an earlier try, which was killed, are removed.
    action_type
        ``tool_call``, ``calculation``, ``decision``, ``observation`` or ``model_reply``.
    action
        The whole action, plain JSON.
    result
        What came of it, plain JSON; None for nothing.
    timestamp
        The simulated moment, ISO 8601 without a time zone: the exchange's local time.

    Raises
    ------
    BadOption
        If a value is not as above.
    """

    rule_name: str
    rule: str
    symbol: str
    session: pd.Timestamp
    step: int
    action_type: str
    action: Mapping[str, Any]
    result: Any = None
    timestamp: str

    def __post_init__(self) -> None:
        if not is_whole(self.step) or self.step < 1:
            raise BadOption(f"step={self.step!r}; must be a whole number >= 1", parameter="step")
        if not 1 <= len(self.action_type) <= _ACTION_TYPE_LENGTH:
            raise BadOption(
                f"action_type={self.action_type!r:.60}; must have 1 to {_ACTION_TYPE_LENGTH} characters",
                parameter="action_type",
            )
        try:
            at = datetime.fromisoformat(self.timestamp)
        except (TypeError, ValueError) as error:
            raise BadOption(
                f"timestamp={self.timestamp!r:.60} is not an ISO 8601 time such as 2024-01-02T09:00:00",
                parameter="timestamp",
            ) from error
        if at.tzinfo is not None:
            raise BadOption(
                f"timestamp={self.timestamp} has a time zone; must be in the exchange's local time",
                parameter="timestamp",
            )


@dataclass(frozen=True, kw_only=True)
class LoggedExecution:
    """The execution of a rule for one symbol in one session, as a ledger has it.

    Attributes
    ----------
    execution_id
        Identifies it: a hash of run, session, symbol and rule.
    run_id, session, symbol, rule_name, rule
        What was executed, where.
    steps
        In order.
    """

    execution_id: str
    run_id: str
    session: pd.Timestamp
    symbol: str
    rule_name: str
    rule: str
    steps: tuple[LoggedStep, ...]


class ExecutionLog(Protocol):
    """What keeps the steps of a database's runs: the wing ``execution_log``."""

    def add(self, run_id: str, step: LoggedStep) -> None:
        """Write a step, once."""

    def executions(
        self, run_id: str, *, session: pd.Timestamp | None = None, symbol: str | None = None
    ) -> list[LoggedExecution]:
        """Return a run's executions with their steps, by session and symbol."""

    def close(self) -> None:
        """Close all connections."""
