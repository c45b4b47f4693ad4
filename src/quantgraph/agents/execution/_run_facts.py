"""The facts of a run for the stepwise agent: sizes, the trade plan, and its earlier decisions."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any, Final

import numpy as np

from quantgraph._util.texts import Language, Note, say, short_line
from quantgraph.agents.execution._steps import ExecutionOptions
from quantgraph.broker import DecisionContext, Fill, Rejection, SessionResult
from quantgraph.market.money import to_decimal
from quantgraph.tools import ToolContext
from quantgraph.tools.trading import known_bars

EARLIER_DECISIONS: Final = 5
"""Sessions whose decision on a symbol its next execution is shown."""

_REASON, _REFUSAL = 80, 120
_NO_ORDER: Final = {
    "nothing_to_buy": Note(zh="持仓已到目标，或不足一手", en="the size is held already, or less than a lot"),
    "nothing_held": Note(zh="没有持仓", en="nothing is held"),
}


def account_value(context: DecisionContext) -> Decimal:
    """Return what the account is worth at the open; what has no open counts as nothing."""
    opens, account = context.view.numbers("ohlcv", "open"), context.account
    worths = (
        to_decimal(opens[name]) * held.quantity
        for name, held in account.positions.items()
        if 0 < opens.get(name, math.nan) < math.inf
    )
    return sum(worths, account.cash)


def facts_of_run(
    context: DecisionContext,
    tools: ToolContext,
    symbol: str,
    options: ExecutionOptions,
    *,
    size: tuple[Decimal, int],
    plan: str,
) -> dict[str, Any]:
    """Return the facts of an execution that its run alone knows.

    ``plan`` is of :func:`.plan_text`, and ``size`` has the account's value and the number of symbols.
    """
    earlier = list(_earlier_decisions(context, tools, symbol))
    return {
        "order_size": _size_text(context, symbol, options, *size),
        "plan": plan or say(context.language, zh="没有自动的退出", en="no exits"),
        **({"earlier_decisions": earlier} if earlier else {}),
    }


def _size_text(
    context: DecisionContext, symbol: str, options: ExecutionOptions, total: Decimal, symbols: int
) -> str:
    """Say what a buy aims at, and what the least one is."""
    target, lots = options.target(total, 1.0, symbols), context.rules.lots(symbol, context.session.date())
    price = context.view.numbers("ohlcv", "open").get(symbol, math.nan)
    scaled = options.size == "confidence"
    text = say(
        context.language,
        zh=f"买入把整个持仓补到 {target}{' 乘以 confidence' if scaled else ''}",
        en=f"a buy raises the whole position to {target}{' x confidence' if scaled else ''}",
    )
    if not 0 < price < math.inf:
        return text
    least = float(lots.first) * price
    return text + say(
        context.language,
        zh=f"，至少买 {lots.first} 股，即 {least:.2f}",
        en=f"; least buy: {lots.first} shares, {least:.2f}",
    )


def _earlier_decisions(context: DecisionContext, tools: ToolContext, symbol: str) -> Iterator[str]:
    """Say of each of the last sessions what was decided, what became of it, and how the price moved since."""
    for result in context.history[-EARLIER_DECISIONS:]:
        note = result.notes.get("executions", {}).get(symbol)
        if note is not None:
            decided = f"{result.session:%Y-%m-%d} {note['action']} {note['confidence']:g}"
            parts = [
                *_outcomes(result, symbol, note, context.language),
                *_change(result, tools, symbol, context.language),
            ]
            yield f"{'; '.join([decided, *parts])}: {short_line(note['reason'], _REASON)}"


def _outcomes(
    result: SessionResult, symbol: str, note: Mapping[str, Any], language: Language
) -> Iterator[str]:
    """Say what became of the orders of a session: the decision's, and the plan's."""
    if "no_order" in note:
        why = _NO_ORDER[note["no_order"]]
        yield say(language, zh=f"没有委托（{why.zh}）", en=f"no order, {why.en}")
    for each in result.outcomes:
        if each.order.symbol != symbol:
            continue
        plan = f" ({each.order.trigger})" if each.order.trigger else ""
        if isinstance(each, Rejection):
            message = short_line(each.message, _REFUSAL)
            yield say(language, zh=f"被拒绝：{message}", en=f"rejected, {message}") + plan
        else:
            yield _fill_text(each, language) + plan


def _fill_text(fill: Fill, language: Language) -> str:
    is_buy = fill.side == "buy"
    return say(
        language,
        zh=f"{'买入' if is_buy else '卖出'} {fill.quantity} 股，价 {fill.price}",
        en=f"{'bought' if is_buy else 'sold'} {fill.quantity} at {fill.price}",
    )


def _change(result: SessionResult, tools: ToolContext, symbol: str, language: Language) -> Iterator[str]:
    """Say how far the price moved from a session's open to this one, adjusted; nothing without both."""
    bars, quote = known_bars(tools, symbol), tools.quotes.get(symbol)
    (places,) = np.nonzero(bars.sessions == result.session.to_datetime64())
    before = float(bars.values["open"][places[0]]) if len(places) else math.nan
    if quote and quote.open > 0 and before > 0:
        change = f"{quote.open / before - 1:+.1%}"
        yield say(language, zh=f"价格 {change}", en=f"price {change}")
