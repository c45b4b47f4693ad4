"""Lines of the journal: they say everything, in one order, and nothing in them can be changed unseen."""

import json
import sqlite3
from contextlib import closing
from dataclasses import replace
from decimal import Decimal

import pandas as pd
import pytest
from one_session import settled_session

from quantgraph.broker import Account, Fill, Order, Rejection
from quantgraph.broker.accounts import Mark, Payment, Position
from quantgraph.broker.accounts._account import ActionBook
from quantgraph.broker.accounts._quotes import Quote
from quantgraph.broker.accounts._results import SessionResult
from quantgraph.broker.ledger import Ledger
from quantgraph.broker.ledger._journal import chain_hash, day_lines, outcome_of
from quantgraph.errors import LedgerConflict
from quantgraph.market import Rulebook
from quantgraph.market.actions import CorporateAction

D = Decimal
RULES = Rulebook.mainland()
DAYS = [pd.Timestamp(day).as_unit("us") for day in ("2024-01-02", "2024-01-03", "2024-01-04", "2024-01-05")]
CODE, OTHER, GONE = "600000.SH", "600036.SH", "600068.SH"
DIVIDEND = CorporateAction(symbol=CODE, ex=DAYS[1], cash=D("0.5"), pay=DAYS[2])
SPLIT = CorporateAction(symbol=OTHER, ex=DAYS[1], ratio=D("1.3"))
DELISTED = CorporateAction(symbol=GONE, ex=DAYS[2], delisting=D("1.5"))
BOOK = ActionBook(entitled={DAYS[1]: (DIVIDEND,)}, due={DAYS[1]: (SPLIT,), DAYS[2]: (DELISTED,)})


def order(side, quantity, symbol=CODE, sequence=1, **more):
    return Order(symbol=symbol, side=side, quantity=quantity, sequence=sequence, **more)


def traded(account, session, orders):
    quotes = {symbol: Quote(open=10.0, high=11.0, low=9.0, close=10.5) for symbol in (CODE, OTHER, GONE)}
    return settled_session(
        account, session, orders, quotes, BOOK, lambda symbol: Mark(price=D("10.5"), carried=symbol == OTHER)
    )


def four_days():
    """Every kind of line."""
    buys = [order("buy", 1000, symbol, place) for place, symbol in enumerate((CODE, OTHER, GONE), 1)]
    results, account = [], Account.opening(40_000)
    script = ([*buys, order("buy", 5, sequence=4)], [order("sell", 400)], [], [order("sell", 600)])
    for session, orders in zip(DAYS, script):
        results.append(traded(account, session, orders))
        account = results[-1].account
    return results


@pytest.fixture
def ledger(tmp_path):
    with Ledger(tmp_path / "l.db") as ledger:
        ledger.open_run("a", 40_000, {"why": "试"})
        for result in four_days():
            ledger.commit_day("a", result)
        yield ledger


def rows_of(ledger):
    with closing(sqlite3.connect(ledger._store.engine.url.database)) as connection:
        return connection.execute(
            "SELECT line, session, kind, body, hash FROM journal ORDER BY line"
        ).fetchall()


def store_rows(ledger, rows):
    with closing(sqlite3.connect(ledger._store.engine.url.database)) as connection, connection:
        connection.execute("DELETE FROM journal")
        connection.executemany("INSERT INTO journal VALUES ('a', ?, ?, ?, ?, ?)", rows)


def rechained(rows):
    """The rows numbered and hashed anew, as a forger would who knows how."""
    before, out = "a", []  # the name of the run
    for line, (_, session, kind, body, _) in enumerate(rows):
        before = chain_hash(before, line, session, kind, body)
        out.append((line, session, kind, body, before))
    return out


# What the lines say ------------------------------------------------------------------------------


def test_the_lines_of_a_run_stand_in_one_order(ledger):
    assert [line["kind"] for line in ledger.journal("a")] == [
        *("run", "deposit"),
        *("fill", "fill", "fill", "rejection", "marks", "day"),
        *("dividend", "split", "fill", "marks", "day"),
        *("payment", "delisting", "marks", "day"),
        *("fill", "marks", "day"),
    ]
    lines = list(ledger.journal("a"))
    assert [line["line"] for line in lines] == list(range(20))
    assert (lines[0]["body"], lines[1]["body"]) == ({"why": "试"}, {"amount": "40000.00"})
    assert ledger.meta("a") == {"why": "试"}


def test_a_fill_says_its_order_and_every_amount(ledger):
    (line,) = [line for line in ledger.journal("a") if line["line"] == 10]
    assert line["session"] == "2024-01-03"
    assert line["body"] == {
        "sequence": 1,
        "symbol": CODE,
        "type": "open",
        "wish": "sell",
        "quantity": "400",
        "reason": "",
        "side": "sell",
        "filled": "400",
        "price": "10",
        "notional": "4000.00",
        "commission": "5.00",
        "stamp_duty": "2.00",
        "transfer_fee": "0.04",
        "regulatory": "0.00",
        "slippage": "0.00",
        "t_plus": 1,
    }


def test_cash_is_the_deposit_and_what_the_lines_bring_and_take(ledger):
    """The account once more, from the parsed bodies alone."""
    cash = D(0)
    for line in ledger.journal("a"):
        body, kind = line["body"], line["kind"]
        if kind == "deposit" or kind in ("payment", "delisting"):
            cash += D(body["amount"])
        if kind == "fill":
            sign = 1 if body["side"] == "sell" else -1
            cash += sign * D(body["notional"])
            cash -= sum(D(body[name]) for name in ("commission", "stamp_duty", "transfer_fee", "slippage"))
        if kind == "day":
            assert D(body["cash"]) == cash
    assert ledger.account("a").cash == cash


def test_the_hashes_are_a_chain_over_all_that_a_line_holds(ledger):
    assert rechained(rows_of(ledger)) == rows_of(ledger)
    assert len({row[4] for row in rows_of(ledger)}) == 20


SIZES = [
    {"side": "buy", "quantity": 100},
    {"side": "sell", "quantity": D("0.000000001")},
    {"side": "buy", "quantity": D("1E+3"), "reason": 'a "quoted" reason, 中文\n'},
    {"target_quantity": 0},
    {"target_weight": D("0.050")},
    {"target_value": D("-12.345")},
    {"target_weight": D("1E-7"), "type": "close"},
    {"side": "buy", "quantity": 100, "type": "limit", "limit_price": D("10.50")},
    {"target_value": D(0), "type": "limit", "limit_price": D("0.0001")},
]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", ["rejection", "fill", "rest"])
def test_every_order_is_read_as_it_was_written(size, kind):
    made = Order(symbol="AAPL", sequence=7, **size)
    refused = Rejection(order=made, session=DAYS[0], code="volume_cap", message='why "not" 为什么')
    fill = Fill(
        order=made,
        session=DAYS[0],
        side="sell",
        price=D("10.1234"),
        quantity=D("2.5"),
        notional=D("25.31"),
        commission=D("1.00"),
        stamp_duty=D("0.10"),
        transfer_fee=D("0.02"),
        regulatory=D("0.03"),
        slippage=D("0.04"),
        t_plus=0,
        rest=refused if kind == "rest" else None,
    )
    outcome = refused if kind == "rejection" else fill
    nothing = {"decider": "d", "account": Account.opening(0), "marks": {}, "value": D("0.00")}
    held = {"AAPL": Position(quantity=D(3), sellable=D(3), cost=D("1.00"), entered=DAYS[0])}
    result = SessionResult(session=DAYS[0], outcomes=(outcome,), **nothing)
    (name, body), *_ = day_lines(Account(cash=D("0.00"), positions=held), result).lines
    assert "\n" not in body
    assert (name, outcome_of(name, json.loads(body), DAYS[0])) == (kind.replace("rest", "fill"), outcome)


# Nothing is changed unseen -----------------------------------------------------------------------


def is_found(ledger, damaged):
    store_rows(ledger, damaged)
    try:
        ledger.check("a")
    except LedgerConflict:
        return True
    return False


def test_a_line_that_is_changed_removed_put_in_or_moved_is_found(ledger):
    ledger.check("a")
    rows = rows_of(ledger)
    damages = {}
    for place, (line, session, kind, body, hashed) in enumerate(rows):
        others = {"body": body[:-1] + " }", "empty": "{ }"}
        damages |= {
            f"{what} {place}": [*rows[:place], (line, session, kind, other, hashed), *rows[place + 1 :]]
            for what, other in others.items()
        }
        damages[f"hash {place}"] = [*rows[:place], (line, session, kind, body, "0" * 32), *rows[place + 1 :]]
        damages[f"session {place}"] = [
            *rows[:place],
            (line, "2024-01-09", kind, body, hashed),
            *rows[place + 1 :],
        ]
        damages[f"kind {place}"] = [*rows[:place], (line, session, "other", body, hashed), *rows[place + 1 :]]
        if place < len(rows) - 1:
            damages[f"gone {place}"] = [*rows[:place], *rows[place + 1 :]]
            damages[f"gone and numbered {place}"] = [
                (n, *row[1:]) for n, row in enumerate(damages[f"gone {place}"])
            ]
            if kind not in {"day", "deposit"}:
                damages[f"cut after {place}"] = rows[: place + 1]
            swapped = [*rows[:place], rows[place + 1], rows[place], *rows[place + 2 :]]
            damages[f"swapped {place}"] = [(n, *row[1:]) for n, row in enumerate(swapped)]
        put_in = [*rows[: place + 1], rows[place], *rows[place + 1 :]]
        damages[f"twice {place}"] = [(n, *row[1:]) for n, row in enumerate(put_in)]
    assert len(damages) > 150
    assert [what for what, damaged in damages.items() if not is_found(ledger, damaged)] == []
    store_rows(ledger, rows)
    ledger.check("a")


def forged(kind, nth, **changes):
    """The nth line of a kind with other values, and all hashes made anew."""

    def change(rows):
        place = [place for place, row in enumerate(rows) if row[2] == kind][nth]
        line, session, _, body, hashed = rows[place]
        new = json.dumps(json.loads(body) | changes, ensure_ascii=False, separators=(",", ":"))
        return [*rows[:place], (line, session, kind, new, hashed), *rows[place + 1 :]]

    return change


def without(kind, nth):
    def change(rows):
        place = [place for place, row in enumerate(rows) if row[2] == kind][nth]
        return [*rows[:place], *rows[place + 1 :]]

    return change


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (forged("day", 0, cash="9984.71"), "2024-01-02: cash is 9984.71, its lines lead to 9984.70"),
        (forged("day", 1, value="1.00"), "2024-01-03: value is 1.00, cash and marks come to"),
        (forged("day", 1, owed="0.00"), "2024-01-03: owed is 0.00, its lines lead to 500.00"),
        (forged("day", 1, realised="1.00"), "2024-01-03: realised is 1.00"),
        (forged("day", 1, won=1), "2024-01-03: won is 1, its lines lead to 0"),
        (forged("day", 0, rejections=0), "rejections is 0, its lines lead to 1"),
        (forged("deposit", 0, amount="40001.00"), "2024-01-02: value is"),
        (forged("fill", 0, notional="10000.01"), "order 1: 1000 at 10 is not 10000.01"),
        (forged("fill", 0, commission="4.99"), "2024-01-02: value is"),
        (forged("fill", 0, filled="5000", notional="50000.00"), "order 1: leaves cash at"),
        (forged("fill", 3, filled="1100", notional="11000.00"), "sells 1100 600000.SH that may not be sold"),
        (forged("fill", 3, symbol="600519.SH"), "2024-01-03: the lines cannot be replayed"),
        (forged("fill", 3, price="ten"), "the lines cannot be replayed"),
        (forged("marks", 0, prices={CODE: 10.5}), "marks are of"),
        (forged("marks", 0, prices={CODE: 10.5, OTHER: 10.5, GONE: 10.6}), "2024-01-02: value is"),
        (forged("dividend", 0, amount="500.01"), "brings 500.01 for 1000 shares, 1000 are held"),
        (forged("dividend", 0, quantity="2000", amount="1000.00"), "brings 1000.00 for 2000 shares"),
        (forged("split", 0, after="1301"), "600036.SH splits 1000 into 1301, 1000 are held"),
        (forged("split", 0, before="2000"), "600036.SH splits 2000 into 1300"),
        (forged("payment", 0, amount="600.00"), "2024-01-04: the lines cannot be replayed"),
        (forged("delisting", 0, amount="1.00"), "600068.SH brings 1.00 for 1000 shares"),
        (without("fill", 0), "2024-01-02: marks are of"),
        (without("rejection", 0), "2024-01-02: rejections is 1, its lines lead to 0"),
        (without("dividend", 0), "2024-01-03: value is"),
        (without("split", 0), "2024-01-03: value is"),
        (without("payment", 0), "2024-01-04: cash is"),
        (without("day", 3), "ends with a marks at line 18: lines after it are missing"),
    ],
)
def test_a_forger_who_makes_the_hashes_anew_is_caught_by_the_arithmetic(ledger, change, text):
    store_rows(ledger, rechained(change(rows_of(ledger))))
    with pytest.raises(LedgerConflict, match="run 'a'") as caught:
        ledger.check("a")
    assert text in caught.value.message


# Nothing is recorded that does not follow --------------------------------------------------------


def _with_fill(result, **changes):
    fill = next(outcome for outcome in result.outcomes if isinstance(outcome, Fill))
    return replace(result, outcomes=tuple(replace(o, **changes) if o is fill else o for o in result.outcomes))


def _with_position(result, **changes):
    positions = dict(result.account.positions)
    positions[CODE] = replace(positions[CODE], **changes)
    return replace(result, account=replace(result.account, positions=positions))


UNPAID = Payment(symbol=CODE, session=DAYS[0], amount=D("5.00"))


@pytest.mark.parametrize(
    "change",
    [
        lambda first: replace(first, value=first.value + D("0.01")),
        lambda first: replace(first, account=replace(first.account, cash=first.account.cash + D("0.01"))),
        lambda first: _with_position(first, quantity=1100),
        lambda first: _with_position(first, cost=D("1.00")),
        lambda first: _with_position(first, entered=DAYS[1]),
        lambda first: _with_fill(first, notional=D("10000.01")),
        lambda first: _with_fill(first, quantity=900, notional=D("9000.00")),
        lambda first: _with_fill(first, side="sell"),
        lambda first: replace(first, marks={}),
        lambda first: replace(first, marks={**first.marks, "600519.SH": Mark(price=D(1))}),
        lambda first: replace(first, outcomes=()),
        lambda first: replace(first, outcomes=(*first.outcomes, first.outcomes[0])),
        lambda first: replace(first, outcomes=(*first.outcomes, first.outcomes[3])),
        lambda first: replace(first, events=(UNPAID,)),
    ],
    ids=[
        *("value", "cash", "quantity", "cost", "entered", "notional", "fewer", "side"),
        *("no marks", "more marks", "no outcomes", "a fill twice", "a rejection twice", "not owed"),
    ],
)
def test_a_result_that_does_not_follow_is_refused_and_leaves_nothing_behind(tmp_path, change):
    first = four_days()[0]
    with Ledger(tmp_path / "l.db") as ledger:
        ledger.open_run("a", 40_000)
        with pytest.raises(LedgerConflict, match="2024-01-02"):
            ledger.commit_day("a", change(first))
        assert ledger.sessions("a") == []
        assert len(rows_of(ledger)) == 2
        ledger.commit_day("a", first)
        with pytest.raises(LedgerConflict, match="2024-01-02"):
            ledger.commit_day("a", change(first))
        ledger.check("a")


@pytest.mark.parametrize("kind", ["fill", "marks", "day", "deposit"])
@pytest.mark.parametrize("body", ["[]", "7", '{"amount":"much"}', "{"])
def test_a_forged_line_of_another_shape_is_a_conflict(ledger, kind, body):
    rows = rows_of(ledger)
    place = [row[2] for row in rows].index(kind)
    line, session, _, _, hashed = rows[place]
    store_rows(ledger, rechained([*rows[:place], (line, session, kind, body, hashed), *rows[place + 1 :]]))
    with Ledger(ledger._store.engine.url.database) as again, pytest.raises(LedgerConflict):
        again.check("a")


def test_a_whole_end_that_was_cut_off_leaves_a_sound_ledger(ledger):
    rows = rows_of(ledger)
    assert ledger.check("a") == len(rows)
    last = max(n for n, row in enumerate(rows[:-1]) if row[2] == "day")
    store_rows(ledger, rows[: last + 1])
    assert ledger.check("a") == last + 1


def test_the_lines_of_one_run_are_not_those_of_another(ledger):
    """The chain begins with the run's name: copied under another name it breaks at its first line."""
    with closing(sqlite3.connect(ledger._store.engine.url.database)) as connection, connection:
        connection.execute("insert into journal select 'b', line, session, kind, body, hash from journal")
    ledger.check("a")
    with pytest.raises(LedgerConflict, match="chain breaks at line 0"):
        ledger.check("b")
