"""Dividends, splits and delistings, by hand: what the account holds, what the journal says, what it is worth."""

from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

from quantgraph.broker import Account, Decider, Market, Order, simulate
from quantgraph.broker.accounts import (
    Delisting,
    Dividend,
    Mark,
    Payment,
    Position,
    Receivable,
    Split,
    last_closes,
    mark,
    value_of,
)
from quantgraph.broker.accounts._account import (
    ActionBook,
    action_book,
    apply_corporate_actions,
    price_after_actions,
)
from quantgraph.broker.ledger import Ledger
from quantgraph.broker.session import run_sessions
from quantgraph.market import Moment, Rulebook
from quantgraph.market.actions import CorporateAction
from quantgraph.state import DataState

D = Decimal
NAN = np.nan
DAYS = pd.DatetimeIndex(pd.bdate_range("2024-01-08", periods=6)).as_unit("us")
CODE = "600000.SH"


class Script(Decider):
    """Orders by the number of the session."""

    name = "script"

    def __init__(self, orders):
        self.orders = orders

    def decide(self, context):
        session = context.session
        return self.orders.get(DAYS.get_loc(session), [])


def market(opens, *, closes=None, rules=None, symbol=CODE, **cells):
    """One symbol; ``cells`` are fields as ``{row: value}``."""
    frames = {"open": opens, "close": closes or opens}
    panel = {name: pd.DataFrame({symbol: values}, DAYS, dtype="float64") for name, values in frames.items()}
    for name, values in cells.items():
        frame = pd.DataFrame(NAN, DAYS, [symbol])
        for row, value in values.items():
            frame.iat[row, 0] = value
        panel[name] = frame
    store = DataState()
    ref = store.update("ohlcv", panel)
    return Market(store=store, data_ref=ref, rules=rules or Rulebook.zero_cost())


def order(side, quantity, symbol=CODE, sequence=1):
    return Order(symbol=symbol, side=side, quantity=quantity, sequence=sequence)


def run(where, orders, cash=10_000):
    """Results of the script, order by order."""
    return list(simulate(where, DAYS, Script(orders), account=Account.opening(cash)))


@pytest.fixture
def recorded(tmp_path):
    """Record a run and read it again from a ledger opened anew."""

    def record(where, orders, cash=10_000):
        with Ledger(tmp_path / "l.db") as ledger:
            run_sessions(where, DAYS, Script(orders), cash=cash, ledger=ledger, run_id="r")
        with Ledger(tmp_path / "l.db") as ledger:
            ledger.check("r")
            return (
                list(ledger.results("r")),
                ledger.account("r"),
                [line["kind"] for line in ledger.journal("r")],
            )

    return record


def held(quantity=1000, symbol=CODE, cash="0.00", owed=()):
    position = Position(quantity=quantity, sellable=0, cost=D("8000.00"), entered=DAYS[0])
    return Account(cash=D(cash), positions={symbol: position}, receivables=owed)


def book_of(**more):
    return {"symbol": CODE, "ex": DAYS[2], **more}


BUY = {1: [order("buy", 1000)]}


# Dividends ---------------------------------------------------------------------------------------


def test_a_dividend_without_dates_is_paid_on_its_ex_date_to_who_held_before(recorded):
    where = market([10.0, 10.0, 9.5, 9.5, 9.5, 9.5], dividend={2: 0.5})
    results, account, kinds = recorded(where, BUY)
    assert [result.value for result in results] == [D("10000.00")] * 6
    assert results[2].events == (
        Dividend(
            symbol=CODE, session=DAYS[2], quantity=1000, per_share=D("0.5"), amount=D("500.00"), pay=DAYS[2]
        ),
    )
    assert account.cash == D("500.00")
    assert kinds.count("dividend") == 1


def test_who_buys_on_the_ex_date_or_sells_before_gets_nothing():
    where = market([10.0, 10.0, 9.5, 9.5, 9.5, 9.5], dividend={2: 0.5})
    late = run(where, {2: [order("buy", 1000)]})
    assert [result.events for result in late] == [()] * 6
    early = run(where, {0: [order("buy", 1000)], 1: [order("sell", 1000)]})
    assert [result.events for result in early] == [()] * 6


def test_who_sells_at_the_open_of_the_ex_date_gets_it(recorded):
    where = market([10.0, 10.0, 9.5, 9.5, 9.5, 9.5], dividend={2: 0.5})
    _, account, _ = recorded(where, BUY | {2: [order("sell", 1000)]})
    assert (account.cash, dict(account.positions)) == (D("10000.00"), {})


def test_between_ex_and_pay_date_it_is_owed_and_the_value_does_not_change(recorded):
    # Registered on the second day, ex on the third, paid on the Saturday before the sixth.
    where = market(
        [10.0, 10.0, 9.5, 9.5, 9.5, 9.5],
        dividend={2: 0.5},
        action_record={2: 20240109.0},
        action_pay={2: 20240113.0},
    )
    results, account, kinds = recorded(where, BUY | {3: [order("sell", 1000)]})
    assert [result.value for result in results] == [D("10000.00")] * 6
    assert [result.account.owed for result in results] == [*[0] * 2, *[D("500.00")] * 3, 0]
    assert [result.account.cash for result in results][1:] == [
        D("0.00"),
        D("0.00"),
        D("9500.00"),
        D("9500.00"),
        D("10000.00"),
    ]
    assert results[5].events == (Payment(symbol=CODE, session=DAYS[5], amount=D("500.00")),)
    assert account == Account.opening(10_000)
    assert (kinds.count("dividend"), kinds.count("payment")) == (1, 1)


def test_what_is_owed_cannot_be_spent():
    where = market([10.0, 10.0, 9.5, 9.5, 9.5, 9.5], dividend={2: 1.0}, action_pay={2: 20240115.0})
    results = run(where, BUY | {2: [order("buy", 100)], 5: [order("buy", 100)]})
    assert results[2].outcomes[0].code == "insufficient_cash"
    assert results[5].fills[0].quantity == 100


def test_an_amount_is_rounded_half_up_once_for_all_shares():
    action = CorporateAction(**book_of(cash=D("0.00125")))
    account, (event,) = apply_corporate_actions(
        held(300), DAYS[2], ActionBook(entitled={DAYS[2]: (action,)}), Rulebook.mainland()
    )
    assert (event.amount, account.cash) == (D("0.38"), D("0.38"))


def test_a_dividend_of_less_than_half_a_cent_is_nothing():
    action = CorporateAction(**book_of(cash=D("0.00001")))
    account, events = apply_corporate_actions(
        held(100), DAYS[2], ActionBook(entitled={DAYS[2]: (action,)}), Rulebook.mainland()
    )
    assert (events, account.cash) == ((), D("0.00"))


def test_two_equal_dividends_on_their_way_are_paid_one_by_one():
    owed = tuple(Receivable(symbol=CODE, amount=D("5.00"), pay=day) for day in (DAYS[3], DAYS[2]))
    account, events = apply_corporate_actions(held(owed=owed), DAYS[2], ActionBook(), Rulebook.mainland())
    assert (len(events), account.cash, account.receivables) == (1, D("5.00"), owed[:1])
    account, events = apply_corporate_actions(held(owed=owed), DAYS[4], ActionBook(), Rulebook.mainland())
    assert (len(events), account.cash, account.receivables) == (2, D("10.00"), ())


# Splits ------------------------------------------------------------------------------------------


def test_a_split_changes_the_shares_and_not_their_cost_or_value(recorded):
    where = market([10.0, 10.0, 5.0, 5.0, 5.0, 5.0], split={2: 2.0})
    results, account, kinds = recorded(where, BUY | {2: [order("sell", 200)]})
    assert results[2].events == (Split(symbol=CODE, session=DAYS[2], ratio=D(2), before=1000, after=2000),)
    position = account.positions[CODE]
    assert (position.quantity, position.cost, position.entered) == (1800, D("9000.00"), DAYS[1])
    assert {result.value for result in results} == {D("10000.00")}
    assert kinds.count("split") == 1


def test_bonus_shares_are_whole_in_the_mainland_and_the_fraction_lapses():
    action = CorporateAction(**book_of(ratio=D("1.3")))
    book = ActionBook(due={DAYS[2]: (action,)})
    account, (event,) = apply_corporate_actions(
        held(105), DAYS[2], book, Rulebook.mainland(), {CODE: D("7.7")}
    )
    # 136.5
    assert (event.before, event.after, event.cash) == (105, 136, D("0.00"))
    assert (account.positions[CODE].quantity, account.positions[CODE].sellable) == (136, 136)


@pytest.mark.parametrize(
    ("rules", "after", "cash"),
    [(Rulebook.us(), 10, "3.13"), (Rulebook.us(fractional=True), D("10.5"), "0.00")],
)
def test_in_the_us_a_fraction_is_paid_at_the_open_unless_shares_may_be_broken(rules, after, cash):
    book = ActionBook(due={DAYS[2]: (CorporateAction(symbol="GE", ex=DAYS[2], ratio=D("0.1")),)})
    account, (event,) = apply_corporate_actions(held(105, "GE"), DAYS[2], book, rules, {"GE": D("6.25")})
    # a half at 6.25 is 3.125
    assert (event.after, event.cash) == (after, D(cash))
    assert account.positions["GE"].quantity == after
    assert account.cash == D(cash)


def test_a_reverse_split_that_leaves_no_share_ends_the_position(recorded):
    where = market(
        [1.0, 1.0, 1000.0, 1000.0, 1000.0, 1000.0],
        split={2: 0.001},
        rules=Rulebook.zero_cost("us"),
        symbol="GE",
    )
    results, account, _ = recorded(where, {1: [order("buy", 500, "GE")]}, cash=500)
    assert results[2].events[0].cash == D("500.00")
    assert account == Account.opening(500)


def test_a_dividend_of_the_same_day_is_for_the_shares_before_the_split():
    # ten for ten and 1.00 in cash: 10.00 is worth 4.50 afterwards
    where = market([10.0, 10.0, 4.5, 4.5, 4.5, 4.5], dividend={2: 1.0}, split={2: 2.0})
    results = run(where, BUY)
    assert [type(event) for event in results[2].events] == [Dividend, Split]
    assert results[2].account.cash == D("1000.00")
    assert {result.value for result in results} == {D("10000.00")}


# Delistings --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("per_share", "cash"), [(0.0, "0.00"), (2.345, "2345.00")])
def test_a_delisting_takes_the_shares_and_brings_what_is_paid(recorded, per_share, cash):
    where = market([10.0, 10.0, 3.0, NAN, NAN, NAN], delisting={3: per_share})
    results, account, kinds = recorded(where, BUY | {3: [order("sell", 100)]})
    assert results[3].events == (
        Delisting(symbol=CODE, session=DAYS[3], quantity=1000, per_share=D(str(per_share)), amount=D(cash)),
    )
    assert results[3].outcomes[0].code == "suspended"
    assert account == Account.opening(cash)
    assert kinds.count("delisting") == 1


def test_what_is_owed_is_paid_after_the_delisting():
    where = market(
        [10.0, 10.0, 9.0, NAN, NAN, NAN], dividend={2: 1.0}, action_pay={2: 20240115.0}, delisting={3: 4.0}
    )
    results = run(where, BUY)
    assert [result.value for result in results] == [*[D("10000.00")] * 3, *[D("5000.00")] * 3]
    assert results[-1].account == Account.opening(5000)


# Prices that are carried -------------------------------------------------------------------------


def test_a_mark_that_is_carried_over_an_action_is_worth_what_is_left():
    # Suspended while two for one and 0.50 in cash go off: (10 - 0.50) / 2
    where = market([10.0, 10.0, NAN, NAN, 5.0, 5.0], dividend={2: 0.5}, split={2: 2.0})
    results = run(where, BUY)
    assert results[2].marks == {CODE: Mark(price=D("4.7500"), carried=True)}
    assert results[3].marks == results[2].marks
    assert [result.value for result in results] == [*[D("10000.00")] * 4, *[D("10500.00")] * 2]


def test_a_carried_price_is_rounded_to_four_decimals_and_never_negative():
    split = CorporateAction(**book_of(ratio=D("1.3")))
    assert price_after_actions(D(10), [split]) == D("7.6923")
    assert price_after_actions(D(10), [split, split]) == D("5.9172")
    assert price_after_actions(D(1), [CorporateAction(**book_of(cash=D(2)))]) == D(0)


def test_the_last_closes_of_a_morning_know_the_actions_of_that_morning():
    where = market([10.0, 10.0, NAN, 5.0, 5.0, 5.0], split={2: 2.0})
    assert last_closes(where.store.view(Moment(DAYS[2], "open"), where.data_ref), [CODE]) == {
        CODE: D("5.0000")
    }
    assert last_closes(where.store.view(Moment(DAYS[1], "close"), where.data_ref), [CODE]) == {CODE: D(10)}


def test_data_without_actions_has_an_empty_book():
    where = market([10.0] * 6)
    assert not action_book(where.store, where.data_ref)
    where = market([10.0] * 6, split={2: 1.0}, dividend={3: 0.0})
    assert not action_book(where.store, where.data_ref)


def test_the_value_counts_what_is_owed():
    owed = (Receivable(symbol=CODE, amount=D("1.50"), pay=DAYS[4]),)
    where = market([10.0] * 6)
    account = held(100, cash="2.00", owed=owed)
    marks = mark(account, where.store.view(Moment(DAYS[2], "close"), where.data_ref))
    assert value_of(account, marks) == D("1003.50")
