"""Replaying a ``position.jsonl``: each record has to follow from the one before.

What is damaged in one record is told once, at that record. The next one is held against the recorded
state and, if there was a mismatch, also against the state that should have been recorded: a byte that
was changed afterwards left the following lines as they were, a tool that erred went on from its error.
"""

from __future__ import annotations

import datetime as dt
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import pandas as pd

from quantgraph.errors import BadFile, BadWindow, UnknownSymbol
from quantgraph.interop.ai_trader.position_record import PositionRecord
from quantgraph.interop.ai_trader.position_state import (
    PositionState,
    RecordFinding,
    after,
    below_zero,
    differences,
    explained,
    opening,
    state_of,
)
from quantgraph.market.rulebook import Rulebook

__all__ = ["LedgerMarket", "Mismatch", "replay_positions"]

LedgerMarket = Literal["cn", "us"]

_LOT = 100


@dataclass(frozen=True, kw_only=True)
class Mismatch:
    """A line that does not follow from the one before.

    ``line`` counts from 1. ``id`` and ``date`` are the record's, None where the line is no record.
    ``field`` is the first thing that is wrong, ``message`` names all of them.
    """

    line: int
    id: int | None
    date: str | None
    field: str
    expected: Any
    found: Any
    message: str


def replay_positions(
    scanned: Iterable[tuple[int, PositionRecord | BadFile]],
    bars: Mapping[str, pd.DataFrame],
    market: LedgerMarket,
) -> Iterator[Mismatch]:
    """Yield a mismatch for each line that does not follow, in order.

    Parameters
    ----------
    scanned
        Lines as :func:`~quantgraph.interop.ai_trader.position_file.scan_positions` gives them.
    bars
        Wide frames ``open``, ``high``, ``low`` of unadjusted prices, NaN where there was no trading.
        Their index says what a session is.
    market
        ``cn``: purchases in lots of 100, a sale takes an odd rest whole or not at all, nothing is sold in
        the session it was bought in (trading rules of SSE and SZSE, 2023-02-17). AI-Trader knows lots of
        100 alone; what STAR and Beijing allow beyond them (200 or 100 and then single shares) passes too.
        ``us``: whole shares.
    """
    follower = _Follower(_Prices(bars), market)
    for line, record in scanned:
        findings = follower.unread(record) if isinstance(record, BadFile) else follower.follow(record)
        if findings:
            read = None if isinstance(record, BadFile) else record
            yield Mismatch(
                line=line,
                id=read.id if read else None,
                date=read.date if read else None,
                field=findings[0].field,
                expected=findings[0].expected,
                found=findings[0].found,
                message="; ".join(finding.message for finding in findings),
            )


class _Prices:
    """Prices by date as text."""

    def __init__(self, bars: Mapping[str, pd.DataFrame]) -> None:
        index = pd.DatetimeIndex(bars["open"].index)
        self._rows = {day: row for row, day in enumerate(index.strftime("%Y-%m-%d"))}
        self.span = f"{index[0]:%Y-%m-%d} to {index[-1]:%Y-%m-%d}"
        self._columns = {symbol: column for column, symbol in enumerate(bars["open"].columns)}
        self._values = {field: bars[field].to_numpy() for field in ("open", "high", "low")}

    def is_session(self, date: str) -> bool:
        return date in self._rows

    def knows(self, symbol: str) -> bool:
        return symbol in self._columns

    def at(self, field: str, date: str, symbol: str) -> float:
        """NaN where there is none."""
        row, column = self._rows.get(date), self._columns.get(symbol)
        return math.nan if row is None or column is None else float(self._values[field][row, column])


class _Follower:
    """What a next record may follow from.

    ``states`` is empty as long as nothing is known: before the registration, and after a line that is
    no record or an opening that cannot be.
    """

    def __init__(self, prices: _Prices, market: LedgerMarket) -> None:
        self._prices = prices
        self._market = market
        self._ids: tuple[int, ...] = (0,)
        self._states: tuple[PositionState, ...] = ()
        self._since = ""
        self._bought: Counter[tuple[str, str]] = Counter()
        self._at_start = True

    def unread(self, error: BadFile) -> list[RecordFinding]:
        """Go past a line that is no record: it may stand for one, or for none."""
        self._ids = (self._ids[0] + 1, *self._ids)
        self._states = ()
        return [RecordFinding(error.data["field"], "a record", error.data["found"], str(error))]

    def follow(self, record: PositionRecord) -> list[RecordFinding]:
        """Hold a record against the one before and go on from it."""
        registration = self._at_start and record.action is None
        findings = [*self._id(record), *self._date(record, registration=registration)]
        findings += self._register(record) if registration else self._transition(record)
        self._ids = (record.id + 1,) if record.id in self._ids else (record.id + 1, self._ids[0] + 1)
        self._since = min(self._since, record.date) if findings else record.date
        self._at_start = False
        return findings

    def _id(self, record: PositionRecord) -> Iterator[RecordFinding]:
        if record.id not in self._ids:
            wanted = self._ids[0]
            why = "a line is missing or the id was changed"
            yield RecordFinding("id", wanted, record.id, f"id {record.id} where {wanted} follows: {why}")

    def _date(self, record: PositionRecord, *, registration: bool) -> Iterator[RecordFinding]:
        if not registration and not self._prices.is_session(record.date):
            message = f"date {record.date!r} is no session of the prices, {self._prices.span}"
            yield RecordFinding("date", "a session", record.date, message)
        elif record.date < self._since:
            yield RecordFinding("date", self._since, record.date, f"date {record.date} after {self._since}")

    def _register(self, record: PositionRecord) -> list[RecordFinding]:
        opened, findings = opening(record)
        self._states = (opened,) if record.cash >= 0 else ()
        return findings

    def _transition(self, record: PositionRecord) -> list[RecordFinding]:
        recorded = state_of(record)
        candidates, self._states = self._states, (recorded,)
        if record.action is None:
            message = "this_action is missing after the first record"
            return [RecordFinding("this_action", "an action", None, message)]
        price, findings = self._price(record)
        if not candidates:
            if self._at_start and record.id == self._ids[-1]:
                message = "the first record is no registration: it has an action"
                findings.append(RecordFinding("this_action", None, record.action, message))
            return [*findings, *self._rules(record, None)]
        outcomes = [(before, after(before, record, price)) for before in candidates]
        before, expected = min(outcomes, key=lambda outcome: len(differences(outcome[1], recorded)))
        differing = differences(expected, recorded)
        if differing:
            findings.append(explained(before, record, price, differing))
            self._states = (recorded, expected)
        if record.action == "buy":
            grown = record.positions.get(record.symbol, 0) - before.shares.get(record.symbol, 0)
            self._bought[record.date, record.symbol] += max(0, min(record.amount, grown))
        return [*findings, *self._rules(record, before)]

    def _price(self, record: PositionRecord) -> tuple[float, list[RecordFinding]]:
        """Price of the fill, NaN if nobody knows it."""
        symbol, date = record.symbol, record.date
        if record.action == "no_trade":
            return math.nan, []
        if not self._prices.knows(symbol):
            message = f"symbol {symbol!r} is unknown to the prices"
            return math.nan, [RecordFinding("this_action.symbol", "a symbol of the prices", symbol, message)]
        opened = self._prices.at("open", date, symbol)
        if not record.amount or not self._prices.is_session(date):
            return opened, []
        if math.isnan(opened):
            message = f"{symbol} has no price on {date}"
            return math.nan, [RecordFinding("this_action.symbol", "a symbol with a price", symbol, message)]
        return (opened, []) if record.price is None else self._traded_at(record, opened, record.price)

    def _traded_at(
        self, record: PositionRecord, opened: float, price: float
    ) -> tuple[float, list[RecordFinding]]:
        """Check a recorded price: the open, or one within the session's range."""
        low, high = (self._prices.at(field, record.date, record.symbol) for field in ("low", "high"))
        if price == opened or low <= price <= high:
            return price, []
        message = f"price {price} of {record.symbol} was not traded on {record.date}, its open is {opened}"
        return opened, [RecordFinding("this_action.price", opened, price, message)]

    def _rules(self, record: PositionRecord, before: PositionState | None) -> Iterator[RecordFinding]:
        symbol, amount = record.symbol, record.amount
        if before:
            yield from below_zero(before, record)
        if self._market == "us" or not amount:
            return
        held = before.shares.get(symbol, 0) if before else None
        odd = 0 if _by_single_shares(symbol, amount, record.date) else amount % _LOT
        if odd and (record.action == "buy" or (held is not None and odd != held % _LOT)):
            message = f"{record.action} of {amount} {symbol} is not in lots of {_LOT}"
            yield RecordFinding("this_action.amount", f"lots of {_LOT}", amount, message)
        if record.action == "sell" and held is not None:
            free = held - self._bought[record.date, symbol]
            if amount > free:
                message = f"sells {amount} {symbol} of which {free} were not bought on {record.date} (T+1)"
                yield RecordFinding("this_action.amount", free, amount, message)


def _by_single_shares(symbol: str, amount: int, day: str) -> bool:
    try:
        lots = Rulebook.mainland().lots(symbol, dt.date.fromisoformat(day))
    except (UnknownSymbol, BadWindow):
        return False
    return lots.step == 1 and amount >= lots.first
