"""A user's project: its tests find the fixtures by themselves, and test a node in three lines."""

from __future__ import annotations

import subprocess
import sys

import pytest

from quantgraph.errors import BadOption
from quantgraph.testing import sample_store, signal_state

PROJECT = """
import httpx
from quantgraph.subgraphs.signal import data_fetch_node, signal_generate_node


def test_my_node(quantgraph_state, quantgraph_resources):
    update = data_fetch_node(quantgraph_state("data_fetch"), resources=quantgraph_resources())
    assert update["data_ready"]


def test_each_node_has_a_state_and_models_can_be_given(quantgraph_state, quantgraph_resources, quantgraph_model):
    assert quantgraph_state("validation")["signal_ready"]
    assert quantgraph_state("clarify")["quantgraph"]["dialogue"]["clarification"]["kind"] == "window"
    lost = quantgraph_resources(model=quantgraph_model(lambda messages: "I do not know."))
    assert signal_generate_node(quantgraph_state("signal_generate"), resources=lost)["retry_count"] == 1
    assert data_fetch_node(quantgraph_state("data_fetch"), resources=lost)["data_ready"], "no model is asked"


def test_the_store_has_the_sample(quantgraph_store):
    assert quantgraph_store.snapshot()["ohlcv"]["close"].shape == (37, 3)


def test_the_stub_runs(quantgraph_openai):
    question = {"model": "m", "messages": []}
    url = quantgraph_openai(["Hello."]).base_url + "/chat/completions"
    assert httpx.post(url, json=question, trust_env=False).status_code == 200
"""


def test_a_project_tests_its_nodes_in_three_lines(tmp_path):
    (tmp_path / "test_project.py").write_text(PROJECT)
    done = pytest_in(tmp_path, "-W", "error", "-W", "ignore:.*langchain:DeprecationWarning")
    assert "4 passed" in done.stdout, done.stdout + done.stderr


def test_an_unknown_node_is_refused_with_the_valid_names():
    with pytest.raises(BadOption, match=r"node='nonsense'; valid are reflection, data_fetch, "):
        signal_state("nonsense", store=sample_store())


def test_the_plugin_loads_nothing_heavy_at_startup(tmp_path):
    (tmp_path / "test_light.py").write_text(
        "import sys\n\n\n"
        "def test_light():\n"
        "    assert 'quantgraph.testing.pytest_plugin' in sys.modules\n"
        "    assert not {'pandas', 'numpy', 'langchain_core', 'langgraph', 'pydantic'} & set(sys.modules)\n"
    )
    others = [f"-p no:{name}" for name in ("langsmith_plugin", "hypothesispytest", "anyio", "xdist")]
    done = pytest_in(tmp_path, *" ".join(others).split())
    assert "1 passed" in done.stdout, done.stdout + done.stderr


def pytest_in(folder, *options):
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options, "."],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
