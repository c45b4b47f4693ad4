"""Budgets for models: the limits of a run or of one of its sessions, and what is used and held of them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, fields
from decimal import Decimal
from typing import Any

from quantgraph.errors import BadOption, BudgetExceeded, NotConfigured

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
    """What is used and held of a run's or a session's budget. Callers hold the tracker's lock.

    Attributes
    ----------
    used, held
        What calls took, and what is reserved for calls in progress.
    begun
        When a session began, on the monotonic clock; None for a run.
    """

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
        """Return what must be held for a call; None if it has to wait for calls in progress.

        Raises
        ------
        BudgetExceeded
            If it does not fit even if the calls in progress take nothing.
        NotConfigured
            If money is limited and the model has no price.
        """
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


_PART = re.compile(r"\s*(\w+)\s*=\s*(\d+(?:\.\d+)?)\s*")


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
            If a limit is unknown, not a number >= 0, or given twice.

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
