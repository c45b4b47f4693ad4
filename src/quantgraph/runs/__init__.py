"""Runs: a sentence executed in a folder of its own; started, resumed, replayed and branched."""

from quantgraph.runs.branch import replay_from
from quantgraph.runs.outputs import StrategyFile, read_strategy
from quantgraph.runs.replay import ReplayResult, replay
from quantgraph.runs.said_audit import audit_said
from quantgraph.runs.specification import RunSpec
from quantgraph.runs.start import resume_run, run_strategy
from quantgraph.runs.verification import audit_strategy
from quantgraph.runtime.events import RunEvent

__all__ = [
    "ReplayResult",
    "RunEvent",
    "RunSpec",
    "StrategyFile",
    "audit_said",
    "audit_strategy",
    "read_strategy",
    "replay",
    "replay_from",
    "resume_run",
    "run_strategy",
]
