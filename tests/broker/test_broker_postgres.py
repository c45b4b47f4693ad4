"""The ledger on a real PostgreSQL server: the same journal, and the same promises, as on SQLite."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from load_script import load_script
from sqlalchemy import create_engine, event, text

from quantgraph.agents import SignalRule
from quantgraph.broker import Account, TradePlan, simulate
from quantgraph.broker.ledger import Ledger
from quantgraph.broker.session import run_sessions
from quantgraph.errors import BadOption, LedgerConflict, StorageUnavailable
from quantgraph.market import Rulebook

pytestmark = pytest.mark.proof

HERE = Path(__file__).parent
CASH = 400_000


rm, postgres = load_script(HERE / "random_market.py"), load_script(HERE / "postgres.py")
WORLD = rm.random_world(4, market="cn", symbols=6, sessions=25)
MARKET = WORLD.market(Rulebook.mainland(volume_share="0.5"))
RUNS = {
    "orders": (MARKET, rm.RandomDecider(4, WORLD.symbols)),
    "rule": (WORLD.market(Rulebook.mainland()), SignalRule()),
}
"""Order by order, and in blocks."""


def run(ledger, run_id="r", kind="orders", rows=None):
    market, decider = RUNS[kind]
    plan = TradePlan(max_positions=3) if kind == "rule" else None
    run_sessions(market, WORLD.sessions[:rows], decider, cash=CASH, ledger=ledger, run_id=run_id, plan=plan)


@pytest.fixture(scope="module")
def server():
    with postgres.server() as running:
        yield running


@pytest.fixture
def where(server):
    return server.database()


@pytest.fixture(scope="module")
def on_sqlite(tmp_path_factory):
    """The journals of both runs on SQLite."""
    with Ledger(tmp_path_factory.mktemp("sqlite") / "l.db") as ledger:
        for kind in ("orders", "rule"):
            run(ledger, kind, kind)
        return {kind: rm.told(ledger, kind) for kind in ledger.runs()}


@pytest.fixture(scope="module")
def results():
    return list(simulate(MARKET, WORLD.sessions, RUNS["orders"][1], account=Account.opening(CASH)))


@pytest.mark.parametrize("kind", ["orders", "rule"])
def test_the_journal_is_that_of_sqlite(where, on_sqlite, kind):
    with Ledger(where) as ledger:
        run(ledger, kind=kind)
        ledger.check("r")
        assert rm.told(ledger, "r") == on_sqlite[kind]
        assert {line["kind"] for line in on_sqlite[kind]} >= {"fill", "dividend", "split", "day"}


def test_a_run_goes_on_in_a_ledger_that_is_opened_again(where, on_sqlite):
    with Ledger(where) as ledger:
        run(ledger, rows=11)
        account = ledger.account("r")
    with Ledger(where) as ledger:
        assert ledger.account("r") == account
        assert ledger.sessions("r") == WORLD.sessions[:11]
        run(ledger)
        assert rm.told(ledger, "r") == on_sqlite["orders"]


def test_committing_again_adds_nothing_and_something_else_is_a_conflict(where, results):
    with Ledger(where) as ledger:
        ledger.open_run("r", CASH)
        for result in results:
            assert ledger.commit_day("r", result) == result
        before = rm.told(ledger, "r")
        for result in results:
            assert ledger.commit_day("r", result) == result
        place = next(place for place, result in enumerate(results) if result.fills)
        other = next(results_of(5, results[place].session))
        with pytest.raises(LedgerConflict, match="is recorded for this session"):
            ledger.commit_day("r", other)
        assert rm.told(ledger, "r") == before


def results_of(seed, session):
    other = rm.RandomDecider(seed, WORLD.symbols)
    done = simulate(MARKET, WORLD.sessions, other, account=Account.opening(CASH))
    return (result for result in done if result.session == session)


@pytest.mark.parametrize(
    "damage",
    [
        'UPDATE journal SET body = replace(body, \'"cash":"\', \'"cash":"1\') WHERE line = 20',
        "UPDATE journal SET hash = md5('x') WHERE line = 20",
        "UPDATE journal SET session = '2024-01-01' WHERE line = 20",
        "DELETE FROM journal WHERE line = 20",
    ],
    ids=["body", "hash", "session", "gone"],
)
def test_the_check_finds_a_line_that_was_changed(where, damage):
    with Ledger(where) as ledger:
        run(ledger)
        if "body" in damage:
            day = next(line["line"] for line in ledger.journal("r") if line["kind"] == "day")
            damage = damage.replace("= 20", f"= {day}")
        ledger.check("r")
        engine = create_engine(where)
        with engine.begin() as connection:
            assert connection.execute(text(damage)).rowcount == 1
        engine.dispose()
        with pytest.raises(LedgerConflict, match="chain breaks at line"):
            ledger.check("r")


def test_runs_are_in_the_same_order_as_everywhere(where):
    names = ["b", "B", "a-1", "a1", "_", "Ä", "10", "9"]
    with Ledger(where) as ledger:
        for name in names:
            ledger.open_run(name, 1)
        assert ledger.runs() == sorted(names)


def test_a_run_that_was_never_opened_is_named(where):
    with Ledger(where) as ledger, pytest.raises(BadOption, match="run_id='r'"):
        ledger.account("r")


@pytest.mark.parametrize("moment", ["before the rows", "after the rows", "at the commit"])
def test_a_connection_that_is_killed_in_a_transaction_leaves_whole_sessions(
    where, results, on_sqlite, moment
):
    other = create_engine(where, isolation_level="AUTOCOMMIT")
    armed = []

    def kill(connection):
        if armed:
            armed.clear()
            pid = connection.connection.driver_connection.info.backend_pid
            with other.connect() as console:
                assert console.execute(text(f"SELECT pg_terminate_backend({pid}, 5000)")).scalar()

    with Ledger(where) as ledger:
        hooks = {
            "before the rows": (
                "before_cursor_execute",
                lambda c, _cursor, sql, *_: "INSERT" in sql and kill(c),
            ),
            "after the rows": (
                "after_cursor_execute",
                lambda c, _cursor, sql, *_: "INSERT" in sql and kill(c),
            ),
            "at the commit": ("commit", kill),
        }
        event.listen(ledger._store.engine, *hooks[moment])
        ledger.open_run("r", CASH)
        for result in results[:8]:
            before = rm.told(ledger, "r")
            armed.append(True)
            with pytest.raises(StorageUnavailable, match="check that its server runs"):
                ledger.commit_day("r", result)
            assert not armed
            assert rm.told(ledger, "r") == before
            assert ledger.commit_day("r", result) == result
        ledger.check("r")
        bodies = [line["body"] for line in ledger.journal("r")]
    assert bodies[1:] == [line["body"] for line in on_sqlite["orders"]][1 : len(bodies)]
    other.dispose()


@pytest.mark.proof
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGQUIT], ids=["restart", "power_cut"])
def test_a_ledger_lives_through_the_end_of_its_server(server, where, on_sqlite, how):
    with Ledger(where) as ledger:
        run(ledger, rows=11)
        server.stop(how)
        server.start()
        run(ledger)
        ledger.check("r")
        assert rm.told(ledger, "r") == on_sqlite["orders"]


def test_without_a_server_the_reason_is_one_line(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(postgres, "Path", lambda _: tmp_path)
    with pytest.raises(
        pytest.fail.Exception, match=r"no PostgreSQL server is installed; .*apt-get install postgresql"
    ):
        postgres.program("postgres")
