"""Verifying AI-Trader's ``position.jsonl``: does each record follow, and what was the account worth."""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple, get_args

import pandas as pd

from quantgraph.data import MarketDataSource, Panel, open_source
from quantgraph.errors import BadOption
from quantgraph.interop.ai_trader.position_file import PositionRecord, scan_positions
from quantgraph.interop.ai_trader.position_replay import LedgerMarket, Mismatch, replay_positions

__all__ = ["LedgerMarket", "Mismatch", "Verification", "verify_positions"]


@dataclass(frozen=True, kw_only=True)
class Verification:
    """What a ledger is worth and which of its lines do not follow.

    Values are the recorded ones, whether they follow or not: the initial cash, then cash and shares at
    the close of each session of the prices from ``first_date`` to ``last_date``, both inclusive.

    Attributes
    ----------
    records
        Lines that are records.
    mismatches
        At most one a line.
    sessions
        Sessions from the first date to the last.
    carried
        How often a holding had no close in a session and was valued at its last one.
    final_value, total_return, max_drawdown
        In the market's currency, and as fractions (drawdown 0 or negative). None where a holding never
        had a close, or an account that did not open with cash alone, or fell to nothing, has no return.
    """

    records: int
    mismatches: tuple[Mismatch, ...]
    first_date: str
    last_date: str
    sessions: int
    carried: int
    final_value: float | None
    total_return: float | None
    max_drawdown: float | None

    def as_dict(self) -> dict[str, Any]:
        """For JSON; the total return is called ``return``."""
        return {"return" if name == "total_return" else name: value for name, value in asdict(self).items()}


def verify_positions(
    file: str | Path, prices: str | Path | MarketDataSource, market: LedgerMarket
) -> Verification:
    """Replay a ledger against prices.

    Parameters
    ----------
    file
        A ``position.jsonl``.
    prices
        Daily bars as :func:`~quantgraph.data.open_source` takes them: unadjusted, all sessions of the
        ledger, complete sessions as the calendar.
    market
        ``cn`` or ``us``: the rules a trade has to keep.

    Raises
    ------
    BadFile
        If a file cannot be read, or is not what it has to be.
    BadOption
        If ``market`` is none of the two, or ``prices`` is no source.
    """
    if market not in get_args(LedgerMarket):
        raise BadOption(f"market={market!r}; valid: {', '.join(get_args(LedgerMarket))}", parameter="market")
    scanned = scan_positions(file)
    source = open_source(prices)
    sessions = source.sessions()
    bars = source.bars(source.symbols(), sessions[0], sessions[-1])
    records = [record for _, record in scanned if isinstance(record, PositionRecord)]
    valuation = _valuation(records, bars)
    values = pd.Series(valuation.values, dtype="float64")
    measurable = not any(records[0].positions.values()) and bool((values > 0).all())
    return Verification(
        records=len(records),
        mismatches=tuple(replay_positions(scanned, bars, market)),
        first_date=records[0].date,
        last_date=records[-1].date,
        sessions=len(values) - 1,
        carried=valuation.carried,
        final_value=None if math.isnan(valuation.values[-1]) else valuation.values[-1],
        total_return=float(values.iloc[-1] / values.iloc[0] - 1) if measurable else None,
        max_drawdown=float((values / values.cummax() - 1).min()) if measurable else None,
    )


class _Valuation(NamedTuple):
    values: list[float]
    carried: int


def _valuation(records: list[PositionRecord], bars: Panel) -> _Valuation:
    """Initial cash and one value a session; NaN where a holding never had a close."""
    closes = bars["close"]
    filled, columns = closes.ffill().to_numpy(), {symbol: n for n, symbol in enumerate(closes.columns)}
    missing = closes.isna().to_numpy()
    days = pd.DatetimeIndex(closes.index).strftime("%Y-%m-%d")
    ends = {record.date: record for record in records}
    dates = sorted(ends)
    values, carried = [records[0].cash], 0
    for row, day in enumerate(days):
        if not records[0].date <= day <= records[-1].date:
            continue
        state = ends[dates[bisect_right(dates, day) - 1]]
        held = {columns.get(symbol): shares for symbol, shares in state.positions.items() if shares}
        worth = (
            math.nan if column is None else shares * float(filled[row, column])
            for column, shares in held.items()
        )
        values.append(state.cash + sum(worth))
        carried += sum(bool(missing[row, column]) for column in held if column is not None)
    return _Valuation(values, carried)
