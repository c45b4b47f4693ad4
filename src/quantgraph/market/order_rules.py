"""What an order must satisfy besides its price: lots, size, day of resale, halts."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from typing import Literal

from quantgraph.market.boards import FundKind, board_of, exchange_of
from quantgraph.market.dated_rules import DatedValues, load_rules

__all__ = ["Lots", "OrderType", "halted", "lots", "order_cap", "t_plus", "us_tick"]

OrderType = Literal["open", "close", "limit"]
"""In the opening auction, in the closing auction, or with a limit price during the session."""


@dataclass(frozen=True, kw_only=True)
class Lots:
    """The smallest buy, and the step above it; what is left below it is sold in one piece."""

    first: int | Decimal
    step: int | Decimal


def lots(symbol: str, day: dt.date) -> Lots:
    """Lots of a mainland symbol."""
    return _lots(board_of(symbol)).on(day)


def order_cap(symbol: str, day: dt.date) -> int:
    """Most shares in one limit order of a mainland symbol; auctions take limit orders alone."""
    return _integers("cap", board_of(symbol)).on(day)


def t_plus(symbol: str, day: dt.date, kind: FundKind | None) -> int:
    """Sessions between buying and selling a mainland symbol; ``kind`` is the fund's, None for shares."""
    if kind is None:
        return _integers("t_plus", "stock").on(day)
    name = kind.removesuffix("_20")
    return _integers(
        "t_plus", f"fund_{name}_{exchange_of(symbol)}" if name == "commodity" else f"fund_{name}"
    ).on(day)


def halted(day: dt.date, type: OrderType) -> bool:  # noqa: A002 - the word for it
    """Whether the mainland's market was halted to the close, so that the closing price could not be traded.

    The circuit breaker of 2016-01-04 and 2016-01-07 came after the opening auction. A limit order meets the
    prices of the session, and those are all from before the halt.
    """
    return type == "close" and day in _halts()


def us_tick(day: dt.date, price: Decimal) -> Decimal:
    """Smallest step of a US price, in USD (SEC Rule 612)."""
    from_one, below_one = _us_ticks().on(day)
    return from_one if price >= 1 else below_one


@cache
def _lots(board: str) -> DatedValues[Lots]:
    rows = load_rules("cn")["lots"][board]
    return DatedValues(f"lots of {board}", rows, lambda row: Lots(first=row["first"], step=row["step"]))


@cache
def _integers(table: str, name: str) -> DatedValues[int]:
    what = "largest order of" if table == "cap" else "day of resale of"
    return DatedValues(f"{what} {name}", load_rules("cn")[table][name], lambda row: int(row["value"]))


@cache
def _halts() -> frozenset[dt.date]:
    return frozenset(row["day"] for row in load_rules("cn")["halts"])


@cache
def _us_ticks() -> DatedValues[tuple[Decimal, Decimal]]:
    rows = load_rules("us")["tick"]
    return DatedValues("tick", rows, lambda row: (Decimal(row["value"]), Decimal(row["below_one"])))
