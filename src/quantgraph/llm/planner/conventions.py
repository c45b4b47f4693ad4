"""What a sentence leaves open about a rule, so that any of it is right: ties, smoothing, deviations, adjustment."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from itertools import product
from typing import Any, Literal

from quantgraph.llm.planner.rules import (
    Average,
    Band,
    Extreme,
    Indicator,
    Kdj,
    Macd,
    Number,
    Rank,
    Rsi,
    Scaled,
    TradingRule,
    Value,
    leaves_of,
)

Gaps = Literal["blind", "filled", "skipped"]
"""A suspension blinds the windows that contain it, is filled with the last price, or is skipped."""
Ties = Literal["floats", "apart", "touching", "strict"]
"""Whether values equal up to rounding count as above and below: as floats come, never, both ways, or neither today
nor the session before."""


@dataclass(frozen=True, kw_only=True)
class Conventions:
    """What one program does alike for all symbols; the first choice of each is the planner's own.

    Attributes
    ----------
    prices
        Raw, or adjusted for dividends and splits.
    ddof
        Of the standard deviation of a Bollinger band.
    ema
        ``recursive`` from the first value, ``weighted`` by the sum of the weights so far, ``seeded`` by the
        first simple mean (TA-Lib).
    rsi
        Wilder's smoothing seeded by a mean (TA-Lib), from the first value, by the sum of weights; or simple means.
    kdj
        Smoothing from 50, from the first value, or by simple means.
    breakout
        Highest high or close of the sessions before, or of as many with today's.
    volume
        Whether an average of the volume includes today's.
    border
        Where a rank ends: without ties across it, with them, or by their order; a percentage rounded down,
        rounded up, or as a quantile.
    """

    prices: Literal["raw", "adjusted"] = "raw"
    ddof: Literal[0, 1] = 0
    ema: Literal["recursive", "weighted", "seeded"] = "recursive"
    rsi: Literal["wilder", "recursive", "weighted", "simple"] = "wilder"
    kdj: Literal["fifty", "first", "simple"] = "fifty"
    breakout: Literal["before", "close_before", "today", "close_today"] = "before"
    volume: Literal["today", "before"] = "today"
    border: Literal["out", "in", "order", "up", "quantile"] = "out"


_CHOICES: dict[str, tuple[Any, ...]] = {
    "prices": ("raw", "adjusted"),
    "ddof": (0, 1),
    "ema": ("recursive", "weighted", "seeded"),
    "rsi": ("wilder", "recursive", "weighted", "simple"),
    "kdj": ("fifty", "first", "simple"),
    "breakout": ("before", "close_before", "today", "close_today"),
    "volume": ("today", "before"),
    "border": ("out", "in", "order", "up", "quantile"),
}


def values_of(rule: TradingRule) -> Iterator[Value]:
    """Values that the conditions of a rule compare or rank, in reading order."""
    for leaf in (*leaves_of(rule.entry), *leaves_of(rule.exit)):
        yield from (leaf.value,) if isinstance(leaf, Rank) else (leaf.left, leaf.right)


def open_conventions(rule: TradingRule, *, adjusted: bool) -> Iterator[Conventions]:
    """Every combination of what the rule leaves open; the planner's own comes first.

    Parameters
    ----------
    adjusted
        Whether adjusted prices exist and differ from the raw ones.
    """
    is_open = set[str]()
    for value in values_of(rule):
        is_open |= _open_in(value)
    if any(isinstance(leaf, Rank) for leaf in (*leaves_of(rule.entry), *leaves_of(rule.exit))):
        is_open.add("border")
    if not adjusted:
        is_open.discard("prices")
    names = [field.name for field in fields(Conventions) if field.name in is_open]
    for choice in product(*(_CHOICES[name] for name in names)):
        yield Conventions(**dict(zip(names, choice, strict=True)))


def _open_in(value: Value) -> set[str]:
    match value:
        case Average(field="vol") as average:
            return {"volume"} | ({"ema"} if average.kind == "ema" else set())
        case Scaled(value=average):
            return _open_in(average)
        case Average(kind="ema") | Macd():
            return {"prices", "ema"}
        case Band():
            return {"prices", "ddof"}
        case Rsi():
            return {"prices", "rsi"}
        case Kdj():
            return {"prices", "kdj"}
        case Extreme():
            return {"prices", "breakout"}
    return set() if isinstance(value, Number | Indicator) else {"prices"}
