"""What to write instead, for errors that come from habits of other versions and other data layouts."""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["hint"]


@dataclass(frozen=True, kw_only=True)
class _Rule:
    """An error by its type (matched whole), message and line (searched), and the advice.

    The advice may use the groups of the message.
    """

    kind: str
    message: str
    line: str = ""
    advice: str


def hint(kind: str, message: str, line: str) -> str:
    """Say what to write instead of the line that failed.

    Parameters
    ----------
    kind, message
        Name of the exception's type, and its text.
    line
        The source line that raised it, or nothing.

    Returns
    -------
    str
        One sentence in English, empty if the error is none that is known.

    Examples
    --------
    >>> hint("AttributeError", "'DataFrame' object has no attribute 'append'", "df = df.append(row)")
    'write pd.concat([frame, more])'
    """
    for rule in _RULES:
        found = re.fullmatch(rule.kind, kind) and re.search(rule.message, message)
        if found and re.search(rule.line, line):
            return found.expand(rule.advice)
    return ""


def _absent(owner: str, advice: dict[str, str]) -> tuple[_Rule, ...]:
    """Attributes that are no more."""
    return tuple(
        _Rule(
            kind="AttributeError",
            message=rf"{owner} has no attribute '(?P<name>{names})'",
            advice=f"write {instead}",
        )
        for names, instead in advice.items()
    )


def _refused(function: str, argument: str, instead: str) -> _Rule:
    """Arguments that are no more."""
    return _Rule(
        kind="TypeError",
        message=rf"^(?:\w+\.)?(?:{function})\(\) got an unexpected keyword argument '(?P<name>{argument})'",
        advice=f"write {instead}",
    )


_FRAME = r"'(?:DataFrame|Series|\w*Index|\w*GroupBy|\w*Properties)' object"

_PANDAS = (
    *_absent(
        _FRAME,
        {
            "append": "pd.concat([frame, more])",
            "ix": ".loc[labels] or .iloc[positions]",
            "iteritems": ".items()",
            "applymap": ".map(function)",
            "mad": "(x - x.mean()).abs().mean()",
            "lookup": "frame.to_numpy()[rows, columns], with rows = frame.index.get_indexer(labels)",
            "swapaxes": "frame.T",
            "fillna": ".ffill() or .bfill()",
            "pad|backfill": ".ffill() or .bfill()",
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
    *_absent(
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
    _refused("fillna", "method", ".ffill() or .bfill()"),
    _refused("replace", "method", "frame.mask(frame == value).ffill()"),
    _refused(
        r"(?P<what>groupby|rolling|expanding|ewm|resample)",
        "axis",
        r"frame.T.\g<what>(...) and .T of the result: it goes along the rows only",
    ),
    _refused(r"(?P<what>\w+)", "level", r".groupby(level=...).\g<what>()"),
    _refused("sort_index", "by", ".sort_values(column)"),
    _refused("concat", "join_axes", "pd.concat(frames).reindex(...)"),
    _refused("shift", "limit", ".ffill(limit=n).pct_change()"),
    _Rule(kind="ValueError", message="fill_method must be None", advice="write .ffill().pct_change()"),
    _Rule(kind="ValueError", message=r"Can not interpolate with method=(pad|ffill)", advice="write .ffill()"),
    _Rule(
        kind="ValueError",
        message="dropna must be unspecified",
        advice="write .stack(), and .dropna() if wanted",
    ),
    _Rule(
        kind="TypeError",
        message=r"\.drop\(\) takes from 1 to 2 positional",
        advice="write .drop(columns=names) or .drop(index=labels)",
    ),
    _Rule(
        kind="ValueError",
        message=r"[Ii]nvalid frequency: A(?P<anchor>-\w+)?[.,] ",
        advice=r"write the frequency as 'YE\g<anchor>'",
    ),
    _Rule(
        kind="ValueError",
        message=r"for Period, please use '(?P<new>[\w-]+)'",
        advice=r"write the frequency as '\g<new>'",
    ),
    _Rule(
        kind="ValueError",
        message=r"[Ii]nvalid frequency: .*Please use \\?'(?P<new>[\w-]+)\\?' instead",
        advice=r"write the frequency as '\g<new>'",
    ),
    _Rule(
        kind="ValueError",
        message=r"[Ii]nvalid frequency: .*Did you mean (?P<new>[\w-]+)\?",
        advice=r"write the frequency as '\g<new>'",
    ),
    _Rule(
        kind="ValueError",
        message="Can only compare identically-labeled",
        advice="write right = right.reindex_like(left) before the two are compared",
    ),
    _Rule(
        kind="ValueError",
        message=r"truth value of (a|an) \w+.* is ambiguous",
        advice="write & for and, | for or, ~ for not, each side in brackets; np.where instead of if",
    ),
    _Rule(
        kind="ChainedAssignmentError",
        message="",
        advice="write frame.loc[rows, column] = value, or frame = frame.mask(condition, value)",
    ),
    _Rule(
        kind="KeyError",
        message=r"^(?:np\.int64\()?(?P<place>-?\d+)\)?$",
        advice=r"write .iloc[\g<place>]: a whole number in [] is a label",
    ),
)

_NUMPY = (
    *_absent(
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
    *_absent(
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
        kind="ValueError",
        message=r"(assignment destination|output array|sort array|array) is read-only",
        advice=(
            "the data cannot be written into: make a new frame with frame.mask(condition, value) or "
            "frame.where, or work on frame.to_numpy().copy()"
        ),
    ),
)

_ONE_SYMBOL = (
    "talib takes one symbol at a time: write frame.apply(lambda column: talib.SMA(column, timeperiod=n))"
)

_TALIB = (
    _Rule(
        kind="TypeError",
        message=r"Argument '\w+' has incorrect type \(expected numpy\.ndarray, got DataFrame\)",
        advice=_ONE_SYMBOL,
    ),
    _Rule(kind="Exception", message="input array has wrong dimensions", advice=_ONE_SYMBOL),
    _Rule(
        kind="TypeError",
        message=r"Argument '\w+' has incorrect type \(expected numpy\.ndarray, got ",
        advice="talib wants float64 arrays: write np.asarray(values, dtype='float64')",
    ),
    _Rule(
        kind="Exception",
        message="input array type is not double",
        advice="talib wants float64 arrays: write series.to_numpy(dtype='float64')",
    ),
    _Rule(
        kind="Exception",
        message="input array lengths are different",
        advice="talib wants arrays of one length: take them from frames with the same index",
    ),
    _Rule(
        kind="Exception",
        message="TA_BAD_PARAM",
        advice="a parameter is out of talib's range: write a timeperiod of 2 or more",
    ),
    _Rule(
        kind="TypeError",
        message=r"^[A-Z0-9_]+\(\) got an unexpected keyword argument '(n|period|window|length|time_period)'",
        advice="write timeperiod=n",
    ),
    _Rule(
        kind="AttributeError",
        message=r"module 'talib' has no attribute '(?P<name>\w+)'",
        advice="talib's names are in capitals: SMA, EMA, RSI, MACD, ATR, BBANDS; see talib.get_functions()",
    ),
)

_READ = "write snapshot['ohlcv']['close'], and snapshot['ohlcv'].keys() for what there is"
_KEEP = "write GLOBAL_DATA_STATE.update('signal', {'name': frame})"

_DATA = (
    _Rule(
        kind="TypeError", message="'(Fields|Snapshot|DataState)' object does not support item", advice=_KEEP
    ),
    _Rule(kind="TypeError", message=r"DataState\.update\(\) (takes|missing|got)", advice=_KEEP),
    _Rule(
        kind="AttributeError",
        message=r"'DataState' object has no attribute '(set|put|add|save|store|insert)\w*'",
        advice=_KEEP,
    ),
    _Rule(
        kind="TypeError|AttributeError",
        message=r"'DataState' object (is not|has no attribute)",
        advice="write snapshot = GLOBAL_DATA_STATE.snapshot(), then snapshot['ohlcv']['close']",
    ),
    _Rule(kind="AttributeError", message=r"'(Fields|Snapshot)' object has no attribute", advice=_READ),
    _Rule(
        kind="TypeError|AttributeError",
        message="'builtin_function_or_method'",
        line=r"\bopen\b",
        advice="open is Python's own function here: write open_ = snapshot['ohlcv']['open']",
    ),
    _Rule(
        kind="TypeError",
        message="'(DataFrame|Series)' object is not callable",
        line=r"\bopen\(",
        advice="open is a frame here, and code reads no files: the data is in snapshot['ohlcv']",
    ),
    _Rule(
        kind="NameError",
        message="name '(?P<name>close|high|low|vol|amount|pre_close)' is not defined",
        advice=r"write \g<name> = snapshot['ohlcv']['\g<name>']",
    ),
    _Rule(
        kind="NameError",
        message="name '(volume|turnover)' is not defined",
        advice="write snapshot['ohlcv']['vol']",
    ),
    _Rule(kind="NameError", message="name '(talib|ta)' is not defined", advice="write import talib"),
    _Rule(
        kind="AttributeError",
        message=r"'DataFrame' object has no attribute '(open|high|low|close|vol|volume|amount|pre_close)'",
        advice=f"columns are symbols, and each field is a frame: {_READ}",
    ),
    _Rule(
        kind="KeyError",
        message=r"^'\d{6}\.(SH|SZ|BJ)'$",
        advice="the symbols there are stand in snapshot['ohlcv']['close'].columns",
    ),
    _Rule(
        kind="KeyError",
        message=r"^'[A-Za-z_]+'$",
        advice=f"columns are symbols, and each field is a frame: {_READ}",
    ),
    _Rule(
        kind="ModuleNotFoundError",
        message=r"No module named '(?P<name>[\w.]+)'",
        advice="numpy, pandas, talib and the standard library are there, and nothing else",
    ),
)

_RULES = (*_PANDAS, *_NUMPY, *_TALIB, *_DATA)
