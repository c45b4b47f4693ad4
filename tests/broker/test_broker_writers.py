"""Many writers of one ledger, threads and processes, on SQLite and on PostgreSQL."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from load_script import load_script

from quantgraph.agents import SignalRule
from quantgraph.broker import Account, Ledger, advance, run_sessions, simulate
from quantgraph.errors import LedgerConflict
from quantgraph.market.rulebook import Rulebook

HERE = Path(__file__).parent
CASH = 400_000


rm, postgres = load_script(HERE / "random_market.py"), load_script(HERE / "postgres.py")


@pytest.fixture(scope="module")
def server():
    with postgres.server() as running:
        yield running


@pytest.fixture(params=["sqlite", "postgresql"])
def where(request, tmp_path):
    """A new and empty database."""
    if request.param == "sqlite":
        return str(tmp_path / "ledger.db")
    return request.getfixturevalue("server").database()


@pytest.fixture(scope="module")
def traded():
    """Two deciders' sessions in the market that the processes trade in, and the journal of each."""
    world = rm.random_world(4, market="cn", symbols=4, sessions=15)
    market = world.market(Rulebook.mainland())
    deciders = [rm.RandomDecider(seed, world.symbols) for seed in (4, 5)]
    results = [
        list(simulate(market, world.sessions, decider, account=Account.opening(CASH))) for decider in deciders
    ]
    return market, world.sessions, deciders, results


@pytest.fixture(scope="module")
def journals(traded, tmp_path_factory):
    """What each decider's run is alone: with the run's terms, and with none."""
    market, sessions, deciders, results = traded
    with Ledger(tmp_path_factory.mktemp("alone") / "l.db") as ledger:
        for place, decider in enumerate(deciders):
            run_sessions(market, sessions, decider, cash=CASH, ledger=ledger, run_id=f"own {place}")
            ledger.open_run(f"same {place}", CASH)
            for result in results[place]:
                ledger.commit_day(f"same {place}", result)
        found = {name: rm.told(ledger, name) for name in ledger.runs()}
    assert all(Counter(line["kind"] for line in lines)["fill"] > 10 for lines in found.values())
    return found


def race(what, where):
    command = [sys.executable, str(HERE / "race_child.py"), what, where]
    done = subprocess.run(command, capture_output=True, check=False, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done.stderr


def test_eight_processes_with_runs_of_their_own_lose_nothing(where, journals):
    told, problems = race("own", where)
    assert told["ended"] == [0] * 8, problems
    assert told["journals"] == {f"r{place}": journals[f"own {place % 2}"] for place in range(8)}


def test_eight_processes_racing_for_one_run_leave_one_run(where, journals):
    told, problems = race("same", where)
    (journal,) = told["journals"].values()
    winner = [journal == journals[f"same {place}"] for place in range(2)].index(True)
    conflict = 7
    assert told["ended"] == [0 if place % 2 == winner else conflict for place in range(8)], problems


def test_eight_threads_with_runs_of_their_own_lose_nothing(where, traded, journals):
    market, sessions, deciders, _ = traded
    start = threading.Barrier(8)

    def work(place):
        start.wait()
        run_sessions(market, sessions, deciders[place % 2], cash=CASH, ledger=ledger, run_id=f"r{place}")

    with Ledger(where) as ledger:
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(work, range(8)))
        found = {name: rm.told(ledger, name) for name in ledger.runs()}
    assert found == {f"r{place}": journals[f"own {place % 2}"] for place in range(8)}


def test_eight_threads_racing_for_one_run_leave_one_run(where, traded, journals):
    start = threading.Barrier(8)

    def work(place):
        start.wait()
        try:
            for result in traded[3][place % 2]:
                assert ledger.commit_day("r", result) == result
        except LedgerConflict:
            return False
        return True

    with Ledger(where) as ledger:
        ledger.open_run("r", CASH)
        with ThreadPoolExecutor(8) as pool:
            ended = list(pool.map(work, range(8)))
        winner = [rm.told(ledger, "r") == journals[f"same {place}"] for place in range(2)].index(True)
    assert ended == [place % 2 == winner for place in range(8)]


def test_a_block_that_another_writer_recorded_is_not_recorded_again(where):
    """Without a trade the account is the same before and after, so it alone does not tell."""
    world = rm.random_world(1, market="cn", symbols=2, sessions=6, calm=True)
    world = world._replace(signal=world.signal * 0)
    market, account = world.market(Rulebook.mainland()), Account.opening(CASH)
    (block,) = advance(market, world.sessions, SignalRule(), account=account)
    assert block.account == account
    with Ledger(where) as first, Ledger(where) as second:
        first.open_run("r", CASH)
        assert second.account("r") == account
        first.commit_block("r", account, block.days, account)
        before = list(first.journal("r"))
        with pytest.raises(LedgerConflict):
            second.commit_block("r", account, block.days, account)
        assert list(second.journal("r")) == before
