"""The trade plan: how positions end, beside what the decider orders."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from decimal import Decimal
from typing import Any, Literal, get_args

from quantgraph._util.texts import Language, Note
from quantgraph._util.values import is_whole
from quantgraph.errors import BadOption
from quantgraph.market.money import to_decimal

Reentry = Literal["new_signal", "any"]
_WORDS = {
    "stop_loss": Note(zh="止损 {}", en="stop loss {}"),
    "take_profit": Note(zh="止盈 {}", en="take profit {}"),
    "trailing_stop": Note(zh="移动止损 {}", en="trailing stop {}"),
    "max_holding": Note(zh="最多持有 {} 个交易日", en="held at most {} sessions"),
    "max_positions": Note(zh="最多 {} 只", en="at most {} positions"),
    "reentry": Note(zh="再买：{}", en="buys again: {}"),
}
_FRACTIONS = ("stop_loss", "take_profit", "trailing_stop")


@dataclass(frozen=True, kw_only=True)
class TradePlan:
    """How positions end, beside what the decider orders; None where nothing was said.

    The broker carries it out, whoever decides, see ``docs/execution-semantics.md``.

    Attributes
    ----------
    max_positions
        Largest number of positions.
    stop_loss
        Fraction of the average fill price at whose loss a position is sold, in (0, 1).
    take_profit
        Fraction of the average fill price at whose gain it is sold, above 0.
    trailing_stop
        Fraction below the highest close since the entry at which it is sold, in (0, 1).
    max_holding
        Sessions after the entry at whose end it is sold, at the open of the last; at least 1.
    reentry
        When the signal rule buys a symbol again that the plan has sold: ``new_signal``, once its row was
        other than 1, or ``any``.

    Raises
    ------
    BadOption
        If a value is not a number of its range; its parameter is ``plan.NAME``.

    Examples
    --------
    >>> TradePlan(stop_loss=0.08, max_holding=20).to_json()
    {'stop_loss': '0.08', 'max_holding': 20}
    """

    max_positions: int | None = None
    stop_loss: Decimal | float | str | None = None
    take_profit: Decimal | float | str | None = None
    trailing_stop: Decimal | float | str | None = None
    max_holding: int | None = None
    reentry: Reentry = "new_signal"

    def __post_init__(self) -> None:
        for name in _FRACTIONS:
            if (value := getattr(self, name)) is not None:
                number = to_decimal(value, name=f"plan.{name}")
                if number <= 0 or (name != "take_profit" and number >= 1):
                    valid = "above 0" if name == "take_profit" else "above 0 and below 1, 0.08 for 8 %"
                    raise BadOption(f"{name}={value!r}; must be a fraction {valid}", parameter=f"plan.{name}")
                object.__setattr__(self, name, number)
        for name in ("max_positions", "max_holding"):
            value = getattr(self, name)
            if value is not None and (not is_whole(value) or value < 1):
                raise BadOption(f"{name}={value!r}; must be a whole number >= 1", parameter=f"plan.{name}")
        if self.reentry not in get_args(Reentry):
            valid = " or ".join(get_args(Reentry))
            raise BadOption(f"reentry={self.reentry!r}; must be {valid}", parameter="plan.reentry")

    @property
    def needs_range(self) -> bool:
        """Whether it reads the high and the low of sessions."""
        return any(getattr(self, name) is not None for name in _FRACTIONS)

    @property
    def exits(self) -> bool:
        """Whether it ends positions."""
        return self.needs_range or self.max_holding is not None

    def to_json(self) -> dict[str, Any]:
        """What was said, plain JSON with exact numbers as text."""
        said = {each.name: getattr(self, each.name) for each in fields(self)}
        if self.reentry == "new_signal":
            del said["reentry"]
        return {
            name: f"{value:f}" if isinstance(value, Decimal) else value
            for name, value in said.items()
            if value is not None
        }


def plan_words(said: Mapping[str, Any], language: Language) -> list[str]:
    """A plan's JSON for people, a part each.

    >>> plan_words({"stop_loss": "0.08", "max_holding": 20}, "en")
    ['stop loss 8%', 'held at most 20 sessions']
    """
    shown = {
        name: f"{(100 * Decimal(value)).normalize():f}%" if name in _FRACTIONS else value
        for name, value in said.items()
    }
    return [_WORDS[name].text(language).format(value) for name, value in shown.items()]
