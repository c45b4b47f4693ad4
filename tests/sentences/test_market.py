"""Conditions on an index beside those on each stock, against plain pandas on the files of the SSE 50."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import talib
from tests.sentences import cell_panels

from quantgraph.data import open_source
from quantgraph.sentences._market import find_market, is_market_word
from quantgraph.sentences._request import ParsedRequest, RequestContext, read_request
from quantgraph.sentences._rules import write_code
from quantgraph.sentences.phrases import rule_in

INDEX, STOCK = "000016.SH", "600036.SH"
NAMES = {"招商银行": STOCK, "大盘": INDEX, "the market": INDEX}
CONTEXT = RequestContext(first_session="20250102", last_session="20251119", names=NAMES)
Frames = dict[str, pd.DataFrame]


def read(text: str) -> ParsedRequest:
    return read_request(text, CONTEXT)


@pytest.fixture(scope="module")
def bars(a_share: Path) -> Frames:
    source = open_source(str(a_share))
    sessions = source.sessions()
    return dict(source.bars(source.symbols(), sessions[0], sessions[-1]))


@pytest.fixture(scope="module")
def level(a_share: Path, bars: Frames) -> pd.Series:
    """Closes of the index by the vendor's own keys."""
    rows: dict[str, dict[str, str]] = {}
    for file in a_share.glob("index_daily_sse_50_*.json"):
        rows |= json.loads(file.read_text())["Time Series (Daily)"]
    closes = {pd.Timestamp(day): float(row["4. close"]) for day, row in rows.items()}
    return pd.Series(closes).sort_index().reindex(bars["close"].index)


def signal_of(entry: pd.DataFrame, leave: pd.DataFrame, known: pd.DataFrame) -> pd.DataFrame:
    return (
        pd.DataFrame(0.0, index=entry.index, columns=entry.columns)
        .mask(entry, 1.0)
        .mask(leave, -1.0)
        .where(known)
    )


def on_all(series: pd.Series, bars: Frames) -> pd.DataFrame:
    return pd.concat([series] * bars["close"].shape[1], axis=1, keys=bars["close"].columns)


def crosses(bars: Frames) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Where the 5-day average crosses the 20-day one upwards and downwards, and where that is known."""
    apart = bars["close"].rolling(5).mean() - bars["close"].rolling(20).mean()
    before = apart.shift(1)
    return (apart > 0) & (before <= 0), (apart < 0) & (before >= 0), apart.notna() & before.notna()


def rsi(bars: Frames, period: int) -> pd.DataFrame:
    def of(prices: pd.Series) -> pd.Series:
        known = prices.dropna()
        return pd.Series(talib.RSI(known.to_numpy(), period), known.index).reindex(prices.index)

    return bars["close"].apply(of)


def members_in_a_rising_market(bars: Frames, level: pd.Series) -> pd.DataFrame:
    mean, six = level.rolling(60).mean(), rsi(bars, 6)
    entry = (six < 20) & on_all(level > mean, bars)
    leave = (six > 80) | on_all(level < mean, bars)
    return signal_of(entry, leave, six.notna() & on_all(mean.notna(), bars) & bars["close"].notna())


def new_highs_in_a_rising_market(bars: Frames, level: pd.Series) -> pd.DataFrame:
    mean, close = level.rolling(20).mean(), bars["close"]
    high, own = bars["high"].rolling(30).max().shift(1), close.rolling(10).mean()
    known = high.notna() & own.notna() & close.notna() & on_all(mean.notna(), bars)
    below = close < own * (1 - 1e-9)  # equal but for rounding is equal
    return signal_of((close > high) & on_all(level > mean, bars), below, known)


def unless_the_market_fell(bars: Frames, level: pd.Series) -> pd.DataFrame:
    up, down, known = crosses(bars)
    change = level / level.shift(1) - 1
    return signal_of(up & ~on_all(change < -0.01, bars), down, known & on_all(change.notna(), bars))


def above_and_out(bars: Frames, level: pd.Series) -> pd.DataFrame:
    mean, fourteen = level.rolling(60).mean(), rsi(bars, 14)
    leave = (fourteen > 70) | on_all(level < mean, bars)
    return signal_of(
        fourteen < 30, leave, fourteen.notna() & bars["close"].notna() & on_all(mean.notna(), bars)
    )


SENTENCES: dict[str, tuple[Callable[[Frames, pd.Series], pd.DataFrame], str]] = {
    "只有上证50指数在60日均线上方时才开仓：成分股RSI(6)低于20买入，高于80卖出；指数跌破60日线全部清仓": (members_in_a_rising_market, INDEX),
    "当上证50指数收在20日线上方时，成分股里谁创30日新高就买谁，跌破10日线卖": (new_highs_in_a_rising_market, INDEX),
    "When the SSE 50 is above its 20-day average, buy members that make a new 30-day high, sell below their 10-day average": (
        new_highs_in_a_rising_market, INDEX,
    ),
    "招商银行5日线上穿20日线买入，但当天大盘跌超1%就不买，下穿卖出": (unless_the_market_fell, STOCK),
    "招商银行5日线上穿20日线买入，除非当天上证50跌超过1%，下穿卖出": (unless_the_market_fell, STOCK),
    f"Buy {STOCK} when its 5-day average crosses above its 20-day average unless the market fell more than 1% that day, "
    "sell when it crosses below": (unless_the_market_fell, STOCK),
    f"{STOCK} RSI低于30买入，高于70卖出，大盘跌破60日线清仓": (above_and_out, STOCK),
    f"buy {STOCK} when RSI(14) is below 30, sell when it is above 70, and sell everything when the SSE 50 falls below its 60-day average": (
        above_and_out, STOCK,
    ),
}  # fmt: skip


@pytest.mark.parametrize("text", SENTENCES)
def test_a_market_filter_is_read_whole_and_is_what_plain_pandas_computes(
    text: str, bars: Frames, level: pd.Series
) -> None:
    compute, trade = SENTENCES[text]
    request = read(f"{text}，2025年")
    assert (request.missing, request.unparsed, request.open) == ((), (), ())
    assert (request.watch, request.trade, request.reads_index) == ((INDEX,), (trade,), True)
    rule = rule_in(text, request)
    assert rule is not None
    traded = bars if trade == INDEX else {name: frame[[trade]] for name, frame in bars.items()}
    expected = compute(traded, level)
    assert {1.0, -1.0, 0.0} <= set(np.unique(expected.stack().dropna()))

    source = write_code(rule, request.watched).source
    signal = cell_panels.signal_of(
        source, {"ohlcv": traded, "index": {"close": level.to_frame(INDEX)}, "indicators": {}}
    )
    known = expected.notna()
    pd.testing.assert_frame_equal(signal.where(known), expected, check_freq=False, check_names=False)
    always = bars["close"].notna().all().reindex(expected.columns)
    assert not (signal.where(~known & always) == 1).any(axis=None), "an exit may be known before its entry"


ASKED = {
    f"{STOCK} RSI低于30买入，高于70卖出，如果大盘跌破60日线，仓位减半": "仓位减半",
    f"{STOCK} RSI低于30买入，高于70卖出，大盘放量才买": "放量才",
    f"大盘跌超1%就不交易，{STOCK} RSI低于30买入，高于70卖出": "跌超1%就不交易",
    f"buy {STOCK} when RSI is below 30, if the SSE 50 is below its 60-day average, use half the position, sell when RSI is above 70": "below 30",
    f"buy {STOCK} when RSI is below 30, sell when RSI is above 70 unless the market fell more than 1%": "unless",
    f"buy {STOCK} when RSI is below 30, sell when RSI is above 70, and the SSE 50 is above its 60-day average": INDEX,
    "大盘站上20日线买入，跌破卖出": "大盘",
    "只有大盘在60日线上方时才开仓：成分股RSI低于30买入，高于70卖出": "大盘",
}  # fmt: skip


@pytest.mark.parametrize("text", ASKED)
def test_a_clause_about_the_market_that_has_two_readings_is_asked_about(text: str) -> None:
    request = read(text)
    assert request.strategy is None
    assert any(ASKED[text] in words for words in request.unparsed), request.unparsed


def test_a_condition_on_an_index_alone_stays_that_of_a_watched_security() -> None:
    request = read(f"when the SSE 50 closes above its 20-day average, buy {STOCK}, sell when it closes below")
    assert not request.reads_index
    assert request.watched is not None
    assert request.watched.code == INDEX
    members = read("上证50成分股在60日均线上方时买入，跌破卖出")
    assert (members.reads_index, members.trade) == (False, (INDEX,))


def test_a_later_line_adds_a_condition_and_a_later_rule_replaces_it() -> None:
    added = read(f"{STOCK} 5日线上穿20日线买入，下穿卖出\n大盘在60日线上方才买")
    assert added.reads_index
    assert not read(
        f"{STOCK} RSI低于30买入，高于70卖出，大盘跌破60日线清仓\nMACD金叉买入，死叉卖出"
    ).reads_index


def test_an_exit_by_the_market_takes_the_place_of_an_exit_that_nobody_named() -> None:
    request = read(f"{STOCK} 5日线上穿20日线买入，大盘跌超1%卖出")
    assert request.exit == "大盘跌超1%卖出"
    assert all(note.status != "default" for note in request.clauses)


def test_the_clause_is_taken_out_of_its_line() -> None:
    (found,), rest = find_market("600036.SH RSI低于30买入,高于70卖出,大盘涨不低于2%才买", NAMES)
    assert (found.words, found.condition.args[0], found.sells) == ("大盘涨不低于2%才买", INDEX, False)
    assert "大盘" not in rest
    assert (is_market_word("the market"), is_market_word("上证50")) == (True, False)
