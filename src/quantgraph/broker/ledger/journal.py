"""How a session becomes lines of the journal, and lines become a session again.

A line is ``(kind, body)``; the body is JSON with its keys in a fixed order, money and quantities as text.
The lines of a session stand in this order: ``dividend``, ``payment``, ``split``, ``delisting`` as they
happened, ``fill`` and ``rejection`` in the order the orders were submitted, ``marks``, ``day``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pandas as pd

from quantgraph._util.canonical_json import content_hash
from quantgraph.broker.account import Account
from quantgraph.broker.corporate_actions import Delisting, Dividend, Event, Payment, Split, apply_event
from quantgraph.broker.orders import SIZES, Fill, Order, Outcome, Quantity, Rejection, normalize_quantity
from quantgraph.broker.session_result import SessionResult
from quantgraph.broker.valuation import Mark
from quantgraph.errors import LedgerConflict
from quantgraph.market.money import ZERO, market_value, to_decimal, trim_zeros

__all__ = [
    "CHARGES",
    "EVENTS",
    "DayLines",
    "Line",
    "chain_hash",
    "day_body",
    "day_lines",
    "delisting_profits",
    "event_of",
    "fill_body",
    "iso",
    "marks_body",
    "marks_of",
    "outcome_of",
    "plain_order",
    "rejection_body",
    "session_from_iso",
    "text",
]

Line = tuple[str, str]
"""Kind and body."""

CHARGES = ("commission", "stamp_duty", "transfer_fee", "regulatory", "slippage")


@dataclass(frozen=True, kw_only=True)
class DayLines:
    """A session as it stands in the journal: its lines, the ``day`` line last."""

    session: str
    lines: Sequence[Line]


def iso(session: pd.Timestamp) -> str:
    """Write a session as it is stored."""
    return session.date().isoformat()


def session_from_iso(session: str) -> pd.Timestamp:
    """Read a stored session."""
    return pd.Timestamp(session).as_unit("us")


def text(value: Any) -> str:
    """Compact JSON, its keys in the order they have; half a surrogate pair is escaped, as UTF-8 has none."""
    plain = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return plain.encode(errors="backslashreplace").decode()


def chain_hash(before: str, line: int, session: str, kind: str, body: str) -> str:
    """Hash of a line over the hash of the line before it, for the first over the run's name.

    128 bits of BLAKE2b, hexadecimal.
    """
    return content_hash(f"{before}\n{line}\n{session}\n{kind}\n{body}")


def day_lines(before: Account, result: SessionResult) -> DayLines:
    """Lines of a session that began with the account ``before``, on the evening or the morning.

    Raises
    ------
    LedgerConflict
        If what it did cannot be done with that account, or a mark is missing.
    """
    try:
        day = _day_body_of(before, result)
    except (KeyError, ArithmeticError, StopIteration) as error:
        raise LedgerConflict(
            f"{iso(result.session)}: the result does not follow from the account before it "
            f"({type(error).__name__}: {error})"
        ) from error
    events: list[Line] = [_event_line(event) for event in result.events]
    orders: list[Line] = [_outcome_line(outcome) for outcome in result.outcomes]
    marks = {symbol: float(mark.price) for symbol, mark in result.marks.items()}
    carried = [symbol for symbol, mark in result.marks.items() if mark.carried]
    lines = [*events, *orders, ("marks", marks_body(marks, carried)), ("day", day)]
    return DayLines(session=iso(result.session), lines=lines)


def plain_order(sequence: int, symbol: str, side: str, quantity: object, reason: str) -> str:
    """An order for shares at the open, as the inside of a JSON object."""
    return (
        f'"sequence":{sequence},"symbol":{text(symbol)},"type":"open","wish":"{side}",'
        f'"quantity":"{quantity}","reason":{text(reason)}'
    )


def fill_body(  # noqa: PLR0917 - the columns of a fill
    order: str,
    side: str,
    quantity: object,
    price: str,
    notional: object,
    charges: Sequence[object],
    t_plus: int,
    rest: str = "",
) -> str:
    """Body of a fill; ``order`` is the inside of a JSON object, ``charges`` are in the order of CHARGES."""
    commission, duty, transfer, regulatory, slippage = charges
    return (
        f'{{{order},"side":"{side}","filled":"{quantity}","price":"{price}","notional":"{notional}",'
        f'"commission":"{commission}","stamp_duty":"{duty}","transfer_fee":"{transfer}",'
        f'"regulatory":"{regulatory}","slippage":"{slippage}","t_plus":{t_plus}{rest}}}'
    )


def rejection_body(order: str, code: str, message: str) -> str:
    """Body of a rejection."""
    return f'{{{order},"code":"{code}","message":{text(message)}}}'


def marks_body(marks: Mapping[str, float], carried: Sequence[str]) -> str:
    """Body of the marks: prices as numbers in their shortest form, which is exact."""
    return f'{{"prices":{text(marks)},"carried":{text(list(carried))}}}'


def day_body(  # noqa: PLR0917 - the columns of the journal's last line
    decider: str,
    cash: str,
    owed: str,
    stocks: str,
    value: str,
    positions: int,
    largest: str,
    fills: int,
    rejections: int,
    traded: str,
    charges: Sequence[str],
    dividends: str,
    sales: int,
    won: int,
    realised: str,
) -> str:
    """Body of a day: the account at its end, and the sums of what happened.

    ``sales`` are fills that sell and delistings, ``won`` those of them that brought more than their shares
    had cost (average cost, fees of both sides included), ``realised`` is what all of them brought beyond it.
    """
    return text(
        {
            "decider": decider,
            "cash": cash,
            "owed": owed,
            "stocks": stocks,
            "value": value,
            "positions": positions,
            "largest": largest,
            "fills": fills,
            "rejections": rejections,
            "traded": traded,
            **dict(zip(CHARGES, charges, strict=True)),
            "dividends": dividends,
            "sales": sales,
            "won": won,
            "realised": realised,
        }
    )


def outcome_of(kind: str, body: Mapping[str, Any], session: pd.Timestamp) -> Outcome:
    """Read a fill or a rejection."""
    order = _order_of(body)
    if kind == "rejection":
        return Rejection(order=order, session=session, code=body["code"], message=body["message"])
    rest = body.get("rest")
    return Fill(
        order=order,
        session=session,
        side=body["side"],
        price=Decimal(body["price"]),
        quantity=_quantity(body["filled"]),
        notional=Decimal(body["notional"]),
        **{name: Decimal(body[name]) for name in CHARGES},
        t_plus=body["t_plus"],
        rest=rest and Rejection(order=order, session=session, code=rest["code"], message=rest["message"]),
    )


def event_of(kind: str, body: Mapping[str, Any], session: pd.Timestamp) -> Event:
    """Read what a corporate action did."""
    return EVENTS[kind](session=session, **{name: _READ[name](value) for name, value in body.items()})


def marks_of(body: Mapping[str, Any]) -> dict[str, Mark]:
    """Read the marks."""
    carried = set(body["carried"])
    return {
        symbol: Mark(price=to_decimal(price), carried=symbol in carried)
        for symbol, price in body["prices"].items()
    }


def _outcome_line(outcome: Outcome) -> Line:
    order = _order_text(outcome.order)
    if isinstance(outcome, Rejection):
        return "rejection", rejection_body(order, outcome.code, outcome.message)
    rest = outcome.rest
    return "fill", fill_body(
        order,
        outcome.side,
        _written(outcome.quantity),
        _written(outcome.price),
        outcome.notional,
        [getattr(outcome, name) for name in CHARGES],
        outcome.t_plus,
        f',"rest":{text({"code": rest.code, "message": rest.message})}' if rest else "",
    )


def _order_text(order: Order) -> str:
    name, size = order.size
    if order.side is not None and order.type == "open":
        return plain_order(order.sequence, order.symbol, order.side, _written(size), order.reason)
    given = {"sequence": order.sequence, "symbol": order.symbol, "type": order.type, "wish": order.side}
    given |= {name: _written(size)}
    if order.limit_price is not None:
        given["limit_price"] = _written(order.limit_price)
    told = {key: value for key, value in given.items() if value is not None}
    return text({**told, "reason": order.reason})[1:-1]


def _order_of(body: Mapping[str, Any]) -> Order:
    sizes: dict[str, Any] = {
        name: _quantity(body[name]) if "quantity" in name else Decimal(body[name])
        for name in SIZES
        if name in body
    }
    limit = body.get("limit_price")
    return Order(
        symbol=body["symbol"],
        side=body.get("wish"),
        **sizes,
        type=body["type"],
        limit_price=None if limit is None else Decimal(limit),
        sequence=body["sequence"],
        reason=body["reason"],
    )


def _day_body_of(before: Account, result: SessionResult) -> str:
    account, fills = result.account, result.fills
    profits = _profits(before, result)
    worths = {
        symbol: market_value(result.marks[symbol].price, position.quantity)
        for symbol, position in account.positions.items()
    }
    return day_body(
        result.decider,
        str(account.cash),
        str(account.owed),
        str(trim_zeros(sum(worths.values(), Decimal(0)))),
        str(result.value),
        len(account.positions),
        str(trim_zeros(max(worths.values(), default=ZERO))),
        len(fills),
        len(result.rejections),
        str(sum((fill.notional for fill in fills), ZERO)),
        [str(sum((getattr(fill, name) for fill in fills), ZERO)) for name in CHARGES],
        str(sum((event.amount for event in result.events if isinstance(event, Dividend)), ZERO)),
        len(profits),
        sum(profit > 0 for profit in profits),
        str(sum(profits, ZERO)),
    )


def delisting_profits(before: Account, events: Iterable[Event]) -> list[Decimal]:
    """What each delisting brought beyond the cost of its shares, for an account that held them before."""
    gone = (event for event in events if isinstance(event, Delisting))
    return [event.amount - before.positions[event.symbol].cost for event in gone]


def _profits(before: Account, result: SessionResult) -> list[Decimal]:
    """What each sale brought beyond the cost of its shares; a delisting is one, a split changes no cost."""
    account, profits = before.open_session(), delisting_profits(before, result.events)
    for event in result.events:
        account = apply_event(account, event)
    for fill in result.fills:
        cost = account.positions[fill.order.symbol].cost if fill.side == "sell" else ZERO
        account = account.apply(fill)
        if fill.side == "sell":
            left = account.positions.get(fill.order.symbol)
            profits.append(fill.cash_change - cost + (left.cost if left else ZERO))
    return profits


EVENTS: dict[str, Callable[..., Event]] = {
    "dividend": Dividend,
    "payment": Payment,
    "split": Split,
    "delisting": Delisting,
}
_KINDS = {made: kind for kind, made in EVENTS.items()}


def _quantity(value: str) -> Quantity:
    return normalize_quantity(Decimal(value))


_READ: dict[str, Callable[[str], Any]] = {
    "symbol": str,
    "pay": session_from_iso,
    **dict.fromkeys(("quantity", "before", "after"), _quantity),
    **dict.fromkeys(("per_share", "amount", "ratio", "cash"), Decimal),
}


def _event_line(event: Event) -> Line:
    values = {name: value for name, value in vars(event).items() if name != "session"}
    return _KINDS[type(event)], text({name: _written(value) for name, value in values.items()})


def _written(value: object) -> str:
    if isinstance(value, pd.Timestamp):
        return iso(value)
    return f"{value:f}" if isinstance(value, Decimal) else str(value)
