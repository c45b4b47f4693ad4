"""The exits of positions: which rule each is followed by, and which levels a session reached.

Everything follows from the ledger and the commit: a run that goes on after a kill reads its sessions again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from functools import cached_property
from itertools import count
from typing import Any, Literal, Protocol, cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from quantgraph._util.texts import Note
from quantgraph.broker._plan import ExitRule, TradePlan
from quantgraph.broker.accounts._account import Account, Position, price_after_actions
from quantgraph.broker.accounts._orders import Decision, Fill, Order, Outcome, Quantity, check_sequences
from quantgraph.broker.accounts._quotes import Quote, per_commit, quotes_at
from quantgraph.broker.accounts._results import SessionResult
from quantgraph.errors import BadOption
from quantgraph.market import Moment, Rulebook
from quantgraph.market.actions import CorporateAction, actions_of
from quantgraph.market.money import ZERO, to_decimal, trim_zeros
from quantgraph.state import DataState

FIRST_EXIT = 1_000_001
"""Number of the first order that a plan sends in a session; a decider's are lower."""
AGAIN = ", tried again"
AT_ENTRY = ", reached in the entry session"
Kind = Literal["stop_loss", "trailing_stop", "take_profit", "max_holding"]


@dataclass(frozen=True, kw_only=True)
class Followed:
    """What a plan follows of a position.

    ``basis`` is the average fill price of its shares, ``last`` the last fill price of ``purchases``, ``peak``
    the highest close since the entry, at least the basis; all as of the last ex-date. ``waiting`` is the
    trigger that is sold at the next open, with the reason; empty without one. ``rule`` is the plan's, or the
    decider's. ``atr`` is the average true range as of the close before it came into force, if it has levels
    by it: before the entry, or before the session in which the decider gave it.
    """

    rule: ExitRule
    entered: pd.Timestamp
    basis: Decimal
    peak: Decimal
    last: Decimal
    purchases: int = 1
    waiting: tuple[str, str] | None = None
    atr: Decimal | None = None


@dataclass(frozen=True, kw_only=True)
class Level:
    """A price that ends a position."""

    kind: Kind
    price: Decimal
    reason: str

    @property
    def order(self) -> dict[str, Any]:
        """Type and price of its order."""
        if self.kind == "take_profit":
            return {"type": "limit", "limit_price": self.price}
        return {"type": "stop", "stop_price": self.price}


class Traded(Protocol):
    """A session with the account and the outcomes so far."""

    @property
    def account(self) -> Account: ...
    @property
    def outcomes(self) -> Sequence[object]: ...


class ExitBook:
    """The exits of one run by session: :meth:`open`, :meth:`due`, :meth:`level_orders`, :meth:`record`.

    It follows positions if the plan has a use for it, and from the first exit rule of a decider on; then it
    reads the ``history``. ``exited`` has the session of the last exit, by symbol, until the symbol is bought
    again, ``sold`` that of the last sale of all shares; ``last`` is the last session that was recorded.
    """

    def __init__(
        self,
        plan: TradePlan,
        store: DataState,
        data_ref: str,
        rules: Rulebook,
        history: Callable[[], Iterable[SessionResult]] = tuple,
        *,
        has_rules: bool = False,
    ) -> None:
        """``has_rules``: a decision of the history has exit rules."""
        self.plan, self._store, self._data_ref, self.rules = plan, store, data_ref, rules
        self._history, self.rule = history, plan.exit_rule("any")
        self._check_fields(self.rule)
        self.follows = False
        self.followed: dict[str, Followed] = {}
        self._day: pd.Timestamp | None = None
        self.last: pd.Timestamp | None = None
        self._read: tuple[pd.Timestamp, Mapping[str, Quote]] | None = None
        self.exited: dict[str, pd.Timestamp] = {}
        self.sold: dict[str, pd.Timestamp] = {}
        if plan.follows or has_rules:
            self._begin()

    def _begin(self) -> None:
        """Follow the run's positions, from its first session on."""
        self.follows, self._day = True, None
        for result in self._history():
            self.open(result.session)
            self.record(result)

    def _check_fields(self, rule: ExitRule) -> None:
        if rule.needs_range and not {"high", "low"} <= set(self._store.snapshot(self._data_ref)["ohlcv"]):
            raise BadOption(
                "stop_loss, take_profit and trailing_stop need the fields high and low, which the data lack",
                parameter="plan" if rule is self.rule else "exits",
            )

    @cached_property
    def _places(self) -> dict[pd.Timestamp, int]:
        index = self._store.snapshot(self._data_ref)["ohlcv"]["open"].index
        return {day: place for place, day in enumerate(index)}

    @property
    def beyond_arrays(self) -> Note | None:
        """What array code does not carry out; None if it does all."""
        if any(held.rule != self.rule for held in self.followed.values()):
            return Note(zh="决策者自己的卖出规则", en="a decider's own exits")
        if self.plan.exits and (self.plan.resizes or self.plan.accumulate is not None):
            return Note(zh="分批买入的持仓的卖出规则", en="exits of positions that are bought in parts")
        return None

    def continues(self, data_ref: str, last: pd.Timestamp | None) -> bool:
        """Whether it goes on with a run on a commit after its last session."""
        return last is not None and (self._data_ref, self.last) == (data_ref, last)

    def open(self, day: pd.Timestamp) -> None:
        """Move the levels by the corporate actions with this ex-date, once."""
        moved, self._day = self._day == day or not self.follows, day
        for action in () if moved else self.actions(day):
            held = self.followed.get(action.symbol)
            if held is not None:
                basis, peak, last = (
                    price_after_actions(price, [action]) for price in (held.basis, held.peak, held.last)
                )
                split = [replace(action, cash=ZERO)]
                atr = None if held.atr is None else price_after_actions(held.atr, split)
                own, rule = held.rule.basis, held.rule
                if own is not None:
                    rule = replace(rule, basis=price_after_actions(own, [action]))
                self.followed[action.symbol] = replace(
                    held, rule=rule, basis=basis, peak=peak, last=last, atr=atr
                )

    def actions(self, day: pd.Timestamp) -> Sequence[CorporateAction]:
        """The corporate actions with this ex-date."""
        return actions_by_session(self._store, self._data_ref).get(day, ())

    def resume(
        self,
        day: pd.Timestamp,
        followed: Mapping[str, Followed],
        exited: Mapping[str, pd.Timestamp],
        sold: Mapping[str, pd.Timestamp],
    ) -> None:
        """Go on after a session up to which others have followed the run."""
        self.last, self.followed, self.exited, self.sold = day, dict(followed), dict(exited), dict(sold)

    def skip(self, day: pd.Timestamp) -> None:
        """Go on after a session up to which the run was not followed: a new rule reads it."""
        self.resume(day, {}, {}, {})
        self.follows = False

    def due(self, day: pd.Timestamp, account: Account, quotes: Mapping[str, Quote]) -> list[Order]:
        """Orders at the open: exits that wait, levels that the open is beyond, positions held long enough."""
        orders, numbers = list[Order](), count(FIRST_EXIT)
        for symbol, position in account.positions.items() if self.follows else ():
            found = self._due(symbol, day, quotes.get(symbol))
            if found is not None:
                trigger, reason = found
                sale = Order(
                    symbol=symbol, side="sell", quantity=1, sequence=1, reason=reason, trigger=trigger
                )
                orders += _sales(sale, position.sellable, self.rules, day, numbers)
        return orders

    def level_orders(
        self, day: pd.Timestamp, account: Account, outcomes: Sequence[Outcome], rules: Sequence[ExitRule] = ()
    ) -> Iterator[Order]:
        """Orders for the levels that the session reached after its open; ``outcomes`` are those so far."""
        followed, quotes = self._with_fills(day, outcomes, account, rules), self._quotes(day)
        numbers = count(max([FIRST_EXIT - 1, *(each.order.sequence for each in outcomes)]) + 1)
        left_alone = {each.order.symbol for each in outcomes if each.order.trigger} | _late_buys(outcomes)
        for symbol, position in account.positions.items():
            if symbol in left_alone or symbol not in followed or not position.sellable:
                continue
            held = followed[symbol]
            level = self._level_reached(symbol, held, day, quotes.get(symbol))
            if level is not None:
                sale = Order(
                    symbol=symbol,
                    side="sell",
                    quantity=1,
                    sequence=1,
                    reason=level.reason,
                    trigger=trigger_of(level.kind, held.entered),
                    **level.order,
                )
                yield from _sales(sale, position.sellable, self.rules, day, numbers)

    def batches(
        self, day: pd.Timestamp, decision: Decision, due: Sequence[Order], market: Traded
    ) -> Iterator[list[Order]]:
        """The orders of a session in three batches: up to the close, levels that were reached, at the close.

        A batch is to be judged on ``market`` before the next is asked for. A sale of the decider comes before
        one of the plan that is due for the same symbol.
        """
        for rule in decision.exits:
            self._check_fields(rule)
        if decision.exits and not self.follows:
            self._begin()
            self.open(day)
        orders = list(decision.orders)
        sold = {order.symbol for order in orders if order.side != "buy"}
        orders += [order for order in due if order.symbol not in sold]
        check_sequences(orders)
        if not self.follows:
            yield orders
            return
        yield [order for order in orders if order.type != "close"]
        outcomes = cast("Sequence[Outcome]", market.outcomes)
        yield list(self.level_orders(day, market.account, outcomes, decision.exits))
        yield [order for order in orders if order.type == "close"]

    def record(self, result: SessionResult) -> None:
        """Follow what a session did: fills, exits that wait, highest closes."""
        day, positions = result.session, result.account.positions
        self.last = day
        if not self.follows:
            return
        followed = self._with_fills(day, result.outcomes, result.account, result.exits)
        quotes = self._quotes(day)
        late = _late_buys(result.outcomes)
        kept: dict[str, Followed] = {}
        for symbol, position in positions.items():
            held = followed.get(symbol) or self._follow_position(position)
            quote = quotes.get(symbol)
            locked = position.bought_today > 0 and symbol not in late
            held = self._waiting(symbol, held, result, quote if locked else None)
            close = math.nan if quote is None or quote.close is None else quote.close
            peak = held.peak if math.isnan(close) else max(held.peak, to_decimal(close))
            atr = self._range(held.rule, symbol, day, over=True) if held.atr is None else held.atr
            kept[symbol] = replace(held, peak=peak, atr=atr)
        self.followed = kept
        for fill in result.fills:
            if fill.side == "buy":
                self.exited.pop(fill.order.symbol, None)
            elif fill.order.symbol not in positions:
                self.sold[fill.order.symbol] = day
                if fill.order.trigger:
                    self.exited[fill.order.symbol] = day

    def _due(self, symbol: str, day: pd.Timestamp, quote: Quote | None) -> tuple[str, str] | None:
        held = self.followed.get(symbol)
        if held is None:
            return None
        if held.waiting is not None:
            return held.waiting
        price = math.nan if quote is None else quote.open
        for level in self._levels(symbol, held, day) if 0 < price < math.inf else ():
            at = float(level.price)  # as the open is one: 30.74 is less than Decimal("30.74")
            if price >= at if level.kind == "take_profit" else price <= at:
                return trigger_of(level.kind, held.entered), level.reason
        most = held.rule.max_holding
        if most is not None and self._places[day] - self._places.get(held.entered, 0) >= most:
            return trigger_of("max_holding", held.entered), f"max_holding {most}"
        return None

    def _levels(self, symbol: str, held: Followed, day: pd.Timestamp) -> list[Level]:
        """The stop that is higher, then the target. A trailing stop is not active in the entry session."""
        rule, basis = held.rule, held.rule.basis or held.basis
        stops = [self.level(rule, "stop_loss", symbol, day, basis, held.atr)]
        if held.entered < day:
            atr = self._range(rule, symbol, day)
            stops.append(self.level(rule, "trailing_stop", symbol, day, held.peak, atr))
        known = [level for level in stops if level is not None]
        levels = [max(known, key=lambda level: level.price)] if known else []
        target = self.level(rule, "take_profit", symbol, day, basis, held.atr)
        levels += [] if target is None else [target]
        return [level for level in levels if level.price > 0]

    def _range(self, rule: ExitRule, symbol: str, day: pd.Timestamp, *, over: bool = False) -> Decimal | None:
        """The average true range as of the close before a session, or of its own where it is over."""
        if not rule.ranges:
            return None
        actions = () if over else self.actions(day)
        splits = [replace(each, cash=ZERO) for each in actions if each.symbol == symbol]
        ranges = average_true_ranges(self._store, self._data_ref, rule.window)
        found = range_of(ranges, symbol, self._places[day] + over)
        return None if found is None else price_after_actions(found, splits)

    def level(  # noqa: PLR0917 - what a level is made of
        self,
        rule: ExitRule,
        kind: Kind,
        symbol: str,
        day: pd.Timestamp,
        basis: Decimal,
        atr: Decimal | None = None,
    ) -> Level | None:
        """The level of a rule, if it has one: stops are rounded down to the tick, targets up."""
        if kind in rule.changes:
            change = rule.changes[kind]
            exact, far = basis * (1 + change), f"{(abs(change) * 100).normalize():f}%"
        elif kind in rule.ranges and atr is not None:
            change = rule.ranges[kind]
            exact, far = basis + change * atr, f"{abs(change).normalize():f} ATR {atr.normalize():f}"
        else:
            return None
        tick = self.rules.tick(symbol, day.date(), max(exact, ZERO))
        rounding = ROUND_CEILING if change > 0 else ROUND_FLOOR
        price = (exact / tick).quantize(Decimal(1), rounding=rounding) * tick
        way = "above" if change > 0 else "below"
        reason = f"{kind} {price}, {far} {way} {round(basis, 4).normalize():f}"
        return Level(kind=kind, price=price, reason=reason)

    def _level_reached(
        self, symbol: str, held: Followed, day: pd.Timestamp, quote: Quote | None
    ) -> Level | None:
        """The level that the session's range reached; a session that reaches both counts as stopped."""
        if quote is None or quote.suspended or quote.low is None or quote.high is None:
            return None
        for level in self._levels(symbol, held, day):
            price, target = float(level.price), level.kind == "take_profit"
            if quote.high >= price if target else quote.low <= price:
                return level
        return None

    def _waiting(self, symbol: str, held: Followed, result: SessionResult, quote: Quote | None) -> Followed:
        """The position with an exit that was refused, cut off, or reached in the session of the entry.

        ``quote`` is of shares that could not be sold in the session, else None.
        """
        tried = [each.order for each in result.outcomes if each.order.trigger and each.order.symbol == symbol]
        if tried:
            reason = tried[0].reason.removesuffix(AGAIN) + AGAIN
            return replace(held, waiting=(tried[0].trigger, reason))
        level = self._level_reached(symbol, held, result.session, quote)
        if level is None:
            return held
        return replace(held, waiting=(trigger_of(level.kind, held.entered), level.reason + AT_ENTRY))

    def _follow_position(self, position: Position) -> Followed:
        """What is followed of shares that were there before the run."""
        cost = trim_zeros(position.average_cost)
        return Followed(rule=self.rule, entered=position.entered, basis=cost, peak=cost, last=cost)

    def _with_fills(
        self, day: pd.Timestamp, outcomes: Iterable[Outcome], account: Account, rules: Sequence[ExitRule]
    ) -> dict[str, Followed]:
        """What is followed after the session's purchases and rules, of positions that are still there."""
        fills, followed = [each for each in outcomes if isinstance(each, Fill)], dict(self.followed)
        for symbol in dict.fromkeys(fill.order.symbol for fill in fills if fill.side == "buy"):
            position = account.positions.get(symbol)
            if position is None:
                continue
            own = [fill for fill in fills if fill.order.symbol == symbol]
            bought = sum((Decimal(fill.quantity) for fill in own if fill.side == "buy"), ZERO)
            sold = sum((Decimal(fill.quantity) for fill in own if fill.side == "sell"), ZERO)
            paid = sum((fill.price * fill.quantity for fill in own if fill.side == "buy"), ZERO)
            held, before = followed.get(symbol), Decimal(position.quantity) - bought + sold
            last = paid / bought
            if held is None or position.entered == day:
                atr = self._range(self.rule, symbol, day)
                followed[symbol] = Followed(
                    rule=self.rule, entered=day, basis=last, peak=last, last=last, atr=atr
                )
            else:
                basis, number = (held.basis * before + paid) / (before + bought), held.purchases + 1
                peak = max(held.peak, basis)
                followed[symbol] = replace(held, basis=basis, peak=peak, last=last, purchases=number)
        for rule in rules:
            if rule.symbol in account.positions:
                held = followed.get(rule.symbol) or self._follow_position(account.positions[rule.symbol])
                atr = self._range(rule, rule.symbol, day)
                followed[rule.symbol] = replace(held, rule=rule, atr=atr)
        return followed

    def _quotes(self, day: pd.Timestamp) -> Mapping[str, Quote]:
        """What is known of the session after its close; read once, for it is asked for twice."""
        if self._read is None or self._read[0] != day:
            view = self._store.trusted_view(Moment(day, "close"), self._data_ref)
            self._read = day, quotes_at(view)
        return self._read[1]


def _late_buys(outcomes: Iterable[Outcome]) -> set[str]:
    """Symbols bought after the open: how much of the session's range came later is not known."""
    return {
        each.order.symbol
        for each in outcomes
        if isinstance(each, Fill) and each.side == "buy" and each.order.type != "open"
    }


def trigger_of(kind: Kind, entered: pd.Timestamp) -> str:
    """What each try of an exit has in common."""
    return f"{kind} {entered:%Y%m%d}"


def _sales(
    order: Order, shares: Quantity, rules: Rulebook, day: pd.Timestamp, numbers: Iterator[int]
) -> Iterator[Order]:
    """The sale of all shares, in orders of at most the largest size."""
    cap = rules.order_cap(order.symbol, day.date(), order.type) or shares
    while shares > 0:
        yield replace(order, quantity=min(shares, cap), sequence=next(numbers))
        shares -= cap


_UNIT = Decimal("0.0001")


@per_commit
def average_true_ranges(store: DataState, data_ref: str, window: int) -> pd.DataFrame:
    """Average true range (Wilder 1978) as of each close; NaN before a symbol has had ``window`` true ranges.

    The first is the mean of ``window`` true ranges, each later one moves by the part ``1 / window``. Sessions
    without high, low and close are left out. On an ex-date the close before and the average move as prices.
    """
    fields = store.snapshot(data_ref)["ohlcv"]
    like = fields["open"]
    high, low, close = (fields[name].reindex_like(like).to_numpy() for name in ("high", "low", "close"))
    places = {symbol: place for place, symbol in enumerate(like.columns)}
    actions = actions_by_session(store, data_ref)
    before, average = np.full((2, len(like.columns)), np.nan)
    counted, found = np.zeros(len(like.columns), np.int64), np.full(like.shape, np.nan)
    for row, day in enumerate(like.index):
        for action in actions.get(day, ()):
            if action.symbol in places:
                place, ratio = places[action.symbol], float(action.ratio)
                before[place] = (before[place] - float(action.cash)) / ratio
                average[place] /= ratio
        there = ~np.isnan(high[row] + low[row] + close[row])
        ranges = np.maximum(high[row], before) - np.minimum(low[row], before)
        ranged = there & ~np.isnan(before)
        counted += ranged
        weight = np.where(ranged, 1 / np.clip(counted, 1, window), 0.0)
        average = np.where(weight == 1, ranges, average + weight * np.where(ranged, ranges - average, 0.0))
        before = np.where(there, close[row], before)
        found[row] = np.where(counted >= window, average, np.nan)
    return pd.DataFrame(found, like.index, like.columns)


def range_of(ranges: pd.DataFrame, symbol: str, end: int) -> Decimal | None:
    """The average as of the last of the first ``end`` sessions, to four decimals; None without one."""
    value: NDArray[np.float64] = ranges[symbol].to_numpy()[max(0, end - 1) : end]
    if not len(value) or np.isnan(value[0]):
        return None
    return Decimal(repr(float(value[0]))).quantize(_UNIT)


@per_commit
def actions_by_session(store: DataState, data_ref: str) -> dict[pd.Timestamp, list[CorporateAction]]:
    """Corporate actions by the session that has their ex-date, or the first one after it."""
    fields = store.snapshot(data_ref)["ohlcv"]
    sessions, found = pd.DatetimeIndex(fields["open"].index), dict[pd.Timestamp, list[CorporateAction]]()
    for action in actions_of(fields):
        place = int(sessions.searchsorted(action.ex))
        if place < len(sessions):
            found.setdefault(sessions[place], []).append(action)
    return found
