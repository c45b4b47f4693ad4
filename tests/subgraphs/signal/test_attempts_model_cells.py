"""Cells as a strong model wrote them, over HTTP: a fault is told, and the right cell after it ends done."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from states import flat
from thinned import thinned

from quantgraph.llm.messages import _json as tags
from quantgraph.market import session_of
from quantgraph.runtime import Resources
from quantgraph.settings import load_settings
from quantgraph.state import DataState
from quantgraph.subgraphs.signal import create_signal_subgraph
from quantgraph.testing import OpenAIStub, Reply

pytestmark = pytest.mark.proof

WINDOW = ("20250401", "20250930")
ALL = "000016.SH"
SOME = "600030.SH,600036.SH,600519.SH,601012.SH,601318.SH,688981.SH"


def rolled(frame, n, function):
    """A function of each full window of numbers, by hand; NaN elsewhere."""
    values, made = frame.to_numpy(), np.full(frame.shape, np.nan)
    for t in range(n - 1, len(values)):
        window = values[t - n + 1 : t + 1]
        full = ~np.isnan(window).any(axis=0)
        made[t, full] = [function(window[:, j]) for j in np.flatnonzero(full)]
    return made


def mean(frame, n):
    return rolled(frame, n, np.mean)


def first_of(sessions, period):
    """Whether a session is the first of its week or month."""
    names = [day.isocalendar()[:2] if period == "week" else (day.year, day.month) for day in sessions]
    return np.array([t == 0 or names[t] != names[t - 1] for t in range(len(names))])[:, None]


def ranked(score, *, highest):
    """Places from 1 in each row, ties by column; infinite where there is no score."""
    places = np.full(score.shape, np.inf)
    for t, row in enumerate(score):
        known = np.flatnonzero(~np.isnan(row))
        order = sorted(known, key=lambda j: (-row[j] if highest else row[j], j))
        places[t, order] = np.arange(1, len(order) + 1)
    return places


def marks(shape, *layers, known):
    """Zeros, on which each layer of (cells, value) is laid; NaN where nothing is known."""
    made = np.zeros(shape)
    for cells, value in layers:
        made[np.broadcast_to(cells, shape)] = value
    made[~known] = np.nan
    return made


def filled(close):
    values = close.to_numpy().copy()
    for t in range(1, len(values)):
        gap = np.isnan(values[t])
        values[t, gap] = values[t - 1, gap]
    return pd.DataFrame(values, index=close.index, columns=close.columns)


def change(values, n):
    made = np.full(values.shape, np.nan)
    made[n:] = values[n:] / values[:-n] - 1
    return made


def pairs(bars):
    close = bars["close"]
    ratio = pd.DataFrame({"r": np.log(close["601398.SH"]) - np.log(close["601988.SH"])})
    spread = rolled(ratio, 60, lambda window: window.std(ddof=1))
    z = ((ratio.to_numpy() - mean(ratio, 60)) / spread)[:, 0]
    first = np.where(z >= 0, -1.0, np.where(z <= -2, 1.0, 0.0))
    second = np.where(z <= 0, -1.0, np.where(z >= 2, 1.0, 0.0))
    made = np.column_stack([first, second])
    made[np.isnan(z)] = np.nan
    return made


def composite(bars):
    close = bars["close"]
    whole = filled(close)
    momentum = change(whole.to_numpy(), 60)
    daily = pd.DataFrame(change(whole.to_numpy(), 1))
    risk = rolled(daily, 20, lambda window: window.std(ddof=1))

    def z(values):
        made = np.full(values.shape, np.nan)
        for t, row in enumerate(values):
            known = row[~np.isnan(row)]
            if len(known) > 1:
                made[t] = (row - known.mean()) / known.std(ddof=1)
        return made

    score = np.where(close.notna(), 0.5 * z(momentum) - 0.5 * z(risk), np.nan)
    top, first = ranked(score, highest=True) <= 10, first_of(close.index, "week")
    return marks(close.shape, (first & top, 1), (first & ~top, -1), known=~np.isnan(score))


def volume_breakout(bars):
    close, vol = bars["close"].to_numpy(), bars["vol"]
    high, ma20 = rolled(bars["close"], 60, np.max), mean(bars["close"], 20)
    usual = np.vstack([np.full((1, close.shape[1]), np.nan), mean(vol, 20)[:-1]])
    enter, made = (close >= high) & (vol.to_numpy() >= 2 * usual), np.zeros(close.shape)
    for j in range(close.shape[1]):
        peak = None
        for t, price in enumerate(close[:, j]):
            if peak is None:
                if enter[t, j]:
                    made[t, j], peak = 1.0, price
            else:
                peak = price if np.isnan(peak) or price > peak or np.isnan(price) else peak
                if price < ma20[t, j] or price <= 0.92 * peak:
                    made[t, j], peak = -1.0, None
    return made


def momentum_filter(bars):
    close = bars["close"]
    whole = filled(close).to_numpy()
    score = np.where(close.notna(), change(whole, 20), np.nan)
    daily = change(whole, 1)
    steps = [row[~np.isnan(row)].mean() if not np.isnan(row).all() else 0.0 for row in daily]
    level = pd.DataFrame(np.cumprod([1 + step for step in steps]))
    bear = level.to_numpy() < mean(level, 20)
    places = ranked(score, highest=True)
    return marks(close.shape, (places <= 10, 1), (places > 10, -1), (bear, -1), known=~np.isnan(score))


def lowest_to_high(bars):
    close = bars["close"]
    ratio = close.to_numpy() / rolled(bars["high"], 60, np.max)
    places, first = ranked(ratio, highest=False), first_of(close.index, "month")
    return marks(close.shape, (first & (places <= 5), 1), (first & (places > 5), -1), known=~np.isnan(ratio))


def wilder_rsi(prices, n=14):
    made, known = np.full(len(prices), np.nan), np.flatnonzero(~np.isnan(prices))
    begin = known[0]
    steps = np.diff(prices[begin:])
    up, down = steps[:n].clip(0).mean(), -steps[:n].clip(None, 0).mean()
    for t in range(n, len(steps) + 1):
        if t > n:
            up, down = (up * (n - 1) + max(steps[t - 1], 0)) / n, (down * (n - 1) - min(steps[t - 1], 0)) / n
        made[begin + t] = 100 * up / (up + down)
    return made


def rsi_two_days(bars):
    whole = filled(bars["close"])
    rsi = np.column_stack([wilder_rsi(whole[code].to_numpy()) for code in whole])
    ma60, low = mean(whole, 60), rsi < 30
    before = np.vstack([np.zeros((1, low.shape[1]), dtype=bool), low[:-1]])
    buy = low & before & (whole.to_numpy() > ma60)
    return marks(rsi.shape, (buy, 1), (rsi > 70, -1), known=~np.isnan(rsi) & ~np.isnan(ma60))


def bollinger(bars):
    close = bars["close"].to_numpy()
    mid, spread = mean(bars["close"], 20), rolled(bars["close"], 20, np.std)
    known = ~np.isnan(mid) & ~np.isnan(close)
    return marks(close.shape, (close > mid + 2 * spread, 1), (close < mid, -1), known=known)


def sma_cross(bars):
    close = bars["close"]
    above = mean(close, 5) > mean(close, 20)
    before = np.vstack([np.zeros((1, close.shape[1]), dtype=bool), above[:-1]])
    return marks(close.shape, (above & ~before, 1), (~above & before, -1), known=~np.isnan(mean(close, 21)))


def price_cross(bars):
    close, ma = bars["close"].to_numpy(), mean(bars["close"], 20)
    known = ~np.isnan(ma)
    nothing = np.zeros((1, close.shape[1]), dtype=bool)
    above, below = known & (close > ma), known & (close < ma)
    buy, sell = (side & ~np.vstack([nothing, side[:-1]]) for side in (above, below))
    return marks(close.shape, (buy, 1), (sell, -1), known=known)


MENDED = "mended"
"""The cell before it, with what its error says to write."""
CASES = {
    "object dtype": (SOME, ["cross_ma20_object_dtype", MENDED], ["code_failed"], price_cross),
    "pairs": ("601398.SH,601988.SH", ["pairs_1_leak", "pairs_2_right"], ["not_causal"], pairs),
    "composite": (
        ALL,
        ["composite_weekly_1_leak", "composite_weekly_2_leak", "composite_weekly_3_right"],
        ["not_causal", "not_causal"],
        composite,
    ),
    "volume breakout": (
        SOME,
        ["volume_breakout_1_name_error", "volume_breakout_2_no_update", "volume_breakout_3_right"],
        ["code_failed", "no_signal"],
        volume_breakout,
    ),
    "momentum": (ALL, ["momentum_index_filter"], [], momentum_filter),
    "lowest": (ALL, ["lowest_to_high_monthly"], [], lowest_to_high),
    "rsi": (SOME, ["rsi_two_days_ma60"], [], rsi_two_days),
    "bollinger": (SOME, ["bollinger_right"], [], bollinger),
    "sma cross": (SOME, ["sma_cross_right"], [], sma_cross),
}
RULES = {
    "object dtype": "收盘价上穿20日均线买入，下穿卖出",
    "pairs": "工商银行与中国银行对数价比的60日z值，2以上买中国银行，-2以下买工商银行，回到0卖出",
    "composite": "每周买入0.5倍60日动量z值减0.5倍20日波动率z值最高的10只，其余卖出",
    "volume breakout": "放量两倍创60日新高买入，跌破20日线或从最高点回落8%卖出",
    "momentum": "买入20日涨幅最高的10只，成分股等权指数在20日线下时全部卖出",
    "lowest": "每月买入收盘价与60日最高价之比最低的5只，其余卖出",
    "rsi": "RSI连续两天低于30且在60日均线上买入，高于70卖出",
    "bollinger": "收盘价在布林带上轨之上买入，跌到中轨之下卖出",
    "sma cross": "5日均线上穿20日均线买入，下穿卖出",
}


def scripted(cells, codes, rule, window=WINDOW):
    """A model that reads the rule and runs one cell an attempt, the last one again and again."""
    left = list(cells)

    def answer(request):
        text = "\n".join(str(message["content"]) for message in request.messages)
        if tags.read("strategy", text) is None:
            if tags.read("user_request", text) is None:
                return Reply.text('{"issues_found": []}')
            params = {"ts_code": codes, "start_date": window[0], "end_date": window[1], "strategy_desc": rule}
            read = {"type": "mixed", "params": params, "needs_clarification": False}
            return Reply.text(json.dumps({"task_type": "mixed", "user_intent": read}))
        if request.messages[-1]["role"] == "tool":
            return Reply.text("这是代码的说明。")
        return Reply.call("python_repl", query=left.pop(0) if len(left) > 1 else left[0])

    return answer


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", thinned(CASES, lambda number, _: number % 3 == 0))
def test_each_fault_is_told_and_the_right_cell_gives_the_signal_of_another_computation(
    name, a_share, shared_data, runner
):
    codes, cells, faults, computed = CASES[name]
    folder = Path(shared_data, "model-replies", "cells")
    written = [(folder / f"{cell}.py").read_text(encoding="utf-8") for cell in cells if cell != MENDED]
    if MENDED in cells:
        written.append(written[-1].replace(".shift(1).fillna(False)", ".shift(1, fill_value=False)"))
    store = DataState()
    with OpenAIStub(scripted(written, codes, RULES[name])) as server:
        settings = load_settings(
            openai_base_url=server.base_url, openai_api_key="local", model="stub", audit={"cuts": 10}
        )
        graph = create_signal_subgraph(
            source=a_share,
            on_clarify="fail",
            settings=settings,
            resources=Resources(store=store, runner=runner),
        )
        text = f"{codes}，{RULES[name]}，{WINDOW[0]}到{WINDOW[1]}"
        final = graph.invoke({"messages": [("user", text)], "max_retries": 5})
        reflections = sum("<user_request>" in json.dumps(request.messages) for request in server.requests)
    assert final["ended_because"] == "done", final["error_messages"]
    assert reflections == 1, "no parameter was at fault"
    failed = [line.partition("): ")[2] for line in final["execution_history"] if " failed (attempt " in line]
    told = [line.partition(":")[0] for line in failed]
    assert told == faults
    assert flat(final)["strategy"]["cells"] == written[-1:]
    assert flat(final)["strategy"]["said"] == "这是代码的说明。"
    data = store.snapshot(final["data_ref"])
    signal = data["signal"][flat(final)["strategy"]["name"]]
    bars = data["ohlcv"]
    expected = pd.DataFrame(computed(bars), index=bars["close"].index, columns=bars["close"].columns)
    pd.testing.assert_frame_equal(
        signal, expected.loc[session_of(flat(final)["request"]["start"]) :], check_names=False
    )


def told_over_http(answer, text, a_share, runner, **settings):
    """The last state of a graph whose model answers over HTTP, and what it was asked, as text."""
    with OpenAIStub(answer) as server:
        made = load_settings(
            openai_base_url=server.base_url,
            openai_api_key="local",
            model="stub",
            audit={"cuts": 5},
            **settings,
        )
        resources = Resources(store=DataState(), runner=runner)
        graph = create_signal_subgraph(source=a_share, on_clarify="fail", settings=made, resources=resources)
        final = graph.invoke({"messages": [("user", text)]})
        asked = ["\n".join(str(message["content"]) for message in each.messages) for each in server.requests]
    return final, asked, resources.store


@pytest.mark.timeout(300)
def test_a_window_of_another_year_goes_back_to_the_model(a_share, shared_data, runner):
    codes, cells, _, _ = CASES["sma cross"]
    cell = Path(shared_data, "model-replies", "cells", f"{cells[0]}.py").read_text(encoding="utf-8")
    right, readings = scripted([cell], codes, RULES["sma cross"]), []

    def answer(request):
        reply = right(request)
        if "task_type" in str(reply):
            readings.append(request)
            if len(readings) == 1:
                years = [day.replace("2025", "2024") for day in WINDOW]
                return scripted([cell], codes, RULES["sma cross"], years)(request)
        return reply

    text = f"{codes}，{RULES['sma cross']}，{WINDOW[0]}到{WINDOW[1]}"
    final, asked, _ = told_over_http(answer, text, a_share, runner)
    assert final["ended_because"] == "done", final["error_messages"]
    assert flat(final)["understanding"]["windows"] == [list(WINDOW)]
    told = "misread: 句子里的时间是 20250401-20250930，不是 20240401-20240930"
    assert [told in each for each in asked if "<user_request>" in each] == [False, True]
