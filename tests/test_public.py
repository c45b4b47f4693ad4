"""The public face: its names, what importing costs, and that it has no effects."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import quantgraph

NAMES = [
    "DataState",
    "Decider",
    "GLOBAL_DATA_STATE",
    "Ledger",
    "MarketDataSource",
    "Moment",
    "QuantGraphError",
    "Rulebook",
    "SignalRule",
    "__version__",
    "create_signal_subgraph",
    "create_trading_graph",
    "get_llm",
    "open_source",
    "run_strategy",
]
HEAVY = [
    "exchange_calendars",
    "langchain",
    "langchain_core",
    "langchain_experimental",
    "langchain_openai",
    "langgraph",
    "matplotlib",
    "numba",
    "numpy",
    "openai",
    "pandas",
    "plotext",
    "pyarrow",
    "pydantic",
    "requests",
    "rich",
    "sqlalchemy",
    "talib",
    "tushare",
    "typer",
]
LOOK = """
import json, logging, os, resource, sys
calls = []
sys.addaudithook(lambda event, _: calls.append(event))
calls.clear()
{line}
used = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps({{
    "seconds": used.ru_utime + used.ru_stime,
    "modules": sorted({{name.partition(".")[0] for name in sys.modules}}),
    "files": sorted(os.listdir(".")),
    "events": sorted(set(calls)),
    "handlers": [str(handler) for handler in logging.getLogger().handlers],
}}))
"""


def _look(line: str, folder: Path) -> dict[str, Any]:
    code = LOOK.format(line=line)
    home = {"HOME": str(folder), "PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=folder, env=home
    )
    assert done.stdout.count("\n") == 1, "an import prints nothing"
    assert not done.stderr
    return json.loads(done.stdout)


def test_the_public_names_are_these() -> None:
    assert sorted(quantgraph.__all__) == NAMES == dir(quantgraph)
    assert len(NAMES) <= 15


@pytest.mark.parametrize("name", NAMES)
def test_every_public_name_is_there_and_is_the_one_at_home(name: str) -> None:
    from importlib import import_module

    source = ast.parse(Path(quantgraph.__file__).read_text(encoding="utf-8"))
    imports = [node for node in ast.walk(source) if isinstance(node, ast.ImportFrom)]
    homes = {each.name: node.module for node in imports for each in node.names}
    value = getattr(quantgraph, name)
    if name == "__version__":
        assert value.count(".") == 2
    else:
        assert value is getattr(import_module(homes[name]), name)


def test_a_name_that_does_not_exist_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="create_signal_graph"):
        quantgraph.create_signal_graph  # noqa: B018


def test_import_takes_less_than_0_3_seconds_of_cpu(tmp_path: Path) -> None:
    # Of several: another process on the machine can only make it slower.
    seconds = min(_look("import quantgraph", tmp_path)["seconds"] for _ in range(3))
    assert seconds < 0.3


def test_import_loads_nothing_heavy(tmp_path: Path) -> None:
    assert set(HEAVY) & set(_look("import quantgraph", tmp_path)["modules"]) == set()


def test_the_data_state_loads_no_graph_and_no_model_library(tmp_path: Path) -> None:
    modules = _look("from quantgraph import GLOBAL_DATA_STATE, Moment, Rulebook", tmp_path)["modules"]
    loud = {
        "langgraph",
        "langchain",
        "langchain_core",
        "openai",
        "tushare",
        "numba",
        "sqlalchemy",
        "exchange_calendars",
    }
    assert loud & set(modules) == set()


def test_import_makes_no_file_opens_no_socket_and_configures_no_logging(tmp_path: Path) -> None:
    seen = _look("import quantgraph", tmp_path)
    assert seen["files"] == []
    assert seen["handlers"] == []
    forbidden = ("socket.", "os.mkdir", "subprocess.", "os.system", "os.putenv", "sqlite3.")
    assert [event for event in seen["events"] if event.startswith(forbidden)] == []
