"""The features of each symbol, as plain JSON: prices, news, the position, and fundamentals where wanted."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Any

import numpy as np
import pandas as pd

from quantgraph._util.values import is_number
from quantgraph.agents.dual_agent._config import FeatureOptions
from quantgraph.agents.dual_agent._fundamentals import FUNDAMENTALS, Splits, closes_before, fundamental_data
from quantgraph.broker import Account
from quantgraph.broker.accounts import Mark, mark
from quantgraph.errors import BadOption, BadWindow
from quantgraph.market import Rulebook, local_zone, session_of, surely_known
from quantgraph.market.money import market_value, notional, to_decimal
from quantgraph.state import Record, View
from quantgraph.state.frames import PLAIN_RULE, is_plain

FeatureItem = dict[str, Any]
"""``{"symbol": ..., "features": {...}}``."""

_CLOSES = 7
_DEFAULT = FeatureOptions()
_EVENT_LENGTH = 300
_BAR_DATES = ("date", "trade_date", "timestamp")
_DATE_LENGTH = len("2025-03-10")
_NEWS_TIMES = ("published_at", "published_utc", "date")


def build_features(
    view: View,
    account: Account,
    symbols: Sequence[str],
    options: FeatureOptions = _DEFAULT,
    *,
    rules: Rulebook | None = None,
) -> list[FeatureItem]:
    """Features of symbols at the open of the view's session.

    ``market_data`` has ``ticker``, ``open`` (None without one today), ``close_7d`` (up to seven closes before
    today, oldest first, adjusted for splits), ``date``, with the option ``price`` the open again under that
    name, and where ``rules`` have lots ``least_buy``, what the smallest purchase costs with its charges.
    ``news_events.top_k_events`` has the latest news, newest first, each once, as
    ``date: title - description`` of at most 300 characters; equal texts are one. ``position_state`` has
    ``current_position_value`` at today's open, or the last price before; ``holding_days``, the sessions since
    the position was opened; ``shares`` and ``sellable``; ``average_price`` of a
    share that is held. ``fundamental_data`` is of :func:`fundamental_data`.
    """
    _check_symbols(symbols, "symbols")
    session = view.moment.session
    opens = view.numbers("ohlcv", "open", session)
    closes = closes_before(view, symbols, _CLOSES, Splits(view.actions(), session))
    marks = mark(account, view, at="open")
    since = (session - timedelta(days=options.news_days)).to_pydatetime()
    known = fundamental_data(view, symbols) if options.fundamentals else {}
    items = []
    for symbol in symbols:
        price = opens.get(symbol, math.nan)
        today = None if math.isnan(price) else price
        market_data = {
            "ticker": symbol,
            "open": today,
            "close_7d": closes[symbol],
            "date": f"{session:%Y-%m-%d}",
            **({"price": today} if options.price else {}),
            **(_least_buy(symbol, price, rules, session) if rules else {}),
        }
        features = {
            "market_data": market_data,
            "news_events": {"top_k_events": _events(view.records("news", symbol), since, options.most_news)},
            "position_state": _position_state(view, account, symbol, marks),
            **({"fundamental_data": known[symbol]} if symbol in known else {}),
        }
        items.append({"symbol": symbol, "features": features})
    return items


def _least_buy(symbol: str, price: float, rules: Rulebook, session: pd.Timestamp) -> dict[str, float]:
    first, day = rules.lots(symbol, session.date()).first, session.date()
    if first <= 1 or not 0 < price < math.inf:
        return {}
    amount = notional(to_decimal(price), first)
    return {"least_buy": float(amount + rules.charges(symbol, "buy", first, amount, day).total)}


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
        market_data = {"market_data": features.pop("market_data", {})}
        shown = {"fundamental_data": dict(found)} if symbol in need else {}
        why = {"filter_reasoning": reasoning[symbol]} if symbol in reasoning else {}
        items.append({"symbol": symbol, "features": market_data | shown | features | why})
    return items


def positions_of(features_list: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Current value of each symbol's position, in the order of the features; 0.0 by default."""
    values = {}
    for item in features_list:
        value = (item["features"].get("position_state") or {}).get("current_position_value") or 0.0
        if not is_number(value) or not 0 <= value < math.inf:
            raise BadOption(
                f"features_list: {item['symbol']} has current_position_value={value!r:.60}; "
                "must be a number >= 0",
                parameter="features_list",
            )
        values[item["symbol"]] = float(value)
    return values


def least_buys_of(features_list: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """What the smallest purchase of each symbol costs: ``least_buy``, else a share; none without an open."""
    shown = {item["symbol"]: item["features"].get("market_data") or {} for item in features_list}
    costs = {symbol: each.get("least_buy") or each.get("open") for symbol, each in shown.items()}
    return {symbol: float(cost) for symbol, cost in costs.items() if is_number(cost) and cost > 0}


def _check_symbols(symbols: Sequence[str], parameter: str) -> None:
    seen = set()
    for symbol in symbols:
        if not isinstance(symbol, str) or not symbol.strip():
            raise BadOption(f"{parameter}: {symbol!r:.60} is not a symbol", parameter=parameter)
        if symbol in seen:
            raise BadOption(f"{parameter}: {symbol} is listed twice; each must be once", parameter=parameter)
        seen.add(symbol)


def _events(news: Sequence[Record], since: datetime, most: int) -> list[str]:
    """Texts of the latest news with their dates, newest first, without those that say the same."""
    texts: dict[str, str] = {}
    for record in reversed(news):
        if len(texts) >= most or record.instant is None or record.instant < since:
            break
        if text := _event(record.body):
            texts.setdefault(text, f"{record.instant:%Y-%m-%d}: {text}")
    return list(texts.values())


def _event(body: Any) -> str:
    fields = body if isinstance(body, Mapping) else {}
    parts = (fields.get(name) for name in ("title", "description"))
    lines = (" ".join(part.split()) for part in parts if isinstance(part, str))
    text = " - ".join(dict.fromkeys(line for line in lines if line))
    return text if len(text) <= _EVENT_LENGTH else f"{text[: _EVENT_LENGTH - 1]}…"


def _position_state(
    view: View, account: Account, symbol: str, marks: Mapping[str, Mark]
) -> dict[str, float | int]:
    position = account.positions.get(symbol)
    if position is None:
        return {"current_position_value": 0.0, "holding_days": 0, "shares": 0.0, "sellable": 0.0}
    sessions = view["ohlcv"].frozen("open").sessions
    days = (each.to_datetime64() for each in (position.entered, view.moment.session))
    first, last = (int(np.searchsorted(sessions, day)) for day in days)
    return {
        "current_position_value": float(market_value(marks[symbol].price, position.quantity)),
        "holding_days": last - first,
        "shares": float(position.quantity),
        "sellable": float(position.sellable),
        "average_price": float(position.cost / position.quantity),
    }


def check_features_list(features_list: Any) -> list[FeatureItem]:
    """Check features that a host gives."""
    name, shape = "features_list", "{'symbol': text, 'features': {...}}"
    if not isinstance(features_list, list | tuple) or not features_list:
        raise BadOption(f"{name} must be a list of {shape}, not {features_list!r:.60}", parameter=name)
    for item in features_list:
        if not isinstance(item, Mapping):
            raise BadOption(f"{name}: {item!r:.60} must be {shape}", parameter=name)
        features = item.get("features")
        if not isinstance(features, Mapping) or not features:
            raise BadOption(
                f"{name}: {item.get('symbol')!r:.60} has no features; must be {shape}", parameter=name
            )
    _check_symbols([item.get("symbol") for item in features_list], name)
    for item in features_list:
        _check_sections(item["symbol"], item["features"])
    positions_of(features_list)
    return [dict(item) for item in features_list]


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
    bars = bars_data or {}
    return [
        {"symbol": item["symbol"], "features": _filled(item["symbol"], item["features"], bars, options)}
        for item in features_list
    ]


def _filled(
    symbol: str,
    features: Mapping[str, Any],
    bars_data: Mapping[str, Mapping[str, Any]],
    options: FeatureOptions,
) -> dict[str, Any]:
    data = bars_data.get(symbol) or {}
    market_data = {"ticker": symbol, "open": None, **(features.get("market_data") or {})}
    day = _day(symbol, market_data.get("date"))
    if market_data.get("close_7d") is None:
        market_data["close_7d"] = _closes_of(symbol, data.get("bars_day"), day)
    news = features.get("news_events")
    if news is None or not options.news:
        news = {"top_k_events": _events_of(symbol, data.get("news_items"), day, options.most_news)}
    if not options.fundamentals:
        features = {name: each for name, each in features.items() if name != "fundamental_data"}
    filled = {"market_data": market_data, "news_events": news}
    position = data.get("position_state")
    if features.get("position_state") is None and position is not None:
        filled["position_state"] = dict(position)
    return {**features, **filled}


def _day(symbol: str, value: Any) -> pd.Timestamp | None:
    try:
        return None if value is None else session_of(value)
    except BadWindow as error:
        raise BadOption(
            f"features_list: market_data.date={value!r:.60} of {symbol}; must be YYYY-MM-DD",
            parameter="features_list",
        ) from error


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
    listed = [each for each in news if isinstance(each, Mapping)] if isinstance(news, list | tuple) else []
    timed = []
    for each in listed:
        time = next((each[name] for name in _NEWS_TIMES if each.get(name)), None)
        if time is not None and day is not None and (over := _known_day(symbol, time)) < day.date():
            timed.append((over, str(time), _event(each)))
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


def _check_sections(symbol: str, features: Mapping[str, Any]) -> None:
    if not is_plain(symbol) or symbol.startswith("__"):
        raise BadOption(
            f"features_list: {symbol!r:.60} is not a symbol; valid are {PLAIN_RULE}, not beginning with __",
            parameter="features_list",
        )
    for section in ("market_data", "fundamental_data", "news_events", "position_state"):
        if not isinstance(features.get(section) or {}, Mapping):
            raise BadOption(f"features_list: {section} of {symbol} must be a dict", parameter="features_list")
    ticker = (features.get("market_data") or {}).get("ticker")
    if ticker not in (None, symbol):
        raise BadOption(
            f"features_list: the features of {symbol} are those of {ticker!r:.60}", parameter="features_list"
        )
