"""An option of a decider has its default in one place, which constructors, identity, pages and the config file read."""

from __future__ import annotations

import ast
import inspect
from collections import Counter
from dataclasses import MISSING, fields
from pathlib import Path

import pytest
from typer.testing import CliRunner

import quantgraph
from quantgraph.agents._registry import decider_names
from quantgraph.agents.dual_agent._config import DualAgentConfig, LLMConfig
from quantgraph.agents.execution import ExecutionAgent, ExecutionOptions
from quantgraph.agents.trader import TraderAgent, TraderOptions
from quantgraph.cli._main import app
from quantgraph.integrations.ai_trader import BaseAgent
from quantgraph.integrations.ai_trader._config import _AgentConfig

HOUSE = Path(quantgraph.__file__).parent
DOCS = Path(__file__).resolve().parents[2] / "docs"
MADE_OF = {TraderAgent: TraderOptions, ExecutionAgent: ExecutionOptions}


def defaults(options):
    return {each.name: each.default for each in fields(options) if each.init}


@pytest.mark.parametrize("decider", MADE_OF, ids=lambda each: each.__name__)
def test_a_decider_is_made_of_its_options(decider):
    parameters = inspect.signature(decider).parameters.values()
    assert {each.name: each.default for each in parameters} == defaults(MADE_OF[decider])
    assert MISSING not in defaults(MADE_OF[decider]).values()
    made = decider()
    assert {name: getattr(made, name) for name in defaults(decider)} == defaults(decider)


def test_who_else_takes_an_option_has_its_default():
    known, parameters = defaults(TraderOptions), inspect.signature(BaseAgent).parameters.values()
    taken = {each.name: each.default for each in parameters if each.name in known}
    assert len(taken) == 6
    assert taken == {name: known[name] for name in taken}


def test_the_config_file_of_ai_trader_has_the_traders_defaults():
    known = defaults(TraderOptions)
    read = {name: each.default for name, each in _AgentConfig.model_fields.items() if name in known}
    assert read == {name: known[name] for name in ("max_steps", "max_retries", "base_delay")}


def literal_defaults(path):
    """Names of parameters and fields that have a number or a text as their default in a file, with its line."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        pairs = []
        if isinstance(node, ast.FunctionDef):
            given = node.args
            pairs = [*zip(given.args[::-1], given.defaults[::-1]), *zip(given.kwonlyargs, given.kw_defaults)]
            pairs = [(each.arg, default) for each, default in pairs]
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            pairs = [(node.target.id, node.value)]
        for name, default in pairs:
            value = default.args[0] if isinstance(default, ast.Call) and default.args else default
            if isinstance(value, ast.Constant) and value.value is not None:
                yield name, f"{path.name}:{value.lineno}"


@pytest.mark.parametrize(
    ("names", "places"),
    [
        (defaults(TraderOptions), ["agents/trader", "integrations/ai_trader"]),
        (defaults(ExecutionOptions), ["agents/execution"]),
        (
            {
                *DualAgentConfig.model_fields,
                *LLMConfig.model_fields,
                "ttl_hours",
                "mode",
                "max_attempts",
                "min_cash_ratio",
            },
            ["agents/dual_agent"],
        ),
    ],
    ids=["trader", "execution", "dual_agent"],
)
def test_a_default_is_written_once(names, places):
    files = [
        path
        for place in places
        for path in ([HOUSE / place], sorted((HOUSE / place).rglob("*.py")))[(HOUSE / place).is_dir()]
    ]
    found = [(name, where) for path in files for name, where in literal_defaults(path) if name in names]
    counts = Counter(name for name, _ in found)
    assert counts
    assert {
        name: [where for each, where in found if each == name] for name in counts if counts[name] > 1
    } == {}


OTHERS = {
    TraderAgent: {
        "max_steps": 5,
        "max_retries": 2,
        "base_delay": 0,
        "tool_timeout": 1,
        "window": 5_000,
        "results_as": "text",
        "watched": ["AAPL"],
        "memory": False,
    },
    ExecutionAgent: {"rounds": 3, "time_limit": 5, "tool_timeout": 1, "calling": "native", "share": 0.5},
}


@pytest.mark.parametrize("decider", OTHERS, ids=lambda each: each.__name__)
def test_another_option_is_another_identity(decider):
    """Not ``parallel``, which changes no result; ``tools``, ``news``, ``size``, ``prompt`` have tests of their own."""
    usual = decider().options
    for name, value in OTHERS[decider].items():
        changed = decider(**{name: value}).options
        assert {key for key in {*usual, *changed} if usual.get(key) != changed.get(key)} == {name}
    untested = set(defaults(MADE_OF[decider])) - set(OTHERS[decider])
    assert untested <= {
        "parallel",
        "tools",
        "news",
        "prompt",
        "size",
        "cash",
        "allow_leaky_tools",
        "allow_leaky_search",
    }


@pytest.mark.parametrize(
    ("page", "options", "text"),
    [
        ("trader.md", TraderOptions, "it gave {max_steps} replies (`max_steps`)"),
        ("trader.md", TraderOptions, "after `max_retries` ({max_retries}) tries"),
        ("trader.md", TraderOptions, "from `base_delay` ({base_delay} s)"),
        ("trader.md", TraderOptions, "within `window`\ncharacters ({window:,})"),
        (
            "ai-trader-files.md",
            TraderOptions,
            "`max_steps` ({max_steps}), `max_retries` ({max_retries}), `base_delay` ({base_delay})",
        ),
        ("execution-agent.md", ExecutionOptions, "`rounds`, {rounds} |"),
        ("execution-agent.md", ExecutionOptions, "`time_limit`, by default `rounds` times"),
        ("execution-agent.md", ExecutionOptions, "`{size}` (default)"),
    ],
)
def test_the_pages_tell_the_defaults(page, options, text):
    assert text.format(**defaults(options)) in (DOCS / page).read_text(encoding="utf-8")


def test_the_help_of_the_command_names_every_decider():
    shown = CliRunner().invoke(app, ["run", "--help"], env={"COLUMNS": "200"}).stdout
    assert [name for name in decider_names() if name not in shown] == []
