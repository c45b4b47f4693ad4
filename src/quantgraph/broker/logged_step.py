"""Steps of a decision as a run keeps them: what was done in which order, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any

import pandas as pd

from quantgraph._util.canonical_json import canonical_json, content_hash
from quantgraph.broker.orders import escape_surrogates
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
        if isinstance(self.step, bool) or not isinstance(self.step, int) or self.step < 1:
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

    @property
    def action_json(self) -> str:
        """The action as JSON, its keys in their order.

        Raises
        ------
        BadOption
            If it is not JSON, which has no NaN.
        """
        return _json("action", dict(self.action))

    @property
    def result_json(self) -> str | None:
        """The result as JSON; None for nothing.

        Raises
        ------
        BadOption
            If it is not JSON, which has no NaN.
        """
        return None if self.result is None else _json("result", self.result)

    def execution_id(self, run_id: str) -> str:
        """What identifies the execution: a hash of run, session, symbol and rule."""
        return _execution_id(run_id, self.session, self.symbol, self.rule_name, self.rule)


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


@lru_cache
def _execution_id(run_id: str, session: pd.Timestamp, *rest: str) -> str:
    """Hash what identifies an execution, as a database takes it; its steps ask one after the other."""
    parts = [run_id, f"{session:%Y-%m-%d}", *rest]
    return content_hash(canonical_json(list(map(storable_text, parts))))


def storable_text(text: str) -> str:
    """A text as a database takes it: what UTF-8 and PostgreSQL do not have is written as an escape."""
    return escape_surrogates(text).replace("\0", "\\x00")


def _json(name: str, value: Any) -> str:
    try:
        return canonical_json(value, sort_keys=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise BadOption(f"{name} of a step is not JSON: {error}", parameter=name) from error
