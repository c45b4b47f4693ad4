"""Ten conversations of three turns: each turn changes one thing of what was said, and the rest stays.

Five run the whole graph alone, five a host's graph that has the subgraph as a node.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from plain_prices import Bars, assert_right, before, change, firsts, marks, mean, own, rsi, ups
from sentence_play import SentenceModel, clause, reading
from thinned import thinned

from quantgraph.graph import create_trading_graph
from quantgraph.market import session_of
from quantgraph.runtime import Resources
from quantgraph.runtime.graph_state import request_of, strategy_of
from quantgraph.sandbox import default_runner
from quantgraph.state import DataState
from quantgraph.subgraphs.signal import SignalSubgraphState, create_signal_subgraph

pytestmark = pytest.mark.proof

THREAD: Any = {"configurable": {"thread_id": "t"}}
SUMMER, AUTUMN = ("20250506", "20251031"), ("20250701", "20250930")
CELL = """\
import talib
close, vol = snapshot.adjusted("close"), snapshot["ohlcv"]["vol"]
def own(frame, function):
    return frame.apply(lambda s: function(s.dropna()).reindex(s.index))
def mean(frame, n):
    return own(frame, lambda s: s.rolling(n).mean())
def before(frame):
    return own(frame, lambda s: s.shift(1))
def ema(frame, n):
    return own(frame, lambda s: s.ewm(span=n, adjust=False).mean())
def rsi(frame, n):
    return own(frame, lambda s: talib.RSI(s, n))
def change(frame, n):
    return own(frame, lambda s: s / s.shift(n) - 1)
def deviation(frame, n):
    return own(frame, lambda s: s.rolling(n).std(ddof=0))
def highest(frame, n):
    return own(frame, lambda s: s.shift(1).rolling(n).max())
def lowest(frame, n):
    return own(frame, lambda s: s.shift(1).rolling(n).min())
def ups(fast, slow):
    return (fast > slow) & (before(fast) <= before(slow))
def best(score, n):
    return score.rank(axis=1, ascending=False, method="first") <= n
week = pd.Series(close.index.to_period("W").astype(str), index=close.index)
monday = np.broadcast_to((week != week.shift(1)).to_numpy()[:, None], close.shape)
buy = {buy}
sell = {sell}
zero = pd.DataFrame(0.0, index=close.index, columns=close.columns)
signal = zero.mask(buy, 1.0).mask(sell, -1.0).where(own(close, lambda s: s.shift({warm})).notna())
GLOBAL_DATA_STATE.update("signal", {{"turn": signal}})
"""


@dataclass(frozen=True, kw_only=True)
class Turn:
    """A message, the parts of the understanding that it changes, and what a model makes of the whole request then."""

    text: str
    codes: str
    clauses: Sequence[dict[str, Any]]
    buy: str
    sell: str
    changes: str = ""
    window: tuple[str, str] = SUMMER
    stop: float = 0.0

    @property
    def plan(self) -> dict[str, float]:
        return {"stop_loss": self.stop} if self.stop else {}

    @property
    def cell(self) -> str:
        return CELL.format(buy=self.buy, sell=self.sell, warm=21)

    def right(self, bars: Bars) -> pd.DataFrame:
        """The rule in plain pandas, with functions of its own."""
        close = bars["adj_close"]
        names = {
            "close": close,
            "vol": bars["vol"],
            "mean": mean,
            "ups": ups,
            "rsi": rsi,
            "change": change,
            "ema": lambda frame, n: own(frame, lambda s: s.ewm(span=n, adjust=False).mean()),
            "deviation": lambda frame, n: own(frame, lambda s: s.rolling(n).std(ddof=0)),
            "highest": lambda frame, n: before(own(frame, lambda s: s.rolling(n).max())),
            "lowest": lambda frame, n: before(own(frame, lambda s: s.rolling(n).min())),
            "best": lambda score, n: score.rank(axis=1, ascending=False, method="first") <= n,
            "monday": firsts(close.index, "W"),
        }
        buy, sell = eval(self.buy, names), eval(self.sell, names)
        return marks(buy, sell, close)


def said(*pieces: tuple[str, str, str]) -> tuple[dict[str, Any], ...]:
    return tuple(clause(quote, part, became) for quote, part, became in pieces)


def then(turn: Turn, text: str, changes: str, **new: Any) -> Turn:
    """The next turn: everything as before but for what is new."""
    return replace(turn, text=text, changes=changes, **new)


AND_BUSY = "({buy}) & (vol > mean(vol, 5))"


def busy(turn: Turn, text: str, became: str) -> Turn:
    """One condition more: a volume above its 5-day average."""
    clauses = (*turn.clauses, clause(text.partition("：")[2] or text, "entry", became))
    return then(turn, text, "clauses", clauses=clauses, buy=AND_BUSY.format(buy=turn.buy))


def cross(slow: int) -> dict[str, Any]:
    pieces = said(
        ("5日线上穿20日线买入", "entry", f"5日均线上穿{slow}日均线时买入"),
        ("下穿卖出", "exit", f"5日均线下穿{slow}日均线时卖出"),
    )
    fast_slow = f"mean(close, 5), mean(close, {slow})"
    return {
        "clauses": pieces,
        "buy": f"ups({fast_slow})",
        "sell": f"ups(mean(close, {slow}), mean(close, 5))",
    }


def above(days: int) -> dict[str, Any]:
    pieces = said(
        (
            "buy when the close is above its 20-day average",
            "entry",
            f"Buy when the close is above its {days}-day average",
        ),
        ("sell when it is below", "exit", f"Sell when the close is below its {days}-day average"),
    )
    return {"clauses": pieces, "buy": f"close > mean(close, {days})", "sell": f"close < mean(close, {days})"}


def oscillator(days: int, low: int, high: int) -> dict[str, Any]:
    pieces = said(
        ("buy when RSI(14) is below 35", "entry", f"Buy when the {days}-day RSI is below {low}"),
        ("sell when it is above 65", "exit", f"Sell when the {days}-day RSI is above {high}"),
    )
    return {"clauses": pieces, "buy": f"rsi(close, {days}) < {low}", "sell": f"rsi(close, {days}) > {high}"}


def weekly(n: int) -> dict[str, Any]:
    pieces = said(
        ("每周一买入过去20天涨得最多的5只", "entry", f"每周一买入过去20天涨幅最大的{n}只"),
        ("其余卖出", "exit", "其余的卖出"),
    )
    score = "change(close, 20)"
    sell = f"monday & ~best({score}, {n}) & {score}.notna()"
    return {"clauses": pieces, "buy": f"monday & best({score}, {n})", "sell": sell}


def averages(fast: int, slow: int) -> dict[str, Any]:
    pieces = said(
        (
            "buy when EMA(12) crosses above EMA(26)",
            "entry",
            f"Buy when EMA({fast}) crosses above EMA({slow})",
        ),
        ("sell when it crosses below", "exit", f"Sell when EMA({fast}) crosses below EMA({slow})"),
    )
    one, two = f"ema(close, {fast})", f"ema(close, {slow})"
    return {"clauses": pieces, "buy": f"ups({one}, {two})", "sell": f"ups({two}, {one})"}


CMB, PING_AN, ICBC, POWER = "600036.SH", "601318.SH", "601398.SH", "600900.SH"
ZH, EN = "，2025年5月6日到10月31日", ", from 2025-05-06 to 2025-10-31"
FIRST: dict[str, Turn] = {
    "cross": Turn(text=f"招商银行5日线上穿20日线买入，下穿卖出{ZH}", codes=CMB, **cross(20)),
    "stop": Turn(
        text=f"国电南瑞5日线上穿20日线买入，下穿卖出，跌8%止损{ZH}",
        codes="600406.SH",
        **{**cross(20), "clauses": (*cross(20)["clauses"], clause("跌8%止损", "plan", "比买入价跌8%时卖出"))},
        stop=0.08,
    ),
    "above": Turn(
        text=f"{PING_AN}: buy when the close is above its 20-day average, sell when it is below{EN}",
        codes=PING_AN,
        **above(20),
    ),
    "rsi": Turn(
        text=f"{ICBC}: buy when RSI(14) is below 35, sell when it is above 65{EN}",
        codes=ICBC,
        **oscillator(14, 35, 65),
    ),
    "weekly": Turn(
        text=f"上证50里每周一买入过去20天涨得最多的5只，其余卖出{ZH}", codes="000016.SH", **weekly(5)
    ),
    "ema": Turn(
        text=f"{CMB} and {POWER}: buy when EMA(12) crosses above EMA(26), sell when it crosses below{EN}",
        codes=f"{CMB},{POWER}",
        **averages(12, 26),
    ),
    "bands": Turn(
        text=f"长江电力跌破布林带下轨(20,2)买入，突破上轨卖出{ZH}",
        codes=POWER,
        clauses=said(
            ("跌破布林带下轨(20,2)买入", "entry", "收盘价低于布林带下轨（20日、2倍标准差）时买入"),
            ("突破上轨卖出", "exit", "收盘价高于布林带上轨时卖出"),
        ),
        buy="close < mean(close, 20) - 2 * deviation(close, 20)",
        sell="close > mean(close, 20) + 2 * deviation(close, 20)",
    ),
    "channel": Turn(
        text=f"中国平安收盘价突破20日最高收盘价买入，跌破10日最低收盘价卖出{ZH}",
        codes=PING_AN,
        clauses=said(
            ("收盘价突破20日最高收盘价买入", "entry", "收盘价突破此前20日的最高收盘价时买入"),
            ("跌破10日最低收盘价卖出", "exit", "收盘价跌破此前10日的最低收盘价时卖出"),
        ),
        buy="close > highest(close, 20)",
        sell="close < lowest(close, 10)",
    ),
}


def talk(first: str, *messages: tuple[str, str, dict[str, Any]]) -> list[Turn]:
    turns = [FIRST[first]]
    for text, changes, new in messages:
        turns.append(
            busy(turns[-1], text, new["became"]) if "became" in new else then(turns[-1], text, changes, **new)
        )
    return turns


VOLUME = "成交量大于5日均量"
CONVERSATIONS = {
    "alone, 30 days and another stock": talk(
        "cross", ("均线改成30日", "clauses", cross(30)), ("换成中国平安", "trade", {"codes": PING_AN})
    ),
    "alone, a condition and a window": talk(
        "channel",
        (f"再加一个条件：{VOLUME}", "", {"became": VOLUME}),
        ("2025年7月到9月呢", "windows", {"window": AUTUMN}),
    ),
    "alone, now use 30 days, and thanks": talk(
        "above", ("now use 30 days", "clauses", above(30)), ("thanks", "", {})
    ),
    "alone, a period and a level": talk(
        "rsi",
        ("make it RSI(6)", "clauses", oscillator(6, 35, 65)),
        ("sell above 80 instead", "clauses", oscillator(6, 35, 80)),
    ),
    "alone, the stop goes and another comes": talk(
        "stop",
        ("去掉止损", "plan clauses", {"clauses": cross(20)["clauses"], "stop": 0.0}),
        (
            "止损5%",
            "plan clauses",
            {
                "clauses": (*cross(20)["clauses"], clause("止损5%", "plan", "比买入价跌5%时卖出")),
                "stop": 0.05,
            },
        ),
    ),
    "host, three and the autumn": talk(
        "weekly", ("改成前3只", "clauses", weekly(3)), ("2025年7月到9月呢", "windows", {"window": AUTUMN})
    ),
    "host, two periods and a stock": talk(
        "ema",
        ("use EMA(10) and EMA(30) instead", "clauses", averages(10, 30)),
        (f"only {CMB}", "trade", {"codes": CMB}),
    ),
    "host, a stock and a condition": talk(
        "channel",
        ("换成招商银行", "trade", {"codes": CMB}),
        (f"再加一个条件：{VOLUME}", "", {"became": VOLUME}),
    ),
    "host, a window and 30 days": talk(
        "above",
        ("July to September 2025 instead", "windows", {"window": AUTUMN}),
        ("now use 30 days", "clauses", above(30)),
    ),
    "host, a condition and another stock": talk(
        "bands",
        (f"再加一个条件：{VOLUME}", "", {"became": VOLUME}),
        ("换成工商银行", "trade", {"codes": ICBC}),
    ),
}


def graph_of(model: Any, folder: Path, *, hosted: bool) -> tuple[Any, DataState]:
    """The whole graph, or a host's graph with the subgraph as a node."""
    store = DataState()
    resources = Resources(source=folder, store=store, runner=default_runner(), model=model, on_clarify="fail")
    if not hosted:
        return create_trading_graph(resources=resources, checkpointer=InMemorySaver()), store
    host: Any = StateGraph(SignalSubgraphState)
    host.add_node("signal", create_signal_subgraph(resources=resources))
    host.add_edge(START, "signal")
    host.add_edge("signal", END)
    return host.compile(checkpointer=InMemorySaver()), store


def understood(state: dict[str, Any]) -> dict[str, Any]:
    """What the request is understood as, by part; what is a default or not parsed is left out."""
    understanding = request_of(state)["understanding"]
    clauses = [each["became"] for each in understanding["clauses"] if each["status"] == "done"]
    return {
        "clauses": clauses,
        **{name: understanding[name] for name in ("trade", "watch", "windows", "plan")},
    }


@pytest.mark.timeout(120)
@pytest.mark.parametrize("name", thinned(CONVERSATIONS, lambda _, name: "three" not in name))
def test_one_thing_changes_and_the_rest_stays(name, shared_data):
    turns = CONVERSATIONS[name]
    cast = SentenceModel(
        readings=[reading(turn.codes, turn.window, *turn.clauses, plan=turn.plan) for turn in turns],
        cells=[turn.cell for turn in turns],
    )
    folder = Path(shared_data, "ai-trader", "a_share")
    graph, store = graph_of(cast.model, folder, hosted=name.startswith("host"))
    known: dict[str, Any] = {}
    for turn in turns:
        state = graph.invoke({"messages": [("user", turn.text)]}, THREAD)
        assert state["ended_because"] == "done", (turn.text, state.get("error_messages"))
        now = understood(state)
        differs = {part for part in known if now[part] != known[part]}
        assert differs == set(turn.changes.split()), (turn.text, known, now)
        assert now["plan"] == {name: str(part) for name, part in turn.plan.items()}, (
            "carried out by the account"
        )
        known, made = now, strategy_of(state)
        signal = store.snapshot(state["data_ref"])["signal"][made["name"]]
        assert_right(signal, turn.right, first=session_of(made["evaluated_from"]))
