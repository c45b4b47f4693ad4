"""Each hint, by the error that the installed libraries raise, and the code that it advises instead."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
import talib

from quantgraph.sandbox._hints import hint
from quantgraph.state import DataState

DAYS = pd.date_range("2024-01-01", periods=30, freq="D")


def namespace() -> dict[str, Any]:
    values = 10 + np.random.default_rng(0).standard_normal((30, 3)).cumsum(axis=0)
    frame = pd.DataFrame(values, index=DAYS, columns=["a", "b", "c"])
    store = DataState()
    store.update("ohlcv", {"open": frame, "close": frame})
    return {
        "np": np,
        "pd": pd,
        "talib": talib,
        "GLOBAL_DATA_STATE": store,
        "snapshot": store.snapshot(),
        "frame": frame,
        "other": frame.iloc[3:],
        "s": frame["a"].copy(),
        "levels": pd.Series([1.0, 2.0], index=pd.MultiIndex.from_tuples([("x", 1), ("x", 2)])),
        "kept": store.snapshot()["ohlcv"]["close"],
    }


def raised(code: str) -> tuple[str, str, str]:
    """Type, message and line of the error that ``code`` raises."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", pd.errors.ChainedAssignmentError)
        try:
            exec(code, namespace())
        except Exception as error:
            return type(error).__name__, str(error), code.splitlines()[-1]
    pytest.fail(f"{code} raises nothing any more")


# What is written, what the hint must say, and code with it that runs.
CASES: list[tuple[str, str, str]] = [
    # pandas: arguments
    ("frame.fillna(method='ffill')", ".ffill()", "frame.ffill()"),
    ("s.fillna(method='bfill', inplace=True)", ".ffill()", "s.ffill()"),
    ("frame.groupby(level=0).fillna(method='ffill')", ".ffill()", "frame.groupby(level=0).ffill()"),
    (
        "frame.replace(0, method='ffill')",
        ".mask(frame == value)",
        "value = 0; frame.mask(frame == value).ffill()",
    ),
    ("frame.pct_change(fill_method='ffill')", ".ffill().pct_change()", "frame.ffill().pct_change()"),
    ("frame.pct_change(fill_method='pad')", ".ffill().pct_change()", "frame.ffill().pct_change()"),
    ("frame.pct_change(limit=2)", ".ffill(limit=n).pct_change()", "n = 2; frame.ffill(limit=n).pct_change()"),
    ("frame.interpolate(method='pad')", ".ffill()", "frame.ffill()"),
    ("frame.groupby(str, axis=1).mean()", "frame.T.groupby(", "frame.T.groupby(str).mean().T"),
    ("frame.rolling(3, axis=1).mean()", "frame.T.rolling(", "frame.T.rolling(3).mean().T"),
    ("frame.expanding(axis=1).mean()", "frame.T.expanding(", "frame.T.expanding().mean().T"),
    ("frame.ewm(span=3, axis=1).mean()", "frame.T.ewm(", "frame.T.ewm(span=3).mean().T"),
    (
        "frame.T.resample('W', axis=1).mean()",
        "frame.T.resample(",
        "frame = frame.T; frame.T.resample('W').mean().T",
    ),
    ("frame.stack(dropna=False)", ".stack()", "frame.stack()"),
    ("levels.sum(level=0)", ".groupby(level=...).sum()", "levels.groupby(level=...).sum()"),
    ("levels.to_frame().mean(level=0)", ".groupby(level=...).mean()", "levels.groupby(level=...).mean()"),
    ("frame.drop('a', 1)", ".drop(columns=", "frame.drop(columns='a')"),
    ("frame.sort_index(by='a')", ".sort_values(", "frame.sort_values('a')"),
    ("pd.concat([frame], join_axes=[s.index])", ".reindex(", "pd.concat([frame]).reindex(frame.index)"),
    # pandas: frequencies
    *[
        (
            f"pd.date_range('2024', periods=2, freq={old!r})",
            f"'{new}'",
            f"pd.date_range('2024', periods=2, freq='{new}')",
        )
        for old, new in {
            "M": "ME",
            "Q": "QE",
            "Y": "YE",
            "A": "YE",
            "BM": "BME",
            "Q-MAR": "QE-MAR",
            "H": "h",
            "T": "min",
            "S": "s",
            "L": "ms",
        }.items()
    ],
    ("frame.resample('A-DEC').last()", "'YE-DEC'", "frame.resample('YE-DEC').last()"),
    ("frame.resample('M').last()", "'ME'", "frame.resample('ME').last()"),
    ("pd.Grouper(freq='M')", "'ME'", "pd.Grouper(freq='ME')"),
    ("frame.to_period('ME')", "'M'", "frame.to_period('M')"),
    # pandas: names
    ("frame.append(frame)", "pd.concat([frame, more])", "more = frame; pd.concat([frame, more])"),
    ("s.append(s)", "pd.concat([frame, more])", "frame = more = s; pd.concat([frame, more])"),
    ("frame.ix[0]", ".iloc[", "frame.iloc[0]"),
    ("frame.iteritems()", ".items()", "frame.items()"),
    ("s.iteritems()", ".items()", "s.items()"),
    ("frame.applymap(abs)", ".map(function)", "function = abs; frame.map(function)"),
    ("frame.mad()", "(x - x.mean()).abs().mean()", "x = frame; (x - x.mean()).abs().mean()"),
    ("s.mad()", "(x - x.mean()).abs().mean()", "x = s; (x - x.mean()).abs().mean()"),
    (
        "frame.lookup([frame.index[0]], ['a'])",
        "rows = frame.index.get_indexer(labels)",
        "labels = frame.index[:1]; rows = frame.index.get_indexer(labels); frame.to_numpy()[rows, [0]]",
    ),
    ("frame.swapaxes(0, 1)", "frame.T", "frame.T"),
    ("frame.pad()", ".ffill()", "frame.ffill()"),
    ("frame.backfill()", ".ffill()", "frame.ffill()"),
    ("frame.as_matrix()", ".to_numpy()", "frame.to_numpy()"),
    ("s.nonzero()", ".to_numpy()", "s.to_numpy().nonzero()"),
    (
        "frame.get_value(s.index[0], 'a')",
        ".at[row, column]",
        "row, column = frame.index[0], 'a'; frame.at[row, column]",
    ),
    ("s.sort()", ".sort_values()", "s.sort_values()"),
    ("s.order()", ".sort_values()", "s.sort_values()"),
    ("frame.tshift(1)", ".shift(n, freq=", "n = 1; frame.shift(n, freq='D')"),
    ("frame.first('3D')", ".iloc[:n]", "n = 3; frame.iloc[:n]"),
    ("frame.last('3D')", ".iloc[-n:]", "n = 3; frame.iloc[-n:]"),
    ("frame.clip_lower(0)", ".clip(lower=value)", "value = 0; frame.clip(lower=value)"),
    ("frame.clip_upper(0)", ".clip(upper=value)", "value = 0; frame.clip(upper=value)"),
    ("frame.index.is_monotonic", ".is_monotonic_increasing", "frame.index.is_monotonic_increasing"),
    ("frame.index.week", ".isocalendar().week", "frame.index.isocalendar().week"),
    (
        "pd.Series(frame.index).dt.weekofyear",
        ".isocalendar().week",
        "pd.Series(frame.index).dt.isocalendar().week",
    ),
    *[
        (f"pd.rolling_{what}(s, 5)", f"frame.rolling(n).{what}()", f"n = 5; frame.rolling(n).{what}()")
        for what in ("mean", "std", "sum", "max", "min", "corr")
    ],
    ("frame.rolling_mean(5)", ".rolling(n).mean()", "n = 5; frame.rolling(n).mean()"),
    ("pd.expanding_mean(s)", "frame.expanding().mean()", "frame.expanding().mean()"),
    ("pd.ewma(s, span=5)", "frame.ewm(span=n).mean()", "n = 5; frame.ewm(span=n).mean()"),
    ("pd.datetime.now()", "pd.Timestamp", "pd.Timestamp('2024-01-02')"),
    (
        "pd.Panel()",
        "frames['close'][symbol]",
        "symbol = 'a'; frames = {'close': frame}; frames['close'][symbol]",
    ),
    ("pd.np.nan", "np, which is numpy", "np.nan  # np, which is numpy"),
    ("pd.Int64Index([1])", "pd.Index(values)", "values = [1]; pd.Index(values)"),
    ("pd.TimeGrouper('ME')", "pd.Grouper(freq=", "pd.Grouper(freq='ME')"),
    # pandas: comparing, choosing, assigning
    (
        "frame > other",
        "right.reindex_like(left)",
        "left, right = frame, other; left > right.reindex_like(left)",
    ),
    (
        "s == other['a']",
        "right.reindex_like(left)",
        "left, right = s, other['a']; left == right.reindex_like(left)",
    ),
    ("if frame['a'] > 0: pass", "& for and", "(frame['a'] > 0) & (frame['b'] > 0)  # & for and"),
    ("(s > 0) and (s > 1)", "& for and", "(s > 0) & (s > 1)  # & for and"),
    ("(frame > 0) or (frame < 1)", "| for or", "(frame > 0) | (frame < 1)  # | for or"),
    ("not (frame > 0)", "~ for not", "~(frame > 0)  # ~ for not"),
    ("if (frame > 0).to_numpy(): pass", "np.where", "np.where(frame > 0, 1, 0)"),
    ("frame['a'][frame['a'] > 0] = 1", "frame.loc[", "frame.loc[frame['a'] > 0, 'a'] = 1"),
    ("frame['a'].iloc[0] = 5.0", "frame.loc[", "frame.loc[frame.index[0], 'a'] = 5.0"),
    ("s[-1]", ".iloc[-1]", "s.iloc[-1]"),
    ("s[0]", ".iloc[0]", "s.iloc[0]"),
    ("frame.rolling(3).apply(lambda x: x[-1])", ".iloc[-1]", "frame.rolling(3).apply(lambda x: x.iloc[-1])"),
    # numpy
    ("np.float(1)", "float,", "float(1)  # float,"),
    ("np.int(1)", "np.int64", "np.int64(1)"),
    ("np.complex(1)", "np.complex128", "np.complex128(1)"),
    ("np.object", "object", "object"),
    ("np.str", "str", "str"),
    ("np.product([1])", "np.prod", "np.prod([1])"),
    ("np.cumproduct([1])", "np.cumprod", "np.cumprod([1])"),
    ("np.in1d([1], [1])", "np.isin", "np.isin([1], [1])"),
    ("np.trapz([1, 2])", "np.trapezoid", "np.trapezoid([1, 2])"),
    ("np.msort(np.ones(2))", "np.sort(a, axis=0)", "a = np.ones(2); np.sort(a, axis=0)"),
    ("np.ones(2).ptp()", "np.ptp(a)", "a = np.ones(2); np.ptp(a)"),
    ("np.ones(2).itemset(0, 1)", "a[place] = value", "a, place, value = np.ones(2), 0, 1; a[place] = value"),
    (
        "frame.to_numpy().rolling(3)",
        "pd.DataFrame(a, index=close.index, columns=close.columns)",
        "a, close = frame.to_numpy(), frame; pd.DataFrame(a, index=close.index, columns=close.columns).rolling(3)",
    ),
    (
        "kept.values[0, 0] = 1.0",
        "frame.mask(condition, value)",
        "condition, value = frame > 9, 1.0; frame.mask(condition, value)",
    ),
    ("kept.to_numpy()[0, 0] = 1.0", ".to_numpy().copy()", "a = kept.to_numpy().copy(); a[0, 0] = 1.0"),
    ("np.nan_to_num(kept.values, copy=False)", ".to_numpy().copy()", "np.nan_to_num(kept.to_numpy().copy())"),
    ("kept.values.sort()", ".to_numpy().copy()", "kept.to_numpy().copy().sort()"),
    # dates
    ("frame.loc[20240103]", ".loc['2024-01-03']", "frame.loc['2024-01-03']"),
    ("frame.loc[np.int64(20240103)]", ".loc['2024-01-03']", "frame.loc['2024-01-03']"),
    ("s[20240103]", ".loc['2024-01-03']", "s.loc['2024-01-03']"),
    ("frame.loc[202401]", ".loc['2024-01']", "frame.loc['2024-01']"),
    ("frame.loc[2024]", ".loc['2024']", "frame.loc['2024']"),
    ("frame['2024-01']", ".loc['2024-01']", "frame.loc['2024-01']"),
    ("frame['2024']", ".loc['2024']", "frame.loc['2024']"),
    ("frame['2024-01-03']", ".loc['2024-01-03']", "frame.loc['2024-01-03']"),
    ("snapshot['ohlcv']['close']['20240103']", ".loc['20240103']", "frame.loc['20240103']"),
    ("frame.loc[20240103:20240105]", "'2024-01-03'", "frame.loc['2024-01-03':]"),
    (
        "frame[frame.index > 20240103]",
        "pd.Timestamp('2025-03-03')",
        "frame.index > pd.Timestamp('2025-03-03')",
    ),
    # talib
    (
        "talib.SMA(frame, 5)",
        "frame.apply(lambda column: talib.SMA(column, timeperiod=n))",
        "n = 5; assert frame.apply(lambda column: talib.SMA(column, timeperiod=n)).shape == frame.shape",
    ),
    (
        "talib.SMA(frame.to_numpy(), 5)",
        "frame.apply(lambda column: talib.SMA(column, timeperiod=n))",
        "n = 5; frame.apply(lambda column: talib.SMA(column, timeperiod=n))",
    ),
    (
        "talib.SMA(list(s), 5)",
        "np.asarray(values, dtype='float64')",
        "values = list(s); talib.SMA(np.asarray(values, dtype='float64'), 5)",
    ),
    (
        "talib.SMA(s.astype(int).to_numpy(), 5)",
        "series.to_numpy(dtype='float64')",
        "series = s.astype(int); talib.SMA(series.to_numpy(dtype='float64'), 5)",
    ),
    (
        "talib.SMA(s.to_numpy(dtype='float32'), 5)",
        ".to_numpy(dtype='float64')",
        "s.to_numpy(dtype='float64')",
    ),
    ("talib.SMA(s.to_numpy(), period=5)", "timeperiod=n", "n = 5; talib.SMA(s.to_numpy(), timeperiod=n)"),
    ("talib.SMA(s.to_numpy(), timeperiod=0)", "timeperiod", "talib.SMA(s.to_numpy(), timeperiod=2)"),
    (
        "a = s.to_numpy(); talib.ATR(a, a[1:], a, 14)",
        "the same index",
        "a = s.to_numpy(); talib.ATR(a, a, a, 14)  # of the same index",
    ),
    ("talib.sma(s)", "talib.get_functions()", "talib.get_functions()"),
    # data
    (
        "GLOBAL_DATA_STATE['ohlcv']",
        "snapshot = GLOBAL_DATA_STATE.snapshot()",
        "snapshot = GLOBAL_DATA_STATE.snapshot(); snapshot['ohlcv']['close']",
    ),
    (
        "GLOBAL_DATA_STATE.ohlcv",
        "GLOBAL_DATA_STATE.snapshot()",
        "GLOBAL_DATA_STATE.snapshot()['ohlcv']['close']",
    ),
    ("GLOBAL_DATA_STATE.get('ohlcv')", "GLOBAL_DATA_STATE.snapshot()", "GLOBAL_DATA_STATE.snapshot()"),
    ("snapshot['ohlcv'].close", "snapshot['ohlcv']['close']", "snapshot['ohlcv']['close']"),
    ("snapshot.ohlcv", "snapshot['ohlcv'].keys()", "snapshot['ohlcv'].keys()"),
    *[
        (
            code,
            "GLOBAL_DATA_STATE.update('signal', {'name': frame})",
            "frame = frame * 0; GLOBAL_DATA_STATE.update('signal', {'name': frame})",
        )
        for code in (
            "GLOBAL_DATA_STATE.update('signal', 'name', frame)",
            "GLOBAL_DATA_STATE.update(frame)",
            "GLOBAL_DATA_STATE.set('signal', 'name', frame)",
            "GLOBAL_DATA_STATE['signal'] = frame",
            "snapshot['signal']['name'] = frame",
        )
    ],
    *[
        (code, "open_ = snapshot['ohlcv']['open']", "open_ = snapshot['ohlcv']['open']; open_ > 1")
        for code in ("open > 1", "open['a']", "open.rolling(3)", "open - 1")
    ],
    ("open = frame\nopen('x.csv')", "snapshot['ohlcv']", "snapshot['ohlcv']"),
    ("close > 1", "close = snapshot['ohlcv']['close']", "close = snapshot['ohlcv']['close']; close > 1"),
    ("del talib\ntalib.SMA(s)", "import talib", "import talib"),
    ("frame.close", "snapshot['ohlcv']['close']", "snapshot['ohlcv']['close']"),
    ("frame['Close']", "snapshot['ohlcv'].keys()", "snapshot['ohlcv'].keys()"),
    ("frame['600519.SH']", "snapshot['ohlcv']['close'].columns", "snapshot['ohlcv']['close'].columns"),
    (
        "frame.to_hdf('file', key='frame')",
        "tables is not available here: write it with numpy, pandas or talib",
        "'tables is not available here: write it with numpy, pandas or talib'",
    ),
    (
        "GLOBAL_DATA_STATE.update('signal', {'s': s})",
        "pd.DataFrame({'600519.SH': series})",
        "series = s; pd.DataFrame({'600519.SH': series})",
    ),
    (
        "GLOBAL_DATA_STATE.update('signal', {'s': frame})",
        "signal = pd.DataFrame(0.0, index=close.index, columns=close.columns)",
        "close = frame; signal = pd.DataFrame(0.0, index=close.index, columns=close.columns)",
    ),
    (
        "GLOBAL_DATA_STATE.update('signal', {'s': frame.to_numpy()})",
        "pd.DataFrame(a, index=close.index, columns=close.columns)",
        "a, close = frame.to_numpy(), frame; pd.DataFrame(a, index=close.index, columns=close.columns)",
    ),
    ("import a_library_of_indicators", "numpy, pandas, talib", "import numpy, pandas, talib"),
]


def test_the_error_has_a_hint_and_what_it_says_runs(subtests: pytest.Subtests) -> None:
    for old, says, new in CASES:
        with subtests.test(old=old):
            told = hint(*raised(old))
            assert says in told
            assert says in new, "the code that runs is what the hint says"
            assert "\n" not in told
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                exec(new.replace("level=...", "level=0"), namespace())


@pytest.mark.parametrize(
    "code",
    [
        "1 / 0",
        "raise ValueError('no trades')",
        "frame.loc['2024-99-01']",
        "frame.iloc[0, 99]",
        "frame.no_such_thing",
        "pd.no_such_thing",
        "frame.std(axis=2)",
        "undefined_name",
        "{}['2024-01-02']",
        "frame.loc['2023-01-03']",
        "int('x')",
        "sorted(frame, keys=1)",
    ],
)
def test_an_error_that_is_no_such_habit_has_none(code: str) -> None:
    assert hint(*raised(code)) == ""


@pytest.mark.parametrize(
    "code",
    [
        "np.NaN",
        "np.float_",
        "snapshot['ohlcv']['volume']",
        "snapshot['close']",
        "GLOBAL_DATA_STATE.update('signal', frame)",
    ],
)
def test_a_message_that_says_itself_what_to_write_is_left_alone(code: str) -> None:
    kind, message, line = raised(code)
    assert "Use `" in message or "there is" in message or "for example" in message
    assert hint(kind, message, line) == ""


def test_what_works_again_has_no_hint() -> None:
    exec("np.bool(1); frame.pct_change(fill_method=None)", namespace())


def test_it_takes_whatever_a_process_sends() -> None:
    assert hint("", "", "") == ""
    assert hint("KeyError", "'" + "x" * 100_000, "\\g<0>") == ""
