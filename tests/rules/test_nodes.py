"""Each node of the language beside plain pandas and TA-Lib, on real prices with suspensions and ex-dates."""

import numpy as np
import pandas as pd
import plain_prices
import pytest
import talib
from plain_prices import own
from tests.rules.conftest import commit_of

from quantgraph.rules import ROWS, RuleEvaluator, make, published, read_condition
from quantgraph.rules._tree import Node, lookback

pytestmark = pytest.mark.filterwarnings("ignore:.*Degrees of freedom:RuntimeWarning")


def by_talib(function, *names):
    """A function of TA-Lib on each stock's own sessions."""

    def frame(bars):
        made = {}
        for code in bars["close"]:
            rows = bars["close"][code].dropna().index
            made[code] = pd.Series(
                function(*(bars[name][code][rows].to_numpy(float) for name in names)), rows
            )
        return pd.DataFrame(made).reindex(bars["close"].index)

    return frame


def of_closes(function):
    return lambda bars: own(bars["adj_close"], function)


def of_hlc(function):
    return by_talib(function, "adj_high", "adj_low", "adj_close")


def ema(n):
    return lambda closes: closes.ewm(span=n, adjust=False).mean().where(np.arange(len(closes)) >= n - 1)


def looped_kdj(part):
    """KDJ as its formula says it, a session after the other."""

    def one(bars):
        made = {}
        for code in bars["close"]:
            rows = bars["close"][code].dropna().index
            high, low, close = (
                bars[f"adj_{name}"][code][rows].to_list() for name in ("high", "low", "close")
            )
            k, d, found = 50.0, 50.0, []
            for at in range(len(rows)):
                if at < 8:
                    found.append(np.nan)
                    continue
                top, floor = max(high[at - 8 : at + 1]), min(low[at - 8 : at + 1])
                k = 2 / 3 * k + 1 / 3 * 100 * (close[at] - floor) / (top - floor)
                d = 2 / 3 * d + 1 / 3 * k
                found.append({"k": k, "d": d, "j": 3 * k - 2 * d}[part])
            made[code] = pd.Series(found, rows)
        return pd.DataFrame(made).reindex(bars["close"].index)

    return one


NEAR = 1 - 1e-9
"""Two computations of an adjusted price may differ by rounding."""


def falls(closes):
    return (closes < NEAR * closes.shift()).astype(float).where(closes.shift().notna())


def slope_of(values):
    return np.polyfit(range(len(values)), values, 1)[0]


def since_of(closes):
    above, found, last = NEAR * closes > closes.rolling(5).mean(), [], None
    for at, holds in enumerate(above):
        last = at if holds else last
        found.append(np.nan if last is None else at - last)
    return pd.Series(found, closes.index)


def first_after_of(closes):
    """The first fall after the last session that rose, session by session."""
    fell, rose = closes < NEAR * closes.shift(), NEAR * closes > closes.shift()
    found, started = [], None
    seen = False
    for at in range(len(closes)):
        found.append(np.nan if started is None or at == 0 else float(fell.iloc[at] and not seen))
        seen = seen or (started is not None and bool(fell.iloc[at]))
        if rose.iloc[at]:
            started, seen = at, False
    return pd.Series(found, closes.index)


def places(frame, session):
    row = frame.loc[session].dropna()
    return {code: sum(other >= value for other in row) for code, value in row.items()}


def ranked(bars):
    growth = own(bars["adj_close"], lambda closes: closes / closes.shift(20) - 1)
    rows = {session: places(growth, session) for session in growth.index}
    return pd.DataFrame.from_dict(rows, orient="index").reindex_like(growth).astype(float)


def rank_percents(bars):
    return ranked(bars).mul(100).div(ranked(bars).notna().sum(axis=1), axis=0)


def averages(bars):
    growth = own(bars["adj_close"], lambda closes: closes / closes.shift(1) - 1)
    return pd.DataFrame(dict.fromkeys(growth, growth.mean(axis=1))).where(bars["close"].notna())


def shares(bars):
    above = own(bars["adj_close"], lambda c: (NEAR * c > c.shift()).astype(float).where(c.shift().notna()))
    return pd.DataFrame(dict.fromkeys(above, above.mean(axis=1))).where(bars["close"].notna())


def dates(number):
    return lambda bars: pd.DataFrame(
        {code: [float(number(day)) for day in bars["close"].index] for code in bars["close"]},
        bars["close"].index,
    ).where(bars["close"].notna())


def nth_in_month(bars):
    days, found = bars["close"].index, []
    for at, day in enumerate(days):
        same = [each for each in days[: at + 1] if (each.year, each.month) == (day.year, day.month)]
        first = (day.year, day.month) == (days[0].year, days[0].month)
        found.append(np.nan if first else float(len(same)))
    return pd.DataFrame(dict.fromkeys(bars["close"], pd.Series(found, days))).where(bars["close"].notna())


def crosses(bars, one, other):
    """Above today, and not above on the stock's session before."""
    made = {}
    for code in bars["close"]:
        closes = bars["adj_close"][code].dropna()
        apart = (closes.rolling(one).mean() - closes.rolling(other).mean()).to_list()
        made[code] = pd.Series(
            [np.nan if np.isnan(now) else float(now > 0 >= was) if not np.isnan(was) else 0.0 if now <= 0 else np.nan
             for was, now in zip([np.nan, *apart], apart, strict=False)],
            closes.index,
        )  # fmt: skip
    return pd.DataFrame(made).reindex(bars["close"].index)


PLAIN = {
    "ago(close, 3)": of_closes(lambda closes: closes.shift(3)),
    "sma(close, 20)": of_closes(lambda closes: closes.rolling(20).mean()),
    "ema(close, 12)": of_closes(ema(12)),
    "std(close, 20)": of_closes(lambda closes: closes.rolling(20).apply(np.std)),
    "highest(high, 20)": lambda bars: own(bars["adj_high"], lambda highs: highs.rolling(20).max()),
    "lowest(low, 20)": lambda bars: own(bars["adj_low"], lambda lows: lows.rolling(20).min()),
    "total(change(close), 5)": of_closes(lambda closes: closes.pct_change().rolling(5).sum()),
    "change(close, 20)": of_closes(lambda closes: closes / closes.shift(20) - 1),
    "zscore(close, 20)": of_closes(lambda c: (c - c.rolling(20).mean()) / c.rolling(20).apply(np.std)),
    "median(close, 9)": of_closes(lambda closes: closes.rolling(9).apply(np.median)),
    "history_percent(close, 9)": of_closes(
        lambda c: c.rolling(9).apply(lambda each: 100 * (NEAR * each <= each[-1]).mean(), raw=True)
    ),
    "abs(change(close, 5))": of_closes(lambda closes: (closes / closes.shift(5) - 1).abs()),
    "value_when(close, close > sma(close, 5))": of_closes(
        lambda c: c.where(NEAR * c > c.rolling(5).mean()).ffill()
    ),
    "was(close < ago(close, 1), 3)": of_closes(lambda closes: falls(closes).shift(3)),
    "slope(close, 10)": of_closes(lambda closes: closes.rolling(10).apply(slope_of)),
    "correlation(close, rsi(14), 20)": of_closes(
        lambda c: c.rolling(20).corr(pd.Series(talib.RSI(c.to_numpy(), 14), c.index))
    ),
    "streak(close < ago(close, 1), 3)": of_closes(lambda c: falls(c).rolling(3).min()),
    "within(close < ago(close, 1), 3)": of_closes(lambda c: falls(c).rolling(3).max()),
    "count(close < ago(close, 1), 10)": of_closes(lambda c: falls(c).rolling(10).sum()),
    "since(close > sma(close, 5))": of_closes(since_of),
    "first_after(close < ago(close, 1), close > ago(close, 1))": of_closes(first_after_of),
    "never()": of_closes(lambda closes: closes * 0),
    "cross_up(sma(close, 5), sma(close, 20))": lambda bars: crosses(bars, 5, 20),
    "cross_down(sma(close, 20), sma(close, 5))": lambda bars: crosses(bars, 5, 20),
    "rank(change(close, 20))": ranked,
    "rank_percent(change(close, 20))": rank_percents,
    "average_of_all(change(close, 1))": averages,
    "share_of_all(close > ago(close, 1))": shares,
    "rsi(14)": by_talib(lambda closes: talib.RSI(closes, 14), "adj_close"),
    "dif(12, 26)": of_closes(lambda c: ema(12)(c) - ema(26)(c)),
    "dea(12, 26, 9)": of_closes(
        lambda c: (ema(12)(c) - ema(26)(c)).dropna().ewm(span=9, adjust=False).mean().iloc[8:]
    ),
    "macd(12, 26, 9)": of_closes(
        lambda c: (
            2 * ((d := (ema(12)(c) - ema(26)(c)).dropna()) - d.ewm(span=9, adjust=False).mean()).iloc[8:]
        )
    ),
    "kdj_k(9, 3)": looped_kdj("k"),
    "kdj_d(9, 3, 3)": looped_kdj("d"),
    "kdj_j(9, 3, 3)": looped_kdj("j"),
    "boll_upper(20, 2)": by_talib(lambda closes: talib.BBANDS(closes, 20, 2, 2)[0], "adj_close"),
    "boll_lower(20, 2)": by_talib(lambda closes: talib.BBANDS(closes, 20, 2, 2)[2], "adj_close"),
    "atr(14)": of_hlc(lambda *bars: talib.ATR(*bars, 14)),
    "cci(14)": of_hlc(lambda *bars: talib.CCI(*bars, 14)),
    "adx(14)": of_hlc(lambda *bars: talib.ADX(*bars, 14)),
    "willr(14)": of_hlc(lambda *bars: talib.WILLR(*bars, 14)),
    "weekday()": dates(lambda day: day.isoweekday()),
    "month()": dates(lambda day: day.month),
    "day()": dates(lambda day: day.day),
}
"""By expression: the same of the price files, without the product."""
BY_VOLUME = {"mfi", "obv"}
"""Compared below, on prices that no ex-date moves."""


def node_of(text):
    """A value by its expression, which is no condition."""
    if text.startswith(("streak", "was", "within", "first_after", "never", "cross")):
        return read_condition(text)
    found = read_condition(f"{text} > 0")
    assert isinstance(found.args[0], Node)
    return found.args[0]


def compared(data, bars, text):
    """The value and the plain one; prices as multiples of the close, which no basis changes."""
    node = node_of(text)
    ours, theirs = data.value(node), PLAIN[text](bars)
    if node.unit == "price":
        ours, theirs = ours / data.value(make("close")), theirs / bars["adj_close"]
    return ours, theirs.reindex(index=ours.index, columns=ours.columns)


@pytest.fixture(scope="module")
def sse_data(sse_50):
    return RuleEvaluator(sse_50.snapshot())


@pytest.fixture(scope="module")
def nasdaq_data(nasdaq_100):
    return RuleEvaluator(nasdaq_100.snapshot())


def test_each_row_is_compared():
    named = {text.partition("(")[0] for text in PLAIN} | BY_VOLUME | {"limit_up", "limit_down", "nth", "left"}
    assert named == {row.name for row in ROWS.values() if row.formula}


@pytest.mark.parametrize("text", PLAIN)
def test_a_node_is_plain_pandas_on_mainland_prices(sse_data, text):
    ours, theirs = compared(sse_data, plain_prices.a_share(), text)
    pd.testing.assert_frame_equal(ours, theirs, rtol=1e-7, atol=1e-9, check_freq=False, check_names=False)


def test_places_in_a_month_are_those_of_the_exchanges_calendar(sse_50, nasdaq_100):
    """The files begin on 2025-01-02 and on 2025-06-10, the first and the seventh session of a month."""
    for store, bars, first in ((sse_50, plain_prices.a_share(), 1), (nasdaq_100, plain_prices.nasdaq(), 7)):
        found = published(store, store.head, ["nth_in_month", "left_in_month"])["indicators"]
        nth, left = (found[f"{kind}_in_month"].iloc[:, 0] for kind in ("nth", "left"))
        counted = nth_in_month(bars).max(axis=1)
        assert nth.iloc[0] == first
        assert (nth - counted).dropna().eq(0).all()
        assert ((left == 0) == (nth.shift(-1) == 1)).iloc[:-1].all()


@pytest.mark.parametrize("text", PLAIN)
def test_a_node_is_plain_pandas_on_us_prices(nasdaq_data, text):
    ours, theirs = compared(nasdaq_data, plain_prices.nasdaq(), text)
    pd.testing.assert_frame_equal(ours, theirs, rtol=1e-7, atol=1e-9, check_freq=False, check_names=False)


def test_volume_indicators_are_ta_libs(nasdaq_data):
    bars = plain_prices.nasdaq()
    names = ("high", "low", "close", "vol")
    mfi = by_talib(lambda *each: talib.MFI(*each, 14), *names)(bars)
    obv = by_talib(talib.OBV, "close", "vol")(bars)
    for node, plain in ((make("mfi", 14.0), mfi), (make("obv"), obv)):
        ours = nasdaq_data.value(node)
        pd.testing.assert_frame_equal(
            ours, plain[ours.columns], rtol=1e-7, check_freq=False, check_names=False
        )


def test_a_close_at_its_limit_is_so_by_the_exchanges_limits_of_the_day():
    snapshot = commit_of("sample").snapshot()
    bars, data = snapshot["ohlcv"], RuleEvaluator(snapshot)
    for node, plain in (
        ("limit_up", bars["close"] >= bars["up_limit"]),
        ("limit_down", bars["close"] <= bars["down_limit"]),
    ):
        assert plain.to_numpy().sum() > 50
        pd.testing.assert_frame_equal(data.value(make(node)) == 1, plain, check_freq=False)


def test_a_lookback_is_where_a_node_begins_to_be_known(nasdaq_data):
    for text in PLAIN:
        node = node_of(text)
        if node.name not in {"since", "first_after", "value_when", "correlation", "adx"}:
            known = nasdaq_data.value(node)["AAPL"].notna().to_numpy()
            assert int(known.argmax()) == lookback(node), text
