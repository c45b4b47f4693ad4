"""The tools that show bars, prices by date, and indicators by TA-Lib.

The tools' docstrings are the descriptions that models are sent.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from langchain.tools import ToolRuntime
from langchain_core.tools import tool
from numpy.typing import NDArray
from pydantic import BeforeValidator

from quantgraph.errors import BadOption, BadWindow, NoData, QuantGraphError
from quantgraph.market.rules import exchange_of
from quantgraph.state.frames import FrozenFrame
from quantgraph.tools._context import ToolContext, check_limit, context_of
from quantgraph.tools._results import refusal, with_docstring
from quantgraph.tools.trading._dates import parse_date
from quantgraph.tools.trading._symbol_bars import (
    PRICES,
    SHARES_PER_HAND,
    SymbolBars,
    bars_by,
    check_timeframe,
    known_bars,
    known_symbol,
    shares_per_unit,
)

Floats = NDArray[np.float64]
Params = Mapping[str, float]
Lines = dict[str, Floats]

_MOST_INDICATOR_ROWS = 250
_LONGEST = 500
_PERIOD = dict.fromkeys(("period", "window", "timeperiod", "n", "length"), "period")


@dataclass(frozen=True, kw_only=True)
class TalibIndicator:
    """One indicator; ``compute`` gives its lines over all bars, NaN where it has no number yet."""

    defaults: Mapping[str, float]
    least: Mapping[str, float]
    other_names: Mapping[str, str]
    needs: Callable[[Params], int]
    compute: Callable[[Mapping[str, Floats], Params], Lines]
    fields: tuple[str, ...] = ("close",)


@tool("get_indicator", parse_docstring=True)
@with_docstring
def get_indicator(
    symbol: str,
    name: str,
    params: dict[str, float] | None = None,
    *,
    timeframe: str = "1d",
    limit: int = 1,
    runtime: ToolRuntime[Any, Any] = None,  # type: ignore[assignment]  # absent outside an agent
) -> list[dict[str, Any]]:
    """Get the last values of an indicator of a symbol, oldest first, computed over all bars that are over.

    Each has the date of its bar, and the same as time, in epoch seconds.
    MA (simple), EMA, RSI, ATR: {"period"}; BOLL: {"period", "deviations"}, gives upper, middle, lower;
    MACD: {"fast", "slow", "signal"}, gives dif, dea, hist = dif - dea (Chinese software shows twice that);
    KDJ: {"n", "k", "d"}, gives k, d, j, smoothed by simple averages. Past prices are adjusted for
    dividends and splits up to today.

    Args:
        symbol: The code, e.g. "600519.SH".
        name: "MA", "EMA", "MACD", "RSI", "BOLL", "KDJ" or "ATR".
        params: Empty for the usual ones: MA, EMA 20; RSI, ATR 14; BOLL 20, 2; MACD 12, 26, 9; KDJ 9, 3, 3.
        timeframe: "1d", "1w" or "1mo".
        limit: Number of values, 1 to 250.
    """
    context = context_of(runtime)
    by, count = check_timeframe(timeframe), check_limit(limit, _MOST_INDICATOR_ROWS)
    kind = name.strip().upper()
    valid = indicator_params(kind, params or {})
    bars = bars_by(known_bars(context, symbol), by, context.moment).complete()
    return _last_rows(kind, valid, bars, count, {"time": bars.times, "date": bars.dates})


def _last_rows(
    kind: str, params: Params, bars: SymbolBars, count: int, places: Mapping[str, Sequence[Any]]
) -> list[dict[str, Any]]:
    """The last values of an indicator beside the bars' ``places``, without those that are not numbers."""
    lines = indicator_values(kind, params, bars)
    columns = {name: np.round(line, _DECIMALS).tolist() for name, line in lines.items()}
    last = [each[-count:] for each in (*places.values(), *columns.values())]
    rows = (dict(zip((*places, *lines), row, strict=True)) for row in zip(*last, strict=True))
    return [row for row in rows if not any(math.isnan(row[name]) for name in lines)]


def indicator_params(name: str, passed: Mapping[str, Any]) -> dict[str, float]:
    """Return all parameters of an indicator; those that are not passed have their defaults."""
    if name not in INDICATORS:
        valid = ", ".join(INDICATORS)
        raise BadOption(f"name={name[:60]!r} is not an indicator; valid are {valid}", parameter="name")
    indicator = INDICATORS[name]
    params, seen = dict(indicator.defaults), dict[str, str]()
    for label, value in passed.items():
        key = indicator.other_names.get(str(label).strip().casefold())
        if key is None:
            raise BadOption(
                f"params has {str(label)[:60]!r}; {name} has {', '.join(params)}", parameter="params"
            )
        if key in seen:
            raise BadOption(
                f"params has {seen[key]!r} and {str(label)[:60]!r}, which are one; give one of them",
                parameter="params",
            )
        seen[key] = str(label)[:60]
        params[key] = _in_range(name, key, value, indicator.least[key])
    if name == "MACD" and params["fast"] >= params["slow"]:
        raise BadOption(
            f"params fast={params['fast']:g} must be < slow={params['slow']:g}", parameter="params"
        )
    return params


def indicator_values(name: str, params: Params, bars: SymbolBars) -> Lines:
    """Return the lines of an indicator, each of shape (T,), NaN before its first number."""
    indicator = INDICATORS[name]
    needed = indicator.needs(params)
    missing = [field for field in indicator.fields if np.isnan(bars.values[field]).any()]
    if missing:
        raise NoData(f"{name} needs {', '.join(indicator.fields)}; the data lacks {missing[0]} of a session")
    if len(bars) < needed:
        shown = ", ".join(f"{label}={value:g}" for label, value in params.items())
        raise NoData(
            f"{name}({shown}) needs {needed} bars; {len(bars)} are known", needed=needed, known=len(bars)
        )
    return indicator.compute(bars.values, params)


def _in_range(name: str, key: str, value: Any, least: float) -> float:
    whole = key != "deviations"
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = np.nan
    most = _LONGEST if whole else 10
    if isinstance(value, bool) or not least <= number <= most or (whole and number != int(number)):
        kind = "a whole number" if whole else "a number"
        raise BadOption(
            f"params {key}={value!r:.60} of {name}; must be {kind} from {least:g} to {most}",
            parameter="params",
        )
    return int(number) if whole else number


def _boll(bars: Mapping[str, Floats], params: Params) -> Lines:
    import talib

    width = params["deviations"]
    upper, middle, lower = talib.BBANDS(bars["close"], int(params["period"]), width, width)
    return {"upper": upper, "middle": middle, "lower": lower}


def _macd(bars: Mapping[str, Floats], params: Params) -> Lines:
    import talib

    dif, dea, hist = talib.MACD(bars["close"], *(int(params[name]) for name in ("fast", "slow", "signal")))
    return {"dif": dif, "dea": dea, "hist": hist}


def _kdj(bars: Mapping[str, Floats], params: Params) -> Lines:
    import talib

    n, slow_k, slow_d = (int(params[name]) for name in ("n", "k", "d"))
    high, low, close = (bars[name] for name in _RANGE)
    k, d = talib.STOCH(high, low, close, fastk_period=n, slowk_period=slow_k, slowd_period=slow_d)
    return {"k": k, "d": d, "j": 3 * k - 2 * d}


def _of_period(
    name: str, function: str, default: int, *, least: int, more: int = 0, fields: tuple[str, ...] = ("close",)
) -> TalibIndicator:
    """An indicator of one line and one period, by the name of TA-Lib's function."""

    def compute(bars: Mapping[str, Floats], params: Params) -> Lines:
        import talib

        return {name: getattr(talib, function)(*(bars[field] for field in fields), int(params["period"]))}

    return TalibIndicator(
        defaults={"period": default},
        least={"period": least},
        other_names=_PERIOD,
        needs=lambda params: int(params["period"]) + more,
        compute=compute,
        fields=fields,
    )


_RANGE = ("high", "low", "close")
INDICATORS: dict[str, TalibIndicator] = {
    "MA": _of_period("ma", "SMA", 20, least=2),
    "EMA": _of_period("ema", "EMA", 20, least=2),
    "MACD": TalibIndicator(
        defaults={"fast": 12, "slow": 26, "signal": 9},
        least={"fast": 2, "slow": 3, "signal": 1},
        other_names={
            **dict.fromkeys(("fast", "fastperiod", "fast_period", "short"), "fast"),
            **dict.fromkeys(("slow", "slowperiod", "slow_period", "long"), "slow"),
            **dict.fromkeys(("signal", "signalperiod", "signal_period"), "signal"),
        },
        needs=lambda params: int(params["slow"] + params["signal"]) - 1,
        compute=_macd,
    ),
    "RSI": _of_period("rsi", "RSI", 14, least=2, more=1),
    "BOLL": TalibIndicator(
        defaults={"period": 20, "deviations": 2},
        least={"period": 2, "deviations": 0.1},
        other_names={
            **_PERIOD,
            **dict.fromkeys(
                ("deviations", "deviation", "std", "stddev", "std_dev", "num_std", "k"), "deviations"
            ),
        },
        needs=lambda params: int(params["period"]),
        compute=_boll,
    ),
    "KDJ": TalibIndicator(
        defaults={"n": 9, "k": 3, "d": 3},
        least={"n": 1, "k": 1, "d": 1},
        other_names={
            **dict.fromkeys(("n", "period", "window", "timeperiod", "fastk", "fastk_period", "rsv"), "n"),
            **dict.fromkeys(("k", "m1", "slowk", "slowk_period"), "k"),
            **dict.fromkeys(("d", "m2", "slowd", "slowd_period"), "d"),
        },
        needs=lambda params: int(params["n"] + params["k"] + params["d"]) - 2,
        compute=_kdj,
        fields=_RANGE,
    ),
    "ATR": _of_period("atr", "ATR", 14, least=1, more=1, fields=_RANGE),
}
"""By name; the values are TA-Lib's."""


_MOST_ROWS, _MOST_INDICATORS, _MOST_VALUES = 100, 10, 20
_DECIMALS, _PRICE_DECIMALS = 6, 4
_ADJUSTED_BY = ("adj_factor", "pre_close", "dividend", "split")
_LATER = "there is no bar of {symbol} on that date"
"""The one answer for every date after today, whether or not it will be a session."""


@tool("get_price_local", parse_docstring=True)
@with_docstring
def get_price_local(
    symbol: str,
    date: str,
    runtime: ToolRuntime[Any, Any] = None,  # type: ignore[assignment]  # absent outside an agent
) -> dict[str, Any]:
    """Get the prices of a symbol on a date: date, open, high, low, close, volume.

    Prices are those of the day, not adjusted for later dividends and splits; volume is in shares. Of today
    only the open is known.

    Args:
        symbol: The code, e.g. "600519.SH" or "AAPL".
        date: The date, "YYYY-MM-DD"; today or before.
    """
    context = context_of(runtime)
    try:
        name = known_symbol(context.view, symbol)
        day = parse_date(date, context.moment)
    except QuantGraphError as error:
        return refusal(error.code, error.message, symbol=symbol[:60])
    return _bar(context, name, day)


@tool("get_price_history", parse_docstring=True)
@with_docstring
def get_price_history(
    symbol: str,
    limit: int = 20,
    start: str = "",
    end: str = "",
    runtime: ToolRuntime[Any, Any] = None,  # type: ignore[assignment]  # absent outside an agent
) -> dict[str, Any]:
    """Get past bars of a symbol, oldest first: the last ones, or those from start to end.

    Today's bar is not over and not among them. If "adjusted" is true, past prices are adjusted for dividends
    and splits up to today, so that they compare with each other; get_price_local has those of the day.

    Args:
        symbol: The code, e.g. "600519.SH" or "AAPL".
        limit: Number of bars at most, 1 to 100; the last ones of the window are kept.
        start: First date, "YYYY-MM-DD"; empty for no bound.
        end: Last date, "YYYY-MM-DD"; empty for no bound.
    """
    context = context_of(runtime)
    most = check_limit(limit, _MOST_ROWS)
    name = known_symbol(context.view, symbol)
    bars = known_bars(context, name)
    first, last = (_bound(label, text, context) for label, text in (("start", start), ("end", end)))
    if first is not None and last is not None and first > last:
        raise BadWindow(f"start={start[:40]!r} is after end={end[:40]!r}", parameter="start")
    begin = 0 if first is None else int(np.searchsorted(bars.sessions, first))
    stop = len(bars) if last is None else int(np.searchsorted(bars.sessions, last, side="right"))
    if begin >= stop:
        raise NoData(f"there is no bar of {name} in that window", symbol=name)
    shown = bars.part(slice(max(begin, stop - most), stop))
    return {
        "symbol": name,
        "adjusted": _is_adjusted(context, name),
        "bars": [_dated(row, shares_per_unit(name)) for row in shown.rows(most)],
    } | ({"left_out": stop - begin - most} if stop - begin > most else {})


def _names(value: Any) -> Any:
    """Names that a model passes as one text, with commas between them, as a list."""
    return [each.strip() for each in value.split(",")] if isinstance(value, str) else value


@tool("get_indicators", parse_docstring=True)
@with_docstring
def get_indicators(
    symbol: str,
    indicators: Annotated[list[str], BeforeValidator(_names)],
    limit: int = 1,
    runtime: ToolRuntime[Any, Any] = None,  # type: ignore[assignment]  # absent outside an agent
) -> dict[str, Any]:
    """Get the last values of indicators of a symbol, oldest first, over all sessions that are over.

    "MA20", "EMA20", "RSI14", "ATR14", "BOLL20" have a period; "MACD" is 12, 26, 9 with dif, dea and
    hist = dif - dea; "KDJ" is 9, 3, 3. Prices are adjusted as in get_price_history.

    Args:
        symbol: The code, e.g. "600519.SH" or "AAPL".
        indicators: Names, e.g. ["MA5", "MA20", "RSI14", "MACD"]; without a number the usual period.
        limit: Number of values of each, 1 to 20.
    """
    context = context_of(runtime)
    count = check_limit(limit, _MOST_VALUES)
    if not 1 <= len(indicators) <= _MOST_INDICATORS:
        raise BadOption(
            f"indicators has {len(indicators)} names; must be 1 to {_MOST_INDICATORS}", parameter="indicators"
        )
    name = known_symbol(context.view, symbol)
    bars = known_bars(context, name)
    return {
        "symbol": name,
        "adjusted": _is_adjusted(context, name),
        "values": {each.strip()[:60]: _values(each, bars, count) for each in indicators},
    }


def _bar(context: ToolContext, symbol: str, day: dt.date) -> dict[str, Any]:
    """The bar of a day, or why there is none."""
    moment, panel = context.moment, _panel_of(context, symbol)
    fields, place = context.view[panel], np.datetime64(day, "us")
    if day > moment.session.date():
        return refusal("no_data", _LATER.format(symbol=symbol), symbol=symbol)
    frames = {name: fields.frozen(name) for name in (*PRICES, "vol") if name in fields}
    cells = {name: _cell(frame, symbol, place) for name, frame in frames.items()}
    if all(map(math.isnan, cells.values())):
        return _no_bar(symbol, day, frames, is_today=day == moment.session.date())
    shown: dict[str, Any] = {"date": f"{day}"}
    shown |= {name: _plain(cells.get(name, math.nan)) for name in PRICES}
    shown["volume"] = _whole(SHARES_PER_HAND * cells.get("vol", math.nan))
    if day == moment.session.date() and not moment.knows(panel, "close"):
        shown["reason"] = "the session is not over: of today only the open is known"
    return shown


def _cell(frame: FrozenFrame, symbol: str, day: np.datetime64) -> float:
    row = int(np.searchsorted(frame.sessions, day))
    if row >= len(frame.sessions) or frame.sessions[row] != day or symbol not in frame.symbols:
        return math.nan
    return float(frame.values[row, frame.symbols.index(symbol)])


def _no_bar(
    symbol: str, day: dt.date, frames: Mapping[str, FrozenFrame], *, is_today: bool
) -> dict[str, Any]:
    """Why there is no bar on a day that is not later than today."""
    place = {"symbol": symbol, "date": f"{day}"}
    longest = max(frames.values(), key=lambda frame: len(frame.sessions), default=None)
    numbers = [_first_number(frame, symbol) for frame in frames.values()]
    first = min((each for each in numbers if each is not None), default=None)
    if longest is None or first is None:
        return refusal("no_data", f"no bar of {symbol} is known", **place)
    if is_today:
        return refusal("suspended", f"{symbol} has no price today", **place)
    if np.datetime64(day, "us") < first:
        text = f"{symbol} has no bar on {day}; its first one is of {first.astype('datetime64[D]')}"
        return refusal("no_data", text, **place)
    if np.datetime64(day, "us") not in longest.sessions:
        return refusal("not_a_session", f"{day} was not a session of the exchange", **place)
    return refusal("suspended", f"{symbol} did not trade on {day}", **place)


def _first_number(frame: FrozenFrame, symbol: str) -> np.datetime64 | None:
    if symbol not in frame.symbols:
        return None
    has = ~np.isnan(frame.values[:, frame.symbols.index(symbol)])
    return frame.sessions[int(np.argmax(has))] if has.any() else None


def _bound(label: str, text: str, context: ToolContext) -> np.datetime64 | None:
    return np.datetime64(parse_date(text, context.moment, name=label), "us") if text.strip() else None


def _panel_of(context: ToolContext, symbol: str) -> str:
    """The panel that has a known symbol: shares or indices."""
    return "ohlcv" if symbol in context.symbols else "index"


def _is_adjusted(context: ToolContext, symbol: str) -> bool:
    panel = _panel_of(context, symbol)
    return panel == "ohlcv" and any(name in context.view[panel] for name in _ADJUSTED_BY)


def _dated(row: Mapping[str, Any], shares: int) -> dict[str, Any]:
    units = math.nan if row["volume"] is None else row["volume"]
    prices = {name: None if row[name] is None else round(row[name], _PRICE_DECIMALS) for name in PRICES}
    return {"date": row["date"], **prices, "volume": _whole(units * shares)}


def _plain(value: float) -> float | None:
    return None if math.isnan(value) else value


def _whole(shares: float) -> float | None:
    """A volume in shares, whole ones as an int; None for no number."""
    if math.isnan(shares):
        return None
    rounded = round(shares, _DECIMALS)
    return int(rounded) if rounded == int(rounded) else rounded


def _values(text: str, bars: SymbolBars, count: int) -> list[dict[str, Any]] | dict[str, Any]:
    """The rows of one indicator, or why there are none."""
    name = text.strip().upper()
    kind = name.rstrip("0123456789")
    period = name[len(kind) :]
    try:
        if period and kind in INDICATORS and "period" not in INDICATORS[kind].defaults:
            raise BadOption(f"{kind} has no period; write {kind!r}", parameter="indicators")
        params = indicator_params(kind, {"period": float(period[:9])} if period else {})
        return _last_rows(kind, params, bars, count, {"date": bars.dates})
    except QuantGraphError as error:
        return refusal(error.code, error.message)


_MOST_KLINES = 250
_EXCHANGES: dict[str, tuple[str, ...]] = {
    "sh": ("sh", "sse", "xshg", "shanghai", "上交所", "上海", "上海证券交易所"),
    "sz": ("sz", "szse", "xshe", "shenzhen", "深交所", "深圳", "深圳证券交易所"),
    "bj": ("bj", "bse", "bjse", "beijing", "北交所", "北京", "北京证券交易所"),
    "us": ("us", "nyse", "xnys", "nasdaq", "xnas", "amex", "xase", "美股", "纽交所", "纳斯达克"),
}
_EXCHANGE_OF_NAME = {name: exchange for exchange, names in _EXCHANGES.items() for name in names}


@tool("get_kline_data", parse_docstring=True)
@with_docstring
def get_kline_data(
    symbol: str,
    exchange: str = "",
    timeframe: str = "1d",
    limit: int = 100,
    runtime: ToolRuntime[Any, Any] = None,  # type: ignore[assignment]  # absent outside an agent
) -> list[dict[str, Any]]:
    """Get the last bars of a symbol, oldest first: time, date, open, high, low, close, volume.

    date is the session's, time the same in epoch seconds (00:00 UTC); of a week or a month, that of its first
    session. Sessions that are not over are not shown; a week or month that is not over is, with
    "running": true. Past prices are adjusted for dividends and splits up to today. volume is in shares of a
    US symbol, and in hands of 100 shares (手) of a Chinese one.

    Args:
        symbol: The code, e.g. "600519.SH".
        exchange: Empty, or the symbol's exchange: SH, SZ, BJ, SSE, SZSE, BSE, NYSE, NASDAQ.
        timeframe: "1d", "1w" or "1mo".
        limit: Number of bars, 1 to 250.
    """
    context = context_of(runtime)
    by, rows = check_timeframe(timeframe), check_limit(limit, _MOST_KLINES)
    name = _on_exchange(exchange, symbol)
    _check_exchange(exchange, known_symbol(context.view, name))
    return bars_by(known_bars(context, name), by, context.moment).rows(rows)


def _on_exchange(exchange: str, symbol: str) -> str:
    """Add the exchange to a bare code of six digits, which may be on two."""
    suffix = _EXCHANGE_OF_NAME.get(exchange.strip().casefold(), "us")
    return f"{symbol.strip()}.{suffix.upper()}" if symbol.strip().isdecimal() and suffix != "us" else symbol


def _check_exchange(exchange: str, symbol: str) -> None:
    """Check that an exchange, if one is named, is the symbol's."""
    wanted = exchange.strip().casefold()
    if not wanted:
        return
    own = exchange_of(symbol) if symbol[-3:-2] == "." and exchange_of(symbol) in _EXCHANGES else "us"
    valid = ", ".join(name.upper() for name in _EXCHANGES[own][: 2 if own != "us" else 4])
    if wanted not in _EXCHANGE_OF_NAME:
        raise BadOption(
            f"exchange={exchange[:60]!r} is not one of this data, which has shares; for {symbol} write "
            f"{valid}, or leave it empty",
            parameter="exchange",
        )
    if _EXCHANGE_OF_NAME[wanted] != own:
        raise BadOption(
            f"exchange={exchange[:60]!r} is not that of {symbol}; write {valid}, or leave it empty",
            parameter="exchange",
        )
