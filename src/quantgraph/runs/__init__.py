"""Runs: a sentence executed in a folder of its own; started, resumed, replayed and branched."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgraph._util.lazy_names import lazy_names
from quantgraph.runs.branch import replay_from
from quantgraph.runs.example_run import example_run_name, unpack_example_run
from quantgraph.runs.outputs import StrategyFile, read_strategy
from quantgraph.runs.replay import ReplayResult, replay
from quantgraph.runs.run_list import RunComparison, compare, list_runs
from quantgraph.runs.run_result import RunResult, open_run
from quantgraph.runs.said_audit import audit_said
from quantgraph.runs.specification import RunSpec
from quantgraph.runs.start import resume_run, run_strategy
from quantgraph.runs.trader_config import TraderConfig, TraderModel, read_trader_config
from quantgraph.runs.verification import audit_strategy
from quantgraph.runtime.events import RunEvent

__all__ = [
    "BaseAgent",
    "ReplayResult",
    "RunComparison",
    "RunEvent",
    "RunResult",
    "RunSpec",
    "StrategyFile",
    "TraderConfig",
    "TraderModel",
    "audit_said",
    "audit_strategy",
    "compare",
    "example_run_name",
    "list_runs",
    "open_run",
    "read_strategy",
    "read_trader_config",
    "replay",
    "replay_from",
    "resume_run",
    "run_strategy",
    "unpack_example_run",
]

if TYPE_CHECKING:
    from quantgraph.runs.base_agent import BaseAgent
else:  # a run without the trader starts without its tools; a type checker must still find misspelt names
    __getattr__ = lazy_names(__name__, {"base_agent": ("BaseAgent",)})
