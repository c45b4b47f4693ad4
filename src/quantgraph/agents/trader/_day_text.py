"""The words of a day's prompt: rules and costs of the market, the shares, and what was done before."""

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

from quantgraph._util.texts import Language
from quantgraph._util.values import plain_number
from quantgraph.agents.loop._facts import HORIZONS, AccountFacts, DayContext, OpenFacts, SymbolFacts
from quantgraph.agents.loop._model_decider import prompt_files
from quantgraph.agents.loop._past import SHOWN_SESSIONS, outcome_text, price_since
from quantgraph.broker import DecisionContext, Rejection, SessionResult
from quantgraph.errors import UnknownSymbol
from quantgraph.llm.messages import escape_markup
from quantgraph.market.money import Side
from quantgraph.market.rules import Lots
from quantgraph.tools import ToolContext

STOP_SIGNAL: Final = "<FINISH_SIGNAL>"
"""What a model writes when its day is done."""

_FILES: Final = {"trader_en": "trader_v3.txt", "trader_zh": "trader_v3_zh.txt", "trader_day": "day_v2.json"}
_MOST_TRADES, _MOST_CODES, _LONGEST_NAME, _LONGEST_REASON = 12, 10, 24, 160
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


def shares_table(table: OpenFacts, language: Language) -> str:
    """Return ``CASH`` and the symbols, a row each; what is known of no symbol has no column."""
    rows = [["CASH", "", f"{table.account.cash:.2f}"], *map(_row, table.symbols.values())]
    shown = [any(len(row) > place and row[place] for row in rows) for place in range(len(_COLUMNS))]
    names = [name for name, is_shown in zip(_COLUMNS, shown, strict=True) if is_shown]
    lines = [
        ",".join(cell for cell, is_shown in zip(row, shown, strict=False) if is_shown)
        for row in ([*_COLUMNS], *rows)
    ]
    words = [day_text(name, language) for name in names if name in _words()]
    return "\n".join([day_text("table", language, day_text("part", language).join(words)), *lines])


_COLUMNS: Final = (
    *("symbol", "name", "held", "cost", "weight", "last_close", "open", "least_buy"),
    *(f"r{count}" for count in HORIZONS),
    *("vol_20", "volume", "pe", "yield", "place_52w"),
)


def _row(each: SymbolFacts) -> list[str]:
    name = escape_markup(each.name).replace(",", " ")[:_LONGEST_NAME]
    is_lot = each.least_shares is not None and each.least_shares > 1
    return [
        *(each.symbol, name, str(plain_number(each.held))),
        *(_number(each.average_cost, ".4f"), _number(each.weight, ".1f") if each.held else ""),
        *(_number(price, ".10g") or "null" for price in (each.last_close, each.open)),
        _number(each.least_buy, ".2f") if is_lot else "",
        *(_number(each.returns[count], ".1f") for count in HORIZONS),
        *(_number(each.volatility, ".1f"), _number(each.volume_ratio, ".1f")),
        _number(each.price_earnings, ".1f")
        + (f" ({each.price_earnings_day})" if each.price_earnings_day else ""),
        _number(each.dividend_yield, ".1f"),
        _number(each.range_place, ".0f"),
    ]


def _number(number: float | None, form: str) -> str:
    """A number as it is shown, without a sign where it is zero; "" for none."""
    return "" if number is None else f"{number:z{form}}"


def worth_text(account: AccountFacts, language: Language) -> str:
    """Say what the portfolio is worth, and since the start what became of it and of equal parts."""
    worth = day_text("worth", language, account.value)
    if account.started is None:
        return worth
    since = [
        "null" if gained is None else f"{gained:+.2f} %"
        for gained in (account.own_return, account.equal_parts)
    ]
    return worth + day_text("since_start", language, f"{account.started:%Y-%m-%d}", *since)


def short_reason(text: str) -> str:
    """Return the beginning of a text on one line, without tags and control characters."""
    line = escape_markup(text)
    return line if len(line) <= _LONGEST_REASON else f"{line[: _LONGEST_REASON - 1]}…"


def earlier_sessions(context: DecisionContext, tools: ToolContext, name: str) -> str:
    """Return what was done and refused in the last sessions, why, and how prices went since, a line each."""
    return "\n".join(
        _session_line(each, tools, name, context.language) for each in context.history[-SHOWN_SESSIONS:]
    )


def _session_line(result: SessionResult, tools: ToolContext, name: str, language: Language) -> str:
    join, part = day_text("join", language), day_text("part", language)
    by_reason: dict[str, list[str]] = {}
    for each in result.outcomes[:_MOST_TRADES]:
        order = each.order
        why = (
            day_text("by_plan", language, order.trigger.partition(" ")[0]) if order.trigger else order.reason
        )
        since = (
            "" if isinstance(each, Rejection) else price_since(result.session, tools, order.symbol, language)
        )
        text = outcome_text(each, language, symbol=order.symbol)
        by_reason.setdefault(why, []).append(join.join(filter(None, (text, since))))
    if not by_reason:
        said = result.notes.get(name, {}).get("final_text", "").replace(STOP_SIGNAL, "")
        by_reason = {short_reason(said): [day_text("no_trade", language)]}
    parts = [
        day_text("why", language, join.join(done), reason) if reason else join.join(done)
        for reason, done in by_reason.items()
    ]
    left = len(result.outcomes) - _MOST_TRADES
    return f"{result.session:%Y-%m-%d}: {part.join([*parts, *([f'… (+{left})'] if left > 0 else [])])}"
