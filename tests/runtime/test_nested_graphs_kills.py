"""A trader that is a ``create_agent`` ends with the ledger of the uninterrupted run, wherever it is killed."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pytest
from load_script import load_script

HERE = Path(__file__).parent
CASES = {
    "sqlite": ["sqlite_exit_alone", "sqlite_async_embedded", "sqlite_sync_alone"],
    "postgresql": ["postgresql_exit_embedded", "postgresql_async_alone", "postgresql_sync_embedded"],
}
"""Each pair of saver, durability and host; ``benchmarks/soak.py`` runs all twelve."""
pytestmark = pytest.mark.timeout(300)


agents = load_script(HERE / "agent_kills.py")


@pytest.fixture(scope="module", params=["sqlite", pytest.param("postgresql", marks=pytest.mark.proof)])
def played(request, tmp_path_factory):
    """The cases on one kind of database; one process starts them all."""
    postgres = load_script(HERE.parent / "broker" / "postgres.py")
    with nullcontext() if request.param == "sqlite" else postgres.server() as server:
        places = agents.cases(server and server.database())
        told, served = agents.play(tmp_path_factory.mktemp("agent"), places)
    assert [place["name"] for place in places] == CASES[request.param]
    return told, served, places


def test_no_order_is_lost_and_no_reply_is_paid_twice(played, subtests):
    told, served, places = played
    for place in places:
        with subtests.test(name=place["name"]):
            assert agents.check(told, served, place) >= 3


def test_what_the_model_ordered_is_what_was_traded(played):
    fills = [line for line in played[0]["whole"]["journal"] if line["kind"] == "fill"]
    assert [(fill["body"]["side"], int(fill["body"]["filled"])) for fill in fills] == agents.TRADES


def test_a_killed_run_replays_without_the_model(played):
    told, served, places = played
    assert told["replayed"]["journal"] == told["whole"]["journal"]
    assert agents.check(told, served, places[-1])
