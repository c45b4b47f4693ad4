"""Advice for errors that come from older library versions and other data layouts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class _Rule:
    """Regular expressions of an error, and advice that may use the groups of ``message``.

    ``kind`` must match the whole exception type; ``message`` and ``line`` are searched.
    """

    kind: str
    message: str
    advice: str
    line: str = ""


def hint(kind: str, message: str, line: str) -> str:
    """Return what to write instead of the line that failed, in English; empty for an unknown error.

    >>> hint("AttributeError", "'DataFrame' object has no attribute 'append'", "df = df.append(row)")
    'write pd.concat([frame, more])'
    """
    for rule in _RULES:
        found = re.fullmatch(rule.kind, kind) and re.search(rule.message, message)
        if found and re.search(rule.line, line):
            return found.expand(rule.advice)
    return ""


def _removed_attributes(owner: str, advice: dict[str, str]) -> tuple[_Rule, ...]:
    return tuple(
        _Rule("AttributeError", rf"{owner} has no attribute '(?P<name>{names})'", f"write {instead}")
        for names, instead in advice.items()
    )


def _removed_argument(function: str, argument: str, instead: str) -> _Rule:
    return _Rule(
        "TypeError",
        rf"^(?:\w+\.)?(?:{function})\(\) got an unexpected keyword argument '(?P<name>{argument})'",
        f"write {instead}",
    )


_DATE = r"(?P<date>(?:19|20)\d\d(?:-?(?:0[1-9]|1[0-2])(?:-?(?:0[1-9]|[12]\d|3[01]))?)?)"


def _number_dates() -> Iterator[_Rule]:
    """Dates written as whole numbers: 20250303, 202503 and 2025."""
    year, month, day = r"(?P<y>(?:19|20)\d\d)", r"(?P<m>0[1-9]|1[0-2])", r"(?P<d>0[1-9]|[12]\d|3[01])"
    forms = {year + month + day: r"\g<y>-\g<m>-\g<d>", year + month: r"\g<y>-\g<m>", year: r"\g<y>"}
    for number, date in forms.items():
        yield _Rule(
            "KeyError",
            rf"^(?:np\.int64\()?{number}\)?$",
            f"rows are dates: write .loc['{date}']",
            line=r"\.(loc|at)\[" if number == year else "",
        )
        yield _Rule("TypeError", rf"with these indexers \[{number}\]", f"rows are dates: write '{date}'")
    yield _Rule(
        "TypeError",
        r"Invalid comparison between dtype=datetime64.* and (int|str)",
        "write pd.Timestamp('2025-03-03') for the date",
    )


_FRAME = r"'(?:DataFrame|Series|\w*Index|\w*GroupBy|\w*Properties)' object"

_PANDAS = (
    *_removed_attributes(
        _FRAME,
        {
            "append": "pd.concat([frame, more])",
            "ix": ".loc[labels] or .iloc[positions]",
            "iteritems": ".items()",
            "applymap": ".map(function)",
            "mad": "(x - x.mean()).abs().mean()",
            "lookup": "frame.to_numpy()[rows, columns], with rows = frame.index.get_indexer(labels)",
            "swapaxes": "frame.T",
            "fillna|pad|backfill": ".ffill()",
            "as_matrix|ravel|nonzero": ".to_numpy(), and numpy's function of it",
            "get_value|set_value": ".at[row, column]",
            "sort|order": ".sort_values() or .sort_index()",
            "tshift|slice_shift": ".shift(n), or .shift(n, freq=...)",
            "first|last": ".iloc[:n] or .iloc[-n:]",
            "clip_lower": ".clip(lower=value)",
            "clip_upper": ".clip(upper=value)",
            "is_monotonic": ".is_monotonic_increasing",
            "week|weekofyear": ".isocalendar().week",
            r"rolling_(?P<what>mean|std|sum|max|min|var|median|corr|cov|apply)": r".rolling(n).\g<what>()",
        },
    ),
    *_removed_attributes(
        "module 'pandas'",
        {
            r"rolling_(?P<what>mean|std|sum|max|min|var|median|corr|cov|apply|quantile|count)": (
                r"frame.rolling(n).\g<what>()"
            ),
            r"expanding_(?P<what>mean|std|sum|max|min|var|median|apply)": r"frame.expanding().\g<what>()",
            "ewma": "frame.ewm(span=n).mean()",
            "ewmstd": "frame.ewm(span=n).std()",
            "datetime": "pd.Timestamp, or import datetime",
            "Panel": "a dict of frames by field: frames['close'][symbol]",
            "np": "np, which is numpy here",
            "(?:Int64|UInt64|Float64)Index": "pd.Index(values)",
            "TimeGrouper": "pd.Grouper(freq=...)",
        },
    ),
    _removed_argument("fillna", "method", ".ffill()"),
    _removed_argument("replace", "method", "frame.mask(frame == value).ffill()"),
    _removed_argument(
        r"(?P<what>groupby|rolling|expanding|ewm|resample)",
        "axis",
        r"frame.T.\g<what>(...) and .T of the result: it goes along the rows only",
    ),
    _removed_argument(r"(?P<what>\w+)", "level", r".groupby(level=...).\g<what>()"),
    _removed_argument("sort_index", "by", ".sort_values(column)"),
    _removed_argument("concat", "join_axes", "pd.concat(frames).reindex(...)"),
    _removed_argument("shift", "limit", ".ffill(limit=n).pct_change()"),
    _Rule("ValueError", "fill_method must be None", "write .ffill().pct_change()"),
    _Rule("ValueError", r"Can not interpolate with method=(pad|ffill)", "write .ffill()"),
    _Rule("ValueError", "dropna must be unspecified", "write .stack(), and .dropna() if wanted"),
    _Rule(
        "TypeError",
        r"\.drop\(\) takes from 1 to 2 positional",
        "write .drop(columns=names) or .drop(index=labels)",
    ),
    _Rule(
        "ValueError",
        r"[Ii]nvalid frequency: A(?P<anchor>-\w+)?[.,] ",
        r"write the frequency as 'YE\g<anchor>'",
    ),
    _Rule("ValueError", r"for Period, please use '(?P<new>[\w-]+)'", r"write the frequency as '\g<new>'"),
    _Rule(
        "ValueError",
        r"[Ii]nvalid frequency: .*Please use \\?'(?P<new>[\w-]+)\\?' instead",
        r"write the frequency as '\g<new>'",
    ),
    _Rule(
        "ValueError",
        r"[Ii]nvalid frequency: .*Did you mean (?P<new>[\w-]+)\?",
        r"write the frequency as '\g<new>'",
    ),
    _Rule(
        "ValueError",
        "Can only compare identically-labeled",
        "write right = right.reindex_like(left) before the two are compared",
    ),
    _Rule(
        "ValueError",
        r"truth value of (a|an) \w+.* is ambiguous",
        "write & for and, | for or, ~ for not, each side in brackets; np.where instead of if",
    ),
    _Rule(
        "ChainedAssignmentError",
        "",
        "write frame.loc[rows, column] = value, or frame = frame.mask(condition, value)",
    ),
    *_number_dates(),
    _Rule(
        "KeyError",
        rf"^'{_DATE}'$",
        r"rows are dates and [] takes columns: write .loc['\g<date>']",
        line=r"(?<!\.loc)(?<!\.at)(?<=[\w)\]])\[\s*['\"]\d{4}",
    ),
    _Rule(
        "KeyError",
        r"^(?:np\.int64\()?(?P<place>-?\d+)\)?$",
        r"write .iloc[\g<place>]: a whole number in [] is a label",
    ),
)

_NUMPY = (
    *_removed_attributes(
        "module 'numpy'",
        {
            "(?P<what>float|int|complex)": r"\g<what>, or np.\g<what>64 (np.complex128)",
            "(?P<what>object|str|long|unicode)": "the built-in object, str or int",
            "product": "np.prod",
            "cumproduct": "np.cumprod",
            "in1d": "np.isin",
            "trapz": "np.trapezoid",
            "msort": "np.sort(a, axis=0)",
        },
    ),
    *_removed_attributes(
        r"'numpy\.ndarray' object",
        {
            "ptp": "np.ptp(a)",
            "itemset": "a[place] = value",
            "newbyteorder": "a.view(a.dtype.newbyteorder())",
            "rolling|shift|ewm|pct_change|ffill|fillna|diff|iloc|loc": (
                r"pd.DataFrame(a, index=close.index, columns=close.columns), which has .\g<name>"
            ),
        },
    ),
    _Rule(
        "ValueError",
        r"(assignment destination|output array|sort array|array) is read-only",
        "the data cannot be written into: make a new frame with frame.mask(condition, value) or "
        "frame.where, or work on frame.to_numpy().copy()",
    ),
)

_ONE_SYMBOL = (
    "talib takes one symbol at a time: write frame.apply(lambda column: talib.SMA(column, timeperiod=n))"
)

_TALIB = (
    _Rule(
        "TypeError",
        r"Argument '\w+' has incorrect type \(expected numpy\.ndarray, got DataFrame\)",
        _ONE_SYMBOL,
    ),
    _Rule("Exception", "input array has wrong dimensions", _ONE_SYMBOL),
    _Rule(
        "TypeError",
        r"Argument '\w+' has incorrect type \(expected numpy\.ndarray, got ",
        "talib takes float64 arrays: write np.asarray(values, dtype='float64')",
    ),
    _Rule(
        "Exception",
        "input array type is not double",
        "talib takes float64 arrays: write series.to_numpy(dtype='float64')",
    ),
    _Rule(
        "Exception",
        "input array lengths are different",
        "talib takes arrays of one length: take them from frames with the same index",
    ),
    _Rule(
        "Exception", "TA_BAD_PARAM", "a parameter is out of talib's range: write a timeperiod of 2 or more"
    ),
    _Rule(
        "TypeError",
        r"^[A-Z0-9_]+\(\) got an unexpected keyword argument '(n|period|window|length|time_period)'",
        "write timeperiod=n",
    ),
    _Rule(
        "AttributeError",
        r"module 'talib' has no attribute '(?P<name>\w+)'",
        "talib's names are in capitals: SMA, EMA, RSI, MACD, ATR, BBANDS; see talib.get_functions()",
    ),
)

_READ = "write snapshot['ohlcv']['close'], and snapshot['ohlcv'].keys() for what there is"
_UPDATE = "write GLOBAL_DATA_STATE.update('signal', {'name': frame})"

_DATA = (
    _Rule("TypeError", "'(Fields|Snapshot|DataState)' object does not support item", _UPDATE),
    _Rule("TypeError", r"DataState\.update\(\) (takes|missing|got)", _UPDATE),
    _Rule(
        "AttributeError", r"'DataState' object has no attribute '(set|put|add|save|store|insert)\w*'", _UPDATE
    ),
    _Rule(
        "TypeError|AttributeError",
        r"'DataState' object (is not|has no attribute)",
        "write snapshot = GLOBAL_DATA_STATE.snapshot(), then snapshot['ohlcv']['close']",
    ),
    _Rule("AttributeError", r"'(Fields|Snapshot)' object has no attribute", _READ),
    _Rule(
        "TypeError|AttributeError",
        "'builtin_function_or_method'",
        "open is Python's own function here: write open_ = snapshot['ohlcv']['open']",
        line=r"\bopen\b",
    ),
    _Rule(
        "TypeError",
        "'(DataFrame|Series)' object is not callable",
        "open is a frame here, and code reads no files: the data is in snapshot['ohlcv']",
        line=r"\bopen\(",
    ),
    _Rule(
        "NameError",
        "name '(?P<name>close|high|low|vol|amount|pre_close)' is not defined",
        r"write \g<name> = snapshot['ohlcv']['\g<name>']",
    ),
    _Rule("NameError", "name '(volume|turnover)' is not defined", "write snapshot['ohlcv']['vol']"),
    _Rule("NameError", "name '(talib|ta)' is not defined", "write import talib"),
    _Rule(
        "AttributeError",
        r"'DataFrame' object has no attribute '(open|high|low|close|vol|volume|amount|pre_close)'",
        f"columns are symbols, and each field is a frame: {_READ}",
    ),
    _Rule(
        "BadFrame",
        "must be a pandas DataFrame, not Series",
        "write a frame with a column for each symbol it is for: pd.DataFrame({'600519.SH': series})",
    ),
    _Rule(
        "BadFrame",
        "must be a pandas DataFrame, not ndarray",
        "write pd.DataFrame(a, index=close.index, columns=close.columns)",
    ),
    _Rule(
        "BadFrame",
        "signal values must be 1, 0, -1 or NaN",
        "write signal = pd.DataFrame(0.0, index=close.index, columns=close.columns), then "
        "signal.mask(buy, 1.0).mask(sell, -1.0)",
    ),
    _Rule("KeyError", r"^'\d{6}\.(SH|SZ|BJ)'$", "the symbols are snapshot['ohlcv']['close'].columns"),
    _Rule("KeyError", r"^'[A-Za-z_]+'$", f"columns are symbols, and each field is a frame: {_READ}"),
    _Rule(
        "ModuleNotFoundError",
        r"No module named '(?P<name>[\w.]+)'",
        "only numpy, pandas, talib and the standard library can be imported",
    ),
    _Rule(
        "ArrowInvalid",
        r"Cannot locate (?:or parse )?timezone '(?P<zone>[^']+)'",
        r"pyarrow's own time zones are not available here: write .astype('datetime64[us, \g<zone>]') before",
    ),
    _Rule(
        "ImportError",
        r"(?:optional dependency '|^`Import )(?P<name>\w+)",
        r"\g<name> is not available here: write it with numpy, pandas or talib",
    ),
)

_RULES = (*_PANDAS, *_NUMPY, *_TALIB, *_DATA)
