"""Under ``python -OO``, which drops docstrings, models are sent the same texts and runs replay."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from quantgraph.runs import run_strategy

pytestmark = pytest.mark.proof

SHOWN = """
import json
from quantgraph.agents.execution._prompt import bound_tool
from quantgraph.tools.mcp import CLIENT_TOOLS, served_tool
from quantgraph.subgraphs.signal._agents import ReflectionReply, ReviewReply
from quantgraph.tools import tools_catalog, tushare_daily_bar, tushare_daily_basic
from quantgraph.tools._python_repl import ask
from quantgraph.tools._python_repl import decline

print(json.dumps([bound_tool(tool) for tool in tools_catalog.values()]))
for schema in (ReflectionReply, ReviewReply):
    print(json.dumps(schema.model_json_schema()))
for tool in [*tools_catalog.values(), ask, decline, tushare_daily_bar, tushare_daily_basic]:
    print(tool.name, tool.description, json.dumps(tool.tool_call_schema.model_json_schema()))
for name in CLIENT_TOOLS:
    print(served_tool(name))
"""


def python(optimised, *arguments, cwd):
    environment = {**os.environ, "PYTHONOPTIMIZE": optimised}
    return subprocess.run(
        [sys.executable, *arguments], cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )


def test_models_are_sent_the_same(tmp_path):
    plain, stripped = (python(level, "-c", SHOWN, cwd=tmp_path) for level in ("", "2"))
    assert (plain.returncode, stripped.returncode) == (0, 0), stripped.stderr
    assert "Buy shares of a symbol at today's open." in plain.stdout
    assert stripped.stdout == plain.stdout


@pytest.mark.parametrize("decider", ["signal_rule", "execution"])
def test_a_run_replays(tmp_path, decider):
    rule = "000341.SZ, buy when the 2-day average crosses above the 5-day average, sell when it crosses below"
    done = run_strategy(f"{rule}, 20240102 to 20240131", decider=decider, source="sample", out=tmp_path)
    assert done["ended_because"] == "done"
    replayed = python("2", "-m", "quantgraph", "replay", done["run_dir"], cwd=tmp_path)
    assert replayed.returncode == 0, replayed.stderr
    assert "identical" in replayed.stdout
