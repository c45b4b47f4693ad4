"""Names of packages are imported on first use, and a run loads no tools that it does not use."""

import subprocess
import sys

import pytest

import quantgraph.tools
from quantgraph._util.lazy_names import lazy_names

UNUSED = {
    *("quantgraph.agents.trader", "quantgraph.tools.catalog", "quantgraph.tools.trade_tools"),
    *("plotext", "plotly", "jinja2"),
}


def test_a_name_is_that_of_its_module_and_another_is_refused():
    get = lazy_names(
        "quantgraph._util", {"canonical_json": ("canonical_json",), "lazy_names": ("lazy_names",)}
    )
    assert get("canonical_json")([1]) == "[1]"
    assert get("lazy_names") is lazy_names
    with pytest.raises(AttributeError, match=r"module 'quantgraph\._util' has no attribute 'canonical'"):
        get("canonical")


EACH_FIRST = """
import importlib, os, types
import langchain.agents, langgraph.graph, mcp, pandas, pydantic_settings, sqlalchemy
for package in {packages!r}:
    child = os.fork()
    if child == 0:
        it = importlib.import_module("quantgraph." + package)
        twice = [[getattr(it, name) for name in it.__all__] for _ in range(2)]
        assert all(a is b and not isinstance(a, types.ModuleType) for a, b in zip(*twice))
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0, package
"""
"""What is not ours is imported once, and each package is the first of ours in a process of its own."""


def test_every_public_name_of_a_package_is_there_and_none_is_hidden_by_a_module():
    packages = ["agents", "broker", "broker.ledger", "llm", "runs", "testing", "tools"]
    subprocess.run([sys.executable, "-c", EACH_FIRST.format(packages=packages)], check=True)


def test_a_run_without_a_decider_that_asks_models_loads_none_of_their_tools():
    code = f"import sys, quantgraph.graph, quantgraph.runs; print(sorted({UNUSED!r} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout == "[]\n"
    assert quantgraph.tools.trader_catalog
