"""Tracks what a run's model calls took and may still take, for all its threads and tasks."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from decimal import Decimal
from typing import Any, NamedTuple

from quantgraph.errors import BudgetExceeded
from quantgraph.recording.budget import Budget, BudgetAccount, CallEstimate, CallUsage, UsageTotals
from quantgraph.recording.entry import Entry

_ZERO = Decimal(0)


def max_tokens_of(text: str) -> int:
    """Return an upper bound on the tokens of a text: its bytes in UTF-8.

    The tokenizers of language models work on bytes and make at most one token of each. A request is measured
    as its JSON, whose field names stand for what a server adds to each message.
    """
    return len(text.encode())


def no_answer_text(ahead: float) -> str:
    """Return the end of a timeout's message; the next attempt would be ``ahead`` seconds later."""
    return "; the model has not answered" + (f", and would be asked again in {ahead:g} s" if ahead else "")


class Caller(NamedTuple):
    """Who makes a call: the role, the model, and the session (None: outside of all sessions)."""

    role: str
    model: str
    session: str | None


class Reservation(NamedTuple):
    """Reservation for one model call."""

    caller: Caller
    holds: tuple[tuple[BudgetAccount, UsageTotals], ...]


class BudgetTracker:
    """Usage and limits of one run's model calls. Safe to use from several threads and tasks.

    Parameters
    ----------
    budget, session_budget
        Limits of the run, and of each session.
    entries
        The run's entries from before it was resumed. Unknown tokens count as :func:`max_tokens_of`, an
        unknown cost as nothing; the run's seconds are those in which it waited for at least one model.
    """

    def __init__(
        self,
        budget: Budget | None = None,
        session_budget: Budget | None = None,
        entries: Iterable[Entry] = (),
    ) -> None:
        self._run = BudgetAccount("run", budget or Budget())
        self._session_budget = session_budget or Budget()
        self._sessions: dict[str, BudgetAccount] = {}
        self._rows: dict[Caller, dict[str, Any]] = {}
        self._lock = threading.Lock()  # what is left is read and held in one step
        self._working = 0
        self._since = 0.0
        sent = [entry for entry in entries if _is_sent(entry)]
        for entry in sent:
            self._remember(entry)
        self._seconds = _covered((datetime.fromisoformat(one.at), one.facts["seconds"]) for one in sent)

    def reserve(self, caller: Caller, estimate: CallEstimate) -> Reservation | None:
        """Hold what a call may take; None if it may fit once calls in progress have ended.

        Raises
        ------
        BudgetExceeded
            If it does not fit even if the calls in progress take nothing.
        NotConfigured
            If money is limited and the model has no price.
        """
        with self._lock:
            accounts = self._accounts(caller.session)
            for account in accounts:
                self._check_seconds(account, 0.0)
            holds = [(account, account.hold(estimate, caller.model)) for account in accounts]
            if any(hold is None for _, hold in holds):
                return None
            taken = tuple((account, hold) for account, hold in holds if hold is not None)
            for account, hold in taken:
                account.held.add(hold)
            return Reservation(caller, taken)

    def settle(self, reservation: Reservation, usage: CallUsage) -> None:
        """Replace what was held for a call by what it took."""
        with self._lock:
            for account, hold in reservation.holds:
                account.held.add(hold, -1)
                account.used.add(UsageTotals.of(usage))
            self._add_row(reservation.caller, usage)

    def release(self, reservation: Reservation) -> None:
        """Release what is held for a call that was not sent."""
        with self._lock:
            for account, hold in reservation.holds:
                account.held.add(hold, -1)

    def check_seconds(self, session: str | None, ahead: float) -> None:
        """Check that the time of the run and of the session is not over ``ahead`` seconds from now.

        Raises
        ------
        BudgetExceeded
            If it is.
        """
        with self._lock:
            for account in self._accounts(session):
                self._check_seconds(account, ahead)

    @contextmanager
    def working(self) -> Iterator[None]:
        """Count the time while a node runs; nodes that run at the same time count once."""
        with self._lock:
            if not self._working:
                self._since = time.monotonic()
            self._working += 1
        try:
            yield
        finally:
            with self._lock:
                self._working -= 1
                if not self._working:
                    self._seconds += time.monotonic() - self._since

    def usage(self) -> list[dict[str, Any]]:
        """Return rows ``role, model, session, calls, prompt_tokens, completion_tokens, cost``, as plain JSON.

        Rows outside of sessions come first. Tokens are None, and the cost is ``"unknown"``, if unknown for
        one of the row's calls; a cost is a decimal text. Replies from a cache are not calls.
        """
        with self._lock:
            return [
                {**caller._asdict(), **row, "cost": "unknown" if row["cost"] is None else _text(row["cost"])}
                for caller, row in sorted(
                    self._rows.items(), key=lambda item: (item[0].session or "", item[0].role, item[0].model)
                )
            ]

    def _accounts(self, session: str | None) -> list[BudgetAccount]:
        if session is None:
            return [self._run]
        if session not in self._sessions:
            self._sessions[session] = BudgetAccount(f"session {session}", self._session_budget)
        account = self._sessions[session]
        if account.begun is None:
            account.begun = time.monotonic()
        return [self._run, account]

    def _elapsed(self, account: BudgetAccount) -> float:
        now = time.monotonic()
        if account.begun is not None:
            return now - account.begun
        return self._seconds + (now - self._since if self._working else 0.0)

    def _check_seconds(self, account: BudgetAccount, ahead: float) -> None:
        limit = account.budget.seconds
        if limit is not None and self._elapsed(account) + ahead >= limit:
            text = f"budget of the {account.name}: at most {limit:g} seconds"
            raise BudgetExceeded(text + no_answer_text(ahead), limit="seconds", of=account.of)

    def _remember(self, entry: Entry) -> None:
        facts = entry.facts
        cost = facts.get("cost")
        usage = CallUsage(
            prompt_tokens=facts.get("prompt_tokens"),
            completion_tokens=facts.get("completion_tokens"),
            cost=None if cost is None else Decimal(cost),
            at_most=CallEstimate(
                prompt_tokens=max_tokens_of(entry.request),
                completion_tokens=max_tokens_of(entry.reply or ""),
            ),
        )
        caller = Caller(facts.get("role", "model"), facts.get("model", "unknown"), entry.session)
        for account in self._accounts(entry.session):
            account.used.add(UsageTotals.of(usage))
            account.begun = None
        self._add_row(caller, usage)

    def _add_row(self, caller: Caller, usage: CallUsage) -> None:
        new: dict[str, Any] = {"calls": 0, "prompt_tokens": 0, "completion_tokens": 0, "cost": _ZERO}
        row = self._rows.setdefault(caller, new)
        row["calls"] += 1
        for name in ("prompt_tokens", "completion_tokens", "cost"):
            value = getattr(usage, name)
            row[name] = None if value is None or row[name] is None else row[name] + value


def _is_sent(entry: Entry) -> bool:
    timed = entry.facts.get("seconds") is not None
    return entry.key.kind == "model" and timed and not entry.facts.get("cached")


def _covered(spans: Iterable[tuple[datetime, float]]) -> float:
    """Return the seconds covered by at least one span, each given by its end and length."""
    seconds, first = 0.0, math.inf
    for end, length in sorted(((end.timestamp(), length) for end, length in spans), reverse=True):
        seconds += max(min(end, first) - (end - length), 0.0)
        first = min(first, end - length)
    return seconds


def _text(cost: Decimal) -> str:
    return f"{cost.normalize():f}"
