"""Tables of the ledger, and how values become rows and rows become values.

Money and prices are decimal text (``"99995.00"``): exact on every database, and readable.
Sessions are ISO dates. Nothing here is particular to SQLite.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

import pandas as pd
from sqlalchemy import Boolean, Column, ForeignKeyConstraint, Integer, MetaData, String, Table, Text

from quantgraph.broker.account import Position
from quantgraph.broker.orders import Fill, Order, Outcome, Rejection
from quantgraph.broker.result import SessionResult
from quantgraph.broker.valuation import Mark

__all__ = [
    "SCHEMA",
    "Row",
    "days",
    "holding_rows",
    "holdings",
    "iso",
    "mark_of",
    "order_rows",
    "orders",
    "outcome_of",
    "position_of",
    "runs",
    "stamp",
]

Row = dict[str, Any]

SCHEMA = MetaData()

runs = Table(
    "runs",
    SCHEMA,
    Column("run_id", String(200), primary_key=True),
    Column("cash", String(40), nullable=False),
    Column("meta", Text, nullable=False),
)

days = Table(
    "days",
    SCHEMA,
    Column("run_id", String(200), primary_key=True),
    Column("session", String(10), primary_key=True),
    Column("decider", String(200), nullable=False),
    Column("cash", String(40), nullable=False),
    Column("value", String(40), nullable=False),
    ForeignKeyConstraint(["run_id"], ["runs.run_id"]),
)

_DAY = ("run_id", "session")

orders = Table(
    "orders",
    SCHEMA,
    Column("run_id", String(200), primary_key=True),
    Column("session", String(10), primary_key=True),
    Column("sequence", Integer, primary_key=True),
    Column("place", Integer, nullable=False),
    Column("symbol", String(40), nullable=False),
    Column("side", String(4), nullable=False),
    Column("quantity", Integer, nullable=False),
    Column("reason", Text, nullable=False),
    Column("price", String(40)),
    Column("notional", String(40)),
    Column("commission", String(40)),
    Column("stamp_duty", String(40)),
    Column("transfer_fee", String(40)),
    Column("code", String(40)),
    Column("message", Text),
    ForeignKeyConstraint(_DAY, ["days.run_id", "days.session"]),
)

holdings = Table(
    "holdings",
    SCHEMA,
    Column("run_id", String(200), primary_key=True),
    Column("session", String(10), primary_key=True),
    Column("symbol", String(40), primary_key=True),
    Column("quantity", Integer, nullable=False),
    Column("sellable", Integer, nullable=False),
    Column("cost", String(40), nullable=False),
    Column("entered", String(10), nullable=False),
    Column("mark", String(40), nullable=False),
    Column("carried", Boolean, nullable=False),
    ForeignKeyConstraint(_DAY, ["days.run_id", "days.session"]),
)

_MONEY = ("price", "notional", "commission", "stamp_duty", "transfer_fee")


def iso(session: pd.Timestamp) -> str:
    """Write a session as it is stored."""
    return session.date().isoformat()


def stamp(text: str) -> pd.Timestamp:
    """Read a stored session."""
    return pd.Timestamp(text).as_unit("us")


def order_rows(run_id: str, session: str, outcomes: Iterable[Outcome]) -> list[Row]:
    """One row an order, in the order they were submitted."""
    return [
        {
            "run_id": run_id,
            "session": session,
            "sequence": outcome.order.sequence,
            "place": place,
            "symbol": outcome.order.symbol,
            "side": outcome.order.side,
            "quantity": outcome.order.quantity,
            "reason": outcome.order.reason,
            **_outcome_columns(outcome),
        }
        for place, outcome in enumerate(outcomes)
    ]


def _outcome_columns(outcome: Outcome) -> Row:
    if isinstance(outcome, Rejection):
        return {**dict.fromkeys(_MONEY), "code": outcome.code, "message": outcome.message}
    return {**{name: str(getattr(outcome, name)) for name in _MONEY}, "code": None, "message": None}


def outcome_of(row: Mapping[str, Any]) -> Outcome:
    """Read a stored order as its fill or rejection."""
    order = Order(**{name: row[name] for name in ("symbol", "side", "quantity", "sequence", "reason")})
    session = stamp(row["session"])
    if row["code"] is not None:
        return Rejection(order=order, session=session, code=row["code"], message=row["message"])
    amounts = {name: Decimal(row[name]) for name in _MONEY}
    return Fill(order=order, session=session, quantity=order.quantity, **amounts)


def holding_rows(run_id: str, result: SessionResult) -> list[Row]:
    """One row a position, in ascending order of symbol."""
    return [
        {
            "run_id": run_id,
            "session": iso(result.session),
            "symbol": symbol,
            "quantity": position.quantity,
            "sellable": position.sellable,
            "cost": str(position.cost),
            "entered": iso(position.entered),
            "mark": str(result.marks[symbol].price),
            "carried": result.marks[symbol].carried,
        }
        for symbol, position in result.account.positions.items()
    ]


def position_of(row: Mapping[str, Any]) -> Position:
    """Read the position of a stored holding."""
    return Position(
        quantity=row["quantity"],
        sellable=row["sellable"],
        cost=Decimal(row["cost"]),
        entered=stamp(row["entered"]),
    )


def mark_of(row: Mapping[str, Any]) -> Mark:
    """Read the mark of a stored holding."""
    return Mark(price=Decimal(row["mark"]), carried=bool(row["carried"]))
