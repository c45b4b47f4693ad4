"""Runs: a sentence executed in a folder of its own; started, resumed, replayed and branched."""

from quantgraph.runs.branch import replay_from
from quantgraph.runs.execute import RunEvent
from quantgraph.runs.replay import ReplayResult, replay
from quantgraph.runs.resume import resume_run
from quantgraph.runs.start import run_strategy
from quantgraph.runs.strategy_file import StrategyFile, audit_strategy, read_strategy

__all__ = [
    "ReplayResult",
    "RunEvent",
    "StrategyFile",
    "audit_strategy",
    "read_strategy",
    "replay",
    "replay_from",
    "resume_run",
    "run_strategy",
]
