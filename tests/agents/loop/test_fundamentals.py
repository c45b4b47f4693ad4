"""Fundamentals: the arithmetic by hand, on real filings, bars and dividends, and nothing from later."""

from __future__ import annotations

import json
import time
from datetime import date
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest

from quantgraph.agents.loop import _fundamentals as fundamentals
from quantgraph.agents.loop._fundamentals import FUNDAMENTALS, fundamental_data
from quantgraph.data import open_source
from quantgraph.market import Moment
from quantgraph.state import DataState, Record

NUMBERS = (
    "revenues", "net_income_loss", "basic_earnings_per_share", "diluted_earnings_per_share", "basic_average_shares",
    "diluted_average_shares",
)  # fmt: skip
QUARTERS = [
    ("2023-01-01", "2023-03-31"),
    ("2023-04-01", "2023-06-30"),
    ("2023-07-01", "2023-09-30"),
    ("2023-10-01", "2023-12-31"),
]


def filing(quarter, known, symbol="A", **body):
    start, end = QUARTERS[quarter] if isinstance(quarter, int) else quarter
    texts = {
        "fiscal_year": 2023,
        "fiscal_period": f"Q{quarter + 1}" if isinstance(quarter, int) else "",
        "start_date": start,
        "end_date": end,
    }
    return Record("filing", date.fromisoformat(known), symbol, texts | dict.fromkeys(NUMBERS) | body)


def year(**changed):
    """Four quarters of 1, 2, 3 and 4 a share, filed before 2024, of 1000 shares."""
    return [
        filing(
            place,
            f"2023-{4 + 2 * place:02}-20",
            **{"diluted_earnings_per_share": 1.0 + place, "basic_average_shares": 1000.0} | changed,
        )
        for place in range(4)
    ]


def data_of(view, symbol="A"):
    found = fundamental_data(view, [symbol])
    assert list(found) == [symbol]
    assert tuple(found[symbol]) == FUNDAMENTALS
    json.dumps(found, allow_nan=False)
    return found[symbol]


# By hand -------------------------------------------------------------------------------------------


def test_what_is_not_known_is_none(small_market):
    market = small_market({"A": [1.0, 2.0], "B": [None, None]})
    for symbol in ("A", "B", "ELSE"):
        assert set(data_of(market.view(1), symbol).values()) == {None}
        assert set(data_of(market.view(0), symbol).values()) == {None}


def test_price_earnings_and_size_of_four_filed_quarters(small_market):
    market = small_market({"A": [50.0, 60.0]})
    market.record(*year())
    data = data_of(market.view(1))
    # 50 over 1 + 2 + 3 + 4; the fourth quarter's shares do not count, those of the third do.
    assert (data["pe_ratio"], data["market_cap"]) == (5.0, 50_000.0)


def test_a_filing_counts_from_the_session_after_its_day(small_market):
    market = small_market({"A": [50.0] * 5})
    market.record(*year()[:3], filing(3, "2024-01-02", diluted_earnings_per_share=4.0))
    assert [data_of(market.view(day))["pe_ratio"] for day in (1, 2)] == [None, 5.0]


@pytest.mark.parametrize(
    "records",
    [
        [each for place, each in enumerate(year()) if place != 2],
        [*year()[:3], filing(3, "2023-12-20")],
        [filing(place, "2023-12-20", diluted_earnings_per_share=-1.0) for place in range(4)],
        [filing(place, "2023-12-20", diluted_earnings_per_share=0.0) for place in range(4)],
        [filing(("2023-01-01", end), "2023-12-20", diluted_earnings_per_share=1.0) for _, end in QUARTERS],
        [filing(("", ""), "2023-12-20", diluted_earnings_per_share=1.0) for _ in range(4)],
        [Record("filing", date(2023, 12, 20), "A", ["no filing"])],
        [],
    ],
    ids=[
        "a gap",
        "no number",
        "losses",
        "nothing earned",
        "from the year's beginning",
        "no dates",
        "no filing",
        "none",
    ],
)
def test_without_four_known_quarters_that_earn_there_is_no_ratio(small_market, records):
    market = small_market({"A": [50.0, 60.0]})
    market.record(*records)
    assert data_of(market.view(1))["pe_ratio"] is None


def test_a_year_that_is_long_over_is_no_price_earnings_ratio(small_market):
    market = small_market({"A": [50.0] * 150})
    market.record(*year())
    last = [data_of(market.view(day))["pe_ratio"] for day in (143, 144)]
    # 2024-07-18 is the 200th day after 2023-12-31.
    assert f"{market.days[143]:%Y-%m-%d}" == "2024-07-18"
    assert last == [5.0, None]


def test_an_amended_filing_replaces_the_first(small_market):
    market = small_market({"A": [50.0] * 5})
    market.record(
        *year(), filing(2, "2024-01-02", diluted_earnings_per_share=8.0, basic_average_shares=2000.0)
    )
    first, second = (data_of(market.view(day)) for day in (1, 2))
    assert (first["pe_ratio"], second["pe_ratio"]) == (5.0, pytest.approx(50 / 15))
    assert (first["market_cap"], second["market_cap"]) == (50_000.0, 100_000.0)


@pytest.mark.parametrize(
    ("body", "shares"),
    [
        ({"basic_average_shares": 500.0}, 500.0),
        ({"diluted_average_shares": 510.0}, 510.0),
        ({"basic_average_shares": -500.0}, 1000.0),
        ({"basic_average_shares": 0.0}, 1000.0),
        ({"fiscal_period": "Q4", "basic_average_shares": 26.0}, 1000.0),
        ({"basic_average_shares": 0.5, "net_income_loss": 500.0, "basic_earnings_per_share": 1.0}, 1000.0),
        (
            {"basic_average_shares": 500_000.0, "net_income_loss": 500.0, "basic_earnings_per_share": 1.0},
            1000.0,
        ),
        ({"basic_average_shares": 500.0, "net_income_loss": 600.0, "basic_earnings_per_share": 1.0}, 500.0),
        ({"basic_average_shares": 500.0, "net_income_loss": 1.0, "basic_earnings_per_share": -0.3}, 500.0),
        ({"basic_average_shares": "500", "fiscal_period": "Q3"}, 1000.0),
    ],
)
def test_shares_are_the_last_plausible_ones(small_market, body, shares):
    market = small_market({"A": [50.0, 60.0]})
    market.record(*year()[:3], filing(("2023-10-01", "2023-12-31"), "2023-12-30", **body))
    assert data_of(market.view(1))["market_cap"] == 50.0 * shares


def test_earnings_shares_dividends_and_prices_are_those_of_todays_share(small_market):
    market = small_market({"A": [100.0, 100.0, 52.0, 54.0]})
    market.record(*year())
    market.act("dividend", "A", 1, 1.0)
    market.act("split", "A", 2, 2.0)
    before, morning, after = (data_of(market.view(day)) for day in (1, 2, 3))
    # 1000 shares at 100 are 2000 at 50; 10 a share are 5 a share.
    assert (before["market_cap"], morning["market_cap"], after["market_cap"]) == (100_000, 100_000, 104_000)
    assert [each["pe_ratio"] for each in (before, morning, after)] == [10.0, 10.0, 52 / 5]
    assert [each["quarterly_dividend"] for each in (before, morning, after)] == [1.0, 0.5, 0.5]


def test_a_filing_of_after_a_split_restates_it(small_market):
    market = small_market({"A": [100.0, 100.0, 52.0, 54.0, 55.0]})
    market.act("split", "A", 2, 2.0)
    market.record(*year()[:3], filing(3, f"{market.days[2]:%Y-%m-%d}", diluted_earnings_per_share=2.0))
    # The first three are 6 a share of before, 3 a share of today; the last is filed in today's.
    assert data_of(market.view(3))["pe_ratio"] == 52 / 5


def test_a_yield_is_in_percent_over_365_days_and_needs_a_year_of_data(small_market):
    market = small_market({"A": [10.0] * 300, "NONE": [10.0] * 300})
    for day, cash in ((2, 0.5), (10, 0.1), (260, 0.2), (270, 0.3)):
        market.act("dividend", "A", day, cash, declared=day - 1)
    session = market.days[262]
    assert (session - market.days[0]).days == 366
    # 0.5 went ex on 2024-01-03, 364 days before 2025-01-01; 0.3 is to come.
    assert data_of(market.view(262))["dividend_yield"] == pytest.approx(100 * (0.5 + 0.1 + 0.2) / 10)
    assert data_of(market.view(265))["dividend_yield"] == pytest.approx(100 * (0.1 + 0.2) / 10)
    assert data_of(market.view(262), "NONE")["dividend_yield"] == 0.0
    assert data_of(market.view(255))["dividend_yield"] is None
    assert data_of(small_market({"A": [10.0] * 300}).view(290))["dividend_yield"] is None


def test_a_declared_dividend_is_known_before_its_ex_date_and_not_before_its_declaration(small_market):
    market = small_market({"A": [10.0] * 9})
    market.act("dividend", "A", 2, 0.25, declared=1)
    market.act("dividend", "A", 8, 0.26, declared=5)
    found = [data_of(market.view(day))["quarterly_dividend"] for day in (1, 2, 5, 6, 8)]
    assert found == [None, 0.25, 0.25, 0.26, 0.26]


def test_a_year_needs_252_sessions(small_market, rising):
    market = small_market({"A": rising(260)})
    assert data_of(market.view(251))["week_52_high"] is None
    data = data_of(market.view(252))
    assert (data["week_52_high"], data["week_52_low"]) == (252.0, 1.0)
    data = data_of(market.view(255))
    assert (data["week_52_high"], data["week_52_low"]) == (255.0, 4.0)


def test_daily_indicators_come_before_filings(small_market):
    market = small_market({"A": [50.0, 60.0, 70.0], "B": [50.0, 60.0, 70.0], "C": [1.0, 2.0, 3.0]})
    market.record(*year())
    market.indicators("total_mv", {"A": [7.0, 8.0, 9.0], "B": [5.0, np.nan, 6.0], "C": [np.nan] * 3})
    market.indicators("pe_ttm", {"A": [11.0, 12.0, 13.0], "B": [np.nan, -3.0, 6.0], "C": [np.nan] * 3})
    found = fundamental_data(market.view(2), ["A", "B", "C"])
    # total_mv is in 10,000; today's row is known after the close.
    assert [found[name]["market_cap"] for name in "ABC"] == [80_000.0, 50_000.0, None]
    assert [found[name]["pe_ratio"] for name in "ABC"] == [12.0, None, None]
    assert data_of(market.view(0))["market_cap"] is None


# Real data -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def stockbench(shared_data):
    source, store = open_source(shared_data / "stockbench"), DataState()
    symbols, days = source.symbols(), source.sessions()
    store.update("ohlcv", source.bars(symbols, days[0], days[-1]))
    store.record(source.records(("filing",), symbols, pd.Timestamp("2000-01-01"), days[-1]))
    return store


def at(store, day, *symbols):
    view = store.view(Moment.at(day, "open"))
    return fundamental_data(view, symbols or list(view["ohlcv"]["close"].columns))


def test_apple_on_the_first_day_of_the_window(stockbench):
    data = at(stockbench, "2025-03-03")["AAPL"]
    assert data["market_cap"] == 241.84 * 15_081_724_000
    assert data["pe_ratio"] == pytest.approx(241.84 / (2.40 + 0.97 + 1.40 + 1.53))
    assert data["quarterly_dividend"] == 0.25
    # The bars begin in December: neither a year of sessions nor a year of dividends is known.
    assert data["dividend_yield"] is data["week_52_high"] is data["week_52_low"] is None


def test_apples_next_quarter_counts_after_it_was_filed(stockbench):
    """Filed on 2025-05-02; the one before on 2025-01-31."""
    for day, earned, shares in (
        ("2025-01-31", 0.97 + 1.40 + 1.53 + 2.18, 15_287_521_000),
        ("2025-02-03", 2.40 + 0.97 + 1.40 + 1.53, 15_081_724_000),
        ("2025-05-02", 2.40 + 0.97 + 1.40 + 1.53, 15_081_724_000),
        ("2025-05-05", 1.65 + 2.40 + 0.97 + 1.40, 14_994_082_000),
    ):
        view = stockbench.view(Moment.at(day, "open"))
        close = view["ohlcv"]["close"]["AAPL"].iloc[-1]
        data = at(stockbench, day, "AAPL")["AAPL"]
        assert data["pe_ratio"] == pytest.approx(close / earned), day
        assert data["market_cap"] == close * shares, day


def test_faulty_filings_are_seen_through(stockbench):
    data = at(stockbench, "2025-03-03")
    # V files nothing per share; BA and the sum of its quarters lost; CAT's second quarter of 2024 is missing.
    assert data["V"]["market_cap"] is data["V"]["pe_ratio"] is None
    assert data["BA"]["pe_ratio"] is None
    assert data["CAT"]["pe_ratio"] is None
    # MCD's shares of 2024 are in millions without a word of it: the last plausible ones are of 2023.
    closes = stockbench.view(Moment.at("2025-03-03", "open"))["ohlcv"]["close"].iloc[-1]
    assert data["MCD"]["market_cap"] == closes["MCD"] * 727_200_000
    assert data["AMZN"]["quarterly_dividend"] is None
    # MSFT's quarter to 2024-12-31 is not in the data, which shows when the one after it is filed.
    assert data["MSFT"]["pe_ratio"] == pytest.approx(closes["MSFT"] / (3.30 + 2.95 + 2.94 + 2.93))
    assert at(stockbench, "2025-05-01", "MSFT")["MSFT"]["pe_ratio"] is None


def test_every_company_has_a_size_of_its_kind(stockbench):
    """The published snapshot is of after the window: within a third of it is what can be asked."""
    published = {
        "AAPL": 3.1e12,
        "AMZN": 2.3e12,
        "JPM": 7.6e11,
        "HD": 3.8e11,
        "MCD": 2.2e11,
        "TRV": 6.0e10,
        "CRM": 2.6e11,
    }
    data = at(stockbench, "2025-05-15")
    for symbol, size in published.items():
        assert data[symbol]["market_cap"] == pytest.approx(size, rel=0.35), symbol


def test_apples_low_of_april_is_not_known_before_it_was_traded(stockbench, monkeypatch):
    monkeypatch.setattr(fundamentals, "_YEAR_OF_SESSIONS", 30)
    seen = {}
    for day in pd.bdate_range("2025-03-03", "2025-04-17"):
        values = at(stockbench, f"{day:%Y-%m-%d}", "AAPL")["AAPL"]
        seen[f"{day:%m-%d}"] = values["week_52_low"]
        assert (169.2101 in values.values()) == (day >= pd.Timestamp("2025-04-09"))
    assert (seen["04-08"], seen["04-09"], seen["04-17"]) == (174.62, 169.2101, 169.2101)


def test_no_value_moves_when_the_future_is_cut_off(stockbench):
    """What is known at a moment is the same in a store that ends there, but for dividends that are announced."""
    day, known = "2025-04-15", DataState()
    whole = at(stockbench, day)
    view = stockbench.view(Moment.at(day, "open"))
    known.adopt(view.frozen())
    known.record(view.all_records())
    cut = at(known, day)
    assert (whole["PG"].pop("quarterly_dividend"), cut["PG"].pop("quarterly_dividend")) == (1.0568, 1.0065)
    assert cut == whole


@pytest.mark.proof
def test_three_hundred_symbols_are_quick(small_market):
    draw = np.random.default_rng(3)
    names = [f"S{place:03}" for place in range(300)]
    market = small_market({name: draw.uniform(10, 20, 300).tolist() for name in names})
    dividends = pd.DataFrame(np.nan, index=market.days, columns=names)
    dividends.iloc[[20, 80, 140, 200]] = 0.1
    splits = dividends * np.nan
    splits.iloc[100] = 1.3
    market.ref = market.store.update("ohlcv", {"dividend": dividends, "split": splits}, base=market.ref)
    days = [f"{day:%Y-%m-%d}" for day in pd.date_range("2021-12-31", periods=13, freq="QE")]
    spans = [
        (f"{pd.Timestamp(before) + pd.Timedelta(days=1):%Y-%m-%d}", end) for before, end in pairwise(days)
    ]
    market.record(
        *(
            filing(span, "2025-01-15", name, diluted_earnings_per_share=1.0, basic_average_shares=1e6)
            for name in names
            for span in spans
        )
    )
    view = market.view(290)
    fundamental_data(view, names)
    taken = []
    for _ in range(3):
        began = time.perf_counter()
        found = fundamental_data(view, names)
        taken.append(time.perf_counter() - began)
    assert all(None not in each.values() for each in found.values())
    assert min(taken) < 0.4, taken  # 0.05 to 0.08 where nothing else runs
