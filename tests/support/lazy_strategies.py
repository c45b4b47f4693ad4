"""Honest strategies that import where they need it, as people write them: inside functions, on the way.

A cell sees ``close`` and ``bars``, and makes ``signal``. Row t uses nothing later than t. What it imports is not loaded
yet when the process is sealed, or is loaded only in part.
"""

from __future__ import annotations

import textwrap

__all__ = ["LAZY", "WITH_PACKAGES", "honest_cells"]

_STANDARD_LIBRARY = {
    "statistics": """
        def middle(values):
            import statistics
            return statistics.median(values)
        signal = np.sign(close - close.rolling(7).apply(middle, raw=True))
    """,
    "fractions": """
        def share(values):
            from fractions import Fraction
            return float(Fraction(int((np.diff(values) > 0).sum()), len(values) - 1))
        signal = (close.rolling(6).apply(share, raw=True) > 0.5).astype(float)
    """,
    "itertools": """
        import itertools
        signal = close * 0.0
        for name in close:
            best = list(itertools.accumulate(close[name].fillna(0.0), max))
            signal[name] = np.where(close[name] >= np.array(best), 1.0, 0.0)
    """,
    "zoneinfo": """
        def hours(index):
            from zoneinfo import ZoneInfo
            days = index.tz_localize(ZoneInfo("Asia/Shanghai"))
            return days.tz_convert(ZoneInfo("America/New_York")).hour
        signal = np.sign(close.diff(4)).mul(hours(close.index) == 11, axis=0)
    """,
    "zone_by_name": """
        day = pd.Timestamp(close.index[-1]).tz_localize("Europe/London").tz_convert("Asia/Tokyo")
        signal = np.sign(close.diff(4)) * (1.0 if day.tzname() == "JST" else 0.0)
    """,
    "decimal": """
        def ticks(value):
            from decimal import ROUND_HALF_UP, Decimal
            return float(Decimal(repr(value)).quantize(Decimal("0.1"), ROUND_HALF_UP)) if value == value else np.nan
        signal = np.sign(close.map(ticks).diff(3))
    """,
    "traceback": """
        try:
            close["no such stock"]
        except KeyError:
            import traceback
            print(traceback.format_exc())
        signal = np.sign(close.diff(2))
    """,
    "traceback_of_own_lines": """
        import traceback
        def fails():
            return 1 / 0
        try:
            fails()
        except ZeroDivisionError as error:
            lines = traceback.format_exception(error)
            stack = traceback.extract_tb(error.__traceback__)
        signal = np.sign(close.diff(2)) * float(len(lines) > 1 and stack[-1].name == "fails")
    """,
    "datetime_now": """
        from datetime import datetime, timedelta
        today = datetime.now()
        recent = close.index > pd.Timestamp(today - timedelta(days=7))
        print(today.isoformat(), recent.sum())
        signal = np.sign(close.diff(3))
    """,
    "time_and_calendar": """
        import calendar, time
        print(time.strftime("%Y-%m-%d"), time.time() > 0)
        first = [calendar.weekday(day.year, day.month, 1) for day in close.index]
        signal = np.sign(close.diff(3)).mul(np.array(first) < 5, axis=0)
    """,
    "locale_and_gettext": """
        import gettext, locale
        print(locale.getlocale(), gettext.gettext("buy"), locale.format_string("%.2f", 1.5))
        signal = np.sign(close.diff(3))
    """,
    "dataclasses": """
        from dataclasses import asdict, dataclass, replace
        @dataclass(frozen=True)
        class Setting:
            fast: int = 3
            slow: int = 8
        setting = replace(Setting(), slow=9)
        print(asdict(setting))
        signal = np.sign(close.rolling(setting.fast).mean() - close.rolling(setting.slow).mean())
    """,
    "functools": """
        import functools
        @functools.lru_cache
        def mean(days):
            return close.rolling(days).mean()
        signal = functools.reduce(lambda a, b: a + b, [np.sign(close - mean(days)) for days in (3, 5, 9)])
        signal = np.sign(signal)
    """,
    "logging": """
        import logging
        log = logging.getLogger("strategy")
        logging.basicConfig(level=logging.INFO)
        log.info("%d sessions", len(close))
        signal = np.sign(close.diff(5))
    """,
    "warnings": """
        import warnings
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            warnings.warn("few sessions", RuntimeWarning)
        warnings.filterwarnings("ignore")
        signal = np.sign(close.diff(5)) * len(caught)
    """,
    "json": """
        import json
        setting = json.loads(json.dumps({"days": 6, "names": list(close)}))
        signal = np.sign(close[setting["names"]].diff(setting["days"]))
    """,
    "re": """
        import re
        shanghai = [bool(re.fullmatch(r"60[0-9]{4}[.]SH", name)) for name in close]
        signal = np.sign(close.diff(5)).mul(np.array(shanghai, float), axis=1)
    """,
    "collections": """
        from collections import Counter, OrderedDict, defaultdict, deque
        signal, seen = close * 0.0, defaultdict(Counter)
        for name in close:
            last = deque(maxlen=5)
            for day, price in close[name].items():
                last.append(price)
                seen[name][price >= max(last)] += 1
                signal.loc[day, name] = float(price >= max(last))
        print(OrderedDict(seen))
    """,
    "bisect": """
        import bisect
        signal = close * 0.0
        for name in close:
            prices = []
            for day, price in close[name].dropna().items():
                place = bisect.bisect_left(prices, price)
                signal.loc[day, name] = 1.0 if place > 0.8 * len(prices) else 0.0
                bisect.insort(prices, price)
    """,
    "heapq": """
        import heapq
        signal = close * 0.0
        for day, row in close.pct_change(5, fill_method=None).iterrows():
            for name in heapq.nlargest(1, row.dropna().index, key=row.get):
                signal.loc[day, name] = 1.0
    """,
    "math": """
        import cmath, math
        turn = [math.sin(2 * math.pi * number / 20) + abs(cmath.exp(0j)) - 1 for number in range(len(close))]
        signal = np.sign(close.diff(2)).mul(np.sign(turn), axis=0)
    """,
    "random_seeded": """
        import random
        coin = random.Random(11)
        signal = np.sign(close.diff(2)).mul([float(coin.random() < 0.5) for _ in range(len(close))], axis=0)
    """,
    "numpy_random_seeded": """
        draws = np.random.default_rng(5).random((len(close), close.shape[1]))
        signal = np.sign(close.diff(2)).where(draws > 0.3, 0.0)
    """,
    "string_and_textwrap": """
        import string, textwrap
        line = string.Template("$n sessions of $m stocks").substitute(n=len(close), m=close.shape[1])
        print(textwrap.fill(line, 12), string.capwords("buy and hold"))
        signal = np.sign(close.diff(4))
    """,
    "typing_and_enum": """
        from enum import Enum, IntEnum
        from typing import NamedTuple, TypedDict
        class Side(IntEnum):
            SELL = -1
            FLAT = 0
            BUY = 1
        class Rule(NamedTuple):
            days: int
            side: Side
        rule = Rule(4, Side.BUY)
        signal = (close > close.shift(rule.days)).astype(float) * rule.side
    """,
    "copy_and_pickle": """
        import copy, pickle
        kept = pickle.loads(pickle.dumps(copy.deepcopy(close)))
        signal = np.sign(kept.diff(3))
    """,
    "string_io": """
        import io
        table = pd.read_csv(io.StringIO("day,weight\\n0,1\\n1,0\\n2,1\\n3,1\\n4,0\\n")).set_index("day")
        signal = np.sign(close.diff(3)).mul(table["weight"].reindex(close.index.dayofweek).to_numpy(), axis=0)
    """,
    "csv_and_bytes": """
        import base64, csv, io, zlib
        page = io.StringIO()
        csv.writer(page).writerows(close.tail(3).to_numpy())
        packed = base64.b64encode(zlib.compress(page.getvalue().encode()))
        print(len(packed))
        signal = np.sign(close.diff(3))
    """,
    "hashlib_and_uuid": """
        import hashlib, uuid
        even = [hashlib.sha256(str(day.date()).encode()).digest()[0] % 2 == 0 for day in close.index]
        print(uuid.uuid5(uuid.NAMESPACE_DNS, "strategy"))
        signal = np.sign(close.diff(3)).mul(even, axis=0)
    """,
    "tables_in_memory": """
        import contextlib, sqlite3
        with contextlib.closing(sqlite3.connect(":memory:")) as table:
            days = table.execute("select 2 + 3").fetchone()[0]
        signal = np.sign(close.diff(days))
    """,
    "settings_as_text": """
        import configparser, tomllib
        from xml.etree import ElementTree
        days = tomllib.loads("days = 4")["days"]
        more = configparser.ConfigParser()
        more.read_string("[rule]\\nmore = 2")
        one = int(ElementTree.fromstring("<rule>1</rule>").text)
        signal = np.sign(close.diff(days + more.getint("rule", "more") + one))
    """,
    "graphs_and_colours": """
        import colorsys, graphlib, ipaddress
        order = list(graphlib.TopologicalSorter({"signal": {"mean"}, "mean": {"close"}}).static_order())
        assert order == ["close", "mean", "signal"] and colorsys.rgb_to_hls(0, 0, 0)[1] == 0
        signal = np.sign(close.diff(3))
    """,
    "measured": """
        import cProfile, timeit, tracemalloc
        profile = cProfile.Profile()
        signal = profile.runcall(lambda: np.sign(close.diff(3)))
        print(timeit.timeit("1 + 1", number=3) >= 0)
    """,
    "tested": """
        import doctest, unittest
        from unittest import mock
        rule = mock.Mock(return_value=3)
        unittest.TestCase().assertEqual(doctest.testmod.__name__, "testmod")
        signal = np.sign(close.diff(rule()))
    """,
    "operator_and_contextlib": """
        import contextlib, operator
        signal = close * 0.0
        with contextlib.suppress(ZeroDivisionError):
            signal = operator.gt(close, close.shift(3)).astype(float)
            1 / 0
    """,
    "inspect_and_ast": """
        import ast, inspect
        def rule(days: int = 4):
            return np.sign(close.diff(days))
        days = inspect.signature(rule).parameters["days"].default
        signal = rule(ast.literal_eval(repr(days)))
    """,
    "abc_and_types": """
        import abc, types
        class Rule(abc.ABC):
            @abc.abstractmethod
            def side(self): ...
        class Rising(Rule):
            def side(self):
                return (close > close.shift(1)).astype(float)
        signal = types.SimpleNamespace(rule=Rising()).rule.side()
    """,
    "numbers_and_array": """
        import array, numbers, struct
        signal = close * 0.0
        for name in close:
            path = array.array("d", close[name].ffill().fillna(0.0))
            assert isinstance(path[0], numbers.Real) and struct.calcsize("d") == path.itemsize
            signal[name] = [float(n > 2 and path[n] > path[n - 3]) for n in range(len(path))]
    """,
    "threads": """
        from concurrent.futures import ThreadPoolExecutor
        with ThreadPoolExecutor(2) as pool:
            parts = list(pool.map(lambda days: np.sign(close.diff(days)), (2, 3, 5)))
        signal = np.sign(sum(parts))
    """,
    "pprint_and_difflib": """
        import difflib, pprint
        pprint.pprint(dict(zip(close, range(9))))
        print(difflib.get_close_matches("600000", list(close)))
        signal = np.sign(close.diff(3))
    """,
    "paths_and_urls": """
        import pathlib, posixpath, urllib.parse
        print(pathlib.PurePosixPath("out") / "signal.csv", urllib.parse.quote("买入"), posixpath.join("a", "b"))
        signal = np.sign(close.diff(3))
    """,
    "weakref_and_gc": """
        import gc, weakref
        class Rule:
            days = 3
        rule = Rule()
        signal = np.sign(close.diff(weakref.ref(rule)().days))
        gc.collect()
    """,
    "encodings": """
        import codecs, html, unicodedata
        print(codecs.encode("buy", "rot13"), html.escape("<buy>"), unicodedata.name("买"), "买".encode("gb18030"))
        signal = np.sign(close.diff(3))
    """,
}
_LIBRARIES = {
    "offsets": """
        def month_ends(index):
            from pandas.tseries.offsets import BMonthEnd
            return index == index + BMonthEnd(0)
        signal = np.sign(close.diff(10)).mul(month_ends(close.index), axis=0).fillna(0.0)
    """,
    "business_days": """
        from pandas.tseries.holiday import AbstractHolidayCalendar, Holiday, nearest_workday
        from pandas.tseries.offsets import CustomBusinessDay
        class Ours(AbstractHolidayCalendar):
            rules = [Holiday("May", month=5, day=1, observance=nearest_workday)]
        days = pd.date_range(close.index[0], close.index[-1], freq=CustomBusinessDay(calendar=Ours()))
        signal = np.sign(close.diff(2)).mul(close.index.isin(days), axis=0)
    """,
    "indexers": """
        from pandas.api.indexers import VariableOffsetWindowIndexer
        window = VariableOffsetWindowIndexer(index=close.index, offset=pd.offsets.BDay(4))
        signal = np.sign(close - close.rolling(window, min_periods=1).mean())
    """,
    "api_types": """
        from pandas.api.types import CategoricalDtype, is_numeric_dtype
        side = CategoricalDtype(["down", "flat", "up"], ordered=True)
        signal = close * 0.0
        for name in close:
            assert is_numeric_dtype(close[name])
            words = pd.Series(np.where(close[name].diff() > 0, "up", "down"), close.index).astype(side)
            signal[name] = words.cat.codes - 1.0
    """,
    "linalg": """
        from numpy.linalg import lstsq
        def slope(values):
            days = np.column_stack([np.ones(len(values)), np.arange(len(values))])
            return lstsq(days, values, rcond=None)[0][1]
        signal = np.sign(close.rolling(8).apply(slope, raw=True).round(6))
    """,
    "fft": """
        def slow_part(values):
            import numpy.fft
            waves = numpy.fft.rfft(values)
            waves[3:] = 0
            return numpy.fft.irfft(waves, len(values))[-1]
        signal = np.sign((close - close.rolling(16).apply(slow_part, raw=True)).round(6))
    """,
    "polynomial": """
        def bend(values):
            from numpy.polynomial import Polynomial
            return Polynomial.fit(np.arange(len(values)), values, 2).convert().coef[-1]
        signal = np.sign(close.rolling(9).apply(bend, raw=True).round(6))
    """,
    "masked_and_strided": """
        import numpy.ma as ma
        from numpy.lib.stride_tricks import sliding_window_view
        seen = ma.masked_invalid(close.to_numpy())
        signal = close * 0.0
        if len(close) > 4:
            windows = sliding_window_view(seen.filled(0.0), 5, axis=0)
            signal.iloc[4:] = (windows[..., -1] >= windows.max(axis=-1)).astype(float)
    """,
    "numpy_parts": """
        import numpy.char, numpy.testing
        from numpy.exceptions import ComplexWarning
        numpy.testing.assert_allclose([1.0], [1.0])
        signal = np.sign(close.diff(3)).mul(numpy.char.endswith(list(close), ".SH"), axis=1)
    """,
    "pandas_parts": """
        from pandas.core.window.rolling import Rolling
        from pandas.errors import EmptyDataError
        from pandas.testing import assert_frame_equal
        assert_frame_equal(close, close.copy())
        signal = np.sign(close.diff(3)) * float(isinstance(close.rolling(2), Rolling))
    """,
    "parquet_in_memory": """
        import io
        page = io.BytesIO()
        close.to_parquet(page)
        signal = np.sign(pd.read_parquet(io.BytesIO(page.getvalue())).diff(3))
    """,
    "json_and_pickle_of_frames": """
        import io
        table = pd.read_json(io.StringIO(close.reset_index(drop=True).to_json(double_precision=15)))
        page = io.BytesIO()
        close.to_pickle(page)
        signal = np.sign(pd.read_pickle(io.BytesIO(page.getvalue())).diff(3)) * float(len(table) == len(close))
    """,
    "talib": """
        import talib
        from talib import abstract
        signal = close.apply(lambda prices: np.sign(prices - talib.SMA(prices.to_numpy(), 6)))
        print(abstract.Function("RSI").info["name"])
    """,
    "resampled_weeks": """
        weekly = close.resample("W-FRI").last().shift(1)
        last = weekly.reindex(close.index, method="ffill")
        signal = np.sign(close - last)
    """,
    "relativedelta": """
        from dateutil import parser
        from dateutil.relativedelta import relativedelta
        begun = parser.parse("2024-01-02") + relativedelta(months=1)
        signal = np.sign(close.diff(3)).mul(close.index >= begun, axis=0)
    """,
    "arrow": """
        import pyarrow as pa
        import pyarrow.compute as pc
        signal = close * 0.0
        for name in close:
            rises = pc.greater(pa.array(close[name].to_numpy()), pa.array(close[name].shift(2).to_numpy()))
            signal[name] = np.array(rises.to_pylist(), float)
    """,
    "evaluated_text": """
        signal = close * 0.0
        for name in close:
            table = pd.DataFrame({"price": close[name], "mean": close[name].rolling(5).mean()})
            signal[name] = table.eval("price > mean").astype(float)
    """,
    "styled_text": """
        print(close.tail(2).to_json(), close.tail(2).to_html(), close.tail(2).to_string(), sep="\\n")
        signal = np.sign(close.diff(3))
    """,
}

LAZY: tuple[tuple[str, str], ...] = tuple((_STANDARD_LIBRARY | _LIBRARIES).items())
"""Name and cell, with the packages that are always there."""

_SCIPY = {
    "scipy_stats": """
        def place(values):
            from scipy import stats
            return stats.percentileofscore(values, values[-1])
        signal = (close.rolling(10).apply(place, raw=True) > 80).astype(float)
    """,
    "scipy_signal": """
        from scipy.signal import lfilter
        smooth = lfilter([0.2], [1.0, -0.8], close.ffill().fillna(0.0).to_numpy(), axis=0)
        signal = pd.DataFrame(np.sign((close.to_numpy() - smooth).round(6)), close.index, close.columns)
    """,
    "scipy_optimize": """
        def level(values):
            from scipy.optimize import minimize_scalar
            found = minimize_scalar(lambda at: np.abs(values - at).sum(), bounds=(values.min(), values.max()), method="bounded")
            return found.x
        signal = np.sign((close - close.rolling(8).apply(level, raw=True)).round(2))
    """,
    "scipy_linalg_and_spatial": """
        import scipy.linalg
        from scipy.spatial.distance import cdist
        assert scipy.linalg.det(np.eye(3)) == 1 and cdist([[0.0]], [[3.0]])[0, 0] == 3
        signal = np.sign(close.diff(4))
    """,
    "scipy_interpolate_and_special": """
        from scipy.interpolate import CubicSpline
        from scipy.special import expit
        weight = expit(CubicSpline([0, 1, 2], [0.0, 1.0, 4.0])(1.5))
        signal = np.sign(close.diff(4)) * float(weight > 0.5)
    """,
}
_SKLEARN = {
    "sklearn_linear_model": """
        from sklearn.linear_model import Ridge
        signal, known = close * 0.0, close.pct_change(fill_method=None).fillna(0.0).to_numpy()
        for row in range(20, len(close)):
            fit = Ridge(alpha=1.0).fit(known[row - 19 : row], known[row - 18 : row + 1])
            signal.iloc[row] = np.sign(fit.predict(known[[row]])[0].round(9))
    """,
    "sklearn_tree": """
        from sklearn.tree import DecisionTreeClassifier
        signal, known = close * 0.0, close.pct_change(fill_method=None).fillna(0.0).to_numpy()
        for row in range(30, len(close), 5):
            rises = known[row - 24 : row + 1, 0] > 0
            if rises.any() and not rises.all():
                tree = DecisionTreeClassifier(max_depth=2, random_state=0).fit(known[row - 25 : row], rises)
                signal.iloc[row, 0] = float(tree.predict(known[[row]])[0])
    """,
    "sklearn_preprocessing_and_pipeline": """
        from sklearn.decomposition import PCA
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler
        signal, known = close * 0.0, close.pct_change(fill_method=None).fillna(0.0).to_numpy()
        for row in range(25, len(close), 4):
            steps = make_pipeline(StandardScaler(), PCA(1, svd_solver="full")).fit(known[: row + 1])
            signal.iloc[row] = float(abs(steps.transform(known[[row]])[0, 0]) > 0.2)
    """,
}
_STATSMODELS = {
    "statsmodels_ols": """
        import statsmodels.api as sm
        signal = close * 0.0
        for row in range(20, len(close), 3):
            window = close.iloc[row - 19 : row + 1, 0].ffill().bfill().to_numpy()
            signal.iloc[row, 0] = np.sign(sm.OLS(window, sm.add_constant(np.arange(20.0))).fit().params[1].round(9))
    """,
    "statsmodels_smoothing": """
        from statsmodels.tsa.holtwinters import SimpleExpSmoothing
        signal = close * 0.0
        for row in range(20, len(close), 5):
            window = close.iloc[row - 19 : row + 1, 0].ffill().bfill().to_numpy()
            fit = SimpleExpSmoothing(window, initialization_method="known", initial_level=window[0])
            level = fit.fit(smoothing_level=0.3, optimized=False).level[-1]
            signal.iloc[row, 0] = np.sign(round(window[-1] - level, 6))
    """,
}

WITH_PACKAGES: tuple[tuple[str, str, str], ...] = (
    *(("scipy", *pair) for pair in _SCIPY.items()),
    *(("sklearn", *pair) for pair in _SKLEARN.items()),
    *(("statsmodels", *pair) for pair in _STATSMODELS.items()),
)
"""Package, name and cell."""


def honest_cells(cell: str) -> tuple[str, ...]:
    """The cell as it is run."""
    begin = 'bars = snapshot["ohlcv"]\nclose = bars["close"]\n'
    return (begin + textwrap.dedent(cell) + '\nGLOBAL_DATA_STATE.update("signal", {"s": signal})',)
