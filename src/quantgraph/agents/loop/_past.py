"""What became of a run's orders, and how prices went since, as a model is told it in a later session."""

from __future__ import annotations

from typing import Final

import pandas as pd

from quantgraph._util.texts import Language, say, short_line
from quantgraph.broker import Fill, Rejection
from quantgraph.tools import ToolContext
from quantgraph.tools.trading import known_bars

SHOWN_SESSIONS: Final = 5
"""Sessions that a model is told of."""

_REFUSAL = 120


def outcome_text(outcome: Fill | Rejection, language: Language, *, symbol: str = "") -> str:
    """What became of an order; ``symbol`` is named where others stand beside it."""
    if isinstance(outcome, Rejection):
        message, order = short_line(outcome.message, _REFUSAL), outcome.order
        asked = f"{order.side} {order.quantity or ''} {symbol}: ".replace("  ", " ") if symbol else ""
        return say(language, zh=f"{asked}被拒绝：{message}", en=f"{asked}rejected, {message}")
    is_buy, count, name = outcome.side == "buy", outcome.quantity, f" {symbol}" if symbol else ""
    return say(
        language,
        zh=f"{'买入' if is_buy else '卖出'}{name} {count} 股，价 {outcome.price}",
        en=f"{'bought' if is_buy else 'sold'} {count}{name} at {outcome.price}",
    )


def price_since(session: pd.Timestamp, tools: ToolContext, symbol: str, language: Language) -> str:
    """How far the price moved from a session's open to this one, adjusted; "" without both."""
    before = known_bars(tools, symbol).opened(session.to_datetime64()) if symbol in tools.symbols else None
    quote = tools.quotes.get(symbol)
    if before is None or not quote or not quote.open > 0:
        return ""
    change = f"{quote.open / before - 1:+.1%}"
    return say(language, zh=f"至今 {change}", en=f"since {change}")
