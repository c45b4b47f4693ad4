"""What a traced run sends to LangSmith: the graph's steps and the model's calls, and nothing secret."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys

import pandas as pd
import pytest
from langchain_core.tracers.context import tracing_v2_enabled
from langchain_core.tracers.langchain import wait_for_all_tracers
from langsmith import Client
from langsmith_stub import LangSmithStub

from quantgraph import create_signal_subgraph, create_trading_graph
from quantgraph.data import open_source
from quantgraph.llm._keyless import KeylessPlanner
from quantgraph.runtime import Resources
from quantgraph.settings import load_settings
from quantgraph.state import DataState
from quantgraph.testing import OpenAIStub, Reply

SECRET, KEY = "sk-0123456789abcdef", "key-of-langsmith"
SENTENCE = (
    "AAPL, buy when the 5-day average crosses above the 20-day average, sell when it crosses below, 2024"
)
CONFIG = {"tags": ["nightly"], "metadata": {"decider": "signal_rule"}}


def prices(path):
    """Write a file of prices; its closes have digits enough not to be in a text by chance."""
    days = pd.bdate_range("2024-01-02", periods=120)
    closes = [180 + 20 * math.sin(number / 9) + number * 0.001037 for number in range(120)]
    rows = [
        f"{day:%Y-%m-%d},{c:.6f},{c + 1:.6f},{c - 1:.6f},{c:.6f},50000000"
        for day, c in zip(days, closes, strict=True)
    ]
    path.write_text("\n".join(["Date,Open,High,Low,Close,Volume", *rows]) + "\n", encoding="utf-8")
    return [f"{close:.6f}" for close in closes]


def traced_runs(stub, run):
    """What the stub was sent while a graph ran."""
    client = Client(stub.address, api_key=KEY)
    with tracing_v2_enabled("project", client=client):
        run()
    wait_for_all_tracers()
    client.flush()
    client.cleanup()
    return stub.runs


@pytest.fixture(scope="module")
def traced(tmp_path_factory):
    """A trading run on a file of prices whose model is asked over HTTP with a key: its trace, and its closes."""
    place = tmp_path_factory.mktemp("secret-folder")
    closes = prices(place / "AAPL.csv")
    with LangSmithStub() as stub, OpenAIStub.serving(KeylessPlanner()) as model:
        settings = load_settings(openai_base_url=model.base_url, openai_api_key=SECRET, model="stub")
        resources = Resources(store=DataState(place / "data"), ledger=place / "ledger.sqlite")
        graph = create_trading_graph(
            source=open_source(place / "AAPL.csv"),
            on_clarify="default",
            settings=settings,
            resources=resources,
        )
        task = {"messages": [("user", SENTENCE)], "run_id": "mine"}
        return traced_runs(stub, lambda: graph.invoke(task, CONFIG)), closes, place


def test_a_traced_run_is_a_tree_of_the_graphs_nodes_with_the_callers_tags_and_metadata(traced):
    runs, _, _ = traced
    (root,) = [run for run in runs if "parent_run_id" not in run]
    assert (root["name"], root["outputs"]["ended_because"], root["inputs"]["run_id"]) == (
        "trading",
        "done",
        "mine",
    )
    steps = [run["name"] for run in runs if run.get("parent_run_id") == root["id"]]
    assert steps == ["begin", "signal", "daily_loop", "decision", "daily_loop", "report"]
    assert all("nightly" in run["tags"] for run in runs if run["name"] in steps)
    assert {run["extra"]["metadata"]["decider"] for run in runs} == {"signal_rule"}


def test_each_model_call_is_in_a_trace_beneath_the_node_that_made_it(traced):
    runs, _, _ = traced
    by_id = {run["id"]: run for run in runs}

    def nodes(run):
        above = by_id.get(run.get("parent_run_id"))
        return [run["name"], *(nodes(above) if above else [])]

    calls = [run for run in runs if run["run_type"] == "llm"]
    made = [next(name for name in nodes(call) if name in ("reflection", "validate")) for call in calls]
    assert made == ["reflection"]
    assert {call["extra"]["metadata"]["ls_model_name"] for call in calls} == {"stub"}
    assert [run["name"] for run in runs if run["run_type"] == "tool"] == []


def test_no_key_no_path_and_no_price_is_in_a_trace(traced):
    runs, closes, place = traced
    text = json.dumps(runs, ensure_ascii=False)
    assert "AAPL.csv" in text
    assert [secret for secret in (SECRET, KEY, str(place), place.name) if secret in text] == []
    assert [close for close in closes if close in text or f"{float(close):.2f}" in text] == []


def test_a_key_that_a_server_sends_back_is_not_in_a_trace():
    with LangSmithStub() as stub, OpenAIStub(lambda _: Reply.text(f"your key is {SECRET}")) as model:
        settings = load_settings(openai_base_url=model.base_url, openai_api_key=SECRET, model="stub")
        graph = create_signal_subgraph(
            on_clarify="default", settings=settings, resources=Resources(store=DataState())
        )
        runs = traced_runs(stub, lambda: graph.invoke({"messages": [("user", SENTENCE)]}))
    text = json.dumps(runs)
    assert "your key is" in text
    assert SECRET not in text


@pytest.mark.proof
@pytest.mark.parametrize("tracing", [True, False])
def test_the_environment_alone_decides_whether_a_command_is_traced(tracing, tmp_path):
    command = [sys.executable, "-m", "quantgraph", "run", SENTENCE.replace("AAPL", "000341.SZ")]
    with LangSmithStub() as stub:
        names = {
            name: text for name, text in os.environ.items() if not name.startswith(("LANGSMITH", "LANGCHAIN"))
        }
        names |= {"LANGSMITH_ENDPOINT": stub.address, "LANGSMITH_API_KEY": KEY}
        names |= {"LANGSMITH_TRACING": "true"} if tracing else {}
        options = ["--headless", "--out", str(tmp_path / "runs")]
        subprocess.run([*command, *options], env=names, cwd=tmp_path, check=True, capture_output=True)
        roots = [run for run in stub.runs if "parent_run_id" not in run]
        sent = len(stub.requests)
    (written,) = (tmp_path / "runs").glob("*/run.json")
    assert [run["name"] for run in roots] == (["trading"] if tracing else [])
    assert [run["extra"]["metadata"]["thread_id"] for run in roots] == (
        [written.parent.name] if tracing else []
    )
    assert (sent > 0) == tracing
    assert KEY not in json.dumps(roots)
    assert str(tmp_path) not in json.dumps(roots)
