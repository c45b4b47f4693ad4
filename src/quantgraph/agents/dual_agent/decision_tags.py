"""Tags of a decision, by which the memory finds it again."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ["_extract_decision_tags"]

_HIGH_CONFIDENCE, _LOW_CONFIDENCE = 0.8, 0.3
_TREND = 0.02
_HIGH_PE, _LOW_PE = 30, 15
_DIVIDEND_PERCENT = 2.0
_LARGE_CAP, _SMALL_CAP = 100e9, 10e9
_LONG_HOLD, _MEDIUM_HOLD = 90, 30

_KEYWORDS = (
    "breakout", "support", "resistance", "trend", "momentum", "overbought", "oversold", "risk", "stop_loss",
    "volatility", "volume", "news", "earnings", "dividend", "valuation", "fundamental", "technical",
    "pe_ratio", "market_cap",
)  # fmt: skip
_GOOD_NEWS = ("positive", "beat", "strong", "growth", "upgrade")
_BAD_NEWS = ("negative", "miss", "weak", "loss", "downgrade")


def _extract_decision_tags(
    decision: Mapping[str, Any], features: Mapping[str, Any] | None = None
) -> list[str]:
    """Tags of a decision and of the features that it was made from, each once.

    In this order: the action; ``high_confidence`` from 0.8, ``low_confidence`` to 0.3; keywords of the
    reasons in the order in which they first occur; ``uptrend`` and ``downtrend``, the last close more than
    2 % above or below the one before; ``has_fundamental`` or ``no_fundamental``, ``high_pe`` above 30,
    ``low_pe`` below 15, ``dividend_stock`` above 2 percent, ``large_cap`` above 100 billion, ``small_cap``
    below 10 billion; ``has_news``, ``positive_news``, ``negative_news``; ``has_position`` or
    ``no_position``, ``long_hold`` above 90 sessions, ``medium_hold`` above 30, ``short_hold``.

    A value that is missing gives no tag. Only English words are found.
    """
    tags = list(_decision_tags(decision))
    if features is not None:
        tags += _price_tags(_part(features, "market_data"))
        tags += _fundamental_tags(_part(features, "fundamental_data"))
        tags += _news_tags(_part(features, "news_events"))
        tags += _position_tags(_part(features, "position_state"))
    return list(dict.fromkeys(tags))


def _decision_tags(decision: Mapping[str, Any]) -> Iterator[str]:
    action = decision.get("action")
    if isinstance(action, str) and action:
        yield action
    confidence = _number(decision.get("confidence"))
    if confidence is not None and confidence >= _HIGH_CONFIDENCE:
        yield "high_confidence"
    if confidence is not None and confidence <= _LOW_CONFIDENCE:
        yield "low_confidence"
    said = _lower_text(decision.get("reasons"))
    yield from sorted((word for word in _KEYWORDS if word in said), key=said.index)


def _price_tags(market_data: Mapping[str, Any]) -> Iterator[str]:
    closes = market_data.get("close_7d")
    last_two = [_number(each) for each in closes[-2:]] if isinstance(closes, list | tuple) else []
    if len(last_two) < 2 or last_two[0] is None or last_two[1] is None or last_two[0] <= 0:
        return
    before, last = last_two[0], last_two[1]
    if last > (1 + _TREND) * before:
        yield "uptrend"
    elif last < (1 - _TREND) * before:
        yield "downtrend"


def _fundamental_tags(data: Mapping[str, Any]) -> Iterator[str]:
    yield "has_fundamental" if any(each is not None for each in data.values()) else "no_fundamental"
    pe_ratio, cap = _number(data.get("pe_ratio")), _number(data.get("market_cap"))
    dividend = _number(data.get("dividend_yield"))
    if pe_ratio is not None and pe_ratio > _HIGH_PE:
        yield "high_pe"
    if pe_ratio is not None and pe_ratio < _LOW_PE:
        yield "low_pe"
    if dividend is not None and dividend > _DIVIDEND_PERCENT:
        yield "dividend_stock"
    if cap is not None and cap > _LARGE_CAP:
        yield "large_cap"
    if cap is not None and cap < _SMALL_CAP:
        yield "small_cap"


def _news_tags(news: Mapping[str, Any]) -> Iterator[str]:
    text = _lower_text(news.get("top_k_events"))
    if not text:
        return
    yield "has_news"
    if any(word in text for word in _GOOD_NEWS):
        yield "positive_news"
    if any(word in text for word in _BAD_NEWS):
        yield "negative_news"


def _position_tags(state: Mapping[str, Any]) -> Iterator[str]:
    value, days = _number(state.get("current_position_value")), _number(state.get("holding_days"))
    if value is not None:
        yield "has_position" if value > 0 else "no_position"
    if days is None or days <= 0:
        return
    if days > _LONG_HOLD:
        yield "long_hold"
    elif days > _MEDIUM_HOLD:
        yield "medium_hold"
    else:
        yield "short_hold"


def _part(features: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    part = features.get(name)
    return part if isinstance(part, Mapping) else {}


def _lower_text(texts: Any) -> str:
    listed = [texts] if isinstance(texts, str) else texts if isinstance(texts, list | tuple) else []
    return "\n".join(each for each in listed if isinstance(each, str) and each).lower()


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return None if math.isnan(value) else value
