"""Trades of a ``position.jsonl``: from records to fills and back, and into a ledger of ours."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pandas as pd

from quantgraph._util.values import is_whole
from quantgraph.broker import Fill, Market, Order
from quantgraph.broker.ledger import Ledger, import_fills
from quantgraph.errors import BadOption, NoData, UnknownSymbol
from quantgraph.integrations.ai_trader._position_file import PositionRecord, is_date, read_positions
from quantgraph.market.money import ZERO, Side, money, notional, to_decimal

_CASH_DUST = 1e-6
"""Doubles that add up to zero may end this far below it."""
_HALF_CENT = 0.005


class PositionFill(NamedTuple):
    """A trade: session ``YYYY-MM-DD``, shares, price of a share, costs by kind."""

    date: str
    side: Side
    symbol: str
    amount: int
    price: float
    costs: Mapping[str, float] | None = None


class PositionEvent(NamedTuple):
    """What a corporate action did: session, kind, symbol; see :class:`.PositionRecord` for the rest."""

    date: str
    kind: Literal["dividend", "split", "delisting"]
    symbol: str
    amount: int
    cash: float
    ratio: float | None = None


def cash_after(cash: float, side: Side, price: float, amount: int, fees: float = 0.0) -> float:
    """Cash after a trade, in the order of operations of AI-Trader's tool, each rounded to a double.

    >>> cash_after(9000.0, "buy", 20.1, 3), cash_after(1000.0, "sell", 20.1, 3, 5.0)
    (8939.7, 1055.3)
    """
    return cash - (price * amount + fees) if side == "buy" else cash + (price * amount - fees)


def overdrawn(cash: float, trades: int) -> bool:
    """Whether cash is below zero by more than doubles, and half a cent a trade, explain.

    A ledger of exact cents rounds each amount, so a fold in doubles may end below its zero.
    """
    return cash < -(_CASH_DUST + _HALF_CENT * trades)


def fills_of(records: Iterable[PositionRecord], opens: pd.DataFrame) -> list[PositionFill]:
    """Trades of the records. Trades of 0 shares are left out: they changed nothing."""
    return [
        PositionFill(
            record.date, record.action, record.symbol, record.amount, _price(record, opens), record.costs
        )
        for record in records
        if record.action in ("buy", "sell") and record.amount
    ]


def records_of(
    opening_date: str,
    cash: float,
    symbols: Sequence[str],
    fills: Iterable[tuple[Any, ...]],
    *,
    sessions: Iterable[str],
    events: Iterable[PositionEvent] = (),
    with_price: bool = True,
) -> list[PositionRecord]:
    """Build a ledger from trades, with ``no_trade`` in each session after the opening that has none."""
    days: dict[str, list[PositionFill]] = {
        day: [] for day in sorted(map(_date, sessions)) if day >= _date(opening_date)
    }
    newest = opening_date
    for number, each in enumerate(fills, 1):
        fill = PositionFill(*each)
        _check(fill, f"fill {number}", newest, days)
        days[fill.date].append(fill)
        newest = fill.date
    mornings: dict[str, list[PositionEvent]] = {}
    for event in events:
        mornings.setdefault(event.date, []).append(event)
    records = [opening_record(opening_date, cash, symbols)]
    for day, trades in days.items():
        records += day_records(records[-1], day, trades, mornings.get(day, ()), with_price=with_price)
    return records


def opening_record(date: str, cash: float, symbols: Sequence[str]) -> PositionRecord:
    """Build the registration: cash alone."""
    return PositionRecord(date=date, id=0, positions=dict.fromkeys(symbols, 0), cash=float(cash))


def day_records(
    before: PositionRecord,
    day: str,
    trades: Sequence[PositionFill],
    events: Sequence[PositionEvent] = (),
    *,
    with_price: bool = True,
) -> list[PositionRecord]:
    """Build the records of a session from the one before it: corporate actions, then trades or ``no_trade``.

    There is no ``no_trade`` on the day of the registration.
    """
    records = [before]
    for event in events:
        records.append(_changed(records[-1], event))
    for fill in trades:
        records.append(_traded(records[-1], fill, with_price=with_price))
    if not trades and (before.action is not None or day > before.date):
        records.append(_next(records[-1], date=day, action="no_trade"))
    return records[1:]


def import_positions(ledger: Ledger, run_id: str, market: Market, path: str | Path) -> None:
    """Enter a ``position.jsonl`` as a run: every session from its first trade to its last.

    Trades without a price were made at the session's open. The file's cash is an unrounded double and the
    ledger's is exact to the cent, so the two may differ by half a cent a trade.

    Raises
    ------
    BadFile
        If the file is not a ``position.jsonl``.
    NoData, LedgerConflict
        See :func:`~quantgraph.broker.ledger.import_fills`.
    """
    records = read_positions(path)
    opens = market.store.snapshot(market.data_ref)["ohlcv"]["open"]
    fills = [_ledger_fill(trade, number) for number, trade in enumerate(fills_of(records, opens), 1)]
    import_fills(ledger, run_id, market, fills, cash=money(to_decimal(records[0].cash)))


def _ledger_fill(trade: PositionFill, sequence: int) -> Fill:
    price, costs = to_decimal(trade.price), trade.costs or {}
    total = costs.get("total_cost", sum(costs.values()))
    return Fill(
        order=Order(symbol=trade.symbol, side=trade.side, quantity=trade.amount, sequence=sequence),
        session=pd.Timestamp(trade.date).as_unit("us"),
        side=trade.side,
        price=price,
        quantity=trade.amount,
        notional=notional(price, trade.amount),
        commission=money(to_decimal(total)),
        stamp_duty=ZERO,
        transfer_fee=ZERO,
    )


def _price(record: PositionRecord, opens: pd.DataFrame) -> float:
    if record.price is not None:
        return record.price
    column = opens.get(record.symbol)
    price = math.nan if column is None else float(column.get(pd.Timestamp(record.date), math.nan))
    if math.isnan(price):
        raise NoData(f"record {record.id}: no open of {record.symbol} on {record.date}", symbol=record.symbol)
    return price


def _check(fill: PositionFill, name: str, newest: str, days: Mapping[str, object]) -> None:
    problem = None
    if fill.date not in days or fill.date < newest:
        problem = f"date={fill.date!r}; must be a session from {newest} on, in ascending order"
    elif fill.side not in ("buy", "sell"):
        problem = f"side={fill.side!r}; valid: buy, sell"
    elif not is_whole(fill.amount) or fill.amount < 1:
        problem = f"amount={fill.amount!r}; must be a whole number >= 1"
    elif not (math.isfinite(fill.price) and fill.price > 0):
        problem = f"price={fill.price!r}; must be a positive number"
    if problem:
        raise BadOption(f"{name}: {problem}", parameter="fills")


def _changed(before: PositionRecord, event: PositionEvent) -> PositionRecord:
    """The record of a corporate action."""
    _check_listed(before, event.symbol)
    left = {"dividend": before.positions[event.symbol], "split": event.amount, "delisting": 0}
    return _next(
        before,
        date=event.date,
        action=event.kind,
        symbol=event.symbol,
        amount=event.amount,
        received=event.cash,
        ratio=event.ratio,
        positions={**before.positions, event.symbol: left[event.kind]},
        cash=before.cash + event.cash,
    )


def _check_listed(before: PositionRecord, symbol: str) -> None:
    if symbol not in before.positions:
        raise UnknownSymbol(f"{symbol} is not in the ledger's universe", symbols=(symbol,))


def _traded(before: PositionRecord, fill: PositionFill, *, with_price: bool) -> PositionRecord:
    _check_listed(before, fill.symbol)
    held = before.positions[fill.symbol] + (fill.amount if fill.side == "buy" else -fill.amount)
    record = _next(
        before,
        date=fill.date,
        action=fill.side,
        symbol=fill.symbol,
        amount=fill.amount,
        price=float(fill.price) if with_price else None,
        costs=None if fill.costs is None else {name: float(cost) for name, cost in fill.costs.items()},
        positions={**before.positions, fill.symbol: held},
    )
    cash = cash_after(before.cash, fill.side, float(fill.price), fill.amount, record.fees)
    if held < 0 or overdrawn(cash, record.id):
        raise BadOption(
            f"{fill.side} {fill.amount} {fill.symbol} on {fill.date} takes more than there is: "
            f"it would leave {held} shares and {cash:.2f} of cash",
            parameter="fills",
        )
    return replace(record, cash=cash)


def _next(before: PositionRecord, **changes: Any) -> PositionRecord:
    """The record after ``before``: its state, the next id, and an action of its own."""
    blank: dict[str, Any] = {
        "symbol": "",
        "amount": 0,
        "price": None,
        "costs": None,
        "received": None,
        "ratio": None,
    }
    return replace(before, id=before.id + 1, **{**blank, **changes})


def _date(text: str) -> str:
    if not is_date(text):
        raise BadOption(f"{text!r} is not a date YYYY-MM-DD", parameter="sessions")
    return text
