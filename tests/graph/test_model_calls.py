"""How many calls of a model a clean request takes, and how many tokens: messages, tools and replies, estimated."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.checkpoint.memory import InMemorySaver
from sentence_play import SentenceModel, reading

from quantgraph.runtime import Resources
from quantgraph.sandbox import default_runner
from quantgraph.state import DataState
from quantgraph.subgraphs.signal import create_signal_subgraph
from quantgraph.tools import tools_of

pytestmark = pytest.mark.proof

SPAN = ("20250506", "20251031")
WINDOW = {"zh": "，2025年5月6日到10月31日", "en": ", from 2025-05-06 to 2025-10-31"}


def condition(name: str, quote: str, rule: str) -> dict[str, str]:
    return {"name": name, "quote": quote, "rule": rule}


UP, DOWN = "cross_up(sma(close, 5), sma(close, 20))", "cross_down(sma(close, 5), sma(close, 20))"
PLAIN = {
    "zh": (
        "招商银行5日线上穿20日线买入，下穿卖出",
        [condition("buy", "5日线上穿20日线买入", UP), condition("sell", "下穿卖出", DOWN)],
    ),
    "en": (
        "600036.SH: buy when the 5-day SMA crosses above the 20-day SMA, sell when it crosses below",
        [
            condition("buy", "buy when the 5-day SMA crosses above the 20-day SMA", UP),
            condition("sell", "sell when it crosses below", DOWN),
        ],
    ),
}
AGAIN = {"entry": "first_after(sma(close, 5) < close, rsi() < 35)", "exit": "ago(lowest(low, 10)) > close"}
FIRST, LOW = "first_after(close > sma(close, 5), rsi() < 35)", "close < ago(lowest(low, 10))"
OPEN = {
    "zh": (
        "招商银行RSI跌破35之后第一次收在5日线上方买入，跌破10日低点卖出",
        [
            condition("buy", "RSI跌破35之后第一次收在5日线上方买入", FIRST),
            condition("sell", "跌破10日低点卖出", LOW),
        ],
    ),
    "en": (
        "600036.SH: buy the first close above the 5-day average after RSI fell below 35, sell below the 10-day low",
        [
            condition("buy", "buy the first close above the 5-day average after RSI fell below 35", FIRST),
            condition("sell", "sell below the 10-day low", LOW),
        ],
    ),
}


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
    ("sentences", "bounds"), [(PLAIN, (1, 2_200)), (OPEN, (2, 3_000))], ids=["clean", "twice"]
)
def test_a_clean_request_takes_few_calls_and_tokens(language, sentences, bounds, *, shared_data, monkeypatch):
    text, clauses = sentences[language]
    cast = Counted(readings=[reading("600036.SH", SPAN, *clauses, entry="buy", exit="sell")], reviews=[AGAIN])
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
    whole = sum(cast.counts) + tool_tokens("reflection")  # a second reading has no tools
    assert whole <= most
