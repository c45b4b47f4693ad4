"""A block of sessions traded by array code, with its corporate actions and its lines for the journal.

Fills and lines are those that the sessions would have one by one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cached_property
from typing import Any, Literal, cast

import numpy as np
import pandas as pd

from quantgraph.broker.accounts._account import (
    Account,
    Dividend,
    Event,
    Position,
    Receivable,
    action_book,
    apply_corporate_actions,
    price_after_actions,
)
from quantgraph.broker.accounts._orders import BlockRule, Fill, Order, Quantity
from quantgraph.broker.accounts._quotes import Quotes
from quantgraph.broker.accounts._results import Block, DayLines, Line, SessionResult
from quantgraph.broker.blocks import _kernel as kernel
from quantgraph.broker.blocks._kernel import (
    AccountArrays,
    BlockLog,
    Floats,
    Ints,
    MarketArrays,
    RuleArrays,
    Table,
)
from quantgraph.broker.blocks._lines import CHARGES, fill_texts, mark_texts, reasons_of
from quantgraph.broker.blocks._panel import (
    LARGEST_PRICE,
    BlockTask,
    CellIndex,
    FallbackRequired,
    actions_by_symbol,
    cells_of,
    decided_of,
    index_of,
    is_fine,
    last_known,
    market_of,
    rule_of,
    signal_of,
)
from quantgraph.broker.ledger._journal import (
    compact_json,
    day_body,
    day_lines,
    delisting_profits,
    iso,
    outcome_line,
)
from quantgraph.broker.session._exits import AGAIN, AT_ENTRY, ExitBook, Followed, Kind, Level, trigger_of
from quantgraph.broker.session._matching import match_order
from quantgraph.broker.session._session import Market
from quantgraph.errors import LedgerConflict
from quantgraph.market.money import ZERO, to_decimal, trim_zeros

_NEVER = 1 << 62
_BEFORE = -2
"""Session of a sale before the block."""
_KINDS: dict[int, Kind] = {
    kernel.STOP_LOSS: "stop_loss",
    kernel.TRAILING_STOP: "trailing_stop",
    kernel.TAKE_PROFIT: "take_profit",
    kernel.MAX_HOLDING: "max_holding",
}


def is_kept_on_disk() -> bool:
    """Whether numba found a folder for the compiled code."""
    run: Any = kernel.run
    return run.stats.cache_path is not None


@dataclass(kw_only=True)
class BlockRun:
    """A run of a block: :meth:`go` trades it, :meth:`check` counts again."""

    task: BlockTask
    market: MarketArrays
    rule: RuleArrays
    before: Account
    count: int
    state: AccountArrays = field(init=False)
    log: BlockLog = field(init=False)
    receivables: tuple[Receivable, ...] = field(init=False)
    already: dict[str, Followed] = field(init=False)
    openings: dict[int, tuple[Account, tuple[Event, ...]]] = field(init=False, default_factory=dict)
    moved_cash: Ints = field(init=False)
    moved_shares: Ints = field(init=False)

    def __post_init__(self) -> None:
        symbols = len(self.task.axes.symbols)
        self.receivables = self.before.receivables
        self.already = dict(self.task.exits.followed) if self.task.exits else {}
        self.state = self._state()
        self.log = BlockLog(
            orders=np.empty(self.count * symbols * (2 if self.rule.follows else 1), kernel.ORDER),
            misses=np.empty(self.count * symbols, kernel.MISS),
            marks=np.empty(self.count * symbols, kernel.MARK),
            days=np.zeros(self.count, kernel.DAY),
        )
        self.moved_cash, self.moved_shares = np.zeros(self.count, np.int64), np.zeros(symbols, np.int64)

    def go(self) -> int:
        """Trade; return the number of sessions that were traded."""
        t, phase = 0, kernel.OPENING
        while True:
            why, t = kernel.run(t, phase, self.market, self.rule, self.state, self.log)
            if why in {kernel.DONE, kernel.STOPPED}:
                return t
            phase = kernel.ORDERS if why == kernel.EVENTS else kernel.MARKS
            if not (self._open_with_events(t) if why == kernel.EVENTS else self._carry(t)):
                return t

    @property
    def orders(self) -> Table:
        """All orders, see ORDER."""
        return self.log.orders[: self.state.purse["orders"][0]]

    def account(self) -> Account:
        """The account after the last session."""
        state, task, purse = self.state, self.task, self.state.purse[0]
        columns = state.held[: purse["held"]]
        ends, locked, positions = self.log.days["orders"], np.zeros_like(state.quantity), {}
        last = self.orders[ends[-2] if self.count > 1 else 0 :]
        last = last[(last["filled"] == 1) & (last["sells"] == 0) & (last["t_plus"] > 0)]
        np.add.at(locked, last["column"], last["quantity"])
        parts = (state.quantity, locked, state.entered, state.cost, state.fine)
        for column, quantity, bought, entered, cost, fine in zip(
            columns.tolist(), *(part[columns].tolist() for part in parts), strict=True
        ):
            symbol = task.axes.symbols[column]
            day = self.before.positions[symbol].entered if entered < 0 else task.sessions[entered]
            held, free, paid = task.shares(quantity), task.shares(quantity - bought), task.amount(cost, fine)
            positions[symbol] = Position(quantity=held, sellable=free, cost=paid, entered=day)
        cash = task.amount(int(purse["cash"]), purse["fine"] & kernel.FINE_CASH)
        return Account(cash=cash, positions=positions, receivables=self.receivables)

    def check(self) -> None:
        """Compute cash by session and shares by symbol again, from the orders alone."""
        orders, days = self.orders[self.orders["filled"] == 1], self.log.days
        sign = np.where(orders["sells"] == 1, 1, -1)
        unit, (parts, cent) = self.task.unit, self.task.counted
        exact = orders["price"].astype(np.int64 if parts == 1 else object) * orders["quantity"]
        whole = (exact // parts + unit // 200) // (unit // 100) * cent
        notional = np.where(orders["quantity"] % parts, (exact + parts // 2) // parts, whole).astype(np.int64)
        charges = sum(orders[name] for name in CHARGES) * cent
        change = sign * notional - charges
        ends = np.searchsorted(np.flatnonzero(self.orders["filled"] == 1), days["orders"])
        total = np.concatenate([[0], np.cumsum(change)])
        begun = self.task.money(self.before.cash) + np.cumsum(self.moved_cash)
        shares = np.zeros_like(self.state.quantity)
        for symbol, position in self.before.positions.items():
            shares[self.task.axes.place[symbol]] = int(position.quantity * parts)
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
        symbols, held = len(task.axes.symbols), len(positions)
        columns = np.array([task.axes.place.get(symbol, -1) for symbol in positions], np.int64)
        cash, owed = task.money(self.before.cash), sum(task.money(row.amount) for row in self.receivables)
        shares = [position.quantity * task.counted[0] for position in positions.values()]
        paid = [task.money(position.cost) for position in positions.values()]
        odd = any(each % 1 for each in shares) or (columns < 0).any()
        if odd or self._too_much(shares, cash, owed, *paid):
            raise FallbackRequired
        zeros = np.zeros((6, symbols), np.int64)
        quantity, opinion, cost, fine, candidates, tickets = zeros
        quantity[columns], cost[columns] = [int(each) for each in shares], paid
        fine[columns] = [is_fine(position.cost) for position in positions.values()]
        entered = np.full(symbols, -1, np.int64)
        days = np.array([position.entered.asm8 for position in positions.values()], "datetime64[us]")
        entered[columns] = np.searchsorted(task.axes.sessions, days) - task.first
        places = np.zeros((2, symbols), np.int64)
        places[0, :held] = columns
        if self.rule.trades and held:
            opinion[columns] = self._opinions(columns)
            self._require_closes(columns)
        fines = self._fines(self.before)
        purse = np.array([(cash, owed, held, 0, 0, 0, 0, self._next_pay(), fines, 0)], kernel.PURSE)
        sold = np.full(symbols, -_NEVER // 2, np.int64)
        for symbol, day in task.exits.sold.items() if task.exits else ():
            if symbol in task.axes.place:
                sold[task.axes.place[symbol]] = np.searchsorted(task.axes.sessions, day.asm8) - task.first
        return AccountArrays(
            sold=sold,
            purse=purse,
            quantity=quantity,
            opinion=opinion,
            carried=np.full(symbols, -1, np.int64),
            past=np.full(symbols, -2, np.int64),
            entered=entered,
            cost=cost,
            fine=fine,
            held=places[0],
            candidates=candidates,
            tickets=tickets,
            unpriced=places[1],
            exits=self._exits(),
        )

    def _too_much(self, shares: Sequence[Quantity], *money: int) -> bool:
        largest = int(kernel.largest(self.task.unit)) * self.task.counted[1]
        return max(money) > largest or max(shares, default=0) > kernel.MOST

    def _fines(self, account: Account) -> int:
        return kernel.FINE_CASH * is_fine(account.cash) | kernel.FINE_OWED * is_fine(account.owed)

    def _opinions(self, columns: Ints) -> Ints:
        values, where = signal_of(self.task)
        entered = [position.entered.asm8 for position in self.before.positions.values()]
        rows, end = self.task.axes.sessions[where.rows >= 0], self.task.first
        if "every" not in {self.task.rule.plan.trade_on, self.task.rule.plan.exit_on}:
            places = np.flatnonzero(decided_of(self.task)[:end])
            if not len(places):
                raise FallbackRequired
            end = int(places[-1])
        return kernel.last_opinions(
            values,
            np.searchsorted(rows, np.array(entered, "datetime64[us]")),
            int((where.rows[:end] >= 0).sum()),
            where.columns[columns],
        )

    def _require_closes(self, columns: Ints) -> None:
        """Require a close of everything held: without one the account's value is unknown."""
        for column in columns[np.isnan(self.market.close[0, columns])].tolist():
            if last_known(self.task, "close", column, self.task.first) is None:
                raise FallbackRequired

    def _exits(self) -> Table:
        """What the plan follows so far."""
        task, axes = self.task, self.task.axes
        table, ends = (
            np.zeros(len(axes.symbols), kernel.EXIT),
            task.exits is not None and task.exits.plan.exits,
        )
        table["exited"] = -1
        for symbol in self.before.positions if task.exits else ():
            held = self.already.get(symbol)
            if held is None or (ends and (held.purchases > 1 or held.last != held.basis)):
                raise FallbackRequired
            entered = int(np.searchsorted(axes.sessions, held.entered.asm8))
            if axes.sessions[entered] != held.entered.asm8:
                raise FallbackRequired
            row = table[axes.place[symbol]]
            if ends:  # nothing else is counted from them
                row["basis"], row["peak"] = task.units(held.basis), task.units(held.peak)
            row["last"], row["count"] = task.units(held.last), held.purchases
            row["range"] = -1 if held.atr is None else task.units(held.atr)
            row["since"] = entered - task.first
            row["waiting"], row["kind"] = held.waiting is not None, kernel.KEPT
        for symbol, day in task.exits.exited.items() if task.exits else ():
            if symbol in axes.place:
                row = table[axes.place[symbol]]
                row["exited"], row["silent"] = _BEFORE, self._is_silent(symbol, day)
        return table

    def _is_silent(self, symbol: str, day: pd.Timestamp) -> bool:
        """Whether the signal was 1 on the eve of a session and since, up to the row before the last one."""
        if not self.rule.trades or not self.rule.waits:
            return False
        values, where = signal_of(self.task)
        place = self.task.axes.place[symbol]
        since = int(np.searchsorted(self.task.axes.sessions, day.asm8))
        rows = where.rows[max(0, since - 1) : self.task.first]
        if (rows < 0).any() or where.columns[place] < 0:
            raise FallbackRequired
        return bool((values[rows, where.columns[place]] == 1).all())

    def followed(self) -> dict[str, Followed]:
        """What the plan follows after the last session."""
        found, rule = {}, cast("ExitBook", self.task.exits).rule
        for column in self.state.held[: self.state.purse["held"][0]].tolist():
            row, symbol = self.state.exits[column], self.task.axes.symbols[column]
            said: dict[str, Any] = {"purchases": int(row["count"]), "atr": self._range(row["range"])}
            said |= {name: trim_zeros(self.task.price(row[name])) for name in ("basis", "peak", "last")}
            entered = self.task.session(int(row["since"]))
            waiting = self.exit_of(row, symbol)[:2] if row["waiting"] else None
            found[symbol] = Followed(rule=rule, entered=entered, waiting=waiting, **said)
        return found

    def _range(self, units: int) -> Decimal | None:
        return None if units < 0 else self.task.price(units)

    def exited(self) -> dict[str, pd.Timestamp]:
        """The session of the plan's last sale of symbols that were not bought since."""
        book, symbols, exited = self.task.exits, self.task.axes.symbols, self.state.exits["exited"]
        before = book.exited.items() if book else ()
        place = self.task.axes.place
        kept = {name: day for name, day in before if name not in place or exited[place[name]] == _BEFORE}
        return kept | {
            symbols[column]: self.task.sessions[exited[column]]
            for column in np.flatnonzero(exited >= 0).tolist()
        }

    def sold(self) -> dict[str, pd.Timestamp]:
        """The session of the last sale of all shares of each symbol."""
        columns, symbols = np.flatnonzero(self.state.sold >= 0).tolist(), self.task.axes.symbols
        before = cast("ExitBook", self.task.exits).sold
        return before | {symbols[each]: self.task.sessions[self.state.sold[each]] for each in columns}

    def exit_of(self, row: Any, symbol: str) -> tuple[str, str, Level | None]:
        """Trigger, reason and level of an exit, from an order or from what is followed."""
        kind, again = int(row["kind"]), AGAIN if row["again"] & kernel.TRIED else ""
        if kind == kernel.KEPT:
            trigger, reason = cast("tuple[str, str]", self.already[symbol].waiting)
            return trigger, reason.removesuffix(AGAIN) + again if again else reason, None
        book, name, level = cast("ExitBook", self.task.exits), _KINDS[kind], None
        if kind != kernel.MAX_HOLDING:
            at, base = self.task.session(int(row["at"])), self.task.price(row["base"])
            level = book.level(book.rule, name, symbol, at, base, self._range(row["ranged"]))
        reason = level.reason if level else f"{name} {book.plan.max_holding}"
        reached = AT_ENTRY if row["again"] & kernel.REACHED else ""
        return trigger_of(name, self.task.session(int(row["since"]))), reason + reached + again, level

    def _next_pay(self) -> int:
        if not self.receivables:
            return _NEVER
        first = min(row.pay for row in self.receivables)
        return sum(session < first for session in self.task.sessions)

    def _open_with_events(self, t: int) -> bool:
        """Apply a session's corporate actions to an account of the symbols concerned."""
        state, axes, session = self.state, self.task.axes, self.task.sessions[t]
        columns = np.unique(self.market.events[self.market.events_from[t] : self.market.events_from[t + 1]])
        columns = columns[state.quantity[columns] > 0]
        shares, cash = state.quantity[columns], int(state.purse["cash"][0])
        parts = (columns, shares, state.cost[columns], state.fine[columns])
        task, fines, held = self.task, int(state.purse["fine"][0]), dict[str, Position]()
        for column, quantity, cost, fine in zip(*(part.tolist() for part in parts), strict=True):
            number, symbol, paid = task.shares(quantity), axes.symbols[column], task.amount(cost, fine)
            held[symbol] = Position(quantity=number, sellable=number, cost=paid, entered=session)
        cash_before = task.amount(cash, fines & kernel.FINE_CASH)
        before, market = Account(cash=cash_before, positions=held, receivables=self.receivables), task.market
        book = action_book(market.store, market.data_ref)
        opens = dict[str, Decimal]()
        if market.rules.market == "us":  # a fraction after a split is paid at the open
            prices = self.market.open[t + 1, columns]
            if not ((prices > 0) & (prices < np.inf)).all():
                return False
            opens = dict(zip(held, map(to_decimal, prices.tolist()), strict=True))
        account, events = apply_corporate_actions(before, session, book, market.rules, opens)
        after = [int(account.quantity(axes.symbols[column]) * task.counted[0]) for column in columns.tolist()]
        self._move_levels(t)
        amounts = task.money(account.cash), task.money(account.owed)
        if self._too_much(after, *amounts):
            return False
        state.purse["fine"] = self._fines(account)
        state.quantity[columns] = after
        self.receivables, self.openings[t] = account.receivables, (before, events)
        self.moved_cash[t] = amounts[0] - cash
        self.moved_shares[columns] += state.quantity[columns] - shares
        left = state.held[: state.purse["held"][0]]
        left = left[state.quantity[left] > 0]
        state.held[: len(left)] = left
        state.purse["cash"], state.purse["owed"] = amounts
        state.purse["held"], state.purse["next_pay"] = len(left), self._next_pay()
        return True

    def _move_levels(self, t: int) -> None:
        """Move what levels are counted from by the session's actions; the book has done so for the first."""
        book, axes = self.task.exits, self.task.axes
        for action in book.actions(self.task.sessions[t]) if book and t else ():
            place = axes.place.get(action.symbol, -1)
            moved = (
                ("basis", "peak", "last", "range") if place >= 0 and self.state.quantity[place] > 0 else ()
            )
            for name in moved:
                price = self.task.price(self.state.exits[name][place])
                moving = [replace(action, cash=ZERO) if name == "range" else action]
                if price >= 0:
                    self.state.exits[name][place] = self.task.units(price_after_actions(price, moving))

    def _carry(self, t: int) -> bool:
        """Find the requested carried prices; False if one is no multiple of a unit."""
        for column in self.state.unpriced[: self.state.purse["unpriced"][0]].tolist():
            price = self._carried_price(column, t)
            if price is None or price > LARGEST_PRICE or price * self.task.unit % 1:
                return False
            self.state.carried[column] = int(price * self.task.unit)
        return True

    def _carried_price(self, column: int, t: int) -> Decimal | None:
        task, session = self.task, self.task.sessions[t]
        known = last_known(task, task.market.mark_at, column, task.first + t + 1)
        if known is None or known[0] < 0:
            return None
        by_symbol = actions_by_symbol(task.market.store, task.market.data_ref)
        actions = by_symbol.get(task.axes.symbols[column], ())
        since = [action for action in actions if known[1] < action.ex <= session]
        return price_after_actions(to_decimal(known[0]), since)


_SUMS = ("notional", *CHARGES, "profit")


def trade_block(
    market: Market,
    sessions: Sequence[pd.Timestamp],
    rule: BlockRule,
    account: Account,
    exits: ExitBook | None = None,
) -> Block | None:
    """Trade sessions from the account on the evening before the first of them; the first ones, or all.

    ``exits`` are a trade plan's, moved to the first session; they follow what was traded. None if the
    first session must be traded order by order: a volume cap, prices finer than eight decimals, amounts of
    10^12 and more, a sale above the size cap of an order, symbols on an unknown board, limits that depend on
    a symbol's status, and a rule that does not trade, without holdings.
    """
    try:
        task = BlockTask.of(market, sessions, rule, exits)
        arrays, plain = market_of(task), rule_of(task)
        run = BlockRun(task=task, market=arrays, rule=plain, before=account, count=len(task.sessions))
        done = run.go()
        if 0 < done < run.count:  # the arrays hold a part of the next session: run again without it
            run = BlockRun(task=task, market=arrays, rule=plain, before=account, count=done)
            run.go()
    except FallbackRequired:
        return None
    if not done:
        return None
    run.check()
    lines = _BlockLines(run)
    if exits is not None:
        exits.resume(task.sessions[done - 1], run.followed(), run.exited(), run.sold())
    return Block(
        sessions=tuple(task.sessions[:done]), values=lines.values, account=run.account(), write=lines.days
    )


class _BlockLines:
    """The journal lines of a block that was traded."""

    def __init__(self, run: BlockRun) -> None:
        self._run, self._reasons = run, reasons_of(run.task.rule.plan)
        days, of_cent = run.log.days, run.task.unit // 100
        worths = ((days["cash"] + days["owed"]) * (of_cent // run.task.counted[1]) + days["stocks"]).tolist()
        self.values = tuple(_exact(worth, of_cent) for worth in worths)

    def days(self) -> list[DayLines]:
        """Events, orders, marks and the day of each session."""
        run, symbols = self._run, self._run.task.axes.symbols
        days, orders = run.log.days, run.orders
        ends = np.concatenate([[0], days["orders"]])
        texts = fill_texts(orders, symbols, run.task.unit, self._reasons, *run.task.counted)
        lines: list[Line] = [
            ("fill", text) if text else self._judge(place) for place, text in enumerate(texts)
        ]
        mark_ends = np.concatenate([[0], days["marks"]])
        marks = mark_texts(run.log.marks[: mark_ends[-1]], mark_ends, symbols, run.task.unit)
        found, places = [], ends.tolist()
        for t, (session, text, body) in enumerate(
            zip(run.task.sessions, marks, self._bodies(), strict=False)
        ):
            ordered = [*lines[places[t] : places[t + 1]], *self._notes(t)]
            parts = [*self._events(t), *ordered, ("marks", text), ("day", body)]
            found.append(DayLines(session=iso(session), lines=parts))
        return found

    def _bodies(self) -> list[str]:
        """The ``day`` bodies."""
        run, days = self._run, self._run.log.days
        ends, orders = days["orders"], run.orders
        filled = orders["filled"] == 1
        sold = filled & (orders["sells"] == 1)
        counts = [filled, sold, sold & (orders["profit"] > 0)]
        counts += [filled & (orders["quantity"] % run.task.counted[0] > 0), sold & (orders["tells"] > 0)]
        amounts = [np.where(sold if name == "profit" else filled, orders[name], 0) for name in _SUMS]
        sums = zip(*(_between(part, ends) for part in (*counts, *amounts)), strict=True)
        names = ("cash", "owed", "stocks", "held", "largest", "orders", "fine")
        rows = zip(*(days[name].tolist() for name in names), self.values, sums, strict=True)
        bodies, before, of_cent, amount = [], 0, run.task.unit // 100, run.task.amount
        for t, (cash, owed, stocks, held, largest, end, fine, value, sums_of) in enumerate(rows):
            fills, sales, won, fine_fills, fine_sales, traded, *cents, profit = sums_of
            commission, duty, transfer, regulatory, slippage = (Decimal(each).scaleb(-2) for each in cents)
            gone = delisting_profits(*run.openings[t]) if t in run.openings else []
            body = day_body(
                decider=run.task.rule.name,
                cash=amount(cash, fine & kernel.FINE_CASH),
                owed=amount(owed, fine & kernel.FINE_OWED),
                stocks=_exact(stocks, of_cent),
                value=value,
                positions=held,
                largest=_exact(largest, of_cent),
                fills=fills,
                rejections=end - before - fills,
                traded=amount(traded, fine_fills),
                commission=commission,
                stamp_duty=duty,
                transfer_fee=transfer,
                regulatory=regulatory,
                slippage=slippage,
                dividends=_dividends(run, t),
                sales=sales + len(gone),
                won=won + sum(part > 0 for part in gone),
                realised=amount(profit, fine_sales) + sum(gone, ZERO),
            )
            bodies.append(body)
            before = end
        return bodies

    def _events(self, t: int) -> list[Line]:
        if t not in self._run.openings:
            return []
        before, events = self._run.openings[t]
        result = replace(_EMPTY, session=self._run.task.sessions[t], events=events)
        return list(day_lines(before, result).lines[:-2])

    def _notes(self, t: int) -> list[Line]:
        """The decision's note on purchases of the schedule that were too small."""
        task, misses = self._run.task, self._run.log.misses[: self._run.state.purse["misses"][0]]
        missed = misses[misses["session"] == t].tolist()
        day, symbols = iso(task.sessions[t]), task.axes.symbols
        note = sorted((symbols[column], [day, cents]) for _, column, cents in missed)
        return [("notes", compact_json({task.rule.missed: dict(note)}))] if note else []

    def _judge(self, place: int) -> Line:
        """The line of a refused order or an exit, from :func:`match_order`, which must judge it as here."""
        task, row = self._run.task, self._run.orders[place]
        t = int(np.searchsorted(self._run.log.days["orders"], place, side="right"))
        column, session = int(row["column"]), task.sessions[t]
        order, shares = self._order(row), task.shares(int(row["quantity"]))
        lot = Position(quantity=shares, sellable=shares, cost=ZERO, entered=session)
        held = {order.symbol: lot} if row["sells"] else {}
        account = Account(cash=task.amount(int(row["cash"]), row["fine"] & kernel.FINE_CASH), positions=held)
        quote = Quotes(self._row(column, task.first + t))[order.symbol]
        outcome = match_order(order, account, quote, task.market.rules, session)
        paid = to_decimal(outcome.price) * task.unit if isinstance(outcome, Fill) else None
        if paid != (int(row["price"]) if row["filled"] else None):
            raise LedgerConflict(
                f"{session:%Y-%m-%d}: the block judges order {order.sequence} of {order.symbol} otherwise",
                session=str(session.date()),
            )
        return outcome_line(outcome)

    def _order(self, row: Any) -> Order:
        symbol, run = self._run.task.axes.symbols[int(row["column"])], self._run
        side: Literal["buy", "sell"] = "sell" if row["sells"] else "buy"
        sized: dict[str, Any] = {"side": side, "quantity": run.task.shares(int(row["quantity"]))}
        if plain := self._reasons.get((int(row["kind"]), int(row["sells"]))):
            return Order(symbol=symbol, sequence=int(row["sequence"]), reason=plain, **sized)
        trigger, reason, level = run.exit_of(row, symbol)
        sized |= level.order if level and row["within"] else {}
        return Order(symbol=symbol, sequence=int(row["sequence"]), reason=reason, trigger=trigger, **sized)

    def _row(self, column: int, row: int) -> Mapping[str, Mapping[str, float]]:
        symbol, cells = self._run.task.axes.symbols[column], {}
        for name, (values, index) in self._fields.items():
            place = index.rows[row], index.columns[column]
            cells[name] = {symbol: float(values[place])} if min(place) >= 0 else {}
        return cells

    @cached_property
    def _fields(self) -> dict[str, tuple[Floats, CellIndex]]:
        store, data_ref = self._run.task.market.store, self._run.task.market.data_ref
        return {
            name: (cells_of(store, data_ref, "ohlcv", name), index_of(store, data_ref, "ohlcv", name))
            for name in store.snapshot(data_ref)["ohlcv"]
        }


_EMPTY = SessionResult(
    session=pd.Timestamp(0), decider="", account=Account(cash=ZERO), outcomes=(), marks={}, value=ZERO
)
"""A session in which nothing happened."""


def _between(amounts: Ints, ends: Ints) -> list[int]:
    """Sum of the amounts of each session."""
    sums: list[int] = np.diff(np.concatenate([[0], np.cumsum(amounts)])[ends], prepend=0).tolist()
    return sums


def _dividends(run: BlockRun, t: int) -> Decimal:
    _, events = run.openings.get(t, (None, ()))
    return sum((event.amount for event in events if isinstance(event, Dividend)), ZERO)


def _exact(amount: int, of_cent: int) -> Decimal:
    """An amount in units, of which a cent has so many, as the account's values are written."""
    cents, more = divmod(amount, of_cent)
    return trim_zeros(Decimal(amount) / (of_cent * 100)) if more else Decimal(cents).scaleb(-2)
