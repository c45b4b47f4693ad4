"""The defaults that the subgraph offers, in Chinese and English."""

from __future__ import annotations

import re
from collections.abc import Collection

import pandas as pd

from quantgraph._texts import Language, say

__all__ = ["DEFAULT_STRATEGY", "default_answer", "default_window", "is_default"]

DEFAULT_STRATEGY: dict[Language, str] = {
    "zh": "5日均线上穿20日均线买入，下穿卖出",
    "en": "buy when the 5-day average crosses above the 20-day average, sell when it crosses below",
}
_ALL: dict[Language, str] = {"zh": "全部股票", "en": "all stocks"}
_YES = re.compile(
    r"\W*(默认|用默认|使用默认|默认方案|好|好的|可以|行|default|use the default|ok|okay|yes|y)\W*",
    re.IGNORECASE,
)


def is_default(answer: str) -> bool:
    """Whether an answer accepts the default that was offered.

    >>> is_default("默认"), is_default("OK."), is_default("600519.SH")
    (True, True, False)
    """
    return bool(_YES.fullmatch(answer))


def default_window(sessions: pd.DatetimeIndex) -> tuple[str, str]:
    """The last year up to the last session, as YYYYMMDD."""
    last = sessions[-1]
    first = max(sessions[0], last - pd.DateOffset(years=1) + pd.Timedelta(days=1))
    return f"{first:%Y%m%d}", f"{last:%Y%m%d}"


def default_answer(
    kind: str, language: Language, sessions: pd.DatetimeIndex, *, plan_without: Collection[str] | None = None
) -> str | None:
    """The documented default for a kind of question, as a sentence that reflection can read.

    The parts are: all stocks of the source (``symbol``), the last year (``window``) and
    :data:`DEFAULT_STRATEGY` (``strategy``). A failure has no default of its own. With ``plan_without`` it is
    a plan of all parts but those named there, which are known already.
    """
    start, end = default_window(sessions)
    window = say(language, zh=f"{start}到{end}", en=f"from {start} to {end}")
    parts = {"symbol": _ALL[language], "window": window, "strategy": DEFAULT_STRATEGY[language]}
    if plan_without is None:
        return parts.get(kind)
    join = "，" if language == "zh" else ", "
    return join.join(text for part, text in parts.items() if part == kind or part not in plan_without)
