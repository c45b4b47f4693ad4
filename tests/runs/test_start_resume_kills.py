"""A run that is stopped or killed, and resumed in another process, ends as the uninterrupted one."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from load_script import load_script

HERE = Path(__file__).parent
KILLS = 4
pytestmark = [pytest.mark.proof, pytest.mark.timeout(300)]


interrupted_runs = load_script(HERE / "interrupted_runs.py")


@pytest.fixture(scope="module")
def on_sqlite(tmp_path_factory):
    """The run stopped and killed; one process starts them all."""
    folder = tmp_path_factory.mktemp("sqlite")
    return interrupted_runs.play(folder, "stops,kills", "sqlite", str(KILLS), "1"), folder


def test_a_run_that_is_stopped_after_every_superstep_ends_as_the_uninterrupted_one(on_sqlite):
    told, _ = on_sqlite
    assert interrupted_runs.check_stops(*on_sqlite) > 15
    kinds = Counter(line["kind"] for line in told["whole"]["journal"])
    assert kinds["day"] == 37
    assert kinds["fill"] > 10


def test_a_run_that_is_killed_at_random_instants_pays_for_no_call_twice(on_sqlite):
    assert interrupted_runs.check_kills(*on_sqlite) == KILLS
