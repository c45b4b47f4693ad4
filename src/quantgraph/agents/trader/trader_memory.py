"""What a trader is told of its earlier days, where its memory is switched on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from quantgraph.agents.memory import EpisodeMemo, episodes_of
from quantgraph.broker.account import Account
from quantgraph.broker.open_session import SessionResult
from quantgraph.broker.orders import Order
from quantgraph.state import View

_SHOWN = 20


def remembered_decisions(
    orders: Sequence[Order], before: Account, after: Account, opens: Mapping[str, float]
) -> dict[str, dict[str, Any]]:
    """Return the day's trades as decisions that :func:`.episodes_of` reads, by symbol.

    The target is the value at the open of what is held after them.
    """
    found = {}
    for symbol in dict.fromkeys(order.symbol for order in orders):
        was, now = before.quantity(symbol), after.quantity(symbol)
        if was == now:
            continue
        action = "increase" if now > was else "decrease" if now else "close"
        target = round(float(now) * opens.get(symbol, 0.0), 2)
        found[symbol] = {"action": action, "target_cash_amount": target, "confidence": 0.5, "reasons": []}
    return found


def remembered_trades(
    history: Sequence[SessionResult], view: View, *, name: str, memo: EpisodeMemo | None = None
) -> str:
    """Return the last trades with what came of them, a line each, oldest first; "" without any."""
    lines = []
    for each in episodes_of(history, view, name=name, memo=memo)[-_SHOWN:]:
        price = each.market_context["fill_price"]
        result = each.actual_result
        came = "" if result is None else f"; after three sessions {result:+.2f} %"
        lines.append(f"{each.date}: {each.action} {each.symbol}, {each.shares:g} shares at {price:g}{came}")
    return "\n".join(lines)
