"""Features: what a symbol's prices, news and position look like at the open, and what a host may give."""

from __future__ import annotations

import gzip
import json
from datetime import date, datetime
from decimal import Decimal
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pytest

from quantgraph.agents.dual_agent._config import FeatureOptions
from quantgraph.agents.dual_agent._features import (
    after_filter,
    build_features,
    check_features_list,
    fill_features,
)
from quantgraph.agents.loop._facts import facts_at_open
from quantgraph.agents.loop._fundamentals import fundamental_data
from quantgraph.broker import Account
from quantgraph.broker.accounts import Position
from quantgraph.data import open_source
from quantgraph.errors import BadOption
from quantgraph.market import Moment, Rulebook
from quantgraph.state import DataState, Record
from quantgraph.tools import ToolContext

EMPTY = Account.opening(100_000)


def items(view, symbols, account=EMPTY, **options):
    """Features of symbols at a view's open."""
    shown, context = FeatureOptions(**options), ToolContext(view, account, Rulebook.us())
    facts = facts_at_open(context, symbols, news=shown.most_news, news_days=shown.news_days)
    return build_features(context, facts, shown)


def features(view, symbol="A", account=EMPTY, **options):
    (item,) = items(view, [symbol], account, **options)
    assert item["symbol"] == symbol
    json.dumps(item, allow_nan=False)
    return item["features"]


def holding(symbol, quantity, entered, sellable=None):
    position = Position(
        quantity=quantity,
        sellable=quantity if sellable is None else sellable,
        cost=Decimal(1000),
        entered=entered,
    )
    return Account(cash=Decimal("100.00"), positions={symbol: position})


def news(symbol, known, title, description=""):
    return Record(
        "news", known, symbol, {"title": title, "description": description, "publisher": "", "id": ""}
    )


# From a view ---------------------------------------------------------------------------------------


def test_features_have_the_documented_shape(small_market, rising):
    market = small_market({"A": rising(9)}, open={"A": [each + 0.5 for each in rising(9)]})
    expected = {
        "market_data": {
            "ticker": "A",
            "open": 9.5,
            "close_7d": [2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0],
            "date": "2024-01-11",
        },
        "news_events": {"top_k_events": []},
        "position_state": {"current_position_value": 0.0, "holding_days": 0, "shares": 0.0, "sellable": 0.0},
        # From 3 to 8 in five sessions, and from 7 to 8 in one; the rest wants more sessions.
        "past": {
            "name": None, "weight": 0.0, "past_1": pytest.approx(100 / 7), "past_5": pytest.approx(500 / 3),
            "past_20": None, "past_60": None, "volatility_20": None, "volume_ratio": None, "place_52w": None,
        },
    }  # fmt: skip
    assert features(market.view(8), fundamentals=False) == expected
    unknown = features(market.view(8)).pop("fundamental_data")
    assert set(unknown.values()) == {None}
    assert len(unknown) == 6
    priced = features(market.view(8), price=True)
    assert priced["market_data"] == expected["market_data"] | {"price": 9.5}


def test_without_a_bar_today_there_is_no_open_and_yesterdays_is_not_shown(small_market):
    market = small_market({"A": [1.0, 2.0, 3.0], "B": [4.0, 5.0, None]})
    shown = features(market.view(2), "B", price=True)["market_data"]
    assert (shown["open"], shown["price"], shown["close_7d"]) == (None, None, [4.0, 5.0])


def test_a_position_is_valued_at_the_open_and_held_since_its_session(small_market):
    market = small_market({"A": [1.0, 2.0, 3.0, 4.0]}, open={"A": [1.5, 2.5, 3.5, 4.5]})
    state = features(market.view(3), account=holding("A", 200, market.days[1], sellable=150))[
        "position_state"
    ]
    value = {"current_position_value": 900.0, "holding_days": 2, "average_price": 5.0}  # 1,000 for 200 shares
    assert state == {**value, "shares": 200.0, "sellable": 150.0}
    today = features(market.view(3), account=holding("A", Decimal("0.5"), market.days[3]))["position_state"]
    assert (today["holding_days"], today["current_position_value"]) == (0, 2.25)


def test_a_position_without_an_open_is_valued_at_the_last_price(small_market):
    market = small_market(
        {"A": [1.0, 2.0, None], "B": [1.0, 1.0, 1.0]}, open={"A": [1.5, 2.5, None], "B": [1.0] * 3}
    )
    state = features(market.view(2), account=holding("A", 100, market.days[0]))["position_state"]
    assert state["current_position_value"] == 250.0


def test_news_are_newest_first_at_most_five_each_once(small_market, rising):
    market = small_market({"A": rising(5)}, first="2024-01-01")  # day 4 is Friday the 5th
    day = market.days[4]
    stories = [news("A", day - pd.Timedelta(hours=hour), f"title {hour}", "text") for hour in range(1, 8)]
    market.record(*stories, news("A", day - pd.Timedelta(minutes=30), " title  1 ", "text\n"))
    assert features(market.view(4))["news_events"]["top_k_events"] == [
        f"2024-01-04: title {hour} - text" for hour in range(1, 6)
    ]


def test_news_count_from_two_days_back_to_nine_o_clock(small_market, rising):
    market = small_market({"A": rising(5)})
    market.record(
        news("A", datetime(2024, 1, 2, 23, 59), "three days back"),
        news("A", datetime(2024, 1, 3), "two days back"),
        news("A", date(2024, 1, 4), "a day alone"),
        news("A", datetime(2024, 1, 5, 8, 59), "before nine"),
        news("A", datetime(2024, 1, 5, 9), "at nine"),
        news("A", date(2024, 1, 5), "today, no hour"),
        news("A", None, "never"),
        news("B", datetime(2024, 1, 5, 8), "of another"),
    )
    shown = features(market.view(4))["news_events"]["top_k_events"]
    assert shown == ["2024-01-05: before nine", "2024-01-04: a day alone", "2024-01-03: two days back"]


def test_what_is_switched_off_or_cut_short_is_not_shown(small_market, rising):
    market = small_market({"A": rising(9)})
    day = market.days[8]
    market.record(*[news("A", day - pd.Timedelta(days=back, hours=1), f"back {back}") for back in range(4)])
    assert len(features(market.view(8))["news_events"]["top_k_events"]) == 2
    assert features(market.view(8), top_k=1)["news_events"]["top_k_events"] == [
        f"{market.days[7]:%Y-%m-%d}: back 0"
    ]
    assert len(features(market.view(8), news_days=4)["news_events"]["top_k_events"]) == 4
    assert features(market.view(8), news=False)["news_events"]["top_k_events"] == []
    assert "fundamental_data" not in features(market.view(8), fundamentals=False)
    (given, _) = fill_features(GIVEN, {}, FeatureOptions(news=False, fundamentals=False))
    assert given["features"]["news_events"]["top_k_events"] == []
    assert "fundamental_data" not in given["features"]


def test_a_story_of_any_length_is_one_short_line(small_market, rising):
    market = small_market({"A": rising(5)})
    market.record(
        news("A", datetime(2024, 1, 5, 1), "t" * 400, "d" * 400),
        news("A", datetime(2024, 1, 5, 2), "", "description\nalone"),
        news("A", datetime(2024, 1, 5, 3), ""),
        news("A", datetime(2024, 1, 5, 5), "said twice", "said  twice"),
    )
    shown = features(market.view(4))["news_events"]["top_k_events"]
    assert [len(each) for each in shown] == [12 + 10, 12 + 17, 12 + 180]
    assert shown[:2] == ["2024-01-05: said twice", "2024-01-05: description alone"]


def test_no_real_news_of_nine_o_clock_or_later_is_shown(shared_data):
    """905 stories of March 2025, by the README in UTC, but those of MarketWatch in New York's time."""
    source, store = open_source(shared_data / "stockbench"), DataState()
    symbols = source.symbols()
    store.update("ohlcv", source.bars(symbols, "20250102", "20250430"))
    store.record(source.records(("news",), symbols, pd.Timestamp("2025-02-01"), pd.Timestamp("2025-04-30")))
    with gzip.open(shared_data / "stockbench" / "news_2025-03.jsonl.gz", "rt", encoding="utf-8") as lines:
        stories = [json.loads(line) for line in lines]
    here = {}
    for story in stories:
        known = datetime.fromisoformat(story["published_at"])
        if story["publisher"] != "MarketWatch":
            known = known.astimezone(ZoneInfo("America/New_York"))
        here.setdefault((story["ticker"], " ".join(story["title"].split())), []).append(
            known.replace(tzinfo=None)
        )
    days, shown = [day for day in source.sessions() if f"{day:%Y-%m}" == "2025-03"], 0
    for day in days:
        nine = day + pd.Timedelta(hours=9)
        for item in items(store.view(Moment(day, "open")), symbols):
            for text in item["features"]["news_events"]["top_k_events"]:
                times = [
                    times
                    for (ticker, title), times in here.items()
                    if ticker == item["symbol"] and text[12:].startswith(title[:170])
                ]
                # over a weekend; an item whose feed declares no zone is dated a day later than it says
                assert any(day - pd.Timedelta(days=5) <= time < nine for each in times for time in each)
                shown += 1
    assert len(days) == 21
    assert 500 < shown <= 905 * 3


def market_until(make, day, later):
    """A market that is the same up to a day's open, and then as a seed says."""
    past, future = np.random.default_rng(1), np.random.default_rng(later)
    closes = {
        name: past.uniform(10, 20, day).tolist() + future.uniform(1, 90, 280 - day).tolist() for name in "AB"
    }
    opens = {
        name: past.uniform(10, 20, day + 1).tolist() + future.uniform(1, 90, 279 - day).tolist()
        for name in "AB"
    }
    market = make(closes, open=opens)
    market.act("dividend", "A", 10, 0.5, declared=5)
    market.act("dividend", "A", 279, 0.7, declared=day - 1)
    market.act("split", "B", day - 3, 2.0)
    market.record(news("A", market.days[day] - pd.Timedelta(days=1), "before"))
    if later:
        market.act("split", "A", day + 1, float(later))
        market.act("dividend", "B", day + 2, 0.1, declared=day)
        market.record(news("A", market.days[day] + pd.Timedelta(hours=9), f"after {later}"))
        market.record(
            Record("filing", market.days[day].date(), "A", {"basic_average_shares": 1000.0 * later})
        )
    return market


@pytest.mark.parametrize("day", [20, 261])
def test_what_comes_later_changes_neither_features_nor_fundamentals(small_market, day):
    def shown(later):
        market = market_until(small_market, day, later)
        view = market.view(day)
        account = holding("B", 100, market.days[day - 2])
        return items(view, ["A", "B"], account, price=True), fundamental_data(view, ["A", "B"])

    listed, data = shown(0)
    assert shown(2) == shown(3) == (listed, data)
    (event,) = listed[0]["features"]["news_events"]["top_k_events"]
    assert event[12:] == "before"
    assert data["A"]["quarterly_dividend"] == 0.7
    assert (data["B"]["week_52_high"] is None) == (day == 20)


# What a host gives ---------------------------------------------------------------------------------

GIVEN = [
    {
        "symbol": "AAPL",
        "features": {
            "market_data": {
                "ticker": "AAPL",
                "open": 184.2,
                "close_7d": [180.0, 188.0],
                "date": "2025-06-15",
            },
            "fundamental_data": {"pe_ratio": 28.5},
            "news_events": {"top_k_events": ["Strong earnings"]},
            "position_state": {"current_position_value": 5000.0, "holding_days": 45, "shares": 27.0},
        },
    },
    {"symbol": "TSLA", "features": {"market_data": {"ticker": "TSLA", "date": "2025-06-15"}}},
]


def test_fundamentals_stay_where_they_are_needed_and_all_have_their_reasons():
    reasons = {"AAPL": "volatile", "TSLA": "stable"}
    first, second = after_filter(GIVEN, {"AAPL"}, reasons)
    assert first["features"]["fundamental_data"] == {"pe_ratio": 28.5}
    assert first["features"]["filter_reasoning"] == "volatile"
    assert second["features"] == GIVEN[1]["features"] | {"filter_reasoning": "stable"}
    assert "filter_reasoning" not in GIVEN[0]["features"]


def test_a_symbol_that_needs_none_is_not_shown_its_own():
    first, second = after_filter(GIVEN, {"TSLA"}, {})
    assert "fundamental_data" not in first["features"]
    assert set(second["features"]["fundamental_data"].values()) == {None}
    assert len(second["features"]["fundamental_data"]) == 6


ITEM = {"symbol": "A", "features": {"market_data": {}, "position_state": {}}}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (None, "must be a list"),
        ({"A": {}}, "must be a list"),
        ([], "must be a list"),
        (["A"], "'A' must be"),
        ([ITEM, ITEM], "A is listed twice"),
        ([{**ITEM, "symbol": ""}], "'' is not a symbol"),
        ([{"features": {"a": 1}}], "None is not a symbol"),
        ([{**ITEM, "symbol": "A\nB"}], "is not a symbol; valid are strings"),
        ([{**ITEM, "symbol": "__meta__"}], "__meta__' is not a symbol"),
        ([{"symbol": "A"}], "'A' has no features"),
        ([{"symbol": "A", "features": {}}], "'A' has no features"),
        ([{"symbol": "A", "features": {"market_data": [1]}}], "market_data of A must be a dict"),
        (
            [{"symbol": "A", "features": {"market_data": {"ticker": "UNKNOWN"}}}],
            "of A are those of 'UNKNOWN'",
        ),
        (
            [{"symbol": "A", "features": {"position_state": {"current_position_value": "much"}}}],
            "must be a number >= 0",
        ),
        (
            [{"symbol": "A", "features": {"position_state": {"current_position_value": float("nan")}}}],
            "must be a number >= 0",
        ),
        (
            [{"symbol": "A", "features": {"position_state": {"current_position_value": -1.0}}}],
            "must be a number >= 0",
        ),
    ],
)
def test_features_that_cannot_be_used_are_named_in_one_line(given, message):
    with pytest.raises(BadOption, match=message) as caught:
        check_features_list(given)
    assert "\n" not in str(caught.value)
    assert caught.value.data["parameter"] == "features_list"


def test_good_features_pass_as_they_are():
    assert check_features_list(GIVEN) == GIVEN


BARS = pd.DataFrame(
    {"close": [1.0, 2.0, None, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 99.0]},
    index=pd.to_datetime([f"2025-06-{day:02}" for day in range(6, 16)]),
)


def test_only_what_is_lacking_is_filled_from_rows_before_the_date():
    data = {
        "bars_day": BARS,
        "position_state": {"current_position_value": 7.0, "holding_days": 1, "shares": 1.0},
    }
    first, second = fill_features(GIVEN, {"AAPL": data, "TSLA": data, "ELSE": data})
    assert first == GIVEN[0]
    assert second["features"]["market_data"] == {
        "ticker": "TSLA",
        "open": None,
        "date": "2025-06-15",
        "close_7d": [2.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0],
    }
    assert second["features"]["position_state"] == data["position_state"]
    assert "close_7d" not in GIVEN[1]["features"]["market_data"]


@pytest.mark.parametrize("column", ["date", "trade_date", "timestamp"])
@pytest.mark.parametrize("form", ["%Y-%m-%d", "%Y%m%d"])
def test_dates_may_be_a_column_in_any_order(column, form):
    table = BARS.reset_index(names=column).iloc[::-1]
    table[column] = table[column].dt.strftime(form)
    _, filled = fill_features(GIVEN, {"TSLA": {"bars_day": table}})
    assert filled["features"]["market_data"]["close_7d"] == [2.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]


def test_news_of_a_host_count_with_a_time_before_the_date():
    items = [
        {"title": "no time"},
        {"title": "old", "description": "story", "published_at": "2025-06-13T10:00:00Z"},
        {"title": "of the day", "published_at": "2025-06-15T01:00:00Z"},
        # 16:00 in UTC-12 is midnight in New York in summer.
        {"title": "may be of the day", "published_at": "2025-06-14T16:00:00+00:00"},
        {"title": "is not", "published_at": "2025-06-14T15:59:59+00:00"},
        {"title": "naive", "published_utc": "2025-06-14T12:00:00"},
        {"title": "a day that may end at eight", "published_at": "2025-06-14"},
        {"title": "a day", "published_at": date(2025, 6, 13)},
        "no item",
    ]
    _, filled = fill_features(GIVEN, {"TSLA": {"news_items": items}})
    assert filled["features"]["news_events"]["top_k_events"] == [
        "2025-06-14: is not",
        "2025-06-14: naive",
        "2025-06-14: a day",
        "2025-06-13: old - story",
    ]


def test_without_a_date_nothing_dated_is_filled():
    data = {"bars_day": BARS, "news_items": [{"title": "a", "published_at": "2025-06-01"}]}
    (filled,) = fill_features([{"symbol": "A", "features": {"market_data": {}}}], {"A": data})
    assert (
        filled["features"]["market_data"]["close_7d"]
        == filled["features"]["news_events"]["top_k_events"]
        == []
    )
    assert fill_features(GIVEN, None)[0] == GIVEN[0]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"bars_day": [1, 2]}, "must be a DataFrame with a column close"),
        ({"bars_day": BARS.rename(columns={"close": "c"})}, "must be a DataFrame with a column close"),
        ({"bars_day": BARS.tz_localize("UTC")}, "dates without a time zone"),
        ({"bars_day": BARS.reset_index(drop=True)}, "dates without a time zone"),
        ({"bars_day": BARS.astype("object").fillna("much")}, "numbers in close"),
        ({"news_items": [{"title": "a", "published_at": "some day"}]}, "'some day' in news_items of TSLA"),
    ],
)
def test_data_that_cannot_be_read_is_named(data, message):
    with pytest.raises(BadOption, match=message) as caught:
        fill_features(GIVEN, {"TSLA": data})
    assert "TSLA" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_date_that_is_none_is_named():
    with pytest.raises(BadOption, match=r"market_data\.date='tomorrow' of A; must be YYYY-MM-DD"):
        fill_features([{"symbol": "A", "features": {"market_data": {"date": "tomorrow"}}}], {})
