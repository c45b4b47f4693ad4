"""How many shares a target comes to, with fees, in lots, towards both sides."""

from decimal import ROUND_HALF_UP, Decimal

import pandas as pd
import pytest

from quantgraph.broker import Account, Order, Session
from quantgraph.broker.accounts import Position, Receivable
from quantgraph.broker.accounts._quotes import Quote
from quantgraph.broker.session import largest_buy
from quantgraph.broker.session._matching import match_order
from quantgraph.errors import BadOption
from quantgraph.market import Rulebook

D = Decimal
DAY = pd.Timestamp("2024-01-03")
RULES, FREE = Rulebook.mainland(), Rulebook.zero_cost()
CODE, STAR = "600000.SH", "688981.SH"
AT_10 = Quote(open=10.0, pre_close=10.0)


def holding(quantity, cash="100000.00", symbol=CODE):
    position = Position(
        quantity=quantity, sellable=quantity, cost=D("1000.00"), entered=pd.Timestamp("2024-01-02")
    )
    return Account(cash=D(cash), positions={symbol: position})


def traded(account, *, symbol=CODE, rules=RULES, quote=AT_10, **size):
    """Side and quantity of a target's fill, or the code."""
    trading_session = Session(account, {symbol: quote}, rules, DAY)
    outcome = trading_session.submit(Order(symbol=symbol, sequence=1, **size))
    return getattr(outcome, "code", None) or (outcome.side, outcome.quantity)


@pytest.mark.parametrize("price", ["0.01", "0.37", "9.99", "10", "1234.56"])
@pytest.mark.parametrize("budget", ["0", "-5", "4.99", "106.01", "1000", "20005.20", "999999.99"])
def test_the_largest_buy_fits_and_one_lot_more_does_not(price, budget):
    def paid(quantity):
        notional = D(price) * quantity
        commission = max(D(5), (notional * D("0.00025")).quantize(D("0.01"), ROUND_HALF_UP))
        return notional + commission + (notional * D("0.00001")).quantize(D("0.01"), ROUND_HALF_UP)

    quantity = largest_buy(CODE, D(price), D(budget), RULES, DAY)
    assert quantity % 100 == 0
    assert quantity == 0 or paid(quantity) <= D(budget)
    assert paid(quantity + 100) > D(budget)
    star = largest_buy(STAR, D(price), D(budget), RULES, DAY)
    assert star == 0 or (star >= 200 and paid(star) <= D(budget))
    assert paid(max(200, star + 1)) > D(budget)


def test_a_high_minimum_commission_is_more_than_a_few_lots():
    # 0.01 a share and 500 at least: 1,000 pay for 500.00 - 0.01 of transfer fee, 49,900 shares
    rules = Rulebook.mainland(commission_min=500)
    assert largest_buy(CODE, D("0.01"), D(1000), rules, DAY) == 49_900
    assert largest_buy(CODE, D("0.01"), D("1000.01"), rules, DAY) == 50_000


@pytest.mark.parametrize(
    ("target", "result"),
    [
        (1500, ("buy", 500)),
        (500, ("sell", 500)),
        (0, ("sell", 1000)),
        (1000, "bad_quantity"),
        (1050, "lot_size"),
        (950, "lot_size"),
        (-1, "short_not_allowed"),
    ],
)
def test_a_target_quantity_is_what_is_held_afterwards(target, result):
    assert traded(holding(1000), target_quantity=target) == result


@pytest.mark.parametrize(
    ("value", "result"),
    [
        # 500 more cost 5,005.05
        ("15005.05", ("buy", 500)),
        ("15005.04", ("buy", 400)),
        ("10000", "lot_size"),
        ("10999", "lot_size"),
        # a sale leaves at most the target
        ("9999.99", ("sell", 100)),
        ("9000", ("sell", 100)),
        ("8999.99", ("sell", 200)),
        ("0", ("sell", 1000)),
        ("-0.01", "short_not_allowed"),
    ],
)
def test_a_target_value_is_reached_from_below_with_fees_and_left_at_most(value, result):
    assert traded(holding(1000), target_value=D(value)) == result


@pytest.mark.parametrize(
    ("weight", "result"),
    [
        # 10,000 of 110,000 are held: a half is 45,000 more, and 4,500 shares would cost 11.70 in fees
        ("0.5", ("buy", 4400)),
        ("0.05", ("sell", 500)),
        ("0", ("sell", 1000)),
        # 10,461: 461 are missing
        ("0.0951", "lot_size"),
    ],
)
def test_a_target_weight_is_a_share_of_the_accounts_value(weight, result):
    assert traded(holding(1000), target_weight=D(weight)) == result


def test_a_weight_of_one_buys_what_the_cash_affords():
    # 99,974.00 and fees of 24.99 + 1.00 are 99,999.99; of STAR shares 9,997
    assert traded(Account.opening(100_000), target_weight=D(1)) == ("buy", 9900)
    assert traded(Account.opening(100_000), symbol=STAR, target_weight=D(1)) == ("buy", 9997)
    # 90,000 are in it already, 10,000 in cash
    assert traded(holding(9000, cash="10000.00"), target_weight=D(1)) == ("buy", 900)
    assert traded(holding(9000, cash="10000.00"), rules=FREE, target_weight=D(1)) == ("buy", 1000)


def test_slippage_is_among_the_fees():
    rules = Rulebook.zero_cost(slippage_bps=100)
    assert traded(Account.opening("10100.00"), rules=rules, target_weight=D(1)) == ("buy", 1000)
    assert traded(Account.opening("10099.99"), rules=rules, target_weight=D(1)) == ("buy", 900)


def test_dividends_on_their_way_count_as_value():
    owed = (Receivable(symbol=CODE, amount=D("10000.00"), pay=pd.Timestamp("2024-02-01")),)
    account = Account(cash=D("10000.00"), receivables=owed)
    assert traded(account, rules=FREE, target_weight=D("0.25")) == ("buy", 500)


def test_more_than_there_is_cash_for_is_rejected_and_not_cut():
    assert traded(holding(1000, cash="100.00"), target_value=D(20_000)) == "insufficient_cash"


def test_an_odd_holding_is_sold_down_in_lots_and_out_with_its_rest():
    account = holding(1050)
    assert traded(account, target_value=D(9000)) == ("sell", 200)
    assert traded(account, target_value=D(0)) == ("sell", 1050)
    assert traded(account, target_value=D("499.99")) == ("sell", 1050)
    assert traded(account, target_value=D(500)) == ("sell", 1000)


def test_star_shares_are_sold_by_the_share_and_never_less_than_200():
    account = holding(1000, symbol=STAR)
    assert traded(account, symbol=STAR, target_value=D(7995)) == ("sell", 201)
    assert traded(account, symbol=STAR, target_value=D(8010)) == "lot_size"
    assert traded(account, symbol=STAR, target_value=D(0)) == ("sell", 1000)


def test_broken_shares_hit_the_value_to_a_billionth():
    rules = Rulebook.us(fractional=True)
    quote = Quote(open=3.0)
    assert traded(Account.opening(100), symbol="AAPL", rules=rules, quote=quote, target_value=D(10)) == (
        "buy",
        D("3.333333333"),
    )
    half = holding(D("3.333333333"), symbol="AAPL")
    assert traded(half, symbol="AAPL", rules=rules, quote=quote, target_value=D(5)) == (
        "sell",
        D("1.666666667"),
    )


def test_a_close_order_is_sized_at_the_close_and_a_limit_order_where_it_fills():
    quote = Quote(open=10.0, high=12.5, low=7.5, close=12.0)
    target = {"rules": FREE, "quote": quote, "target_value": D(12_000)}
    assert traded(holding(500), **target) == ("buy", 700)
    assert traded(holding(500), type="close", **target) == ("buy", 500)
    assert traded(holding(500), type="limit", limit_price=D("8.00"), **target) == ("buy", 1000)
    # Above 12 a share 1,000 are too many: the limit is where it sells.
    assert traded(holding(1000), type="limit", limit_price=D("12.50"), **target) == ("sell", 100)


def test_a_weight_without_a_value_to_be_a_share_of_is_an_error():
    order = Order(symbol=CODE, target_weight=D("0.5"), sequence=1)
    with pytest.raises(BadOption, match="needs others="):
        match_order(order, Account.opening(100), AT_10, RULES, DAY)
    assert match_order(order, Account.opening(3000), AT_10, RULES, DAY, others=D(3000)).quantity == 100


def test_a_weight_at_the_close_is_a_share_of_the_value_at_the_close():
    """10,000 shares and no cash: at any price a weight of 1 is what is held."""
    quote = Quote(open=10.0, high=11.0, low=9.0, close=11.0)
    assert traded(holding(10_000, cash="0.00"), quote=quote, type="close", target_weight=D(1)) == "lot_size"
    half = traded(holding(10_000, cash="0.00"), quote=quote, type="close", target_weight=D("0.5"))
    assert half == ("sell", 5000)


def test_a_weight_with_a_limit_is_a_share_of_the_value_at_the_fill():
    """5,000 shares and 50,000: bought at 9.10 the whole is 95,500, and 50,000 buy 5,400 more with fees."""
    quote = Quote(open=10.0, high=10.0, low=9.0, close=9.5)
    account = holding(5000, cash="50000.00")
    size = {"type": "limit", "limit_price": D("9.10"), "target_weight": D(1)}
    assert traded(account, quote=quote, **size) == ("buy", 5400)
