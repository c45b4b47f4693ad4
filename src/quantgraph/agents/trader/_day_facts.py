"""What a day's prompt says: rules and costs of the market, the shares, the plan, and what was done before."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from quantgraph._util.texts import Language
from quantgraph._util.values import plain_number
from quantgraph.agents.loop._model_decider import prompt_files
from quantgraph.agents.memory import DecisionEpisode, episodes_of
from quantgraph.broker import Account, DecisionContext, Order, SessionResult
from quantgraph.broker.accounts import mark, value_of
from quantgraph.errors import UnknownSymbol
from quantgraph.llm.messages import escape_markup
from quantgraph.market.money import Side
from quantgraph.market.rules import Lots
from quantgraph.state import View
from quantgraph.tools import ToolContext
from quantgraph.tools.trading import known_bars

STOP_SIGNAL: Final = "<FINISH_SIGNAL>"
"""What a model writes when its day is done."""

DayContext = DecisionContext | ToolContext
"""What the prompt reads, at a session's open: its view, account and rulebook."""

_FILES: Final = {"trader_en": "trader_v2.txt", "trader_zh": "trader_v2_zh.txt", "trader_day": "day_v1.json"}
_SHOWN_SESSIONS: Final = 5
_PAST: Final = 20
"""Sessions of the past return."""
_MOST_TRADES, _MOST_CODES, _LONGEST_NAME, _LONGEST_REASON = 12, 10, 24, 160
_VERBS: Final = {"buy": "bought", "sell": "sold"}
_EXAMPLE = Decimal(10_000)


@cache
def prompt_texts() -> Mapping[str, str]:
    """The prompts by language, and the texts of the day. One that changes gets a new version."""
    return prompt_files(Path(__file__).resolve().parent / "prompts", _FILES)


@cache
def _words() -> Mapping[str, tuple[str, str]]:
    """The texts of the day by name, in Chinese and English."""
    found: dict[str, tuple[str, str]] = json.loads(prompt_texts()["trader_day"])
    return found


def day_text(name: str, language: Language, *values: Any, **named: Any) -> str:
    """Return one of the texts of a day, filled in."""
    chinese, english = _words()[name]
    return (chinese if language == "zh" else english).format(*values, **named)


def market_text(context: DayContext, symbols: Sequence[str], language: Language) -> str:
    """Return the sizes of orders, the day of resale, the limits of prices, and what trades cost."""
    rules, day = context.rules, context.view.moment.session.date()
    lots: dict[str, str] = {}
    resale: dict[str, str] = {}
    for symbol in symbols:
        with suppress(UnknownSymbol):
            lots[symbol] = _lot(rules.lots(symbol, day), language)
            resale[symbol] = day_text("later" if rules.t_plus(symbol, day) else "today", language)
    if not lots:
        return ""
    lines = [
        day_text("order", language, _grouped(lots, language)),
        day_text("resale", language, _grouped(resale, language)),
    ]
    if rules.market == "cn":
        lines.append(day_text("band", language))
    return "\n".join([*lines, _costs(context, next(iter(lots)), language)])


def _grouped(words: Mapping[str, str], language: Language) -> str:
    """What holds for most symbols, then what holds for others, with their codes."""
    (common, _), *others = Counter(words.values()).most_common()
    parts = [common]
    for other, count in others:
        codes = [name for name, word in words.items() if word == other][:_MOST_CODES]
        parts.append(f"{', '.join(codes)}{' …' if count > _MOST_CODES else ''}: {other}")
    return day_text("part", language).join(parts)


def _lot(lots: Lots, language: Language) -> str:
    if lots.first <= 1:
        return day_text("any", language)
    return day_text("lots" if lots.step == lots.first else "least", language, lots.first)


def _costs(context: DayContext, symbol: str, language: Language) -> str:
    rules, day, cash = context.rules, context.view.moment.session.date(), context.account.cash
    price = context.view.numbers("ohlcv", "open", context.view.moment.session).get(symbol, math.nan)
    each = Decimal(str(price)) if math.isfinite(price) and price > 0 else Decimal(10)

    def cost(side: Side, amount: Decimal) -> Decimal:
        return rules.charges(symbol, side, amount / each, amount, day).total

    buy, sale, least = cost("buy", _EXAMPLE), cost("sell", _EXAMPLE), cost("buy", Decimal(0))
    if not buy and not sale:
        return day_text("free", language)
    left = max(Decimal(0), cash - cost("buy", cash)) if cash > 0 else Decimal(0)
    lowest = day_text("lowest", language, least) if least else ""
    return day_text("costs", language, _EXAMPLE, rules.currency, buy, sale, lowest, left)


def shares_table(
    context: DayContext,
    shown: Sequence[str],
    closes: Mapping[str, float | None],
    opens: Mapping[str, float | None],
) -> str:
    """Return ``CASH`` and the symbols, a row each: held, average cost, past return in %, last close and open.

    Prices are by ``<symbol>_price``. The column of names is left out where no symbol has one.
    """
    tools = context if isinstance(context, ToolContext) else ToolContext(context.view)
    known = context.view.names()
    names = {symbol: escape_markup(known[symbol]).replace(",", " ") for symbol in shown if symbol in known}
    rows = [["symbol", "name", "held", "cost", f"past_{_PAST}", "last_close", "open"]]
    rows.append(["CASH", "", f"{context.account.cash:.2f}"])
    for symbol in shown:
        position = context.account.positions.get(symbol)
        held, cost = (
            ("0", "")
            if position is None
            else (str(plain_number(position.quantity)), f"{float(position.average_cost):.4f}")
        )
        prices = [_price(values[f"{symbol}_price"]) for values in (closes, opens)]
        past = _past_return(known_bars(tools, symbol).values["close"]) if symbol in tools.symbols else "null"
        rows.append([symbol, names.get(symbol, "")[:_LONGEST_NAME], held, cost, past, *prices])
    return "\n".join(",".join(row if names else [row[0], *row[2:]]) for row in rows)


def _past_return(closes: NDArray[np.float64]) -> str:
    """What adjusted closes have gained in a month, in percent."""
    return f"{100 * (closes[-1] / closes[-1 - _PAST] - 1):.1f}" if len(closes) > _PAST else "null"


def _price(price: float | None) -> str:
    return "null" if price is None else f"{price:.10g}"


def short_reason(text: str) -> str:
    """Return the beginning of a text on one line, without tags and control characters."""
    line = escape_markup(text)
    return line if len(line) <= _LONGEST_REASON else f"{line[: _LONGEST_REASON - 1]}…"


def traded_decisions(
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
        own = (
            each for each in orders if (each.symbol, each.side) == (symbol, "buy" if now > was else "sell")
        )
        reasons = list(dict.fromkeys(each.reason for each in own if each.reason))
        found[symbol] = {
            "action": action,
            "target_cash_amount": target,
            "confidence": 0.5,
            "reasons": reasons,
        }
    return found


def earlier_sessions(context: DecisionContext, name: str) -> str:
    """Return what was done in the last five sessions, why, and how prices went since, a session a line.

    The first line is what the portfolio is worth now, and what it was worth at first; "" on the first day.
    """
    history, language = context.history, context.language
    if not history:
        return ""
    worth = value_of(context.account, mark(context.account, context.view, at="open"))
    first, last = history[0], history[-_SHOWN_SESSIONS:]
    start = first.account.cash - sum((fill.cash_change for fill in first.fills), Decimal())
    ages = range(len(last), 0, -1)
    lines = [
        _session_line(each, context.view, name, age, language) for each, age in zip(last, ages, strict=True)
    ]
    return "\n".join([day_text("worth", language, worth, f"{first.session:%Y-%m-%d}", start), *lines])


def _session_line(result: SessionResult, view: View, name: str, age: int, language: Language) -> str:
    episodes = episodes_of([result], view, name=name, horizon=age)
    trades = [(each.reasoning, _trade(each, language)) for each in episodes]
    explained = {(each.symbol, "buy" if each.action == "increase" else "sell") for each in episodes}
    for fill in result.fills:
        order = fill.order
        if order.trigger or (order.symbol, fill.side) not in explained:  # the plan's, or traded back
            why = (
                day_text("by_plan", language, order.trigger.partition(" ")[0])
                if order.trigger
                else order.reason
            )
            values = {"symbol": order.symbol, "shares": fill.quantity, "price": fill.price, "since": ""}
            trades.append((why, day_text(_VERBS[fill.side], language, **values)))
    if not trades:
        text = result.notes.get(name, {}).get("final_text", "").replace(STOP_SIGNAL, "")
        trades = [(short_reason(text), day_text("no_trade", language))]
    by_reason: dict[str, list[str]] = {}
    for reason, trade in trades[:_MOST_TRADES]:
        by_reason.setdefault(reason, []).append(trade)
    join = day_text("join", language)
    parts = [
        day_text("why", language, join.join(done), reason) if reason else join.join(done)
        for reason, done in by_reason.items()
    ]
    parts += [f"… (+{len(trades) - _MOST_TRADES})"] if len(trades) > _MOST_TRADES else []
    return f"{result.session:%Y-%m-%d}: {day_text('part', language).join(parts)}"


def _trade(episode: DecisionEpisode, language: Language) -> str:
    """A trade, and how the price has gone since, which for a sale is the other way round as its outcome."""
    is_buy, outcome = episode.action == "increase", episode.actual_result
    since = "" if outcome is None else day_text("since", language, outcome if is_buy else -outcome)
    price = episode.market_context["fill_price"]
    values = {"symbol": episode.symbol, "shares": episode.shares, "price": price, "since": since}
    return day_text(_VERBS["buy" if is_buy else "sell"], language, **values)
