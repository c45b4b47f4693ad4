"""The ledger: what is committed is there, once, and every figure follows from the journal's lines."""

import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from decimal import Decimal

import pandas as pd
import pytest
from one_session import settled_session
from sqlalchemy import event

from quantgraph.broker import Account, Order
from quantgraph.broker.accounts import Mark
from quantgraph.broker.accounts._account import ActionBook
from quantgraph.broker.accounts._quotes import Quote
from quantgraph.broker.ledger import Ledger
from quantgraph.errors import BadFile, BadOption, LedgerConflict, StorageUnavailable
from quantgraph.market import Rulebook
from quantgraph.market.actions import CorporateAction

D = Decimal
DAYS = [pd.Timestamp(day).as_unit("us") for day in ("2024-01-02", "2024-01-03", "2024-01-04")]
CODE, OTHER = "600000.SH", "600036.SH"
RULES = Rulebook.mainland()


def order(side, quantity, symbol=CODE, sequence=1):
    return Order(symbol=symbol, side=side, quantity=quantity, sequence=sequence, reason="试一试")


def traded(account, session, orders, price=10.0, book=None):
    quotes = {symbol: Quote(open=price) for symbol in (CODE, OTHER)}
    return settled_session(
        account, session, orders, quotes, book or ActionBook(), lambda _: Mark(price=D(str(price)) + D("0.1"))
    )


def three_days():
    first = traded(
        Account.opening(20_000),
        DAYS[0],
        [order("buy", 1000, sequence=2), order("buy", 5000, OTHER, 3), order("sell", 7, OTHER)],
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
        ledger.commit_day("a", result)
    return ledger


def table(ledger):
    with closing(sqlite3.connect(ledger._store.engine.url.database)) as connection:
        return connection.execute("SELECT * FROM journal ORDER BY run_id, line").fetchall()


def test_what_is_read_is_what_was_committed(run):
    results = three_days()
    for result in results:
        assert run.day("a", result.session) == result
    assert list(run.results("a")) == list(results)
    assert run.day("a", pd.Timestamp("2024-01-05")) is None
    assert run.account("a") == results[-1].account
    assert run.last_session("a") == DAYS[2]
    assert run.sessions("a") == DAYS
    assert run.order_records("a") == [outcome for result in results for outcome in result.outcomes]
    assert [fill.order.symbol for fill in run.fill_records("a")] == [CODE, CODE, OTHER]
    assert (run.runs(), run.cash("a"), run.meta("a")) == (["a"], D("20000.00"), {"decider": "test"})
    run.check("a")


def test_a_ledger_that_is_opened_again_leads_to_the_same_account(run, tmp_path):
    with Ledger(tmp_path / "folder" / "ledger.db") as again:
        assert again.account("a") == run.account("a") == three_days()[-1].account
        assert list(again.journal("a")) == list(run.journal("a"))
        again.check("a")


def test_orders_stand_as_they_were_executed_with_their_codes(run):
    outcomes = run.order_records("a")
    assert [outcome.order.sequence for outcome in outcomes] == [1, 2, 3, 1, 2]
    codes = [getattr(outcome, "code", None) for outcome in outcomes]
    assert codes == ["insufficient_shares", None, "insufficient_cash", None, None]
    assert outcomes[0].order.reason == "试一试"


def test_every_reader_gives_a_frame_and_the_exact_records_are_beside_it(run):
    assert run.fills("a")["ts_code"].tolist() == [CODE, CODE, OTHER]
    assert run.fills("a")["trade_date"].tolist() == [DAYS[0], DAYS[1], DAYS[1]]
    assert run.orders("a")["code"].tolist() == ["insufficient_shares", "", "insufficient_cash", "", ""]
    assert run.rejections("a")["code"].tolist() == ["insufficient_shares", "insufficient_cash"]
    assert [each.code for each in run.rejection_records("a")] == run.rejections("a")["code"].tolist()
    assert run.events("a").empty
    assert run.fill_records("a")[0].notional == D("10000.00")
    run.open_run("b", 20_000)
    for read in (run.fills, run.orders, run.rejections, run.events, run.days, run.positions):
        assert read("b").empty
        assert list(read("b").dtypes) == list(read("a").dtypes)


# Day 1: 1,000 at 10, fees 5.10, marked 10.10. Day 2: 600 sold and 300 bought at 11, fees 5 + 3.30 + 0.07 and
# 5 + 0.03, marked 11.10. Day 3: marked 10.10.
CASH_1 = 9_994.90
CASH_2 = CASH_1 + 6_600 - 8.37 - 3_300 - 5.03


def test_values_begin_with_the_initial_cash_on_the_day_before(run):
    values = run.values("a")
    assert values.to_dict() == pytest.approx(
        {
            pd.Timestamp("2024-01-01"): 20_000.0,
            DAYS[0]: CASH_1 + 10_100.0,
            DAYS[1]: CASH_2 + 4_440.0 + 3_330.0,
            DAYS[2]: CASH_2 + 7_070.0,
        },
        abs=1e-9,
    )
    assert (values.name, values.index.name, values.dtype) == ("value", "trade_date", "float64")


def test_days_by_hand(run):
    days = run.days("a")
    assert list(days.index) == DAYS
    assert days.index.name == "trade_date"
    assert set(days.dtypes.astype(str)) == {"float64"}
    # 600 of 1,000 shares that cost 10,005.10: 6,003.06, of which 6,591.63 came back
    expected = {
        "cash": [CASH_1, CASH_2, CASH_2],
        "owed": [0, 0, 0],
        "stocks": [10_100, 7_770, 7_070],
        "value": [CASH_1 + 10_100, CASH_2 + 7_770, CASH_2 + 7_070],
        "positions": [1, 2, 2],
        "largest": [10_100, 4_440, 4_040],
        "fills": [1, 2, 0],
        "rejections": [2, 0, 0],
        "traded": [10_000, 9_900, 0],
        "commission": [5, 10, 0],
        "stamp_duty": [0, 3.3, 0],
        "transfer_fee": [0.1, 0.1, 0],
        "regulatory": [0, 0, 0],
        "slippage": [0, 0, 0],
        "dividends": [0, 0, 0],
        "sales": [0, 1, 0],
        "won": [0, 1, 0],
        "realised": [0, 588.57, 0],
    }
    assert list(days.columns) == list(expected)
    for name, column in expected.items():
        assert days[name].tolist() == pytest.approx(column, abs=1e-9), name


def test_holdings_by_hand(run):
    shares, marks = run.holdings("a")
    assert list(shares.columns) == list(marks.columns) == [CODE, OTHER]
    assert shares.to_numpy().tolist() == [[1000, 0], [400, 300], [400, 300]]
    assert marks.fillna(-1).to_numpy().tolist() == [[10.1, -1], [11.1, 11.1], [10.1, 10.1]]
    assert list(shares.index) == list(marks.index) == DAYS


def test_costs_by_kind(run):
    costs = run.costs("a")
    assert (costs.commission, costs.stamp_duty, costs.transfer_fee) == (D("15.00"), D("3.30"), D("0.20"))
    assert costs.total == D("18.50")


def test_profits_are_beyond_the_average_cost_with_the_fees_of_both_sides(ledger):
    """1,000 for 10,005.10 and 1,000 for 12,005.12; half of them sold at a gain, the rest at a loss."""
    first = traded(Account.opening(30_000), DAYS[0], [order("buy", 1000)])
    second = traded(first.account, DAYS[1], [order("buy", 1000)], price=12.0)
    third = traded(second.account, DAYS[2], [order("sell", 1000)], price=11.1)
    fourth = traded(
        third.account, DAYS[2] + pd.Timedelta("1D"), [order("sell", 600), order("sell", 400, sequence=2)], 9.9
    )
    ledger.open_run("a", 30_000)
    for result in (first, second, third, fourth):
        ledger.commit_day("a", result)
    days = ledger.days("a")
    # 11,100 - 5 - 5.55 - 0.11 against half of 22,010.22
    assert days["realised"].tolist()[:3] == pytest.approx([0, 0, 11_089.34 - 11_005.11])
    # 5,940 - 5 - 2.97 - 0.06 against 6,603.07 (three fifths of it, half up), 3,960 - 5 - 1.98 - 0.04 against 4,402.04
    assert days["realised"].iloc[3] == pytest.approx(5_931.97 - 6_603.07 + 3_952.98 - 4_402.04)
    assert days[["sales", "won"]].to_numpy().tolist() == [[0, 0], [0, 0], [1, 1], [2, 0]]
    assert float(ledger.account("a").cash) == pytest.approx(30_000 + days["realised"].sum())


def test_an_empty_run_has_empty_tables(ledger):
    ledger.open_run("a", "20000.50")
    assert ledger.account("a") == Account.opening("20000.50")
    assert ledger.last_session("a") is None
    assert ledger.values("a").empty
    assert ledger.days("a").empty
    assert [frame.shape for frame in ledger.holdings("a")] == [(0, 0), (0, 0)]
    assert ledger.costs("a").total == 0
    assert list(ledger.results("a")) == []
    ledger.check("a")


def test_committing_a_session_again_returns_what_was_recorded_and_adds_nothing(run):
    before = table(run)
    for result in three_days():
        assert run.commit_day("a", result) == result
    assert table(run) == before


def test_sessions_in_a_row_are_recorded_together_or_not_at_all(ledger, run):
    days = three_days()
    ledger.open_run("b", 20_000, {"decider": "test"})
    commits = []
    event.listen(ledger._store.engine, "commit", lambda _connection: commits.append(1))
    assert ledger.commit_days("b", days) == list(days)
    assert len(commits) == 1
    assert [*ledger.results("b")] == [*ledger.results("a")]
    bodies = [[row[2:5] for row in table(ledger) if row[0] == name] for name in "ab"]
    assert bodies[0] == bodies[1]
    ledger.check("b")
    ledger.open_run("c", 20_000)
    with pytest.raises(LedgerConflict, match="2024-01-04"):
        ledger.commit_days("c", [days[0], days[1], replace(days[2], value=D(1))])
    assert ledger.sessions("c") == []


def test_sessions_of_which_some_are_recorded_are_completed(ledger):
    days = three_days()
    ledger.open_run("a", 20_000)
    ledger.commit_day("a", days[0])
    assert ledger.commit_days("a", days) == list(days)
    assert ledger.commit_days("a", days) == list(days)
    assert ledger.sessions("a") == DAYS
    with pytest.raises(LedgerConflict, match="2024-01-02: another day"):
        ledger.commit_days("a", [replace(days[0], value=D(1)), *days[1:]])


def test_sessions_that_another_process_began_to_record_are_completed(ledger):
    """It records the first between the reading of the tip and the writing."""
    days = three_days()
    ledger.open_run("a", 20_000)
    with Ledger(ledger.where) as other:
        append, first = ledger._store.append, []

        def late(*given):
            if not first:
                first.append(other.commit_day("a", days[0]))
            return append(*given)

        ledger._store.append = late
        assert ledger.commit_days("a", days) == list(days)
        assert [*other.results("a")] == list(days)
    ledger.check("a")


OTHERS = {
    "value": lambda first: first.value + 1,
    "decider": lambda first: "somebody",
    "outcomes": lambda first: first.outcomes[:2],
    "marks": lambda first: {CODE: Mark(price=D("10.1"), carried=True)},
    "account": lambda first: replace(first.account, cash=D("1.00")),
}


@pytest.mark.parametrize("part", OTHERS)
def test_committing_something_else_for_a_session_is_a_conflict(run, part):
    first, before = three_days()[0], table(run)
    with pytest.raises(LedgerConflict, match="2024-01-02: another"):
        run.commit_day("a", replace(first, **{part: OTHERS[part](first)}))
    assert table(run) == before


def test_a_session_before_the_last_one_is_a_conflict(ledger):
    first, _, _ = three_days()
    ledger.open_run("a", 20_000)
    ledger.commit_day("a", first)
    ledger.commit_day("a", traded(first.account, DAYS[2], []))
    with pytest.raises(LedgerConflict, match="before the last"):
        ledger.commit_day("a", traded(first.account, DAYS[1], []))


def test_a_session_that_does_not_follow_from_the_one_before_is_a_conflict(ledger):
    _, second, _ = three_days()
    ledger.open_run("a", 20_000)
    with pytest.raises(LedgerConflict, match="2024-01-03"):
        ledger.commit_day("a", second)
    assert ledger.sessions("a") == []


def test_opening_a_run_again_does_nothing_and_with_other_terms_is_a_conflict(ledger):
    ledger.open_run("a", 100, {"x": 1, "y": "沪"})
    ledger.open_run("a", D("100.00"), {"y": "沪", "x": 1})
    with pytest.raises(LedgerConflict, match=r'with amount "100\.00" instead of "101\.00";'):
        ledger.open_run("a", 101, {"x": 1, "y": "沪"})
    with pytest.raises(LedgerConflict, match=r"with x 1 instead of 2;"):
        ledger.open_run("a", 100, {"x": 2, "y": "沪"})
    with pytest.raises(LedgerConflict, match=r'with y "沪" instead of missing, z missing instead of null;'):
        ledger.open_run("a", 100, {"x": 1, "z": None})
    assert ledger.runs() == ["a"]


@pytest.mark.parametrize("run_id", ["", "a" * 201])
def test_a_name_that_is_empty_or_too_long_is_refused(ledger, run_id):
    with pytest.raises(BadOption, match=f"has {len(run_id)} characters; must have 1 to 200"):
        ledger.open_run(run_id, 100)
    ledger.open_run("a" * 200, 100)
    assert ledger.runs() == ["a" * 200]


def test_a_run_that_was_never_opened_is_named(ledger):
    reads = (ledger.account, ledger.values, ledger.orders, ledger.last_session, ledger.check, ledger.days)
    for read in (*reads, ledger.meta, ledger.cash, ledger.holdings, ledger.costs):
        with pytest.raises(BadOption, match="run_id='b'"):
            read("b")
    with pytest.raises(BadOption, match="run_id='b'"):
        ledger.commit_day("b", three_days()[0])
    with pytest.raises(BadOption, match="run_id='b'"):
        next(ledger.journal("b"))


def test_runs_of_one_ledger_do_not_touch(ledger):
    for name in ("b", "a"):
        ledger.open_run(name, 20_000)
    ledger.commit_day("b", three_days()[0])
    assert (ledger.runs(), ledger.sessions("a"), ledger.sessions("b")) == (["a", "b"], [], DAYS[:1])


def test_dividends_and_splits_are_in_the_days_and_read_back(ledger):
    dividend = CorporateAction(symbol=CODE, ex=DAYS[1], cash=D("0.5"), pay=DAYS[2])
    split = CorporateAction(symbol=CODE, ex=DAYS[1], ratio=D("1.3"))
    book = ActionBook(entitled={DAYS[1]: (dividend,)}, due={DAYS[1]: (split,)})
    first = traded(Account.opening(20_000), DAYS[0], [order("buy", 1000)])
    second = traded(first.account, DAYS[1], [order("sell", 1300)], book=book)
    third = traded(second.account, DAYS[2], [])
    ledger.open_run("a", 20_000)
    for result in (first, second, third):
        ledger.commit_day("a", result)
    assert list(ledger.results("a")) == [first, second, third]
    kinds = [line["kind"] for line in ledger.journal("a")]
    assert kinds == [
        *("run", "deposit", "fill", "marks", "day"),
        *("dividend", "split", "fill", "marks", "day"),
        *("payment", "marks", "day"),
    ]
    days = ledger.days("a")
    assert days["dividends"].tolist() == [0, 500, 0]
    assert days["owed"].tolist() == [0, 500, 0]
    # 1,300 at 10 without 5 + 6.50 + 0.13 for what had cost 10,005.10; dividends are no profit of a sale
    assert days["realised"].iloc[1] == pytest.approx(12_988.37 - 10_005.10)


def test_sqlite_keeps_a_commit_through_a_power_cut(ledger):
    with ledger._store.engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2


@pytest.mark.parametrize(
    "where", ["sqlite://", "sqlite:///:memory:", "no such thing://", "postgresql://host:port/name"]
)
def test_what_is_no_durable_place_is_refused(where):
    with pytest.raises(BadOption):
        Ledger(where)


@pytest.mark.parametrize(
    ("where", "reason"),
    [
        ("{folder}/text.db", "file is not a database"),
        ("{folder}/text.db/below.db", "exists|Not a directory"),
        ("oracle9://me:secret@127.0.0.1/name", "oracle9"),
        ("sqlite+nodriver:///{folder}/l.db", "nodriver"),
    ],
)
def test_what_is_no_database_is_told_in_one_line(tmp_path, where, reason):
    (tmp_path / "text.db").write_text("this is a text and no database" * 50)
    with pytest.raises(BadFile, match=reason) as caught:
        Ledger(where.format(folder=tmp_path))
    assert "cannot be used as a run's database" in caught.value.line
    assert "it must be a SQLite file, or the URL of a database" in caught.value.line
    assert "\n" not in caught.value.line
    assert "secret" not in caught.value.line


@pytest.mark.parametrize(
    ("where", "reason"),
    [
        ("{folder}", "unable to open database file; check that its disk has room"),
        ("sqlite:///{folder}/no/where.db", "unable to open database file; check that its disk has room"),
        ("postgresql+psycopg://me:secret@127.0.0.1:9/name", "refused.*; check that its server runs"),
    ],
)
def test_a_place_that_cannot_be_reached_is_told_in_one_line(tmp_path, where, reason):
    with pytest.raises(StorageUnavailable, match=reason) as caught:
        Ledger(where.format(folder=tmp_path))
    assert "\n" not in caught.value.line
    assert "secret" not in caught.value.line


def test_a_database_that_breaks_later_is_told_when_it_is_used(tmp_path):
    with Ledger(tmp_path / "l.db") as ledger:
        ledger.open_run("a", 100)
        with closing(sqlite3.connect(tmp_path / "l.db")) as connection:
            connection.execute("DROP TABLE journal")
        for use in (ledger.runs, lambda: ledger.account("a"), lambda: ledger.open_run("b", 100)):
            with pytest.raises(BadFile, match="no such table: journal"):
                use()


def test_a_ledger_is_there_when_it_is_opened_again(tmp_path):
    for _ in range(2):
        with Ledger(str(tmp_path / "l.db")) as ledger:
            ledger.open_run("a", 20_000)
            for result in three_days():
                ledger.commit_day("a", result)
    with Ledger(f"sqlite:///{tmp_path}/l.db") as ledger:
        assert ledger.account("a") == three_days()[-1].account


def test_a_second_ledger_object_sees_what_the_first_one_commits(ledger, tmp_path):
    first, second, third = three_days()
    ledger.open_run("a", 20_000)
    with Ledger(tmp_path / "folder" / "ledger.db") as other:
        assert other.account("a") == Account.opening(20_000)
        ledger.commit_day("a", first)
        assert other.account("a") == first.account
        other.commit_day("a", second)
        ledger.commit_day("a", third)
        assert other.sessions("a") == ledger.sessions("a") == DAYS
        assert other.commit_day("a", third) == third
        other.check("a")


def test_the_schema_can_be_made_on_postgresql():
    from sqlalchemy.dialects import postgresql
    from sqlalchemy.schema import CreateTable

    from quantgraph.broker.ledger import _journal as journal_store

    made = [
        str(CreateTable(each).compile(dialect=postgresql.dialect()))
        for each in journal_store.SCHEMA.sorted_tables
    ]
    assert [text.split()[2] for text in made] == ["journal", "windows"]


def _one_run(ledger, run_id, start):
    start.wait()
    ledger.open_run(run_id, 20_000)
    for result in three_days():
        ledger.commit_day(run_id, result)


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
    assert len(ledger.runs()) == count
    for place in range(count):
        assert ledger.account(f"run {place}") == expected
        ledger.check(f"run {place}")
    # run and deposit; fills and rejections, marks and day of three sessions
    assert len(table(ledger)) == (2 + 5 + 6) * count


def test_eight_threads_committing_the_same_session_record_it_once(ledger):
    ledger.open_run("a", 20_000)
    first, start = three_days()[0], threading.Barrier(8)

    def work(_):
        start.wait()
        return ledger.commit_day("a", first)

    with ThreadPoolExecutor(8) as pool:
        assert all(result == first for result in pool.map(work, range(8)))
    assert len(table(ledger)) == 2 + 3 + 2
