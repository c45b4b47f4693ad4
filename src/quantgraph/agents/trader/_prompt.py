"""The prompt and the bounded conversation of a trader's day, as AI-Trader writes and reads them."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal

import pandas as pd
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

from quantgraph._util.canonical_json import canonical_json
from quantgraph._util.texts import Language, say
from quantgraph._util.values import plain_number
from quantgraph.agents._model_decider import prompt_files, shortened_conversation
from quantgraph.broker import Account, DecisionContext
from quantgraph.errors import BadOption
from quantgraph.llm.messages import escape_tags, reply_text, without_thoughts, wrap
from quantgraph.market import session_of
from quantgraph.state import View
from quantgraph.tools import MOST_SYMBOLS, ToolContext

STOP_SIGNAL: Final = "<FINISH_SIGNAL>"
"""What a model writes when its day is done."""

_FOLDER = Path(__file__).resolve().parent / "prompts"
_FILES: Final = {
    "trader_us_en": "trader_us_v1.txt",
    "trader_us_zh": "trader_us_v1_zh.txt",
    "trader_cn_en": "trader_cn_v1.txt",
    "trader_cn_zh": "trader_cn_v1_zh.txt",
}

Prices = dict[str, float | None]
DayContext = DecisionContext | ToolContext
"""What the prompt reads, at a session's open: its view, account and rulebook."""


@cache
def prompt_texts() -> Mapping[str, str]:
    """The prompts by market and language: ``trader_us_en`` and so on. One that changes gets a new version."""
    return prompt_files(_FOLDER, _FILES)


def universe(view: View) -> tuple[str, ...]:
    """Return the symbols that can be traded: those with an open in the data."""
    return view["ohlcv"].frozen("open").symbols


def get_today_init_position(today_date: str, signature: str = "", *, context: DayContext) -> dict[str, Any]:
    """Return the positions after yesterday's close: shares of every symbol, 0 too, and ``CASH``.

    Dividends and splits of this morning are in them.
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
    remembered: str = "",
) -> str:
    """Return the system prompt of a day."""
    positions = get_today_init_position(today_date, signature, context=context)
    symbols = universe(context.view)
    shown = _shown(symbols, context.account, watched)
    _, closes = get_yesterday_open_and_close_price(today_date, shown, context=context)
    opens = get_open_prices(today_date, shown, context=context)
    held = {name: positions[name] for name in (*shown, "CASH")}
    market = "cn" if context.rules.market == "cn" else "us"
    parts = [
        (say(language, zh="今天的日期：", en="Today's date:"), today_date),
        (
            say(
                language,
                zh="昨日收盘时的持仓（代码后是股数，CASH 后是可用现金）：",
                en="Yesterday's closing positions (shares after each code, cash after CASH):",
            ),
            _json(held),
        ),
        (say(language, zh="昨日收盘价：", en="Yesterday's closing prices:"), _json(closes)),
        (say(language, zh="今日买入价（开盘价）：", en="Today's buying prices (the opens):"), _json(opens)),
    ]
    if len(shown) < len(symbols):
        note = say(
            language,
            zh=f"可交易的代码有 {len(symbols)} 个，只列出持有或关注的 {len(shown)} 个；其他的用工具查询。",
            en=f"{len(symbols)} symbols can be traded; listed are the {len(shown)} that are held or watched. "
            "Ask the tools for others.",
        )
        parts.append((note, ""))
    if remembered:
        parts.append((say(language, zh="你之前的交易：", en="Your earlier trades:"), remembered))
    if rule:
        parts.append((f"{say(language, zh='用户的规则', en='Rule')}: {' '.join(rule.split())}", ""))
    day = "\n\n".join("\n".join(filter(None, part)) for part in parts)
    closing = say(language, zh="完成后，输出", en="When you think your task is complete, output")
    return (
        f"{prompt_texts()[f'trader_{market}_{language}'].rstrip()}\n\n{wrap('trader_day', day)}\n\n"
        f"{closing}\n{STOP_SIGNAL}"
    )


def first_message(today_date: str) -> str:
    """Return the text with which a day begins."""
    return f"Please analyze and update today's ({today_date}) positions."


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


def _shown(symbols: Sequence[str], account: Account, watched: Sequence[str]) -> Sequence[str]:
    if len(symbols) <= MOST_SYMBOLS:
        return symbols
    wanted = {*account.positions, *watched}
    return [symbol for symbol in symbols if symbol in wanted]


def _names(view: View, symbols: Iterable[str] | None) -> list[str]:
    return [f"{symbol}_price" for symbol in (universe(view) if symbols is None else symbols)]


def _prices(view: View, field: str, session: pd.Timestamp, symbols: Iterable[str] | None) -> Prices:
    numbers = view.numbers("ohlcv", field, session)
    wanted = list(universe(view) if symbols is None else symbols)
    return {f"{symbol}_price": _known(numbers.get(symbol, math.nan)) for symbol in wanted}


def _known(price: float) -> float | None:
    return price if math.isfinite(price) and price > 0 else None


def _json(values: Mapping[str, Any]) -> str:
    return json.dumps(values, ensure_ascii=False)


LEAST_WINDOW: Final = 4_000
"""Characters of the smallest window."""

_OLD = 200
"""Characters that an old message keeps."""
_LONGEST_TEXT = 20_000


def extract_conversation(
    response: Mapping[str, Any] | Sequence[AnyMessage], output_type: Literal["final", "all"] = "final"
) -> Any:
    """Return the model's last text, or all messages, of an agent's response."""
    messages = _messages(response)
    if output_type == "all":
        return list(messages)
    if output_type != "final":
        raise BadOption(f"output_type={output_type!r:.40}; valid are final, all", parameter="output_type")
    texts = (clean_text(each) for each in reversed(messages) if isinstance(each, AIMessage))
    return next(filter(None, texts), "")


def extract_tool_messages(response: Mapping[str, Any] | Sequence[AnyMessage]) -> list[ToolMessage]:
    """Return the answers of tools in an agent's response, in order."""
    return [each for each in _messages(response) if isinstance(each, ToolMessage)]


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


def _messages(response: Mapping[str, Any] | Sequence[AnyMessage]) -> Sequence[AnyMessage]:
    if not isinstance(response, Mapping):
        return response
    found: Iterable[AnyMessage] = response.get("messages") or response.get("conversation") or ()
    return list(found)


def _short(message: AnyMessage) -> AnyMessage:
    text = str(message.text)
    if len(text) > _OLD:
        text = escape_tags(f"{text[:_OLD]}… ({len(text) - _OLD} characters left out)")
    if isinstance(message, AIMessage):
        calls = [
            {**each, "args": each["args"] if len(canonical_json(each["args"])) <= _OLD else {"…": "left out"}}
            for each in message.tool_calls
        ]
        return AIMessage(text, tool_calls=calls)
    if isinstance(message, ToolMessage):
        return ToolMessage(text, tool_call_id=message.tool_call_id)
    return HumanMessage(text)
