"""TA-Lib's numbers, to stand beside those of a calculation that a model made itself."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from quantgraph.errors import BadOption, NoData, UnknownSymbol
from quantgraph.tools._context import ToolContext
from quantgraph.tools.trading._prices import INDICATORS, indicator_params, indicator_values
from quantgraph.tools.trading._symbol_bars import (
    SymbolBars,
    bars_by,
    check_timeframe,
    known_bars,
    known_symbol,
)

_DECIMALS = 6
_LONGEST = 1_000
"""Characters of a text that are read."""
_NAMES = {
    "MACD": r"MACD|指数平滑异同(?:移动)?(?:平均|均线)?(?:线)?",
    "BOLL": r"BOLL(?:INGER)?(?:[ _]?BANDS?)?|BBANDS?|布林(?:带|线)?",
    "KDJ": r"KDJ|STOCH(?:ASTIC)?|随机指标",
    "RSI": r"RSI|RELATIVE[ _]STRENGTH(?:[ _]INDEX)?|相对强弱(?:指标|指数)?",
    "ATR": r"ATR|AVERAGE[ _]TRUE[ _]RANGE|平均真实波幅",
    "EMA": r"EMA|EXPONENTIAL[ _]MOVING[ _]AVERAGE|指数(?:移动)?(?:平均|均线)(?:线)?",
    "MA": r"S?MA|(?:SIMPLE[ _])?MOVING[ _]AVERAGE|(?:简单)?(?:移动)?(?:平均|均线)(?:线)?",
}
_NUMBER = r"\d{1,3}(?:\.\d{1,3})?"
_DAYS = r"(?:(\d{1,3})\s?(?:日|天|-?DAY[ _])?\s?)?"
"""``20`` of ``20日均线`` and ``20-day moving average``."""
_PARAMS = rf"(?:[ _(（]{{0,2}}(?:close, ?)?({_NUMBER}(?:[ ,，_]{{1,2}}{_NUMBER}){{0,3}}))?"
"""``20`` of ``SMA(close, 20)``, ``12,26,9`` of ``MACD(12,26,9)``."""
_SERIES = {
    "volume": r"vol(?:ume)?s?|amounts?|turnover|成交[量额]|均量|量均",
    "open": r"opens?|开盘价?",
    "high": r"highs?|最高价?",
    "low": r"lows?|最低价?",
}
_EARLIER = r"prev(?:ious)?|prior|yesterday|ago|lag(?:ged)?|shift|昨|前[一1]?[日天]|上一"
_PART_OF_BARS = r"closes?\s?\[[^\]]{0,20}:\s?-\d"
"""``close[-21:-1]``, which ends before the last bar."""


def talib_values(
    calculation: Mapping[str, Any],
    context: ToolContext,
    symbol: str,
    *,
    timeframe: str = "1d",
    shown: int = 0,
) -> dict[str, float]:
    """Return TA-Lib's last numbers of the indicator that a calculation names, of the same inputs.

    Parameters
    ----------
    calculation
        ``calculation_type``, ``formula``, ``inputs`` and ``intermediate_result``.
    context
        The tools' context of the decision.
    symbol, timeframe
        What is decided, and of which bars; others that ``inputs`` name come first.
    shown
        How many of these bars, the last ones, the model was shown; 0: all complete ones are taken.

    Returns
    -------
    dict
        By line and parameters, such as ``ma(20)``. Empty if neither its type nor a key of its result is the
        name of an indicator, an average has no period, it reads another series or an earlier session, or
        there are too few bars.
    """
    given = calculation.get("inputs")
    inputs = given if isinstance(given, Mapping) else {}
    result = calculation.get("intermediate_result")
    keys = [str(key)[:_LONGEST] for key in result] if isinstance(result, Mapping) else []
    label, formula = (str(calculation.get(name) or "")[:_LONGEST] for name in ("calculation_type", "formula"))
    kind = next((name for text in (label, *keys) for name in _NAMES if _is_name(name, text)), None)
    of_kind = [key for key in keys if kind and re.search(_NAMES[kind], key, re.IGNORECASE)]  # "MA20"
    if not kind or _reads_other([label, formula, *map(str, inputs.values()), *of_kind], kind):
        return {}
    bars = _bars(inputs, context, symbol, timeframe, shown)
    wanted = _wanted(kind, inputs, [label, formula.partition("=")[0], formula], keys)
    return dict(pair for params in wanted for pair in _last_values(kind, params, bars)) if bars else {}


def _is_name(kind: str, text: str) -> bool:
    """Whether a text is the name of an indicator, with or without numbers: ``MA(20)``, ``20日均线``."""
    name = rf"\s*{_DAYS}(?:{_NAMES[kind]}){_PARAMS}[)）]?\s*"
    return re.fullmatch(name, text, re.IGNORECASE) is not None


def _reads_other(texts: list[str], kind: str) -> bool:
    """Whether a text names a series that is not the indicator's, or an earlier session."""
    series = [words for name, words in _SERIES.items() if name not in INDICATORS[kind].fields]
    words = rf"(?<![A-Za-z])(?:{'|'.join([*series, _EARLIER])})(?![A-Za-z])|{_PART_OF_BARS}"
    return any(re.search(words, text[:_LONGEST], re.IGNORECASE) for text in texts)  # "volume"


def _bars(
    inputs: Mapping[str, Any], context: ToolContext, symbol: str, timeframe: str, shown: int
) -> SymbolBars | None:
    """The bars that a calculation is about; None if the data has not what its inputs name."""
    try:
        name = known_symbol(context.view, str(inputs.get("symbol") or symbol))
        by = check_timeframe(str(inputs.get("timeframe") or timeframe))
    except (BadOption, UnknownSymbol):
        return None
    bars = bars_by(known_bars(context, name), by, context.moment)
    if not shown or name != symbol or by != timeframe.strip():
        return bars.complete()
    return bars.part(slice(max(0, len(bars) - shown), len(bars)))


def _wanted(kind: str, inputs: Mapping[str, Any], texts: list[str], keys: list[str]) -> list[dict[str, Any]]:
    """The parameters of each value: those of a result's keys, else of the inputs, else of the texts.

    Without any they are the usual ones, which an average has not.
    """
    indicator = INDICATORS[kind]
    by_keys = filter(None, (_params_in(kind, key) for key in keys if len(indicator.defaults) == 1))
    by_texts = filter(None, (_params_in(kind, text) for text in texts))
    own = {
        name: value for name, value in inputs.items() if str(name).strip().casefold() in indicator.other_names
    }
    named = [*by_keys] or [own or next(by_texts, {})]
    return [each for each in named if each or kind not in ("MA", "EMA")]


def _params_in(kind: str, text: str) -> dict[str, Any]:
    """The parameters beside an indicator's name in a text, such as "MA(20)"."""
    found = re.search(rf"(?<![A-Za-z\d]){_DAYS}(?:{_NAMES[kind]}){_PARAMS}(?![A-Za-z])", text, re.IGNORECASE)
    numbers = re.findall(_NUMBER, found[2] or found[1] or "") if found else []  # "12,26,9"
    return dict(zip(INDICATORS[kind].defaults, numbers, strict=False))


def _last_values(kind: str, named: Mapping[str, Any], bars: SymbolBars) -> Iterator[tuple[str, float]]:
    """Yield the lines of an indicator, each with its last number; none where TA-Lib has none."""
    try:
        params = indicator_params(kind, named)
        lines = indicator_values(kind, params, bars)
    except (BadOption, NoData):
        return
    shown = ",".join(f"{value:g}" for value in params.values())
    for line, values in lines.items():
        if math.isfinite(values[-1]):
            yield f"{line}({shown})", round(float(values[-1]), _DECIMALS)
