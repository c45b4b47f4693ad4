"""Many writers of one ledger, threads and processes, on SQLite and on PostgreSQL."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from load_script import load_script

from quantgraph.agents import SignalRule
from quantgraph.broker import Account, simulate
from quantgraph.broker.ledger import Ledger, LoggedStep
from quantgraph.broker.session import advance, run_sessions
from quantgraph.errors import LedgerConflict
from quantgraph.market import Rulebook

HERE = Path(__file__).parent
CASH = 400_000


rm, postgres = load_script(HERE / "random_market.py"), load_script(HERE / "postgres.py")


@pytest.fixture(scope="module")
def server():
    with postgres.server() as running:
        yield running


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.proof)])
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


def test_threads_of_two_ledgers_log_every_step_once(where):
    """As four symbols side by side do, in each of two processes with runs of their own in one database."""
    symbols, day = [f"{number:06}.SZ" for number in range(4)], pd.Timestamp("2024-01-02")

    def execute(ledger, run_id, symbol):
        for number in (1, 2, 1, 2, 3, 4, 5):  # the first two are those of a try that was killed
            step = LoggedStep(
                rule_name="one",
                rule="for all",
                symbol=symbol,
                session=day,
                step=number,
                action_type="observation",
                action={"step": number},
                result=[run_id, symbol],
                timestamp="2024-01-02T09:00:00",
            )
            ledger.log_step(run_id, step)

    with Ledger(where) as one, Ledger(where) as other, ThreadPoolExecutor(8) as threads:
        jobs = [
            threads.submit(execute, ledger, run_id, symbol)
            for ledger, run_id in ((one, "a"), (other, "b"))
            for symbol in symbols
        ]
        for job in jobs:
            job.result()
        for run_id in ("a", "b"):
            executions = one.executions(run_id)
            assert [each.symbol for each in executions] == symbols
            for each in executions:
                assert [step.step for step in each.steps] == [1, 2, 3, 4, 5]
                assert {tuple(step.result) for step in each.steps} == {(run_id, each.symbol)}
        engine = one._store.engine
        with engine.connect() as connection:
            counts = "SELECT count(*), count(DISTINCT id), count(DISTINCT rule_id) FROM execution_logs"
            assert tuple(connection.exec_driver_sql(counts).one()) == (40, 40, 1)


def test_a_step_twice_is_a_conflict_on_every_database(where):
    fields = {"rule_name": "r", "rule": "\0", "symbol": "A", "session": pd.Timestamp("2024-01-02")}
    one = LoggedStep(step=1, action_type="observation", action={}, timestamp="2024-01-02T09:00:00", **fields)
    with Ledger(where) as ledger:
        for number in (1, 2):
            ledger.log_step("r", replace(one, step=number, result="\0"))
        with pytest.raises(LedgerConflict, match="step 2 is there already"):
            ledger.log_step("r", replace(one, step=2))
        ledger.log_step("r", replace(one, step=3))
        with pytest.raises(LedgerConflict, match="step 1 is not"):
            ledger.log_step("other", replace(one, step=2))
        (execution,) = ledger.executions("r")
        assert [(step.step, step.result) for step in execution.steps] == [(1, "\0"), (2, "\0"), (3, None)]
