"""How many calls of a model a clean request takes, and how many tokens: messages, tools and replies, estimated."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.checkpoint.memory import InMemorySaver
from sentence_play import SentenceModel, clause, reading

from quantgraph.runtime import Resources
from quantgraph.sandbox import default_runner
from quantgraph.state import DataState
from quantgraph.subgraphs.signal import create_signal_subgraph
from quantgraph.tools import tools_of

pytestmark = pytest.mark.proof

SPAN = ("20250506", "20251031")
WINDOW = {"zh": "，2025年5月6日到10月31日", "en": ", from 2025-05-06 to 2025-10-31"}
CROSS = """\
snapshot = GLOBAL_DATA_STATE.snapshot()
close = snapshot.adjusted("close")
zero = pd.DataFrame(0.0, index=close.index, columns=close.columns)
def ma(n):
    return close.apply(lambda s: s.dropna().rolling(n).mean().reindex(s.index))
fast, slow = ma(5), ma(20)
above = (fast > slow).astype(float).where(fast.notna() & slow.notna()).ffill()
was = above.shift(1)
signal = zero.mask((above == 1) & (was == 0), 1.0).mask((above == 0) & (was == 1), -1.0).where(slow.notna())
GLOBAL_DATA_STATE.update("signal", {"sma_cross_5_20": signal})
print((signal == 1).sum().sum(), (signal == -1).sum().sum())"""
OUTSIDE = CROSS.replace(
    "signal = zero",
    'vol = snapshot["ohlcv"]["vol"]\ncalm = vol < 3 * vol.apply(lambda s: s.dropna().rolling(10).mean().reindex(s.index))\n'
    "quiet = (close.shift(1) / close.shift(6) - 1).abs() < 0.5\nsignal = zero",
)
PLAIN = {
    "zh": (
        "招商银行5日线上穿20日线买入，下穿卖出",
        [
            clause("5日线上穿20日线买入", "entry", "5日均线上穿20日均线时买入"),
            clause("下穿卖出", "exit", "5日均线下穿20日均线时卖出"),
        ],
        "5日均线上穿20日均线买入，下穿卖出；按复权收盘价计算。",
    ),
    "en": (
        "600036.SH: buy when the 5-day SMA crosses above the 20-day SMA, sell when it crosses below",
        [
            clause(
                "buy when the 5-day SMA crosses above the 20-day SMA",
                "entry",
                "Buy when the 5-day average crosses above the 20-day average",
            ),
            clause(
                "sell when it crosses below",
                "exit",
                "Sell when the 5-day average crosses below the 20-day average",
            ),
        ],
        "Buys the cross of the 5-day average above the 20-day average, sells the cross below; on adjusted closes.",
    ),
}
OPEN = {
    "zh": (
        "招商银行5日线上穿20日线买入，除非最近跳空缺口没有回补，下穿卖出",
        [
            clause("5日线上穿20日线买入", "entry", "5日均线上穿20日均线时买入"),
            clause("除非最近跳空缺口没有回补", "entry", "最近的跳空缺口还没有回补时不买入"),
            clause("下穿卖出", "exit", "5日均线下穿20日均线时卖出"),
        ],
        "5日均线上穿20日均线且没有未回补的缺口时买入，下穿卖出。",
    ),
    "en": (
        "600036.SH: buy when the 5-day SMA crosses above the 20-day SMA unless the last gap is still open, sell when it crosses below",
        [
            clause("buy when the 5-day SMA crosses above the 20-day SMA", "entry", "Buy when the 5-day average crosses above the 20-day average"),
            clause("unless the last gap is still open", "entry", "Do not buy while the last gap is still open"),
            clause("sell when it crosses below", "exit", "Sell when the 5-day average crosses below the 20-day average"),
        ],
        "Buys the cross unless the last gap is open, sells the cross below.",
    ),
}  # fmt: skip


def tokens(value: object) -> int:
    """A quarter of the plain characters, 0.8 for each Chinese one."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    plain = sum(ord(letter) < 128 for letter in text)
    return int(plain / 4 + (len(text) - plain) * 0.8) + 1


def tool_tokens(*roles: str) -> int:
    """The tokens of the tools that a call in each of these roles is shown."""
    return sum(tokens([convert_to_openai_tool(tool) for tool in tools_of(role).values()]) for role in roles)


class Counted(SentenceModel):
    """Counts the tokens of each call: its messages, and the reply."""

    def __init__(self, **replies: Any) -> None:
        self.counts: list[int] = []
        super().__init__(**replies)

    def _answer(self, messages: list[AnyMessage]) -> AIMessage | str:
        reply = super()._answer(messages)
        answer = reply if isinstance(reply, str) else reply.tool_calls
        sent = [[each.text, *(call["args"] for call in getattr(each, "tool_calls", ()))] for each in messages]
        self.counts.append(sum(tokens(part) for parts in sent for part in parts) + tokens(answer))
        return reply


@pytest.mark.timeout(120)
@pytest.mark.parametrize("language", ["zh", "en"])
@pytest.mark.parametrize(
    ("sentences", "cell", "bounds"),
    [(PLAIN, CROSS, (3, 4_500)), (OPEN, OUTSIDE, (4, 5_500))],
    ids=["clean", "review"],
)
def test_a_clean_request_takes_few_calls_and_tokens(
    language, sentences, cell, bounds, *, shared_data, monkeypatch
):
    text, clauses, closing = sentences[language]
    cast = Counted(readings=[reading("600036.SH", SPAN, *clauses)], cells=[cell], closing=closing)
    resources = Resources(
        store=DataState(), runner=default_runner(), model=cast.model, checkpointer=InMemorySaver()
    )
    monkeypatch.chdir(shared_data)  # the model is told the source's path, whose length is the machine's
    graph = create_signal_subgraph(
        source=Path("ai-trader", "a_share"), on_clarify="fail", resources=resources
    )
    final = graph.invoke(
        {"messages": [("user", text + WINDOW[language])]}, {"configurable": {"thread_id": "t"}}
    )
    assert final["ended_because"] == "done", final["error_messages"]
    calls, most = bounds
    assert len(cast.counts) == calls
    roles = ["reflection", "signal_generate", "signal_generate", *["validation"][: calls - 3]]
    assert sum(cast.counts) + tool_tokens(*roles) <= most
