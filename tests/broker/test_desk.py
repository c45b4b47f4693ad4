import math
from decimal import Decimal

import pandas as pd
import pytest

from quantgraph.broker import Account, Fill, Order, Position, Quote, Rejection, execute, largest_buy, submit
from quantgraph.errors import BadOption
from quantgraph.market.rulebook import Rulebook

D = Decimal
DAY = pd.Timestamp("2024-01-03")
RULES = Rulebook.mainland()
CODE = "600000.SH"
QUOTE = Quote(open=10.0, pre_close=10.0)


def buy(quantity, symbol=CODE, sequence=1):
    return Order(symbol=symbol, side="buy", quantity=quantity, sequence=sequence)


def sell(quantity, symbol=CODE, sequence=1):
    return Order(symbol=symbol, side="sell", quantity=quantity, sequence=sequence)


def holding(quantity, sellable=None, cash="100000.00", symbol=CODE):
    position = Position(
        quantity=quantity,
        sellable=quantity if sellable is None else sellable,
        cost=D("1000.00"),
        entered=pd.Timestamp("2024-01-02"),
    )
    return Account(cash=D(cash), positions={symbol: position})


def code_of(outcome):
    return outcome.code if isinstance(outcome, Rejection) else "filled"


def test_a_buy_by_hand():
    fill = submit(buy(1000), Account.opening(100_000), QUOTE, RULES, DAY)
    assert isinstance(fill, Fill)
    # 10,000 at the minimum commission of 5 and 0.001 % transfer fee
    assert (fill.price, fill.notional) == (D("10"), D("10000.00"))
    assert (fill.commission, fill.stamp_duty, fill.transfer_fee) == (D("5.00"), D("0.00"), D("0.10"))
    assert fill.cost == D("5.10")
    assert fill.cash_change == D("-10005.10")


def test_a_sell_by_hand():
    fill = submit(sell(1000), holding(1000), QUOTE, RULES, DAY)
    assert (fill.commission, fill.stamp_duty, fill.transfer_fee) == (D("5.00"), D("5.00"), D("0.10"))
    assert fill.cash_change == D("9989.90")


@pytest.mark.parametrize("quantity", [0, -100])
def test_a_quantity_that_is_not_positive_is_rejected(quantity):
    assert code_of(submit(buy(quantity), Account.opening(1_000_000), QUOTE, RULES, DAY)) == "bad_quantity"


@pytest.mark.parametrize("quantity", [100.0, True, "100"])
def test_a_quantity_that_is_no_whole_number_is_no_order(quantity):
    with pytest.raises(BadOption, match="quantity"):
        buy(quantity)


def test_a_side_that_is_neither_is_no_order():
    with pytest.raises(BadOption, match="side='hold'"):
        Order(symbol=CODE, side="hold", quantity=100, sequence=1)


def test_a_symbol_without_a_quote_is_unknown():
    assert code_of(submit(buy(100), Account.opening(10_000), None, RULES, DAY)) == "unknown_symbol"


def test_a_symbol_of_no_board_is_unknown():
    assert code_of(submit(buy(100, "AAPL"), Account.opening(10_000), QUOTE, RULES, DAY)) == "unknown_symbol"


def test_no_open_price_means_suspended():
    quote = Quote(open=math.nan, pre_close=10.0)
    assert code_of(submit(buy(100), Account.opening(10_000), quote, RULES, DAY)) == "suspended"
    assert code_of(submit(sell(100), holding(100), quote, RULES, DAY)) == "suspended"


@pytest.mark.parametrize("price", [0.0, -1.0, math.inf])
def test_an_open_that_is_no_price_is_told_apart_from_a_suspension(price):
    assert code_of(submit(buy(100), Account.opening(10_000), Quote(open=price), RULES, DAY)) == "no_price"


@pytest.mark.parametrize(
    ("quantity", "code"), [(50, "lot_size"), (150, "lot_size"), (100, "filled"), (200, "filled")]
)
def test_buys_are_in_lots(quantity, code):
    assert code_of(submit(buy(quantity), Account.opening(10_000), QUOTE, RULES, DAY)) == code


@pytest.mark.parametrize(
    ("quantity", "code"),
    [
        (100, "filled"),
        (200, "filled"),
        (50, "filled"),
        (150, "filled"),
        (250, "filled"),
        (25, "lot_size"),
        (125, "lot_size"),
        (300, "insufficient_shares"),
    ],
)
def test_of_250_shares_the_odd_50_are_sold_in_one_piece(quantity, code):
    assert code_of(submit(sell(quantity), holding(250), QUOTE, RULES, DAY)) == code


def test_what_is_not_held_cannot_be_sold():
    assert code_of(submit(sell(100), Account.opening(10_000), QUOTE, RULES, DAY)) == "insufficient_shares"


def test_what_was_bought_today_cannot_be_sold_today():
    assert code_of(submit(sell(300), holding(300, sellable=200), QUOTE, RULES, DAY)) == "t_plus_one"
    assert code_of(submit(sell(200), holding(300, sellable=200), QUOTE, RULES, DAY)) == "filled"


def test_cash_must_cover_the_fees_to_the_cent():
    # 1,000 shares at 10 cost 10,005.10
    assert code_of(submit(buy(1000), Account.opening("10005.10"), QUOTE, RULES, DAY)) == "filled"
    assert code_of(submit(buy(1000), Account.opening("10005.09"), QUOTE, RULES, DAY)) == "insufficient_cash"


def test_a_sale_whose_fees_eat_more_than_cash_and_proceeds_is_rejected():
    quote = Quote(open=0.04, pre_close=0.04, down_limit=0.03)
    assert code_of(submit(sell(100), holding(100, cash="0.50"), quote, RULES, DAY)) == "insufficient_cash"


@pytest.mark.parametrize(
    ("price", "up_limit", "code"),
    [
        (10.99, math.nan, "filled"),
        (11.00, math.nan, "limit_up"),
        (11.01, math.nan, "limit_up"),
        (10.50, 10.50, "limit_up"),
        (11.00, 12.0, "filled"),
    ],
)
def test_no_buy_at_the_upper_limit_and_the_datas_limit_wins(price, up_limit, code):
    quote = Quote(open=price, pre_close=10.0, up_limit=up_limit)
    assert code_of(submit(buy(100), Account.opening(10_000), quote, RULES, DAY)) == code


@pytest.mark.parametrize(
    ("price", "down_limit", "code"),
    [
        (9.01, math.nan, "filled"),
        (9.00, math.nan, "limit_down"),
        (8.99, math.nan, "limit_down"),
        (9.50, 9.50, "limit_down"),
        (9.00, 8.0, "filled"),
    ],
)
def test_no_sale_at_the_lower_limit_and_the_datas_limit_wins(price, down_limit, code):
    quote = Quote(open=price, pre_close=10.0, down_limit=down_limit)
    assert code_of(submit(sell(100), holding(100), quote, RULES, DAY)) == code


def test_a_sale_at_the_upper_limit_and_a_buy_at_the_lower_one_are_filled():
    assert code_of(submit(sell(100), holding(100), Quote(open=11.0, pre_close=10.0), RULES, DAY)) == "filled"
    assert (
        code_of(submit(buy(100), Account.opening(10_000), Quote(open=9.0, pre_close=10.0), RULES, DAY))
        == "filled"
    )


def test_chinext_has_a_wider_band_from_its_day_on():
    quote, cash = Quote(open=11.0, pre_close=10.0), Account.opening(10_000)
    before, after = pd.Timestamp("2020-08-21"), pd.Timestamp("2020-08-24")
    assert code_of(submit(buy(100, "300750.SZ"), cash, quote, RULES, before)) == "limit_up"
    assert code_of(submit(buy(100, "300750.SZ"), cash, quote, RULES, after)) == "filled"


def test_without_limits_and_previous_close_no_band_is_judged():
    assert code_of(submit(buy(100), Account.opening(100_000), Quote(open=99.0), RULES, DAY)) == "filled"


def test_a_message_names_the_symbol_and_the_limit():
    refused = submit(buy(100), Account.opening(10_000), Quote(open=11.0, pre_close=10.0), RULES, DAY)
    assert refused.message == "600000.SH opens at 11, its upper limit is 11.00"


def test_sells_come_first_and_their_proceeds_buy_in_the_same_session():
    quotes = {CODE: QUOTE, "600036.SH": Quote(open=30.0, pre_close=30.0)}
    orders = [buy(300, "600036.SH", sequence=1), sell(1000, sequence=2)]
    day = execute(orders, holding(1000, cash="0.00"), quotes, RULES, DAY)
    assert [code_of(outcome) for outcome in day.outcomes] == ["filled", "filled"]
    assert [outcome.order.sequence for outcome in day.outcomes] == [1, 2]
    # 9,989.90 from the sale, 9,000 + 5 + 0.09 for the buy
    assert day.account.cash == D("984.81")
    assert list(day.account.positions) == ["600036.SH"]


def test_two_buys_that_fit_singly_do_not_pass_together():
    quotes = {CODE: QUOTE, "600036.SH": QUOTE}
    orders = [buy(1000, sequence=2), buy(1000, "600036.SH", sequence=1)]
    day = execute(orders, Account.opening(15_000), quotes, RULES, DAY)
    assert [code_of(outcome) for outcome in day.outcomes] == ["insufficient_cash", "filled"]


def test_a_rejection_changes_nothing():
    account = holding(100, cash="10.00")
    day = execute([buy(100)], account, {CODE: QUOTE}, RULES, DAY)
    assert day.account == account


def test_a_sequence_used_twice_is_an_error():
    with pytest.raises(BadOption, match="sequence=1 is used twice"):
        execute([buy(100), buy(100)], Account.opening(10_000), {CODE: QUOTE}, RULES, DAY)


@pytest.mark.parametrize("price", ["0.01", "0.37", "9.99", "10", "1234.56"])
@pytest.mark.parametrize("budget", ["0", "-5", "4.99", "106.01", "1000", "20005.20", "999999.99"])
def test_the_largest_buy_fits_and_one_lot_more_does_not(price, budget):
    def paid(quantity):
        notional = D(price) * quantity
        commission = max(D(5), (notional * D("0.00025")).quantize(D("0.01"), rounding="ROUND_HALF_UP"))
        return notional + commission + (notional * D("0.00001")).quantize(D("0.01"), rounding="ROUND_HALF_UP")

    quantity = largest_buy(D(price), D(budget), RULES, DAY)
    assert quantity % 100 == 0
    assert quantity == 0 or paid(quantity) <= D(budget)
    assert paid(quantity + 100) > D(budget)
