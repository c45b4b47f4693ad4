"""Past prices per share of today, and the windows before a session."""

import numpy as np
import pandas as pd
import pytest

from quantgraph.agents.loop._fundamentals import Splits, closes_before, high_low_before


def splits_of(view):
    return Splits(view.actions(), view.moment.session)


def test_shares_of_today_before_and_after_splits_of_the_past_and_the_future(small_market):
    market = small_market({"A": [10.0] * 10})
    market.act("split", "A", 3, 2.0)
    market.act("split", "A", 8, 5.0, declared=1)
    splits = splits_of(market.view(5))
    shares = [splits.shares_today("A", market.days[day]) for day in (1, 2, 3, 5, 7, 8, 9)]
    # One share before the split of day 3 is two today; from day 8 on five shares will be one of today.
    assert shares == [2.0, 2.0, 1.0, 1.0, 1.0, 0.2, 0.2]
    assert splits.shares_today("B", market.days[1]) == 1.0


def test_a_split_counts_from_the_open_of_its_ex_date(small_market):
    market = small_market({"A": [100.0, 102.0, 51.0]})
    market.act("split", "A", 2, 2.0, declared=0)
    assert closes_before(market.view(2), ["A"], 7, splits_of(market.view(2))) == {"A": [50.0, 51.0]}
    assert closes_before(market.view(1), ["A"], 7, splits_of(market.view(1))) == {"A": [100.0]}


def test_closes_end_before_today_and_are_never_padded(small_market, rising):
    market = small_market({"A": rising(9), "B": [None, None, 3.0, None, 5.0, None, None, None, None]})
    for day, expected in ((8, [2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]), (2, [1.0, 2.0]), (0, [])):
        assert closes_before(market.view(day), ["A"], 7, splits_of(market.view(day)))["A"] == expected
    assert closes_before(market.view(8), ["B", "C"], 7, splits_of(market.view(8))) == {
        "B": [3.0, 5.0],
        "C": [],
    }


def test_closes_of_long_ago_do_not_count(small_market):
    market = small_market({"A": [1.0] * 40, "B": [2.0] * 9 + [None] * 31})
    assert closes_before(market.view(38), ["B"], 7, splits_of(market.view(38))) == {"B": [2.0]}
    assert closes_before(market.view(39), ["B"], 7, splits_of(market.view(39))) == {"B": []}


def test_a_range_needs_all_its_sessions_and_never_has_todays(small_market):
    closes = [5.0, 9.0, 3.0, 4.0, 100.0]
    market = small_market(
        {"A": closes}, high={"A": [6.0, 9.5, 3.5, 4.5, 200.0]}, low={"A": [4.0, 8.0, 2.0, 3.0, 1.0]}
    )
    view = market.view(4)
    assert high_low_before(view, ["A"], 4, splits_of(view)) == {"A": (9.5, 2.0)}
    assert high_low_before(view, ["A"], 2, splits_of(view)) == {"A": (4.5, 2.0)}
    assert high_low_before(view, ["A"], 5, splits_of(view)) == {"A": None}


def test_a_symbol_that_is_younger_than_the_range_has_none_and_a_suspended_one_has(small_market):
    market = small_market(
        {
            "A": [1.0, 2.0, 3.0, 4.0],
            "NEW": [None, None, 3.0, 4.0],
            "OFF": [5.0, None, 3.0, 4.0],
            "NO": [None] * 4,
        }
    )
    view = market.view(3)
    found = high_low_before(view, ["A", "NEW", "OFF", "NO", "ELSE"], 2, splits_of(view))
    assert found == {"A": (3.0, 2.0), "NEW": None, "OFF": (3.0, 3.0), "NO": None, "ELSE": None}


def test_a_range_is_per_share_of_today(small_market):
    market = small_market({"A": [100.0, 90.0, 40.0, 42.0]})
    market.act("split", "A", 2, 2.0)
    view = market.view(3)
    assert high_low_before(view, ["A"], 3, splits_of(view)) == {"A": (50.0, 40.0)}
    assert market.store.snapshot(market.ref)["ohlcv"]["high"]["A"].tolist() == [100.0, 90.0, 40.0, 42.0]


def test_without_highs_there_is_no_range(small_market):
    market = small_market({"A": [1.0, 2.0]})
    frames = {name: market.store.snapshot(market.ref)["ohlcv"][name] for name in ("open", "close")}
    market.ref = market.store.override(base=market.ref, ohlcv=frames)
    assert high_low_before(market.view(1), ["A"], 1, splits_of(market.view(1))) == {"A": None}


def test_a_dividend_is_per_share_before_the_split_of_its_day(small_market):
    market = small_market({"A": [10.0] * 6})
    market.act("split", "A", 2, 2.0)
    market.act("dividend", "A", 2, 1.0)
    market.act("dividend", "A", 4, 0.6)
    view = market.view(5)
    splits = splits_of(view)
    assert [splits.per_share(action) for action in view.actions()] == [0.5, 0.6]


@pytest.mark.parametrize("day", range(3, 40, 6))
def test_it_is_what_pandas_makes_of_it(small_market, day):
    draw = np.random.default_rng(7)
    table = pd.DataFrame(draw.uniform(5, 9, (40, 3)), columns=list("ABC"))
    table[draw.random((40, 3)) < 0.2] = np.nan
    market = small_market(table.to_dict("list"))
    market.act("split", "B", 20, 3.0)
    view = market.view(day)
    past = table.iloc[max(0, day - 30) : day]
    if day >= 20:
        past = past.assign(B=past["B"].where(past.index >= 20, past["B"] / 3))
    found = closes_before(view, list("ABC"), 7, splits_of(view))
    for name in "ABC":
        assert found[name] == pytest.approx(past[name].dropna().tail(7).tolist())
