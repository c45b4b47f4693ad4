"""Fills, rejections, orders and events as frames: exact decimals as text for files, float64 for work.

All have one row each in the order of the journal, an index from 0, sessions as ``trade_date``
(datetime64[us]) and symbols as ``ts_code``. Texts are ``str`` and empty where there is none, numbers float64
and NaN where there is none, amounts in the market's currency; ``sequence`` is int64.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any

import pandas as pd

from quantgraph.broker.corporate_actions import Event
from quantgraph.broker.ledger.journal import CHARGES, EVENTS, iso, session_from_iso
from quantgraph.broker.orders import SIZES, Fill, Rejection, number_text
from quantgraph.market.money import ZERO

FILL_NUMBERS = ("quantity", "price", "notional", *CHARGES)
FILL_COLUMNS = ("trade_date", "sequence", "ts_code", "side", *FILL_NUMBERS, "reason")
REJECTION_COLUMNS = ("trade_date", "sequence", "ts_code", "side", "wish", "size", "code", "message", "reason")
ORDER_COLUMNS = (
    *("trade_date", "sequence", "ts_code", "side", "type", "wish", "size", "limit_price"),
    *("quantity", "price", "notional", "cost", "code", "message", "reason"),
)
_OUTCOME_COLUMNS = (*ORDER_COLUMNS, "ordered", *CHARGES)
_FREE = (0.0,) * len(CHARGES)
_NOTHING = frozenset({"0", "0.00"})
_ALL_FILLED = {"code": "", "message": ""}
_EVENT_NUMBERS = ("quantity", "per_share", "amount", "ratio", "before", "after", "cash")
EVENT_COLUMNS = ("trade_date", "ts_code", "kind", *_EVENT_NUMBERS, "pay")

OrderLine = tuple[str, str, str]
"""Session, kind and body of a line of the journal that is the outcome of an order."""

_KIND_OF = {made: kind for kind, made in EVENTS.items()}
_TYPES = {
    **dict.fromkeys(("trade_date", "pay"), "datetime64[us]"),
    **dict.fromkeys(
        ("ts_code", "side", "type", "wish", "code", "message", "reason", "kind", "ordered"), "str"
    ),
    **dict.fromkeys((*FILL_NUMBERS, *_EVENT_NUMBERS, "size", "limit_price", "cost"), "float64"),
    "sequence": "int64",
}


def fills_table(fills: Iterable[Fill]) -> pd.DataFrame:
    """One row per fill, in their order.

    Returns
    -------
    pandas.DataFrame
        Columns :data:`FILL_COLUMNS`: ``trade_date`` as ``YYYY-MM-DD``; numbers are exact decimals as
        text, so that nothing is rounded.
    """
    rows = [
        {
            "trade_date": iso(fill.session),
            "sequence": fill.order.sequence,
            "ts_code": fill.order.symbol,
            "side": fill.side,
            **{name: number_text(getattr(fill, name)) for name in FILL_NUMBERS},
            "reason": fill.order.reason,
        }
        for fill in fills
    ]
    return pd.DataFrame(rows, columns=list(FILL_COLUMNS))


def rejections_table(rejections: Iterable[Rejection]) -> pd.DataFrame:
    """One row per rejection, in their order.

    Returns
    -------
    pandas.DataFrame
        Columns :data:`REJECTION_COLUMNS`: ``trade_date`` as ``YYYY-MM-DD``; ``side`` empty for a target;
        ``wish``, which of the four sizes was given, and ``size``, an exact decimal as text; ``code``
        ``message`` of the rejection, and the decider's ``reason``.
    """
    rows = [
        {
            "trade_date": iso(rejection.session),
            "sequence": rejection.order.sequence,
            "ts_code": rejection.order.symbol,
            "side": rejection.order.side or "",
            "wish": rejection.order.size[0],
            "size": number_text(rejection.order.size[1]),
            "code": rejection.code,
            "message": rejection.message,
            "reason": rejection.order.reason,
        }
        for rejection in rejections
    ]
    return pd.DataFrame(rows, columns=list(REJECTION_COLUMNS))


def fills_frame(lines: Iterable[OrderLine]) -> pd.DataFrame:
    """See :meth:`~quantgraph.broker.ledger.queries.LedgerQueries.fills`."""
    table = _outcomes(lines)
    return _rows(table, table["price"].notna(), [*FILL_COLUMNS[:-1], "cost", "reason"])


def rejections_frame(lines: Iterable[OrderLine]) -> pd.DataFrame:
    """See :meth:`~quantgraph.broker.ledger.queries.LedgerQueries.rejections`."""
    table = _outcomes(lines)
    table["side"] = table["ordered"]
    return _rows(table, table["code"] != "", REJECTION_COLUMNS)


def orders_frame(lines: Iterable[OrderLine]) -> pd.DataFrame:
    """See :meth:`~quantgraph.broker.ledger.queries.LedgerQueries.orders`."""
    return _outcomes(lines)[list(ORDER_COLUMNS)]


def _rows(table: pd.DataFrame, chosen: pd.Series[bool], columns: Sequence[str]) -> pd.DataFrame:
    return table.loc[chosen, list(columns)].reset_index(drop=True)


def events_frame(events: Iterable[Event]) -> pd.DataFrame:
    """See :meth:`~quantgraph.broker.ledger.queries.LedgerQueries.events`."""
    rows = [
        {**vars(event), "trade_date": event.session, "ts_code": event.symbol, "kind": _KIND_OF[type(event)]}
        for event in events
    ]
    return _typed(pd.DataFrame(rows, columns=list(EVENT_COLUMNS)))


def _outcomes(lines: Iterable[OrderLine]) -> pd.DataFrame:
    """Everything about the outcomes of orders, without their records: there may be a million."""
    sessions: dict[str, pd.Timestamp] = {}
    return _typed(pd.DataFrame((_outcome(sessions, *line) for line in lines), columns=list(_OUTCOME_COLUMNS)))


def _outcome(sessions: dict[str, pd.Timestamp], session: str, kind: str, text: str) -> tuple[Any, ...]:
    body = json.loads(text)
    if session not in sessions:
        sessions[session] = session_from_iso(session)
    wish = next(name for name in SIZES if name in body)
    limit, ordered = body.get("limit_price"), body.get("wish", "")
    order = (sessions[session], body["sequence"], body["symbol"])
    sizes = (body["type"], wish, float(body[wish]), None if limit is None else float(limit))
    if kind == "rejection":
        bought = (0.0, None, 0.0, 0.0)
        return (
            *order,
            ordered,
            *sizes,
            *bought,
            body["code"],
            body["message"],
            body["reason"],
            ordered,
            *_FREE,
        )
    charges = [body[name] for name in CHARGES]
    cost = float(sum((Decimal(charge) for charge in charges if charge not in _NOTHING), ZERO))
    filled = (float(body["filled"]), float(body["price"]), float(body["notional"]), cost)
    rest = body.get("rest") or _ALL_FILLED
    told = (rest["code"], rest["message"], body["reason"])
    return (*order, body["side"], *sizes, *filled, *told, ordered, *map(float, charges))


def _typed(table: pd.DataFrame) -> pd.DataFrame:
    types: dict[str, Any] = {name: _TYPES[name] for name in table.columns}
    return table.astype(types)
