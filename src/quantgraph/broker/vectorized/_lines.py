"""A block's lines for the journal, the same as its sessions have one by one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from functools import cached_property, lru_cache
from typing import Literal

import numpy as np
import pandas as pd

from quantgraph.broker.account import Account, Position
from quantgraph.broker.corporate_actions import Dividend
from quantgraph.broker.execution import submit
from quantgraph.broker.ledger.journal import DayLines, Line, day_body, day_lines, delisting_profits, iso
from quantgraph.broker.orders import Fill, Order
from quantgraph.broker.quotes import Quotes
from quantgraph.broker.session_result import SessionResult
from quantgraph.broker.vectorized._arrays import Floats, Ints
from quantgraph.broker.vectorized._block_run import BlockRun, amount_of
from quantgraph.broker.vectorized._line_writer import REASONS, Names, fill_texts, mark_texts, names_of
from quantgraph.broker.vectorized._panel import Placing, cells_of, placing_of
from quantgraph.errors import LedgerConflict
from quantgraph.market.money import ZERO, trim_zeros

__all__ = ["days_of", "worths_of"]

_SUMS = ("notional", "commission", "duty", "transfer", "slippage", "profit")


def worths_of(run: BlockRun) -> tuple[Decimal, ...]:
    """The account's value at the end of each session."""
    days = run.log.days
    return tuple(_exact(worth) for worth in ((days["cash"] + days["owed"]) * 100 + days["stocks"]).tolist())


def days_of(run: BlockRun, values: tuple[Decimal, ...]) -> list[DayLines]:
    """Lines of each session."""
    return _Lines(run).days(values)


class _Lines:
    def __init__(self, run: BlockRun) -> None:
        self._run = run

    def days(self, values: tuple[Decimal, ...]) -> list[DayLines]:
        """Events, orders, marks and the day."""
        run, names = self._run, _names(self._run.task.layout.symbols)
        days, orders = run.log.days, run.orders
        ends = np.concatenate([[0], days["orders"]])
        first = np.repeat(ends[:-1], np.diff(ends))
        fills = fill_texts(orders, first, names)
        lines: list[Line] = [
            ("fill", text) if text else self._rejection(place, place - begin + 1)
            for place, (text, begin) in enumerate(zip(fills, first.tolist(), strict=True))
        ]
        mark_ends = np.concatenate([[0], days["marks"]])
        marks = mark_texts(run.log.marks[: mark_ends[-1]], mark_ends, names)
        found, places = [], ends.tolist()
        bodies = zip(run.task.sessions, marks, self._bodies(values), strict=False)
        for t, (session, text, body) in enumerate(bodies):
            told = [*self._events(t), *lines[places[t] : places[t + 1]], ("marks", text), ("day", body)]
            found.append(DayLines(session=iso(session), lines=told))
        return found

    def _bodies(self, values: tuple[Decimal, ...]) -> list[str]:
        run, days = self._run, self._run.log.days
        ends, orders = days["orders"], run.orders
        filled = orders["filled"] == 1
        sold = filled & (orders["sells"] == 1)
        counts = [filled, sold, sold & (orders["profit"] > 0)]
        amounts = [np.where(sold if name == "profit" else filled, orders[name], 0) for name in _SUMS]
        sums = zip(*(_between(part, ends) for part in (*counts, *amounts)), strict=True)
        dividends = (_dividends(run, t) for t in range(run.count))
        names = ("cash", "owed", "stocks", "held", "largest", "orders")
        rows = zip(*(days[name].tolist() for name in names), values, sums, dividends, strict=True)
        bodies, before = [], 0
        for t, (cash, owed, stocks, held, largest, end, value, sums_of, paid) in enumerate(rows):
            fills, sales, won, *cents, profit = sums_of
            traded, commission, duty, transfer, slippage = (str(amount_of(part)) for part in cents)
            gone = delisting_profits(*run.mornings[t]) if t in run.mornings else []
            body = day_body(
                run.task.rule.name,
                str(amount_of(cash)),
                str(amount_of(owed)),
                str(_exact(stocks)),
                str(value),
                held,
                str(_exact(largest)),
                fills,
                end - before - fills,
                traded,
                [commission, duty, transfer, str(ZERO), slippage],
                str(paid),
                sales + len(gone),
                won + sum(part > 0 for part in gone),
                str(amount_of(profit) + sum(gone, ZERO)),
            )
            bodies.append(body)
            before = end
        return bodies

    def _events(self, t: int) -> list[Line]:
        if t not in self._run.mornings:
            return []
        before, events = self._run.mornings[t]
        result = replace(_NOTHING, session=self._run.task.sessions[t], events=events)
        return list(day_lines(before, result).lines[:-2])

    def _rejection(self, place: int, sequence: int) -> Line:
        """Ask the desk why: it has to refuse, too."""
        task, order = self._run.task, self._run.orders[place]
        t = int(np.searchsorted(self._run.log.days["orders"], place, side="right"))
        column, quantity, session = int(order["column"]), int(order["quantity"]), task.sessions[t]
        symbol = task.layout.symbols[column]
        side: Literal["buy", "sell"] = "sell" if order["sells"] else "buy"
        held = Position(quantity=quantity, sellable=quantity, cost=ZERO, entered=session)
        outcome = submit(
            Order(symbol=symbol, side=side, quantity=quantity, sequence=sequence, reason=REASONS[side]),
            Account(cash=amount_of(int(order["cash"])), positions={symbol: held} if side == "sell" else {}),
            Quotes(self._row(column, task.first + t))[symbol],
            task.rules,
            session,
        )
        if isinstance(outcome, Fill):
            raise LedgerConflict(
                f"{session:%Y-%m-%d}, order {sequence} of {symbol}: the block refuses what the desk fills",
                session=str(session.date()),
            )
        return day_lines(_NOTHING.account, replace(_NOTHING, session=session, outcomes=(outcome,))).lines[0]

    def _row(self, column: int, row: int) -> Mapping[str, Mapping[str, float]]:
        symbol, cells = self._run.task.layout.symbols[column], {}
        for name, (values, placing) in self._fields.items():
            place = placing.rows[row], placing.columns[column]
            cells[name] = {symbol: float(values[place])} if min(place) >= 0 else {}
        return cells

    @cached_property
    def _fields(self) -> dict[str, tuple[Floats, Placing]]:
        store, data_ref = self._run.task.store, self._run.task.data_ref
        return {
            name: (cells_of(store, data_ref, "ohlcv", name), placing_of(store, data_ref, "ohlcv", name))
            for name in store.snapshot(data_ref)["ohlcv"]
        }


_NOTHING = SessionResult(
    session=pd.Timestamp(0), decider="", account=Account(cash=ZERO), outcomes=(), marks={}, value=ZERO
)
"""A session in which nothing happened, to be filled with what did."""


@lru_cache(maxsize=8)
def _names(symbols: tuple[str, ...]) -> Names:
    return names_of(symbols)


def _between(amounts: Ints, ends: Ints) -> list[int]:
    """Sum of the amounts that each session has."""
    sums: list[int] = np.diff(np.concatenate([[0], np.cumsum(amounts)])[ends], prepend=0).tolist()
    return sums


def _dividends(run: BlockRun, t: int) -> Decimal:
    _, events = run.mornings.get(t, (None, ()))
    return sum((event.amount for event in events if isinstance(event, Dividend)), ZERO)


def _exact(amount: int) -> Decimal:
    """An amount in 1e-4 as the account's values are written."""
    return trim_zeros(Decimal(amount).scaleb(-4))
