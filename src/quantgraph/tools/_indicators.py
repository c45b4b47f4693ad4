"""The tool that gives a model TA-Lib's number of an indicator.

The tool's docstring is the description that models are sent.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from langchain.tools import ToolRuntime
from langchain_core.tools import tool
from numpy.typing import NDArray

from quantgraph.errors import BadOption, NoData
from quantgraph.tools._context import check_limit, context_of
from quantgraph.tools._results import with_docstring
from quantgraph.tools._symbol_bars import SymbolBars, bars_by, check_timeframe

Floats = NDArray[np.float64]
Params = Mapping[str, float]
Lines = dict[str, Floats]

_MOST_VALUES = 250
_LONGEST = 500
_DECIMALS = 6
_PERIOD = dict.fromkeys(("period", "window", "timeperiod", "n", "length"), "period")


@dataclass(frozen=True, kw_only=True)
class TalibIndicator:
    """One indicator.

    Attributes
    ----------
    compute
        Its lines over all bars, NaN where it has no number yet.
    """

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
    by, count = check_timeframe(timeframe), check_limit(limit, _MOST_VALUES)
    kind = name.strip().upper()
    valid = indicator_params(kind, params or {})
    bars = bars_by(context.bars(symbol), by, context.moment).complete()
    lines = indicator_values(kind, valid, bars)
    columns = [np.round(line[-count:], _DECIMALS).tolist() for line in lines.values()]
    rows = zip(bars.times[-count:], bars.dates[-count:], *columns, strict=True)
    names = ("time", "date", *lines)
    return [dict(zip(names, row, strict=True)) for row in rows if not any(map(math.isnan, row[2:]))]


def indicator_params(name: str, given: Mapping[str, Any]) -> dict[str, float]:
    """Return all parameters of an indicator; those that are not given have their defaults."""
    if name not in INDICATORS:
        valid = ", ".join(INDICATORS)
        raise BadOption(f"name={name[:60]!r} is not an indicator; valid are {valid}", parameter="name")
    indicator = INDICATORS[name]
    params, seen = dict(indicator.defaults), dict[str, str]()
    for label, value in given.items():
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


def _ma(bars: Mapping[str, Floats], params: Params) -> Lines:
    import talib

    return {"ma": talib.SMA(bars["close"], int(params["period"]))}


def _ema(bars: Mapping[str, Floats], params: Params) -> Lines:
    import talib

    return {"ema": talib.EMA(bars["close"], int(params["period"]))}


def _rsi(bars: Mapping[str, Floats], params: Params) -> Lines:
    import talib

    return {"rsi": talib.RSI(bars["close"], int(params["period"]))}


def _atr(bars: Mapping[str, Floats], params: Params) -> Lines:
    import talib

    return {"atr": talib.ATR(bars["high"], bars["low"], bars["close"], int(params["period"]))}


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
    compute: Callable[[Mapping[str, Floats], Params], Lines], default: int, *, least: int, more: int = 0
) -> TalibIndicator:
    return TalibIndicator(
        defaults={"period": default},
        least={"period": least},
        other_names=_PERIOD,
        needs=lambda params: int(params["period"]) + more,
        compute=compute,
    )


_RANGE = ("high", "low", "close")
INDICATORS: dict[str, TalibIndicator] = {
    "MA": _of_period(_ma, 20, least=2),
    "EMA": _of_period(_ema, 20, least=2),
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
    "RSI": _of_period(_rsi, 14, least=2, more=1),
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
    "ATR": replace(_of_period(_atr, 14, least=1, more=1), fields=_RANGE),
}
"""By name; the values are TA-Lib's."""
