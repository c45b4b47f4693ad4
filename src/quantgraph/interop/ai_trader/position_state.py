"""The account of a ledger between two records, and what is found where they do not fit."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from quantgraph.interop.ai_trader.position_record import PositionRecord
from quantgraph.interop.ai_trader.position_trades import CASH_DUST, cash_after

__all__ = [
    "PositionState",
    "RecordFinding",
    "after",
    "below_zero",
    "differences",
    "explained",
    "opening",
    "state_of",
]

_SHOWN = 3


class RecordFinding(NamedTuple):
    """One thing that is wrong with a record."""

    field: str
    expected: Any
    found: Any
    message: str


class PositionState(NamedTuple):
    """Cash, and shares by symbol."""

    cash: float
    shares: Mapping[str, int]


class FieldDifference(NamedTuple):
    """A field of the state that is not what follows; None where a symbol is not listed."""

    field: str
    expected: float | None
    found: float | None


def state_of(record: PositionRecord) -> PositionState:
    """State as recorded."""
    return PositionState(record.cash, record.positions)


def opening(record: PositionRecord) -> tuple[PositionState, list[RecordFinding]]:
    """State that an account opens with, cash alone, and what is wrong with the registration."""
    findings = [
        RecordFinding(
            f"positions.{symbol}", 0, shares, f"the account opens with {shares} {symbol} that nobody bought"
        )
        for symbol, shares in record.positions.items()
        if shares
    ]
    if record.cash < 0:
        message = f"the account opens with {record.cash} of cash"
        findings.insert(0, RecordFinding("positions.CASH", "not negative", record.cash, message))
    return PositionState(record.cash, dict.fromkeys(record.positions, 0)), findings


def after(before: PositionState, record: PositionRecord, price: float) -> PositionState:
    """State after the action. Cash is taken as recorded where no price says what it is."""
    if record.action not in ("buy", "sell") or not record.amount:
        return before
    held = before.shares.get(record.symbol, 0)
    change = record.amount if record.action == "buy" else -record.amount
    cash = cash_after(before.cash, record.action, price, record.amount, record.fees)
    return PositionState(
        record.cash if math.isnan(cash) else cash, {**before.shares, record.symbol: held + change}
    )


def differences(expected: PositionState, recorded: PositionState) -> list[FieldDifference]:
    """Fields that differ, cash first. Cash is compared as doubles, to the last bit."""
    differing = [
        FieldDifference(f"positions.{symbol}", expected.shares.get(symbol), recorded.shares.get(symbol))
        for symbol in {**expected.shares, **recorded.shares}
        if expected.shares.get(symbol) != recorded.shares.get(symbol)
    ]
    if expected.cash != recorded.cash:
        differing.insert(0, FieldDifference("positions.CASH", expected.cash, recorded.cash))
    return differing


def explained(
    before: PositionState, record: PositionRecord, price: float, differing: list[FieldDifference]
) -> RecordFinding:
    """Name the amount, if another one explains the whole state, else the first difference."""
    if record.action in ("buy", "sell"):
        change = record.positions.get(record.symbol, 0) - before.shares.get(record.symbol, 0)
        amount = change if record.action == "buy" else -change
        meant = after(before, replace(record, amount=amount), price)
        if amount >= 0 and not differences(meant, state_of(record)):
            message = f"amount {record.amount} where the state says {amount}"
            return RecordFinding("this_action.amount", amount, record.amount, message)
    said = [f"{each.field} is {each.found!r}, expected {each.expected!r}" for each in differing[:_SHOWN]]
    more = len(differing) - _SHOWN
    return RecordFinding(*differing[0], ", ".join(said) + (f" and {more} more" if more > 0 else ""))


def below_zero(before: PositionState, record: PositionRecord) -> Iterator[RecordFinding]:
    """What this record took below zero; what was there before is not its doing."""
    if record.cash < -CASH_DUST and record.cash < before.cash:
        yield RecordFinding("positions.CASH", "not negative", record.cash, f"cash is negative: {record.cash}")
    for symbol, shares in record.positions.items():
        if shares < 0 and shares < before.shares.get(symbol, 0):
            yield RecordFinding(
                f"positions.{symbol}", "not negative", shares, f"{symbol} is negative: {shares} shares"
            )
