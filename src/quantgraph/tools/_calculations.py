"""A calculation that a model made itself, held against TA-Lib's number or against its own formula."""

from __future__ import annotations

import ast
import json
import keyword
import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from itertools import product
from typing import Any

import numpy as np

from quantgraph._util.packages import parse_code
from quantgraph._util.texts import escape_controls
from quantgraph._util.values import is_number
from quantgraph.errors import QuantGraphError, UnknownSymbol
from quantgraph.recording.scope import call_once
from quantgraph.tools._context import ToolContext
from quantgraph.tools._prices import INDICATORS, indicator_params, indicator_values
from quantgraph.tools._results import to_plain
from quantgraph.tools._symbol_bars import (
    PRICES,
    SymbolBars,
    Timeframe,
    bars_by,
    check_timeframe,
    known_symbol,
)

_ARRAYS = (*PRICES, "volume")
_BARS = 500
_LONGEST = 1_000
_INPUTS = 20_000
_FUNCTIONS = {
    "abs",
    "all",
    "any",
    "bool",
    "float",
    "int",
    "len",
    "max",
    "min",
    "np",
    "pow",
    "range",
    "round",
    "sorted",
    "sum",
    "zip",
}
_MEANS = frozenset({"mean", "avg", "average"})
_ASSIGNED = re.compile(r"(?<![=<>!:])=(?!=)")


class Formula:
    """A formula as an expression over names."""

    def __init__(self, left: str, code: str, names: frozenset[str]) -> None:
        self.left, self.code, self.names = left, code, names


def formula_of(text: str) -> Formula | str:
    """Read a formula; return why not, if it is not a plain expression."""
    if not text.strip():
        return "there is no formula"
    if len(text) > _LONGEST:
        return f"the formula has {len(text)} characters; at most {_LONGEST} are checked"
    parts = _ASSIGNED.split(text, maxsplit=1)
    left, code = ("", parts[0]) if len(parts) == 1 else parts
    code = code.strip()
    try:
        (statement,) = parse_code(code).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return "the formula is not a Python expression"
    if not isinstance(statement, ast.Expr) or not _computes(statement.value):
        return "the formula is not a Python expression that gives a number"
    return Formula(left.strip(), code, frozenset(_free_names(statement.value)))


def evaluate_formula(
    formula: Formula, inputs: Mapping[str, Any], bars: SymbolBars, context: ToolContext
) -> float | str:
    """Return the formula's number, computed in a process of its own, or why there is none.

    Its names are ``inputs``, each input that is a number or a list of them, ``open``, ``high``, ``low``,
    ``close`` and ``volume``, arrays of the last 500 bars, and the usual functions, ``mean`` among them.
    """
    plain_inputs = {name: to_plain(value) for name, value in inputs.items()}
    if len(json.dumps(plain_inputs, ensure_ascii=False)) > _INPUTS:
        return f"the inputs are longer than {_INPUTS} characters"
    values = {name: value for name, value in plain_inputs.items() if _is_name(name) and _is_numeric(value)}
    arrays = {name: bars.values[name][-_BARS:].tolist() for name in _ARRAYS if name not in values}
    known = {"inputs"} | values.keys() | arrays.keys() | _FUNCTIONS | _MEANS
    if unknown := sorted(formula.names - known):
        return f"the formula reads {unknown[0][:60]}, which is not among the inputs"
    cell = _cell(formula, {"inputs": plain_inputs} | values, arrays)
    request = {"calculation": formula.code, "cell": cell}

    def run() -> dict[str, Any]:
        result = context.evaluate(cell)
        return {"error": result.error.line if result.error else None, "value": result.value}

    answer = call_once("code", request, run)
    if answer["error"]:
        return str(answer["error"])
    number = float(answer["value"])
    return number if math.isfinite(number) else f"the formula gives {number}"


def _cell(formula: Formula, values: Mapping[str, Any], arrays: Mapping[str, Any]) -> str:
    """A cell whose value is the formula's; plain JSON values are written as Python's literals."""
    used = [name for name in arrays if name in formula.names]
    data = {name: value for name, value in values.items() if name in formula.names}
    lines = [f"{name} = {value!r}" for name, value in data.items()]
    lines += [f"{name} = np.array({_literal(arrays[name])})" for name in used]
    lines += [f"{name} = np.mean" for name in sorted(_MEANS & formula.names - values.keys())]
    return "\n".join([*lines, f"float({formula.code})"])


def _literal(values: list[float]) -> str:
    return "[" + ",".join("np.nan" if math.isnan(value) else repr(value) for value in values) + "]"


def _computes(node: ast.expr) -> bool:
    """Whether an expression is more than a constant or an ellipsis, and defines nothing."""
    if isinstance(node, ast.Constant):
        return is_number(node.value)
    inner = list(ast.walk(node))
    ellipsis = any(isinstance(each, ast.Constant) and each.value is Ellipsis for each in inner)
    return not ellipsis and not any(
        isinstance(each, ast.Lambda | ast.NamedExpr | ast.Await | ast.Yield) for each in inner
    )


def _free_names(node: ast.expr) -> set[str]:
    names = [each for each in ast.walk(node) if isinstance(each, ast.Name)]
    bound = {each.id for each in names if isinstance(each.ctx, ast.Store)}
    return {each.id for each in names} - bound


def _is_name(name: object) -> bool:
    return (
        isinstance(name, str)
        and name.isidentifier()
        and not keyword.iskeyword(name)
        and not name.startswith("_")
    )


def _is_numeric(value: Any) -> bool:
    if isinstance(value, list):
        return all(isinstance(each, int | float) for each in value)
    return isinstance(value, int | float)


RELATIVE = 0.0001
"""A number may be off by this share of the exact one, or by half a unit of its own last decimal."""

_FILLERS = {"value", "current", "latest", "last", "now", "today", "line", "当前", "最新", "值"}
_WORDS = re.compile(r"[a-z]+|\d+|[\u4e00-\u9fff]+")
_PLAIN_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")


@dataclass(frozen=True, kw_only=True)
class ModelNumber:
    """A number under its key; ``half_unit`` is half a unit of the last decimal that was written."""

    key: str
    value: float
    half_unit: float
    words: tuple[str, ...]
    digits: tuple[int, ...]

    def matches(self, exact: float) -> bool:
        """Whether it is near enough to an exact number."""
        # One part in a million more: the exact number is itself rounded in binary.
        return abs(self.value - exact) <= self.tolerance(exact) * (1 + 1e-6)

    def tolerance(self, exact: float) -> float:
        """How far it may be from an exact number."""
        return max(self.half_unit, RELATIVE * abs(exact))


def numbers_of(result: Any) -> list[ModelNumber]:
    """Return the finite numbers of a result, a number or an object of numbers, one level of nesting deep.

    >>> found = numbers_of({"ma30": 50200, "rsi": "65.2", "up": True})
    >>> [(each.key, each.value, each.half_unit) for each in found]
    [('ma30', 50200.0, 0.5), ('rsi', 65.2, 0.05)]
    """
    return [number for key, value in _leaves(result) if (number := _number(key, value))]


def keys_of(result: Any) -> list[str]:
    """Return the keys of a result's values, as :func:`numbers_of` names those that are numbers.

    >>> keys_of({"rsi": 47.9, "is_oversold": True, "macd": {"dif": 1}})
    ['rsi', 'is_oversold', 'macd dif']
    """
    return [key or "result" for key, _ in _leaves(result)]


def _leaves(result: Any) -> Iterator[tuple[str, Any]]:
    """The values of a result under their keys, one level of nesting deep."""
    if not isinstance(result, Mapping):
        yield "", result
        return
    for key, value in result.items():
        for part, leaf in (value if isinstance(value, Mapping) else {"": value}).items():
            yield " ".join(filter(None, (str(key), str(part)))), leaf


def number_named(numbers: Collection[ModelNumber], names: Collection[str]) -> ModelNumber | None:
    """Return the first number whose key is one of some names: ``signal line`` is named ``signalline``.

    A name in front of it is allowed, too: of ``macd signal`` the last word counts.
    """
    for number in numbers:
        if "".join(number.words) in names:
            return number
    for number in numbers:
        if len(number.words) > 1 and "".join(number.words[1:]) in names:
            return number
    return None


def _number(key: str, value: Any) -> ModelNumber | None:
    written = value.strip() if isinstance(value, str) else value
    if isinstance(written, bool) or not isinstance(written, int | float | str):
        return None
    if isinstance(written, str) and not _PLAIN_NUMBER.fullmatch(written):
        return None
    try:
        exact = Decimal(str(written))
        number = float(exact)
    except (InvalidOperation, OverflowError, ValueError):
        return None
    exponent = exact.as_tuple().exponent
    if not math.isfinite(number) or not isinstance(exponent, int):
        return None
    digits = tuple(int(word) for word in _WORDS.findall(key) if word.isdecimal() and len(word) < 5)
    return ModelNumber(
        key=key or "result",
        value=number,
        half_unit=0.5 * 10.0 ** min(0, exponent),
        words=words_of(key) or ("result",),
        digits=digits,
    )


def words_of(key: str) -> tuple[str, ...]:
    """Return the words of a key in lower case, without numbers and, beside others, words that say nothing.

    >>> words_of("current_RSI14"), words_of("value")
    (('rsi',), ('value',))
    """
    words = [word for word in _WORDS.findall(key.casefold()) if not word.isdecimal()]
    return tuple(word for word in words if word not in _FILLERS) or tuple(words)


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
_SERIES = {
    "volume": r"vol(?:ume)?s?|amounts?|turnover|成交[量额]|均量|量均",
    "open": r"opens?|开盘价?",
    "high": r"highs?|最高价?",
    "low": r"lows?|最低价?",
}
_EARLIER = re.compile(
    r"(?<![a-z])(?:prev(?:ious)?|prior|yesterday|ago|lag(?:ged)?)(?![a-z])|昨|前[一1]?[日天]|上一",
    re.IGNORECASE,
)
_PERIOD_NAMES = {"MA": ("ma", "sma"), "EMA": ("ema",), "RSI": ("rsi",), "ATR": ("atr",)}
_NO_USUAL_PERIOD = ("MA", "EMA")
_REST = 200
_RESULT = frozenset({"result", "value", "answer", "结果"})
_MISSING = 'a number is missing: write it into intermediate_result, such as {"rsi": 61.3}'


def check_calculation(
    calculation: Mapping[str, Any],
    context: ToolContext,
    symbol: str,
    *,
    shown: Any = (),
    timeframe: str = "1d",
) -> Check:
    """Hold the numbers of a model's calculation against TA-Lib's, or against its formula.

    A number matches if it is within half a unit of its own last decimal, or within 0.01 %, of that over the
    bars that the model was shown or over all that are known. A formula that reads another series than the
    indicator's, or names an earlier session, is compared with itself alone; so is a number that only its
    formula explains.

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
        the formula's; ``model``, the numbers that were held against them; ``tolerance`` of each;
        ``not_compared``, the other keys of ``intermediate_result``, if there are any; ``why`` in one line.

    Raises
    ------
    UnknownSymbol
        If the view does not have the symbol.
    """
    result = calculation.get("intermediate_result")
    numbers = numbers_of(result)
    if not numbers:
        return _no_check(_MISSING)
    inputs = calculation.get("inputs")
    plain_inputs = inputs if isinstance(inputs, Mapping) else {}
    label, text = (str(calculation.get(name) or "") for name in ("calculation_type", "formula"))
    claim = _Claim(numbers=numbers, inputs=plain_inputs, label=label, text=text)
    name, by = _symbol(plain_inputs, context, symbol), _timeframe(plain_inputs, timeframe)
    references = list(_references(context, name, shown if name == symbol else (), by))
    check = _by_talib(claim, references)
    if check is None or not check["matches"]:
        own = _by_formula(claim, references, context)
        if check is None or own["matches"] or (own["checked"] and not check["checked"]):
            check = own
    return _with_the_rest(check, keys_of(result))


@dataclass(frozen=True, kw_only=True)
class _Claim:
    """A calculation as the model wrote it."""

    numbers: Sequence[ModelNumber]
    inputs: Mapping[str, Any]
    label: str
    text: str


def _by_talib(claim: _Claim, references: Sequence[SymbolBars]) -> Check | None:
    """Hold numbers against the indicator that the label or the formula names; None if it names none."""
    kind, is_whole = _kind_of(claim.label, claim.text)
    if not kind:
        return None
    other = _other_series(kind, claim)
    if other:
        return _no_check(f"it reads {other}, which TA-Lib's {kind} does not")
    others = [each for each in claim.numbers if _is_earlier(each.key) or _series_in(each.key, kind)]
    pairs = _pairs(kind, [each for each in claim.numbers if each not in others], alone=is_whole)
    if pairs:
        params = _named_params(kind, claim.inputs, claim.label, claim.text)
        check = _against_talib(kind, pairs, params, references)
        is_named = params or any(number.digits for _, number in pairs) or kind not in _NO_USUAL_PERIOD
        if check["matches"] is False and not is_named and re.search(r"\d|close|收盘", claim.text):
            return _no_check(f"no period of the {kind} is named; write it into inputs")
        return check
    if others and len(claim.numbers) == 1:
        return _no_check(f"{others[0].key} is not the last {kind}")
    return (
        _no_check(f"intermediate_result has no number of the {kind}: {_example(kind)}") if is_whole else None
    )


def _other_series(kind: str, claim: _Claim) -> str:
    """What a calculation reads that TA-Lib's indicator does not; "" for nothing."""
    if any(map(_is_earlier, (claim.label, *claim.text.split("=")[:-1]))):
        return "an earlier session"
    texts = (claim.label, claim.text, *claim.inputs.values())
    return next(filter(None, (_series_in(each, kind) for each in texts)), "")


def _series_in(text: object, kind: str) -> str:
    """A series that a text names and that is not one of the indicator's; "" for none."""
    for series, words in _SERIES.items():
        is_own = series in INDICATORS[kind].fields or not isinstance(text, str)
        if not is_own and re.search(rf"(?<![A-Za-z])(?:{words})(?![A-Za-z])", str(text), re.IGNORECASE):
            return series
    return ""


def _is_earlier(text: str) -> bool:
    return _EARLIER.search(text) is not None


def _by_formula(claim: _Claim, references: Sequence[SymbolBars], context: ToolContext) -> Check:
    """Hold a number against what the formula beside it gives, over one of the references."""
    formula = formula_of(claim.text)
    if isinstance(formula, str):
        return _no_check(formula)
    names = {"".join(words_of(each)) for each in (formula.left, claim.label)} - {""}
    number = claim.numbers[0] if len(claim.numbers) == 1 else number_named(claim.numbers, names | _RESULT)
    if number is None:
        return _no_check("intermediate_result has several numbers and none with the formula's name")
    values = [evaluate_formula(formula, claim.inputs, bars, context) for bars in references]
    exact = [value for value in values if isinstance(value, float)]
    near = next((value for value in exact if number.matches(value)), None)
    if near is not None:
        return _check_result({number.key: near}, [number], [], of="formula")
    if not exact or _is_earlier(number.key):
        return _no_check(f"{number.key} is of an earlier session" if exact else str(values[0]))
    wrong = f"{number.key}={_show(number.value)}, the formula gives {_show(exact[0])}"
    return _check_result({number.key: exact[0]}, [number], [wrong], of="formula")


def _with_the_rest(check: Check, keys: Sequence[str]) -> Check:
    """Name what a check did not look at, so that it does not pass as right."""
    rest = [key for key in keys if key not in check["model"]]
    if not check["checked"] or not rest:
        return check
    named = escape_controls(", ".join(rest)[:_REST])
    return {**check, "not_compared": rest, "why": f"{check['why']}; not compared: {named}"}


def _kind_of(label: str, text: str) -> tuple[str, bool]:
    """The indicator that a calculation is about, "" for none, and whether it is about nothing else."""
    for kind, words in _WORDS_FOR.items():
        if re.fullmatch(rf"\s*{_DAYS}(?:{words}){_PERIODS}\s*", label, re.IGNORECASE):
            return kind, True
    left = text.partition("=")[0]
    for named in (label, left):
        for kind, words in _WORDS_FOR.items():
            if re.search(rf"(?<![A-Za-z])(?:{words})(?![A-Za-z])", named, re.IGNORECASE):
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


def _named_params(kind: str, inputs: Mapping[str, Any], label: str, text: str) -> dict[str, Any]:
    """The parameters that the inputs name; without any, those behind the indicator's name in the texts."""
    indicator = INDICATORS[kind]
    named = {name: value for name, value in inputs.items() if _spelling(name) in indicator.other_names}
    if named:
        return named
    words = _WORDS_FOR[kind]
    behind = rf"(?:{words})[ _(]*(\d+(?:\.\d+)?(?:[ ,_]+\d+(?:\.\d+)?)*)"
    before = rf"(\d+)\s*(?:日|天|-?DAY)?\s*(?:{words})"
    for where, pattern in product((label, text), (behind, before)):
        if match := re.search(pattern, where, re.IGNORECASE):
            return dict(zip(indicator.defaults, re.findall(r"\d+(?:\.\d+)?", match[1]), strict=False))
    return {}


def _spelling(name: object) -> str:
    return str(name).strip().casefold()


def _symbol(inputs: Mapping[str, Any], context: ToolContext, symbol: str) -> str:
    """The symbol that the inputs name, else the one that is decided."""
    try:
        return known_symbol(context.view, str(inputs.get("symbol") or symbol))
    except UnknownSymbol:
        return symbol


def _timeframe(inputs: Mapping[str, Any], timeframe: str) -> Timeframe:
    """The timeframe that the inputs name, else the one that was shown."""
    named = str(inputs.get("timeframe") or timeframe).strip().casefold()
    return _TIMEFRAMES.get(named) or check_timeframe(timeframe)


def _references(context: ToolContext, symbol: str, shown: Any, by: Timeframe) -> Iterator[SymbolBars]:
    """All bars that are known, then with the running one, then those that the model was shown."""
    bars = bars_by(context.bars(symbol), by, context.moment)
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
    named: Mapping[str, Any],
    references: Sequence[SymbolBars],
) -> Check:
    exact: dict[str, float] = {}
    wrong: list[str] = []
    for line, number in pairs:
        try:
            found = list(_exact(kind, line, _with_period(kind, named, number), references))
        except QuantGraphError as error:
            return _no_check(error.line)
        # China's bar of the MACD is twice the international one.
        candidates = [*found, *(2 * each for each in found)] if line == "hist" else found
        near = next((each for each in candidates if number.matches(each)), None)
        exact[number.key] = found[0] if near is None else near
        if near is None:
            twice = f" (or {_show(2 * found[0])}, twice that)" if line == "hist" else ""
            wrong.append(f"{number.key}={_show(number.value)}, TA-Lib has {line}={_show(found[0])}{twice}")
    return _check_result(exact, [number for _, number in pairs], wrong, of="talib")


def _with_period(kind: str, named: Mapping[str, Any], number: ModelNumber) -> dict[str, float]:
    if kind in _PERIOD_NAMES and "".join(number.words) in _PERIOD_NAMES[kind] and number.digits:
        return indicator_params(kind, {"period": number.digits[0]})
    return indicator_params(kind, named)


def _exact(
    kind: str, line: str, params: Mapping[str, float], references: Sequence[SymbolBars]
) -> Iterator[float]:
    """TA-Lib's last number over each of the references that is long enough."""
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


def _check_result(
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


def _no_check(why: str) -> Check:
    return {"checked": False, "matches": None, "talib": {}, "model": {}, "why": f"not checked: {why}"}


def _example(kind: str) -> str:
    return "{" + ", ".join(f'"{line}": ...' for line in _NAMES[kind]) + "}"


def _show(value: float) -> str:
    return f"{value:.6g}" if abs(value) < _LARGE else f"{value:.2f}"
