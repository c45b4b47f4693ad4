"""What is used, held and left under one budget, a run's or a session's."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from quantgraph.errors import BudgetExceeded, NotConfigured
from quantgraph.recording.budget import Budget

__all__ = ["Account", "Need", "Spent", "Sums"]

_ZERO = Decimal(0)


@dataclass(frozen=True, kw_only=True)
class Need:
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
class Spent:
    """What a call took; None is unknown. ``at_most`` stands in for what is unknown where limits are kept."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cost: Decimal | None = None
    at_most: Need


@dataclass
class Sums:
    """Calls, tokens and money."""

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    money: Decimal = _ZERO

    def add(self, other: Sums, sign: int = 1) -> None:
        """Add another, or take it away."""
        self.calls += sign * other.calls
        self.prompt_tokens += sign * other.prompt_tokens
        self.completion_tokens += sign * other.completion_tokens
        self.money += sign * other.money

    @classmethod
    def of(cls, spent: Spent) -> Sums:
        """One call; what is not known of it, at most."""
        most = spent.at_most
        prompt = most.prompt_tokens if spent.prompt_tokens is None else spent.prompt_tokens
        completion = most.completion_tokens if spent.completion_tokens is None else spent.completion_tokens
        money = most.money if spent.cost is None else spent.cost
        return cls(calls=1, prompt_tokens=prompt, completion_tokens=completion or 0, money=money or _ZERO)


@dataclass
class Account:
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
    used: Sums = field(default_factory=Sums)
    held: Sums = field(default_factory=Sums)
    begun: float | None = None

    def hold(self, need: Need, model: str) -> Sums | None:
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
        return None if None in hold.values() else Sums(**hold)

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
