import datetime as dt
from decimal import Decimal

import pytest

from quantgraph.errors import BadOption, BadWindow, UnknownSymbol
from quantgraph.market.rulebook import Fees, Rulebook, board_of

D = Decimal


@pytest.mark.parametrize(
    ("code", "board"),
    [
        ("600000.SH", "main"),
        ("601318.SH", "main"),
        ("603259.SH", "main"),
        ("605499.SH", "main"),
        ("000001.SZ", "main"),
        ("002594.SZ", "main"),
        ("003816.SZ", "main"),
        ("300750.SZ", "chinext"),
        ("301001.SZ", "chinext"),
        ("302132.SZ", "chinext"),
        ("688981.SH", "star"),
        ("689009.SH", "star"),
        ("430047.BJ", "bse"),
        ("830799.BJ", "bse"),
        ("920002.BJ", "bse"),
    ],
)
def test_board_follows_from_the_code(code, board):
    assert board_of(code) == board


@pytest.mark.parametrize(
    "code",
    [
        "AAPL",
        "600000",
        "600000.SZ",
        "300750.SH",
        "510300.SH",
        "900901.SH",
        "200011.SZ",
        "60000.SH",
        "",
        "920002.SH",
    ],
)
def test_a_code_of_no_board_is_refused(code):
    with pytest.raises(UnknownSymbol, match="no board"):
        board_of(code)


@pytest.mark.parametrize(
    ("code", "day", "pre_close", "upper", "lower"),
    [
        # 1.15 * 1.1 = 1.265 and 1.15 * 0.9 = 1.035: both halves go up.
        ("600000.SH", "2024-01-02", "1.15", "1.27", "1.04"),
        ("600000.SH", "1996-12-16", "10.00", "11.00", "9.00"),
        ("000001.SZ", "2025-05-06", "11.11", "12.22", "10.00"),
        ("300750.SZ", "2020-08-21", "200.00", "220.00", "180.00"),
        ("300750.SZ", "2020-08-24", "200.00", "240.00", "160.00"),
        ("688981.SH", "2019-07-22", "55.55", "66.66", "44.44"),
        ("688981.SH", "2024-01-02", "52.03", "62.44", "41.62"),
        ("920002.BJ", "2024-01-02", "10.05", "13.07", "7.04"),
    ],
)
def test_limit_prices_by_board_and_day(code, day, pre_close, upper, lower):
    assert Rulebook().limits(code, dt.date.fromisoformat(day), D(pre_close)) == (D(upper), D(lower))


@pytest.mark.parametrize(
    ("code", "day"), [("600000.SH", "1996-12-13"), ("688981.SH", "2019-07-19"), ("830799.BJ", "2021-11-12")]
)
def test_a_band_before_its_table_begins_is_an_error(code, day):
    with pytest.raises(BadWindow, match="price band"):
        Rulebook().limits(code, dt.date.fromisoformat(day), D("10"))


@pytest.mark.parametrize(
    ("side", "notional", "day", "commission", "stamp", "transfer"),
    [
        # 100,000 at 0.025 %, 0.1 %, 0.002 %; then each cut on its day
        ("buy", "100000.00", "2022-04-28", "25.00", "0.00", "2.00"),
        ("buy", "100000.00", "2022-04-29", "25.00", "0.00", "1.00"),
        ("sell", "100000.00", "2023-08-27", "25.00", "100.00", "1.00"),
        ("sell", "100000.00", "2023-08-28", "25.00", "50.00", "1.00"),
        ("sell", "100000.00", "2015-08-01", "25.00", "100.00", "2.00"),
        # 20,000 * 0.025 % is exactly the minimum; below it the minimum is paid
        ("buy", "20000.00", "2024-01-02", "5.00", "0.00", "0.20"),
        ("buy", "19999.00", "2024-01-02", "5.00", "0.00", "0.20"),
        ("buy", "20020.00", "2024-01-02", "5.01", "0.00", "0.20"),
        # 1,010 * 0.05 % = 0.505 and 1,500 * 0.001 % = 0.015: halves go up
        ("sell", "1010.00", "2024-01-02", "5.00", "0.51", "0.01"),
        ("sell", "1500.00", "2024-01-02", "5.00", "0.75", "0.02"),
    ],
)
def test_fees_by_hand(side, notional, day, commission, stamp, transfer):  # noqa: PLR0917
    charges = Fees().of(side, D(notional), dt.date.fromisoformat(day))
    assert (charges.commission, charges.stamp_duty, charges.transfer_fee) == (
        D(commission),
        D(stamp),
        D(transfer),
    )
    assert charges.total == D(commission) + D(stamp) + D(transfer)


def test_a_fee_before_its_table_begins_is_an_error():
    with pytest.raises(BadWindow, match="transfer fee on 2015-07-31"):
        Fees().of("buy", D("1000"), dt.date(2015, 7, 31))


def test_the_brokers_commission_can_be_given():
    fees = Rulebook.mainland(commission_rate=0.0001, commission_min=0).fees
    assert fees.of("buy", D("10000.00"), dt.date(2024, 1, 2)).commission == D("1.00")


def test_a_negative_commission_is_refused():
    with pytest.raises(BadOption, match="commission_rate"):
        Rulebook.mainland(commission_rate=-0.1)


def test_the_zero_cost_book_takes_no_fee_and_keeps_the_bands():
    book = Rulebook.zero_cost()
    assert book.fees.of("sell", D("100000.00"), dt.date(2001, 1, 2)).total == 0
    assert book.limits("600000.SH", dt.date(2024, 1, 2), D("10.00")) == (D("11.00"), D("9.00"))
