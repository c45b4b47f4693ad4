"""The facts at an open: arithmetic by hand on small bars, the sources' own numbers on real ones, nothing later."""

from datetime import date
from decimal import Decimal
from math import sqrt

import pandas as pd
import pytest

from quantgraph.agents.loop._facts import facts_at_open, headlines
from quantgraph.broker import Account, DecisionContext, Fill, Order, RunContext, SessionResult
from quantgraph.broker.accounts import Position
from quantgraph.market import Moment, Rulebook
from quantgraph.state import DataState, Record
from quantgraph.tools import ToolContext

CLOSES = [100.0] * 40 + [100.0, 110.0] * 10 + [121.0, 999.0]


def context(market, *, history=(), account=None, rules=None, day=-1):
    run = RunContext(history=lambda: list(history))
    account = account or Account.opening(10_000)
    return DecisionContext(market.view(day), account, rules=rules or Rulebook.us(), run=run)


def only(market, **given):
    return next(iter(facts_at_open(context(market, **given)).symbols.values()))


def test_returns_volatility_and_the_volume_ratio_are_those_of_the_sessions_that_are_over(small_market):
    volumes = [1.0] * 60 + [11.0, 5_000.0]
    market = small_market({"AAPL": CLOSES}, open={"AAPL": [*CLOSES[:-1], 60.0]}, vol={"AAPL": volumes})
    facts = only(market)
    # The last close is 121, those before it 110, 100, 110, …: 110 five before, 100 twenty and sixty before.
    assert facts.returns == pytest.approx({1: 10.0, 5: 10.0, 20: 21.0, 60: 21.0})
    assert (facts.open, facts.last_close) == (60.0, 121.0)
    # Of the last 20 daily returns eleven are of 10 %, and nine from 110 to 100.
    up, down = 10.0, -100 / 11
    mean = (11 * up + 9 * down) / 20
    spread = sqrt((11 * (up - mean) ** 2 + 9 * (down - mean) ** 2) / 19)
    assert facts.volatility == pytest.approx(spread)
    assert facts.volume_ratio == pytest.approx(11 / ((19 * 1 + 11) / 20))


def test_a_split_and_a_dividend_change_no_return_and_a_split_no_volume_ratio(small_market):
    closes = [40.0] * 2 + [41.0] * 18 + [22.0, 99.0]
    volumes = [10.0] * 20 + [20.0, 1.0]
    market = small_market({"AAPL": closes}, open={"AAPL": [*closes[:-1], 23.0]}, vol={"AAPL": volumes})
    market.act("split", "AAPL", 20, 2.0)
    facts = only(market)
    assert facts.returns[20] == pytest.approx(10.0)  # from 40 to 44
    assert facts.volume_ratio == pytest.approx(1.0)
    market.act("dividend", "AAPL", 21, 2.0, declared=1)  # 22 at the close is 20 after it
    assert only(market).last_close == pytest.approx(20.0)
    assert only(market).returns[20] == pytest.approx(10.0)
    # The closes are of the same prices: 41 is 20.5 after the split, and 18.64 after a dividend of 2 of 22.
    assert only(market).closes == pytest.approx([*[41 / 2 * 20 / 22] * 6, 20.0])


def test_too_few_sessions_and_an_unknown_open_are_none(small_market):
    market = small_market({"AAPL": [10.0, 11.0, None], "JPM": [10.0, 11.0, 12.0]})
    facts = facts_at_open(context(market)).symbols["AAPL"]
    assert facts.returns == {1: pytest.approx(10.0), 5: None, 20: None, 60: None}
    unknown = (facts.open, facts.volatility, facts.volume_ratio, facts.least_shares, facts.least_buy)
    assert unknown == (None,) * 5
    assert (facts.price_earnings, facts.dividend_yield, facts.range_place, facts.name) == (
        None,
        None,
        None,
        "",
    )


def test_returns_count_the_sessions_of_the_data_also_where_a_symbol_has_no_bar(small_market):
    """Six sessions are missing of one symbol: both count to the same session, 20 before the last close."""
    closes = [float(100 + number) for number in range(30)]
    gap = [None if 10 <= number < 16 else close for number, close in enumerate(closes)]
    late = [None] * 10 + closes[10:]
    market = small_market({"A": closes, "GAP": gap, "HALF": [*gap[:20], *[None] * 9, 1.0], "LATE": late})
    full, missing, silent, young = facts_at_open(context(market)).symbols.values()
    # The eve is session 28 with 128; 5 before it is 23, 20 before it is 8: its bar is before the gap.
    assert full.returns[20] == missing.returns[20] == pytest.approx(100 * (128 / 108 - 1))
    assert full.returns[5] == missing.returns[5] == young.returns[5] == pytest.approx(100 * (128 / 123 - 1))
    assert young.returns[20] is None
    # 14 sessions back is within the gap: counted from 109, the last close before it; from 119, without a change.
    steps = [100 * (new / old - 1) for old, new in zip([*closes[8:9], 109.0], [109.0, 116.0], strict=True)]
    daily = [steps[0], *[0.0] * 6, steps[1], *[100 * (new / (new - 1) - 1) for new in closes[17:29]]]
    mean = sum(daily) / 20
    assert missing.volatility == pytest.approx(sqrt(sum((each - mean) ** 2 for each in daily) / 19))
    assert (silent.returns[5], silent.last_close, silent.volume_ratio) == (0.0, 119.0, None)
    assert silent.returns[20] == pytest.approx(100 * (119 / 108 - 1))


def test_the_day_of_an_older_price_to_earnings_is_said(small_market):
    market = small_market({"600000.SH": [10.0] * 4, "600001.SH": [10.0] * 4})
    market.indicators("pe_ttm", {"600000.SH": [7.0, 8.0, None, 9.0], "600001.SH": [5.0, 5.0, 6.0, 9.0]})
    old, fresh = facts_at_open(context(market, rules=Rulebook.mainland())).symbols.values()
    assert (old.price_earnings, old.price_earnings_day) == (8.0, f"{market.days[1]:%Y-%m-%d}")
    assert (fresh.price_earnings, fresh.price_earnings_day) == (6.0, None)


def test_versions_of_one_title_are_one_story(small_market):
    market = small_market({"BA": [1.0] * 9})
    on = [each.to_pydatetime() for each in market.days]
    titles = (
        "Boeing wins order for 50 jets",
        "Boeing Wins Order, for 50 Jets!",
        "Boeing wins order for 50 jets - Reuters",
        "BOEING wins order for '50' jets | Yahoo Finance",
        "Boeing wins order for 60 jets",
        "Boeing shares after the open - up 5%",
        "Boeing shares after the open - down 3%",
    )
    market.record(*[news("BA", on[number], title) for number, title in enumerate(titles)])
    shown = [each.title for each in headlines(market.view(), ["BA"], most=9, days=14)]
    assert shown == [*reversed(titles[3:])]


def test_the_place_in_the_range_is_that_of_252_sessions(small_market):
    closes = [50.0] + [20.0] + [40.0] * 250 + [35.0, 1.0]
    market = small_market({"AAPL": closes})
    assert only(market).range_place == pytest.approx(75.0)  # of 20 to 40; the 50 is the 253rd
    assert only(market, day=-3).range_place is None


def test_what_is_held_and_the_least_buy_follow_the_account_and_the_rules(small_market):
    market = small_market({"600000.SH": [10.0, 12.0], "688981.SH": [50.0, 50.0]})
    market.record(Record("name", date(2020, 1, 1), "688981.SH", {"name": "中芯国际"}))
    held = Position(quantity=500, sellable=300, cost=Decimal("5050.00"), entered=market.days[0])
    account = Account(cash=Decimal(4_000), positions={"600000.SH": held}, receivables=())
    facts = facts_at_open(
        context(market, account=account, rules=Rulebook.mainland()), ["688981.SH", "600000.SH"]
    )
    assert list(facts.symbols) == ["688981.SH", "600000.SH"]
    star, bank = facts.symbols.values()
    assert (star.least_shares, star.least_buy, star.name, star.held) == (200, 10_000.0, "中芯国际", 0)
    assert (bank.held, bank.sellable, bank.average_cost, bank.since) == (500, 300, 10.1, market.days[0])
    assert (bank.value, bank.weight, facts.account.value) == (6_000.0, 60.0, Decimal("10000.00"))


def result(market, day, account, *fills):
    return SessionResult(
        session=market.days[day], decider="x", account=account, outcomes=fills, marks={}, value=account.cash
    )


def test_the_account_is_held_against_its_start_and_equal_parts(small_market):
    """Bought at the first open, 100 and 20: one has doubled by its split, the other lost half."""
    market = small_market(
        {"AAPL": [90.0, 100.0, 100.0, 100.0], "BA": [30.0, 20.0, 15.0, 10.0], "C": [None, None, 1.0, 1.0]}
    )
    market.act("split", "AAPL", 2, 2.0)
    order = Order(symbol="AAPL", side="buy", quantity=10, sequence=1)
    free = {"commission": Decimal(0), "stamp_duty": Decimal(0), "transfer_fee": Decimal(1)}
    fill = Fill(
        order=order,
        session=market.days[1],
        side="buy",
        price=Decimal(100),
        quantity=10,
        notional=Decimal(1_000),
        **free,
    )
    held = Position(quantity=10, sellable=10, cost=Decimal(1_001), entered=market.days[1])
    first = result(market, 1, Account(cash=Decimal(8_999), positions={"AAPL": held}), fill)
    now = Account(
        cash=Decimal(8_999),
        positions={"AAPL": Position(quantity=20, sellable=20, cost=Decimal(1_001), entered=market.days[1])},
    )
    facts = facts_at_open(context(market, history=[first], account=now)).account
    assert (facts.started, facts.value) == (market.days[1], Decimal("10999.00"))
    assert facts.own_return == pytest.approx(100 * (10_999 / 10_000 - 1))
    assert facts.equal_parts == pytest.approx(100 * ((200 / 100 - 1) + (10 / 20 - 1)) / 2)
    opened = facts_at_open(context(market, account=now)).account
    assert (opened.started, opened.own_return, opened.equal_parts) == (None, None, None)


def news(symbol, when, title, description=None):
    return Record("news", when, symbol, {"title": title, "description": description})


def test_headlines_name_the_symbol_first_then_are_newest_and_stand_once(small_market):
    market = small_market({"BA": [1.0] * 20, "V": [1.0] * 20})
    on = [each.to_pydatetime() for each in market.days]
    market.record(
        news("BA", on[0], "Boeing of long ago"),
        news("BA", on[15], "Boeing and Airbus"),
        news("BA", on[16], "Jets", "The Boeing Company (NYSE:BA) and others"),
        news("V", on[17], "Dow  drops"),
        news("BA", on[18], "Dow drops", "later words"),
        news("V", on[18], "V for victory"),
        news("V", on[14], "Cards", "as Visa (V) said"),
        news("V", on[19].replace(hour=1), "Today"),
    )  # fmt: skip
    view = market.store.view(Moment(market.days[-1], "open"), market.ref, "previous_day")
    shown = headlines(view, ["V", "BA"], most=2, days=10)
    assert [(each.title, each.symbols, each.named) for each in shown] == [
        ("Dow drops", ("V", "BA"), ()),
        ("Jets", ("BA",), ("BA",)),
        ("Boeing and Airbus", ("BA",), ("BA",)),
        ("Cards", ("V",), ("V",)),
    ]
    one = headlines(view, ["BA"], most=3, days=10)
    assert [each.title for each in one] == ["Dow drops", "Jets", "Boeing and Airbus"]
    assert (one[0].text, one[0].day) == ("later words", f"{on[18]:%Y-%m-%d}")
    both = headlines(view, ["BA", "V"], most=9, days=10)
    assert [each.symbols for each in both if each.title == "Dow drops"] == [("BA", "V")]
    assert "Today" not in {each.title for each in both}


def test_the_order_of_the_symbols_changes_no_headline(small_market):
    market = small_market({name: [1.0] * 9 for name in "ABCDE"})
    day = market.days[5].to_pydatetime()
    market.record(*[news(name, day, f"{title} shares") for name in "ABCDE" for title in ("Up", "Down", name)])
    one, other = (headlines(market.view(), names, most=2, days=9) for names in ("ABCDE", "DBEAC"))
    assert [each.title for each in one] == [each.title for each in other]
    assert [sorted(each.symbols) for each in one] == [sorted(each.symbols) for each in other]


def test_numbers_of_stockbench_are_those_of_its_rows_before_the_open(shared_data):
    """By pandas from the rows of the file, whose later ones are there too."""
    rows = pd.read_csv(shared_data / "stockbench" / "bars_daily.csv.gz", parse_dates=["date"])
    rows = rows[rows["symbol"].isin(["BA", "JPM"])].pivot(index="date", columns="symbol")
    session, store = pd.Timestamp("2025-06-10"), DataState()
    store.update(
        "ohlcv", {name: rows[name] for name in ("open", "high", "low", "close")} | {"vol": rows["volume"]}
    )
    view = store.view(Moment(session, "open"))
    facts = facts_at_open(ToolContext(view, Account.opening(1_000), Rulebook.us()), news=3)
    closes, volumes = (rows[name][rows.index < session] for name in ("close", "volume"))
    for symbol, found in facts.symbols.items():
        close, volume = closes[symbol].dropna(), volumes[symbol].dropna()
        assert found.returns == pytest.approx({n: 100 * close.pct_change(n).iloc[-1] for n in (1, 5, 20, 60)})
        assert found.volatility == pytest.approx(100 * close.pct_change().iloc[-20:].std())
        assert found.volume_ratio == pytest.approx(volume.iloc[-1] / volume.iloc[-20:].mean())
        assert found.open == found.least_buy == rows["open"][symbol][session]
    assert (facts.account.equal_parts, facts.news) == (None, ())
