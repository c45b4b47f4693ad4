from decimal import Decimal

import pandas as pd
import pytest

from quantgraph.broker import Account
from quantgraph.broker.accounts import Mark, Position, last_closes, mark, value_of
from quantgraph.errors import FutureRequested, NoData
from quantgraph.market import Moment

D = Decimal


def account():
    return Account(
        cash=D("100.00"),
        positions={
            code: Position(quantity=100, sellable=100, cost=D("1.00"), entered=pd.Timestamp("2024-01-02"))
            for code in ("600000.SH", "600036.SH")
        },
    )


def test_holdings_are_marked_at_the_close(toy):
    store, ref, days = toy
    marks = mark(account(), store.view(Moment(days[1], "close"), ref))
    assert marks == {"600000.SH": Mark(price=D("10.15")), "600036.SH": Mark(price=D("30.4"))}
    assert value_of(account(), marks) == D("4155.00")


def test_a_missing_close_carries_the_last_one_and_says_so(toy):
    store, ref, days = toy
    marks = mark(account(), store.view(Moment(days[2], "close"), ref))
    assert marks["600036.SH"] == Mark(price=D("30.4"), carried=True)
    assert not marks["600000.SH"].carried


def test_a_mark_before_the_close_is_refused(toy):
    store, ref, days = toy
    with pytest.raises(FutureRequested):
        mark(account(), store.view(Moment(days[2], "open"), ref))


def test_a_holding_that_never_had_a_close_is_an_error(toy):
    store, ref, days = toy
    stranger = Account(cash=D("1.00"), positions={"600519.SH": account().positions["600000.SH"]})
    with pytest.raises(NoData, match=r"600519\.SH is held"):
        mark(stranger, store.view(Moment(days[3], "close"), ref))


def test_last_closes_at_the_open_do_not_know_todays(toy):
    store, ref, days = toy
    closes = last_closes(store.view(Moment(days[3], "open"), ref), ["600000.SH", "600036.SH", "600519.SH"])
    assert closes == {"600000.SH": D("10.25"), "600036.SH": D("30.4")}


def test_holdings_may_be_marked_at_the_open(toy):
    store, ref, days = toy
    marks = mark(account(), store.view(Moment(days[1], "open"), ref), at="open")
    assert marks == {"600000.SH": Mark(price=D("10.1")), "600036.SH": Mark(price=D("30.3"))}
    carried = mark(account(), store.view(Moment(days[2], "open"), ref), at="open")
    assert carried["600036.SH"] == Mark(price=D("30.3"), carried=True)


def test_an_empty_account_needs_no_mark(toy):
    store, ref, days = toy
    assert mark(Account.opening(1), store.view(Moment(days[2], "open"), ref)) == {}
    assert value_of(Account.opening("1.50"), {}) == D("1.50")


def test_a_value_is_exact_beyond_the_cent():
    holding = Position(quantity=D("0.3"), sellable=0, cost=D("1.00"), entered=pd.Timestamp("2024-01-02"))
    owner = Account(cash=D("1.10"), positions={"AAPL": holding})
    assert str(value_of(owner, {"AAPL": Mark(price=D("0.1234"))})) == "1.13702"
    assert str(value_of(owner, {"AAPL": Mark(price=D("10"))})) == "4.10"
