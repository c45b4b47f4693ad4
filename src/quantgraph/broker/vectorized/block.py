"""A block of sessions, traded by array code, and its lines for the journal.

Fills and lines are those that the sessions would have one by one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from functools import cached_property, lru_cache
from typing import Literal

import numpy as np
import pandas as pd

from quantgraph.broker.account import Account, Position
from quantgraph.broker.corporate_actions import ActionBook, Dividend
from quantgraph.broker.decider import BlockRule
from quantgraph.broker.ledger.journal import DayLines, Line, day_body, day_lines, delisting_profits, iso
from quantgraph.broker.open_session import Block, SessionResult
from quantgraph.broker.order_matching import submit
from quantgraph.broker.orders import Fill, Order
from quantgraph.broker.quotes import Quotes
from quantgraph.broker.valuation import MarkAt
from quantgraph.broker.vectorized._arrays import Floats, Ints
from quantgraph.broker.vectorized._block_run import BlockRun, amount_of
from quantgraph.broker.vectorized._line_writer import REASONS, Names, fill_texts, mark_texts, names_of
from quantgraph.broker.vectorized._market import market_of, rule_of
from quantgraph.broker.vectorized._panel import BlockTask, FallbackRequired, Placing, cells_of, placing_of
from quantgraph.errors import LedgerConflict
from quantgraph.market.money import ZERO, trim_zeros
from quantgraph.market.rulebook import Rulebook
from quantgraph.state import DataState

_SUMS = ("notional", "commission", "duty", "transfer", "slippage", "profit")


def trade_block(
    store: DataState,
    data_ref: str,
    sessions: Sequence[pd.Timestamp],
    rule: BlockRule,
    *,
    account: Account,
    rules: Rulebook,
    book: ActionBook,
    mark_at: MarkAt,
) -> Block | None:
    """Trade sessions from the account on the evening before the first of them.

    Returns
    -------
    Block or None
        Some or all of the sessions, from the first on. None if the first must be traded order by order:
        fractions of shares and the US market, a volume cap, prices finer than four decimals, amounts of 10^12
        and more, a sale above the size cap of an order, symbols on an unknown board, limits that depend on a
        symbol's status, and a rule that does not trade, without holdings.

    Raises
    ------
    LedgerConflict
        If the orders do not lead to the cash and the holdings at the end, or :func:`submit` would fill an
        order that was refused here: an error of this package, found before anything is recorded.
    """
    try:
        task = BlockTask.of(store, data_ref, sessions, rule, rules=rules, book=book, mark_at=mark_at)
        market, plain = market_of(task), rule_of(task)
        run = BlockRun(task=task, market=market, rule=plain, before=account, count=len(task.sessions))
        done = run.go()
        if 0 < done < run.count:  # the arrays hold a part of the next session: run again without it
            run = BlockRun(task=task, market=market, rule=plain, before=account, count=done)
            run.go()
    except FallbackRequired:
        return None
    if not done:
        return None
    run.check()
    lines = _BlockLines(run)
    return Block(
        sessions=tuple(task.sessions[:done]), values=lines.values, account=run.account(), write=lines.days
    )


class _BlockLines:
    """The journal lines of a block that was traded."""

    def __init__(self, run: BlockRun) -> None:
        self._run = run
        days = run.log.days
        worths = ((days["cash"] + days["owed"]) * 100 + days["stocks"]).tolist()
        self.values = tuple(_exact(worth) for worth in worths)

    def days(self) -> list[DayLines]:
        """Events, orders, marks and the day of each session."""
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
        for t, (session, text, body) in enumerate(
            zip(run.task.sessions, marks, self._bodies(), strict=False)
        ):
            parts = [*self._events(t), *lines[places[t] : places[t + 1]], ("marks", text), ("day", body)]
            found.append(DayLines(session=iso(session), lines=parts))
        return found

    def _bodies(self) -> list[str]:
        """The ``day`` bodies."""
        run, days = self._run, self._run.log.days
        ends, orders = days["orders"], run.orders
        filled = orders["filled"] == 1
        sold = filled & (orders["sells"] == 1)
        counts = [filled, sold, sold & (orders["profit"] > 0)]
        amounts = [np.where(sold if name == "profit" else filled, orders[name], 0) for name in _SUMS]
        sums = zip(*(_between(part, ends) for part in (*counts, *amounts)), strict=True)
        names = ("cash", "owed", "stocks", "held", "largest", "orders")
        rows = zip(*(days[name].tolist() for name in names), self.values, sums, strict=True)
        bodies, before = [], 0
        for t, (cash, owed, stocks, held, largest, end, value, sums_of) in enumerate(rows):
            fills, sales, won, *cents, profit = sums_of
            traded, commission, duty, transfer, slippage = map(amount_of, cents)
            gone = delisting_profits(*run.mornings[t]) if t in run.mornings else []
            body = day_body(
                decider=run.task.rule.name,
                cash=amount_of(cash),
                owed=amount_of(owed),
                stocks=_exact(stocks),
                value=value,
                positions=held,
                largest=_exact(largest),
                fills=fills,
                rejections=end - before - fills,
                traded=traded,
                commission=commission,
                stamp_duty=duty,
                transfer_fee=transfer,
                regulatory=ZERO,
                slippage=slippage,
                dividends=_dividends(run, t),
                sales=sales + len(gone),
                won=won + sum(part > 0 for part in gone),
                realised=amount_of(profit) + sum(gone, ZERO),
            )
            bodies.append(body)
            before = end
        return bodies

    def _events(self, t: int) -> list[Line]:
        if t not in self._run.mornings:
            return []
        before, events = self._run.mornings[t]
        result = replace(_EMPTY, session=self._run.task.sessions[t], events=events)
        return list(day_lines(before, result).lines[:-2])

    def _rejection(self, place: int, sequence: int) -> Line:
        """The line of a refused order, from :func:`submit`, which must refuse it too."""
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
                f"{session:%Y-%m-%d}, order {sequence} of {symbol}: the block refuses what submit() fills",
                session=str(session.date()),
            )
        return day_lines(_EMPTY.account, replace(_EMPTY, session=session, outcomes=(outcome,))).lines[0]

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


_EMPTY = SessionResult(
    session=pd.Timestamp(0), decider="", account=Account(cash=ZERO), outcomes=(), marks={}, value=ZERO
)
"""A session in which nothing happened."""


@lru_cache(maxsize=8)
def _names(symbols: tuple[str, ...]) -> Names:
    return names_of(symbols)


def _between(amounts: Ints, ends: Ints) -> list[int]:
    """Sum of the amounts of each session."""
    sums: list[int] = np.diff(np.concatenate([[0], np.cumsum(amounts)])[ends], prepend=0).tolist()
    return sums


def _dividends(run: BlockRun, t: int) -> Decimal:
    _, events = run.mornings.get(t, (None, ()))
    return sum((event.amount for event in events if isinstance(event, Dividend)), ZERO)


def _exact(amount: int) -> Decimal:
    """An amount in 1e-4 as the account's values are written."""
    cents, more = divmod(amount, 100)
    return trim_zeros(Decimal(amount).scaleb(-4)) if more else Decimal(cents).scaleb(-2)
