"""Budgets for models: the limits of a run or of one of its sessions, and what is used and held of them.

Tracks what a run's model calls took and may still take, for all its threads and tasks.
"""

from __future__ import annotations

import math
import re
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from datetime import datetime
from decimal import Decimal
from typing import Any, NamedTuple

from quantgraph.errors import BadOption, BudgetExceeded, NotConfigured
from quantgraph.recording._entries import Entry

_ZERO = Decimal(0)


@dataclass(frozen=True, kw_only=True)
class CallEstimate:
    """Upper bounds on what a call takes.

    Attributes
    ----------
    completion_tokens
        None if the request sets no limit: then all that is left is held until the reply arrives.
    money
        None if unknown, as with ``completion_tokens``.
    least_money
        Cost of the prompt alone; None if the model has no price.
    """

    prompt_tokens: int
    completion_tokens: int | None = None
    money: Decimal | None = None
    least_money: Decimal | None = None


@dataclass(frozen=True, kw_only=True)
class CallUsage:
    """What a call took; None is unknown, and counts as ``at_most`` against limits."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cost: Decimal | None = None
    at_most: CallEstimate


@dataclass
class UsageTotals:
    """Calls, tokens and money."""

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    money: Decimal = _ZERO

    def add(self, other: UsageTotals, sign: int = 1) -> None:
        """Add ``other``; with ``sign=-1`` subtract it."""
        self.calls += sign * other.calls
        self.prompt_tokens += sign * other.prompt_tokens
        self.completion_tokens += sign * other.completion_tokens
        self.money += sign * other.money

    @classmethod
    def of(cls, usage: CallUsage) -> UsageTotals:
        """Return the totals of one call; unknown values count as its upper bounds."""
        most = usage.at_most
        prompt = most.prompt_tokens if usage.prompt_tokens is None else usage.prompt_tokens
        completion = most.completion_tokens if usage.completion_tokens is None else usage.completion_tokens
        money = most.money if usage.cost is None else usage.cost
        return cls(calls=1, prompt_tokens=prompt, completion_tokens=completion or 0, money=money or _ZERO)


@dataclass
class BudgetAccount:
    """What is used and held of a run's or a session's budget. Callers hold the tracker's lock."""

    name: str
    budget: Budget
    used: UsageTotals = field(default_factory=UsageTotals)
    held: UsageTotals = field(default_factory=UsageTotals)
    begun: float | None = None

    @property
    def of(self) -> str:
        """Whose budget it is: ``run`` or ``session``."""
        return self.name.partition(" ")[0]

    def hold(self, need: CallEstimate, model: str) -> UsageTotals | None:
        """Return what must be held for a call; None if it has to wait for calls in progress."""
        if self.budget.money is not None and need.least_money is None:
            raise NotConfigured(
                f"budget of the {self.name}: money is limited, but the price of model {model} is unknown; "
                "add it to the file of prices (settings: prices), or limit calls or tokens",
                model=model,
            )
        hold: dict[str, Any] = {}
        for limit, least, most in (
            ("calls", 1, 1),
            ("prompt_tokens", need.prompt_tokens, need.prompt_tokens),
            ("completion_tokens", need.completion_tokens or 1, need.completion_tokens),
            ("money", need.least_money, need.money),
        ):
            if getattr(self.budget, limit) is not None:
                hold[limit] = self._share(limit, least, most)
        return None if None in hold.values() else UsageTotals(**hold)

    def _share(self, limit: str, least: Any, most: Any) -> Any:
        """Return what a call holds under one limit: all that is left if unknown; None if it has to wait."""
        whole, used, held = (getattr(part, limit) for part in (self.budget, self.used, self.held))
        room = whole - used
        free = room - held
        requested = room if most is None else most
        if max(requested, least) > (free if limit == "calls" else room):  # a call in progress stays counted
            raise BudgetExceeded(
                f"budget of the {self.name}: at most {whole} {limit.replace('_', ' ')}, {used} used; the "
                f"next model call may take {max(requested, least)} and was not sent",
                limit=limit,
                of=self.of,
            )
        return requested if requested <= free else None


_PART = re.compile(r"\s*(\w+)\s*=\s*(\d+(?:\.\d+)?)\s*")  # "calls=20"


@dataclass(frozen=True, kw_only=True)
class Budget:
    """Limits; None is unlimited. A call that would exceed one is not sent.

    Attributes
    ----------
    calls
        Requests sent; each attempt counts.
    prompt_tokens, completion_tokens
        Tokens sent and received.
    money
        In the currency of the prices; the built-in table has US dollars.
    seconds
        Of a run: seconds in which its nodes ran. Of a session: seconds since its first model call.
    """

    calls: int | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    money: Decimal | None = None
    seconds: float | None = None

    @classmethod
    def parse(cls, text: str | None) -> Budget:
        """Read limits as in the settings; None means no limit.

        Raises
        ------
        BadOption
            If a limit is unknown, not a number >= 0, or repeated.

        Examples
        --------
        >>> Budget.parse("calls=100, money=2.5").money
        Decimal('2.5')
        """
        kinds: dict[str, type] = {field.name: _KINDS.get(field.name, int) for field in fields(cls)}
        limits: dict[str, Any] = {}
        for part in text.split(",") if text else ():
            found = _PART.fullmatch(part)
            name = found.group(1) if found else None
            whole = found is not None and "." not in found.group(2)
            if found is None or name not in kinds or name in limits or not (whole or name in _KINDS):
                raise BadOption(
                    f"budget {text!r}: {part.strip()!r} is not a limit; write each once, like "
                    f"calls=100,money=2.5; valid are {', '.join(kinds)}",
                    parameter="budget",
                )
            limits[name] = kinds[name](found.group(2))
        return cls(**limits)


_KINDS: dict[str, type] = {"money": Decimal, "seconds": float}


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

    The ``entries`` are from before the run was resumed. Unknown tokens count as :func:`max_tokens_of`, an
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
        self._seconds = _union((datetime.fromisoformat(one.at), one.facts["seconds"]) for one in sent)

    def reserve(self, caller: Caller, estimate: CallEstimate) -> Reservation | None:
        """Hold what a call may take; None if it may fit once calls in progress have ended."""
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
        """Check that the time of the run and of the session is not over ``ahead`` seconds from now."""
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
                prompt_tokens=max_tokens_of(entry.request), completion_tokens=max_tokens_of(entry.reply or "")
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


def _union(spans: Iterable[tuple[datetime, float]]) -> float:
    """Return the seconds covered by at least one span (end and length)."""
    seconds, first = 0.0, math.inf
    for end, length in sorted(((end.timestamp(), length) for end, length in spans), reverse=True):
        seconds += max(min(end, first) - (end - length), 0.0)
        first = min(first, end - length)
    return seconds


def _text(cost: Decimal) -> str:
    return f"{cost.normalize():f}"
