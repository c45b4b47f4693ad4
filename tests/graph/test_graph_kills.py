"""The main graph, killed with SIGKILL and resumed on its thread, leaves the ledger of the uninterrupted run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

pytestmark = pytest.mark.proof

CHILD = Path(__file__).parents[1] / "broker" / "crash_child.py"
SESSIONS = 58
"""Of the first quarter of 2024 (XSHG)."""


@pytest.mark.timeout(300)
def test_a_graph_that_is_killed_three_times_ends_with_the_same_ledger(tmp_path):
    command = [sys.executable, str(CHILD), "graph8", "time", str(tmp_path), "3", "8"]
    # Every start proves the strategy again: one session of it is enough here.
    short = {**os.environ, "QUANTGRAPH_AUDIT": '{"prove": "sampled", "cuts": 1, "seed": 0}'}
    done = subprocess.run(command, capture_output=True, check=False, text=True, timeout=250, env=short)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    kinds = Counter(line["kind"] for line in told["journal"])
    assert kinds["day"] == SESSIONS
    assert kinds["fill"] > 20
    assert len(told["kills"]) >= 3
