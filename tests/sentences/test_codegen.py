"""The signal of every family of rules, cell for cell against plain loops written here.

The loops are over the sessions on which a symbol traded.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd
import pytest
from tests.sentences.cell_panels import signal_of

from quantgraph.sentences._request import RequestContext, read_request
from quantgraph.sentences._rules import Code, write_code

Numbers = list[float | None]
Truths = list[bool | None]
SESSIONS = 150


def frozen(frame: pd.DataFrame) -> pd.DataFrame:
    values = frame.to_numpy().copy()
    values.setflags(write=False)
    return pd.DataFrame(values, index=frame.index, columns=frame.columns, copy=False)


def make_panel() -> dict[str, dict[str, pd.DataFrame]]:
    """Six symbols: a wave, walks, one with suspensions, one listed late, one that steps evenly."""
    rng = np.random.default_rng(7)
    index = pd.bdate_range("2024-01-02", periods=SESSIONS, name="trade_date").as_unit("us")
    columns = ["000001.SZ", "000002.SZ", "300001.SZ", "600000.SH", "600519.SH", "601318.SH"]
    steps = np.arange(SESSIONS)
    close = pd.DataFrame(
        10 * np.exp(np.cumsum(rng.normal(0, 0.02, (SESSIONS, len(columns))), axis=0)),
        index=index,
        columns=columns,
    ).round(2)
    close.iloc[:, 0] = (20 + 5 * np.sin(steps / 6)).round(2)
    close.iloc[:, 5] = 10.0 + (steps // 10) % 4
    spread = rng.uniform(0.005, 0.03, close.shape)
    high, low = (close * (1 + spread)).round(2), (close * (1 - spread)).round(2)
    vol = pd.DataFrame(np.exp(rng.normal(8, 0.7, close.shape)).round(0), index=index, columns=columns)
    pe = pd.DataFrame(rng.uniform(5, 40, close.shape).round(1), index=index, columns=columns)
    pb = pd.DataFrame(rng.uniform(0.5, 6, close.shape).round(1), index=index, columns=columns)
    turnover = pd.DataFrame(rng.uniform(0.2, 6, close.shape).round(2), index=index, columns=columns)
    pe.iloc[40:60, 1] = np.nan
    pb.iloc[:, 2] = pb.iloc[:, 3]
    for frame in (close, high, low, vol):
        frame.iloc[50:56, 3] = np.nan
        frame.iloc[80, 3] = np.nan
        frame.iloc[:30, 4] = np.nan
    ohlcv = {"close": close, "high": high, "low": low, "vol": vol}
    indicators = {"pe": pe, "pb": pb, "turnover_rate": turnover}
    return {
        "ohlcv": {name: frozen(frame) for name, frame in ohlcv.items()},
        "indicators": {name: frozen(frame) for name, frame in indicators.items()},
    }


PANEL = make_panel()
COLUMNS = list(PANEL["ohlcv"]["close"].columns)


def code_of(sentence: str) -> Code:
    request = read_request(sentence, RequestContext())
    assert request.strategy is not None, request.unparsed
    return write_code(request.strategy)


def run(code: Code, panel: dict[str, dict[str, pd.DataFrame]]) -> pd.DataFrame:
    return signal_of(code.source, panel)


def cut(panel: dict[str, dict[str, pd.DataFrame]], rows: int) -> dict[str, dict[str, pd.DataFrame]]:
    return {
        name: {field: frame.iloc[:rows] for field, frame in frames.items()} for name, frames in panel.items()
    }


# The independent side: lists of numbers with None for what is not known.


def column(field: str, symbol: str) -> Numbers:
    """The values of a field on the sessions of a symbol."""
    frames = PANEL["ohlcv"] if field in PANEL["ohlcv"] else PANEL["indicators"]
    values = frames[field][symbol][traded(symbol)]
    return [None if math.isnan(value) else value for value in values.tolist()]


def traded(symbol: str) -> pd.Series:
    return PANEL["ohlcv"]["close"][symbol].notna()


def over_windows(values: Numbers, n: int, how: Callable[[list[float]], float]) -> Numbers:
    result: Numbers = []
    for t in range(len(values)):
        window = values[t - n + 1 : t + 1] if t >= n - 1 else [None]
        result.append(how(window) if all(value is not None for value in window) else None)
    return result


def sma(values: Numbers, n: int) -> Numbers:
    return over_windows(values, n, lambda window: math.fsum(window) / n)


def ema(values: Numbers, n: int) -> Numbers:
    result: Numbers = []
    seen, level = 0, 0.0
    for value in values:
        if value is None:
            result.append(None)
            continue
        seen += 1
        level = value if seen == 1 else level + (value - level) * 2 / (n + 1)
        result.append(level if seen >= n else None)
    return result


def minus(a: Numbers, b: Numbers) -> Numbers:
    return [None if x is None or y is None else x - y for x, y in zip(a, b, strict=True)]


def times(factor: float, values: Numbers) -> Numbers:
    return [None if value is None else factor * value for value in values]


def macd(values: Numbers, fast: int = 12, slow: int = 26, signal: int = 9) -> tuple[Numbers, Numbers]:
    dif = minus(ema(values, fast), ema(values, slow))
    return dif, ema(dif, signal)


def rsi(values: Numbers, n: int) -> Numbers:
    result: Numbers = [None] * len(values)
    known = [(t, value) for t, value in enumerate(values) if value is not None]
    up = down = 0.0
    for place in range(1, len(known)):
        change = known[place][1] - known[place - 1][1]
        gain, loss = max(change, 0.0), max(-change, 0.0)
        if place <= n:
            up, down = up + gain / n, down + loss / n
        else:
            up, down = (up * (n - 1) + gain) / n, (down * (n - 1) + loss) / n
        if place >= n:
            result[known[place][0]] = 100 * up / (up + down) if up + down > 1e-12 else 0.0
    return result


def bollinger(values: Numbers, n: int, k: float, sign: int) -> Numbers:
    def band(window: list[float]) -> float:
        mean = math.fsum(window) / n
        return mean + sign * k * math.sqrt(math.fsum((x - mean) ** 2 for x in window) / n)

    return over_windows(values, n, band)


def kdj(symbol: str, n: int = 9, a: int = 3, b: int = 3) -> tuple[Numbers, Numbers, Numbers]:
    close, high, low = (column(field, symbol) for field in ("close", "high", "low"))
    top, floor = over_windows(high, n, max), over_windows(low, n, min)
    k, d = 50.0, 50.0
    ks, ds, js = [], [], []
    for price, ceiling, ground in zip(close, top, floor, strict=True):
        if price is None or ceiling is None or ground is None or ceiling == ground:
            for line in (ks, ds, js):
                line.append(None)
            continue
        k = k * (a - 1) / a + 100 * (price - ground) / (ceiling - ground) / a
        d = d * (b - 1) / b + k / b
        ks.append(k)
        ds.append(d)
        js.append(3 * k - 2 * d)
    return ks, ds, js


def change(values: Numbers, n: int) -> Numbers:
    return [
        None if t < n or values[t] is None or values[t - n] is None else values[t] / values[t - n] - 1
        for t in range(len(values))
    ]


def before(values: Numbers, n: int, how: Callable[[list[float]], float]) -> Numbers:
    return [None, *over_windows(values, n, how)[:-1]]


def compare(a: Numbers, op: str, b: Numbers | float) -> Truths:
    others = b if isinstance(b, list) else [b] * len(a)
    tests = {
        ">": lambda x, y: x > y,
        "<": lambda x, y: x < y,
        ">=": lambda x, y: x >= y,
        "<=": lambda x, y: x <= y,
    }
    return [None if x is None or y is None else tests[op](x, y) for x, y in zip(a, others, strict=True)]


def cross(a: Numbers, direction: str, b: Numbers | float) -> Truths:
    now = compare(a, ">" if direction == "up" else "<", b)
    return both(now, negate([None, *now[:-1]]))


def rank(
    field: Callable[[str], Numbers], symbol: str, side: str, inside: Callable[[int, int], bool]
) -> Truths:
    """The place is the number of symbols that are at least as good, so ties count against both."""
    days = {name: PANEL["ohlcv"]["close"].index[traded(name)] for name in COLUMNS}
    table = {name: dict(zip(days[name], field(name), strict=True)) for name in COLUMNS}
    result: Truths = []
    for day in days[symbol]:
        mine = table[symbol][day]
        others = [table[name][day] for name in COLUMNS if table[name].get(day) is not None]
        if mine is None:
            result.append(None)
            continue
        place = sum(other >= mine if side == "top" else other <= mine for other in others)
        result.append(inside(place, len(others)))
    return result


def both(*parts: Truths) -> Truths:
    """Where all hold: a part that does not hold is enough to know."""
    return [False if False in row else None if None in row else True for row in zip(*parts, strict=True)]


def either(*parts: Truths) -> Truths:
    return negate(both(*map(negate, parts)))


def negate(part: Truths) -> Truths:
    return [None if truth is None else not truth for truth in part]


def c(symbol: str) -> Numbers:
    return column("close", symbol)


def v(symbol: str) -> Numbers:
    return column("vol", symbol)


Oracle = Callable[[str], tuple[Truths, Truths]]


def share(percent: int) -> Callable[[int, int], bool]:
    return lambda place, count: 100 * place <= percent * count


def momentum(n: int) -> Callable[[str], Numbers]:
    return lambda symbol: change(c(symbol), n)


def indicator(name: str) -> Callable[[str], Numbers]:
    return lambda symbol: column(name, symbol)


CASES: dict[str, tuple[str, Oracle]] = {
    "sma cross": (
        "5日均线上穿20日均线买入，下穿卖出",
        lambda s: (cross(sma(c(s), 5), "up", sma(c(s), 20)), cross(sma(c(s), 5), "down", sma(c(s), 20))),
    ),
    "sma state": (
        "buy when the 5-day SMA is above the 20-day SMA, sell when it is below",
        lambda s: (compare(sma(c(s), 5), ">", sma(c(s), 20)), compare(sma(c(s), 5), "<", sma(c(s), 20))),
    ),
    "ema cross": (
        "EMA12上穿EMA26买入，下穿卖出",
        lambda s: (cross(ema(c(s), 12), "up", ema(c(s), 26)), cross(ema(c(s), 12), "down", ema(c(s), 26))),
    ),
    "price and average": (
        "收盘价站上30日均线买入，跌破10日均线卖出",
        lambda s: (compare(c(s), ">", sma(c(s), 30)), compare(c(s), "<", sma(c(s), 10))),
    ),
    "price crosses average": (
        "收盘价上穿20日均线买入",
        lambda s: (cross(c(s), "up", sma(c(s), 20)), cross(c(s), "down", sma(c(s), 20))),
    ),
    "macd": (
        "MACD金叉买入，死叉卖出",
        lambda s: (cross(macd(c(s))[0], "up", macd(c(s))[1]), cross(macd(c(s))[0], "down", macd(c(s))[1])),
    ),
    "macd parameters": (
        "MACD(6,13,5) golden cross buy, death cross sell",
        lambda s: (
            cross(macd(c(s), 6, 13, 5)[0], "up", macd(c(s), 6, 13, 5)[1]),
            cross(macd(c(s), 6, 13, 5)[0], "down", macd(c(s), 6, 13, 5)[1]),
        ),
    ),
    "dif and zero": (
        "DIF上穿零轴买入，DIF低于0卖出",
        lambda s: (cross(macd(c(s))[0], "up", 0.0), compare(macd(c(s))[0], "<", 0.0)),
    ),
    "rsi": (
        "RSI(14)低于45买入，高于55卖出",
        lambda s: (compare(rsi(c(s), 14), "<", 45.0), compare(rsi(c(s), 14), ">", 55.0)),
    ),
    "rsi cross": (
        "6日RSI上穿30买入，下穿70卖出",
        lambda s: (cross(rsi(c(s), 6), "up", 30.0), cross(rsi(c(s), 6), "down", 70.0)),
    ),
    "bollinger reversion": (
        "布林带(20,1.5)跌破下轨买入，突破上轨卖出",
        lambda s: (
            compare(c(s), "<", bollinger(c(s), 20, 1.5, -1)),
            compare(c(s), ">", bollinger(c(s), 20, 1.5, 1)),
        ),
    ),
    "bollinger breakout": (
        "股价上穿布林带上轨买入，跌破中轨卖出",
        lambda s: (cross(c(s), "up", bollinger(c(s), 20, 2, 1)), compare(c(s), "<", sma(c(s), 20))),
    ),
    "kdj cross": (
        "KDJ金叉买入，死叉卖出",
        lambda s: (cross(kdj(s)[0], "up", kdj(s)[1]), cross(kdj(s)[0], "down", kdj(s)[1])),
    ),
    "kdj threshold": (
        "J值低于0买入，K值高于80卖出",
        lambda s: (compare(kdj(s)[2], "<", 0.0), compare(kdj(s)[0], ">", 80.0)),
    ),
    "momentum threshold": (
        "20日涨幅超过5%买入，20日跌幅超过3%卖出",
        lambda s: (compare(change(c(s), 20), ">", 0.05), compare(change(c(s), 20), "<", -0.03)),
    ),
    "momentum share": (
        "动量前34%买入，后34%卖出",
        lambda s: (rank(momentum(20), s, "top", share(34)), rank(momentum(20), s, "bottom", share(34))),
    ),
    "momentum number": (
        "buy the top 2 by 10-day return",
        lambda s: (
            rank(momentum(10), s, "top", lambda place, _: place <= 2),
            negate(rank(momentum(10), s, "top", lambda place, _: place <= 2)),
        ),
    ),
    "breakout": (
        "突破20日新高买入，跌破10日新低卖出",
        lambda s: (
            compare(c(s), ">", before(column("high", s), 20, max)),
            compare(c(s), "<", before(column("low", s), 10, min)),
        ),
    ),
    "volume": (
        "volume above 1.5x its 20-day average buy, volume below its 5-day average sell",
        lambda s: (compare(v(s), ">", times(1.5, sma(v(s), 20))), compare(v(s), "<", sma(v(s), 5))),
    ),
    "valuation": (
        "市盈率低于15买入，市盈率不低于30卖出",
        lambda s: (compare(column("pe", s), "<", 15.0), compare(column("pe", s), ">=", 30.0)),
    ),
    "turnover": (
        "换手率大于3%买入，低于1%卖出",
        lambda s: (
            compare(column("turnover_rate", s), ">", 3.0),
            compare(column("turnover_rate", s), "<", 1.0),
        ),
    ),
    "valuation rank": (
        "市净率最低的34%买入，最高的34%卖出",
        lambda s: (rank(indicator("pb"), s, "bottom", share(34)), rank(indicator("pb"), s, "top", share(34))),
    ),
    "and, or": (
        "市盈率低于20且收盘价高于20日均线买入，市盈率高于30或收盘价低于20日均线卖出",
        lambda s: (
            both(compare(column("pe", s), "<", 20.0), compare(c(s), ">", sma(c(s), 20))),
            either(compare(column("pe", s), ">", 30.0), compare(c(s), "<", sma(c(s), 20))),
        ),
    ),
    "filter beside an event": (
        "5日均线上穿20日均线且成交量高于5日均量买入",
        lambda s: (
            both(cross(sma(c(s), 5), "up", sma(c(s), 20)), compare(v(s), ">", sma(v(s), 5))),
            cross(sma(c(s), 5), "down", sma(c(s), 20)),
        ),
    ),
    "brackets and not": (
        "(RSI低于40或J低于10)且市净率不在最高的50%买入，收盘价高于20日均线卖出",
        lambda s: (
            both(
                either(compare(rsi(c(s), 14), "<", 40.0), compare(kdj(s)[2], "<", 10.0)),
                negate(rank(indicator("pb"), s, "top", share(50))),
            ),
            compare(c(s), ">", sma(c(s), 20)),
        ),
    ),
    "otherwise": (
        "5日均线高于20日均线买入，否则卖出",
        lambda s: (
            compare(sma(c(s), 5), ">", sma(c(s), 20)),
            negate(compare(sma(c(s), 5), ">", sma(c(s), 20))),
        ),
    ),
}


def cross_10_30(symbol: str) -> tuple[Truths, Truths]:
    short, long = sma(c(symbol), 10), sma(c(symbol), 30)
    return cross(short, "up", long), cross(short, "down", long)


TALK: dict[str, tuple[str, Oracle]] = {
    sentence: (sentence, oracle)
    for sentence, oracle in {
        "10/30 golden cross": cross_10_30,
        "10日30日黄金交叉买入，死亡交叉卖出": cross_10_30,
        "dual moving average 10/30": cross_10_30,
        "双均线10/30": cross_10_30,
        "buy when the close is below its 20-day mean, sell when above": lambda s: (
            compare(c(s), "<", sma(c(s), 20)),
            compare(c(s), ">", sma(c(s), 20)),
        ),
        "buy when price is 1.5 standard deviations below its 20-day average, sell when it is above its 20-day mean": lambda s: (
            compare(c(s), "<", bollinger(c(s), 20, 1.5, -1)),
            compare(c(s), ">", sma(c(s), 20)),
        ),
        "收盘价低于20日均线1.5倍标准差买入，高于20日均线1.2个标准差卖出": lambda s: (
            compare(c(s), "<", bollinger(c(s), 20, 1.5, -1)),
            compare(c(s), ">", bollinger(c(s), 20, 1.2, 1)),
        ),
        "buy when price breaks its 20-day high, sell when it breaks its 10-day low": lambda s: (
            compare(c(s), ">", before(column("high", s), 20, max)),
            compare(c(s), "<", before(column("low", s), 10, min)),
        ),
        "buy the two stocks with the highest 10-day return": lambda s: (
            rank(momentum(10), s, "top", lambda place, _: place <= 2),
            negate(rank(momentum(10), s, "top", lambda place, _: place <= 2)),
        ),
    }.items()
}
"""Ordinary talk beside the sentences of the family."""


def expected(oracle: Oracle) -> pd.DataFrame:
    close = PANEL["ohlcv"]["close"]
    frame = pd.DataFrame(np.nan, index=close.index, columns=close.columns)
    for symbol in COLUMNS:
        entry, leave = oracle(symbol)
        frame.loc[traded(symbol), symbol] = [
            -1.0 if b else math.nan if a is None or b is None else 1.0 if a else 0.0
            for a, b in zip(entry, leave, strict=True)
        ]
    return frame


@pytest.mark.parametrize("case", CASES | TALK)
def test_the_code_gives_the_signal_of_the_formula(case: str) -> None:
    sentence, oracle = (CASES | TALK)[case]
    signal = run(code_of(sentence), PANEL)
    wanted = expected(oracle)
    assert (wanted == 1).any().any(), "the panel must have entries, or this test cannot fail"
    assert (wanted == -1).any().any(), "the panel must have exits, or this test cannot fail"
    pd.testing.assert_frame_equal(signal, wanted, check_exact=True)


@pytest.mark.parametrize("sentence", ["买入持有", "买入后一直持有", "buy and hold"])
def test_buy_and_hold_is_a_purchase_wherever_there_is_a_price(sentence: str) -> None:
    signal = run(code_of(sentence), PANEL)
    close = PANEL["ohlcv"]["close"]
    pd.testing.assert_frame_equal(signal, close.where(close.isna(), 1.0))


@pytest.mark.parametrize("case", CASES)
def test_the_past_of_a_signal_does_not_change_when_days_are_added(case: str) -> None:
    code = code_of(CASES[case][0])
    whole = run(code, PANEL)
    for rows in (1, 37, 70, 118):
        part = run(code, cut(PANEL, rows))
        pd.testing.assert_frame_equal(part, whole.iloc[:rows], check_exact=True)


@pytest.mark.parametrize("case", CASES)
def test_the_lookback_is_the_first_session_that_can_have_a_signal(case: str) -> None:
    code = code_of(CASES[case][0])
    signal = run(code, PANEL)["000001.SZ"]
    assert not math.isnan(signal.iloc[code.rule.lookback])
    assert not (signal.iloc[: code.rule.lookback] == 1).any()


def test_the_cell_leaves_its_inputs_alone() -> None:
    copy = {field: frame.copy() for field, frame in PANEL["ohlcv"].items()}
    run(code_of("KDJ金叉且RSI低于60买入，死叉卖出"), PANEL)
    for field, frame in copy.items():
        pd.testing.assert_frame_equal(PANEL["ohlcv"][field], frame)


def test_a_symbol_without_any_price_has_no_opinion() -> None:
    panel = {name: {field: frame.copy() for field, frame in frames.items()} for name, frames in PANEL.items()}
    for frame in panel["ohlcv"].values():
        frame["600519.SH"] = np.nan
    for sentence in ("RSI低于30买入", "KDJ金叉买入", "MACD金叉买入", "动量前20%买入", "突破20日新高买入"):
        signal = run(code_of(sentence), panel)
        assert signal["600519.SH"].isna().all()
        assert signal["000001.SZ"].notna().any()


def test_indicators_that_start_later_than_prices_are_aligned_to_them() -> None:
    panel = {"ohlcv": PANEL["ohlcv"], "indicators": {"pe": PANEL["indicators"]["pe"].iloc[10:, ::-1]}}
    signal = run(code_of("市盈率低于15买入，高于30卖出"), panel)
    assert signal.index.equals(PANEL["ohlcv"]["close"].index)
    assert list(signal.columns) == COLUMNS
    assert signal.iloc[:10].isna().all().all()
    pd.testing.assert_frame_equal(
        signal.iloc[10:], run(code_of("市盈率低于15买入，高于30卖出"), PANEL).iloc[10:]
    )


def test_symbols_that_tie_across_the_border_of_a_rank_are_out() -> None:
    index = PANEL["ohlcv"]["close"].index[:1]
    close = pd.DataFrame(1.0, index=index, columns=list("ABCD"))
    panel = {
        "ohlcv": {"close": close},
        "indicators": {"pb": pd.DataFrame([[1.0, 2.0, 2.0, 3.0]], index=index, columns=list("ABCD"))},
    }
    assert run(code_of("市净率最低的50%买入"), panel).iloc[0].tolist() == [1.0, -1.0, -1.0, -1.0]
    assert run(code_of("市净率最低的3只买入"), panel).iloc[0].tolist() == [1.0, 1.0, 1.0, -1.0]
    assert run(code_of("市净率最低的29%买入"), panel).iloc[0].tolist() == [1.0, -1.0, -1.0, -1.0]


def shuffled(values: Sequence[str]) -> list[str]:
    return list(reversed(values))


def test_the_order_of_the_columns_does_not_change_a_symbols_signal() -> None:
    order = shuffled(COLUMNS)
    panel = {name: {field: frame[order] for field, frame in frames.items()} for name, frames in PANEL.items()}
    code = code_of("动量前34%且市盈率低于30买入，后34%卖出")
    pd.testing.assert_frame_equal(run(code, panel)[COLUMNS], run(code, PANEL))
