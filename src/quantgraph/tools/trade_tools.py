"""The tools by which a trader buys and sells at today's open, and sees what it holds.

The tools' docstrings are the descriptions that models are sent.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Any

from langchain.tools import ToolRuntime
from langchain_core.tools import tool
from pydantic import WithJsonSchema

from quantgraph._util.docstrings import with_docstring
from quantgraph.broker.account import Account
from quantgraph.broker.order_matching import price_band
from quantgraph.broker.orders import Rejection
from quantgraph.broker.session_market import Pending, SessionMarket
from quantgraph.broker.sizing import LARGEST
from quantgraph.errors import BadOption, UnknownSymbol
from quantgraph.market.money import notional, to_decimal
from quantgraph.market.rulebook import Side
from quantgraph.tools.account_tools import plain_quantity
from quantgraph.tools.decision_tools import DecisionTools, decision_tools
from quantgraph.tools.refusal import refusal
from quantgraph.tools.symbol_bars import known_symbol

MOST_SYMBOLS = 120
"""Symbols that an answer lists with zeros; of a larger universe it has what is held."""

CASH = "CASH"
Amount = Annotated[Any, WithJsonSchema({"type": "integer", "minimum": 1})]
"""What a model passes for an amount, as it is: nothing else is turned into shares."""


@tool("buy", parse_docstring=True)
@with_docstring
def buy(
    symbol: str,
    amount: Amount,
    runtime: ToolRuntime[Any, Any] = None,  # type: ignore[assignment]  # absent outside an agent
) -> dict[str, Any]:
    """Buy shares of a symbol at today's open. The answer is your new positions with CASH, or an error.

    Args:
        symbol: The code, e.g. "600519.SH" or "AAPL".
        amount: Number of shares, a whole number above 0.
    """
    return _trade("buy", symbol, amount, decision_tools(runtime))


@tool("sell", parse_docstring=True)
@with_docstring
def sell(
    symbol: str,
    amount: Amount,
    runtime: ToolRuntime[Any, Any] = None,  # type: ignore[assignment]  # absent outside an agent
) -> dict[str, Any]:
    """Sell shares of a symbol at today's open. The answer is your new positions with CASH, or an error.

    Args:
        symbol: The code, e.g. "600519.SH" or "AAPL".
        amount: Number of shares, a whole number above 0.
    """
    return _trade("sell", symbol, amount, decision_tools(runtime))


@tool("get_positions", parse_docstring=True)
@with_docstring
def get_positions(
    runtime: ToolRuntime[Any, Any] = None,  # type: ignore[assignment]  # absent outside an agent
) -> dict[str, Any]:
    """Get the shares that you hold of each symbol now, after today's trades so far, and CASH."""
    context = decision_tools(runtime)
    return _positions(context, context.account_now)


def _trade(side: Side, symbol: str, amount: object, context: DecisionTools) -> dict[str, Any]:
    if context.market is None:
        raise BadOption(f"{side} needs the market of a session; this agent does not trade by itself")
    _universe(context)  # refused before anything is traded
    told = {"symbol": symbol[:60], "date": f"{context.as_of.session:%Y-%m-%d}"}
    if isinstance(amount, bool) or not isinstance(amount, int) or amount > LARGEST:
        shown = (
            f"{amount!r:.60}" if not isinstance(amount, int) or isinstance(amount, bool) else "a larger one"
        )
        text = f"amount must be a whole number of shares from 1 to {LARGEST}, without quotes; not {shown}"
        return refusal("bad_quantity", text, **told)
    try:
        name = known_symbol(context.view, symbol)
    except UnknownSymbol as error:
        return refusal(error.code, error.message, **told)
    outcome = context.market.place(side, name, amount)
    if isinstance(outcome, Rejection):
        return _refused(outcome, amount, context, context.market)
    positions = _positions(context, context.market.account, name)
    return _pending(outcome, amount, positions) if isinstance(outcome, Pending) else positions


def _positions(context: DecisionTools, account: Account, traded: str = "") -> dict[str, Any]:
    """Shares by symbol, and cash; with many symbols those held, and the one that was traded."""
    universe = _universe(context)
    if len(universe) > MOST_SYMBOLS:
        universe = tuple(each for each in universe if each in account.positions or each == traded)
    listed = dict.fromkeys((*universe, *account.positions))
    return {name: plain_quantity(account.quantity(name)) for name in listed} | {CASH: float(account.cash)}


def _universe(context: DecisionTools) -> tuple[str, ...]:
    if CASH in context.symbols:
        raise BadOption("the data has a share called CASH, which positions cannot list beside the cash")
    return context.symbols


def _pending(outcome: Pending, amount: int, positions: dict[str, Any]) -> dict[str, Any]:
    order = outcome.order
    return {
        "pending": outcome.message,
        "code": outcome.reason,
        "symbol": order.symbol,
        "side": order.side,
        "amount": amount,
        "positions": positions,
    }


def _refused(
    rejection: Rejection, amount: int, context: DecisionTools, market: SessionMarket
) -> dict[str, Any]:
    return refusal(
        rejection.code,
        rejection.message,
        symbol=rejection.order.symbol,
        date=f"{rejection.session:%Y-%m-%d}",
        **_numbers(rejection, amount, context, market.account),
    )


def _numbers(rejection: Rejection, amount: int, context: DecisionTools, account: Account) -> dict[str, Any]:
    """The numbers that explain a rejection."""
    symbol, day, rules = rejection.order.symbol, rejection.session.date(), context.rules
    held = account.positions.get(symbol)
    match rejection.code:
        case "insufficient_cash":
            paid = notional(_open_price(context, symbol), amount)
            fees = rules.charges(symbol, "buy", amount, paid, day).total
            return {"required_cash": float(paid + fees), "cash_available": float(account.cash)}
        case "insufficient_shares":
            return {"have": plain_quantity(held.quantity) if held else 0, "want_to_sell": amount}
        case "t_plus_one" if held:
            return {
                "have": plain_quantity(held.quantity),
                "bought_today": plain_quantity(held.bought_today),
                "sellable": plain_quantity(held.sellable),
                "want_to_sell": amount,
            }
        case "lot_size":
            lots = rules.lots(symbol, day)
            return {
                "amount": amount,
                "lot": plain_quantity(lots.first),
                "step": plain_quantity(lots.step),
            } | ({"have": plain_quantity(held.quantity)} if held else {})
        case "order_size_cap":
            cap = rules.order_cap(symbol, day)
            return {"amount": amount, "most": None if cap is None else int(cap)}
        case "limit_up" | "limit_down":
            upper, lower = price_band(symbol, rejection.session, context.quotes[symbol], rules)
            limit = upper if rejection.code == "limit_up" else lower
            return {
                "open": float(_open_price(context, symbol)),
                "limit": None if limit is None else float(limit),
            }
        case "bad_quantity":
            return {"amount": amount}
        case _:
            return {}


def _open_price(context: DecisionTools, symbol: str) -> Decimal:
    return to_decimal(context.quotes[symbol].open)
