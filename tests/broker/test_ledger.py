import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from decimal import Decimal

import pandas as pd
import pytest

from quantgraph.broker import Account, Ledger, Mark, Order, execute
from quantgraph.broker.quotes import Quote
from quantgraph.broker.result import SessionResult
from quantgraph.broker.valuation import value_of
from quantgraph.errors import BadOption, LedgerConflict
from quantgraph.market.rulebook import Rulebook

D = Decimal
DAYS = [pd.Timestamp(day).as_unit("us") for day in ("2024-01-02", "2024-01-03", "2024-01-04")]
CODE, OTHER = "600000.SH", "600036.SH"
RULES = Rulebook.mainland()


def order(side, quantity, symbol=CODE, sequence=1):
    return Order(symbol=symbol, side=side, quantity=quantity, sequence=sequence, reason="试一试")


def traded(account, session, orders, price=10.0):
    quotes = {symbol: Quote(open=price) for symbol in (CODE, OTHER)}
    day = execute(orders, account.open_session(), quotes, RULES, session)
    marks = {symbol: Mark(price=D(str(price)) + D("0.1")) for symbol in day.account.positions}
    return SessionResult(
        session=session,
        decider="test",
        account=day.account,
        outcomes=day.outcomes,
        marks=marks,
        value=value_of(day.account, marks),
    )


def commit(ledger, run_id, result):
    return ledger.commit_day(
        run_id, result.session, result.decider, result.account, result.outcomes, result.marks, result.value
    )


def three_days():
    first = traded(
        Account.opening(20_000),
        DAYS[0],
        [order("buy", 1000, sequence=2), order("buy", 5000, OTHER), order("sell", 7, OTHER, 3)],
    )
    second = traded(first.account, DAYS[1], [order("buy", 300, OTHER, 2), order("sell", 600)], price=11.0)
    third = traded(second.account, DAYS[2], [])
    return first, second, third


@pytest.fixture
def ledger(tmp_path):
    with Ledger(tmp_path / "folder" / "ledger.db") as ledger:
        yield ledger


@pytest.fixture
def run(ledger):
    ledger.open_run("a", 20_000, {"decider": "test"})
    for result in three_days():
        commit(ledger, "a", result)
    return ledger


def table(ledger, name):
    with closing(sqlite3.connect(ledger._engine.url.database)) as connection:
        return connection.execute(f"SELECT * FROM {name}").fetchall()


def damage(ledger, statement):
    with closing(sqlite3.connect(ledger._engine.url.database)) as connection, connection:
        assert connection.execute(statement).rowcount == 1


def test_what_is_read_is_what_was_committed(run):
    results = three_days()
    for result in results:
        assert run.day("a", result.session) == result
    assert run.account("a") == results[-1].account
    assert run.last_session("a") == DAYS[2]
    assert run.sessions("a") == DAYS
    assert run.orders("a") == [outcome for result in results for outcome in result.outcomes]
    assert [fill.order.symbol for fill in run.fills("a")] == [CODE, OTHER, CODE]
    run.check("a")


def test_orders_keep_the_order_of_submission_and_their_codes(run):
    outcomes = run.orders("a")
    assert [outcome.order.sequence for outcome in outcomes] == [2, 1, 3, 2, 1]
    codes = [getattr(outcome, "code", None) for outcome in outcomes]
    assert codes == [None, "insufficient_cash", "insufficient_shares", None, None]
    assert outcomes[0].order.reason == "试一试"


def test_values_begin_with_the_initial_cash_on_the_day_before(run):
    values = run.values("a")
    # day 1: 1,000 at 10, fees 5.10, marked 10.10. Day 2: 600 sold and 300 bought at 11, fees 5 + 3.30 + 0.07 and
    # 5 + 0.03, marked 11.10. Day 3: marked 10.10.
    assert values.to_dict() == {
        pd.Timestamp("2024-01-01"): 20_000.0,
        DAYS[0]: 9_994.90 + 10_100.0,
        DAYS[1]: 13_281.50 + 4_440.0 + 3_330.0,
        DAYS[2]: 13_281.50 + 7_070.0,
    }
    assert (values.name, values.index.name, values.dtype) == ("value", "trade_date", "float64")


def test_costs_by_kind(run):
    costs = run.costs("a")
    assert (costs.commission, costs.stamp_duty, costs.transfer_fee) == (D("15.00"), D("3.30"), D("0.20"))


def test_committing_a_session_again_returns_what_was_recorded_and_adds_nothing(run):
    before = {name: table(run, name) for name in ("days", "orders", "holdings")}
    for result in three_days():
        assert commit(run, "a", result) == result
    assert {name: table(run, name) for name in ("days", "orders", "holdings")} == before


@pytest.mark.parametrize("part", ["value", "decider", "outcomes", "marks", "account"])
def test_committing_something_else_for_a_session_is_a_conflict(run, part):
    first = three_days()[0]
    other = {
        "value": first.value + 1,
        "decider": "somebody",
        "outcomes": first.outcomes[:2],
        "marks": {CODE: Mark(price=D("10.1"), carried=True)},
        "account": replace(first.account, cash=D("1.00")),
    }
    with pytest.raises(LedgerConflict, match="other"):
        commit(run, "a", replace(first, **{part: other[part]}))


def test_a_session_before_the_last_one_is_a_conflict(ledger):
    first, _, third = three_days()
    ledger.open_run("a", 20_000)
    commit(ledger, "a", first)
    commit(ledger, "a", replace(third, account=first.account, marks=first.marks))
    with pytest.raises(LedgerConflict, match="before the last"):
        commit(ledger, "a", replace(first, session=DAYS[1]))


def test_a_sequence_used_twice_leaves_nothing_behind(ledger):
    first = three_days()[0]
    ledger.open_run("a", 20_000)
    with pytest.raises(LedgerConflict, match="sequence"):
        commit(ledger, "a", replace(first, outcomes=(first.outcomes[0], first.outcomes[0])))
    assert table(ledger, "days") == []
    assert ledger.account("a") == Account.opening(20_000)


def test_a_run_begins_with_its_cash(ledger):
    ledger.open_run("a", "20000.50")
    assert ledger.account("a") == Account.opening("20000.50")
    assert ledger.last_session("a") is None
    assert ledger.values("a").empty
    ledger.check("a")


def test_opening_a_run_again_does_nothing_and_with_other_terms_is_a_conflict(ledger):
    ledger.open_run("a", 100, {"x": 1, "y": "沪"})
    ledger.open_run("a", D("100.00"), {"y": "沪", "x": 1})
    with pytest.raises(LedgerConflict, match=r"cash 100\.00, not 101\.00"):
        ledger.open_run("a", 101, {"x": 1, "y": "沪"})
    with pytest.raises(LedgerConflict, match="meta"):
        ledger.open_run("a", 100, {"x": 2})


def test_a_run_that_was_never_opened_is_named(ledger):
    for read in (ledger.account, ledger.values, ledger.orders, ledger.last_session, ledger.check):
        with pytest.raises(BadOption, match="run_id='b'"):
            read("b")
    with pytest.raises(BadOption, match="run_id='b'"):
        commit(ledger, "b", three_days()[0])


@pytest.mark.parametrize(
    ("statement", "text"),
    [
        ("UPDATE days SET cash = '9994.91' WHERE session = '2024-01-02'", "2024-01-02: cash is 9994.91"),
        ("UPDATE days SET value = '1.00' WHERE session = '2024-01-03'", "2024-01-03: value is 1.00"),
        (
            "UPDATE holdings SET quantity = 500 WHERE session = '2024-01-03' AND symbol = '600000.SH'",
            "600000.SH is",
        ),
        ("UPDATE orders SET notional = '10000.01' WHERE session = '2024-01-02' AND sequence = 2", "order 2"),
        (
            "UPDATE orders SET commission = '4.99' WHERE session = '2024-01-03' AND sequence = 1",
            "2024-01-03: cash",
        ),
        (
            "UPDATE orders SET quantity = 1100, notional = '12100.00' WHERE session = '2024-01-03' AND sequence = 1",
            "may not be sold",
        ),
        (
            "UPDATE orders SET quantity = 3000, notional = '30000.00' WHERE session = '2024-01-02' AND sequence = 2",
            "leaves cash",
        ),
        ("DELETE FROM orders WHERE session = '2024-01-03' AND sequence = 2", "2024-01-03: cash"),
    ],
)
def test_the_check_finds_what_the_journal_does_not_explain(run, statement, text):
    run.check("a")
    damage(run, statement)
    with pytest.raises(LedgerConflict, match=text):
        run.check("a")


def test_a_ledger_is_there_when_it_is_opened_again(tmp_path):
    for _ in range(2):
        with Ledger(str(tmp_path / "l.db")) as ledger:
            ledger.open_run("a", 20_000)
            for result in three_days():
                commit(ledger, "a", result)
    with Ledger(f"sqlite:///{tmp_path}/l.db") as ledger:
        assert ledger.account("a") == three_days()[-1].account


def test_sqlite_keeps_a_commit_through_a_power_cut(ledger):
    with ledger._engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2
        assert connection.exec_driver_sql("PRAGMA foreign_keys").scalar() == 1


@pytest.mark.parametrize("where", ["sqlite://", "sqlite:///:memory:", "no such thing://"])
def test_what_is_no_durable_place_is_refused(where):
    with pytest.raises(BadOption):
        Ledger(where)


def test_the_schema_can_be_made_on_postgresql():
    from sqlalchemy.dialects import postgresql
    from sqlalchemy.schema import CreateTable

    from quantgraph.broker import _tables

    text = "".join(
        str(CreateTable(table).compile(dialect=postgresql.dialect()))
        for table in _tables.SCHEMA.sorted_tables
    )
    assert text.count("CREATE TABLE") == 4


def _one_run(ledger, run_id, start):
    start.wait()
    ledger.open_run(run_id, 20_000)
    for result in three_days():
        commit(ledger, run_id, result)


def test_fifty_threads_with_runs_of_their_own_lose_nothing(tmp_path):
    start = threading.Barrier(50)
    with Ledger(tmp_path / "l.db") as ledger:
        with ThreadPoolExecutor(50) as pool:
            list(pool.map(lambda place: _one_run(ledger, f"run {place}", start), range(50)))
        _check_runs(ledger, 50)


def test_twelve_ledger_objects_on_one_new_file_lose_nothing(tmp_path):
    path, start = tmp_path / "l.db", threading.Barrier(12)

    def work(place):
        start.wait()
        with Ledger(path) as own:
            _one_run(own, f"run {place}", start)

    with ThreadPoolExecutor(12) as pool:
        list(pool.map(work, range(12)))
    with Ledger(path) as ledger:
        _check_runs(ledger, 12)


def _check_runs(ledger, count):
    expected = three_days()[-1].account
    for place in range(count):
        assert ledger.account(f"run {place}") == expected
        ledger.check(f"run {place}")
    assert len(table(ledger, "days")) == 3 * count
    assert len(table(ledger, "orders")) == 5 * count


def test_eight_threads_committing_the_same_session_record_it_once(ledger):
    ledger.open_run("a", 20_000)
    first, start = three_days()[0], threading.Barrier(8)

    def work(_):
        start.wait()
        return commit(ledger, "a", first)

    with ThreadPoolExecutor(8) as pool:
        assert all(result == first for result in pool.map(work, range(8)))
    assert len(table(ledger, "days")) == 1
