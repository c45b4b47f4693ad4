"""The tools that show a model its position, and the rules of the day.

The tools' docstrings are the descriptions that models are sent.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from langchain.tools import ToolRuntime
from langchain_core.tools import tool

from quantgraph._util.docstrings import with_docstring
from quantgraph.broker.order_matching import price_band
from quantgraph.broker.orders import Quantity
from quantgraph.broker.valuation import mark, value_of
from quantgraph.market.money import market_value
from quantgraph.market.rulebook import Charges, Side
from quantgraph.tools.decision_tools import DecisionTools, decision_tools
from quantgraph.tools.symbol_bars import known_symbol

_NOTIONAL = Decimal(100_000)
_DECIMALS = 4
_CHARGES = ("commission", "stamp_duty", "transfer_fee", "regulatory", "slippage")


@tool("get_position", parse_docstring=True)
@with_docstring
def get_position(
    symbol: str,
    runtime: ToolRuntime[Any, Any] = None,  # type: ignore[assignment]  # absent outside an agent
) -> dict[str, Any]:
    """Get what the account holds of a symbol, and its cash, on the morning of the session.

    value is at today's open, or at the last price before where there is none (price_is "earlier"); weight is
    its share of total_assets. sellable shares may be sold today.

    Args:
        symbol: The code, e.g. "600519.SH".
    """
    context = decision_tools(runtime)
    name, account = known_symbol(context.view, symbol), context.account
    marks = mark(account, context.view, at="open")
    total = value_of(account, marks)
    found: dict[str, Any] = {
        "symbol": name, "shares": 0, "sellable": 0, "average_cost": None, "value": 0.0, "weight": 0.0
    }  # fmt: skip
    if position := account.positions.get(name):
        value = market_value(marks[name].price, position.quantity)
        found |= {
            "shares": plain_quantity(position.quantity),
            "sellable": plain_quantity(position.sellable),
            "average_cost": round(float(position.average_cost), _DECIMALS),
            "price": float(marks[name].price),
            "price_is": "earlier" if marks[name].carried else "open",
            "value": float(value),
            "weight": round(float(value / total), _DECIMALS) if total else 0.0,
        }
    return found | {"cash": float(account.cash), "total_assets": float(total)}


@tool("get_rules", parse_docstring=True)
@with_docstring
def get_rules(
    symbol: str,
    runtime: ToolRuntime[Any, Any] = None,  # type: ignore[assignment]  # absent outside an agent
) -> dict[str, Any]:
    """Get the exchange's rules for a symbol today: lots, tick, price band, resale, suspension, fees.

    Args:
        symbol: The code, e.g. "600519.SH".
    """
    context = decision_tools(runtime)
    name, rules = known_symbol(context.view, symbol), context.rules
    session = context.view.moment.session
    day = session.date()
    lots, cap = rules.lots(name, day), rules.order_cap(name, day)
    quote = context.quotes.get(name)
    open_price = quote.open if quote and quote.open > 0 else None
    upper, lower = price_band(name, session, quote, rules) if quote else (None, None)
    largest = f", at most {cap} in one order" if cap else ""
    return {
        "symbol": name,
        "board": rules.board(name),
        "currency": rules.currency,
        "open": open_price,
        "suspended_today": quote is None or quote.suspended,
        "lot": f"buys of at least {lots.first} shares in steps of {lots.step}{largest}; all that is held may "
        "be sold in one order",
        "tick": float(rules.tick(name, day, open_price or 1)),
        "price_band_today": _band_text(upper, lower),
        "resale": "shares bought today may be sold from the next session on (T+1)"
        if rules.t_plus(name, day)
        else "shares bought today may be sold today (T+0)",
        "fees": _fees_text(context, name, open_price or 10.0),
    }


def _band_text(upper: Decimal | None, lower: Decimal | None) -> str:
    if upper is None and lower is None:
        return "none"
    below, above = (f"{limit}" if limit is not None else "none" for limit in (lower, upper))
    return f"{below} to {above}; no buy is filled at the upper limit and no sale at the lower one"


def _fees_text(context: DecisionTools, symbol: str, price: float) -> str:
    shares = _NOTIONAL / Decimal(str(price))
    day, rules = context.view.moment.session.date(), context.rules

    def cost(side: Side) -> str:
        return _charges_text(rules.charges(symbol, side, shares, _NOTIONAL, day))

    least = rules.charges(symbol, "buy", 0, 0, day).total
    text = f"a buy for {_NOTIONAL} {rules.currency} costs {cost('buy')}; a sale costs {cost('sell')}"
    return f"{text}; an order costs at least {least}" if least else text


def _charges_text(charges: Charges) -> str:
    amounts = {name.replace("_", " "): getattr(charges, name) for name in _CHARGES}
    parts = [f"{name} {amount}" for name, amount in amounts.items() if amount]
    return f"{charges.total} ({', '.join(parts)})" if parts else "nothing"


def plain_quantity(quantity: Quantity) -> int | float:
    """Shares as JSON: whole ones without decimals."""
    return int(quantity) if quantity == int(quantity) else float(quantity)
