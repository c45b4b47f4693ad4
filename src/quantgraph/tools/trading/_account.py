"""The tools that show a position, the day's rules, and sums; and those that buy, sell or place an order.

The tools' docstrings are the descriptions that models are sent.
"""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Annotated, Any, Literal

from langchain.tools import ToolRuntime
from langchain_core.tools import tool
from pydantic import Field, WithJsonSchema

from quantgraph._util.values import finite_number, is_number, is_whole, plain_number, read_number
from quantgraph.broker import Account, Fill, Pending, Rejection
from quantgraph.broker.accounts import mark, value_of
from quantgraph.broker.session import LARGEST, largest_buy, price_band
from quantgraph.errors import BadOption, UnknownSymbol
from quantgraph.market.money import Charges, Side, market_value, notional, to_decimal
from quantgraph.tools._context import ToolContext, context_of
from quantgraph.tools._results import refusal, with_docstring
from quantgraph.tools.trading._symbol_bars import known_symbol

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
    context = context_of(runtime)
    name, account = known_symbol(context.view, symbol), context.account
    marks = mark(account, context.view, at="open")
    total = value_of(account, marks)
    found: dict[str, Any] = {
        "symbol": name, "shares": 0, "sellable": 0, "average_cost": None, "value": 0.0, "weight": 0.0
    }  # fmt: skip
    if position := account.positions.get(name):
        value = market_value(marks[name].price, position.quantity)
        found |= {
            "shares": plain_number(position.quantity),
            "sellable": plain_number(position.sellable),
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
    context = context_of(runtime)
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


def _fees_text(context: ToolContext, symbol: str, price: float) -> str:
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


MOST_SYMBOLS = 120
"""Symbols that a prompt or an answer lists; of a larger universe it has what is held."""

CASH = "CASH"
Amount = Annotated[Any, WithJsonSchema({"type": "integer", "minimum": 1})]
"""What a model passes for an amount: a whole number, or a text of one; nothing else is turned into shares."""


@tool("buy", parse_docstring=True)
@with_docstring
def buy(
    symbol: str,
    amount: Amount,
    runtime: ToolRuntime[Any, Any] = None,  # type: ignore[assignment]  # absent outside an agent
) -> dict[str, Any]:
    """Buy shares of a symbol at today's open. The answer is what you hold then, with CASH, or an error.

    Args:
        symbol: The code, e.g. "600519.SH" or "AAPL".
        amount: Number of shares, a whole number above 0.
    """
    context = context_of(runtime)
    wanted = _tradable(symbol, amount, context)
    if isinstance(wanted, dict):
        return wanted
    return _answer(context.session.place("buy", *wanted, reason=context.reason), wanted[1], context)


@tool("sell", parse_docstring=True)
@with_docstring
def sell(
    symbol: str,
    amount: Amount,
    runtime: ToolRuntime[Any, Any] = None,  # type: ignore[assignment]  # absent outside an agent
) -> dict[str, Any]:
    """Sell shares of a symbol at today's open. The answer is what you hold then, with CASH, or an error.

    Args:
        symbol: The code, e.g. "600519.SH" or "AAPL".
        amount: Number of shares, a whole number above 0.
    """
    context = context_of(runtime)
    wanted = _tradable(symbol, amount, context)
    if isinstance(wanted, dict):
        return wanted
    return _answer(context.session.place("sell", *wanted, reason=context.reason), wanted[1], context)


@tool("get_positions", parse_docstring=True)
@with_docstring
def get_positions(
    runtime: ToolRuntime[Any, Any] = None,  # type: ignore[assignment]  # absent outside an agent
) -> dict[str, Any]:
    """Get the shares that you hold now, after today's trades so far, by symbol, and CASH."""
    context = context_of(runtime)
    return _positions(context, context.account_now)


def _tradable(symbol: str, amount: Any, context: ToolContext) -> tuple[str, int] | dict[str, Any]:
    """The data's own spelling of a symbol and the shares, or the refusal of what no market could take."""
    _universe(context)
    facts = {"symbol": symbol[:60], "date": f"{context.moment.session:%Y-%m-%d}"}
    written = read_number(amount) if isinstance(amount, str) else None
    shares = int(written) if written is not None and written.is_integer() else amount
    if not is_whole(shares) or shares > LARGEST:
        shown = f"{amount!r:.60}" if not is_whole(shares) else "a larger one"
        text = f"amount must be a whole number of shares from 1 to {LARGEST}; not {shown}"
        return refusal("bad_quantity", text, **facts)
    try:
        return known_symbol(context.view, symbol), shares
    except UnknownSymbol as error:
        return refusal(error.code, error.message, **facts)


def _answer(outcome: Fill | Rejection | Pending, amount: int, context: ToolContext) -> dict[str, Any]:
    """What is held after an order, or why it was refused."""
    if isinstance(outcome, Rejection):
        facts = {"symbol": outcome.order.symbol, "date": f"{outcome.session:%Y-%m-%d}"}
        return refusal(outcome.code, outcome.message, **facts, **_numbers(outcome, amount, context))
    order, positions = outcome.order, _positions(context, context.account_now, outcome.order.symbol)
    if not isinstance(outcome, Pending):
        return positions
    told = {"pending": outcome.message, "code": outcome.reason}
    return {**told, "symbol": order.symbol, "side": order.side, "amount": amount, "positions": positions}


def _positions(context: ToolContext, account: Account, traded: str = "") -> dict[str, Any]:
    """Shares of what is held and of the symbol that was traded, in the data's order, and cash."""
    wanted = {*account.positions, traded}
    listed = dict.fromkeys([each for each in _universe(context) if each in wanted] + [*account.positions])
    return {name: plain_number(account.quantity(name)) for name in listed} | {CASH: float(account.cash)}


def _universe(context: ToolContext) -> tuple[str, ...]:
    if CASH in context.symbols:
        raise BadOption("the data has a share called CASH, which positions cannot list beside the cash")
    return context.symbols


def _numbers(rejection: Rejection, amount: int, context: ToolContext) -> dict[str, Any]:
    """The numbers that explain a rejection."""
    symbol, day, rules = rejection.order.symbol, rejection.session.date(), context.rules
    account = context.account_now
    held = account.positions.get(symbol)
    match rejection.code:
        case "insufficient_cash":
            opened = to_decimal(context.quotes[symbol].open)
            paid = notional(opened, amount)
            fees = rules.charges(symbol, "buy", amount, paid, day).total
            return {
                "required_cash": float(paid + fees),
                "cash_available": float(account.cash),
                "largest_buy": plain_number(
                    largest_buy(symbol, opened, account.cash, rules, rejection.session)
                ),
            }
        case "insufficient_shares":
            return {"have": plain_number(held.quantity) if held else 0, "want_to_sell": amount}
        case "t_plus_one" if held:
            return {
                "have": plain_number(held.quantity),
                "bought_today": plain_number(held.bought_today),
                "sellable": plain_number(held.sellable),
                "want_to_sell": amount,
            }
        case "lot_size":
            lots = rules.lots(symbol, day)
            return {"amount": amount, "lot": plain_number(lots.first), "step": plain_number(lots.step)} | (
                {"have": plain_number(held.quantity)} if held else {}
            )
        case "order_size_cap":
            cap = rules.order_cap(symbol, day)
            return {"amount": amount, "most": None if cap is None else int(cap)}
        case "limit_up" | "limit_down":
            upper, lower = price_band(symbol, rejection.session, context.quotes[symbol], rules)
            limit = upper if rejection.code == "limit_up" else lower
            opened = to_decimal(context.quotes[symbol].open)
            return {"open": float(opened), "limit": None if limit is None else float(limit)}
        case "bad_quantity":
            return {"amount": amount}
        case _:
            return {}


@tool("place_order", parse_docstring=True)
@with_docstring
def place_order(
    action: Literal["buy", "sell", "hold"],
    reason: str,
    confidence: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)],
) -> str:
    """Decide on the symbol. It ends your work on it; the size of the order is not yours to choose.

    Args:
        action: "buy", "sell" or "hold".
        reason: The fact that it rests on.
        confidence: How sure you are, from 0 to 1; above 0 for a buy or a sell.
    """
    raise BadOption(
        f"place_order({action}, {confidence:g}, {reason!r:.60}) is a decision; no tool call carries it out"
    )


Number = Annotated[Any, WithJsonSchema({"type": "number"})]
"""What a model passes for a number, as it is: JSON's own numbers are told from texts and truth values."""


@tool("add", parse_docstring=True)
@with_docstring
def add(a: Number, b: Number) -> float:
    """Add two numbers.

    Args:
        a: The first number.
        b: The second number.
    """
    return _finite(_number("a", a) + _number("b", b), "a + b")


@tool("multiply", parse_docstring=True)
@with_docstring
def multiply(a: Number, b: Number) -> float:
    """Multiply two numbers.

    Args:
        a: The first number.
        b: The second number.
    """
    return _finite(_number("a", a) * _number("b", b), "a * b")


def _number(name: str, value: Any) -> float:
    number = finite_number(value)
    if number is not None:
        return number
    if is_number(value):
        raise BadOption(f"{name} must be a finite number, of at most 1.8e308", parameter=name)
    raise BadOption(f"{name}={value!r:.60} must be a number, without quotes", parameter=name)


def _finite(result: float, what: str) -> float:
    if math.isfinite(result):
        return result
    raise BadOption(f"{what} is larger than a number can be (1.8e308)", parameter="a")
