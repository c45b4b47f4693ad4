"""The prompt and the bounded conversation of a trader's day, as AI-Trader writes and reads them."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from typing import Any, Final

import pandas as pd
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

from quantgraph._util.canonical_json import canonical_json
from quantgraph._util.texts import Language
from quantgraph._util.values import plain_number
from quantgraph.agents.loop._facts import DayContext, OpenFacts, facts_at_open
from quantgraph.agents.loop._model_decider import shortened_conversation
from quantgraph.agents.trader._day_text import (
    STOP_SIGNAL,
    day_text,
    market_text,
    prompt_texts,
    shares_table,
    worth_text,
)
from quantgraph.broker import Account
from quantgraph.errors import BadOption
from quantgraph.llm.messages import escape_tags, reply_text, reworded, without_thoughts, wrap
from quantgraph.market import session_of
from quantgraph.state import View
from quantgraph.tools.trading import MOST_SYMBOLS

_FEW_REPLIES, _FEW_CALLS = 3, 20
"""From here on the model is reminded of what is left."""

Prices = dict[str, float | None]


def universe(view: View) -> tuple[str, ...]:
    """Return the symbols that can be traded: those with an open in the data."""
    return view["ohlcv"].frozen("open").symbols


def get_today_init_position(today_date: str, signature: str = "", *, context: DayContext) -> dict[str, Any]:
    """Return the positions after yesterday's close: shares of every symbol, 0 too, and ``CASH``.

    Dividends and splits of this open are in them.
    """
    del signature
    _check_date(today_date, context)
    return positions_of(context.account, context.view)


def positions_of(account: Account, view: View) -> dict[str, Any]:
    """Return the shares of every symbol, 0 too, and ``CASH``."""
    shares = {symbol: plain_number(account.quantity(symbol)) for symbol in universe(view)}
    return {**shares, "CASH": float(account.cash)}


def get_yesterday_open_and_close_price(
    today_date: str, symbols: Iterable[str] | None = None, *, context: DayContext
) -> tuple[Prices, Prices]:
    """Return the opens and the closes of the last session before today, by ``<symbol>_price``.

    Prices are as traded then, not adjusted; None where there was none.
    """
    _check_date(today_date, context)
    view = context.view
    sessions = view["ohlcv"].frozen("close").sessions
    if not len(sessions):
        none = dict.fromkeys(_names(view, symbols))
        return none, dict(none)
    last = pd.Timestamp(sessions[-1])
    opens, closes = (_prices(view, name, last, symbols) for name in ("open", "close"))
    return opens, closes


def get_open_prices(today_date: str, symbols: Iterable[str] | None = None, *, context: DayContext) -> Prices:
    """Return today's opens by ``<symbol>_price``; None where there is none."""
    return _prices(context.view, "open", _check_date(today_date, context), symbols)


def get_agent_system_prompt(
    today_date: str,
    signature: str = "",
    *,
    context: DayContext,
    rule: str = "",
    language: Language = "en",
    watched: Sequence[str] = (),
    text: str = "",
    limits: str = "",
    plan: str = "",
    earlier: str = "",
    table: OpenFacts | None = None,
) -> str:
    """Return the system prompt of a day.

    Parameters
    ----------
    text
        In place of the prompt of the language.
    limits, plan, earlier, table
        See :func:`limits_text`, :func:`.plan_text`, :func:`.earlier_sessions` and :func:`.facts_at_open`.
    """
    del signature
    _check_date(today_date, context)
    symbols = universe(context.view)
    shown = shown_symbols(context, watched)
    table = table or facts_at_open(context, shown)
    parts = [
        (day_text("date", language), today_date),
        (
            day_text(f"market_{context.rules.market}", language),
            market_text(context, shown or symbols, language),
        ),
        (limits, ""),
        (worth_text(table.account, language), ""),
        (shares_table(table, language), ""),
    ]
    if len(shown) < len(symbols):
        parts.append((day_text("others", language, len(symbols), len(shown)), ""))
    if earlier:
        parts.append((day_text("earlier", language), earlier))
    if plan:
        parts.append((day_text("plan_in_force", language), plan))
    if rule:
        parts.append((day_text("rule", language, " ".join(rule.split())), ""))
    day = "\n\n".join("\n".join(filter(None, part)) for part in parts if any(part))
    shipped, closing = prompt_texts()[f"trader_{language}"], day_text("closing", language)
    return f"{(text or shipped).rstrip()}\n\n{wrap('trader_day', day)}\n\n{closing}\n{STOP_SIGNAL}"


def limits_text(replies: int, calls: int, language: Language, *, searches: bool) -> str:
    """Return how many replies and calls a day may take, and where news are."""
    news = [day_text("news", language)] if searches else []
    return "\n".join([day_text("limits", language, replies, calls), *news])


def left_text(replies: int, calls: int, language: Language) -> str:
    """Return how many replies and calls are left, where they are few; else ""."""
    is_much = replies > _FEW_REPLIES and calls > _FEW_CALLS
    return "" if is_much else day_text("left", language, replies, calls)


def first_message(today_date: str, language: Language = "en") -> str:
    """Return the text with which a day begins."""
    return day_text("first", language, today_date)


def answer_text(results: Sequence[Any], language: Language = "en") -> str:
    """Return what a reply is answered: what its tools answered, or that it has no call."""
    return results_text(results) if results else day_text("no_call", language, STOP_SIGNAL)


def results_text(results: Iterable[Any]) -> str:
    r"""Return what the tools of one reply answered, as one text.

    >>> results_text([2904.0, {"CASH": 1.5}])
    'Tool results: 2904.0\n{"CASH": 1.5}'
    """
    return f"Tool results: {chr(10).join(map(result_text, results))}"


def result_text(result: Any) -> str:
    """Return what one tool answered: a text as it is, anything else as JSON."""
    return escape_tags(result if isinstance(result, str) else json.dumps(result, ensure_ascii=False))


def _check_date(today_date: str, context: DayContext) -> pd.Timestamp:
    session = context.view.moment.session
    if not isinstance(today_date, str) or session_of(today_date, name="today_date") != session:
        raise BadOption(
            f"today_date={today_date!r:.40}; the context is at the open of {session:%Y-%m-%d}",
            parameter="today_date",
        )
    return session


def shown_symbols(context: DayContext, watched: Sequence[str]) -> Sequence[str]:
    """Return the symbols of the table: of a large universe those that are held or watched."""
    symbols = universe(context.view)
    if len(symbols) <= MOST_SYMBOLS:
        return symbols
    wanted = {*context.account.positions, *watched}
    return [symbol for symbol in symbols if symbol in wanted]


def _names(view: View, symbols: Iterable[str] | None) -> list[str]:
    return [f"{symbol}_price" for symbol in (universe(view) if symbols is None else symbols)]


def _prices(view: View, field: str, session: pd.Timestamp, symbols: Iterable[str] | None) -> Prices:
    numbers = view.numbers("ohlcv", field, session)
    wanted = list(universe(view) if symbols is None else symbols)
    return {f"{symbol}_price": _known(numbers.get(symbol, math.nan)) for symbol in wanted}


def _known(price: float) -> float | None:
    return price if math.isfinite(price) and price > 0 else None


LEAST_WINDOW: Final = 4_000
"""Characters of the smallest window."""

_OLD = 200
"""Characters that an old message keeps."""
_LONGEST_TEXT = 20_000


def clean_text(reply: AIMessage) -> str:
    """Return the text of a reply without its thinking, storable, and of a bounded length."""
    text = without_thoughts(reply_text(reply.content)).encode("utf-8", "replace").decode()
    return text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]}…"


def bounded_window(messages: Sequence[AnyMessage], limit: int) -> list[AnyMessage]:
    """Return a conversation of at most so many characters, where that is possible.

    The first two messages, which are the day, and what follows the last reply stay whole.
    """
    replies = {place for place, each in enumerate(messages) if isinstance(each, AIMessage)}
    old = range(2, max(replies, default=len(messages)))
    order = sorted(old, key=lambda place: place in replies)
    return shortened_conversation(messages, limit, order, _short)


def _short(message: AnyMessage) -> AnyMessage:
    text = str(message.text)
    if len(text) > _OLD:
        text = escape_tags(f"{text[:_OLD]}… ({len(text) - _OLD} characters left out)")
    if isinstance(message, AIMessage):
        calls = [
            {**each, "args": each["args"] if len(canonical_json(each["args"])) <= _OLD else {"…": "left out"}}
            for each in message.tool_calls
        ]
        return reworded(message, text, calls)
    if isinstance(message, ToolMessage):
        return ToolMessage(text, tool_call_id=message.tool_call_id)
    return HumanMessage(text)
