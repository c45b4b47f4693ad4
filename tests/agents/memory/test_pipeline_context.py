"""The context of agents and the trace of their steps: failures are failures, tokens are counted."""

from __future__ import annotations

import asyncio
import inspect
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from quantgraph.agents.memory import DecisionEpisode, EpisodicMemory, PipelineContext, traced_agent
from quantgraph.errors import BadOption, ModelUnavailable


@traced_agent("decision_agent")
def decide(features: Any, cfg: Any = None, ctx: Any = None) -> dict[str, Any]:
    """Decide."""
    if isinstance(features, Exception):
        raise features
    return {"AAPL": {"action": "hold"}, "__meta__": features} if features else {}


def steps(ctx: PipelineContext) -> list[tuple[str, str, int | None, str]]:
    return [(step.agent, step.status, step.tokens, step.error) for step in ctx.steps]


def test_a_portfolio_goes_in_and_decisions_come_out() -> None:
    cfg = {"llm": {"model": "gpt-4o-mini"}}
    ctx = PipelineContext(config=cfg, run_id="backtest_20250615", memory_enabled=True)
    portfolio = object()
    ctx.put("portfolio", portfolio)
    ctx.put("decisions", {"AAPL": {}})
    ctx.put("decisions", {"TSLA": {}})
    assert (ctx.config, ctx.run_id, ctx.memory_enabled) == (cfg, "backtest_20250615", True)
    assert ctx.get("portfolio") is portfolio
    assert ctx.get("decisions") == {"TSLA": {}}
    assert (ctx.get("nothing"), ctx.get("nothing", 3), ctx.has("nothing")) == (None, 3, False)
    assert (ctx.has("portfolio"), ctx.keys()) == (True, ("portfolio", "decisions"))


def test_the_memory_is_loaded_as_the_next_decision_loads_it() -> None:
    pipeline_ctx = PipelineContext(memory_enabled=True)
    pipeline_ctx.memory.episodes.add(
        DecisionEpisode(
            symbol="AAPL", action="increase", target_amount=5000.0, confidence=0.8, date="2025-06-10"
        )
    )
    decision_history = {}
    for item in [{"symbol": "AAPL"}, {"symbol": "TSLA"}]:
        text = pipeline_ctx.memory.episodes.get_for_prompt(item["symbol"], n=5)
        if text:
            decision_history[item["symbol"]] = text
    assert decision_history == {"AAPL": "2025-06-10: increase to $5000 (confidence: 0.8)"}


def test_contexts_have_memories_of_their_own_unless_one_is_given() -> None:
    shared = EpisodicMemory()
    contexts = [PipelineContext(), PipelineContext(memory=shared), PipelineContext(memory=shared)]
    contexts[1].memory.episodes.add(DecisionEpisode(symbol="A", action="close", date="2025-06-10"))
    assert [len(ctx.memory.episodes.query()) for ctx in contexts] == [0, 1, 1]
    early = PipelineContext(memory=shared, as_of="2025-06-10")
    assert early.memory.episodes.query() == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"config": "cfg.yaml"}, "config must be a mapping, not str"),
        ({"run_id": 3}, "run_id must be a text, not int"),
        ({"memory": "store"}, "memory must be an EpisodicMemory, not str"),
        ({"as_of": "soon"}, "as_of='soon'"),
    ],
)
def test_a_bad_argument_is_named(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(BadOption, match=message):
        PipelineContext(**arguments)


def test_a_step_has_the_tokens_that_its_result_tells() -> None:
    ctx = PipelineContext()
    decide({"calls": 2, "tokens_prompt": 3500, "tokens_completion": 850}, ctx=ctx)
    decide({"calls": 0}, ctx=ctx)
    decide({}, ctx=ctx)
    assert steps(ctx) == [
        ("decision_agent", "success", 4350, ""),
        ("decision_agent", "success", None, ""),
        ("decision_agent", "success", None, ""),
    ]
    assert all(step.duration_ms >= 0 for step in ctx.steps)


def test_an_agent_that_raises_has_failed_and_the_error_goes_on() -> None:
    ctx = PipelineContext()
    with pytest.raises(KeyError):
        decide(KeyError("x"), ctx=ctx)
    with pytest.raises(ModelUnavailable):
        decide(ModelUnavailable("no answer\nat all"), ctx=ctx)
    assert steps(ctx) == [
        ("decision_agent", "failed", None, "KeyError: 'x'"),
        ("decision_agent", "failed", None, "model_unavailable: no answer\\nat all"),
    ]


@pytest.mark.parametrize(
    ("failed", "error"), [(True, "failed"), ("budget_exceeded: calls", "budget_exceeded: calls")]
)
def test_an_agent_that_holds_because_it_failed_has_failed(failed: Any, error: str) -> None:
    ctx = PipelineContext()
    result = decide({"failed": failed, "tokens_prompt": 7}, ctx=ctx)
    assert result["AAPL"] == {"action": "hold"}
    assert steps(ctx) == [("decision_agent", "failed", 7, error)]
    decide({"failed": None}, ctx=ctx)
    assert ctx.steps[1].status == "success"


class Traced(np.ndarray[Any, Any]):
    """An array with what a context seems to have."""

    trace = "the sum of the diagonal"


def test_the_context_is_found_wherever_it_is_given_and_an_array_is_none() -> None:
    ctx = PipelineContext()
    array = np.eye(3).view(Traced)
    decide({}, None, ctx)
    decide({}, cfg=ctx)

    @traced_agent("array_agent")
    def measure(values: Any, other: Any = None) -> float:
        return float(values.sum())

    assert measure(array) == 3.0
    assert measure(array, array) == 3.0
    assert measure(array, ctx) == 3.0
    assert [step.agent for step in ctx.steps] == ["decision_agent", "decision_agent", "array_agent"]


def test_without_a_context_the_agent_is_just_called() -> None:
    assert decide({"calls": 1}) == {"AAPL": {"action": "hold"}, "__meta__": {"calls": 1}}
    assert decide({}, ctx={"portfolio": 1}) == {}


def test_the_signature_and_the_name_are_the_agents() -> None:
    assert list(inspect.signature(decide).parameters) == ["features", "cfg", "ctx"]
    assert (decide.__name__, decide.__doc__) == ("decide", "Decide.")


def test_agents_side_by_side_have_a_step_each() -> None:
    ctx, together = PipelineContext(), threading.Barrier(4)

    @traced_agent("parallel")
    def work(number: int, ctx: PipelineContext) -> dict[str, Any]:
        together.wait(10)
        if number == 2:
            raise ValueError("two")
        ctx.put(f"of {number}", number)
        return {"__meta__": {"tokens_prompt": number, "tokens_completion": 0}}

    with ThreadPoolExecutor(4) as pool:
        futures = [pool.submit(work, number, ctx) for number in range(4)]
    assert [type(future.exception()) for future in futures].count(ValueError) == 1
    assert sorted((step.status, step.tokens or 0) for step in ctx.steps) == [
        ("failed", 0),
        ("success", 0),
        ("success", 1),
        ("success", 3),
    ]
    assert len(ctx.keys()) == 3


def test_a_coroutine_is_traced_to_its_end() -> None:
    ctx = PipelineContext()

    @traced_agent("async_agent")
    async def work(fails: bool, ctx: PipelineContext | None = None) -> dict[str, Any]:
        await asyncio.sleep(0)
        if fails:
            raise ValueError("late")
        return {"__meta__": {"tokens_prompt": 5, "tokens_completion": 6}}

    async def both() -> None:
        await work(False, ctx=ctx)
        await work(False)
        with pytest.raises(ValueError, match="late"):
            await work(True, ctx=ctx)

    asyncio.run(both())
    assert steps(ctx) == [
        ("async_agent", "success", 11, ""),
        ("async_agent", "failed", None, "ValueError: late"),
    ]


def test_a_step_inside_a_step_stands_behind_it_and_shows_that_the_outer_one_runs() -> None:
    ctx, seen = PipelineContext(), []

    @traced_agent("outer")
    def outer(ctx: PipelineContext) -> None:
        decide({}, ctx=ctx)
        seen.extend(step.status for step in ctx.steps)

    outer(ctx)
    assert seen == ["running", "success"]
    assert [(step.agent, step.status) for step in ctx.steps] == [
        ("outer", "success"),
        ("decision_agent", "success"),
    ]
