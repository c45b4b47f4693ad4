"""A ``position.jsonl`` of trades, session by session."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from quantgraph.integrations.ai_trader._trades import (
    PositionFill,
    PositionRecord,
    day_records,
    opening_record,
)


def records_of(
    opening_date: str,
    cash: float,
    symbols: Sequence[str],
    fills: Iterable[tuple[Any, ...]],
    *,
    sessions: Iterable[str],
) -> list[PositionRecord]:
    """The records of a run that fills its trades in these sessions."""
    trades = [PositionFill(*each) for each in fills]
    records = [opening_record(opening_date, cash, symbols)]
    for day in sorted(session for session in sessions if session >= opening_date):
        records += day_records(records[-1], day, [trade for trade in trades if trade.date == day])
    return records
