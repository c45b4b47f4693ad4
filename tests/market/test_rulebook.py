"""The rulebook by hand: every expected number is arithmetic on an exchange's rule, not the code's."""

import datetime as dt
import subprocess
import sys
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

from quantgraph.errors import BadOption, BadWindow, UnknownSymbol
from quantgraph.market.rules._order_rules import ListingStatus, assumptions, board_of
from quantgraph.market.rules._rulebook import Rulebook

D = Decimal
CN = Rulebook.mainland()
US = Rulebook.us()
ST = ListingStatus(st=True)


def day(text):
    return dt.date.fromisoformat(text)


def new(session):
    return ListingStatus(listing_day=session)


def leaving(session):
    return ListingStatus(delisting_day=session)


@pytest.mark.parametrize(
    ("code", "board"),
    [
        ("600000.SH", "main"),
        ("601318.SH", "main"),
        ("603259.SH", "main"),
        ("605499.SH", "main"),
        ("000001.SZ", "main"),
        ("001979.SZ", "main"),
        ("002594.SZ", "main"),
        ("003816.SZ", "main"),
        ("300750.SZ", "chinext"),
        ("301001.SZ", "chinext"),
        ("302132.SZ", "chinext"),
        ("688981.SH", "star"),
        ("689009.SH", "star"),
        ("430047.BJ", "bse"),
        ("830799.BJ", "bse"),
        ("871981.BJ", "bse"),
        ("920002.BJ", "bse"),
        ("510300.SH", "fund"),
        ("511880.SH", "fund"),
        ("588000.SH", "fund"),
        ("159915.SZ", "fund"),
        ("161725.SZ", "fund"),
        ("AAPL", "us"),
        ("T", "us"),
        ("GOOGL", "us"),
        ("BRK.B", "us"),
        ("BF-B", "us"),
        ("BAC-PL", "us"),
        ("BAC.PRL", "us"),
    ],
)
def test_board_follows_from_the_code(code, board):
    assert board_of(code) == board
    assert (US if board == "us" else CN).board(code) == board


@pytest.mark.parametrize(
    "code",
    [
        "600000",
        "600000.SZ",
        "300750.SH",
        "900901.SH",  # B shares
        "200011.SZ",
        "400001.BJ",  # delisted shares on another market
        "899050.BJ",  # an index
        "508000.SH",  # REITs
        "180101.SZ",
        "113050.SH",  # a convertible bond
        "519888.SH",  # an open-end fund that is not traded
        "00700.HK",
        "60000.SH",
        "٦٠٠٠٠٠.SH",
        "",
        "aapl",
        "TOOLONG",
        "SAP.DE",
        "920002.SH",
    ],
)
def test_a_code_of_no_board_is_refused(code):
    with pytest.raises(UnknownSymbol, match="no board"):
        board_of(code)


@pytest.mark.parametrize(("book", "code"), [(CN, "AAPL"), (US, "600000.SH"), (US, "510300.SH")])
def test_the_other_market_is_on_no_board(book, code):
    asks = [
        lambda: book.board(code),
        lambda: book.lots(code, day("2024-01-02")),
        lambda: book.tick(code, day("2024-01-02"), D(10)),
        lambda: book.limits(code, day("2024-01-02"), D(10)),
        lambda: book.order_cap(code, day("2024-01-02")),
        lambda: book.t_plus(code, day("2024-01-02")),
        lambda: book.charges(code, "buy", 100, D(1000), day("2024-01-02")),
    ]
    for ask in asks:
        with pytest.raises(UnknownSymbol, match="no board"):
            ask()


LIMITS = [
    # main board, 10 % since 1996-12-16
    ("600000.SH", "1996-12-16", "10.00", ListingStatus(), "11.00", "9.00"),
    ("000001.SZ", "2025-05-06", "11.11", ListingStatus(), "12.22", "10.00"),  # 12.221, 9.999
    ("600000.SH", "2024-01-02", "1.15", ListingStatus(), "1.27", "1.04"),  # 1.265 and 1.035 go up
    ("002594.SZ", "2012-06-01", "3.33", ListingStatus(), "3.66", "3.00"),  # 3.663, 2.997
    ("600519.SH", "2026-07-06", "1688.88", ListingStatus(), "1857.77", "1519.99"),  # 1857.768, 1519.992
    # ST on the main board: 5 % since 1998-04-22, 10 % from 2026-07-06
    ("600000.SH", "1998-04-22", "10.00", ST, "10.50", "9.50"),
    ("600000.SH", "2026-07-03", "2.10", ST, "2.21", "2.00"),  # 2.205 and 1.995 go up
    ("600000.SH", "2026-07-06", "2.10", ST, "2.31", "1.89"),
    ("000010.SZ", "2026-07-03", "2.10", ST, "2.21", "2.00"),
    ("000010.SZ", "2026-07-06", "2.10", ST, "2.31", "1.89"),
    # ChiNext: 10 % since 2009-10-30, 20 % since 2020-08-24; ST 5 % until then
    ("300001.SZ", "2009-11-02", "20.00", ListingStatus(), "22.00", "18.00"),
    ("300750.SZ", "2020-08-21", "200.00", ListingStatus(), "220.00", "180.00"),
    ("300750.SZ", "2020-08-24", "200.00", ListingStatus(), "240.00", "160.00"),
    ("301001.SZ", "2024-01-02", "10.03", ListingStatus(), "12.04", "8.02"),  # 12.036, 8.024
    ("300023.SZ", "2020-08-21", "4.00", ST, "4.20", "3.80"),
    ("300023.SZ", "2020-08-24", "4.00", ST, "4.80", "3.20"),
    ("300023.SZ", "2026-07-06", "4.00", ST, "4.80", "3.20"),
    # STAR 20 % since 2019-07-22, ST too
    ("688001.SH", "2019-07-29", "55.55", ListingStatus(), "66.66", "44.44"),
    ("688981.SH", "2024-01-02", "52.03", ListingStatus(), "62.44", "41.62"),  # 62.436, 41.624
    ("688981.SH", "2026-07-03", "10.00", ST, "12.00", "8.00"),
    ("689009.SH", "2024-01-02", "30.01", ListingStatus(), "36.01", "24.01"),  # 36.012, 24.008
    # Beijing 30 % since 2021-11-15, ST too
    ("830799.BJ", "2021-11-15", "10.00", ListingStatus(), "13.00", "7.00"),
    ("920002.BJ", "2024-01-02", "10.05", ListingStatus(), "13.07", "7.04"),  # 13.065 and 7.035 go up
    ("920002.BJ", "2026-07-06", "10.00", ST, "13.00", "7.00"),
    # funds: three decimals, 10 %; ETFs of the STAR market 20 %
    ("510300.SH", "2024-01-02", "3.455", ListingStatus(), "3.801", "3.110"),  # 3.8005 and 3.1095 go up
    ("510050.SH", "2006-07-03", "1.500", ListingStatus(), "1.650", "1.350"),
    ("588000.SH", "2020-11-17", "1.425", ListingStatus(), "1.710", "1.140"),
    ("513100.SH", "2024-01-02", "1.111", ListingStatus(), "1.222", "1.000"),  # 1.2221, 0.9999
    # first sessions, main board of Shanghai: none, 144 %/64 % of the issue price, five without
    ("601857.SH", "2007-11-05", "16.70", new(1), None, None),
    ("601857.SH", "2007-11-06", "43.96", new(2), "48.36", "39.56"),  # 48.356, 39.564
    ("603699.SH", "2013-12-12", "10.00", new(1), None, None),
    ("603699.SH", "2013-12-13", "10.00", new(1), "14.40", "6.40"),
    ("601127.SH", "2016-06-15", "5.81", new(1), "8.37", "3.72"),  # 8.3664, 3.7184
    ("601127.SH", "2016-06-16", "8.37", new(2), "9.21", "7.53"),  # 9.207, 7.533
    ("603125.SH", "2023-04-07", "10.00", new(1), "14.40", "6.40"),
    ("601061.SH", "2023-04-10", "10.00", new(1), None, None),
    ("601061.SH", "2023-04-14", "10.00", new(5), None, None),
    ("601061.SH", "2023-04-17", "10.00", new(6), "11.00", "9.00"),
    # listed on Friday 2023-04-07 under the old rules, in its second session on Monday
    ("603125.SH", "2023-04-10", "10.00", new(2), "11.00", "9.00"),
    ("603125.SH", "2023-04-13", "10.00", new(5), "11.00", "9.00"),
    # Shenzhen got the 144 %/64 % half a year later
    ("002700.SZ", "2013-12-13", "10.00", new(1), None, None),
    ("002726.SZ", "2014-06-12", "10.00", new(1), None, None),
    ("002726.SZ", "2014-06-12", "10.00", new(2), "11.00", "9.00"),
    ("002726.SZ", "2014-06-13", "10.00", new(1), "14.40", "6.40"),
    ("002726.SZ", "2014-06-16", "10.00", new(2), "11.00", "9.00"),
    ("001286.SZ", "2023-04-14", "10.00", new(5), None, None),
    ("001286.SZ", "2023-04-17", "10.00", new(6), "11.00", "9.00"),
    # ChiNext
    ("300001.SZ", "2009-10-30", "23.80", new(1), None, None),
    ("300001.SZ", "2009-11-02", "20.00", new(2), "22.00", "18.00"),
    ("300390.SZ", "2014-06-12", "10.00", new(1), None, None),
    ("300390.SZ", "2014-06-13", "10.00", new(1), "14.40", "6.40"),
    ("300390.SZ", "2014-06-16", "14.40", new(2), "15.84", "12.96"),
    ("300862.SZ", "2020-08-21", "10.00", new(1), "14.40", "6.40"),
    ("300861.SZ", "2020-08-24", "10.00", new(1), None, None),
    ("300861.SZ", "2020-08-28", "10.00", new(5), None, None),
    ("300861.SZ", "2020-08-31", "10.00", new(6), "12.00", "8.00"),
    ("300862.SZ", "2020-08-24", "10.00", new(2), "12.00", "8.00"),
    # STAR and Beijing
    ("688001.SH", "2019-07-22", "24.26", new(1), None, None),
    ("688001.SH", "2019-07-26", "60.00", new(5), None, None),
    ("688001.SH", "2019-07-29", "60.00", new(6), "72.00", "48.00"),
    ("920002.BJ", "2024-05-30", "10.00", new(1), None, None),
    ("920002.BJ", "2024-05-31", "10.00", new(2), "13.00", "7.00"),
    # delisting period: first session, later ones
    ("600087.SH", "2014-04-21", "0.83", leaving(1), "0.91", "0.75"),  # 0.913, 0.747
    ("600701.SH", "2020-12-30", "1.00", leaving(1), "1.10", "0.90"),
    ("600701.SH", "2020-12-31", "1.00", leaving(1), None, None),
    ("600701.SH", "2021-01-04", "1.00", leaving(2), "1.10", "0.90"),
    ("000018.SZ", "2019-11-18", "1.00", leaving(1), "1.10", "0.90"),
    ("000018.SZ", "2020-12-30", "1.00", leaving(1), "1.10", "0.90"),
    ("000018.SZ", "2020-12-31", "1.00", leaving(1), None, None),
    ("000018.SZ", "2021-01-04", "1.00", leaving(2), "1.10", "0.90"),
    ("300216.SZ", "2020-08-21", "1.00", leaving(3), "1.10", "0.90"),
    ("300216.SZ", "2020-12-31", "1.00", leaving(1), None, None),
    ("300216.SZ", "2021-01-04", "1.00", leaving(2), "1.20", "0.80"),
    ("688086.SH", "2020-12-30", "1.00", leaving(1), "1.20", "0.80"),
    ("688086.SH", "2023-06-15", "1.00", leaving(1), None, None),
    ("688086.SH", "2023-06-16", "1.00", leaving(2), "1.20", "0.80"),
    ("832317.BJ", "2023-06-15", "1.00", leaving(1), None, None),
    ("832317.BJ", "2023-06-16", "1.00", leaving(2), "1.30", "0.70"),
    # in a delisting period ST does not matter
    ("600701.SH", "2021-01-04", "1.00", ListingStatus(st=True, delisting_day=2), "1.10", "0.90"),
    # at least one tick: Shenzhen since 2011-02-28 (its own example: 0.04), Shanghai since 2023-04-10
    ("000001.SZ", "2011-02-25", "0.04", ListingStatus(), "0.04", "0.04"),
    ("000001.SZ", "2011-02-28", "0.04", ListingStatus(), "0.05", "0.03"),
    ("600000.SH", "2023-04-07", "0.04", ListingStatus(), "0.04", "0.04"),
    ("600000.SH", "2023-04-10", "0.04", ListingStatus(), "0.05", "0.03"),
    ("600087.SH", "2014-06-03", "0.04", leaving(30), "0.05", "0.03"),
    # never below one tick
    ("000001.SZ", "2024-01-02", "0.01", ListingStatus(), "0.02", "0.01"),
    ("159919.SZ", "2024-01-02", "4.000", ListingStatus(), "4.400", "3.600"),
    ("159915.SZ", "2020-08-21", "2.500", ListingStatus(), "2.750", "2.250"),
    ("159915.SZ", "2020-08-24", "2.500", ListingStatus(), "3.000", "2.000"),
]


def test_limit_prices(subtests):
    for code, on, pre_close, status, upper, lower in LIMITS:
        with subtests.test(code=code):
            book = Rulebook.mainland(funds={"159919.SZ": "stock", "159915.SZ": "stock_20"})
            expected = None if upper is None else (D(upper), D(lower))
            assert book.limits(code, day(on), D(pre_close), status) == expected


def test_american_shares_have_no_band():
    assert US.limits("AAPL", day("2024-01-02"), D("185.64"), new(1)) is None


@pytest.mark.parametrize(
    ("code", "on", "status", "what"),
    [
        ("600000.SH", "1996-12-13", ListingStatus(), "price band of main"),
        ("600000.SH", "1998-04-21", ST, "price band of main_st"),
        ("300001.SZ", "2009-10-29", ListingStatus(), "price band of chinext"),
        ("688001.SH", "2019-07-19", ListingStatus(), "price band of star"),
        ("830799.BJ", "2021-11-12", ListingStatus(), "price band of bse"),
        ("600000.SH", "2012-12-31", leaving(1), "delisting period"),
        ("000001.SZ", "2012-12-14", leaving(1), "delisting period"),
        ("588000.SH", "2020-08-20", ListingStatus(), "price band of fund_20_sh"),
        ("510050.SH", "2006-06-30", ListingStatus(), "tick of fund"),
    ],
)
def test_a_band_of_before_its_table_is_the_first_one_and_named(code, on, status, what):
    with assumptions() as found:
        CN.limits(code, day(on), D("10"), status)
    assert any(what in name for name in found)
    assert all(since > day(on) for since in found.values())


@pytest.mark.parametrize("status", [leaving(1), leaving(9)])
def test_a_band_that_depends_on_what_nobody_knows_is_an_error(status):
    with pytest.raises(BadWindow, match="depends on when the period began"):
        CN.limits("300216.SZ", day("2020-09-01"), D("10"), status)


@pytest.mark.parametrize("code", ["159915.SZ", "161725.SZ", "501018.SH"])
def test_a_fund_of_unknown_kind_asks_for_it(code):
    with pytest.raises(UnknownSymbol, match=f"funds={{'{code}': 'stock'}}"):
        CN.limits(code, day("2024-01-02"), D("1.000"))
    with pytest.raises(UnknownSymbol, match="one of stock, stock_20, bond, gold, commodity, cross_border"):
        CN.t_plus(code, day("2024-01-02"))
    assert CN.tick(code, day("2024-01-02"), D("1")) == D("0.001")
    assert CN.lots(code, day("2024-01-02")).first == 100


def test_what_is_said_of_a_fund_wins_over_its_code():
    book = Rulebook.mainland(funds={"588000.SH": "stock", "513100.SH": "stock"})
    assert book.limits("588000.SH", day("2024-01-02"), D("1.000")) == (D("1.100"), D("0.900"))
    assert (book.t_plus("513100.SH", day("2024-01-02")), CN.t_plus("513100.SH", day("2024-01-02"))) == (1, 0)


@pytest.mark.parametrize("pre_close", ["0", "-1"])
def test_a_previous_close_has_to_be_a_price(pre_close):
    with pytest.raises(BadOption, match="pre_close"):
        CN.limits("600000.SH", day("2024-01-02"), D(pre_close))


@pytest.mark.parametrize("count", [0, -3])
def test_sessions_of_a_status_count_from_one(count):
    for name in ("listing_day", "delisting_day"):
        with pytest.raises(BadOption, match=name):
            ListingStatus(**{name: count})


@pytest.mark.parametrize(
    ("code", "on", "first", "step", "cap"),
    [
        ("600000.SH", "2006-07-01", 100, 100, 1_000_000),
        ("510050.SH", "2006-07-01", 100, 100, 1_000_000),
        ("300001.SZ", "2009-10-30", 100, 100, 1_000_000),
        ("000001.SZ", "2024-01-02", 100, 100, 1_000_000),
        ("300750.SZ", "2020-08-21", 100, 100, 1_000_000),
        ("300750.SZ", "2020-08-24", 100, 100, 300_000),
        ("688981.SH", "2019-07-22", 200, 1, 100_000),
        ("920002.BJ", "2021-11-15", 100, 1, 1_000_000),
        ("510300.SH", "2024-01-02", 100, 100, 1_000_000),
        ("159915.SZ", "2024-01-02", 100, 100, 1_000_000),
        ("AAPL", "2024-01-02", 1, 1, None),
    ],
)
def test_lots_and_largest_orders(code, on, first, step, cap):
    book = CN if "." in code else US
    lots = book.lots(code, day(on))
    assert (lots.first, lots.step) == (first, step)
    assert [book.order_cap(code, day(on), order) for order in ("open", "close", "limit")] == [cap] * 3


@pytest.mark.parametrize(
    ("code", "on"),
    [
        ("600000.SH", "2006-06-30"),
        ("510050.SH", "2006-06-30"),
        ("300001.SZ", "2009-10-29"),
        ("688001.SH", "2019-07-19"),
        ("920002.BJ", "2021-11-12"),
    ],
)
def test_lots_and_caps_of_before_their_tables_are_named(code, on):
    assert {name.split(" of ")[0] for name in CN.assumed([code], day(on))} >= {"lots", "largest order"}


@pytest.mark.parametrize(
    ("code", "on", "price", "expected"),
    [
        ("600000.SH", "1996-12-16", "10", "0.01"),
        ("688981.SH", "2024-01-02", "50", "0.01"),
        ("920002.BJ", "2024-01-02", "0.5", "0.01"),
        ("510300.SH", "2006-07-03", "3", "0.001"),
        ("AAPL", "2006-01-31", "75.51", "0.01"),
        ("AAPL", "2006-01-31", "1.00", "0.01"),
        ("AAPL", "2006-01-31", "0.9999", "0.0001"),
    ],
)
def test_ticks(code, on, price, expected):
    assert (CN if "." in code else US).tick(code, day(on), D(price)) == D(expected)


@pytest.mark.parametrize(
    ("code", "on"), [("600000.SH", "1996-12-13"), ("510050.SH", "2006-06-30"), ("AAPL", "2006-01-30")]
)
def test_ticks_of_before_their_tables_are_named(code, on):
    found = (CN if "." in code else US).assumed([code], day(on))
    assert any(name.startswith("tick") for name in found)


@pytest.mark.parametrize(
    ("code", "on", "sessions"),
    [
        ("600000.SH", "1995-01-03", 1),
        ("688981.SH", "2024-01-02", 1),
        ("920002.BJ", "2024-01-02", 1),
        ("510300.SH", "2024-01-02", 1),
        ("588000.SH", "2024-01-02", 1),
        ("517090.SH", "2024-01-02", 1),
        ("511010.SH", "2015-01-19", 0),
        ("511880.SH", "2024-01-02", 0),
        ("518880.SH", "2015-01-19", 0),
        ("513100.SH", "2015-01-16", 1),
        ("513100.SH", "2015-01-19", 0),
        ("510900.SH", "2015-01-16", 1),
        ("510900.SH", "2015-01-19", 0),
        ("520830.SH", "2024-07-16", 0),
        ("159985.SZ", "2019-01-10", 1),
        ("159985.SZ", "2019-01-11", 0),
        ("501000.SH", "2020-01-17", 1),
        ("501000.SH", "2020-01-20", 0),
        ("159920.SZ", "2015-01-19", 0),
        ("159915.SZ", "2024-01-02", 1),
        ("AAPL", "1990-01-02", 0),
    ],
)
def test_the_session_of_resale(code, on, sessions):
    kinds = {
        "159985.SZ": "commodity",
        "501000.SH": "commodity",
        "159920.SZ": "cross_border",
        "159915.SZ": "stock_20",
    }
    book = Rulebook.mainland(funds=kinds) if "." in code else US
    assert book.t_plus(code, day(on)) == sessions


@pytest.mark.parametrize(
    ("code", "on"), [("600000.SH", "1994-12-30"), ("511010.SH", "2015-01-16"), ("518880.SH", "2015-01-16")]
)
def test_a_resale_that_no_text_speaks_of_is_named(code, on):
    with assumptions() as found:
        CN.t_plus(code, day(on))
    assert [name.split(" of ")[0] for name in found] == ["day"]


@pytest.mark.parametrize(
    ("book", "on", "orders"),
    [
        (CN, "2015-12-31", ()),
        (CN, "2016-01-04", ("close",)),
        (CN, "2016-01-05", ()),
        (CN, "2016-01-06", ()),
        (CN, "2016-01-07", ("close",)),
        (CN, "2016-01-08", ()),
        (US, "2016-01-04", ()),
    ],
)
def test_the_circuit_breaker_kept_the_close_from_trading(book, on, orders):
    assert tuple(order for order in ("open", "close", "limit") if book.halted(day(on), order)) == orders


@pytest.mark.parametrize(
    ("code", "side", "notional", "on", "commission", "stamp", "transfer"),
    [
        # 100,000 at 0.025 %, 0.1 %, 0.002 %; then each cut on its day
        ("600000.SH", "buy", "100000.00", "2022-04-28", "25.00", "0.00", "2.00"),
        ("600000.SH", "buy", "100000.00", "2022-04-29", "25.00", "0.00", "1.00"),
        ("300750.SZ", "sell", "100000.00", "2023-08-27", "25.00", "100.00", "1.00"),
        ("688981.SH", "sell", "100000.00", "2023-08-28", "25.00", "50.00", "1.00"),
        ("000001.SZ", "sell", "100000.00", "2015-08-01", "25.00", "100.00", "2.00"),
        # Beijing paid 0.0025 % until it was halved with the others
        ("920002.BJ", "buy", "100000.00", "2022-04-28", "25.00", "0.00", "2.50"),
        ("920002.BJ", "sell", "100000.00", "2022-04-29", "25.00", "100.00", "1.00"),
        # funds pay neither, on any day
        ("510300.SH", "sell", "100000.00", "2023-08-27", "25.00", "0.00", "0.00"),
        ("159915.SZ", "buy", "100000.00", "2010-01-04", "25.00", "0.00", "0.00"),
        # 20,000 * 0.025 % is exactly the minimum; below it the minimum is paid
        ("600000.SH", "buy", "20000.00", "2024-01-02", "5.00", "0.00", "0.20"),
        ("600000.SH", "buy", "19999.00", "2024-01-02", "5.00", "0.00", "0.20"),
        ("600000.SH", "buy", "20020.00", "2024-01-02", "5.01", "0.00", "0.20"),
        # 1,010 * 0.05 % = 0.505 and 1,500 * 0.001 % = 0.015: halves go up
        ("600000.SH", "sell", "1010.00", "2024-01-02", "5.00", "0.51", "0.01"),
        ("600000.SH", "sell", "1500.00", "2024-01-02", "5.00", "0.75", "0.02"),
    ],
)
def test_mainland_fees(code, side, notional, on, commission, stamp, transfer):  # noqa: PLR0917
    charges = CN.charges(code, side, 100, D(notional), day(on))
    assert (charges.commission, charges.stamp_duty, charges.transfer_fee) == (
        D(commission),
        D(stamp),
        D(transfer),
    )
    assert charges.regulatory == charges.slippage == 0
    assert charges.total == D(commission) + D(stamp) + D(transfer)


@pytest.mark.parametrize(
    ("code", "side", "shares", "notional", "on", "stamp", "transfer"),
    [
        # both sides paid: 0.2 % until 2005-01-23, 0.1 %, 0.3 % from 2007-05-30, 0.1 % from 2008-04-24
        ("000001.SZ", "buy", 1000, "10000.00", "2005-01-21", "20.00", "0.00"),
        ("000001.SZ", "buy", 1000, "10000.00", "2005-01-24", "10.00", "0.00"),
        ("000001.SZ", "sell", 1000, "10000.00", "2007-05-29", "10.00", "0.00"),
        ("000001.SZ", "sell", 1000, "10000.00", "2007-05-30", "30.00", "0.00"),
        ("000001.SZ", "buy", 1000, "10000.00", "2008-04-23", "30.00", "0.00"),
        ("000001.SZ", "buy", 1000, "10000.00", "2008-04-24", "10.00", "0.00"),
        ("000001.SZ", "buy", 1000, "10000.00", "2008-09-19", "0.00", "0.00"),
        # Shanghai: 1 CNY for 1,000 shares, at least 1; 0.75 from June 2012, 0.60 from September
        ("600000.SH", "buy", 12300, "50000.00", "2006-07-03", "50.00", "12.30"),
        ("600000.SH", "sell", 100, "1000.00", "2011-01-04", "1.00", "1.00"),
        ("600000.SH", "buy", 12300, "50000.00", "2012-06-01", "0.00", "9.23"),
        ("600000.SH", "buy", 12300, "50000.00", "2015-07-31", "0.00", "7.38"),
        ("600000.SH", "buy", 12300, "50000.00", "2015-08-03", "0.00", "1.00"),
    ],
)
def test_mainland_fees_of_earlier_years(code, side, shares, notional, on, stamp, transfer):  # noqa: PLR0917
    charges = CN.charges(code, side, shares, D(notional), day(on))
    assert (charges.stamp_duty, charges.transfer_fee) == (D(stamp), D(transfer))


def test_a_fee_of_before_its_table_is_the_first_one_and_named():
    assert CN.assumed(["600000.SH"], day("2015-07-31")) == {}
    assert CN.assumed(["600000.SH"], day("2004-12-31"))["transfer fee"] == day("2005-01-01")
    assert CN.assumed(["920002.BJ"], day("2021-11-12"))["transfer fee"] == day("2021-11-15")
    assert CN.charges("920002.BJ", "buy", 100, D("100000.00"), day("2021-11-15")).transfer_fee == D("2.50")


@pytest.mark.parametrize(
    ("on", "before", "since"),
    [
        ("2012-02-21", "19.20", "18.00"),
        ("2012-04-01", "18.00", "22.40"),
        ("2013-05-25", "22.40", "17.40"),
        ("2014-03-18", "17.40", "22.10"),
        ("2015-02-14", "22.10", "18.40"),
        ("2016-02-16", "18.40", "21.80"),
        ("2017-07-04", "21.80", "23.10"),
        ("2018-05-22", "23.10", "13.00"),
        ("2019-04-16", "13.00", "20.70"),
        ("2020-02-18", "20.70", "22.10"),
        ("2021-02-25", "22.10", "5.10"),
        ("2022-05-14", "5.10", "22.90"),
        ("2023-02-27", "22.90", "8.00"),
        ("2024-05-22", "8.00", "27.80"),
        ("2025-05-14", "27.80", "0.00"),
        ("2026-04-04", "0.00", "20.60"),
    ],
)
def test_the_sec_takes_its_rate_of_a_million(on, before, since):
    rates = [
        US.charges("AAPL", "sell", 0, D(1_000_000), day(on) - dt.timedelta(days=ago)).total for ago in (1, 0)
    ]
    assert rates == [D(before), D(since)]


@pytest.mark.parametrize(
    ("on", "before", "since"),
    [
        # 10,000 shares, and more than any cap needs
        ("2012-03-01", ("0.90", "4.50"), ("0.95", "4.75")),
        ("2012-07-01", ("0.95", "4.75"), ("1.19", "5.95")),
        ("2022-01-01", ("1.19", "5.95"), ("1.30", "6.49")),
        ("2023-01-01", ("1.30", "6.49"), ("1.45", "7.27")),
        ("2024-01-01", ("1.45", "7.27"), ("1.66", "8.30")),
        ("2026-01-01", ("1.66", "8.30"), ("1.95", "9.79")),
        ("2026-10-01", ("1.95", "9.79"), ("0.00", "0.00")),
        ("2027-01-01", ("0.00", "0.00"), ("1.95", "9.79")),
    ],
)
def test_finra_takes_its_rate_of_a_share_up_to_its_cap(on, before, since):
    for ago, expected in ((1, before), (0, since)):
        then = day(on) - dt.timedelta(days=ago)
        fees = [US.charges("AAPL", "sell", shares, D(0), then).total for shares in (10_000, 1_000_000)]
        assert fees == [D(fee) for fee in expected]


@pytest.mark.parametrize(
    ("quantity", "notional", "on", "regulatory"),
    [
        (1000, "1000000.00", "2024-05-21", "8.17"),  # 8.00, and 0.166 up
        (50_000, "0.00", "2025-06-02", "8.30"),  # 50,000 * 0.000166 is the cap
        (1, "1.00", "2024-06-03", "0.02"),  # a part of a cent is a cent, for each of the two
        (D("0.5"), "100.00", "2024-06-03", "0.02"),
    ],
)
def test_american_fees_of_a_sale(quantity, notional, on, regulatory):
    charges = US.charges("AAPL", "sell", quantity, D(notional), day(on))
    assert (charges.regulatory, charges.total) == (D(regulatory), D(regulatory))


def test_american_buys_pay_the_broker_alone():
    book = Rulebook.us(commission_per_share="0.005", commission_bps=2, commission_min=1)
    buy = book.charges("AAPL", "buy", 300, D("60000.00"), day("2024-06-03"))
    assert (buy.commission, buy.regulatory) == (D("13.50"), 0)  # 1.50 + 12.00
    small = book.charges("AAPL", "buy", 1, D("200.00"), day("1999-01-04"))
    assert small.total == D("1.00")
    assert US.assumed(["AAPL"], day("2006-02-01")) == {}
    assert set(US.assumed(["AAPL"], day("2004-01-02"))) == {
        "tick",
        "FINRA activity fee",
        "SEC section 31 fee",
    }
    assert book.charges("AAPL", "sell", 1, D("200.00"), day("2011-07-01")).regulatory == D("0.02")


def test_slippage_is_cash_on_both_sides():
    for book in (Rulebook.mainland(slippage_bps="7.5"), Rulebook.zero_cost(slippage_bps="7.5")):
        for side in ("buy", "sell"):
            # 12,340.00 * 7.5 / 10000 = 9.255
            assert book.charges("600000.SH", side, 100, D("12340.00"), day("2024-01-02")).slippage == D(
                "9.26"
            )


def test_the_brokers_commission_can_be_given():
    book = Rulebook.mainland(commission_rate=0.0001, commission_min=0)
    assert book.charges("600000.SH", "buy", 100, D("10000.00"), day("2024-01-02")).commission == D("1.00")


@pytest.mark.parametrize(
    ("make", "options", "name"),
    [
        (Rulebook.mainland, {"commission_rate": -0.1}, "commission_rate"),
        (Rulebook.mainland, {"commission_rate": "0.00301"}, "commission_rate=0.00301; the law"),
        (Rulebook.mainland, {"commission_rate": "much"}, "commission_rate"),
        (Rulebook.mainland, {"commission_min": -1}, "commission_min"),
        (Rulebook.mainland, {"slippage_bps": -1}, "slippage_bps"),
        (Rulebook.mainland, {"slippage_bps": 10_000}, "slippage_bps"),
        (Rulebook.mainland, {"volume_share": 0}, "volume_share"),
        (Rulebook.mainland, {"volume_share": "1.01"}, "volume_share"),
        (Rulebook.mainland, {"funds": {"159915.SZ": "etf"}}, "funds"),
        (Rulebook.mainland, {"funds": {"600000.SH": "stock"}}, "funds"),
        (Rulebook.us, {"commission_per_share": -1}, "commission_per_share"),
        (Rulebook.us, {"commission_bps": -1}, "commission_bps"),
        (Rulebook.us, {"commission_min": float("nan")}, "commission_min"),
        (Rulebook.zero_cost, {"market": "hk"}, "market"),
        (Rulebook.zero_cost, {"fractional": True}, "fractional"),
    ],
)
def test_options_out_of_range_are_refused(make, options, name):
    with pytest.raises(BadOption, match=name):
        make(**options)


def test_the_largest_legal_commission_is_accepted():
    book = Rulebook.mainland(commission_rate="0.003")
    assert book.charges("600000.SH", "buy", 100, D("10000.00"), day("2024-01-02")).commission == D("30.00")


def test_zero_cost_takes_no_fee_and_keeps_the_rules():
    book = Rulebook.zero_cost()
    assert (book.name, book.market, book.currency) == ("zero_cost", "cn", "CNY")
    assert book.charges("600000.SH", "sell", 100, D("100000.00"), day("2001-01-02")).total == 0
    assert book.limits("600000.SH", day("2024-01-02"), D("10.00")) == (D("11.00"), D("9.00"))
    assert Rulebook.zero_cost(funds={"159915.SZ": "stock_20"}).t_plus("159915.SZ", day("2024-01-02")) == 1


def test_parts_of_american_shares():
    book = Rulebook.zero_cost("us", fractional=True)
    assert (book.market, book.currency, book.fraction_step) == ("us", "USD", D("0.000000001"))
    assert (book.lots("AAPL", day("2024-01-02")).first, book.lots("AAPL", day("2024-01-02")).step) == (
        D("1e-9"),
    ) * 2
    assert Rulebook.us(fractional=True).fraction_step == D("1e-9")
    assert CN.fraction_step == US.fraction_step == 1


def test_the_text_of_a_rulebook_is_its_identity():
    books = [
        CN,
        US,
        Rulebook.zero_cost(),
        Rulebook.zero_cost("us"),
        Rulebook.zero_cost(slippage_bps=1),
        Rulebook.zero_cost("us", fractional=True),
        Rulebook.mainland(commission_rate="0.0003"),
        Rulebook.mainland(commission_min=0),
        Rulebook.mainland(slippage_bps=1),
        Rulebook.mainland(volume_share="0.1"),
        Rulebook.mainland(funds={"159915.SZ": "stock_20"}),
        Rulebook.mainland(funds={"159915.SZ": "stock"}),
        Rulebook.us(commission_per_share="0.005"),
        Rulebook.us(commission_bps=1),
        Rulebook.us(commission_min=1),
        Rulebook.us(fractional=True),
        Rulebook.us(slippage_bps=1),
        Rulebook.us(volume_share="0.1"),
    ]
    assert len({repr(book) for book in books}) == len(set(books)) == len(books)
    same = Rulebook.mainland(commission_rate=0.00025, commission_min=D("5"), slippage_bps="0.00")
    assert repr(same) == repr(CN)


def test_the_text_of_a_rulebook_is_the_same_in_another_process():
    code = (
        "from quantgraph.market import Rulebook;"
        "print(repr(Rulebook.mainland(funds={'159919.SZ': 'stock', '159915.SZ': 'stock_20'})))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    book = Rulebook.mainland(funds={"159915.SZ": "stock_20", "159919.SZ": "stock"})
    assert done.stdout.strip() == repr(book)


JUNE = day("2024-06-03")
SAME_DAY = ["2024-06-03", "20240603", dt.datetime(2024, 6, 3), pd.Timestamp("2024-06-03")]


@pytest.mark.parametrize("when", SAME_DAY, ids=repr)
@pytest.mark.parametrize(
    "question",
    [
        lambda book, when: book.lots("688981.SH", when),
        lambda book, when: book.tick("510300.SH", when, D(4)),
        lambda book, when: book.limits("600000.SH", when, D("1.15")),
        lambda book, when: book.order_cap("300750.SZ", when),
        lambda book, when: book.t_plus("600000.SH", when),
        lambda book, when: book.halted(when, "close"),
        lambda book, when: book.charges("600000.SH", "sell", 100, D(1000), when),
    ],
)
def test_a_day_may_be_a_date_or_a_timestamp_or_text(question, when):
    assert question(CN, when) == question(CN, JUNE)


@pytest.mark.parametrize(
    "when", ["Oct 9", "2025-13-40", "2025", pd.Timestamp("2024-06-03 15:00"), pd.NaT, None, 1.5]
)
def test_what_is_no_day_is_refused(when):
    for question in (
        lambda: CN.lots("600000.SH", when),
        lambda: CN.charges("600000.SH", "buy", 100, D(1000), when),
        lambda: US.tick("AAPL", when, D(1)),
    ):
        with pytest.raises(BadOption, match=r"day=.* is not a (plain )?date"):
            question()


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"side": "BUY"}, "side='BUY' must be 'buy' or 'sell'"),
        ({"side": None}, "side=None"),
        ({"quantity": -100}, "quantity=-100 must be >= 0"),
        ({"quantity": None}, "quantity=None is not a finite number"),
        ({"notional": D("-0.01")}, r"notional=-0\.01 must be >= 0"),
        ({"notional": D("NaN")}, "notional=.*is not a finite number"),
        ({"notional": float("nan")}, "notional=nan is not a finite number"),
        ({"notional": D("Infinity")}, "notional=.*is not a finite number"),
        ({"notional": "much"}, "notional='much' is not a finite number"),
    ],
)
@pytest.mark.parametrize(
    ("book", "symbol"), [(CN, "600000.SH"), (US, "AAPL"), (Rulebook.zero_cost(), "600000.SH")]
)
def test_charges_are_asked_with_a_side_and_amounts(book, symbol, options, text):
    asked = {"side": "buy", "quantity": 100, "notional": D(1000), **options}
    with pytest.raises(BadOption, match=text):
        book.charges(symbol, day=JUNE, **asked)


def test_floats_are_read_as_they_are_written():
    # 1.15 * 1.1 = 1.265 up to 1.27, 1.15 * 0.9 = 1.035 up to 1.04
    assert CN.limits("600000.SH", JUNE, 1.15) == (D("1.27"), D("1.04"))
    # 0.025 % of 100,000.00 = 25.00, a thousandth of a percent = 1.00, 0.05 % = 50.00
    assert CN.charges("600000.SH", "sell", np.int64(10_000), 100_000.0, JUNE).total == D("76.00")
    assert US.tick("AAPL", JUNE, 0.5) == D("0.0001")
    for price in (float("nan"), D("NaN"), None):
        with pytest.raises(BadOption, match=r"pre_close=.*is not a finite number"):
            CN.limits("600000.SH", JUNE, price)


@pytest.mark.parametrize("name", ["commission_rate", "commission_min", "slippage_bps"])
def test_an_option_without_a_number_is_refused(name):
    with pytest.raises(BadOption, match=f"{name}=None is not a finite number"):
        Rulebook.mainland(**{name: None})
