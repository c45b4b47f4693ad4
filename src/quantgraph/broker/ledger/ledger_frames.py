"""Fills, rejections, orders and events as frames: exact decimals as text for files, float64 for work.

All have one row each in the order of the journal, an index from 0, sessions as ``trade_date``
(datetime64[us]) and symbols as ``ts_code``. Texts are ``str`` and empty where there is none, numbers float64
and NaN where there is none, amounts in the market's currency; ``sequence`` is int64.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pandas as pd

from quantgraph.broker.corporate_actions import Event
from quantgraph.broker.ledger.journal import CHARGES, EVENTS, iso
from quantgraph.broker.orders import Fill, Outcome, Rejection, number_text, rejection_of

__all__ = [
    "EVENT_COLUMNS",
    "FILL_COLUMNS",
    "FILL_NUMBERS",
    "ORDER_COLUMNS",
    "REJECTION_COLUMNS",
    "events_frame",
    "fills_frame",
    "fills_table",
    "orders_frame",
    "rejections_frame",
    "rejections_table",
]

FILL_NUMBERS = ("quantity", "price", "notional", *CHARGES)
FILL_COLUMNS = ("trade_date", "sequence", "ts_code", "side", *FILL_NUMBERS, "reason")
REJECTION_COLUMNS = ("trade_date", "sequence", "ts_code", "side", "wish", "size", "code", "message", "reason")
ORDER_COLUMNS = (
    *("trade_date", "sequence", "ts_code", "side", "type", "wish", "size", "limit_price"),
    *("quantity", "price", "notional", "cost", "code", "message", "reason"),
)
_EVENT_NUMBERS = ("quantity", "per_share", "amount", "ratio", "before", "after", "cash")
EVENT_COLUMNS = ("trade_date", "ts_code", "kind", *_EVENT_NUMBERS, "pay")

_KIND_OF = {made: kind for kind, made in EVENTS.items()}
_TYPES = {
    **dict.fromkeys(("trade_date", "pay"), "datetime64[us]"),
    **dict.fromkeys(("ts_code", "side", "type", "wish", "code", "message", "reason", "kind"), "str"),
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


def fills_frame(fills: Sequence[Fill]) -> pd.DataFrame:
    """See :meth:`~quantgraph.broker.ledger.queries.LedgerQueries.fills`."""
    table = fills_table(fills)
    table.insert(len(FILL_COLUMNS) - 1, "cost", [float(fill.cost) for fill in fills])
    return _typed(table)


def rejections_frame(rejections: Iterable[Rejection]) -> pd.DataFrame:
    """See :meth:`~quantgraph.broker.ledger.queries.LedgerQueries.rejections`."""
    return _typed(rejections_table(rejections))


def orders_frame(outcomes: Iterable[Outcome]) -> pd.DataFrame:
    """See :meth:`~quantgraph.broker.ledger.queries.LedgerQueries.orders`."""
    return _typed(pd.DataFrame(map(_order_row, outcomes), columns=list(ORDER_COLUMNS)))


def events_frame(events: Iterable[Event]) -> pd.DataFrame:
    """See :meth:`~quantgraph.broker.ledger.queries.LedgerQueries.events`."""
    rows = [
        {**vars(event), "trade_date": event.session, "ts_code": event.symbol, "kind": _KIND_OF[type(event)]}
        for event in events
    ]
    return _typed(pd.DataFrame(rows, columns=list(EVENT_COLUMNS)))


def _order_row(outcome: Outcome) -> tuple[Any, ...]:
    order, refused = outcome.order, rejection_of(outcome)
    fill = outcome if isinstance(outcome, Fill) else None
    wish, size = order.size
    return (
        *(outcome.session, order.sequence, order.symbol, fill.side if fill else order.side or ""),
        *(order.type, wish, size, order.limit_price),
        *((fill.quantity, fill.price, fill.notional, fill.cost) if fill else (0, None, 0, 0)),
        *((refused.code, refused.message) if refused else ("", "")),
        order.reason,
    )


def _typed(table: pd.DataFrame) -> pd.DataFrame:
    types: dict[str, Any] = {name: _TYPES[name] for name in table.columns}
    return table.astype(types)
