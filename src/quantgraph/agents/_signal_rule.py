"""A decider that trades a signal by fixed rules, as a trade plan says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import chain, count
from typing import Any, Final

import numpy as np
import pandas as pd

from quantgraph._util.texts import Note
from quantgraph.agents._sizing import Sizing, open_prices
from quantgraph.agents._weights import SHORT, last_weights, orders_toward, short_note, weights_of
from quantgraph.broker import BlockRule, Decider, Decision, DecisionContext, Order, TradePlan
from quantgraph.broker.accounts import Quantity
from quantgraph.broker.session import days_without_entries, last_of_each, trade_days
from quantgraph.errors import BadOption, NoSignal, UnknownField
from quantgraph.market.money import Side
from quantgraph.state import View
from quantgraph.state.frames import SIZED_ENTRIES, Floats, FrozenFrame

_MISSED = "not_bought"
"""Key of a session's notes: by symbol the session, and the cents that were not enough."""


class SignalRule(Decider):
    """Trades a signal of 1, 0, -1 and NaN long-only, in the sizes and on the sessions of the run's plan.

    Parameters
    ----------
    signal
        Name of the signal in the panel ``signal``; None if there is only one.

    Notes
    -----
    It decides at the open of session *t*. *The row* is the signal's row of the session before *t*; with
    ``trade_on`` it is the last 1 or -1 of each symbol since the trade session before.

    Exit
        A position is sold whole if its last signal up to the row that is neither 0 nor NaN is -1 and is not
        from before the session of its entry. So a rejected exit (suspended, lower limit) is tried again in
        each session until a later 1 revokes it. With ``exit_on="every"`` every row so far counts; with
        ``min_holding`` a position must have been held so long on the session that decides.
    Entry
        On sessions of ``trade_on``, but for days of ``no_entry_on``, on which nothing is bought: symbols that
        are not held, not in ``cooldown``, and whose value in the row is exactly 1, by
        ``rank``, else in ascending order of ``ts_code``. ``max_positions`` limits them together with the
        *kept* positions: those still held after the exits, including positions whose exit the market would
        reject. Positions with 1, 0 or NaN are left alone, unless the plan rebalances.
    Weights
        If the panel ``weights`` has the signal's name, each symbol with a number in the row is sold or bought
        to that fraction of ``investable``, on sessions of ``rebalance`` (``trade_on``); of sized ``entries``
        those that are not held. What a purchase costs and a sale brings count with their fees; lots go to the
        largest remainders.
    Size
        ``equity`` = cash + receivable dividends + holdings at today's open (without an open, at the last
        known close); ``investable = equity * (1 - cash_reserve)``. The cash for an entry is
        ``investable / max_positions``, or what the plan's ``size`` says. ``free`` = cash after the sales, net
        of fees (a sale that the market would reject brings nothing) - ``(equity - investable)``. If purchases
        together exceed ``free``, all shrink by the same factor. Each of these amounts is rounded down to the
        cent. The quantity is the largest whose notional and fees at today's open fit the cash, and at most
        the size limit of one order. Without an open it is sized at the last close, and the market rejects
        the order as suspended. Cash too small for a lot makes no order.

    Sales come before purchases, each part in ascending order of ``ts_code``, numbered from 1. A sale larger
    than the size limit of one order is split into several.

    Examples
    --------
    100,000 CNY and two symbols with a 1: each gets 50,000. At an open of 10 that is 4,900 shares, because
    5,000 would cost 50,000 and 13 in fees; at an open of 30, 1,600 shares.

    >>> from quantgraph.broker import Account
    >>> from quantgraph.market import Moment
    >>> from quantgraph.state import DataState
    >>> days = pd.DatetimeIndex(["2024-01-02", "2024-01-03"])
    >>> prices = pd.DataFrame({"600000.SH": [10.0, 10.0], "600036.SH": [30.0, 30.0]}, index=days)
    >>> store = DataState()
    >>> store.update("ohlcv", {"open": prices, "close": prices}) == store.head
    True
    >>> ref = store.update("signal", {"demo": prices * 0 + 1})
    >>> view = store.view(Moment.at("2024-01-03", "open"), ref)
    >>> context = DecisionContext(view, Account.opening(100_000))
    >>> for order in SignalRule().decide(context):
    ...     print(order.sequence, order.side, order.symbol, order.quantity)
    1 buy 600000.SH 4900
    2 buy 600036.SH 1600
    """

    name: Final = "signal_rule"

    def __init__(self, *, signal: str | None = None) -> None:
        self.signal = signal

    @property
    def options(self) -> dict[str, Any]:
        """Options as plain JSON; a run is not continued with others."""
        return {"signal": self.signal}

    @property
    def executes(self) -> frozenset[str]:
        """All words of a plan."""
        return frozenset(each.name for each in fields(TradePlan))

    def block_rule(self, context: DecisionContext) -> BlockRule | None:
        """Return the rule as data; None for weights, which are traded session by session."""
        if context.plan.size == "weights":
            return None
        return BlockRule(
            name=self.name,
            trades=True,
            signal=self.signal,
            plan=context.plan,
            started=context.started,
            missed=_MISSED,
        )

    def decide(self, context: DecisionContext) -> Decision | list[Order]:
        """Return the orders for the session, see the class.

        Raises
        ------
        NoSignal
            If the data has no signal.
        BadOption
            If ``signal`` is None and there are several, or the field of ``rank`` is not there.
        UnknownField
            If there is no signal of that name.
        """
        view, plan, name = context.view, context.plan, self._name(context.view)
        signal, weights = view["signal"].frozen(name), weights_of(view, name, plan)
        days, listed = _TradeDays.of(context, signal), _Lister(context)
        leaving = _positions_to_exit(context, signal, days.last)
        exits = listed.orders("sell", leaving, "signal -1" if weights is None else "weight 0")
        sold = {order.symbol for order in exits}
        sent = [*exits, *(order for order in context.exits if order.symbol not in sold)]
        after = context.market.copy(pending=False) if sent else None
        if after:
            after.batch(sent)
        traded = len(signal.symbols)
        slots = plan.slots(traded) if weights is None else traded
        closed = plan.no_entry_on is not None and _is_closed(context, plan.no_entry_on)
        room = slots - len((after or context).account.positions)
        entries = _entries(context, signal, room, days) if days.today and not closed else []
        resizes = plan.resizes if weights is None else name != SIZED_ENTRIES
        if not entries and not resizes and plan.accumulate is None:
            return exits
        after = after or context.market.copy(pending=False)
        prices = open_prices(view, context.market, {*context.account.positions, *entries})
        sizing = Sizing(context=context, after=after, traded=traded, prices=prices)
        gone = sold | {order.symbol for order in context.exits}
        resizes = resizes and _TradeDays.of(context, signal, plan.rebalance).today
        if weights is not None:
            kept = after.account.positions.keys() - gone if resizes else set()
            last = last_weights(weights, _rows_since(view, weights, days), {*entries, *kept})
            return orders_toward(last, sizing, listed.orders, exits, buys=not closed)
        wishes = sizing.entries(entries)
        if resizes:
            sales, lacking = sizing.resized(entries, gone)
            cut = listed.orders("sell", sales, "rebalance")
            after.batch(cut)
            exits, wishes = exits + cut, wishes | lacking
        if closed:
            return exits
        wishes |= sizing.additions(view, context.followed, leaving=gone, today=days.today)
        bought = sizing.quantities(wishes, after.account.cash)
        for symbol, shares in bought.items():
            exits += listed.orders("buy", {symbol: shares}, wishes[symbol].reason)
        missed = {symbol: wishes[symbol] for symbol, shares in bought.items() if not shares}
        if not missed or not days.today or (plan.accumulate or {}).get("on") != "schedule":
            return exits
        day = f"{context.session:%Y-%m-%d}"
        return Decision(exits, notes={_MISSED: {each: [day, wish.cents] for each, wish in missed.items()}})

    def result_notes(self, notes: Sequence[Mapping[str, Any]]) -> list[Note]:
        """Return which purchases of the plan's schedule, or toward weights, could not be made."""
        days: dict[str, list[tuple[str, int]]] = {}
        for symbol, missed in chain.from_iterable(each.get(_MISSED, {}).items() for each in notes):
            days.setdefault(symbol, []).append(missed)
        short = [each for note in notes for each in note.get(SHORT, {}).items()]
        found = [_missed_note(symbol, missed) for symbol, missed in sorted(days.items())]
        return [*found, short_note(short)] if short else found

    def _name(self, view: View) -> str:
        names = list(view["signal"])
        if not names:
            raise NoSignal("the data has no signal; generate one first")
        if self.signal is None and len(names) > 1:
            raise BadOption(f"signal must be one of {', '.join(names)}", parameter="signal")
        return self.signal or names[0]


def _missed_note(symbol: str, missed: Sequence[tuple[str, int]]) -> Note:
    days, cash = ", ".join(day for day, _ in missed), f"{max(cents for _, cents in missed) / 100:,.2f}"
    return Note(
        zh=f"{symbol} 有 {len(missed)} 次定期买入没有成交：{days}，{cash} 不够买一手（含费用）",
        en=f"{symbol} was not bought at {len(missed)} times of its schedule, {days}: {cash} is less than "
        "a lot with its fees",
    )


@dataclass(frozen=True, kw_only=True)
class _TradeDays:
    """Whether the plan trades today, the last session on which it does, and the one before today."""

    today: bool
    last: np.datetime64 | None
    before: np.datetime64 | None

    @classmethod
    def of(cls, context: DecisionContext, signal: FrozenFrame, when: Any = None) -> _TradeDays:
        """Those of a schedule, by default the plan's ``trade_on``."""
        sessions = context.view["ohlcv"].frozen("open").sessions
        schedule = when or context.plan.trade_on
        if schedule == "every":
            before = sessions[-2] if len(sessions) > 1 else None
            return cls(today=True, last=context.session.asm8, before=before)
        rows, market = signal.sessions, context.rules.market
        places = np.flatnonzero(trade_days(sessions, schedule, rows, started=context.started, market=market))
        today = bool(len(places)) and places[-1] == len(sessions) - 1
        earlier = places[:-1] if today else places
        before = sessions[earlier[-1]] if len(earlier) else None
        return cls(today=today, last=sessions[places[-1]] if len(places) else None, before=before)


def _is_closed(context: DecisionContext, no_entry_on: Mapping[str, Sequence[int]]) -> bool:
    today = np.array([context.session.to_datetime64()])
    return bool(days_without_entries(today, no_entry_on, market=context.rules.market).all())


class _Lister:
    """Makes the orders of one session, numbered from 1."""

    def __init__(self, context: DecisionContext) -> None:
        self._context, self._numbers = context, count(1)

    def orders(self, side: Side, quantities: Mapping[str, Quantity], reason: str) -> list[Order]:
        """A sale in orders of at most the largest size; a purchase of at most one order."""
        return [
            Order(symbol=symbol, side=side, quantity=part, sequence=next(self._numbers), reason=reason)
            for symbol, quantity in quantities.items()
            for part in self._parts(symbol, side, quantity)
        ]

    def _parts(self, symbol: str, side: Side, quantity: Quantity) -> Iterator[Quantity]:
        cap = self._context.rules.order_cap(symbol, self._context.session.date(), "open") or quantity
        rest = quantity if side == "sell" else min(quantity, cap)
        while rest > 0:
            yield min(rest, cap)
            rest -= cap


def _positions_to_exit(
    context: DecisionContext, signal: FrozenFrame, last: np.datetime64 | None
) -> dict[str, Quantity]:
    """Quantities of positions whose last 1 or -1 since their entry, before the session to exit on, is -1."""
    plan, columns, exits = context.plan, signal.columns, dict[str, Quantity]()
    sessions, rows = context.view["ohlcv"].frozen("open").sessions, signal.sessions
    until = context.session.asm8 if plan.exit_on == "every" else last
    if until is None:
        return exits
    end, latest = rows.searchsorted(until), sessions.searchsorted(until) - (plan.min_holding or 0)
    for symbol, position in context.account.positions.items():
        entered = position.entered.asm8
        if symbol in columns and sessions.searchsorted(entered) <= latest:
            since_entry = signal.values[rows.searchsorted(entered) : end, columns.get_loc(symbol)]
            said = np.flatnonzero(np.abs(since_entry) == 1)
            if said.size and since_entry[said[-1]] == -1:
                exits[symbol] = position.quantity
    return exits


def _entries(context: DecisionContext, signal: FrozenFrame, room: int, days: _TradeDays) -> list[str]:
    """Symbols to buy, as many as there is room for, the first ones first."""
    plan, held = context.plan, context.account.positions
    exited = context.exited if plan.reentry == "new_signal" else {}
    sessions = context.view["ohlcv"].frozen("open").sessions[-1 - (plan.cooldown or 0) :]
    cooling = {symbol for symbol, sold in context.sold.items() if sold.asm8 >= sessions[0]}
    chosen = plan.size["weights"] if isinstance(plan.size, Mapping) and "weights" in plan.size else None
    found = sorted(
        symbol
        for symbol in _long_symbols(context.view, signal, days, last=plan.entry_row == "last")
        if symbol not in cooling | held.keys()
        and (chosen is None or symbol in chosen)
        and not _waits(signal, symbol, exited)
    )
    ranked = _ranked(found, context.view, plan) if plan.rank and found else found
    return ranked[: max(0, room)]


def _ranked(symbols: Sequence[str], view: View, plan: TradePlan) -> list[str]:
    """By the last row of the plan's field, those without a value last, equal ones by code."""
    assert plan.rank  # noqa: S101 - the caller has one
    panel, _, name = plan.rank.removeprefix("-").partition(".")
    sign = 1 if plan.rank.startswith("-") else -1
    try:
        last = view[panel][name].iloc[-1]
    except (UnknownField, KeyError) as error:
        raise BadOption(f"rank={plan.rank!r}; the data has no such field", parameter="plan.rank") from error
    values = {symbol: sign * float(last.get(symbol, np.nan)) for symbol in symbols}
    return sorted(symbols, key=lambda symbol: (np.isnan(values[symbol]), values[symbol], symbol))


def _waits(signal: FrozenFrame, symbol: str, exited: Mapping[str, pd.Timestamp]) -> bool:
    """Whether a plan has sold the symbol and its row was 1 then and ever since: a new signal is awaited."""
    if symbol not in exited:
        return False
    known = max(0, int(signal.sessions.searchsorted(exited[symbol].asm8)) - 1)  # what the sale's session knew
    return bool((signal.values[known:, signal.columns.get_loc(symbol)] == 1).all())


def _long_symbols(view: View, signal: FrozenFrame, days: _TradeDays, *, last: bool) -> list[str]:
    """Symbols whose last 1 or -1 since the trade session before is a 1, or whose last row is."""
    rows = _rows_since(view, signal, days)
    if rows is None:
        return []
    row = rows[-1] if last or len(rows) == 1 else last_of_each(rows)
    return [signal.symbols[place] for place in np.flatnonzero(row == 1).tolist()]


def _rows_since(view: View, frame: FrozenFrame, days: _TradeDays) -> Floats | None:
    """Its rows since the trade session before, if it has one of the last session."""
    sessions = view["ohlcv"].frozen("close").sessions
    if not len(sessions) or not len(frame.sessions) or frame.sessions[-1] != sessions[-1]:
        return None
    first = 0 if days.before is None else int(frame.sessions.searchsorted(days.before))
    return frame.values[min(first, len(frame.sessions) - 1) :]
