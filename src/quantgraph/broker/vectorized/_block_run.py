"""One run of a block through the compiled code, with its corporate actions and carried prices."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd

from quantgraph.broker.account import Account, Position, Receivable
from quantgraph.broker.corporate_actions import Event, apply_corporate_actions, price_after_actions
from quantgraph.broker.vectorized import _account_kernel
from quantgraph.broker.vectorized._arrays import (
    DAY,
    DONE,
    EVENTS,
    LARGEST,
    MARK,
    MARKS,
    MORNING,
    ORDER,
    ORDERS,
    PURSE,
    STOPPED,
    AccountArrays,
    BlockLog,
    Ints,
    MarketArrays,
    RuleArrays,
    Table,
)
from quantgraph.broker.vectorized._market import actions_by_symbol
from quantgraph.broker.vectorized._panel import BlockTask, FallbackRequired, last_known, signal_of
from quantgraph.errors import LedgerConflict
from quantgraph.market.money import to_decimal

_UNITS = 10_000
_NEVER = 1 << 62


def is_kept_on_disk() -> bool:
    """Whether numba found a folder for the compiled code."""
    kernel: Any = _account_kernel.run
    return kernel.stats.cache_path is not None


def amount_of(cents: int) -> Decimal:
    """Cents as money."""
    return Decimal(cents).scaleb(-2)


@dataclass(kw_only=True)
class BlockRun:
    """A run of a block: :meth:`go` trades it, :meth:`check` counts again.

    Attributes
    ----------
    task, market, rule
        What is traded.
    before
        The account on the evening before.
    count
        How many of the sessions.
    mornings
        By session with corporate actions: an account of the symbols concerned, and the events.
    moved_cash, moved_shares
        Cash by session and shares by column that the events added.
    """

    task: BlockTask
    market: MarketArrays
    rule: RuleArrays
    before: Account
    count: int
    state: AccountArrays = field(init=False)
    log: BlockLog = field(init=False)
    receivables: tuple[Receivable, ...] = field(init=False)
    mornings: dict[int, tuple[Account, tuple[Event, ...]]] = field(init=False, default_factory=dict)
    moved_cash: Ints = field(init=False)
    moved_shares: Ints = field(init=False)

    def __post_init__(self) -> None:
        symbols = len(self.task.layout.symbols)
        self.receivables = self.before.receivables
        self.state = self._state()
        self.log = BlockLog(
            orders=np.empty(self.count * symbols, ORDER),
            marks=np.empty(self.count * symbols, MARK),
            days=np.zeros(self.count, DAY),
        )
        self.moved_cash, self.moved_shares = np.zeros(self.count, np.int64), np.zeros(symbols, np.int64)

    def go(self) -> int:
        """Trade; return the number of sessions that were traded."""
        t, phase = 0, MORNING
        while True:
            why, t = _account_kernel.run(t, phase, self.market, self.rule, self.state, self.log)
            if why in {DONE, STOPPED}:
                return t
            phase = ORDERS if why == EVENTS else MARKS
            if not (self._morning(t) if why == EVENTS else self._carry(t)):
                return t

    @property
    def orders(self) -> Table:
        """All orders, see ORDER."""
        return self.log.orders[: self.state.purse["orders"][0]]

    def account(self) -> Account:
        """The account after the last session."""
        state, task, purse = self.state, self.task, self.state.purse[0]
        columns = state.held[: purse["held"]]
        positions = {}
        for column, quantity, entered, cost in zip(
            columns.tolist(),
            *(part[columns].tolist() for part in (state.quantity, state.entered, state.cost)),
            strict=True,
        ):
            symbol = task.layout.symbols[column]
            if entered < 0:
                old = self.before.positions[symbol]
                kept = old.quantity == old.sellable == quantity
                positions[symbol] = old if kept else _position(quantity, quantity, old.cost, old.entered)
            else:
                free = 0 if entered == self.count - 1 and self._t_plus(column) else quantity
                positions[symbol] = _position(quantity, free, amount_of(cost), task.sessions[entered])
        return Account(cash=amount_of(int(purse["cash"])), positions=positions, receivables=self.receivables)

    def check(self) -> None:
        """Compute cash by session and shares by symbol again, from the orders alone.

        Raises
        ------
        LedgerConflict
            If they differ from those of the run.
        """
        orders, days = self.orders[self.orders["filled"] == 1], self.log.days
        sign = np.where(orders["sells"] == 1, 1, -1)
        notional = (orders["price"] * orders["quantity"] + 50) // 100
        charges = sum(orders[name] for name in ("commission", "duty", "transfer", "slippage"))
        change = sign * notional - charges
        ends = np.searchsorted(np.flatnonzero(self.orders["filled"] == 1), days["orders"])
        total = np.concatenate([[0], np.cumsum(change)])
        begun = _cents(self.before.cash) + np.cumsum(self.moved_cash)
        shares = np.zeros_like(self.state.quantity)
        for symbol, position in self.before.positions.items():
            shares[self.task.layout.place[symbol]] = position.quantity
        shares += self.moved_shares
        np.add.at(shares, orders["column"], -sign * orders["quantity"])
        session_of = np.repeat(np.arange(self.count), np.diff(ends, prepend=0))
        if not (
            np.array_equal(notional, orders["notional"])
            and np.array_equal(begun + total[ends], days["cash"])
            and (begun[session_of] + total[1:] >= 0).all()
            and np.array_equal(shares, self.state.quantity)
        ):
            first = self.task.sessions[0]
            raise LedgerConflict(
                f"the block from {first:%Y-%m-%d}: its orders do not lead to its cash and holdings",
                session=str(first.date()),
            )

    def _state(self) -> AccountArrays:
        task, positions = self.task, self.before.positions
        symbols, held = len(task.layout.symbols), len(positions)
        columns = np.array([task.layout.place.get(symbol, -1) for symbol in positions], np.int64)
        whole = all(type(position.quantity) is int for position in positions.values())
        cash, owed = _cents(self.before.cash), sum(_cents(row.amount) for row in self.receivables)
        shares = [position.quantity for position in positions.values()]
        paid = [_cents(position.cost) for position in positions.values()]
        if not whole or (columns < 0).any() or max(cash, owed, *shares, *paid) > LARGEST:
            raise FallbackRequired
        zeros = np.zeros((5, symbols), np.int64)
        quantity, opinion, cost, candidates, tickets = zeros
        quantity[columns], cost[columns] = shares, paid
        places = np.zeros((2, symbols), np.int64)
        places[0, :held] = columns
        if self.rule.trades and held:
            opinion[columns] = self._opinions(columns)
            self._require_closes(columns)
        purse = np.array([(cash, owed, held, 0, 0, 0, self._next_pay())], PURSE)
        return AccountArrays(
            purse=purse,
            quantity=quantity,
            opinion=opinion,
            carried=np.full(symbols, -1, np.int64),
            past=np.full(symbols, -2, np.int64),
            entered=np.full(symbols, -1, np.int64),
            cost=cost,
            held=places[0],
            candidates=candidates,
            tickets=tickets,
            unpriced=places[1],
        )

    def _opinions(self, columns: Ints) -> Ints:
        values, where = signal_of(self.task)
        entered = [position.entered.asm8 for position in self.before.positions.values()]
        rows = self.task.layout.sessions[where.rows >= 0]
        return _account_kernel.last_opinions(
            values,
            np.searchsorted(rows, np.array(entered, "datetime64[us]")),
            int((where.rows[: self.task.first] >= 0).sum()),
            where.columns[columns],
        )

    def _require_closes(self, columns: Ints) -> None:
        """Require a close of everything held: without one the account's value is unknown."""
        for column in columns[np.isnan(self.market.close[0, columns])].tolist():
            if last_known(self.task, "close", column, self.task.first) is None:
                raise FallbackRequired

    def _next_pay(self) -> int:
        if not self.receivables:
            return _NEVER
        first = min(row.pay for row in self.receivables)
        return sum(session < first for session in self.task.sessions)

    def _morning(self, t: int) -> bool:
        """Apply a session's corporate actions to an account of the symbols concerned."""
        state, layout, session = self.state, self.task.layout, self.task.sessions[t]
        columns = np.unique(self.market.events[self.market.events_from[t] : self.market.events_from[t + 1]])
        columns = columns[state.quantity[columns] > 0]
        shares, cash = state.quantity[columns], int(state.purse["cash"][0])
        found = zip(columns.tolist(), shares.tolist(), state.cost[columns].tolist(), strict=True)
        held = {
            layout.symbols[column]: _position(quantity, quantity, amount_of(cost), session)
            for column, quantity, cost in found
        }
        before = Account(cash=amount_of(cash), positions=held, receivables=self.receivables)
        account, events = apply_corporate_actions(before, session, self.task.book, self.task.rules)
        after = [account.quantity(layout.symbols[column]) for column in columns.tolist()]
        amounts = _cents(account.cash), _cents(account.owed)
        if max(*amounts, *after) > LARGEST:
            return False
        state.quantity[columns] = after
        self.receivables, self.mornings[t] = account.receivables, (before, events)
        self.moved_cash[t] = amounts[0] - cash
        self.moved_shares[columns] += state.quantity[columns] - shares
        left = state.held[: state.purse["held"][0]]
        left = left[state.quantity[left] > 0]
        state.held[: len(left)] = left
        state.purse["cash"], state.purse["owed"] = amounts
        state.purse["held"], state.purse["next_pay"] = len(left), self._next_pay()
        return True

    def _carry(self, t: int) -> bool:
        """Find the requested carried prices; False if one is not a multiple of 1e-4."""
        for column in self.state.unpriced[: self.state.purse["unpriced"][0]].tolist():
            price = self._carried(column, t)
            if price is None or price > LARGEST or price * _UNITS % 1:
                return False
            self.state.carried[column] = int(price * _UNITS)
        return True

    def _carried(self, column: int, t: int) -> Decimal | None:
        task, session = self.task, self.task.sessions[t]
        known = last_known(task, task.mark_at, column, task.first + t + 1)
        if known is None or known[0] < 0:
            return None
        actions = actions_by_symbol(task.store, task.data_ref).get(task.layout.symbols[column], ())
        since = [action for action in actions if known[1] < action.ex <= session]
        return price_after_actions(to_decimal(known[0]), since)

    def _t_plus(self, column: int) -> int:
        market = self.market
        return int(market.terms["t_plus"][market.era[self.count - 1], market.kind[column]])


def _cents(amount: Decimal) -> int:
    """Money in cents. The journal keeps the digits of an amount, so it must have exactly two decimals."""
    if amount.as_tuple().exponent != -2:
        raise FallbackRequired
    return int(amount.scaleb(2))


def _position(quantity: int, sellable: int, cost: Decimal, entered: pd.Timestamp) -> Position:
    return Position(quantity=quantity, sellable=sellable, cost=cost, entered=entered)
