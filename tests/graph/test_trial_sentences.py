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

from quantgraph.runtime import Resources
from quantgraph.runtime.graph_state import dialogue_of, progress_of, request_of, strategy_of
from quantgraph.sandbox import default_runner
from quantgraph.state import DataState
from quantgraph.subgraphs.signal import create_signal_subgraph

pytestmark = pytest.mark.proof

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


def momentum(bars: Bars) -> pd.DataFrame:
    """Every session: when it is traded is the plan's matter."""
    score = own(bars["adj_close"], lambda s: s.shift(5) / s.shift(60) - 1)
    return marks(best(score, 5), ~best(score, 5) & score.notna(), score)


def high(bars: Bars) -> pd.DataFrame:
    """Bought alone: the plan has the stop and the twenty sessions."""
    top = own(bars["adj_close"], lambda s: s.rolling(20).max())
    return marks(bars["adj_close"] >= top, False, top)


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


def low(bars: Bars) -> pd.DataFrame:
    floor = own(bars["adj_low"], lambda s: s.shift(1).rolling(20).min())
    return marks(bars["adj_close"] < floor, False, floor)


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
    """Forty sessions of each stock, also over a suspension."""
    score = change(bars["adj_close"], 40)
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
    """The average of the volume is that of ten sessions with today's, as a chart draws it."""
    close = bars["adj_close"]
    fast, slow = (own(close, lambda s, n=n: s.ewm(span=n, adjust=False).mean()) for n in (12, 26))
    return marks(ups(fast, slow) & (bars["vol"] > mean(bars["vol"], 10)), ups(slow, fast), close)


def rsi_events(bars: Bars) -> pd.DataFrame:
    strength = rsi(bars["close"], 7)
    level = strength * 0
    return marks(ups(strength, level + 35), ups(level + 65, strength), strength)


def worst(bars: Bars) -> pd.DataFrame:
    fall = -change(bars["adj_close"], 10)
    return marks(best(fall, 5), ~best(fall, 5) & fall.notna(), fall)


def gap_up(bars: Bars) -> pd.DataFrame:
    close, opened = bars["close"], bars["open"]
    return marks((opened > 1.01 * before(close)) & (close > opened), close < before(bars["low"]), close)


def volume_high(bars: Bars) -> pd.DataFrame:
    close, vol = bars["adj_close"], bars["vol"]
    top = own(bars["adj_high"], lambda s: s.shift(1).rolling(60).max())
    return marks((close > top) & (vol > 2 * mean(vol, 5)), False, top)


def pullback(bars: Bars) -> pd.DataFrame:
    close, vol, line = bars["adj_close"], bars["vol"], mean(bars["adj_close"], 20)
    return marks((close > line) & (bars["adj_low"] <= line) & (vol < before(vol)), close < line, close)


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


def cross(bars: Bars) -> pd.DataFrame:
    close = bars["adj_close"]
    fast, slow = mean(close, 5), mean(close, 20)
    return marks(ups(fast, slow), ups(slow, fast), before(slow))


# ------------------------------------------------------------------------------------------ what the models replied

LAG = """\
ten = snapshot.adjusted("close").pct_change(10, fill_method=None)
gap = ten["601288.SH"] - ten["601398.SH"]
signal = (gap * 0).mask(gap > 0.03, 1.0).mask(gap <= 0, -1.0).to_frame("601398.SH")
GLOBAL_DATA_STATE.update("signal", {"lag_10": signal})
"""
HELD = """\
close = snapshot["ohlcv"]["close"]
GLOBAL_DATA_STATE.update("signal", {"buy_and_hold": (close * 0) + 1})
"""
HIGH = """\
close = snapshot.adjusted("close")
top = close.apply(lambda s: s.dropna().rolling(20).max().reindex(s.index))
GLOBAL_DATA_STATE.update("signal", {"high_20": (close * 0).mask(close >= top, 1.0).where(top.notna())})
"""
LOW = """\
close, low = snapshot.adjusted("close"), snapshot.adjusted("low")
floor = low.apply(lambda s: s.dropna().shift(1).rolling(20).min().reindex(s.index))
GLOBAL_DATA_STATE.update("signal", {"low_20": (close * 0).mask(close < floor, 1.0).where(floor.notna())})
"""
BUSY_HIGH = """\
close, high, vol = snapshot.adjusted("close"), snapshot.adjusted("high"), snapshot["ohlcv"]["vol"]
top = high.apply(lambda s: s.dropna().shift(1).rolling(60).max().reindex(s.index))
busy = vol > 2 * vol.apply(lambda s: s.dropna().rolling(5).mean().reindex(s.index))
signal = (close * 0).mask((close > top) & busy, 1.0).where(top.notna())
GLOBAL_DATA_STATE.update("signal", {"high_60_volume": signal})
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
NAN_AFTER_SUSPENSION = (
    "close.apply(lambda s: (s.dropna() / s.dropna().shift(15) - 1).reindex(s.index))",
    "close.rolling(16).apply(lambda w: w[-1] / w[0] - 1, raw=True)",
)
THREE = [("<= 5", "<= 3"), ("> 5", "> 3")]
INDEX = ("(1 + ret).cumprod()", 'snapshot["index"]["close"]["000016.SH"]')
SWAPPED = ('"600519.SH", "600036.SH"', '"600036.SH", "600519.SH"')
FALLS = ("rsi < 65, -1.0", "(rsi < 65) & (rsi.shift(1) >= 65), -1.0")
NO_TIE = ("close < ma", "close < ma * (1 - 1e-9)")
SKIPS_SUSPENSION = (
    "close.shift(5) / close.shift(60) - 1",
    "close.apply(lambda s: (s.dropna().shift(5) / s.dropna().shift(60) - 1).reindex(s.index))",
)
EACH_SESSION = (" & first", "")
CELLS: dict[str, Sequence[str]] = {
    "s01": [cell("s01_wrong_half_volume"), cell("s01_right")],
    "s02": [
        cell("s02_right_nan_after_suspension"),
        cell("s02_right_nan_after_suspension", SKIPS_SUSPENSION, EACH_SESSION),
    ],
    "s03": [cell("s03_right_open_cost"), HIGH],
    "s04": [LAG],
    "s05": [cell("s05_proxy_index"), cell("s05_proxy_index", INDEX)],
    "s06": [cell("s06_wrong_30"), cell("s06_still_wrong_exit")],
    "s06 mended": [
        cell("s06_wrong_30"),
        cell("s06_still_wrong_exit"),
        cell("s06_wrong_30", ("rolling(30)", "rolling(20)")),
    ],
    "s07": [HELD],
    "s08": [
        cell("s08_wrong_peak_of_highs"),
        cell("s08_wrong_peak_of_highs", ("peak, h.iloc", "peak, c.iloc")),
    ],
    "s10": [cell("s10_wrong_ema")],
    "s12": [LOW],
    "s13": [cell("s13_wrong_symbols_swapped"), cell("s13_wrong_symbols_swapped", SWAPPED)],
    "s16": [
        cell("s16_right_select"),
        cell("s16_right_select", ('snapshot.adjusted("close")', 'bars["close"]')),
    ],
    "s17": [TREND.replace("mean(60)", "mean(50)"), TREND],
    "s18": [cell("s18_right_long_form"), cell("s18_right_long_form", ("stack()", "stack().dropna()"))],
    "s19": [
        cell("s19_wrong_exit_at_middle"),
        cell("s19_wrong_exit_at_middle", ("> mid,", "> mid + 1.5 * sd,")),
    ],
    "s20": [cell("s20_wrong_d_for_j"), cell("s20_wrong_d_for_j", ("(d < 50)", "(j < 50)"))],
    "m1": [cell("m1_right_zscore")],
    "m2": [EMA, EMA.replace(".mean().shift(1)", ".mean()")],
    "m3": [cell("m3_wrong_state_exit"), cell("m3_wrong_state_exit", FALLS)],
    "n1": [
        cell("n1_wrong_side", EACH_SESSION),
        cell("n1_wrong_side", EACH_SESSION, ("ascending=False", "ascending=True")),
    ],
    "n2": [GAP],
    "n3": [BUSY_HIGH],
    "p2 mended": [
        cell("p2_clause_dropped"),
        cell("p2_clause_dropped", ("up = (f > s)", f"{LEVEL}up = calm & (f > s)")),
    ],
    "q1": [cell("q1_wrong_five", NAN_AFTER_SUSPENSION), cell("q1_wrong_five"), cell("q1_wrong_five", *THREE)],
    "q1 stays": [cell("q1_wrong_five")],
    "q2": [cell("q2_index_read", NO_TIE)],
    "r1": [STOP, cell("p2_clause_dropped")],
    "r2": [cell("p2_clause_dropped")],
}
"""Cells in the order in which the model hands them over; the last is right where the row ends right.

A row without cells has readings of conditions, of which code makes the rule."""
RIGHT: dict[str, Callable[[Bars], pd.DataFrame]] = {
    "s01": volume_macd,
    "s02": momentum,
    "s03": high,
    "s04": lag,
    "s05": index_rsi,
    "s06 mended": first_above,
    "s07": lambda bars: marks(bars["close"] > 0, False, bars["close"]),
    "s08": trailing_atr,
    "s12": low,
    "s13": two_rules,
    "s16": pops,
    "s17": trend_cross,
    "s18": top_ten,
    "s19": bands,
    "s20": kdj_cross,
    "m1": z_score,
    "m2": ema_volume,
    "m3": rsi_events,
    "n1": worst,
    "n2": gap_up,
    "n3": volume_high,
    "p1": pullback,
    "p2 mended": calm_cross,
    "q1": weekly_best,
    "q2": index_highs,
    "r1": cross,
    "r2": cross,
}
"""What is right; a sentence that is not here ends in a question, or is named."""


def read_by(said: dict[str, Any]) -> dict[str, Any]:
    """A reply from the form of the file."""
    clauses = [each if isinstance(each, dict) else clause(*each) for each in said.pop("clauses", ())]
    return reading(said.pop("codes"), tuple(said.pop("window", ("", ""))), *clauses, **said)


def issue(said: dict[str, Any]) -> dict[str, Any]:
    """A review's issue from the form of the file: one with a symbol has a cell that reproduces it."""
    return dispute(**said) if "symbol" in said else said


@dataclass(frozen=True, kw_only=True)
class Row:
    """A sentence, the replies of its model, and what has to come.

    ``answers`` are a person's, one after the other; without them nobody is asked. ``asked`` are words of the
    questions in turn, ``named`` words of the first line that a person reads, and ``planned`` the trade plan
    that is carried out.
    """

    id: str
    text: str
    readings: Sequence[dict[str, Any]]
    reviews: Sequence[Sequence[dict[str, Any]] | dict[str, Any]] = ((),)
    answers: Sequence[str] = ()
    closing: str = "代码就是所说的规则。"
    source: str = "a_share"
    asked: Sequence[Sequence[str]] = ()
    named: Sequence[str] = ()
    planned: dict[str, Any] = field(default_factory=dict)

    def model(self) -> SentenceModel:
        readings = [read_by(dict(each)) for each in self.readings]
        reviews = [
            each if isinstance(each, dict) else [issue(said) for said in each] for each in self.reviews
        ]
        cells = CELLS.get(self.id, ())
        return SentenceModel(readings=readings, cells=cells, reviews=reviews, closing=self.closing)


TRIAL = Path(__file__).parents[1] / "data" / "sentences" / "trial.jsonl"
ROWS = {
    row.id: row
    for row in (Row(**json.loads(line)) for line in TRIAL.read_text(encoding="utf-8").splitlines())
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
        assert_right(signal, right, first=signal.index[0], source=source)


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
    graph, store = graph_of(row.model(), folder, "ask" if row.answers else "fail")
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
    if name not in RIGHT:
        assert out.ended != "done"
        if row.named:
            first = out.state["messages"][-1].text.splitlines()[0] + "\n".join(out.state["error_messages"])
            assert out.ended == "meaning_failed", (out.ended, out.state["error_messages"])
            assert all(word in first for word in row.named), first
        return
    assert out.ended == "done", (out.ended, out.state["error_messages"])
    assert not [code for code in codes if code.startswith("meaning")]
    if name in CELLS:
        assert strategy_of(out.state)["cells"] == [CELLS[name][-1]]
    assert request_of(out.state)["understanding"]["plan"] == row.planned
    out.assert_right(RIGHT[name], row.source)


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
