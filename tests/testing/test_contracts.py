"""The contracts hold for what the package ships, and find what breaks them."""

from __future__ import annotations

import importlib.util
import sys
from functools import cache
from pathlib import Path

import pytest
from langchain_core.tools import tool

from quantgraph.agents import SignalRule
from quantgraph.agents.dual_agent import DualAgent
from quantgraph.agents.execution import ExecutionAgent
from quantgraph.agents.trader import TraderAgent
from quantgraph.broker import Decider, Order
from quantgraph.report import BuyAndHold
from quantgraph.testing import DeciderContract, ToolContract
from quantgraph.tools import tools_of

ROOT = Path(__file__).parents[2]


@cache
def example_class():
    spec = importlib.util.spec_from_file_location(
        "dip_judge", ROOT / "examples" / "own_decider" / "dip_judge.py"
    )
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.DipJudge


class TestBuyAndHold(DeciderContract):
    def make_decider(self):
        return BuyAndHold()


class TestSignalRule(DeciderContract):
    sentence = "000341.SZ, 600958.SH，2日均线上穿5日均线买入，下穿卖出，20250102到20250117"

    def make_decider(self):
        return SignalRule()


class TestExample(DeciderContract):
    def make_decider(self):
        return example_class()()


@pytest.mark.proof
class TestDualAgent(DeciderContract):
    def make_decider(self):
        return DualAgent()


@pytest.mark.proof
class TestExecutionAgent(DeciderContract):
    def make_decider(self):
        return ExecutionAgent()


@pytest.mark.proof
class TestTraderAgent(DeciderContract):
    def make_decider(self):
        return TraderAgent()


class TestKlines(ToolContract):
    params = {"symbol": "000341.SZ", "timeframe": "1d", "limit": 5}  # noqa: RUF012

    def make_tool(self):
        return tools_of("execution")["get_kline_data"]


class TestHistory(ToolContract):
    params = {"symbol": "000341.SZ", "limit": 5}  # noqa: RUF012

    def make_tool(self):
        return tools_of("trader")["get_price_history"]


class Drifts(Decider):
    """Counts its decisions over all runs, so that no run is like another."""

    name, uses_signal, asked = "drifts", False, 0

    def decide(self, context):
        type(self).asked += 1
        return [Order(symbol="000341.SZ", side="buy", quantity=100 * type(self).asked, sequence=1)]


class Drifting(DeciderContract):
    def make_decider(self):
        return Drifts()


def test_a_decider_that_counts_over_runs_breaks_replay_and_future(tmp_path) -> None:
    with pytest.raises(AssertionError, match="a replay differs"):
        Drifting().test_a_replay_is_identical(tmp_path / "a")
    with pytest.raises(AssertionError, match="orders up to 2025-01-13 depend on later bars"):
        Drifting().test_it_does_not_know_the_future(tmp_path / "b")


class Careless(ToolContract):
    answers = iter(range(100))

    def make_tool(self):
        @tool
        def count() -> int:
            """Count the calls."""
            return next(self.answers)

        return count


@pytest.mark.parametrize(
    "test", ["test_its_answer_is_json_and_the_same_each_time", "test_it_does_not_know_the_future"]
)
def test_a_tool_whose_answers_change_breaks_its_contract(test) -> None:
    with pytest.raises(AssertionError, match=r"the same call has another answer|depends on bars after"):
        getattr(Careless(), test)()
