"""From the records of a ``position.jsonl`` to trades, and from trades to records."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import pandas as pd

from quantgraph.errors import BadOption, NoData, UnknownSymbol
from quantgraph.interop.ai_trader.position_record import PositionRecord, is_date
from quantgraph.market.rulebook import Side

__all__ = ["CASH_DUST", "PositionFill", "cash_after", "fills_of", "records_of"]

CASH_DUST = 1e-6
"""Doubles that add up to zero may end this far below it."""


class PositionFill(NamedTuple):
    """A trade: session ``YYYY-MM-DD``, shares, price per share, costs by kind."""

    date: str
    side: Side
    symbol: str
    amount: int
    price: float
    costs: Mapping[str, float] | None = None


def cash_after(cash: float, side: Side, price: float, amount: int, fees: float = 0.0) -> float:
    """Cash after a trade, in the order of operations of AI-Trader's tool, each rounded to a double.

    >>> cash_after(9000.0, "buy", 20.1, 3), cash_after(1000.0, "sell", 20.1, 3, 5.0)
    (8939.7, 1055.3)
    """
    return cash - (price * amount + fees) if side == "buy" else cash + (price * amount - fees)


def fills_of(records: Iterable[PositionRecord], opens: pd.DataFrame) -> list[PositionFill]:
    """Trades of the records. Those of 0 shares changed nothing and are left out.

    Parameters
    ----------
    records
        In the order of the file.
    opens
        The field ``open`` of bars: what a record without a price was filled at.

    Raises
    ------
    NoData
        If a record has no price and ``opens`` has none for it.
    """
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
) -> list[PositionRecord]:
    """Build a ledger from trades, with ``no_trade`` in each session after the opening that has none.

    Each trade's record has its price, so that it is explained without being at the open.

    Parameters
    ----------
    opening_date
        Date of the registration, ``YYYY-MM-DD``; it need not be a session.
    cash
        Initial cash.
    symbols
        The universe in the order of the file; all of them stand in each record, zeros too.
    fills
        :class:`PositionFill`, or plain tuples like it, in the order they happened.
    sessions
        Sessions of the account, ``YYYY-MM-DD``. The ledger ends with the last.

    Raises
    ------
    BadOption
        If a fill is out of order, in no session, of no positive price or whole amount, or sells or
        spends more than there is.
    UnknownSymbol
        If a fill's symbol is not in the universe.
    """
    days: dict[str, list[PositionFill]] = {
        day: [] for day in sorted(map(_date, sessions)) if day >= _date(opening_date)
    }
    newest = opening_date
    for number, each in enumerate(fills, 1):
        fill = PositionFill(*each)
        _check(fill, f"fill {number}", newest, days)
        days[fill.date].append(fill)
        newest = fill.date
    opening = PositionRecord(date=opening_date, id=0, positions=dict.fromkeys(symbols, 0), cash=float(cash))
    records = [opening]
    for day, trades in days.items():
        for fill in trades:
            records.append(_traded(records[-1], fill))
        if not trades and day > opening_date:
            records.append(_next(records[-1], date=day, action="no_trade"))
    return records


def _price(record: PositionRecord, opens: pd.DataFrame) -> float:
    if record.price is not None:
        return record.price
    opens_of = opens.get(record.symbol)
    price = math.nan if opens_of is None else float(opens_of.get(pd.Timestamp(record.date), math.nan))
    if math.isnan(price):
        raise NoData(f"record {record.id}: no open of {record.symbol} on {record.date}", symbol=record.symbol)
    return price


def _check(fill: PositionFill, name: str, newest: str, days: Mapping[str, object]) -> None:
    if fill.date not in days or fill.date < newest:
        raise BadOption(
            f"{name}: date={fill.date!r}; a session from {newest} on is wanted, in order", parameter="fills"
        )
    if fill.side not in ("buy", "sell"):
        raise BadOption(f"{name}: side={fill.side!r}; valid: buy, sell", parameter="fills")
    if isinstance(fill.amount, bool) or not isinstance(fill.amount, int) or fill.amount < 1:
        raise BadOption(
            f"{name}: amount={fill.amount!r}; whole shares from 1 on are wanted", parameter="fills"
        )
    if not (math.isfinite(fill.price) and fill.price > 0):
        raise BadOption(f"{name}: price={fill.price!r}; a positive number is wanted", parameter="fills")


def _traded(before: PositionRecord, fill: PositionFill) -> PositionRecord:
    if fill.symbol not in before.positions:
        raise UnknownSymbol(f"{fill.symbol} is not in the ledger's universe", symbols=(fill.symbol,))
    held = before.positions[fill.symbol] + (fill.amount if fill.side == "buy" else -fill.amount)
    record = _next(
        before,
        date=fill.date,
        action=fill.side,
        symbol=fill.symbol,
        amount=fill.amount,
        price=float(fill.price),
        costs=None if fill.costs is None else {name: float(cost) for name, cost in fill.costs.items()},
        positions={**before.positions, fill.symbol: held},
    )
    cash = cash_after(before.cash, fill.side, float(fill.price), fill.amount, record.fees)
    if held < 0 or cash < -CASH_DUST:
        raise BadOption(
            f"{fill.side} {fill.amount} {fill.symbol} on {fill.date} takes more than there is: "
            f"it would leave {held} shares and {cash:.2f} of cash",
            parameter="fills",
        )
    return replace(record, cash=cash)


def _next(before: PositionRecord, **changes: Any) -> PositionRecord:
    """Make the record after ``before``: its state, the next id, and an action of its own."""
    blank: dict[str, Any] = {"symbol": "", "amount": 0, "price": None, "costs": None}
    return replace(before, id=before.id + 1, **{**blank, **changes})


def _date(text: str) -> str:
    if not is_date(text):
        raise BadOption(f"{text!r} is no date YYYY-MM-DD", parameter="sessions")
    return text
