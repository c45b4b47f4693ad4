"""The main graph, killed with SIGKILL and resumed on its thread, leaves the ledger of the uninterrupted run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

pytestmark = [pytest.mark.proof, pytest.mark.timeout(300)]

CHILD = Path(__file__).parents[1] / "broker" / "crash_child.py"
SESSIONS = 58
"""Of the first quarter of 2024 (XSHG)."""


def crashed(what, way, folder, kills):
    """What the child says of a run that was killed and resumed, and how many lines of a kind it has."""
    # Every start proves the strategy again: one session of it is enough here.
    short = {**os.environ, "QUANTGRAPH_AUDIT": '{"prove": "sampled", "cuts": 1, "seed": 0}'}
    command = [sys.executable, str(CHILD), what, way, str(folder), str(kills), "8"]
    done = subprocess.run(command, capture_output=True, check=False, text=True, timeout=250, env=short)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    return told["kills"], Counter(line["kind"] for line in told["journal"])


@pytest.mark.parametrize("what", ["checkpointed", "bare"])
def test_a_step_of_many_sessions_goes_on_after_its_last_transaction(what, tmp_path):
    kills, kinds = crashed(what, "boundary", tmp_path, 0)  # without a checkpoint it is begun anew
    assert (kinds["day"], kinds["fill"] > 100) == (SESSIONS, True)
    assert min(Counter(kills).values()) >= 3  # the opening, and parts of the step


def test_a_graph_that_is_killed_three_times_ends_with_the_same_ledger(tmp_path):
    kills, kinds = crashed("graph8", "time", tmp_path, 3)
    assert (kinds["day"], kinds["fill"] > 20) == (SESSIONS, True)
    assert len(kills) >= 3
