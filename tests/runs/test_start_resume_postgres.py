"""Runs with checkpoints, ledger and record on PostgreSQL: killed, disconnected, resumed, replayed."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path

import pytest
from langgraph.checkpoint.postgres import PostgresSaver
from load_script import load_script

from quantgraph.errors import StorageUnavailable
from quantgraph.runs import replay, resume_run, run_strategy
from quantgraph.runs.folder import read_manifest
from quantgraph.runtime import Resources

pytestmark = pytest.mark.proof

HERE = Path(__file__).parent
KILLS = 2
SENTENCE = "000341.SZ，2日均线上穿5日均线买入，下穿卖出，20240102到20240229"


interrupted_runs = load_script(HERE / "interrupted_runs.py")


@pytest.fixture(scope="module")
def server():
    with load_script(HERE.parent / "broker" / "postgres.py").server() as running:
        yield running


@pytest.mark.timeout(300)
def test_a_run_on_postgresql_that_is_killed_pays_for_no_call_twice_and_replays(tmp_path, server):
    told = interrupted_runs.play(tmp_path, "kills", server.database(), str(KILLS), "2")
    assert interrupted_runs.check_kills(told, tmp_path) == KILLS
    named = Resources(ledger=read_manifest(tmp_path / "kills0" / "r").ledger)
    assert replay(tmp_path / "kills0" / "r", resources=named).differences == ()


def test_a_run_whose_database_server_stops_is_resumed_when_it_is_back(tmp_path, server):
    where = server.database()
    stopped = []

    def stop(event):
        if event.name == "validate" and not stopped:
            stopped.append(event)
            server.stop()

    with saver(where) as checkpointer, pytest.raises(StorageUnavailable, match="check that its server runs"):
        run_strategy(
            SENTENCE, out=tmp_path, resources=Resources(ledger=where, checkpointer=checkpointer, watch=stop)
        )
    server.start()
    (folder,) = tmp_path.glob("*/")
    with saver(where) as checkpointer:
        assert resume_run(folder, resources=Resources(checkpointer=checkpointer))["ended_because"] == "done"
    assert replay(folder, resources=Resources(ledger=where)).differences == ()


@contextmanager
def saver(where):
    with PostgresSaver.from_conn_string(where.replace("+psycopg", "")) as made:
        made.setup()
        yield made
