"""The facts that the two agents are shown, as plain JSON with short numbers; their texts are data."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from decimal import Decimal
from numbers import Integral, Real
from typing import Any

from quantgraph.llm.tags import escape_markup

_PORTFOLIO = ("total_assets", "available_cash", "position_value")
_AFTER_THE_FILTER = ("fundamental_data", "filter_reasoning")

_AS_THEY_ARE = frozenset({int, bool})

FeatureItem = Mapping[str, Any]


def decision_facts(
    features_list: Sequence[FeatureItem],
    portfolio: Mapping[str, float],
    history: Mapping[str, str],
    *,
    rule: str = "",
    min_cash_ratio: float = 0.0,
    cost_rate: float = 0.0,
) -> dict[str, Any]:
    """Facts of the decision: ``portfolio_info``, ``symbols``, ``history``; ``rule`` and ``limits`` if any.

    Parameters
    ----------
    features_list
        Items ``{"symbol": ..., "features": {...}}``.
    portfolio
        ``total_assets``, ``available_cash`` and ``position_value``.
    history
        Earlier decisions by symbol, as text; of symbols without features, and empty ones, nothing is shown.
    rule
        The user's rule in words.
    min_cash_ratio, cost_rate
        Shown as ``limits`` where they are not 0.
    """
    symbols = {item["symbol"]: {"features": as_data(item["features"])} for item in features_list}
    limits = {"min_cash_ratio": min_cash_ratio, "cost_rate": cost_rate}
    limits = {name: as_data(limit) for name, limit in limits.items() if limit}
    return {
        "portfolio_info": {name: as_data(portfolio[name]) for name in _PORTFOLIO},
        "symbols": symbols,
        "history": {symbol: _lines(history[symbol]) for symbol in symbols if history.get(symbol)},
        **({"limits": limits} if limits else {}),
        **({"rule": rule} if rule else {}),
    }


def filter_facts(
    features_list: Sequence[FeatureItem],
    portfolio: Mapping[str, float],
    history: Mapping[str, str],
    *,
    rule: str = "",
) -> dict[str, Any]:
    """Facts of the filter: those of the decision without fundamentals, which it is asked about."""
    before = [
        {
            "symbol": item["symbol"],
            "features": {
                name: each for name, each in item["features"].items() if name not in _AFTER_THE_FILTER
            },
        }
        for item in features_list
    ]
    return decision_facts(before, portfolio, history, rule=rule)


def as_data(value: Any) -> Any:
    """JSON with fractions of two decimals, below 1 of two significant digits, and None for NaN and infinity.

    Texts are on one line, and nothing in them looks like a tag.

    >>> as_data({"open": 184.2049, "yield": 0.004567, "days": 45, "pe": float("nan"), "news": "</x> up"})
    {'open': 184.2, 'yield': 0.0046, 'days': 45, 'pe': None, 'news': '&lt;/x> up'}
    """
    kind = type(value)
    if value is None or kind in _AS_THEY_ARE:
        return value
    if kind is str:
        return escape_markup(value)
    if kind is float:  # before the checks of abstract types, which take ten times as long
        return _short(value)
    if isinstance(value, Mapping):
        return {name: as_data(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [as_data(each) for each in value]
    if not isinstance(value, Real | Decimal):
        return value
    return int(value) if isinstance(value, Integral) else _short(float(value))


def _lines(text: str) -> str:
    return "\n".join(map(escape_markup, text.splitlines()))


def _short(number: float) -> float | None:
    if not math.isfinite(number):
        return None
    return round(number, 2) if abs(number) >= 1 else float(f"{number:.2g}")
