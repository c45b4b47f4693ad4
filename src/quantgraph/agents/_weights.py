"""Orders toward target weights: how much of each is sold and bought, in lots."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np

from quantgraph._util.texts import Note
from quantgraph._util.values import plain_number
from quantgraph.agents._sizing import Sizing, Wish
from quantgraph.broker import Decision, Order, TradePlan
from quantgraph.broker.accounts import Quantity
from quantgraph.broker.session import largest_buy
from quantgraph.errors import BadOption
from quantgraph.market.money import CENT, ZERO, Side, notional
from quantgraph.state import View
from quantgraph.state.frames import Floats, FrozenFrame

Listed = Callable[[Side, Mapping[str, Quantity], str], list[Order]]
"""Makes orders of a side's quantities, with a reason."""
SHORT = "short_of_weight"
"""Key of a session's notes: by symbol the session, shares that are bought, and that the weight is."""


def weights_of(view: View, name: str, plan: TradePlan) -> FrozenFrame | None:
    """The weights that the signal is made of, if it is."""
    there = name in view["weights"]
    if plan.size is not None and there != (plan.size == "weights"):
        what = f"{name} has weights, which say the size" if there else f"the data has no weights of {name}"
        raise BadOption(f"size={plan.size!r}; {what}", parameter="plan.size")
    return view["weights"].frozen(name) if there else None


def last_weights(frame: FrozenFrame, rows: Floats | None, symbols: Collection[str]) -> dict[str, Decimal]:
    """The last weights of some symbols in rows of the frame, those above 0."""
    found: dict[str, Decimal] = {}
    for row in () if rows is None else rows:
        for place in np.flatnonzero(~np.isnan(row)).tolist():
            found[frame.symbols[place]] = Decimal(repr(float(row[place])))
    return {symbol: weight for symbol, weight in sorted(found.items()) if symbol in symbols and weight}


def orders_toward(
    weights: Mapping[str, Decimal], sizing: Sizing, listed: Listed, exits: list[Order], *, buys: bool
) -> Decision:
    """The orders toward weights, after the exits: sales, then purchases."""
    sales, wishes = _moves(sizing, weights)
    cut = listed("sell", sales, "rebalance")
    sizing.after.batch(cut)
    bought = sizing.quantities(wishes, sizing.after.account.cash) if buys else {}
    orders = [*exits, *cut]
    for symbol, shares in bought.items():
        orders += listed("buy", {symbol: shares}, wishes[symbol].reason)
    day = f"{sizing.context.session:%Y-%m-%d}"
    short = {
        symbol: [day, plain_number(shares), plain_number(wishes[symbol].shares or 0)]
        for symbol, shares in bought.items()
        if not shares or shares < (wishes[symbol].shares or 0)
    }
    return Decision(orders, notes={SHORT: short} if short else {})


def short_note(short: Sequence[tuple[str, Sequence[Any]]]) -> Note:
    """How many purchases fell short, and the first one."""
    symbol, (day, bought, wanted) = short[0]
    return Note(
        zh=f"有 {len(short)} 次买入没有达到权重：不足一手，或现金不够（费用、未成交的卖出）；"
        f"第一次是 {day} 的 {symbol}，应买 {wanted} 股，买了 {bought} 股",
        en=f"{len(short)} purchases fell short of their weights: less than a lot, or too little cash for "
        f"fees or after a sale that was not filled; the first: {symbol}, {day}, {bought} of {wanted} shares",
    )


def _moves(sizing: Sizing, weights: Mapping[str, Decimal]) -> tuple[dict[str, Quantity], dict[str, Wish]]:
    """What is sold, and cash for what is bought, so that each symbol has its fraction of the equity.

    What a purchase costs and a sale brings count with their fees. Holdings are rounded down to lots; then
    the largest remainders get a lot more, in order, where what all of them left over pays for it.
    """
    band = Decimal(sizing.plan.band or 0) * sizing.investable * CENT
    moves = list[_Move]()
    for symbol, weight in sorted(weights.items()):
        if price := sizing.prices.get(symbol):
            held = sizing.after.account.positions.get(symbol)
            lacking = weight * sizing.investable * CENT - price * (held.quantity if held else 0)
            if held is None or abs(lacking) > band:
                moves.append(_Move.of(symbol, price, lacking, sizing))
    left = sum((move.left for move in moves), ZERO)
    for move in sorted(moves, key=lambda each: (-each.remainder, each.symbol)):
        if 0 < move.costs_more <= left:
            left -= move.costs_more
            move.shares, move.cost = move.more, move.cost + move.costs_more
    sales = {each.symbol: each.shares for each in moves if each.lacking < 0 and each.shares}
    return sales, {
        each.symbol: Wish(
            cents=math.ceil(each.cost * 100),
            shares=each.shares,
            reason=f"weight {weights[each.symbol].normalize():f}",
        )
        for each in moves
        if each.lacking > 0
    }


@dataclass(kw_only=True)
class _Move:
    """A purchase or a sale toward a weight, which brings ``lacking`` into the holding, below 0 out of it.

    ``cost`` is what it takes with its fees, below 0 what it brings, and ``left`` what rounding leaves over.
    With ``more`` in place of ``shares`` a lot more is held, which takes ``costs_more``.
    """

    symbol: str
    lacking: Decimal
    shares: Quantity
    more: Quantity
    cost: Decimal
    left: Decimal
    costs_more: Decimal

    @classmethod
    def of(cls, symbol: str, price: Decimal, lacking: Decimal, sizing: Sizing) -> _Move:
        """The order that leaves the holding at most at its weight."""
        rules, day = sizing.context.rules, sizing.context.session
        lots = rules.lots(symbol, day.date())
        side: Side = "buy" if lacking > 0 else "sell"

        def money(shares: Quantity) -> Decimal:
            amount = notional(price, shares)
            fees = rules.charges(symbol, side, shares, amount, day.date()).total if shares else ZERO
            return fees + (amount if lacking > 0 else -amount)

        if lacking > 0:
            shares = largest_buy(symbol, price, lacking, rules, day)
            more: Quantity = shares + lots.step if shares else lots.first
        else:
            step, wanted = Decimal(lots.step), -lacking
            enough = step * math.ceil(wanted / price / step)
            while (short := money(enough) - lacking) > 0:  # a fee grows with the sale, in a few steps
                enough += step * math.ceil(short / price / step)
            sellable = Decimal(sizing.after.account.positions[symbol].sellable)
            shares = sizing.in_lots(symbol, min(enough, sellable))
            more = sizing.in_lots(symbol, Decimal(shares - lots.step))
        cost = money(shares)
        extra = money(more) - cost if more != shares else ZERO
        left = lacking - cost
        return cls(
            symbol=symbol, lacking=lacking, shares=shares, more=more, cost=cost, left=left, costs_more=extra
        )

    @property
    def remainder(self) -> Decimal:
        """The part of a lot that is missing."""
        return self.left / self.costs_more if self.costs_more > 0 else ZERO
