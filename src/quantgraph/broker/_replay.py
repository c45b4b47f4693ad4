"""Whether a recorded session follows from the account before it."""

from __future__ import annotations

from quantgraph.broker.account import Account
from quantgraph.broker.orders import Fill
from quantgraph.broker.result import SessionResult
from quantgraph.broker.valuation import value_of
from quantgraph.errors import LedgerConflict
from quantgraph.market.money import money

__all__ = ["explain"]


def explain(run_id: str, before: Account, recorded: SessionResult) -> Account:
    """Return the recorded account, once the fills since ``before`` are seen to lead to it.

    Raises
    ------
    LedgerConflict
        If a fill's arithmetic, the cash, a position or the value does not follow.
    """
    account = before.open_session()
    for fill in sorted(recorded.fills, key=lambda fill: (fill.order.side != "sell", fill.order.sequence)):
        _check_fill(run_id, account, fill)
        account = account.apply(fill)
    found = recorded.account
    if account.cash != found.cash:
        raise _conflict(run_id, recorded, f"cash is {found.cash}, its fills lead to {account.cash}")
    for symbol in sorted({*account.positions, *found.positions}):
        expected, held = account.positions.get(symbol), found.positions.get(symbol)
        if expected != held:
            raise _conflict(run_id, recorded, f"{symbol} is {held}, its fills lead to {expected}")
    value = value_of(found, recorded.marks)
    if value != recorded.value:
        raise _conflict(run_id, recorded, f"value is {recorded.value}, cash and marks come to {value}")
    return found


def _check_fill(run_id: str, account: Account, fill: Fill) -> None:
    order = fill.order
    where = f"run {run_id!r}, {fill.session:%Y-%m-%d}, order {order.sequence}"
    if fill.notional != money(fill.price * fill.quantity):
        raise LedgerConflict(
            f"{where}: {fill.quantity} at {fill.price} is not {fill.notional}", run_id=run_id
        )
    position = account.positions.get(order.symbol)
    if order.side == "sell" and (position is None or position.sellable < fill.quantity):
        raise LedgerConflict(
            f"{where}: sells {fill.quantity} {order.symbol} that may not be sold", run_id=run_id
        )
    if account.cash + fill.cash_change < 0:
        raise LedgerConflict(f"{where}: leaves cash at {account.cash + fill.cash_change}", run_id=run_id)


def _conflict(run_id: str, recorded: SessionResult, text: str) -> LedgerConflict:
    session = f"{recorded.session:%Y-%m-%d}"
    return LedgerConflict(f"run {run_id!r}, {session}: {text}", run_id=run_id, session=session)
