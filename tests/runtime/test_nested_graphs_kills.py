"""A trader that is a ``create_agent`` ends with the ledger of the uninterrupted run, wherever it is killed."""

from __future__ import annotations

from pathlib import Path

import pytest
from load_script import load_script

HERE = Path(__file__).parent
CASES = [
    "sqlite_exit_alone",
    "sqlite_async_embedded",
    "sqlite_sync_alone",
    "postgresql_exit_embedded",
    "postgresql_async_alone",
    "postgresql_sync_embedded",
]
"""Each pair of saver, durability and host; ``benchmarks/soak.py`` runs all twelve."""
pytestmark = pytest.mark.timeout(300)


agents = load_script(HERE / "agent_kills.py")


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """All cases; one process starts them all."""
    with load_script(HERE.parent / "broker" / "postgres.py").server() as server:
        places = [*agents.cases(None), *agents.cases(server.database())]
        told, served = agents.play(tmp_path_factory.mktemp("agent"), places)
    return told, served, {place["name"]: place for place in places}


@pytest.mark.parametrize("name", CASES)
def test_no_order_is_lost_and_no_reply_is_paid_twice(played, name):
    told, served, places = played
    assert agents.check(told, served, places[name]) >= 3


def test_what_the_model_ordered_is_what_was_traded(played):
    fills = [line for line in played[0]["whole"]["journal"] if line["kind"] == "fill"]
    assert [(fill["body"]["side"], int(fill["body"]["filled"])) for fill in fills] == agents.TRADES


def test_a_killed_run_replays_without_the_model(played):
    told, served, places = played
    assert told["replayed"]["journal"] == told["whole"]["journal"]
    assert agents.check(told, served, places[CASES[-1]])
