"""The cache in whole runs: successful replies are served, failed ones requested again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from faulty_models import MISBEHAVING, FaultContext, FaultyChatModel, misbehaving_in
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver

from quantgraph.runtime import Resources
from quantgraph.settings import Role, load_settings
from quantgraph.state import DataState
from quantgraph.subgraphs.signal import create_signal_subgraph

pytestmark = pytest.mark.proof

SENTENCE = "000341.SZ，2日均线上穿5日均线买入，下穿卖出，20240102到20240131"
LEAK = """\
close = snapshot["ohlcv"]["close"]
GLOBAL_DATA_STATE.update("signal", {"peek": (close.shift(-1) > close).astype(float)})
"""


def run(cast: Any, model: Any, tmp_path: Path, **options: Any) -> tuple[str | None, int]:
    """The end of a new run on the same cache, and its calls of ``model``."""
    graph = create_signal_subgraph(
        model=cast,
        source="sample",
        settings=load_settings(llm_cache="full", cache_dir=tmp_path, max_attempts=1),
        resources=Resources(store=DataState()),
        **{"on_clarify": "fail", **options},
    )
    final = graph.invoke({"messages": [("user", SENTENCE)]}, {"configurable": {"thread_id": "t"}})
    return final.get("ended_because"), len(model.calls)


def looks_ahead(context: FaultContext) -> AIMessage:
    """A model whose code alone is wrong."""
    calls = [{**call, "args": {"query": LEAK}} for call in context.correct.tool_calls]
    return AIMessage(context.correct.content, tool_calls=calls)


def test_a_successful_run_is_served_whole(tmp_path: Path) -> None:
    first, second = (MISBEHAVING["thinking_text"]() for _ in range(2))
    assert run(first, first, tmp_path)[1] > 0
    assert run(second, second, tmp_path) == ("done", 0)


@pytest.mark.parametrize(
    ("role", "name", "end"),
    [
        ("reflection", "repeats_itself", "no_progress"),
        ("signal_generate", "apologises", "repeated_error"),  # no tool called
        ("signal_generate", "looks_ahead", "causality_failed"),  # validation finds it
    ],
)
def test_replies_of_a_failed_attempt_are_requested_again(
    tmp_path: Path, role: Role, name: str, end: str
) -> None:
    ends = []
    for _ in range(2):
        bad = FaultyChatModel(looks_ahead) if name == "looks_ahead" else MISBEHAVING[name]()
        ends.append(run(misbehaving_in(role, bad), bad, tmp_path))
    assert ends[0][0] == end
    assert ends[0][1] > 0
    assert ends[1] == ends[0]


def test_replies_that_led_to_a_question_are_requested_again(tmp_path: Path) -> None:
    for _ in range(2):
        bad = MISBEHAVING["invents_symbols"]()
        cast = misbehaving_in("reflection", bad)
        options = {"on_clarify": "ask", "checkpointer": InMemorySaver()}
        assert run(cast, bad, tmp_path, **options) == (None, 2)  # it is told once what it misread
