"""The features of each symbol, as plain JSON: prices, news, the position, and fundamentals where wanted."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from datetime import date
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from quantgraph._util.values import is_number
from quantgraph.agents.dual_agent._config import FeatureOptions
from quantgraph.agents.loop._facts import DayContext, OpenFacts, SymbolFacts
from quantgraph.agents.loop._fundamentals import FUNDAMENTALS
from quantgraph.errors import BadOption, BadWindow
from quantgraph.market import Rulebook, local_zone, session_of, surely_known
from quantgraph.market.money import notional, to_decimal
from quantgraph.state.frames import PLAIN_RULE, is_plain

FeatureItem = dict[str, Any]
"""``{"symbol": ..., "features": {...}}``."""

_CLOSES = 7
_DEFAULT = FeatureOptions()
_EVENT_LENGTH = 180
_BAR_DATES = ("date", "trade_date", "timestamp")
_DATE_LENGTH = len("2025-03-10")
_NEWS_TIMES = ("published_at", "published_utc", "date")


def build_features(
    context: DayContext, facts: OpenFacts, options: FeatureOptions = _DEFAULT
) -> list[FeatureItem]:
    """Features of the symbols of a table of facts, at its open.

    ``market_data`` has ``ticker``, ``open`` (None without one today), ``close_7d`` (up to seven closes before
    today, oldest first, adjusted for dividends and splits), ``date``, with the option ``price`` the open
    again under that name, and where there are lots ``least_buy``: the smallest purchase with its charges.
    ``news_events.top_k_events`` has the news, those that name the symbol first, as ``date: title - text`` of
    at most 180 characters. ``position_state`` has ``current_position_value`` at today's open, or the last
    price before; ``holding_days``, the sessions since the position was opened; ``shares`` and ``sellable``;
    ``average_price`` of a share that is held. ``past`` has name, weight and past returns of the facts.
    ``fundamental_data`` is of :func:`fundamental_data`; ``pe_date`` is that of a ratio from before the eve.
    """
    view, session, symbols = context.view, facts.session, tuple(facts.symbols)
    events: dict[str, list[str]] = {symbol: [] for symbol in symbols}
    for headline in sorted(facts.news, key=lambda each: not each.named):
        for symbol in headline.symbols:
            if len(events[symbol]) < options.most_news:
                text = " - ".join(filter(None, (headline.title, headline.text)))
                events[symbol].append(f"{headline.day}: {_cut(text)}")
    sessions = view["ohlcv"].frozen("open").sessions
    items = []
    for symbol, each in facts.symbols.items():
        market_data = {
            "ticker": symbol,
            "open": each.open,
            "close_7d": [*each.closes],
            "date": f"{session:%Y-%m-%d}",
            **({"price": each.open} if options.price else {}),
            **_least_buy(context.rules, each, session),
        }
        features = {
            "market_data": market_data,
            "news_events": {"top_k_events": events[symbol]},
            "position_state": _position_state(each, session, sessions),
            "past": {
                "name": each.name or None,
                "weight": each.weight,
                **{f"past_{count}": gained for count, gained in each.returns.items()},
                "volatility_20": each.volatility,
                "volume_ratio": each.volume_ratio,
                "place_52w": each.range_place,
            },
            **({"fundamental_data": dict(each.fundamentals) | _age(each)} if options.fundamentals else {}),
        }
        items.append({"symbol": symbol, "features": features})
    return items


def _age(facts: SymbolFacts) -> dict[str, Any]:
    return {"pe_date": facts.price_earnings_day} if facts.price_earnings_day else {}


def _least_buy(rules: Rulebook, facts: SymbolFacts, session: pd.Timestamp) -> dict[str, float]:
    first = facts.least_shares
    if facts.open is None or first is None or first <= 1:
        return {}
    amount = notional(to_decimal(facts.open), first)
    charges = rules.charges(facts.symbol, "buy", first, amount, session.date())
    return {"least_buy": float(amount + charges.total)}


def _position_state(
    facts: SymbolFacts, session: pd.Timestamp, sessions: NDArray[np.datetime64]
) -> dict[str, float | int]:
    if facts.since is None or facts.average_cost is None:
        return {"current_position_value": 0.0, "holding_days": 0, "shares": 0.0, "sellable": 0.0}
    first, last = (int(np.searchsorted(sessions, day.to_datetime64())) for day in (facts.since, session))
    return {
        "current_position_value": facts.value,
        "holding_days": last - first,
        "shares": float(facts.held),
        "sellable": float(facts.sellable),
        "average_price": facts.average_cost,
    }


def after_filter(
    features_list: Sequence[Mapping[str, Any]], need: Collection[str], reasoning: Mapping[str, str]
) -> list[FeatureItem]:
    """Features after the filter: ``fundamental_data`` of those in ``need``, ``filter_reasoning`` of all.

    Features without fundamentals have None for each of them.
    """
    items = []
    for item in features_list:
        symbol, features = item["symbol"], dict(item["features"])
        found = features.pop("fundamental_data", None) or dict.fromkeys(FUNDAMENTALS)
        features |= {"fundamental_data": dict(found)} if symbol in need else {}
        features |= {"filter_reasoning": reasoning[symbol]} if symbol in reasoning else {}
        items.append({"symbol": symbol, "features": features})
    return items


def positions_of(features_list: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Current value of each symbol's position, in the order of the features; 0.0 by default."""
    values = {}
    for item in features_list:
        value = (item["features"].get("position_state") or {}).get("current_position_value") or 0.0
        if not is_number(value) or not 0 <= value < math.inf:
            raise _not_valid(
                f": {item['symbol']} has current_position_value={value!r:.60}; must be a number >= 0"
            )
        values[item["symbol"]] = float(value)
    return values


def least_buys_of(features_list: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """What the smallest purchase of each symbol costs: ``least_buy``, else a share; none without an open."""
    shown = {item["symbol"]: item["features"].get("market_data") or {} for item in features_list}
    costs = {symbol: each.get("least_buy") or each.get("open") for symbol, each in shown.items()}
    return {symbol: float(cost) for symbol, cost in costs.items() if is_number(cost) and cost > 0}


def check_listed(symbols: Sequence[str], parameter: str) -> None:
    seen = set()
    for symbol in symbols:
        if not isinstance(symbol, str) or not symbol.strip():
            raise BadOption(f"{parameter}: {symbol!r:.60} is not a symbol", parameter=parameter)
        if symbol in seen:
            raise BadOption(f"{parameter}: {symbol} is listed twice; each must be once", parameter=parameter)
        seen.add(symbol)


def _event(body: Mapping[str, Any]) -> str:
    parts = (body.get(name) for name in ("title", "description"))
    lines = (" ".join(part.split()) for part in parts if isinstance(part, str))
    return _cut(" - ".join(dict.fromkeys(line for line in lines if line)))


def _cut(text: str) -> str:
    return text if len(text) <= _EVENT_LENGTH else f"{text[: _EVENT_LENGTH - 1]}…"


def check_features_list(features_list: Any) -> list[FeatureItem]:
    """Check features that a host gives."""
    shape = "{'symbol': text, 'features': {...}}"
    if not isinstance(features_list, list | tuple) or not features_list:
        raise _not_valid(f" must be a list of {shape}, not {features_list!r:.60}")
    for item in features_list:
        if not isinstance(item, Mapping):
            raise _not_valid(f": {item!r:.60} must be {shape}")
        if not isinstance(features := item.get("features"), Mapping) or not features:
            raise _not_valid(f": {item.get('symbol')!r:.60} has no features; must be {shape}")
    check_listed([item.get("symbol") for item in features_list], "features_list")
    for item in features_list:
        _check_sections(item["symbol"], item["features"])
    positions_of(features_list)
    return [dict(item) for item in features_list]


def _check_sections(symbol: str, features: Mapping[str, Any]) -> None:
    if not is_plain(symbol) or symbol.startswith("__"):
        raise _not_valid(f": {symbol!r:.60} is not a symbol; valid are {PLAIN_RULE}, not beginning with __")
    for section in ("market_data", "fundamental_data", "news_events", "position_state"):
        if not isinstance(features.get(section) or {}, Mapping):
            raise _not_valid(f": {section} of {symbol} must be a dict")
    ticker = (features.get("market_data") or {}).get("ticker")
    if ticker not in (None, symbol):
        raise _not_valid(f": the features of {symbol} are those of {ticker!r:.60}")


def _not_valid(fault: str) -> BadOption:
    return BadOption(f"features_list{fault}", parameter="features_list")


def fill_features(
    features_list: Sequence[Mapping[str, Any]],
    bars_data: Mapping[str, Mapping[str, Any]] | None,
    options: FeatureOptions = _DEFAULT,
) -> list[FeatureItem]:
    """Features with what they lack taken from ``bars_data``; what they have stays as it is.

    By symbol, ``close_7d`` comes from ``bars_day`` (a frame with ``close``, and a DatetimeIndex or a column
    ``date``), ``news_events`` from ``news_items``, ``position_state`` from there. Only rows before
    ``market_data.date`` count, and only news whose day is surely over by then, as no zone is declared
    (:func:`.surely_known`): without a date nothing dated is filled, and news without a time is left out.
    """
    filled = []
    for item in features_list:
        symbol = item["symbol"]
        data = (bars_data or {}).get(symbol) or {}
        filled.append({"symbol": symbol, "features": _filled(symbol, item["features"], data, options)})
    return filled


def _filled(
    symbol: str, features: Mapping[str, Any], data: Mapping[str, Any], options: FeatureOptions
) -> dict[str, Any]:
    market_data = {"ticker": symbol, "open": None, **(features.get("market_data") or {})}
    day = _day(symbol, market_data.get("date"))
    if market_data.get("close_7d") is None:
        market_data["close_7d"] = _closes_of(symbol, data.get("bars_day"), day)
    news = features.get("news_events")
    if news is None or not options.news:
        news = {"top_k_events": _events_of(symbol, data.get("news_items"), day, options.most_news)}
    filled = {**features, "market_data": market_data, "news_events": news}
    if not options.fundamentals:
        filled.pop("fundamental_data", None)
    if features.get("position_state") is None and data.get("position_state") is not None:
        filled["position_state"] = dict(data["position_state"])
    return filled


def _day(symbol: str, value: Any) -> pd.Timestamp | None:
    try:
        return None if value is None else session_of(value)
    except BadWindow as error:
        raise _not_valid(f": market_data.date={value!r:.60} of {symbol}; must be YYYY-MM-DD") from error


def _closes_of(symbol: str, bars: Any, day: pd.Timestamp | None) -> list[float]:
    """The last closes of a host's bars before a day."""
    if bars is None or day is None:
        return []
    where = f"bars_data: bars_day of {symbol}"
    if not isinstance(bars, pd.DataFrame) or "close" not in bars:
        raise BadOption(f"{where} must be a DataFrame with a column close", parameter="bars_data")
    column = next((bars[name] for name in _BAR_DATES if name in bars), None)
    labels = bars.index if column is None else pd.Index(column)
    try:
        days = pd.DatetimeIndex(pd.to_datetime(labels.astype("str"), format="ISO8601"))
        closes = pd.Series(bars["close"].to_numpy(dtype=np.float64), index=days)
        if days.tz is not None or days.hasnans:
            raise ValueError(labels[:1])
    except (ValueError, TypeError) as error:
        raise BadOption(
            f"{where} must have dates without a time zone (its index, or a column date) and numbers in close",
            parameter="bars_data",
        ) from error
    return [float(close) for close in closes[closes.index < day].dropna().sort_index().iloc[-_CLOSES:]]


def _events_of(symbol: str, news: Any, day: pd.Timestamp | None, most: int) -> list[str]:
    """Texts of a host's news from before a day with their dates, newest first."""
    timed = []
    for each in news if isinstance(news, list | tuple) else ():
        times = [each[name] for name in _NEWS_TIMES if each.get(name)] if isinstance(each, Mapping) else []
        if times and day is not None and (over := _known_day(symbol, times[0])) < day.date():
            timed.append((over, str(times[0]), _event(each)))
    timed.sort(key=lambda item: item[:2], reverse=True)
    texts: dict[str, str] = {}
    for over, _, text in timed:
        texts.setdefault(text, f"{over}: {text}")
    return [dated for text, dated in texts.items() if text][:most]


def _known_day(symbol: str, time: Any) -> date:
    """The exchange's day at whose end an item is surely known."""
    try:
        stamp = pd.Timestamp(time)
        if pd.isna(stamp):
            raise ValueError(time)
        is_day = type(time) is date or (isinstance(time, str) and len(time.strip()) <= _DATE_LENGTH)
        return surely_known(stamp.date() if is_day else stamp.to_pydatetime(), None, local_zone(symbol))
    except (ValueError, TypeError, OverflowError) as error:
        raise BadOption(
            f"bars_data: {time!r:.60} in news_items of {symbol} is not a time", parameter="bars_data"
        ) from error
