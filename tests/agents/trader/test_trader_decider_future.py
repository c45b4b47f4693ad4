"""Everything that a trader was shown in a run is older than its moment: each bar and each news item is recognisable."""

from __future__ import annotations

import json
import re
from itertools import product

import pandas as pd
import pytest
from trader_play import says

from quantgraph.agents.trader import TraderAgent
from quantgraph.market import Rulebook
from quantgraph.runs import RunSpec, run_strategy
from quantgraph.runtime import Resources
from quantgraph.settings import load_settings
from quantgraph.testing import ScriptedChatModel

SYMBOLS = ("AAA", "BBB", "CCC")
DAYS = [f"{day:%Y-%m-%d}" for day in pd.bdate_range("2025-01-06", periods=40)]
FIELDS = ("open", "high", "low", "close", "volume")
FIRST = 30
"""Place of the first session that is traded."""
TRADED = DAYS[FIRST : FIRST + 4]


def sentinel(place: int, symbol: int, field: int) -> float:
    """A number that is nowhere else: day, symbol and field are its digits; the low is the least of a bar."""
    if field == 4:
        return float(1_000_000 + place * 1_000 + symbol * 100)
    return 1_000 + place * 10 + symbol + (2, 4, 1, 3)[field] / 100 + place / 10_000


def write_market(folder):
    folder.mkdir()
    rows = []
    for place, symbol in product(range(len(DAYS)), range(len(SYMBOLS))):
        rows.append([SYMBOLS[symbol], DAYS[place], *(sentinel(place, symbol, field) for field in range(5))])
    columns = ["symbol", "date", "open", "high", "low", "close", "volume"]
    pd.DataFrame(rows, columns=columns).to_csv(folder / "bars.csv", index=False)
    news = [
        {"title": f"title {day}x{hour}", "ticker": symbol, "description": f"AAA BBB earnings {day}x{hour}",
         "published_utc": f"{day}T{hour}:00:00-05:00"}
        for day, hour, symbol in product(DAYS, ("07", "10", "20"), ("AAA", None))
    ]  # fmt: skip
    news += [{"title": "title undated", "ticker": "AAA", "description": "AAA earnings undated"}]
    (folder / "news.jsonl").write_text("\n".join(map(json.dumps, news)))
    return folder


def dates_of(today: str) -> list[str]:
    """Every date and every spelling that a model may try."""
    day = pd.Timestamp(today)
    shifts = [-400, -31, -7, -3, -1, 0, 1, 2, 3, 7, 30, 400]
    plain = [f"{day + pd.Timedelta(days=shift):%Y-%m-%d}" for shift in shifts]
    spelled = [
        f"{day + pd.Timedelta(days=1):{form}}" for form in ("%Y%m%d", "%Y/%m/%d", "%b %d, %Y", "%d.%m.%Y")
    ]
    return [
        *plain,
        *spelled,
        f"{plain[6]} 10:00",
        f"{plain[6]}T00:00",
        "today",
        "tomorrow",
        "latest",
        "",
        "9999-12-31",
    ]


def everything(today: str) -> list:
    """Replies that call every tool with whatever could reach the future."""
    dates = dates_of(today)
    later = dates[6]
    prices = [
        ("get_price_local", {"symbol": symbol, "date": date})
        for symbol in (*SYMBOLS, "DDD")
        for date in dates
    ]
    windows = [
        ("get_price_history", {"symbol": symbol, **window})
        for symbol in SYMBOLS
        for window in ({}, {"limit": 100}, {"limit": 5000}, {"start": today}, {"start": later, "end": "2030-01-01"},
                       {"end": "2030-01-01"}, {"start": "2025-01-01", "end": later})
    ]  # fmt: skip
    indicators = [
        (
            "get_indicators",
            {"symbol": symbol, "indicators": ["MA5", "RSI14", "MACD", "KDJ", "ATR14"], "limit": limit},
        )
        for symbol in SYMBOLS
        for limit in (1, 20, 500)
    ]
    queries = ["AAA earnings", f"earnings {later}", "title", "title 20", "undated", "BBB"]
    searches = [("get_information", {"query": query}) for query in queries]
    orders = [
        (side, {"symbol": symbol, "amount": amount})
        for side, symbol, amount in product(("buy", "sell"), (*SYMBOLS, "DDD"), (1, 0, 10**9))
    ]
    rest = [("get_positions", {}), ("add", {"a": 1, "b": 2}), ("multiply", {"a": 1e308, "b": 10})]
    calls = [*prices, *windows, *indicators, *searches, *orders, *rest]
    assert len(calls) < 200
    return [*(says("", *calls[place : place + 30]) for place in range(0, len(calls), 30)), "<FINISH_SIGNAL>"]


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """By session, every text that the model was shown and did not write."""
    place = tmp_path_factory.mktemp("future")

    def play(messages):
        today = messages[1].content.partition("(")[2].partition(")")[0]
        return everything(today)[sum(message.type == "ai" for message in messages)]

    model = ScriptedChatModel(play)
    done = run_strategy(
        RunSpec(
            question=f"autonomous trader on {', '.join(SYMBOLS)}, {TRADED[0]} to {TRADED[-1]}",
            rules=Rulebook.zero_cost("us"),
        ),
        source=write_market(place / "market"),
        decider=TraderAgent(memory=True, window=10_000_000),
        model={"trader": model},
        out=place,
        resources=Resources(settings=load_settings(news_until="open", tables={"record_zone": "stamp"})),
    )
    assert done["ended_because"] == "done", done["error"]
    texts = {}
    for call in model.calls:
        today = call.messages[1].content.partition("(")[2].partition(")")[0]
        found = [str(message.content) for message in call.messages if message.type != "ai"]
        texts.setdefault(today, set()).update(found)
    assert list(texts) == TRADED
    return texts


def numbers_in(text):
    return {float(number) for number in re.findall(r"(?<![\w.])\d+(?:\.\d+)?", text)}


def known_and_later(place):
    """The numbers of bars that are known at an open, and those that are not."""
    known, later = set(), set()
    for day, symbol, field in product(range(len(DAYS)), range(len(SYMBOLS)), range(5)):
        is_known = day < place or (day == place and field == 0)
        (known if is_known else later).add(sentinel(day, symbol, field))
    return known, later - known


@pytest.mark.parametrize("today", TRADED)
def test_no_number_of_a_later_bar_was_shown(shown, today):
    known, later = known_and_later(DAYS.index(today))
    found = set().union(*map(numbers_in, shown[today]))
    assert len(found & known) > 300  # what is known was shown, so the scan would have seen the rest
    assert found & later == set()


@pytest.mark.parametrize("today", TRADED)
def test_no_later_news_was_shown(shown, today):
    titles = {title for text in shown[today] for title in re.findall(r"title (\S+?x\d\d|undated)", text)}
    assert titles
    assert max(titles) == f"{today}x07"  # before the open of 09:30
    assert "undated" not in titles


@pytest.mark.parametrize("today", TRADED)
def test_no_later_date_was_named_that_the_model_had_not_written(shown, today):
    asked = set(dates_of(today)) | {"2030-01-01"}
    named = {date for text in shown[today] for date in re.findall(r"\d{4}-\d\d-\d\d", text)}
    assert {date for date in named if date > today} - asked == set()


def test_every_later_date_is_answered_alike(shown):
    """Whether a date is a session to come, a weekend or far away, cannot be told from the answer."""
    for today, texts in shown.items():
        answers = [json.loads(text) for text in texts if text.startswith("{") and '"no_data"' in text]
        lines = {each["error"] for each in answers if "on that date" in each.get("error", "")}
        assert lines == {f"there is no bar of {symbol} on that date" for symbol in SYMBOLS}, today
