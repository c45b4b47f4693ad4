"""Against marina-rules, a table of the same exchanges by other hands: where it speaks, we say the same."""

import datetime as dt
from decimal import Decimal

import marina_rules as marina
import pytest

from quantgraph.errors import BadWindow
from quantgraph.market.rules._order_rules import ListingStatus, assumptions
from quantgraph.market.rules._rulebook import Rulebook

D = Decimal
BOOK = Rulebook.mainland(
    funds={
        "159915.SZ": "stock_20",
        "159919.SZ": "stock",
        "159920.SZ": "cross_border",
        "159985.SZ": "commodity",
        "501000.SH": "commodity",
    }
)
PRICES = ("0.04", "0.11", "1.15", "3.33", "10.05", "33.34", "52.03", "1688.88")
SH, SZ, BJ = "XSHG", "XSHE", "BJSE"
LISTED, SECOND = ListingStatus(listing_day=1), ListingStatus(delisting_day=2)
FIRST = ListingStatus(delisting_day=1)

BANDS = [
    ("600000.SH", "main_board", SH, ListingStatus()),
    ("000001.SZ", "main_board", SZ, ListingStatus()),
    ("600000.SH", "st_main", SH, ListingStatus(st=True)),
    ("000001.SZ", "st_main", SZ, ListingStatus(st=True)),
    ("300750.SZ", "chinext", SZ, ListingStatus()),
    ("300750.SZ", "st_chinext", SZ, ListingStatus(st=True)),
    ("688981.SH", "star", SH, ListingStatus()),
    ("688981.SH", "st_star", SH, ListingStatus(st=True)),
    ("920002.BJ", "bse", BJ, ListingStatus()),
    ("920002.BJ", "st_bse", BJ, ListingStatus(st=True)),
    ("600000.SH", "ipo_day1_main", SH, LISTED),
    ("000001.SZ", "ipo_day1_main", SZ, LISTED),
    ("600000.SH", "ipo_first5_main", SH, LISTED),
    ("000001.SZ", "ipo_first5_main", SZ, LISTED),
    ("300750.SZ", "ipo_first5_chinext", SZ, LISTED),
    ("688981.SH", "ipo_first5_star", SH, LISTED),
    ("920002.BJ", "ipo_day1_bse", BJ, LISTED),
    ("600000.SH", "delisting_day1", SH, FIRST),
    ("000001.SZ", "delisting_day1", SZ, FIRST),
    ("300750.SZ", "delisting_day1", SZ, FIRST),
    ("688981.SH", "delisting_day1_star", SH, FIRST),
    ("920002.BJ", "delisting_day1_bse", BJ, FIRST),
    ("600000.SH", "delisting", SH, SECOND),
    ("000001.SZ", "delisting", SZ, SECOND),
    ("300750.SZ", "delisting_chinext", SZ, SECOND),
    ("688981.SH", "delisting_star", SH, SECOND),
    ("920002.BJ", "delisting_bse", BJ, SECOND),
    ("510300.SH", "etf", SH, ListingStatus()),
    ("159919.SZ", "etf", SZ, ListingStatus()),
    ("588000.SH", "etf_20pct", SH, ListingStatus()),
    ("159915.SZ", "etf_20pct", SZ, ListingStatus()),
]


def boundaries(rules):
    """Each day on which a record of these rules begins, the day before, and a day of today's rules."""
    starts = {dt.date.fromisoformat(r.effective_from) for r in marina.records() if r.rule in rules}
    return sorted(
        {day - dt.timedelta(days=days) for day in starts for days in (0, 1)} | {dt.date(2026, 11, 2)}
    )


DAYS = boundaries({"price_limit_pct", "tick_size", "limit_price_min_tick"})


def spoken(scope, market, day, price):
    """What marina-rules says: limits, None for no band, or nothing (False)."""
    try:
        limits = marina.limit_price(float(price), scope, day.isoformat(), market)
    except KeyError:
        return False
    return limits and tuple(D(repr(limit)) for limit in limits)


@pytest.mark.parametrize(("code", "scope", "market", "status"), BANDS)
def test_limits_agree_on_both_sides_of_every_change(code, scope, market, status):
    compared = 0
    for day in DAYS:
        if "etf" in scope and day < dt.date(2006, 7, 1):
            continue  # marina-rules puts in a tick of its own there, and says so
        for price in PRICES:
            expected = spoken(scope, market, day, price)
            if expected is not False:
                assert BOOK.limits(code, day, D(price), status) == expected, (day, price)
                compared += 1
    assert compared >= len(PRICES)


def not_known(ask):
    """Whether a question is refused, or answered by a rule of later."""
    with assumptions() as found:
        try:
            ask()
        except BadWindow:
            return True
    return bool(found)


@pytest.mark.parametrize(
    ("code", "scope", "market", "status"), [case for case in BANDS if "ipo" not in case[1]]
)
def test_we_are_silent_where_marina_rules_is(code, scope, market, status):
    # One of its scopes holds two boards; the main board's own rule is known for those four months.
    known = (dt.date(2020, 8, 24), dt.date(2020, 12, 30)) if (code, status) == ("000001.SZ", FIRST) else ()
    for day in DAYS:
        if spoken(scope, market, day, "10.00") is False and not (known and known[0] <= day <= known[1]):
            if scope == "etf_20pct" and market == SZ and day < dt.date(2020, 8, 24):
                continue  # such a fund was one of all funds until then
            assert not_known(lambda day=day: BOOK.limits(code, day, D("10.00"), status)), day


def test_fees_agree_on_both_sides_of_every_change():
    compared = 0
    for day in boundaries({"stamp_duty_sell", "transfer_fee_each_side"}):
        for name, rule in (("stamp_duty", "stamp_duty_sell"), ("transfer_fee", "transfer_fee_each_side")):
            try:
                rate = D(repr(marina.rule_at(rule, day.isoformat())))
                transfer_is_known = marina.rule_at("transfer_fee_each_side", day.isoformat())
            except KeyError:
                continue
            charges = BOOK.charges("600000.SH", "sell", 100, D("10000000.00"), day)
            assert getattr(charges, name) == 10_000_000 * rate, day
            compared += bool(transfer_is_known)
    assert compared >= 10


def test_the_legal_commission_agrees():
    cap, least = (
        marina.rule_at(rule, "2026-11-02") for rule in ("commission_cap", "commission_min_per_order_cny")
    )
    day = dt.date(2026, 11, 2)
    book = Rulebook.mainland(commission_rate=cap)
    assert book.charges("600000.SH", "buy", 100, D("100000.00"), day).commission == 100_000 * D(repr(cap))
    assert book.charges("600000.SH", "buy", 100, D("100.00"), day).commission == least


@pytest.mark.parametrize(
    ("code", "scope", "market"),
    [
        ("600000.SH", "stock", SH),
        ("300750.SZ", "stock", SZ),
        ("510300.SH", "etf", SH),
        ("159919.SZ", "etf", SZ),
        ("588000.SH", "etf_20pct", SH),
        ("511010.SH", "etf_bond", SH),
        ("511880.SH", "etf_money", SH),
        ("518880.SH", "etf_gold", SH),
        ("513100.SH", "etf_crossborder", SH),
        ("159920.SZ", "etf_crossborder", SZ),
        ("501000.SH", "etf_commodity", SH),
        ("159985.SZ", "etf_commodity", SZ),
    ],
)
def test_the_session_of_resale_agrees(code, scope, market):
    for day in boundaries({"min_holding_days"}):
        try:
            expected = marina.rule_at("min_holding_days", day.isoformat(), scope, market)
        except KeyError:
            assert not_known(lambda day=day: BOOK.t_plus(code, day)), day
        else:
            assert BOOK.t_plus(code, day) == expected, day


@pytest.mark.parametrize(("code", "scope", "market"), [("600000.SH", "stock", SH), ("159919.SZ", "etf", SZ)])
def test_ticks_agree(code, scope, market):
    for day in (dt.date(2006, 7, 1), dt.date(2011, 2, 28), dt.date(2026, 11, 2)):
        assert BOOK.tick(code, day, D(10)) == D(repr(marina.tick_size(scope, day.isoformat(), market)))
