import pickle
from dataclasses import replace
from decimal import Decimal

import pandas as pd
import pytest

from quantgraph.broker import Account, Fill, Order
from quantgraph.broker.accounts import Receivable
from quantgraph.errors import BadOption

D = Decimal
MONDAY, TUESDAY, WEDNESDAY = (pd.Timestamp(day) for day in ("2024-01-08", "2024-01-09", "2024-01-10"))


def fill(side, quantity, price, session, *, fee="5.00", symbol="600000.SH"):
    order = Order(symbol=symbol, side=side, quantity=quantity, sequence=1)
    return Fill(
        order=order,
        session=session,
        side=side,
        price=D(price),
        quantity=quantity,
        notional=D(price) * quantity,
        commission=D(fee),
        stamp_duty=D("0.00"),
        transfer_fee=D("0.00"),
    )


def test_a_buy_is_sellable_from_the_next_session_on():
    account = Account.opening(10_000).apply(fill("buy", 300, "10.00", MONDAY))
    position = account.positions["600000.SH"]
    assert (position.quantity, position.sellable, position.bought_today) == (300, 0, 300)
    morning = account.open_session().positions["600000.SH"]
    assert (morning.sellable, morning.bought_today, morning.entered) == (300, 0, MONDAY)
    assert account.cash == D("6995.00")
    assert morning.cost == D("3005.00")


def test_buying_more_keeps_the_day_of_entry_and_adds_the_cost():
    account = Account.opening(10_000).apply(fill("buy", 100, "10.00", MONDAY)).open_session()
    account = account.apply(fill("buy", 200, "11.00", TUESDAY))
    position = account.positions["600000.SH"]
    assert (position.quantity, position.sellable, position.entered) == (300, 100, MONDAY)
    assert position.cost == D("3210.00")


def test_a_partial_sale_takes_its_share_of_the_cost():
    account = Account.opening(10_000).apply(fill("buy", 300, "10.00", MONDAY)).open_session()
    account = account.apply(fill("sell", 100, "12.00", TUESDAY))
    position = account.positions["600000.SH"]
    # two thirds of 3,005.00
    assert (position.quantity, position.sellable, position.cost) == (200, 200, D("2003.33"))
    assert account.cash == D("8190.00")


def test_what_is_sold_whole_is_gone_and_enters_anew():
    account = Account.opening(10_000).apply(fill("buy", 100, "10.00", MONDAY)).open_session()
    account = account.apply(fill("sell", 100, "10.00", TUESDAY))
    assert dict(account.positions) == {}
    again = account.open_session().apply(fill("buy", 100, "10.00", WEDNESDAY))
    assert again.positions["600000.SH"].entered == WEDNESDAY


def test_an_account_cannot_be_changed_in_place():
    account = Account.opening(10_000).apply(fill("buy", 100, "10.00", MONDAY))
    before = replace(account)
    with pytest.raises(TypeError):
        account.positions["600036.SH"] = account.positions["600000.SH"]
    with pytest.raises(AttributeError):
        account.cash = D("0.00")
    account.open_session().apply(fill("sell", 100, "10.00", TUESDAY))
    assert account == before


def test_what_may_be_sold_in_the_same_session_is_sellable_at_once():
    bought = replace(fill("buy", 300, "10.00", MONDAY), t_plus=0)
    account = Account.opening(10_000).apply(bought)
    assert account.positions["600000.SH"].sellable == 300
    assert account.quantity("600000.SH") == 300
    assert account.apply(fill("sell", 300, "10.00", MONDAY)).quantity("600000.SH") == 0


def test_broken_shares_add_up_to_whole_ones():
    account = Account.opening(10_000)
    for part in ("0.25", "0.75"):
        account = account.apply(fill("buy", D(part), "100.00", MONDAY, fee="0.00", symbol="AAPL"))
    quantity = account.positions["AAPL"].quantity
    assert (quantity, type(quantity)) == (1, int)
    assert account.positions["AAPL"].average_cost == D(100)


def test_what_is_owed_is_the_sum_of_the_dividends_on_their_way():
    rows = tuple(Receivable(symbol="600000.SH", amount=D(each), pay=TUESDAY) for each in ("1.25", "2.50"))
    account = Account(cash=D("1.00"), receivables=rows)
    assert (account.owed, Account.opening(1).owed) == (D("3.75"), D("0.00"))
    assert pickle.loads(pickle.dumps(account)) == account


def test_positions_stand_in_ascending_order_whatever_was_bought_first():
    account = Account.opening(10_000)
    for symbol in ("600036.SH", "000001.SZ", "600000.SH"):
        account = account.apply(fill("buy", 100, "1.00", MONDAY, symbol=symbol))
    assert list(account.positions) == ["000001.SZ", "600000.SH", "600036.SH"]


def test_an_account_travels_between_processes():
    account = Account.opening(10_000).apply(fill("buy", 100, "10.00", MONDAY))
    assert pickle.loads(pickle.dumps(account)) == account


@pytest.mark.parametrize("cash", [-1, "0.001", float("nan"), "much"])
def test_cash_that_is_no_amount_is_refused(cash):
    with pytest.raises(BadOption, match="cash"):
        Account.opening(cash)


@pytest.mark.parametrize("cash", [None, [], True])
def test_an_account_opens_with_an_amount(cash):
    with pytest.raises(BadOption, match=r"cash=.* is not a finite number"):
        Account.opening(cash)
