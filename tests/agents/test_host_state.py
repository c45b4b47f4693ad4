"""What the state of a host names is read exactly, or refused with what it needs."""

from __future__ import annotations

import json
from decimal import Decimal

import pandas as pd
import pytest

from quantgraph.agents.loop import account_to_json
from quantgraph.agents.loop._host_state import host_account
from quantgraph.broker import Account
from quantgraph.broker.accounts import Position, Receivable
from quantgraph.errors import BadOption

DAYS = pd.bdate_range("2024-01-02", periods=3)


def test_amounts_are_exact_on_their_way_there_and_back():
    account = Account(
        cash=Decimal("123456789012345.67"),
        positions={
            "AAPL": Position(
                quantity=Decimal(1) / 3, sellable=Decimal("0.1"), cost=Decimal("0.10"), entered=DAYS[0]
            ),
            "MSFT": Position(quantity=10**12, sellable=0, cost=Decimal("1E+3"), entered=DAYS[1]),
        },
        receivables=(Receivable(symbol="AAPL", amount=Decimal("1E-8"), pay=DAYS[2]),),
    )
    there = host_account({"account": json.loads(json.dumps(account_to_json(account)))}, cash=1)
    assert there == account
    assert repr(there) == repr(account)


def test_without_an_account_one_is_opened():
    assert host_account({}, cash=7) == Account.opening(7)
    assert host_account({"cash": 5}, cash=7) == Account.opening(5)


@pytest.mark.parametrize("account", [7, {"cash": "1"}, {"cash": "x", "positions": {}, "receivables": []}])
def test_what_is_no_account_is_refused_with_how_to_write_one(account):
    with pytest.raises(BadOption, match=r"is not an account .* write it with account_to_json"):
        host_account({"account": account}, cash=1)
