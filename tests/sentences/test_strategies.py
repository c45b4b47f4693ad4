"""Sentences as people type them: each trades what it says, or asks, or names what is not done."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.sentences.cell_panels import signal_of

from quantgraph.data import MarketDataSource, open_source
from quantgraph.rules import in_words
from quantgraph.sentences._request import ParsedRequest, RequestContext, read_request
from quantgraph.sentences._roles import watched_of
from quantgraph.sentences._rules import write_code
from quantgraph.sentences._text import normalise
from quantgraph.subgraphs.signal._source_facts import names_of

Frame = pd.DataFrame


@dataclass(frozen=True, kw_only=True)
class Panel:
    """What a rule may read, of the symbols that it watches."""

    close: Frame
    high: Frame
    low: Frame
    vol: Frame
    indicators: dict[str, Frame] = field(default_factory=dict)


def by_column(series: Callable[[list[float]], list[float]], frame: Frame) -> Frame:
    """A recursion over each symbol's own sessions."""
    found = pd.DataFrame(np.nan, index=frame.index, columns=frame.columns)
    for name in frame.columns:
        known = frame[name].dropna()
        found.loc[known.index, name] = series([float(value) for value in known])
    return found


def windows(frame: Frame, n: int, of: Callable[..., Any]) -> Frame:
    """A function of the last n rows, NaN where one of them is."""
    values = frame.to_numpy()
    found = np.full(values.shape, np.nan)
    for at in range(n - 1, len(values)):
        found[at] = of(values[at - n + 1 : at + 1], axis=0)
    return pd.DataFrame(found, index=frame.index, columns=frame.columns)


def sma(n: int, panel: Panel) -> Frame:
    return windows(panel.close, n, np.mean)


def ema(values: list[float], n: int) -> list[float]:
    found: list[float] = []
    for value in values:
        found.append(value if not found else found[-1] + 2 / (n + 1) * (value - found[-1]))
    return [float("nan")] * min(n - 1, len(found)) + found[n - 1 :]


def macd(panel: Panel) -> tuple[Frame, Frame]:
    fast, slow = (by_column(partial(ema, n=n), panel.close) for n in (12, 26))
    dif = fast - slow
    return dif, by_column(partial(ema, n=9), dif)


def wilder(prices: list[float], n: int) -> list[float]:
    found = [float("nan")] * len(prices)
    moves = [after - before for before, after in zip(prices, prices[1:], strict=False)]
    if len(moves) < n:
        return found
    up, down = sum(max(move, 0.0) for move in moves[:n]) / n, sum(max(-move, 0.0) for move in moves[:n]) / n
    for at in range(n, len(prices)):
        if at > n:
            move = moves[at - 1]
            up, down = (up * (n - 1) + max(move, 0.0)) / n, (down * (n - 1) + max(-move, 0.0)) / n
        found[at] = 100 * up / (up + down) if up + down else 0.0
    return found


def rsi(n: int, panel: Panel) -> Frame:
    return by_column(partial(wilder, n=n), panel.close)


def smooth(values: list[float]) -> list[float]:
    found, last = [], 50.0
    for value in values:
        last = last + (value - last) / 3
        found.append(last)
    return found


def kdj(panel: Panel) -> tuple[Frame, Frame, Frame]:
    low, high = windows(panel.low, 9, np.min), windows(panel.high, 9, np.max)
    k = by_column(smooth, 100 * (panel.close - low) / (high - low))
    d = by_column(smooth, k)
    return k, d, 3 * k - 2 * d


def band(side: int, panel: Panel) -> Frame:
    return windows(panel.close, 20, np.mean) + side * 2 * windows(panel.close, 20, np.std)


def change(n: int, panel: Panel) -> Frame:
    def of(prices: list[float]) -> list[float]:
        first = min(n, len(prices))
        return [float("nan")] * first + [
            now / before - 1 for before, now in zip(prices, prices[n:], strict=False)
        ]

    return by_column(of, panel.close)


def crosses(one: Frame, other: Frame | float, sign: int) -> Frame:
    now, before = (
        sign * (one - other),
        sign * (one.shift(1) - (other.shift(1) if isinstance(other, pd.DataFrame) else other)),
    )
    found = ((now > 0) & (before <= 0)).astype(float)
    return found.where(now.notna() & before.notna())


def holds(truth: Frame, *needed: Frame) -> Frame:
    found = truth.astype(float)
    for frame in needed:
        found = found.where(frame.notna())
    return found


def extreme(frame: Frame, count: int, *, top: bool) -> Frame:
    """Whether fewer than ``count`` symbols are as good or better; ties at the border are out."""
    found = pd.DataFrame(0.0, index=frame.index, columns=frame.columns)
    for at, row in enumerate(frame.to_numpy()):
        good = row if top else -row
        as_good = (good[np.newaxis, :] >= good[:, np.newaxis]).sum(axis=1)
        found.iloc[at] = (as_good <= count).astype(float)
    return found.where(frame.notna())


def both(entry: Frame, exit_: Frame) -> Frame:
    """Signal of entry and exit: the exit wins, and no opinion where either is unknown."""
    signal = (entry == 1).astype(float)
    return signal.mask(exit_ == 1, -1.0).where(entry.notna() & exit_.notna())


def sma_cross(fast: int, slow: int, panel: Panel) -> Frame:
    one, other = sma(fast, panel), sma(slow, panel)
    return both(crosses(one, other, 1), crosses(one, other, -1))


def two_crosses(panel: Panel) -> Frame:
    return both(crosses(sma(5, panel), sma(20, panel), 1), crosses(sma(10, panel), sma(30, panel), -1))


def above_sma(n: int, panel: Panel) -> Frame:
    line = sma(n, panel)
    return both(holds(panel.close > line, line, panel.close), holds(panel.close < line, line, panel.close))


def on_sma_60(panel: Panel) -> Frame:
    return (panel.close - sma(60, panel)).abs() < 1e-9


def close_crosses(panel: Panel) -> Frame:
    line = sma(20, panel)
    return both(crosses(panel.close, line, 1), crosses(panel.close, line, -1))


def rsi_state(low: float, high: float, panel: Panel) -> Frame:
    value = rsi(14, panel)
    return both(holds(value < low, value), holds(value > high, value))


def rsi_event(panel: Panel) -> Frame:
    value = rsi(14, panel)
    return both(crosses(value, 30.0, 1), crosses(value, 70.0, -1))


def j_event(panel: Panel) -> Frame:
    value = kdj(panel)[2]
    return both(crosses(value, 0.0, 1), crosses(value, 100.0, -1))


def kdj_low(panel: Panel) -> Frame:
    k, d, j = kdj(panel)
    up = crosses(k, d, 1)
    return both((up * (j < 20)).where(up.notna()), crosses(k, d, -1))


def bollinger(panel: Panel) -> Frame:
    low, high = band(-1, panel), band(1, panel)
    return both(holds(panel.close < low, low), holds(panel.close > high, high))


def either_low(panel: Panel) -> Frame:
    value, low = rsi(6, panel), band(-1, panel)
    return both(holds((value < 20) | (panel.close < low), value, low), holds(value > 80, value))


def many(panel: Panel) -> Frame:
    dif, dea = macd(panel)
    value, volume = rsi(14, panel), windows(panel.vol, 5, np.mean)
    up, down = crosses(dif, dea, 1), crosses(dif, dea, -1)
    entry = ((up == 1) & (value > 50) & (panel.vol > volume)).astype(float)
    exit_ = ((down == 1) | (value > 80)).astype(float)
    known = up.notna() & value.notna() & volume.notna() & panel.vol.notna()
    return both(entry.where(known), exit_.where(known))


def rsi_then_macd(panel: Panel) -> Frame:
    dif, dea = macd(panel)
    value, down = rsi(14, panel), crosses(dif, dea, -1)
    return both(holds(value < 30, value, down), down.where(value.notna()))


def ranked(n: int, count: int, top: bool, panel: Panel) -> Frame:
    found = extreme(change(n, panel), count, top=top)
    return both(found, 1 - found)


def lowest(name: str, bought: int, kept: int, panel: Panel) -> Frame:
    values = panel.indicators[name]
    return both(extreme(values, bought, top=False), 1 - extreme(values, kept, top=False))


def held(panel: Panel) -> Frame:
    return (panel.close > 0).astype(float).where(panel.close.notna())


def price_levels(panel: Panel) -> Frame:
    known = panel.close
    return both(holds(known < 1400, known), holds(known > 1600, known))


FIVE_TWENTY = partial(sma_cross, 5, 20)
ALL_OF_2025 = ("20250101", "20251231")


@dataclass(frozen=True, kw_only=True)
class Trades:
    """What is watched (the traded ones if empty) and traded, when, and the signal of the watched ones."""

    signal: Callable[[Panel], Frame]
    trade: str = "600519.SH"
    watch: str = ""
    window: tuple[str, str] = ALL_OF_2025
    default_exit: bool = False
    tied: Callable[[Panel], Frame] | None = None
    """Where two values are equal on paper, so that rounding decides."""


TRADES: dict[str, Trades] = {
    "05 top10": Trades(signal=partial(ranked, 20, 10, True), trade="000016.SH", window=("20250301", "20251031")),
    "06 lowPE": Trades(signal=partial(lowest, "pe", 10, 15), trade="990030.SH"),
    "07 smallcap": Trades(signal=partial(lowest, "total_mv", 10, 10), trade="ALL", default_exit=True),
    "15 kdj": Trades(signal=kdj_low),
    "16 multi": Trades(signal=many, trade="000016.SH"),
    "18 mixed": Trades(signal=partial(rsi_state, 30, 70)),
    "19 trad": Trades(signal=FIVE_TWENTY),
    "22 3years": Trades(signal=partial(above_sma, 60), trade="990030.SH", window=("20230101", "20251231"), tied=on_sma_60),
    "boll-a": Trades(signal=bollinger, trade="600036.SH", window=("20250101", "20250630")),
    "boll-b": Trades(signal=bollinger, trade="600036.SH", window=("20250101", "20250630")),
    "two-a": Trades(signal=partial(sma_cross, 20, 60), trade="600519.SH,601318.SH", window=("20250102", "20251031")),
    "two-b": Trades(signal=partial(sma_cross, 20, 60), trade="600519.SH,601318.SH", window=("20250102", "20251031")),
    "or-a": Trades(signal=either_low, trade="601398.SH", window=("20250102", "20251031")),
    "r1": Trades(signal=partial(above_sma, 20), watch="000016.SH"),
    "r2": Trades(signal=close_crosses, watch="601318.SH"),
    "r3": Trades(signal=partial(rsi_state, 30, 70), watch="600036.SH"),
    "r4": Trades(signal=partial(above_sma, 20), watch="000016.SH"),
    "r5": Trades(signal=FIVE_TWENTY, watch="600519.SH", trade="601318.SH"),
    "r7": Trades(signal=rsi_event),
    "r8": Trades(signal=rsi_event),
    "r9": Trades(signal=rsi_event),
    "r10": Trades(signal=j_event),
    "r11": Trades(signal=rsi_event),
    "r21": Trades(signal=FIVE_TWENTY, trade="601318.SH"),
    "r22": Trades(signal=FIVE_TWENTY, trade="601318.SH"),
    "r23": Trades(signal=FIVE_TWENTY),
    "h3": Trades(signal=two_crosses),
    "h9": Trades(signal=partial(ranked, 20, 10, False), trade="000016.SH", window=("20250301", "20251031")),
    "h13": Trades(signal=FIVE_TWENTY, window=("20250301", "20250331")),
    "h21": Trades(signal=partial(rsi_state, 30, 70)),
    "s3": Trades(signal=FIVE_TWENTY),
    "s27": Trades(signal=FIVE_TWENTY, window=("20240101", "20251231")),
    "s13": Trades(signal=rsi_event),
    "s15": Trades(signal=price_levels),
    "t17": Trades(signal=partial(ranked, 20, 200, True), trade="000016.SH", window=("20250301", "20251031")),
    "t19": Trades(signal=partial(sma_cross, 5, 2000)),
    "u1": Trades(signal=held, trade="000016.SH", window=("20250301", "20251031")),
    "u3": Trades(signal=partial(above_sma, 20), trade="601318.SH", window=("20250601", "20251031")),
    "u5": Trades(signal=rsi_then_macd),
}  # fmt: skip

WITHOUT: dict[str, tuple[str, ...]] = {
    "24 limit-intraday": ("60分钟线",),
    "26 weeklybar": ("weekly",),
    "34 adj": ("前复权",),
    "h35": ("T+0",),
    "s1": ("收盘价成交",),
    "s5": ("杠杆2倍",),
}
"""Clauses that are read and not executed: the question names them, and the rule is traded only without them."""

PLANNED: dict[str, dict[str, object]] = {
    "01 stop": {"stop_loss": 0.05, "take_profit": 0.1},
    "02 hold5": {"max_holding": 5},
    "03 weekly": {"max_positions": 10, "trade_on": "week_start"},
    "04 monthly-en": {"max_positions": 10, "trade_on": "month_start", "size": "equal_weight"},
    "21 capital": {"cash": 100_000.0},
    "29 half": {"size": {"percent": 0.5}},
    "14 atr": {"trailing_stop": {"atr": 3.0}},
    "33 fee": {"commission": 0.0001},
    "t1": {"max_positions": 10, "size": {"percent": 0.1}},
    "t3": {"stop_loss": 0.03},
}
"""Sentences with a trade plan beside the rule, which is carried out; a ranking says the number of positions."""

SPANS = {
    "r12": "2025年1月、5月",
    "r13": "2025Q1 and 2025Q3",
    "r14": "in Jan 2025 and in June 2025",
    "h11": "ytd",
}
"""Several spans: one is asked for."""

ASKS: dict[str, str] = {
    "08 turtle": "海龟", "09 turtle-en": "Turtle", "10 grid": "每跌", "11 pairs": "spread", "12 dip": "dip", "13 dip2": "recovers",
    "17 typos": "averge", "20 several": "策略二", "23 short": "cover", "25 ma3": "多头", "30 exclude": "剔除银行股",
    "31 macd-red": "MACD红柱", "32 vwap": "VWAP", "36 open": "高开", "37 ma-up": "向上", "38 zhangting": "次日", "39 lowercase": "low PE",
    "40 rsi-default": "rsi", "l6-b": "55-day closing high", "r6": "买入的是 600519.SH，卖出的是 601318.SH",
    "r15": "600519.SH; 601318.SH", "r16": "buy the top 10", "r17": "买入的是 601398.SH，卖出的是 601288.SH", "r18": "600519.SH vs 000016.SH",
    "r19": "相对 000016.SH", "r20": "20250630", "h1": "Don't", "h5": "连续", "h7": "volatility", "h17": "放大", "h19": "放量",
    "h23": "below", "h25": "不要在5月", "h27": "买入", "h29": "hull", "h31": "开盘价", "h33": "higher", "h37": "同时上穿", "h39": "3 months",
    "s7": "first", "s9": "tomorrow", "s17": "5周均线", "s19": "5分钟", "s21": "波动率", "s23": "先选", "s25": "long",
    "s29": "训练", "s31": "多头", "s35": "20日最高收盘价", "s37": "除了 600519.SH", "s41": "RSI(14,30,70)",
    "s43": "一次", "s45": "连续放大", "s47": "averaging", "s49": "unless", "t5": "持有到死叉", "t7": "布林带", "t13": "5日均线上穿5日均线",
    "t15": "RSI低于130", "u7": "除了3月",
}  # fmt: skip
"""Words that the question names."""

MARKET = {"s39": "5-day average crosses above 20-day average and (index 000016.SH: close > 20-day average)"}
"""Entries with a condition on the market, which is an index of the source; ``test_market.py`` computes such signals."""

WORDED = {
    "27 nextday": "streak(close > ago(close, 1), 3) | streak(close < ago(close, 1), 3)",
    "l6-a": "close > ago(highest(high, 55), 1) | close < ago(lowest(low, 20), 1)",
    "h15": "change(close, 1) > 0.03 | change(close, 1) < -0.03",
    "s11": "streak(rsi(14) < 30, 3) | rsi(14) > 70",
    "s33": "cross_up(dif(12, 26), dea(12, 26, 9)) and dif(12, 26) > 0 and dea(12, 26, 9) > 0 | cross_down(dif(12, 26), dea(12, 26, 9))",
}
"""Entry and exit of sentences in everyday words; ``test_everyday_words.py`` has more of them."""

REFUSED = {"28 AAPL": "AAPL", "35 2023": "20231231", "t9": "20250631", "t11": "20221120"}
"""Read whole, and refused or cut by the host: a stock or a time that the data do not have, a day that does not exist."""


def sentences(shared: Path) -> dict[str, dict[str, str]]:
    lines = (shared / "sentences" / "sentences.jsonl").read_text(encoding="utf-8").splitlines()
    return {row["id"]: row for row in map(json.loads, lines)}


@pytest.fixture(scope="module")
def rows(shared_data: Path) -> dict[str, dict[str, str]]:
    return sentences(shared_data)


@pytest.fixture(scope="module")
def sources(shared_data: Path) -> dict[str, MarketDataSource]:
    name = "ai-trader/a_share"
    return {"sample": open_source("sample"), name: open_source(str(shared_data / name))}


@pytest.fixture(scope="module")
def read(
    rows: dict[str, dict[str, str]], sources: dict[str, MarketDataSource]
) -> Callable[..., ParsedRequest]:
    def reader(name: str, *later: str) -> ParsedRequest:
        row = rows[name]
        source, text = sources[row["source"]], normalise(row["text"])
        sessions = source.sessions()
        context = RequestContext(
            first_session=f"{sessions[0]:%Y%m%d}",
            last_session=f"{sessions[-1]:%Y%m%d}",
            names=names_of(text, source),
        )
        return read_request("\n".join((row["text"], *later)), context)

    return reader


def test_the_table_has_every_sentence_once(rows: dict[str, dict[str, str]]) -> None:
    listed = [*TRADES, *WITHOUT, *PLANNED, *SPANS, *ASKS, *MARKET, *WORDED, *REFUSED]
    assert sorted(listed) == sorted(rows)
    assert len(rows) == 129


def test_what_is_not_read_is_named_and_asked_about(
    read: Callable[..., ParsedRequest], subtests: pytest.Subtests
) -> None:
    for name, said in ASKS.items():
        with subtests.test(name=name):
            request = read(name)
            assert {"strategy", "window"} & set(request.missing)
            assert any(said in words for words in request.unparsed), request.unparsed


@pytest.mark.parametrize("name", SPANS)
def test_several_spans_are_asked_about_and_never_joined(
    read: Callable[..., ParsedRequest], name: str
) -> None:
    request = read(name)
    assert request.missing == ("window",)
    assert len(request.windows) > 1
    assert any(SPANS[name] in words for words in request.unparsed)


@pytest.mark.parametrize("name", WITHOUT)
def test_what_is_not_executed_is_asked_about_and_named_when_given_up(
    read: Callable[..., ParsedRequest], name: str
) -> None:
    request = read(name)
    assert request.missing == ("plan",)
    assert tuple(clause.words for clause in request.open) == WITHOUT[name]
    later = read(name, "go on without it")
    assert later.missing == ()
    assert tuple(note.words for note in later.clauses if note.status == "not_done") == WITHOUT[name]
    assert (later.strategy, later.plan) == (request.strategy, {})


@pytest.mark.parametrize("name", PLANNED)
def test_a_plan_beside_the_rule_is_carried_out(read: Callable[..., ParsedRequest], name: str) -> None:
    request = read(name)
    assert (request.missing, request.unparsed, request.open) == ((), (), ())
    assert (request.strategy is not None, request.plan) == (True, PLANNED[name])
    said = PLANNED[name].keys() - {"max_positions"}  # which the ranking says
    assert len([note for note in request.clauses if note.status == "done"]) == len(said)


@pytest.mark.parametrize("name", MARKET)
def test_a_condition_on_the_market_is_read_beside_the_rule(
    read: Callable[..., ParsedRequest], name: str
) -> None:
    request = read(name)
    assert (request.missing, request.unparsed) == ((), ())
    assert request.strategy is not None
    assert in_words(request.strategy.entry, "en") == MARKET[name]


@pytest.mark.parametrize("name", WORDED)
def test_everyday_words_are_read_whole(read: Callable[..., ParsedRequest], name: str) -> None:
    request = read(name)
    assert (request.missing, request.unparsed) == ((), ())
    assert request.strategy is not None
    assert " | ".join(request.strategy.expressions) == WORDED[name]


@pytest.mark.parametrize("name", REFUSED)
def test_what_the_data_do_not_have_is_read_as_said(read: Callable[..., ParsedRequest], name: str) -> None:
    request = read(name)
    assert request.missing == ()
    assert REFUSED[name] in (*request.symbols, request.start, request.end)


def members_of(source: MarketDataSource, codes: str) -> list[str]:
    if codes == "ALL":
        return list(source.symbols())
    sessions = source.sessions()
    known = {
        code: list(source.members(code, sessions[-1]).symbols)
        if code in ("000016.SH", "990030.SH")
        else [code]
        for code in codes.split(",")
    }
    return sorted({symbol for symbols in known.values() for symbol in symbols})


def panels_of(
    source: MarketDataSource, case: Trades, start: pd.Timestamp, end: pd.Timestamp
) -> dict[str, dict[str, Frame]]:
    stocks = [code for code in case.watch.split(",") if code and code != "000016.SH"]
    symbols = sorted({*members_of(source, case.trade), *stocks})
    bars = dict(source.bars(symbols, start, end))
    panels = {"ohlcv": bars, "indicators": {}, "index": {}}
    if case.trade in ("990030.SH", "ALL"):
        panels["indicators"] = dict(source.indicators(symbols, start, end, ("pe", "total_mv")))
    if case.watch == "000016.SH":
        levels = source.index_bars("000016.SH", start, end)
        panels["index"] = {"close": levels[["close"]].set_axis(["000016.SH"], axis=1)}
    return panels


def watched_panel(panels: dict[str, dict[str, Frame]], case: Trades) -> Panel:
    if case.watch == "000016.SH":
        close = panels["index"]["close"].reindex(panels["ohlcv"]["close"].index)
        return Panel(close=close, high=close, low=close, vol=close)
    bars = {name: frame[[case.watch]] if case.watch else frame for name, frame in panels["ohlcv"].items()}
    return Panel(
        close=bars["close"],
        high=bars["high"],
        low=bars["low"],
        vol=bars["vol"],
        indicators=panels["indicators"],
    )


def test_the_signal_is_that_of_an_independent_computation(
    read: Callable[..., ParsedRequest],
    rows: dict[str, dict[str, str]],
    sources: dict[str, MarketDataSource],
    subtests: pytest.Subtests,
) -> None:
    for name, case in TRADES.items():
        with subtests.test(name=name):
            request = read(name)
            assert (request.missing, request.unparsed) == ((), ())
            assert ",".join(request.trade) == case.trade
            assert ",".join(request.watch) == (case.watch or case.trade)
            assert (request.start, request.end) == case.window
            assert (
                (request.exit == "")
                == case.default_exit
                == any(note.status == "default" and not note.words for note in request.clauses)
            )
            assert request.strategy is not None
            source = sources[rows[name]["source"]]
            sessions = source.sessions()
            start = max(pd.Timestamp(case.window[0]), sessions[0])
            panels = panels_of(source, case, start, min(pd.Timestamp(case.window[1]), sessions[-1]))
            code = write_code(request.strategy, watched_of(request.watch, request.trade))
            signal = signal_of(code.source, panels)
            expected = case.signal(watched_panel(panels, case))
            if case.tied is not None:
                tied = case.tied(watched_panel(panels, case))
                assert tied.to_numpy().sum() < 20
                expected, signal = expected.mask(tied), signal.mask(tied)
            if case.watch:
                expected = pd.DataFrame({case.trade: expected[case.watch]})
            expected = expected.reindex(columns=signal.columns)
            # An exit is known before its entry is, and a window of own sessions before one with a gap in it.
            signal = signal.where(expected.notna())
            pd.testing.assert_frame_equal(signal, expected, check_freq=False, check_names=False)
            assert list(signal.columns) == members_of(source, case.trade)
