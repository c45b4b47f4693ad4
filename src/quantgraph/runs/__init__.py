"""Runs: a sentence from start to end, stopped and gone on with, everything it made in a folder of its own."""

from quantgraph.runs.branch import replay_from
from quantgraph.runs.driver import RunEvent
from quantgraph.runs.replay import ReplayResult, replay
from quantgraph.runs.resume import resume_run
from quantgraph.runs.start import run_strategy

__all__ = ["RunEvent", "ReplayResult", "replay", "replay_from", "resume_run", "run_strategy"]
