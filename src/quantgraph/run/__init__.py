"""Runs: a sentence from start to end, stopped and gone on with, everything it made in a folder of its own."""

from quantgraph.run.branch import replay_from
from quantgraph.run.drive import Event
from quantgraph.run.replay import Replayed, replay
from quantgraph.run.resume import resume_run
from quantgraph.run.start import run_strategy

__all__ = ["Event", "Replayed", "replay", "replay_from", "resume_run", "run_strategy"]
