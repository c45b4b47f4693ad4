"""What an account holds, and what corporate actions do to it before the open of a session.

An account is immutable: a fill or an event makes a new one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from decimal import ROUND_FLOOR, ROUND_HALF_UP, Decimal
from types import MappingProxyType
from typing import Any, TypeVar, cast

import pandas as pd

from quantgraph.broker.accounts._orders import Fill, Quantity, normalize_quantity
from quantgraph.broker.accounts._quotes import per_commit
from quantgraph.errors import BadOption
from quantgraph.market import Rulebook
from quantgraph.market.actions import CorporateAction, actions_of
from quantgraph.market.money import ZERO, money, notional, to_decimal
from quantgraph.state import DataState

Plain = TypeVar("Plain")


@dataclass(frozen=True, kw_only=True)
class Position:
    """Shares of one symbol.

    Attributes
    ----------
    quantity
        Shares held.
    sellable
        Shares that may be sold in the open session; under T+1 not those bought in it.
    cost
        Paid for the shares still held, fees included; a partial sale reduces it in proportion.
    entered
        Session in which the position was opened from nothing.
    """

    quantity: Quantity
    sellable: Quantity
    cost: Decimal
    entered: pd.Timestamp

    @property
    def bought_today(self) -> Quantity:
        """Shares bought in the open session that may not be sold in it."""
        return self.quantity - self.sellable

    @property
    def average_cost(self) -> Decimal:
        """Cost of a share, fees included."""
        return self.cost / self.quantity


@dataclass(frozen=True, kw_only=True)
class Receivable:
    """A dividend that was earned and is paid on ``pay``, or in the first session after it."""

    symbol: str
    amount: Decimal
    pay: pd.Timestamp


@dataclass(frozen=True, kw_only=True)
class Account:
    """Cash to the cent, positions by ``ts_code`` in ascending order, and dividends that are owed.

    Examples
    --------
    >>> Account.opening(100_000).cash
    Decimal('100000.00')
    """

    cash: Decimal
    positions: Mapping[str, Position] = field(default_factory=dict)
    receivables: tuple[Receivable, ...] = ()

    def __post_init__(self) -> None:
        ordered = sorted(self.positions)
        held = (
            self.positions
            if list(self.positions) == ordered
            else {name: self.positions[name] for name in ordered}
        )
        object.__setattr__(self, "positions", MappingProxyType(dict(held)))

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (self.cash, dict(self.positions), self.receivables)

    @classmethod
    def opening(cls, cash: Decimal | float | str) -> Account:
        """An account of cash alone.

        Raises
        ------
        BadOption
            If the cash is negative, not finite, or not a whole number of cents.
        """
        amount = to_decimal(cash, name="cash")
        if amount < 0 or money(amount) != amount:
            raise BadOption(f"cash={cash!r}; must be >= 0, in whole cents", parameter="cash")
        return cls(cash=money(amount))

    @property
    def owed(self) -> Decimal:
        """Sum of the dividends that were earned and are not paid yet."""
        return sum((receivable.amount for receivable in self.receivables), ZERO)

    def quantity(self, symbol: str) -> Quantity:
        """Shares held of a symbol, 0 when there are none."""
        position = self.positions.get(symbol)
        return position.quantity if position else 0

    def copy(self) -> Account:
        """A deep copy: mutation of it cannot leak."""
        positions = {symbol: _copy(position) for symbol, position in self.positions.items()}
        return Account(cash=self.cash, positions=positions, receivables=tuple(map(_copy, self.receivables)))

    def open_session(self) -> Account:
        """The account before the next open: all shares may be sold."""
        positions = {
            symbol: position
            if position.sellable == position.quantity
            else replace(position, sellable=position.quantity)
            for symbol, position in self.positions.items()
        }
        return self._with(self.cash, positions)

    def apply(self, fill: Fill) -> Account:
        """The account after a fill."""
        # Its own copy() takes a thirtieth of the time of dict().
        symbol, positions = fill.order.symbol, cast("MappingProxyType[str, Position]", self.positions).copy()
        keeps_order = symbol in positions or not positions or next(reversed(positions)) < symbol
        if fill.side == "buy":
            positions[symbol] = _bought(positions.get(symbol), fill)
        elif fill.quantity == positions[symbol].quantity:
            del positions[symbol]
        else:
            positions[symbol] = _sold(positions[symbol], fill)
        cash = self.cash + fill.cash_change
        return self._with(cash, positions) if keeps_order else replace(self, cash=cash, positions=positions)

    def _with(self, cash: Decimal, positions: dict[str, Position]) -> Account:
        """The account with other cash and positions, which are in ascending order and have no other owner."""
        made = _copy(self)
        vars(made).update(cash=cash, positions=MappingProxyType(positions))
        return made


def _bought(held: Position | None, fill: Fill) -> Position:
    paid = -fill.cash_change
    free = 0 if fill.t_plus else fill.quantity
    if held is None:
        return Position(quantity=fill.quantity, sellable=free, cost=paid, entered=fill.session)
    return replace(
        held,
        quantity=normalize_quantity(held.quantity + fill.quantity),
        sellable=normalize_quantity(held.sellable + free),
        cost=held.cost + paid,
    )


def _sold(held: Position, fill: Fill) -> Position:
    left = normalize_quantity(held.quantity - fill.quantity)
    return replace(
        held,
        quantity=left,
        sellable=normalize_quantity(held.sellable - fill.quantity),
        cost=money(held.cost * left / held.quantity),
    )


def _copy(value: Plain) -> Plain:
    made = object.__new__(type(value))
    vars(made).update(vars(value))
    return made


def _rebuild(cash: Decimal, positions: dict[str, Position], receivables: tuple[Receivable, ...]) -> Account:
    return Account(cash=cash, positions=positions, receivables=receivables)


_PRICE = Decimal("0.0001")
_FRACTION = Decimal("1e-9")


@dataclass(frozen=True, kw_only=True)
class Dividend:
    """An entitlement: ``amount`` for ``quantity`` shares; in the cash at once when ``pay`` is the session."""

    symbol: str
    session: pd.Timestamp
    quantity: Quantity
    per_share: Decimal
    amount: Decimal
    pay: pd.Timestamp


@dataclass(frozen=True, kw_only=True)
class Payment:
    """Payment of a dividend that was owed."""

    symbol: str
    session: pd.Timestamp
    amount: Decimal


@dataclass(frozen=True, kw_only=True)
class Split:
    """Shares before and after a split or a bonus issue; ``cash`` is paid for a fraction of a share."""

    symbol: str
    session: pd.Timestamp
    ratio: Decimal
    before: Quantity
    after: Quantity
    cash: Decimal = ZERO


@dataclass(frozen=True, kw_only=True)
class Delisting:
    """Shares that are delisted, and the payment for them."""

    symbol: str
    session: pd.Timestamp
    quantity: Quantity
    per_share: Decimal
    amount: Decimal


Event = Dividend | Payment | Split | Delisting


@dataclass(frozen=True, kw_only=True)
class ActionBook:
    """Corporate actions of a commit by session."""

    entitled: Mapping[pd.Timestamp, tuple[CorporateAction, ...]] = field(default_factory=dict)
    due: Mapping[pd.Timestamp, tuple[CorporateAction, ...]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.entitled or self.due)


@per_commit
def action_book(store: DataState, data_ref: str) -> ActionBook:
    """Corporate actions of a commit."""
    fields = store.snapshot(data_ref)["ohlcv"]
    actions = actions_of(fields)
    if not actions:
        return ActionBook()
    sessions = pd.DatetimeIndex(fields["open"].index)
    entitled: dict[pd.Timestamp, list[CorporateAction]] = {}
    due: dict[pd.Timestamp, list[CorporateAction]] = {}
    for action in actions:
        days = [(action.entitlement_session(sessions), entitled)] if action.cash else []
        if action.ratio != 1 or action.delisting is not None:
            days.append((action.ex, due))
        for day, part in days:  # on a day without a session it happens in the next one
            place = int(sessions.searchsorted(day))
            if place < len(sessions):
                part.setdefault(sessions[place], []).append(action)
    return ActionBook(
        entitled={day: tuple(rows) for day, rows in entitled.items()},
        due={day: tuple(rows) for day, rows in due.items()},
    )


def apply_corporate_actions(
    account: Account,
    session: pd.Timestamp,
    book: ActionBook,
    rules: Rulebook,
    opens: Mapping[str, Decimal] | None = None,
) -> tuple[Account, tuple[Event, ...]]:
    """Open a session: all shares may be sold, dividends are paid, splits and delistings take effect.

    A dividend is earned by the shares held before the open after the record date (on the ex-date where no
    record date is known), before a split of the same day. A fraction of a share after a split is
    paid at the price in ``opens`` in the US, and lapses in the mainland, where whole shares are drawn for it.
    """
    account, events = account.open_session(), []

    def record(event: Event | None) -> None:
        nonlocal account
        if event is not None:
            events.append(event)
            account = apply_event(account, event)

    for row in account.receivables:
        if row.pay <= session:
            record(Payment(symbol=row.symbol, session=session, amount=row.amount))
    for action in book.entitled.get(session, ()):
        record(_dividend(account, action, session))
    for action in book.due.get(session, ()):
        if action.symbol in account.positions:
            record(_change(account, action, session, rules, opens or {}))
    return account, tuple(events)


def apply_event(account: Account, event: Event) -> Account:
    """The account after an event."""
    if isinstance(event, Dividend):
        if event.pay <= event.session:
            return replace(account, cash=account.cash + event.amount)
        owed = Receivable(symbol=event.symbol, amount=event.amount, pay=event.pay)
        return replace(account, receivables=(*account.receivables, owed))
    if isinstance(event, Payment):
        rows = list(account.receivables)
        rows.remove(next(row for row in rows if pays(event, row)))
        return replace(account, cash=account.cash + event.amount, receivables=tuple(rows))
    positions = dict(account.positions)
    if isinstance(event, Delisting) or not event.after:
        del positions[event.symbol]
    else:
        held = positions[event.symbol]
        positions[event.symbol] = replace(held, quantity=event.after, sellable=event.after)
    cash = event.amount if isinstance(event, Delisting) else event.cash
    return replace(account, cash=account.cash + cash, positions=positions)


def pays(event: Payment, row: Receivable) -> bool:
    """Whether the payment is of this dividend."""
    return row.symbol == event.symbol and row.amount == event.amount and row.pay <= event.session


def price_after_actions(price: Decimal, actions: Iterable[CorporateAction]) -> Decimal:
    """A last known price after later corporate actions: ``(price - cash) / ratio``.

    Rounded half up to four decimals after each, and at least 0.
    """
    for action in actions:
        price = max(ZERO, ((price - action.cash) / action.ratio).quantize(_PRICE, rounding=ROUND_HALF_UP))
    return price


def shares_after(held: Quantity, ratio: Decimal) -> Decimal:
    """Shares after a split, fractions included; rounded, because a ratio such as 1:3 is a rounded float.

    >>> shares_after(300, Decimal("0.3333333333333333"))
    Decimal('100.000000000')
    """
    return (held * ratio).quantize(_FRACTION, rounding=ROUND_HALF_UP)


def _dividend(account: Account, action: CorporateAction, session: pd.Timestamp) -> Dividend | None:
    quantity = account.quantity(action.symbol)
    amount = notional(action.cash, quantity)
    if not amount:
        return None
    return Dividend(
        symbol=action.symbol,
        session=session,
        quantity=quantity,
        per_share=action.cash,
        amount=amount,
        pay=max(action.pay or action.ex, session),
    )


def _change(
    account: Account,
    action: CorporateAction,
    session: pd.Timestamp,
    rules: Rulebook,
    opens: Mapping[str, Decimal],
) -> Split | Delisting:
    symbol, held = action.symbol, account.positions[action.symbol].quantity
    if action.delisting is not None:
        return Delisting(
            symbol=symbol,
            session=session,
            quantity=held,
            per_share=action.delisting,
            amount=notional(action.delisting, held),
        )
    exact, step = shares_after(held, action.ratio), Decimal(rules.fraction_step)
    after = (exact / step).to_integral_value(rounding=ROUND_FLOOR) * step
    cash = money((exact - after) * opens[symbol]) if rules.market == "us" and symbol in opens else ZERO
    return Split(
        symbol=symbol,
        session=session,
        ratio=action.ratio,
        before=held,
        after=normalize_quantity(after),
        cash=cash,
    )
