"""Limits hold before a call is sent, as a real server counts."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import HumanMessage

from quantgraph.errors import BudgetExceeded, NotConfigured
from quantgraph.llm import CallPolicy, get_llm
from quantgraph.llm._model_call import load_prices
from quantgraph.llm._recorded_model import RecordedChatModel
from quantgraph.market import Moment
from quantgraph.recording import Budget, Recorder, Recording
from quantgraph.recording.scope import Scope, in_scope
from quantgraph.runtime import Resources
from quantgraph.settings import load_settings
from quantgraph.state import DataState, deciding
from quantgraph.subgraphs.signal import create_signal_subgraph
from quantgraph.testing import Fault, OpenAIStub, Reply

HI = [HumanMessage("Hi")]
REPLY = Reply(content="yes", usage=(40, 10))
AT_ONCE = CallPolicy(max_attempts=3, sleep=lambda _: None)


def model_at(stub: OpenAIStub, **options: Any) -> RecordedChatModel:
    settings = load_settings(openai_api_key="sk-test", openai_base_url=stub.base_url)
    inner = get_llm("decision", model="gpt-4o-mini", settings=settings)
    return RecordedChatModel(inner, role="decision", policy=AT_ONCE, **options)


def recording(tmp_path: Path, budget: str, run_id: str = "r") -> Recording:
    return Recorder(tmp_path / f"{run_id}.sqlite", budget=Budget.parse(budget)).of(run_id)


def refused(model: Any, question: Any = HI) -> str | None:
    try:
        model.invoke(question)
    except BudgetExceeded as error:
        return str(error.data["limit"])
    return None


def prompt_at_most(stub: OpenAIStub, tmp_path: Path, **options: Any) -> int:
    """Bytes of the recorded request, which the budget reserves."""
    tape = recording(tmp_path, "calls=1", "measure")
    with in_scope(Scope(recording=tape, path="n")):
        model_at(stub).bind(**options).invoke(HI)
    return len(next(iter(tape.entries())).request.encode())


def test_a_call_beyond_the_limit_is_not_sent(tmp_path: Path) -> None:
    with OpenAIStub(lambda _: REPLY) as stub:
        model = model_at(stub)
        tape = recording(tmp_path, "calls=3")
        with in_scope(Scope(recording=tape, path="n")):
            assert [refused(model) for _ in range(5)] == [None, None, None, "calls", "calls"]
    assert len(stub.requests) == 3
    errors = [entry.error and entry.error["data"] for entry in tape.entries()]
    assert errors == [None, None, None, *[{"limit": "calls", "of": "run"}] * 2]


def test_attempts_count_as_calls(tmp_path: Path) -> None:
    with OpenAIStub(lambda _: Fault.http(500)) as stub:
        tape = recording(tmp_path, "calls=2")
        with in_scope(Scope(recording=tape, path="n")):
            assert refused(model_at(stub)) == "calls"
        lines = [(entry.attempt, entry.final, (entry.error or {})["code"]) for entry in tape.entries()]
    assert len(stub.requests) == 2
    assert lines == [
        (1, False, "model_unavailable"),
        (2, False, "model_unavailable"),
        (3, True, "budget_exceeded"),
    ]


def test_a_prompt_beyond_the_token_limit_is_not_sent(tmp_path: Path) -> None:
    with OpenAIStub(lambda _: REPLY) as stub:
        bound = prompt_at_most(stub, tmp_path)
        for limit, expected in ((bound - 1, 0), (bound + 79, 2), (bound + 80, 3)):  # 40 are used by each
            before = len(stub.requests)
            with in_scope(
                Scope(recording=recording(tmp_path, f"prompt_tokens={limit}", str(limit)), path="n")
            ):
                ends = [refused(model_at(stub)) for _ in range(5)]
            assert ends == [None] * expected + ["prompt_tokens"] * (5 - expected)
            assert len(stub.requests) - before == expected
        with in_scope(Scope(recording=recording(tmp_path, "completion_tokens=29", "c"), path="n")):
            ends = [refused(model_at(stub)) for _ in range(4)]
        assert ends == [None, None, None, "completion_tokens"]
        with in_scope(Scope(recording=recording(tmp_path, "completion_tokens=29", "d"), path="n")):
            bounded = model_at(stub).bind(max_tokens=15)
            assert [refused(bounded) for _ in range(3)] == [None, None, "completion_tokens"]


def test_money_holds_at_the_price_of_the_model(tmp_path: Path) -> None:
    # 40 x 0.15 + 10 x 0.60 dollars a million are 0.000012 a call.
    prices = load_prices(None)
    with OpenAIStub(lambda _: REPLY) as stub:
        bound = prompt_at_most(stub, tmp_path, max_tokens=15)
        most = (bound * 150 + 15 * 600) / 1e9
        tape = recording(tmp_path, f"money={most + 0.000024:.9f}", "m")
        with in_scope(Scope(recording=tape, path="n")):
            bounded = model_at(stub, prices=prices).bind(max_tokens=15)
            assert [refused(bounded) for _ in range(5)] == [None, None, None, "money", "money"]
        assert tape.usage()[0]["cost"] == "0.000036"
        with (
            in_scope(Scope(recording=recording(tmp_path, "money=1", "u"), path="n")),
            pytest.raises(NotConfigured, match="price of model gpt-4o-mini is unknown"),
        ):
            model_at(stub, prices={}).invoke(HI)


def test_a_budget_of_a_session_ends_with_the_session(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "run.sqlite", session_budget=Budget(calls=1))
    with OpenAIStub(lambda _: REPLY) as stub, in_scope(Scope(recording=recorder.of("r"), path="n")):
        ends = []
        for day in ("2024-01-02", "2024-01-03"):
            with deciding(Moment.at(day)):
                ends += [refused(model_at(stub)), refused(model_at(stub))]
        ends.append(refused(model_at(stub)))
    assert ends == [None, "calls", None, "calls", None]
    assert [row["session"] for row in recorder.of("r").usage()] == [None, "20240102", "20240103"]


@pytest.mark.proof
def test_the_end_of_the_time_stops_the_node(tmp_path: Path) -> None:
    with (
        OpenAIStub(lambda _: REPLY) as stub,
        in_scope(Scope(recording=recording(tmp_path, "calls=9"), path="n")),
    ):
        model = model_at(stub, node_seconds=0.05)
        time.sleep(0.06)
        assert refused(model) == "seconds"
    with (
        OpenAIStub(lambda _: REPLY) as stub,
        in_scope(Scope(recording=recording(tmp_path, "seconds=0.05", "s"), path="n")),
    ):
        time.sleep(0.06)
        assert refused(model_at(stub)) == "seconds"
    assert stub.requests == []


def test_a_run_of_the_graph_ends_with_the_budget_it_passed(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "run.sqlite")
    graph = create_signal_subgraph(
        on_clarify="default",
        settings=load_settings(budget="calls=1"),
        resources=Resources(store=DataState(), recorder=recorder),
    )
    state = graph.invoke({"messages": [HumanMessage("SYN30, buy when RSI(14) is below 30, in 2025")]})
    assert state["ended_because"] == "budget_calls"
    assert sum(row["calls"] for row in recorder.of(state["run_id"]).usage()) == 1


def in_threads(count: int, work: Callable[[int], Any]) -> list[Any]:
    """Run functions at the same time, behind one barrier."""
    line = threading.Barrier(count)

    def start(number: int) -> Any:
        line.wait()
        return work(number)

    with ThreadPoolExecutor(count) as pool:
        contexts = [copy_context() for _ in range(count)]
        return list(pool.map(lambda number: contexts[number].run(start, number), range(count)))


@pytest.mark.parametrize(
    ("budget", "sent", "limit"), [("calls=7", 7, "calls"), ("completion_tokens=69", 7, "completion_tokens")]
)
def test_twenty_threads_of_one_run_send_no_more(tmp_path: Path, budget: str, sent: int, limit: str) -> None:
    with (
        OpenAIStub(lambda _: REPLY) as stub,
        in_scope(Scope(recording=recording(tmp_path, budget), path="n")),
    ):
        model = model_at(stub)
        ends = in_threads(20, lambda _: refused(model))
    assert Counter(ends) == {None: sent, limit: 20 - sent}
    assert len(stub.requests) == sent


def test_twenty_threads_share_what_is_left_of_the_prompt_tokens(tmp_path: Path) -> None:
    with OpenAIStub(lambda _: REPLY) as stub:
        limit = prompt_at_most(stub, tmp_path) + 6 * 40
        before = len(stub.requests)
        with in_scope(Scope(recording=recording(tmp_path, f"prompt_tokens={limit}"), path="n")):
            model = model_at(stub)
            ends = in_threads(20, lambda _: refused(model))
    assert Counter(ends) == {None: 7, "prompt_tokens": 13}
    assert len(stub.requests) - before == 7


def test_twenty_tasks_of_one_run_send_no_more(tmp_path: Path) -> None:
    async def ask(model: RecordedChatModel) -> list[str | None]:
        async def one() -> str | None:
            try:
                await model.ainvoke(HI)
            except BudgetExceeded as error:
                return str(error.data["limit"])
            return None

        return await asyncio.gather(*(one() for _ in range(20)))

    with (
        OpenAIStub(lambda _: REPLY) as stub,
        in_scope(Scope(recording=recording(tmp_path, "completion_tokens=69"), path="n")),
    ):
        ends = asyncio.run(ask(model_at(stub)))
    assert Counter(ends) == {None: 7, "completion_tokens": 13}
    assert len(stub.requests) == 7


def test_twenty_simultaneous_runs_keep_their_own_limits(tmp_path: Path) -> None:
    def run(number: int) -> list[str | None]:
        question = [HumanMessage(f"run {number}")]
        with in_scope(Scope(recording=recorder.of(f"r{number}"), path="n")):
            return [refused(model, question) for _ in range(4)]

    recorder = Recorder(tmp_path / "runs.sqlite", budget=Budget(calls=2))
    with OpenAIStub(lambda _: REPLY) as stub:
        model = model_at(stub)
        ends = in_threads(20, run)
    assert ends == [[None, None, "calls", "calls"]] * 20
    asked = Counter(json.dumps(request.messages) for request in stub.requests)
    assert sorted(asked.values()) == [2] * 20
