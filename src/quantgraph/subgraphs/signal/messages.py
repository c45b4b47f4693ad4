"""The answers that clarify offers, in Chinese and English."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

import pandas as pd

from quantgraph._util.texts import Language, say
from quantgraph.data import MarketDataSource

DEFAULT_STRATEGY: dict[Language, str] = {
    "zh": "5日均线上穿20日均线买入，下穿卖出",
    "en": "buy when the 5-day average crosses above the 20-day average, sell when it crosses below",
}
_STRATEGIES: dict[Language, tuple[str, ...]] = {
    "zh": (DEFAULT_STRATEGY["zh"], "RSI(14)低于30买入，高于70卖出", "收盘价上穿20日均线买入，下穿卖出"),
    "en": (
        DEFAULT_STRATEGY["en"],
        "buy when RSI(14) is below 30, sell when it is above 70",
        "buy when the close crosses above the 20-day average, sell when it crosses below",
    ),
}
_WINDOW_MONTHS = (12, 6, 36)
_ALL: dict[Language, str] = {"zh": "全部股票", "en": "all stocks"}
_ACCEPT = re.compile(
    r"\W*(默认|用默认|使用默认|默认方案|好|好的|可以|行|default|use the default|ok|okay|yes|y)\W*",
    re.IGNORECASE,
)


_REFUSE = re.compile(r"\W*(不|不是|不对|不要|取消|否|no|n|nope|cancel|stop|wrong)\W*", re.IGNORECASE)
_WAIVE = re.compile(
    r"\W*(不要|不用|不使用|不执行|去掉|忽略|没有.{0,8}也|算了|继续|go on|without|ignore|skip|drop|forget"
    r"|leave .{0,20}out)",
    re.IGNORECASE,
)


def is_default(answer: str) -> bool:
    """Whether an answer accepts the offered default.

    >>> is_default("默认"), is_default("OK."), is_default("600519.SH")
    (True, True, False)
    """
    return bool(_ACCEPT.fullmatch(answer))


def default_window(sessions: pd.DatetimeIndex, months: int = 12) -> tuple[str, str]:
    """Return start and end, YYYYMMDD, of the last ``months`` up to the last session."""
    last = sessions[-1]
    first = max(sessions[0], last - pd.DateOffset(months=months) + pd.Timedelta(days=1))
    return f"{first:%Y%m%d}", f"{last:%Y%m%d}"


def without_words(words: Sequence[str], language: Language) -> str:
    """Return the answer that gives up indicator fields, or words that nothing executes.

    >>> without_words(["roe", "peg"], "en")
    'go on without roe, peg'
    """
    return say(language, zh=f"不使用 {'、'.join(words)}", en=f"go on without {', '.join(words)}")


def is_refusal(answer: str) -> bool:
    """Whether an answer declines what was shown.

    >>> is_refusal("不对"), is_refusal("No."), is_refusal("no, use 30 days")
    (True, True, False)
    """
    return bool(_REFUSE.fullmatch(answer))


def is_waiver(answer: str, words: Sequence[str], language: Language) -> bool:
    """Whether an answer gives the words of a question up, by its option or in other words.

    >>> is_waiver("without it", ["stop at 5%"], "en"), is_waiver("不要止损了", ["止损5%"], "zh")
    (True, True)
    >>> is_waiver("600519.SH", ["roe"], "en")
    False
    """
    return answer == without_words(words, language) or bool(_WAIVE.match(answer))


def typical_answers(kind: str, language: Language, source: MarketDataSource) -> list[str]:
    """Return a few valid answers to a question; none if the question is about a failure."""
    if kind == "window":
        windows = (default_window(source.sessions(), months) for months in _WINDOW_MONTHS)
        return list(dict.fromkeys(_window(*window, language) for window in windows))
    if kind == "symbol":
        listed = source.symbols()
        indices = [name for code, name in source.names().items() if code not in listed and name]
        return [_ALL[language], *indices[:2], *listed[:2]]
    return list(_STRATEGIES[language]) if kind == "strategy" else []


def _window(start: str, end: str, language: Language) -> str:
    return say(language, zh=f"{start}到{end}", en=f"from {start} to {end}")


def default_answer(
    kind: str, language: Language, sessions: pd.DatetimeIndex, *, plan_without: Collection[str] | None = None
) -> str | None:
    """Return the documented default answer to a kind of question.

    The defaults are all stocks of the source (``symbol``), the last year (``window``) and
    :data:`DEFAULT_STRATEGY` (``strategy``); a failure has none. With ``plan_without`` the default is a plan
    of all three parts except those named there, which are known already.
    """
    window = _window(*default_window(sessions), language)
    parts = {"symbol": _ALL[language], "window": window, "strategy": DEFAULT_STRATEGY[language]}
    if plan_without is None:
        return parts.get(kind)
    join = "，" if language == "zh" else ", "
    return join.join(text for part, text in parts.items() if part == kind or part not in plan_without)
