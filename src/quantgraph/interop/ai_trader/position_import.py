"""AI-Trader's trades as a run of ours."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from quantgraph.broker.ledger import Ledger
from quantgraph.broker.ledger.fills_file import import_fills
from quantgraph.broker.orders import Fill, Order
from quantgraph.broker.simulate import Market
from quantgraph.interop.ai_trader.position_file import PositionFill, fills_of, read_positions
from quantgraph.market.money import ZERO, money, notional, to_decimal

__all__ = ["import_positions"]


def import_positions(ledger: Ledger, run_id: str, market: Market, path: str | Path) -> None:
    """Enter a ``position.jsonl`` as a run: every session from its first trade to its last.

    Trades without a price were made at the session's open. Their cash is an unrounded double and ours is
    exact to the cent, so the two may part by half a cent a trade.

    Raises
    ------
    BadFile
        If the file is no such ledger.
    NoData, LedgerConflict
        As :func:`~quantgraph.broker.ledger.fills_file.import_fills` does.
    """
    records = read_positions(path)
    opens = market.store.snapshot(market.data_ref)["ohlcv"]["open"]
    fills = [_fill(trade, number) for number, trade in enumerate(fills_of(records, opens), 1)]
    import_fills(ledger, run_id, market, fills, cash=money(to_decimal(records[0].cash)))


def _fill(trade: PositionFill, sequence: int) -> Fill:
    price = to_decimal(trade.price)
    costs = trade.costs or {}
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
