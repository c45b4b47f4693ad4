"""A calculation that a model made itself, held against TA-Lib's number, or against its own formula."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np

from quantgraph.errors import QuantGraphError, UnknownSymbol
from quantgraph.tools.decision_tools import DecisionTools
from quantgraph.tools.formula_check import evaluated, formula_of
from quantgraph.tools.indicators import INDICATORS, indicator_params, indicator_values
from quantgraph.tools.model_numbers import RELATIVE, ModelNumber, number_named, numbers_of, words_of
from quantgraph.tools.symbol_bars import PRICES, SymbolBars, Timeframe, bars_by, check_timeframe, known_symbol

__all__ = ["check_calculation"]

Check = dict[str, Any]

_DECIMALS, _LARGE, _HUGE = 6, 100_000, 1e15
_WORDS_FOR: dict[str, str] = {
    "MACD": r"MACD|指数平滑异同",
    "BOLL": r"BOLL(?:INGER)?(?:[ _]?BANDS?)?|BBANDS?|布林(?:带|线)?",
    "KDJ": r"KDJ|STOCH(?:ASTIC)?|随机指标",
    "RSI": r"RSI|RELATIVE[ _]STRENGTH(?:[ _]INDEX)?|相对强弱(?:指标|指数)?",
    "ATR": r"ATR|AVERAGE[ _]TRUE[ _]RANGE|平均真实波幅",
    "EMA": r"EMA|EXPONENTIAL[ _]MOVING[ _]AVERAGE|指数(?:移动)?(?:平均|均线)(?:线)?",
    "MA": r"S?MA|(?:SIMPLE[ _])?MOVING[ _]AVERAGE|(?:简单)?(?:移动)?(?:平均|均线)(?:线)?",
}
_DAYS = r"(?:\d+\s*(?:日|天|-?DAY)?\s*)?"
_PERIODS = r"(?:[ _(]*\d+(?:[ ,_]+\d+)*\)?)?"
_NAMES: dict[str, dict[str, tuple[str, ...]]] = {
    "MA": {"ma": ("ma", "sma", "movingaverage", "average", "mean", "均线", "移动平均", "移动平均线")},
    "EMA": {"ema": ("ema", "exponentialmovingaverage", "指数均线", "指数移动平均")},
    "RSI": {"rsi": ("rsi", "相对强弱指标", "相对强弱指数")},
    "ATR": {"atr": ("atr", "averagetruerange", "平均真实波幅")},
    "BOLL": {
        "upper": ("upper", "ub", "upperband", "bollupper", "上轨"),
        "middle": ("middle", "mid", "mb", "middleband", "basis", "bollmiddle", "bollmid", "中轨"),
        "lower": ("lower", "dn", "lb", "lowerband", "bolllower", "下轨"),
    },
    "MACD": {
        "dif": ("dif", "diff", "macddif", "快线"),
        "dea": ("dea", "signal", "signalline", "macdsignal", "慢线"),
        "hist": ("hist", "histogram", "bar", "macdhist", "macdhistogram", "macdbar", "柱", "柱状"),
    },
    "KDJ": {"k": ("k", "slowk", "kdjk"), "d": ("d", "slowd", "kdjd"), "j": ("j", "kdjj")},
}
_TIMEFRAMES: dict[str, Timeframe] = {
    **dict.fromkeys(("1d", "d", "day", "daily", "日", "日线", "日k"), "1d"),
    **dict.fromkeys(("1w", "w", "week", "weekly", "周", "周线", "周k"), "1w"),
    **dict.fromkeys(("1mo", "mo", "month", "monthly", "月", "月线", "月k"), "1mo"),
}
_PERIOD_NAMES = {"MA": ("ma", "sma"), "EMA": ("ema",), "RSI": ("rsi",), "ATR": ("atr",)}
_RESULT = frozenset({"result", "value", "answer", "结果"})
_MISSING = 'a number is missing: write it into intermediate_result, such as {"rsi": 61.3}'


def check_calculation(
    calculation: Mapping[str, Any],
    context: DecisionTools,
    symbol: str,
    *,
    shown: Any = (),
    timeframe: str = "1d",
) -> Check:
    """Hold the numbers of a model's calculation against TA-Lib's, or against its formula.

    A number matches if it is within half a unit of its own last decimal, or within 0.01 %, of that over the
    bars that the model was shown or over all that are known.

    Parameters
    ----------
    calculation
        ``calculation_type``, ``formula``, ``inputs`` and ``intermediate_result``.
    context
        The tools' context of the decision.
    symbol
        The symbol that is decided; another one that ``inputs`` name comes first.
    shown
        What ``get_kline_data`` last returned to the model, cut or not; anything else counts as nothing.
    timeframe
        The timeframe of these; one that ``inputs`` name comes first.

    Returns
    -------
    dict
        ``checked``; ``matches``, None where nothing was checked; ``talib``, TA-Lib's numbers, or ``formula``,
        the formula's; ``model``, the numbers that were held against them; ``tolerance`` of each; ``why`` in
        one line.

    Raises
    ------
    UnknownSymbol
        If the view does not have the symbol.
    """
    numbers = numbers_of(calculation.get("intermediate_result"))
    if not numbers:
        return _unchecked(_MISSING)
    inputs = calculation.get("inputs")
    given = inputs if isinstance(inputs, Mapping) else {}
    label, text = (str(calculation.get(name) or "") for name in ("calculation_type", "formula"))
    kind, is_whole = _kind_of(label, text)
    if kind:
        pairs = _pairs(kind, numbers, alone=is_whole)
        if pairs:
            by = _timeframe(given, timeframe)
            name = _symbol(given, context, symbol)
            references = list(_references(context, name, shown if name == symbol else (), by))
            return _against_talib(kind, pairs, _said_params(kind, given, label, text), references)
        if is_whole:
            return _unchecked(f"intermediate_result has no number of the {kind}: {_example(kind)}")
    formula = formula_of(text)
    if isinstance(formula, str):
        return _unchecked(formula)
    names = {"".join(words_of(each)) for each in (formula.left, label)} - {""}
    number = numbers[0] if len(numbers) == 1 else number_named(numbers, names | _RESULT)
    if number is None:
        return _unchecked("intermediate_result has several numbers and none with the formula's name")
    return _against_formula(
        number, evaluated(formula, given, context.bars(_symbol(given, context, symbol)), context)
    )


def _kind_of(label: str, text: str) -> tuple[str, bool]:
    """The indicator that a calculation is about, "" for none, and whether it is about nothing else."""
    for kind, words in _WORDS_FOR.items():
        if re.fullmatch(rf"\s*{_DAYS}(?:{words}){_PERIODS}\s*", label, re.IGNORECASE):
            return kind, True
    left = text.partition("=")[0]
    for said in (label, left):
        for kind, words in _WORDS_FOR.items():
            if re.search(rf"(?<![A-Za-z])(?:{words})(?![A-Za-z])", said, re.IGNORECASE):
                return kind, False
    return "", False


def _pairs(kind: str, numbers: Sequence[ModelNumber], *, alone: bool) -> list[tuple[str, ModelNumber]]:
    """The lines of an indicator with the model's number of each, as far as it gave one."""
    if kind in _PERIOD_NAMES:
        named = [each for each in numbers if "".join(each.words) in _PERIOD_NAMES[kind] and each.digits]
        if named:
            return [(next(iter(_NAMES[kind])), each) for each in named]
    pairs = [(line, found) for line, names in _NAMES[kind].items() if (found := number_named(numbers, names))]
    if kind == "MACD" and (own := number_named(numbers, ("macd", "macdline"))):
        # Beside dif, the Chinese name of the bar; alone, the international name of the line.
        line = "hist" if any(line == "dif" for line, _ in pairs) else "dif"
        pairs += [] if any(each == line for each, _ in pairs) else [(line, own)]
    if not pairs and alone and len(_NAMES[kind]) == 1:
        own = numbers[0] if len(numbers) == 1 else number_named(numbers, _RESULT)
        pairs = [(next(iter(_NAMES[kind])), own)] if own else []
    return pairs


def _said_params(kind: str, inputs: Mapping[str, Any], label: str, text: str) -> dict[str, Any]:
    """The parameters that the inputs name; without any, those behind the indicator's name in the texts."""
    indicator = INDICATORS[kind]
    said = {name: value for name, value in inputs.items() if _spelling(name) in indicator.other_names}
    if said:
        return said
    words = _WORDS_FOR[kind]
    behind = rf"(?:{words})[ _(]*(\d+(?:\.\d+)?(?:[ ,_]+\d+(?:\.\d+)?)*)"
    before = rf"(\d+)\s*(?:日|天|-?DAY)?\s*(?:{words})"
    for where, pattern in product((label, text), (behind, before)):
        if match := re.search(pattern, where, re.IGNORECASE):
            return dict(zip(indicator.defaults, re.findall(r"\d+(?:\.\d+)?", match[1]), strict=False))
    return {}


def _spelling(name: object) -> str:
    return str(name).strip().casefold()


def _symbol(inputs: Mapping[str, Any], context: DecisionTools, symbol: str) -> str:
    """The symbol that the inputs name, else the one that is decided."""
    try:
        return known_symbol(context.view, str(inputs.get("symbol") or symbol))
    except UnknownSymbol:
        return symbol


def _timeframe(inputs: Mapping[str, Any], timeframe: str) -> Timeframe:
    """The timeframe that the inputs name, else the one that was shown."""
    said = str(inputs.get("timeframe") or timeframe).strip().casefold()
    return _TIMEFRAMES.get(said) or check_timeframe(timeframe)


def _references(context: DecisionTools, symbol: str, shown: Any, by: Timeframe) -> Iterator[SymbolBars]:
    """All bars that are known, then with the running one, then those that the model was shown."""
    bars = bars_by(context.bars(symbol), by, context.as_of)
    yield bars.complete()
    if bars.running:
        yield bars
    rows = [row for row in shown if isinstance(row, Mapping)] if isinstance(shown, Sequence) else []
    if rows:
        yield _bars_of(rows)


def _bars_of(rows: Sequence[Mapping[str, Any]]) -> SymbolBars:
    """The rows as bars, whose dates no indicator reads."""
    columns = {name: [_float(row.get(name)) for row in rows] for name in (*PRICES, "volume")}
    values = {name: np.array(column, dtype=np.float64) for name, column in columns.items()}
    return SymbolBars(sessions=np.zeros(len(rows), dtype="datetime64[us]"), values=values)


def _float(value: Any) -> float:
    return float(value) if isinstance(value, int | float) and abs(value) < _HUGE else float("nan")


def _against_talib(
    kind: str,
    pairs: Sequence[tuple[str, ModelNumber]],
    said: Mapping[str, Any],
    references: Sequence[SymbolBars],
) -> Check:
    exact: dict[str, float] = {}
    wrong: list[str] = []
    for line, number in pairs:
        try:
            found = list(_exact(kind, line, _with_period(kind, said, number), references))
        except QuantGraphError as error:
            return _unchecked(error.line)
        # China's bar of the MACD is twice the international one.
        candidates = [*found, *(2 * each for each in found)] if line == "hist" else found
        near = next((each for each in candidates if number.matches(each)), None)
        exact[number.key] = found[0] if near is None else near
        if near is None:
            twice = f" (or {_shown(2 * found[0])}, twice that)" if line == "hist" else ""
            wrong.append(f"{number.key}={_shown(number.value)}, TA-Lib has {line}={_shown(found[0])}{twice}")
    return _checked(exact, [number for _, number in pairs], wrong, of="talib")


def _with_period(kind: str, said: Mapping[str, Any], number: ModelNumber) -> dict[str, float]:
    if kind in _PERIOD_NAMES and "".join(number.words) in _PERIOD_NAMES[kind] and number.digits:
        return indicator_params(kind, {"period": number.digits[0]})
    return indicator_params(kind, said)


def _exact(
    kind: str, line: str, params: Mapping[str, float], references: Sequence[SymbolBars]
) -> Iterator[float]:
    """TA-Lib's last number over each of the references that is long enough.

    Raises
    ------
    NoData
        If none is.
    """
    count, error = 0, None
    for bars in references:
        try:
            value = float(indicator_values(kind, params, bars)[line][-1])
        except QuantGraphError as too_few:
            error = error or too_few
        else:
            count += 1
            yield value
    if not count and error:
        raise error


def _against_formula(number: ModelNumber, value: float | str) -> Check:
    if isinstance(value, str):
        return _unchecked(value)
    wrong = f"{number.key}={_shown(number.value)}, the formula gives {_shown(value)}"
    return _checked({number.key: value}, [number], [] if number.matches(value) else [wrong], of="formula")


def _checked(
    exact: Mapping[str, float], numbers: Sequence[ModelNumber], wrong: Sequence[str], *, of: str
) -> Check:
    near = f"to half a unit of the last decimal, or {RELATIVE:.2%}"
    return {
        "checked": True,
        "matches": not wrong,
        "talib": {},
        of: {key: round(value, _DECIMALS) for key, value in exact.items()},
        "model": {number.key: number.value for number in numbers},
        "tolerance": {
            number.key: round(number.tolerance(exact[number.key]), _DECIMALS) for number in numbers
        },
        "why": f"does not match: {'; '.join(wrong)} ({near})" if wrong else f"matches {near}",
    }


def _unchecked(why: str) -> Check:
    return {"checked": False, "matches": None, "talib": {}, "model": {}, "why": f"not checked: {why}"}


def _example(kind: str) -> str:
    return "{" + ", ".join(f'"{line}": ...' for line in _NAMES[kind]) + "}"


def _shown(value: float) -> str:
    return f"{value:.6g}" if abs(value) < _LARGE else f"{value:.2f}"
