"""What a run, or one of its trading sessions, may spend on models."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, fields
from decimal import Decimal
from typing import Any

from quantgraph.errors import BadOption, BudgetExceeded, NotConfigured

__all__ = ["Budget", "BudgetAccount", "CallEstimate", "CallUsage", "UsageTotals"]

_ZERO = Decimal(0)


@dataclass(frozen=True, kw_only=True)
class CallEstimate:
    """What a call takes at most.

    Attributes
    ----------
    completion_tokens
        None if the request sets no limit: then all that is left is held until the reply is there.
    money
        None if it is not known, as with ``completion_tokens``.
    least_money
        What the prompt alone may cost; None if the model has no price.
    """

    prompt_tokens: int
    completion_tokens: int | None = None
    money: Decimal | None = None
    least_money: Decimal | None = None


@dataclass(frozen=True, kw_only=True)
class CallUsage:
    """What a call took; None is unknown. ``at_most`` stands in for what is unknown where limits are kept."""

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
        """Add another, or take it away."""
        self.calls += sign * other.calls
        self.prompt_tokens += sign * other.prompt_tokens
        self.completion_tokens += sign * other.completion_tokens
        self.money += sign * other.money

    @classmethod
    def of(cls, spent: CallUsage) -> UsageTotals:
        """One call; what is not known of it, at most."""
        most = spent.at_most
        prompt = most.prompt_tokens if spent.prompt_tokens is None else spent.prompt_tokens
        completion = most.completion_tokens if spent.completion_tokens is None else spent.completion_tokens
        money = most.money if spent.cost is None else spent.cost
        return cls(calls=1, prompt_tokens=prompt, completion_tokens=completion or 0, money=money or _ZERO)


@dataclass
class BudgetAccount:
    """A run's, or a session's. Whoever uses it holds the tally's lock.

    Attributes
    ----------
    used, held
        What calls took, and what is held for those under way.
    begun
        When a session began, on the monotonic clock.
    """

    name: str
    budget: Budget
    used: UsageTotals = field(default_factory=UsageTotals)
    held: UsageTotals = field(default_factory=UsageTotals)
    begun: float | None = None

    def hold(self, need: CallEstimate, model: str) -> UsageTotals | None:
        """What is to be held for a call; None if it has to wait for others.

        Raises
        ------
        BudgetExceeded
            If it does not fit, whatever comes back from calls under way.
        NotConfigured
            If money is limited and the model has no price.
        """
        if self.budget.money is not None and need.least_money is None:
            raise NotConfigured(
                f"budget of the {self.name}: money is limited, and the price of model {model} is not known; "
                "name it in the file of prices (settings: prices), or limit calls or tokens",
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
        """What a call holds under one limit: all that is left if nobody knows; None if it has to wait."""
        whole, used, held = (getattr(part, limit) for part in (self.budget, self.used, self.held))
        room = whole - used
        free = room - held
        asked = room if most is None else most
        if max(asked, least) > (free if limit == "calls" else room):  # a call under way is one for good
            raise BudgetExceeded(
                f"budget of the {self.name}: {whole} {limit.replace('_', ' ')} at most, {used} used; the "
                f"next model call may take {max(asked, least)} and was not sent",
                limit=limit,
            )
        return asked if asked <= free else None


_PART = re.compile(r"\s*(\w+)\s*=\s*(\d+(?:\.\d+)?)\s*")


@dataclass(frozen=True, kw_only=True)
class Budget:
    """Limits; None is none. What would pass one is not sent.

    Attributes
    ----------
    calls
        Requests sent; each attempt is one.
    prompt_tokens, completion_tokens
        Tokens sent and received.
    money
        In the currency of the prices, US dollars in the table that is built in.
    seconds
        Of a run: seconds in which its nodes were at work. Of a session: seconds since its first model call.
    """

    calls: int | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    money: Decimal | None = None
    seconds: float | None = None

    @classmethod
    def parse(cls, text: str | None) -> Budget:
        """Read limits as settings have them; None is no limit at all.

        Raises
        ------
        BadOption
            If a limit is not known, not a number from 0 on, or given twice.

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
                    f"budget {text!r}: {part.strip()!r} is no limit; write each once, like "
                    f"calls=100,money=2.5; valid are {', '.join(kinds)}",
                    parameter="budget",
                )
            limits[name] = kinds[name](found.group(2))
        return cls(**limits)


_KINDS: dict[str, type] = {"money": Decimal, "seconds": float}
