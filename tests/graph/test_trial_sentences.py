"""Thirty-three sentences with what a model made of each: all end right, in a question, or named; none wrong in silence.

The replies are those of a trial by hand: clauses that a reading lost, plans beside a clause, cells that are wrong on
purpose. What is right is computed here in plain pandas from the price files.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from plain_prices import (
    Bars,
    a_share,
    assert_right,
    before,
    best,
    cell,
    change,
    firsts,
    marks,
    mean,
    own,
    path,
    rsi,
    ups,
)
from sentence_play import SentenceModel, clause, dispute, reading
from thinned import thinned

from quantgraph.market import session_of
from quantgraph.runtime import Resources
from quantgraph.runtime.graph_state import dialogue_of, progress_of, request_of, strategy_of
from quantgraph.sandbox import default_runner
from quantgraph.state import DataState
from quantgraph.subgraphs.signal import create_signal_subgraph

SUMMER, YEAR = ("20250506", "20251031"), ("20250101", "20251231")
SSE = "000016.SH"


def kdj(bars: Bars, *, adjusted: bool) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """K, D and J of nine sessions, begun at 50."""
    high, low, close = (bars[f"adj_{name}" if adjusted else name] for name in ("high", "low", "close"))
    floor, top = own(low, lambda s: s.rolling(9).min()), own(high, lambda s: s.rolling(9).max())

    def smooth(s: pd.Series) -> pd.Series:
        made, last = [], 50.0
        for value in s:
            last = last * 2 / 3 + value / 3
            made.append(last)
        return pd.Series(made, index=s.index, dtype=float)

    k = own((close - floor) / (top - floor) * 100, smooth)
    d = own(k, smooth)
    return k, d, 3 * k - 2 * d


# ----------------------------------------------------------------------------------------- what the sentences mean


def volume_macd(bars: Bars) -> pd.DataFrame:
    def line(s: pd.Series, n: int, start: int) -> pd.Series:
        made = [s.iloc[start - n + 1 : start + 1].mean()]
        for value in s.iloc[start + 1 :]:
            made.append(made[-1] + (value - made[-1]) * 2 / (n + 1))
        return pd.Series(made, index=s.index[start:])

    def histogram(s: pd.Series) -> pd.Series:
        dif = line(s, 12, 25) - line(s, 26, 25)
        return dif - line(dif, 9, 8)

    gap = own(bars["adj_close"], histogram)
    buy = (gap > 0) & (before(gap) <= 0) & (bars["vol"] >= 1.5 * before(bars["vol"]))
    return marks(buy, (gap < 0) & (before(gap) >= 0), gap)


def monthly_momentum(bars: Bars) -> pd.DataFrame:
    close = bars["adj_close"]
    score = own(close, lambda s: s.shift(5) / s.shift(60) - 1)
    first = firsts(close.index, "M")
    return marks(first & best(score, 5), first & ~best(score, 5) & score.notna(), score)


def high_with_stop(bars: Bars) -> pd.DataFrame:
    """The stop counts from the open after the signal, the twenty days from that session."""
    close, opened = bars["close"], bars["open"]
    top = own(bars["adj_close"], lambda s: s.rolling(20).max())

    def leaves(code: str, row: int, entered: int) -> bool:
        cost = opened[code].iloc[entered + 1]
        return bool(close[code].iloc[row] <= 0.92 * cost or row - entered >= 20)

    return path(bars["adj_close"] >= top, leaves)


def lag(bars: Bars) -> pd.DataFrame:
    ten = change(a_share()["adj_close"][[*bars["close"], "601288.SH"]], 10)
    behind = (ten["601288.SH"] - ten["601398.SH"]).to_frame("601398.SH")
    return marks(behind > 0.03, behind <= 0, behind)


def index_rsi(bars: Bars) -> pd.DataFrame:
    level, strength = bars["level"].to_frame("i"), rsi(bars["adj_close"], 6)
    on, off = (level > mean(level, 60)).to_numpy(), (level < mean(level, 60)).to_numpy()
    return marks((strength < 20) & on, (strength > 80) | off, strength)


def first_above(bars: Bars) -> pd.DataFrame:
    close = bars["adj_close"]
    return marks(ups(close, mean(close, 20)), close < mean(close, 20), close)


def trailing_atr(bars: Bars) -> pd.DataFrame:
    close, high, low = bars["adj_close"], bars["adj_high"], bars["adj_low"]
    _, _, j = kdj(bars, adjusted=True)

    def atr(code: str) -> pd.Series:
        h, l, c = high[code].dropna(), low[code].dropna(), close[code].dropna().shift(1)
        span = pd.concat([h - l, (h - c).abs(), (l - c).abs()], axis=1).max(axis=1, skipna=False).iloc[1:]
        made = [span.iloc[:14].mean()]
        for value in span.iloc[14:]:
            made.append((made[-1] * 13 + value) / 14)
        return pd.Series(made, index=span.index[13:]).reindex(close.index)

    wide = pd.DataFrame({code: atr(code) for code in close})

    def leaves(code: str, row: int, entered: int) -> bool:
        peak = close[code].iloc[entered : row + 1].max()
        return bool(close[code].iloc[row] < peak - 3 * wide[code].iloc[row])

    return path((before(j) < 0) & (j > before(j)) & wide.notna(), leaves)


def low_with_target(bars: Bars) -> pd.DataFrame:
    close, opened = bars["close"], bars["open"]
    floor = own(bars["adj_low"], lambda s: s.shift(1).rolling(20).min())

    def leaves(code: str, row: int, entered: int) -> bool:
        price, cost = close[code].iloc[row], opened[code].iloc[entered + 1]
        return bool(price <= 0.95 * cost or price >= 1.1 * cost)

    return path(bars["adj_close"] < floor, leaves)


def two_rules(bars: Bars) -> pd.DataFrame:
    close, strength = bars["adj_close"], rsi(bars["adj_close"], 14)
    fast, slow = mean(close, 5), mean(close, 10)
    crossing, level = (
        marks(ups(fast, slow), ups(slow, fast), close),
        marks(strength < 30, strength > 70, close),
    )
    return pd.DataFrame({"600036.SH": crossing["600036.SH"], "600519.SH": level["600519.SH"]})


def pops(bars: Bars) -> pd.DataFrame:
    close, vol = bars["close"], bars["vol"]
    line = own(close, lambda s: s.ewm(span=10, adjust=False).mean())
    return marks((change(close, 1) >= 0.04) & (vol >= 1.5 * mean(vol, 20)), close < line, close)


def trend_cross(bars: Bars) -> pd.DataFrame:
    close = bars["adj_close"]
    fast, slow = mean(close, 10), mean(close, 30)
    return marks(ups(fast, slow) & (close > mean(close, 60)), ups(slow, fast), close)


def top_ten(bars: Bars) -> pd.DataFrame:
    """Forty sessions of the exchange, as the cell counts them: a stock that was suspended then has no score."""
    score = bars["adj_close"] / bars["adj_close"].shift(40) - 1
    return marks(best(score, 10), ~best(score, 20) & score.notna(), score)


def bands(bars: Bars) -> pd.DataFrame:
    close = bars["adj_close"]
    middle, spread = mean(close, 15), own(close, lambda s: s.rolling(15).std(ddof=0))
    return marks(close < middle - 1.5 * spread, close > middle + 1.5 * spread, close)


def kdj_cross(bars: Bars) -> pd.DataFrame:
    k, d, j = kdj(bars, adjusted=False)
    return marks(ups(k, d) & (j < 50), j > 90, k)


def z_score(bars: Bars) -> pd.DataFrame:
    close = bars["adj_close"]
    middle, spread = mean(close, 20), own(close, lambda s: s.rolling(20).std())
    return marks(close < middle - 2 * spread, close > middle, close)


def ema_volume(bars: Bars) -> pd.DataFrame:
    """The average of the volume is that of the ten sessions before."""
    close = bars["adj_close"]
    fast, slow = (own(close, lambda s, n=n: s.ewm(span=n, adjust=False).mean()) for n in (12, 26))
    return marks(ups(fast, slow) & (bars["vol"] > before(mean(bars["vol"], 10))), ups(slow, fast), close)


def rsi_events(bars: Bars) -> pd.DataFrame:
    strength = rsi(bars["close"], 7)
    level = strength * 0
    return marks(ups(strength, level + 35), ups(level + 65, strength), strength)


def weekly_worst(bars: Bars) -> pd.DataFrame:
    fall, first = -change(bars["adj_close"], 10), firsts(bars["adj_close"].index, "W")
    return marks(first & best(fall, 5), first & ~best(fall, 5) & fall.notna(), fall)


def gap_up(bars: Bars) -> pd.DataFrame:
    close, opened = bars["close"], bars["open"]
    return marks((opened > 1.01 * before(close)) & (close > opened), close < before(bars["low"]), close)


def volume_high(bars: Bars) -> pd.DataFrame:
    close, vol = bars["adj_close"], bars["vol"]
    top = own(bars["adj_high"], lambda s: s.shift(1).rolling(60).max())

    def leaves(code: str, row: int, entered: int) -> bool:
        peak = close[code].iloc[entered : row + 1].max()
        return bool(close[code].iloc[row] <= 0.9 * peak)

    return path((close > top) & (vol > 2 * before(mean(vol, 5))), leaves)


def calm_cross(bars: Bars) -> pd.DataFrame:
    close = bars["adj_close"]
    fast, slow = mean(close, 5), mean(close, 20)
    calm = (bars["level"].pct_change() >= -0.01).to_numpy()[:, None]
    return marks(ups(fast, slow) & calm, ups(slow, fast), close)


def weekly_best(bars: Bars) -> pd.DataFrame:
    rise, first = change(bars["adj_close"], 15), firsts(bars["adj_close"].index, "W")
    return marks(first & best(rise, 3), first & ~best(rise, 3) & rise.notna(), rise)


def index_highs(bars: Bars) -> pd.DataFrame:
    close, level = bars["adj_close"], bars["level"].to_frame("i")
    top = own(bars["adj_high"], lambda s: s.shift(1).rolling(30).max())
    return marks(
        (close > top) & (level > mean(level, 20)).to_numpy(), close < mean(close, 10) * (1 - 1e-9), close
    )


def candles(bars: Bars, up: int, *, over: int = 0) -> pd.DataFrame:
    """``up`` rising candles in a row, over an average if one is said; two falling ones sell."""
    close, opened = bars["close"], bars["open"]
    rising, falling = (close > opened).astype(float), (close < opened).astype(float)
    buy = own(rising, lambda s: s.rolling(up).sum()) == up
    if over:
        buy &= bars["adj_close"] > mean(bars["adj_close"], over)
    return marks(buy, own(falling, lambda s: s.rolling(2).sum()) == 2, close)


def cross_with_stop(bars: Bars) -> pd.DataFrame:
    """The stop counts from the open after the signal."""
    close, opened = bars["adj_close"], bars["open"]
    fast, slow = mean(close, 5), mean(close, 20)
    buy, sell = ups(fast, slow), ups(slow, fast)

    def leaves(code: str, row: int, entered: int) -> bool:
        stopped = bars["close"][code].iloc[row] <= 0.95 * opened[code].iloc[entered + 1]
        return bool(stopped or sell[code].iloc[row])

    return path(buy, leaves)


# ------------------------------------------------------------------------------------------ what the models replied

LAG = """\
ten = snapshot.adjusted("close").pct_change(10, fill_method=None)
gap = ten["601288.SH"] - ten["601398.SH"]
signal = (gap * 0).mask(gap > 0.03, 1.0).mask(gap <= 0, -1.0).to_frame("601398.SH")
GLOBAL_DATA_STATE.update("signal", {"lag_10": signal})
"""
MONTHLY = """\
close = snapshot.adjusted("close")
month = pd.Series(close.index.to_period("M").astype(str), index=close.index)
first = (month != month.shift(1)).to_numpy()[:, None]
signal = pd.DataFrame(0.0, index=close.index, columns=close.columns).mask(np.broadcast_to(first, close.shape), 1.0)
GLOBAL_DATA_STATE.update("signal", {"month_start_buy": signal})
"""
TREND = """\
close = snapshot.adjusted("close")
def mean(n):
    return close.apply(lambda s: s.dropna().rolling(n).mean().reindex(s.index))
fast, slow, trend = mean(10), mean(30), mean(60)
up = (fast > slow) & (fast.shift(1) <= slow.shift(1))
down = (fast < slow) & (fast.shift(1) >= slow.shift(1))
zero = pd.DataFrame(0.0, index=close.index, columns=close.columns)
signal = zero.mask(up & (close > trend), 1.0).mask(down, -1.0).where(trend.notna() & slow.shift(1).notna())
GLOBAL_DATA_STATE.update("signal", {"sma_10_30_over_60": signal})
"""
EMA = """\
close, vol = snapshot.adjusted("close"), snapshot["ohlcv"]["vol"]
def own(frame, f):
    return frame.apply(lambda s: f(s.dropna()).reindex(s.index))
gap = own(close, lambda s: s.ewm(span=12, adjust=False).mean() - s.ewm(span=26, adjust=False).mean())
busy = vol > own(vol, lambda s: s.rolling(10).mean().shift(1))
was = gap.shift(1)
zero = pd.DataFrame(0.0, index=close.index, columns=close.columns)
signal = zero.mask((gap > 0) & (was <= 0) & busy, 1.0).mask((gap < 0) & (was >= 0), -1.0).where(was.notna())
GLOBAL_DATA_STATE.update("signal", {"ema_12_26_volume": signal})
"""
GAP = """\
bars = snapshot["ohlcv"]
close, opened, low = bars["close"], bars["open"], bars["low"]
buy = (opened > 1.01 * close.shift(1)) & (close > opened)
zero = pd.DataFrame(0.0, index=close.index, columns=close.columns)
signal = zero.mask(buy, 1.0).mask(close < low.shift(1), -1.0).where(close.shift(1).notna())
GLOBAL_DATA_STATE.update("signal", {"gap_up_close_above_open": signal})
"""
STOP = """\
close, bars = snapshot.adjusted("close"), snapshot["ohlcv"]
fast, slow = close.rolling(5).mean(), close.rolling(20).mean()
up = (fast > slow) & (fast.shift(1) <= slow.shift(1))
down = (fast < slow) & (fast.shift(1) >= slow.shift(1))
marks, price, opened = np.zeros(close.shape), bars["close"].to_numpy(), bars["open"].to_numpy()
for j in range(close.shape[1]):
    entered = None
    for i in range(close.shape[0]):
        if entered is None and up.iat[i, j]:
            marks[i, j], entered = 1.0, i
        elif entered is not None and (price[i, j] <= 0.95 * opened[entered + 1, j] or down.iat[i, j]):
            marks[i, j], entered = -1.0, None
signal = pd.DataFrame(marks, index=close.index, columns=close.columns).where(slow.shift(1).notna())
GLOBAL_DATA_STATE.update("signal", {"sma_cross_stop_5": signal})
"""
CANDLES = """\
bars = snapshot["ohlcv"]
close, opened = bars["close"], bars["open"]
def streak(frame, n):
    return frame.astype(float).where(close.notna()).apply(lambda s: s.dropna().rolling(n).sum().reindex(s.index)) == n
buy = streak(close > opened, 3)
zero = pd.DataFrame(0.0, index=close.index, columns=close.columns)
signal = zero.mask(buy, 1.0).mask(streak(close < opened, 2), -1.0).where(close.shift(2).notna())
GLOBAL_DATA_STATE.update("signal", {"rising_candles": signal})
"""
OVER_TEN = """\
adjusted = snapshot.adjusted("close")
buy &= adjusted > adjusted.apply(lambda s: s.dropna().rolling(10).mean().reindex(s.index))
zero"""
LEVEL = 'lvl = snapshot["index"]["close"]["000016.SH"]\ncalm = (lvl.pct_change(fill_method=None) >= -0.01).to_numpy()[:, None]\n'


@dataclass(frozen=True, kw_only=True)
class Row:
    """A sentence, the replies of its model, and what has to come.

    ``answers`` are a person's, one after the other; without them nobody is asked. ``right`` computes the signal,
    ``asked`` are words of the questions in turn, and ``named`` words of the first line that a person reads.
    """

    text: str
    readings: Sequence[dict[str, Any]]
    cells: Sequence[str] = ()
    reviews: Sequence[Sequence[dict[str, Any]]] = ((),)
    answers: Sequence[str] = ()
    closing: str = "代码就是所说的规则。"
    source: str = "a_share"
    right: Callable[[Bars], pd.DataFrame] | None = None
    asked: Sequence[tuple[str, ...]] = ()
    named: tuple[str, ...] = ()
    warned: tuple[str, ...] = ()
    """Codes of the findings of meaning that stay beside a right signal."""


ZH_SUMMER, EN_SUMMER = "，2025年5月6日到10月31日", ", from 2025-05-06 to 2025-10-31"
PING_AN = [
    clause("首次站上20日线买", "entry", "收盘价从下方首次升到20日均线之上时买入"),
    clause("三成仓", "plan", "第一次买入三成仓位", "not_done"),
    clause("之后每涨5%加两成仓", "plan", "此后每上涨5%再加仓20%", "not_done"),
    clause("跌破20日线清仓", "exit", "收盘价低于20日均线时全部卖出"),
]
SHORT = [
    clause(
        "Short 600519.SH whenever it closes under its 50-day MA",
        "entry",
        "Sell short when the close is below the 50-day moving average",
        "not_done",
    ),
    clause("cover when it's back above", "exit", "Buy back when the close is above that average", "not_done"),
    clause("2x leverage", "plan", "Leverage of 2", "not_done"),
]
LONG_INSTEAD = [
    clause(SHORT[0]["quote"], "entry", "Buy when the close is above the 50-day moving average"),
    clause(SHORT[1]["quote"], "exit", "Sell when the close is below it"),
]
WEEKLY_BEST = reading(
    SSE,
    SUMMER,
    clause("每周一买入过去15天涨得最多的3只", "entry", "每周的第一个交易日买入近15个交易日涨幅最大的3只股票"),
    clause("下周一换掉", "exit", "下一周的第一个交易日把旧的卖出换成新的"),
)
CMB_CROSS = [
    clause("5日线上穿20日线买入", "entry", "5日均线上穿20日均线时买入"),
    clause("下穿卖出", "exit", "5日均线下穿20日均线时卖出"),
]
CALM = clause("但当天大盘跌超1%就不买", "entry", "如果当天上证50指数的跌幅超过1%，就不买入")
MA_CROSS_EN = [
    clause(
        "buy when the 10-day SMA crosses above the 20-day SMA",
        "entry",
        "Buy when the 10-day simple moving average rises through the 20-day one",
    ),
    clause(
        "sell when it crosses back below",
        "exit",
        "Sell when the 10-day average falls through the 20-day average",
    ),
]
CROSS_OF_TWO = [
    clause("招商银行5日线上穿10日线买、下穿卖", "entry", "招商银行：5日均线上穿10日均线买入，下穿卖出"),
    clause("贵州茅台RSI低于30买、高于70卖", "entry", "贵州茅台：14日RSI低于30买入，高于70卖出"),
    clause("两个策略对比一下", "other", "比较两个策略的结果", "not_done"),
]
NAN_AFTER_SUSPENSION = (
    "close.apply(lambda s: (s.dropna() / s.dropna().shift(15) - 1).reindex(s.index))",
    "close.rolling(16).apply(lambda w: w[-1] / w[0] - 1, raw=True)",
)
THREE = [("<= 5", "<= 3"), ("> 5", "> 3")]

ROWS: dict[str, Row] = {
    "s01": Row(
        text=f"上证50成分股里，MACD金叉那天成交量比前一天放大50%以上就买，死叉就卖{ZH_SUMMER}",
        readings=[
            reading(
                SSE,
                SUMMER,
                clause(
                    "MACD金叉那天成交量比前一天放大50%以上就买",
                    "entry",
                    "DIF上穿DEA的当天，成交量比前一日增加50%或更多时买入",
                ),
                clause("死叉就卖", "exit", "DIF下穿DEA时卖出"),
            )
        ],
        cells=[cell("s01_wrong_half_volume"), cell("s01_right")],
        reviews=[[dispute("600031.SH", "2025-05-06", 0, "成交量没有放大50%")], []],
        right=volume_macd,
    ),
    "s02": Row(
        text="first trading day of each month hold the 5 SSE 50 stocks with the best 60-day return, leaving out the most recent 5 days"
        + EN_SUMMER,
        readings=[
            reading(
                SSE,
                SUMMER,
                clause(
                    "first trading day of each month", "plan", "Trade on the first session of every month"
                ),
                clause(
                    "hold the 5 SSE 50 stocks with the best 60-day return, leaving out the most recent 5 days",
                    "entry",
                    "Hold the five members with the highest return over 60 sessions, without the last 5 of them",
                ),
                plan={"trade_on": "first trading day of each month", "max_positions": 5},
            )
        ],
        cells=[cell("s02_right_nan_after_suspension"), cell("s02_right")],
        right=monthly_momentum,
    ),
    "s03": Row(
        text="紫金矿业，收盘创20日新高买入，跌破买入价8%止损，持有20天卖出，2025年",
        readings=[
            reading(
                "601899.SH",
                YEAR,
                clause("收盘创20日新高买入", "entry", "收盘价是最近20个交易日最高时买入"),
                clause("跌破买入价8%止损", "plan", "比买入价下跌8%时止损卖出"),
                clause("持有20天卖出", "plan", "持有满20个交易日卖出"),
                plan={"stop_loss": 0.08, "max_holding": 20},
            )
        ],
        cells=[cell("s03_right_open_cost")],
        right=high_with_stop,
    ),
    "s04": Row(
        text="Buy 601398.SH when its 10-day return lags that of 601288.SH by more than 3 points, sell once it has caught up"
        + EN_SUMMER,
        readings=[
            reading(
                "601398.SH",
                SUMMER,
                clause(
                    "Buy 601398.SH when its 10-day return lags that of 601288.SH by more than 3 points",
                    "entry",
                    "Buy 601398.SH when its 10-day return is more than 3 percentage points below that of 601288.SH",
                ),
                clause(
                    "sell once it has caught up",
                    "exit",
                    "Sell when its return is no longer below that of 601288.SH",
                ),
                watch="601288.SH,601398.SH",
                trade="601398.SH",
            )
        ],
        cells=[LAG],
        right=lag,
    ),
    "s05": Row(
        text=f"只有上证50指数在60日均线上方时才开仓：成分股RSI(6)低于20买入，高于80卖出；指数跌破60日线全部清仓{ZH_SUMMER}",
        readings=[
            reading(
                SSE,
                SUMMER,
                clause(
                    "只有上证50指数在60日均线上方时才开仓",
                    "entry",
                    "只在上证50指数高于其60日均线时才允许买入",
                ),
                clause("成分股RSI(6)低于20买入", "entry", "成分股6日RSI低于20时买入"),
                clause("高于80卖出", "exit", "6日RSI高于80时卖出"),
                clause("指数跌破60日线全部清仓", "exit", "上证50指数低于60日均线时，全部卖出"),
                watch=SSE,
                trade=SSE,
            )
        ],
        cells=[
            cell("s05_proxy_index"),
            cell("s05_proxy_index", ("(1 + ret).cumprod()", 'snapshot["index"]["close"]["000016.SH"]')),
        ],
        reviews=[[dispute("600028.SH", "2025-06-10", -1, "指数低于60日均线")], []],
        right=index_rsi,
    ),
    "s06": Row(
        text=f"中国平安首次站上20日线买三成仓，之后每涨5%加两成仓，跌破20日线清仓{ZH_SUMMER}",
        readings=[reading("601318.SH", SUMMER, *PING_AN, plan={"size": 0.3})],
        cells=[cell("s06_wrong_30"), cell("s06_still_wrong_exit")],
        reviews=[
            [dispute("601318.SH", "2025-05-06", 0, "收盘价没有站上20日均线")],
            [dispute("601318.SH", "2025-06-06", -1, "收盘价低于20日均线")],
        ],
        answers=["1"],
        asked=[("三成仓", "加两成仓"), ("601318.SH", "2025-06-06")],
    ),
    "s07": Row(
        text=f"每个月第一个交易日定投长江电力5000元，一直拿着不卖{ZH_SUMMER}",
        readings=[
            reading(
                "600900.SH",
                SUMMER,
                clause("每个月第一个交易日", "entry", "每个月首个交易日买入长江电力"),
                clause("定投长江电力5000元", "plan", "每次定投5000元", "not_done"),
                clause("一直拿着不卖", "exit", "一直持有，从不卖出"),
            )
        ],
        cells=[MONTHLY],
        answers=["1"],
        asked=[("定投", "5000元")],
        right=lambda bars: marks(firsts(bars["close"].index, "M"), False, bars["close"]),
    ),
    "s08": Row(
        text="Go long 601899.SH when the J of KDJ turns up from below 0, then trail a stop 3 ATR(14) under the highest close since entry, 2025",
        readings=[
            reading(
                "601899.SH",
                YEAR,
                clause(
                    "Go long 601899.SH when the J of KDJ turns up from below 0",
                    "entry",
                    "Buy 601899.SH when J of KDJ rises after having been below 0",
                ),
                clause(
                    "then trail a stop 3 ATR(14) under the highest close since entry",
                    "exit",
                    "Sell when the close is 3 times ATR(14) below the highest close since the entry",
                ),
            )
        ],
        cells=[
            cell("s08_wrong_peak_of_highs"),
            cell("s08_wrong_peak_of_highs", ("max(peak, h.iloc[i])", "max(peak, c.iloc[i])")),
        ],
        reviews=[[dispute("601899.SH", "2025-05-16", 0, "the peak is the highest close")], []],
        right=trailing_atr,
    ),
    "s09": Row(
        text="低估值蓝筹，长期拿着就行",
        readings=[reading("", question="买哪些股票？"), reading(SSE, SUMMER, question="低估值怎么算？")],
        answers=["上证50，2025年5月6日到10月31日"],
        asked=[("股票",), ("低估值",)],
    ),
    "s10": Row(
        text="Short 600519.SH whenever it closes under its 50-day MA, cover when it's back above, 2x leverage"
        + EN_SUMMER,
        readings=[
            reading("600519.SH", SUMMER, *SHORT),
            reading("600519.SH", SUMMER, *LONG_INSTEAD, SHORT[2]),
        ],
        cells=[cell("s10_wrong_ema")],
        answers=["go on without it"],
        asked=[("Short 600519.SH", "2x leverage"), ("hort",)],
    ),
    "s11": Row(
        text=f"中芯国际盘中跌3%就抄底，当天尾盘卖掉{ZH_SUMMER}",
        readings=[
            reading(
                "688981.SH",
                SUMMER,
                clause("盘中跌3%就抄底", "entry", "盘中跌幅达到3%时买入", "not_done"),
                clause("当天尾盘卖掉", "exit", "当天收盘前卖出", "not_done"),
            )
        ],
        asked=[("盘中跌3%就抄底", "当天尾盘卖掉")],
    ),
    "s12": Row(
        text="Buy 601318.SH when it closes below its 20-day low; never sell at a loss, but cut at -5%, 2025",
        readings=[
            reading("601318.SH", YEAR, question="Never at a loss, or cut at -5%: which holds?"),
            reading(
                "601318.SH",
                YEAR,
                clause(
                    "Buy 601318.SH when it closes below its 20-day low",
                    "entry",
                    "Buy 601318.SH when it closes under the lowest low of the 20 sessions before",
                ),
                clause("cut at -5%", "plan", "Stop loss at -5%"),
                clause("take +10%", "plan", "Take profit at +10%"),
                clause(
                    "forget never sell at a loss", "other", "The words never sell at a loss no longer hold"
                ),
                plan={"stop_loss": 0.05, "take_profit": 0.1},
            ),
        ],
        cells=[cell("s12_right_stop_target")],
        answers=["cut at -5%, take +10%, forget never sell at a loss"],
        asked=[("-5%",)],
        right=low_with_target,
    ),
    "s13": Row(
        text=f"帮我跑两个策略对比一下：招商银行5日线上穿10日线买、下穿卖；贵州茅台RSI低于30买、高于70卖{ZH_SUMMER}",
        readings=[reading("600036.SH,600519.SH", SUMMER, *CROSS_OF_TWO)],
        cells=[
            cell("s13_wrong_symbols_swapped"),
            cell("s13_wrong_symbols_swapped", ('"600519.SH", "600036.SH"', '"600036.SH", "600519.SH"')),
        ],
        reviews=[
            [{"severity": "error", "message": "两只股票的规则写反了：茅台用了均线交叉，招行用了RSI"}],
            [],
        ],
        answers=["1"],
        asked=[("对比",)],
        right=two_rules,
    ),
    "s15": Row(
        text="hold the ten lowest P/E names of the SSE 50 with ROE above 10%, rebalance every quarter"
        + EN_SUMMER,
        readings=[
            reading(
                SSE,
                SUMMER,
                clause(
                    "hold the ten lowest P/E names of the SSE 50 with ROE above 10%",
                    "entry",
                    "Hold the 10 members with the lowest P/E among those whose ROE is above 10%",
                ),
                clause("rebalance every quarter", "plan", "Rebalance once a quarter"),
                required_indicators=["pe", "roe"],
                plan={"trade_on": "quarter_start"},
            )
        ],
        asked=[("pe", "roe")],
    ),
    "s16": Row(
        text="ape into nvda and amd when they pop 4%+ on 1.5x their 20d avg volume, bail once they lose the 10 day ema, from 2025-07-01 to 2025-09-30",
        readings=[
            reading(
                "NVDA,AMD",
                ("20250701", "20250930"),
                clause(
                    "ape into nvda and amd when they pop 4%+ on 1.5x their 20d avg volume",
                    "entry",
                    "Buy when the price rises 4% or more in a day with a volume of 1.5 times its 20-day average",
                ),
                clause(
                    "bail once they lose the 10 day ema",
                    "exit",
                    "Sell when the close is below the 10-day EMA",
                ),
            )
        ],
        cells=[
            cell("s16_right_select"),
            cell("s16_right_select", ('snapshot.adjusted("close")', 'bars["close"]')),
        ],
        source="us",
        right=pops,
    ),
    "s17": Row(
        text="工商银行、中国人寿：10日均线上穿30日均线且收盘价高于60日均线买入，10日均线下穿30日均线卖出，2025年7月1日到10月31日",
        readings=[
            reading(
                "601398.SH,601628.SH",
                ("20250701", "20251031"),
                clause(
                    "10日均线上穿30日均线且收盘价高于60日均线买入",
                    "entry",
                    "10日均线上穿30日均线，并且收盘价高于60日均线时买入",
                ),
                clause("10日均线下穿30日均线卖出", "exit", "10日均线下穿30日均线时卖出"),
            )
        ],
        cells=[TREND.replace("mean(60)", "mean(50)"), TREND],
        closing="布林带(15,1.5)：突破上轨时买入，跌破中轨时卖出。",
        warned=("meaning_closing_words",),
        right=trend_cross,
    ),
    "s18": Row(
        text="SSE 50 members: buy the top 10 by 40-day return, sell when not in the top 20" + EN_SUMMER,
        readings=[
            reading(
                SSE,
                SUMMER,
                clause(
                    "buy the top 10 by 40-day return",
                    "entry",
                    "Buy the ten members with the highest 40-day return",
                ),
                clause(
                    "sell when not in the top 20",
                    "exit",
                    "Sell a stock that is not among the top 20 by that return",
                ),
            )
        ],
        cells=[cell("s18_right_long_form")],
        right=top_ten,
    ),
    "s19": Row(
        text=f"长江电力布林带(15,1.5)：跌破下轨买入，突破上轨卖出{ZH_SUMMER}",
        readings=[
            reading(
                "600900.SH",
                SUMMER,
                clause(
                    "布林带(15,1.5)：跌破下轨买入", "entry", "收盘价低于布林带（15日、1.5倍标准差）下轨时买入"
                ),
                clause("突破上轨卖出", "exit", "收盘价高于布林带上轨时卖出"),
            )
        ],
        cells=[
            cell("s19_wrong_exit_at_middle"),
            cell("s19_wrong_exit_at_middle", ("close > mid,", "close > mid + 1.5 * sd,")),
        ],
        right=bands,
    ),
    "s20": Row(
        text="600036.SH: buy when K crosses above D in KDJ(9,3,3) while J is below 50, sell when J is above 90"
        + EN_SUMMER,
        readings=[
            reading(
                "600036.SH",
                SUMMER,
                clause(
                    "buy when K crosses above D in KDJ(9,3,3) while J is below 50",
                    "entry",
                    "Buy when K rises through D (KDJ 9,3,3) with J less than 50",
                ),
                clause("sell when J is above 90", "exit", "Sell when J exceeds 90"),
            )
        ],
        cells=[cell("s20_wrong_d_for_j"), cell("s20_wrong_d_for_j", ("(d < 50)", "(j < 50)"))],
        reviews=[[dispute("600036.SH", "2025-05-07", 0, "J is not below 50")], []],
        right=kdj_cross,
    ),
    "m1": Row(
        text=f"中国神华、陕西煤业：收盘价低于20日均线2个标准差买入，高于20日均线卖出{ZH_SUMMER}",
        readings=[
            reading(
                "601088.SH,601225.SH",
                SUMMER,
                clause("收盘价低于20日均线2个标准差买入", "entry", "收盘价比20日均线低2个标准差以上时买入"),
                clause("高于20日均线卖出", "exit", "收盘价高于20日均线时卖出"),
            )
        ],
        cells=[cell("m1_right_zscore")],
        right=z_score,
    ),
    "m2": Row(
        text="600036.SH and 601318.SH: buy when EMA(12) crosses above EMA(26) and volume is above its 10-day average, sell when EMA(12) crosses below EMA(26)"
        + EN_SUMMER,
        readings=[
            reading(
                "600036.SH,601318.SH",
                SUMMER,
                clause(
                    "buy when EMA(12) crosses above EMA(26) and volume is above its 10-day average",
                    "entry",
                    "Buy when the 12-day EMA rises through the 26-day EMA with a volume greater than its 10-day average",
                ),
                clause(
                    "sell when EMA(12) crosses below EMA(26)",
                    "exit",
                    "Sell when the 12-day EMA drops through the 26-day EMA",
                ),
            )
        ],
        cells=[EMA],
        right=ema_volume,
    ),
    "m3": Row(
        text="AAPL, MSFT: buy when RSI(7) crosses above 35, sell when RSI(7) crosses below 65, from 2025-07-01 to 2025-10-30",
        readings=[
            reading(
                "AAPL,MSFT",
                ("20250701", "20251030"),
                clause(
                    "buy when RSI(7) crosses above 35", "entry", "Buy when the 7-day RSI rises through 35"
                ),
                clause(
                    "sell when RSI(7) crosses below 65", "exit", "Sell when the 7-day RSI falls through 65"
                ),
            )
        ],
        cells=[
            cell("m3_wrong_state_exit"),
            cell("m3_wrong_state_exit", ("rsi < 65, -1.0", "(rsi < 65) & (rsi.shift(1) >= 65), -1.0")),
        ],
        source="us",
        right=rsi_events,
    ),
    "n1": Row(
        text=f"每周一买入上证50里过去10天跌得最多的5只，下周一换掉{ZH_SUMMER}",
        readings=[
            reading(
                SSE,
                SUMMER,
                clause(
                    "每周一买入上证50里过去10天跌得最多的5只",
                    "entry",
                    "每周首个交易日买入近10个交易日跌幅最大的5只成分股",
                ),
                clause("下周一换掉", "exit", "下一周首个交易日卖出旧的，换成新的"),
            )
        ],
        cells=[cell("n1_wrong_side"), cell("n1_wrong_side", ("ascending=False", "ascending=True"))],
        reviews=[[dispute("600276.SH", "2025-05-06", -1, "它是涨得多的")], []],
        right=weekly_worst,
    ),
    "n2": Row(
        text="if CATL... sorry, 601012.SH gaps up more than 1% at the open and closes above the open, buy; get out after it closes under the prior day's low. Q2 and Q3 2025",
        readings=[
            reading(
                "601012.SH",
                ("20250401", "20250930"),
                clause(
                    "601012.SH gaps up more than 1% at the open and closes above the open, buy",
                    "entry",
                    "Buy 601012.SH when it opens more than 1% above the prior close and closes above its open",
                ),
                clause(
                    "get out after it closes under the prior day's low",
                    "exit",
                    "Sell when the close is below the low of the day before",
                ),
            )
        ],
        cells=[GAP],
        right=gap_up,
    ),
    "n3": Row(
        text="中国船舶放量突破60日新高（量比前5天均量大一倍）就买，回撤10%走人，2025年",
        readings=[
            reading(
                "600150.SH",
                YEAR,
                clause(
                    "放量突破60日新高（量比前5天均量大一倍）就买",
                    "entry",
                    "收盘价突破此前60日最高价，且成交量超过前5日均量的2倍时买入",
                ),
                clause("回撤10%走人", "exit", "从买入后的最高收盘价回撤10%时卖出"),
            )
        ],
        cells=[cell("n3_average_includes_today")],
        reviews=[[{"severity": "warning", "message": "均量包含了当天"}]],
        right=volume_high,
    ),
    "p1": Row(
        text=f"长江电力缩量回踩20日线不破时买入，跌破20日线卖出{ZH_SUMMER}",
        readings=[
            reading(
                "600900.SH",
                SUMMER,
                clause("缩量回踩20日线不破时买入", "entry", "收盘价高于20日均线且成交量低于5日均量时买入"),
                clause("跌破20日线卖出", "exit", "收盘价低于20日均线时卖出"),
            )
        ],
        answers=[],
        asked=[("回踩",)],
    ),
    "p2": Row(
        text=f"招商银行5日线上穿20日线买入，但当天大盘跌超1%就不买，下穿卖出{ZH_SUMMER}",
        readings=[reading("600036.SH", SUMMER, *CMB_CROSS)],
        asked=[("大盘跌超1%就不买",)],
    ),
    "p2 mended": Row(
        text=f"招商银行5日线上穿20日线买入，但当天大盘跌超1%就不买，下穿卖出{ZH_SUMMER}",
        readings=[
            reading("600036.SH", SUMMER, *CMB_CROSS),
            reading(
                "600036.SH",
                SUMMER,
                CMB_CROSS[0],
                CALM,
                CMB_CROSS[1],
                watch=f"{SSE},600036.SH",
                trade="600036.SH",
            ),
        ],
        cells=[
            cell("p2_clause_dropped"),
            cell("p2_clause_dropped", ("up = (f > s)", f"{LEVEL}up = calm & (f > s)")),
        ],
        reviews=[[dispute("600036.SH", "2025-10-17", 0, "当天指数跌了1.7%")], []],
        right=calm_cross,
    ),
    "p3": Row(
        text="601398.SH: buy when the 10-day SMA crosses above the 20-day SMA unless it already ran up 10% in the past month, sell when it crosses back below"
        + EN_SUMMER,
        readings=[reading("601398.SH", SUMMER, *MA_CROSS_EN)],
        asked=[("unless it already ran up 10% in the past month",)],
    ),
    "q1": Row(
        text=f"上证50里每周一买入过去15天涨得最多的3只，下周一换掉{ZH_SUMMER}",
        readings=[WEEKLY_BEST],
        cells=[
            cell("q1_wrong_five", NAN_AFTER_SUSPENSION),
            cell("q1_wrong_five"),
            cell("q1_wrong_five", *THREE),
        ],
        reviews=[[dispute("603501.SH", "2025-05-06", -1, "它不在前3名")], []],
        right=weekly_best,
    ),
    "q1 stays": Row(
        text=f"上证50里每周一买入过去15天涨得最多的3只，下周一换掉{ZH_SUMMER}",
        readings=[WEEKLY_BEST],
        cells=[cell("q1_wrong_five")],
        reviews=[[dispute("603501.SH", "2025-05-06", -1, "它不在前3名")]],
        named=("603501.SH", "2025-05-06", "它不在前3名"),
    ),
    "q2": Row(
        text=f"当上证50指数收在20日线上方时，成分股里谁创30日新高就买谁，跌破10日线卖{ZH_SUMMER}",
        readings=[
            reading(
                SSE,
                SUMMER,
                clause("当上证50指数收在20日线上方时", "entry", "只在上证50指数收盘高于其20日均线时买入"),
                clause("成分股里谁创30日新高就买谁", "entry", "成分股创出30日新高时买入该股"),
                clause("跌破10日线卖", "exit", "收盘价低于10日均线时卖出"),
                watch=SSE,
            )
        ],
        cells=[cell("q2_index_read", ("close < ma", "close < ma * (1 - 1e-9)"))],
        right=index_highs,
    ),
    "r1": Row(
        text="国电南瑞5日线上穿20日线买入，下穿卖出，跌5%止损，2025年",
        readings=[
            reading(
                "600406.SH",
                YEAR,
                *CMB_CROSS,
                clause("", "other", "均线为简单移动平均", "default"),
                plan={"stop_loss": 0.05},
            )
        ],
        cells=[cell("p2_clause_dropped"), STOP],
        reviews=[[dispute("600406.SH", "2025-04-10", -1, "比买入价跌了5%以上")], []],
        right=cross_with_stop,
    ),
    "r2": Row(
        text=f"招商银行：5日线上穿20日线买入，下穿卖出，每次只用三成资金{ZH_SUMMER}",
        readings=[
            reading(
                "600036.SH",
                SUMMER,
                *CMB_CROSS,
                clause("", "other", "均线为简单移动平均", "default"),
                plan={"size": 0.3},
            )
        ],
        cells=[cell("p2_clause_dropped")],
        asked=[("只用三成资金",)],
    ),
}


# ----------------------------------------------------------------------------------------------------- the table


@dataclass
class Outcome:
    """How a run ended: its state, its store, and each question with its reason and options."""

    state: dict[str, Any]
    store: DataState
    questions: list[str] = field(default_factory=list)

    @property
    def ended(self) -> str | None:
        return self.state.get("ended_because") if "__interrupt__" not in self.state else None

    def assert_right(self, right: Callable[[Bars], pd.DataFrame], source: str = "a_share") -> None:
        made = strategy_of(self.state)
        signal = self.store.snapshot(self.state["data_ref"])["signal"][made["name"]]
        assert_right(signal, right, first=session_of(made["evaluated_from"]), source=source)


THREAD: Any = {"configurable": {"thread_id": "t"}}


def graph_of(cast: SentenceModel, folder: Path, on_clarify: Any) -> tuple[Any, DataState]:
    """The signal subgraph on a folder's files, played by a model, and its store."""
    store = DataState()
    resources = Resources(
        store=store, runner=default_runner(), model=cast.model, checkpointer=InMemorySaver()
    )
    return create_signal_subgraph(source=folder, on_clarify=on_clarify, resources=resources), store


def play(row: Row, folder: Path) -> Outcome:
    """Run a row's sentence, and answer its questions as long as there are answers."""
    cast = SentenceModel(readings=row.readings, cells=row.cells, reviews=row.reviews, closing=row.closing)
    graph, store = graph_of(cast, folder, "ask" if row.answers else "fail")
    state, questions, answers = (
        graph.invoke({"messages": [("user", row.text)]}, THREAD),
        [],
        list(row.answers),
    )
    while "__interrupt__" in state:
        task = state["__interrupt__"][0].value
        questions.append(json.dumps(task, ensure_ascii=False))
        if not answers:
            break
        state = graph.invoke(Command(resume=answers.pop(0)), THREAD)
    if (left := dialogue_of(state)["open_question"]) and state.get("ended_because") == "needs_answer":
        questions.append(json.dumps(left, ensure_ascii=False))
    return Outcome(state, store, questions)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("name", thinned(ROWS, lambda _, name: name not in ("s05", "q2")))
def test_each_sentence_ends_right_in_a_question_or_named(name, shared_data):
    row = ROWS[name]
    out = play(row, Path(shared_data, "ai-trader", row.source))
    assert len(out.questions) == len(row.asked), (out.ended, out.questions, out.state.get("error_messages"))
    for question, words in zip(out.questions, row.asked, strict=True):
        assert all(word in question for word in words), (words, question)
    codes = [each["code"] for each in (progress_of(out.state)["validation"] or {}).get("issues_found", ())]
    if row.right is None:
        assert out.ended != "done"
        if row.named:
            first = out.state["messages"][-1].text.splitlines()[0] + "\n".join(out.state["error_messages"])
            assert out.ended == "meaning_failed", (out.ended, out.state["error_messages"])
            assert all(word in first for word in row.named), first
        return
    assert out.ended == "done", (out.ended, out.state["error_messages"])
    assert tuple(code for code in codes if code.startswith("meaning")) == row.warned
    assert strategy_of(out.state)["cells"] == [row.cells[-1]]
    out.assert_right(row.right, row.source)


def test_each_turn_of_a_conversation_changes_one_thing_of_the_rule_before(shared_data):
    """s14: a rule, then two of its conditions changed, then another stock and another window."""
    falling = clause("连续两天收阴就卖", "exit", "连续两个交易日收盘价低于开盘价时卖出")
    three = clause("连续三天收阳就买", "entry", "连续三个交易日收盘价高于开盘价时买入")
    two = clause("连续两天收阳", "entry", "连续两个交易日收盘价高于开盘价时买入")
    over = clause("而且收盘要在10日线上面", "entry", "并且收盘价高于10日均线")
    half = ("20250701", "20251231")
    later = CANDLES.replace("streak(close > opened, 3)", "streak(close > opened, 2)").replace(
        "zero", OVER_TEN, 1
    )
    cast = SentenceModel(
        readings=[
            reading("603993.SH", YEAR, three, falling),
            reading("603993.SH", YEAR, two, over, falling),
            reading("601899.SH", half, two, over, falling),
        ],
        cells=[CANDLES, later],
    )
    graph, store = graph_of(cast, Path(shared_data, "ai-trader", "a_share"), "fail")
    turns = [
        (
            "洛阳钼业连续三天收阳就买，连续两天收阴就卖，2025年",
            "603993.SH",
            YEAR,
            lambda bars: candles(bars, 3),
        ),
        (
            "改成连续两天收阳，而且收盘要在10日线上面",
            "603993.SH",
            YEAR,
            lambda bars: candles(bars, 2, over=10),
        ),
        ("换成紫金矿业，只看下半年", "601899.SH", half, lambda bars: candles(bars, 2, over=10)),
    ]
    for number, (text, code, window, right) in enumerate(turns):
        state = graph.invoke({"messages": [("user", text)]}, THREAD)
        assert state["ended_because"] == "done", (text, state["error_messages"])
        understood = request_of(state)["understanding"]
        assert (understood["trade"], understood["windows"][0][0]) == ([code], window[0])
        Outcome(state, store).assert_right(right)
        if number:
            assert "streak(close > opened" in cast.asked["code"][-2], "the code before is shown"
