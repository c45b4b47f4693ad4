"""News and filings in files: recognised by content, dated in the exchange's time, never shown too early."""

from __future__ import annotations

import csv
import gzip
import json
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pandas as pd
import pytest
from bar_files import day, refusal

from quantgraph.data import open_source
from quantgraph.data._as_of import AsOfSource
from quantgraph.data._source import DatedRecords
from quantgraph.data.files import FileSource
from quantgraph.errors import BadOption, BadWindow
from quantgraph.market import Moment
from quantgraph.settings import TableOptions, load_settings
from quantgraph.state import DataState, Record

US_BARS = "symbol,date,open,high,low,close,volume\nAAPL,2025-03-03,241,244,236,238,1000\n"
FIRST, LAST = day("1970-01-01"), day("2100-01-01")


def item(**more: Any) -> dict[str, Any]:
    return {"ticker": "600519.SH", "title": "a title", "published_at": "2024-01-02T00:30:00Z", **more}


def lines(*items: Any) -> str:
    return "\n".join(json.dumps(each, ensure_ascii=False) for each in items)


@pytest.fixture
def news(folder: Path):
    """Writes a file of news beside bars of Shanghai and Shenzhen, and gives the folder."""

    def write(*items: Any, text: str = "") -> Path:
        (folder / "news.jsonl").write_text(text or lines(*items), encoding="utf-8")
        return folder

    return write


@pytest.fixture
def filings(folder: Path):
    """Writes a file of filings beside bars, and gives the folder."""

    def write(*rows: str, header: str = "symbol,fiscal_period,end_date,filing_date,revenues") -> Path:
        (folder / "filings.csv").write_text("\n".join([header, *rows]))
        return folder

    return write


def records(source: FileSource, *symbols: str, kind="news") -> tuple[Record, ...]:
    return source.records([kind], symbols or source.symbols(), FIRST, LAST)


def message(folder: Path) -> str:
    return refusal(folder)


# News --------------------------------------------------------------------------------------------


AS_STAMPED = TableOptions(record_zone="stamp")


def test_news_is_dated_in_the_time_of_its_exchange_and_has_four_texts(news):
    folder = news(item(description="d", publisher="p", id=7, feed="left out"), item(title="b"))
    source = FileSource(folder, options=AS_STAMPED)
    assert isinstance(source, DatedRecords)
    assert source.record_kinds == ("news",)
    first, second = records(source)
    assert (first.kind, first.symbol, first.known) == ("news", "600519.SH", datetime(2024, 1, 2, 8, 30))
    assert first.body == {"title": "a title", "description": "d", "publisher": "p", "id": "7"}
    assert second.body == {"title": "b", "description": "", "publisher": "", "id": ""}


KNOWN = [
    ({"published_at": "2024-01-02T16:30:00+08:00"}, datetime(2024, 1, 2, 16, 30)),
    ({"published_at": "2024-01-02 03:30:00-05:00"}, datetime(2024, 1, 2, 16, 30)),
    ({"published_at": "20240102T083000Z"}, datetime(2024, 1, 2, 16, 30)),
    ({"published_at": "2024-01-02"}, date(2024, 1, 3)),  # in UTC-12 it ends at 20:00 of the next day here
    ({"published_at": "2024-01-02T08:30:00"}, date(2024, 1, 3)),  # 04:30 of the next day here
    ({"published_at": "2024-01-02T03:59:00"}, date(2024, 1, 2)),
    ({"published_at": None, "epoch": 1704184200}, datetime(2024, 1, 2, 16, 30)),
    ({"published_at": "", "epoch": 1704184200.5}, datetime(2024, 1, 2, 16, 30, 0, 500_000)),
    ({"published_at": "2024-01-03T00:00:00Z", "epoch": 1704184200}, datetime(2024, 1, 3, 8)),
    ({"published_at": None, "published_utc": "2024-01-02T08:30:00Z"}, datetime(2024, 1, 2, 16, 30)),
    ({"published_at": None, "datetime": 1704184200}, datetime(2024, 1, 2, 16, 30)),
    ({"published_at": None}, None),
]


@pytest.mark.parametrize(("times", "known"), KNOWN, ids=str)
def test_a_time_has_a_zone_or_is_a_day_or_is_seconds_or_is_not_known(news, times, known):
    (record,) = records(FileSource(news(item(**times)), options=AS_STAMPED))
    assert record.known == known
    assert type(record.known) is type(known)


@pytest.mark.parametrize(
    ("stamp", "shanghai", "new_york"),
    [
        ("2025-03-10", 11, 11),  # over in UTC-12 at noon of the 11th in UTC: 20:00 and 08:00
        ("2025-03-10T03:59:59", 10, 10),  # 15:59:59 in UTC: 23:59:59 and 11:59:59
        ("2025-03-10T04:00:00", 11, 10),
        ("2025-03-10T15:59:59Z", 11, 10),  # the next day, 03:59:59 in UTC: 11:59:59, and 23:59:59 of the 10th
        ("2025-03-10T16:00:00Z", 11, 11),
        ("2025-03-10T16:00:00+08:00", 11, 11),
        ("2025-03-10T23:59:59-05:00", 11, 11),
    ],
)
def test_without_a_declared_zone_news_is_known_when_the_last_place_on_earth_has_passed_its_time(
    folder, news, stamp, shanghai, new_york
):
    (folder / "us.csv").write_text(US_BARS)
    source = FileSource(news(item(published_at=stamp), item(published_at=stamp, ticker="AAPL")))
    assert [each.known for each in records(source)] == [date(2025, 3, shanghai), date(2025, 3, new_york)]
    assert {type(each.known) for each in records(source)} == {date}
    assert sum("time zone is not declared" in note for note in source.notes) == ("T" in stamp)


def test_each_publisher_may_declare_its_own_zone(folder, news):
    (folder / "us.csv").write_text(US_BARS)
    stamps = ("2025-03-10T09:45:00Z", "2025-03-10T09:45:00", "2025-03-10T09:45:00+08:00", "2025-03-10")
    items = [
        item(ticker="AAPL", publisher=publisher, published_at=stamp, title=f"{publisher} {stamp}")
        for publisher in ("A", "B", "C", "D")
        for stamp in stamps
    ]
    text = "A=America/New_York, B=UTC,C=exchange"
    known = {
        each.body["title"]: str(each.known)
        for each in records(FileSource(news(*items), options=TableOptions(record_zone=text)))
    }
    of_the_10th, local = "2025-03-10", "2025-03-10 09:45:00"
    assert [known[f"A {stamp}"] for stamp in stamps] == [local, local, local, of_the_10th]
    # UTC is four hours ahead of New York; the day of UTC ends there at 20:00.
    assert [known[f"B {stamp}"] for stamp in stamps] == [*["2025-03-10 05:45:00"] * 3, of_the_10th]
    assert [known[f"C {stamp}"] for stamp in stamps] == [local, local, local, of_the_10th]
    assert [known[f"D {stamp}"] for stamp in stamps] == [*[of_the_10th] * 3, "2025-03-11"]
    assert TableOptions(record_zone=text) == TableOptions(
        record_zone={"A": "America/New_York", "B": "UTC", "C": "exchange"}
    )


def test_a_stamp_of_another_zone_than_the_declared_one_counts_in_both_the_later_time(news):
    folder = news(item(published_at="2024-01-02T08:30:00Z"), item(published_at="2024-01-02T08:30:00+14:00"))
    source = FileSource(folder, options=TableOptions(record_zone="Asia/Shanghai"))
    assert [each.known.hour for each in records(source)] == [16, 8]


def test_a_calendar_that_ends_before_the_zone_is_reached_is_an_error(news):
    told = message(news(item(published_at="9999-12-31T20:00:00")))
    assert told.startswith("news.jsonl, line 1: 9999-12-31 20:00:00 is not a time of the calendar")


BROKEN = [  # as the file has them, and as they were written
    (
        "The market hasn\u00e2\x80\x99t priced in several undervalued AI stocks.",
        "The market hasn\u2019t priced in several undervalued AI stocks.",
    ),
    (
        "FPA Queens Road Value Fund (\u00e2\x80\x9cFund\u00e2\x80\x9d) returned -2.69%",
        "FPA Queens Road Value Fund (\u201cFund\u201d) returned -2.69%",
    ),
    ("a 2.41% gain for the S&P 500\u00c2\u00ae Index.", "a 2.41% gain for the S&P 500\u00ae Index."),
    ("Global Value Fund\u00e2\x80\x94Investor Class", "Global Value Fund\u2014Investor Class"),
    # These are what they say.
    (
        "The Home Depot Announces Exclusive KILZ\u00ae Brand",
        "The Home Depot Announces Exclusive KILZ\u00ae Brand",
    ),
    ("Is Amazon.com, Inc.\u00a0(AMZN)The Best", "Is Amazon.com, Inc.\u00a0(AMZN)The Best"),
    ("plus LAZCLUZE\u2122 (lazertinib)", "plus LAZCLUZE\u2122 (lazertinib)"),
    ("RYBREVANT\u00ae (amivantamab-vmjw)", "RYBREVANT\u00ae (amivantamab-vmjw)"),
    ("\u8305\u53f0", "\u8305\u53f0"),
]


@pytest.mark.parametrize(("text", "written"), BROKEN)
def test_utf_8_that_was_read_as_latin_1_is_mended_and_nothing_else(news, text, written):
    (record,) = records(FileSource(news(item(title=text, description=text))))
    assert (record.body["title"], record.body["description"]) == (written, written)


def test_the_broken_texts_are_those_of_the_real_file(shared_data):
    """Each row above stands in the file as it is; after reading none is left with a control character."""
    with gzip.open(shared_data / "stockbench" / "news_2025-03.jsonl.gz", "rt", encoding="utf-8") as file:
        raw = "\n".join(f"{one['title']}\n{one['description']}" for one in map(json.loads, file))
    assert [text for text, _ in BROKEN[:-1] if text not in raw] == []
    read = [each.body for each in records(FileSource(shared_data / "stockbench"))]
    texts = "\n".join(f"{body['title']}\n{body['description']}" for body in read)
    assert [written for _, written in BROKEN[:-1] if written not in texts] == []
    assert sum("\x80" <= letter <= "\x9f" for letter in raw) == 40
    assert not [letter for letter in texts if "\x80" <= letter <= "\x9f"]


def test_what_has_no_time_is_never_shown_and_counted_in_a_note(news):
    source = FileSource(news(item(published_at=None), item()))
    store = DataState()
    store.record(records(source))
    assert len(store.view(Moment.at("2200-01-01")).records("news")) == 1
    assert "news.jsonl: 1 of 2 records have no date and are never known" in source.notes


def test_a_declared_zone_is_that_of_the_times_without_one(news):
    folder = news(item(published_at="2024-01-02 08:30:00"), item(published_at="2024-01-02T00:30:00Z"))
    assert {
        record.known
        for record in records(FileSource(folder, options=TableOptions(record_zone="Asia/Shanghai")))
    } == {datetime(2024, 1, 2, 8, 30)}
    found = open_source(folder, settings=load_settings(tables={"record_zone": "America/New_York"}))
    assert sorted(record.known for record in records(found)) == [
        datetime(2024, 1, 2, 13, 30),  # 00:30 in New York is later than what is written
        datetime(2024, 1, 2, 21, 30),
    ]
    with pytest.raises(BadOption, match="record_zone='Shanghai' is not a time zone"):
        FileSource(folder, options=TableOptions(record_zone="Shanghai"))


def test_a_file_may_have_two_zones_and_symbols_of_two_exchanges(folder, news):
    (folder / "us.csv").write_text(US_BARS)
    same = {"published_at": "2025-03-03T13:30:00Z"}
    folder = news(item(**same), item(ticker="AAPL", published_at="2025-03-03T21:30:00+08:00"))
    source = FileSource(folder, options=AS_STAMPED)
    assert [record.known for record in records(source)] == [
        datetime(2025, 3, 3, 21, 30),
        datetime(2025, 3, 3, 8, 30),
    ]


def test_news_about_no_symbol_is_that_of_every_symbol(folder, news):
    (record,) = records(FileSource(news(item(ticker=None)), options=AS_STAMPED), "000001.SZ")
    assert (record.symbol, record.known) == ("", datetime(2024, 1, 2, 8, 30))
    (folder / "us.csv").write_text(US_BARS)  # with two exchanges, the later of the two local times
    assert records(FileSource(folder, options=AS_STAMPED))[0].known == datetime(2024, 1, 2, 8, 30)
    (folder / "bars.csv").unlink()
    assert records(FileSource(folder, options=AS_STAMPED))[0].known == datetime(2024, 1, 1, 19, 30)


def test_records_are_asked_for_by_kind_symbol_and_day(news):
    source = FileSource(
        news(
            item(title="one"),
            item(title="evening", published_at="2024-01-02T15:59:59Z"),  # 23:59:59 in Shanghai
            item(title="next day", published_at="2024-01-02T16:00:00Z"),
            item(title="other", ticker="000001.SZ"),
            item(title="never", published_at=None),
        ),
        options=AS_STAMPED,
    )
    on = day("2024-01-02")

    def titles(*given):
        return [record.body["title"] for record in source.records(*given)]

    assert titles(["news"], ["600519.SH"], on, on) == ["one", "evening", "never"]
    assert titles(["news"], ["600519.SH"], day("2024-01-03"), LAST) == ["next day", "never"]
    assert titles(["filing"], ["600519.SH"], on, on) == []
    assert titles(["news"], ["no such code"], on, on) == []
    with pytest.raises(BadWindow):
        titles(["news"], [], LAST, FIRST)
    with pytest.raises(BadOption, match="kind='gossip'"):
        titles(["gossip"], [], on, on)


def test_as_of_a_moment_later_records_and_those_without_a_date_are_not_there(news):
    items = [item(title=f"{hour}", published_at=f"2024-01-03T{hour:02}:00:00+08:00") for hour in (8, 9, 15)]
    source = FileSource(news(*items, item(title="never", published_at=None)), options=AS_STAMPED)
    known = AsOfSource(source, Moment.at("2024-01-03", "open"))
    found = known.records(["news"], ["600519.SH"], FIRST, LAST)
    assert [record.body["title"] for record in found] == ["8"]
    assert known.record_kinds == ("news",)


def test_gzip_and_separators_of_lines_within_a_text(folder):
    text = lines(item(title="one\u2028two\x85three"), item()) + "\r\n\n"
    (folder / "any name.JSONL.gz").write_bytes(gzip.compress(text.encode()))
    found = records(FileSource(folder))
    assert [record.body["title"] for record in found] == ["one\u2028two\x85three", "a title"]


LINE = '{"ticker": "600519.SH", "title": "a", "published_at": "2024-01-02T00:30:00Z"}'
REFUSED = {
    "corrupt line": (f"{LINE}\n{LINE[:-5]}", "line 2: not JSON"),
    "brackets": (f"{LINE}\n{'[' * 100_000}", "line 2: not readable"),
    "digits": (f"{LINE}\n{'1' * 10_000}", "line 2: not readable"),
    "no symbol": (LINE.replace("ticker", "about"), 'line 1: a news item needs a "ticker", "symbol" or'),
    "no symbol later": (f"{LINE}\n" + '{"title": "a"}', 'line 2: a news item needs a "ticker"'),
    "no title later": (f"{LINE}\n" + '{"ticker": "AAPL"}', 'line 2: a news item needs a "title"'),
    "not an object": (f"{LINE}\n[1]", 'line 2: a news item needs a "title"'),
    "a sentence": (LINE.replace("600519.SH", "buy it all"), "line 1: ticker='buy it all' is not a code"),
    "a number": (LINE.replace('"600519.SH"', "600519"), "line 1: ticker=600519 is not a code"),
    "no such day": (
        LINE.replace("01-02", "02-30"),
        "line 1: published_at='2024-02-30T00:30:00Z' is not a time",
    ),
    "words": (LINE.replace("2024-01-02T00:30:00Z", "yesterday"), "published_at='yesterday' is not a time"),
    "true": (LINE.replace('"2024-01-02T00:30:00Z"', "true"), "published_at=True is not a time"),
    "milliseconds": (LINE.replace('"2024-01-02T00:30:00Z"', "1704184200000"), "is not a time in seconds"),
    "zero": (LINE.replace('"2024-01-02T00:30:00Z"', "0"), "published_at=0 is not a time in seconds"),
    "not a number": (LINE.replace('"2024-01-02T00:30:00Z"', "NaN"), "is not a time in seconds"),
    "a list": (LINE.replace('"a"', '["a"]'), "line 1: title must be a text"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_bad_line_is_named_with_its_file(news, case):
    text, words = REFUSED[case]
    told = message(news(text=text))
    assert told.startswith("news.jsonl")
    assert words in told


def test_news_of_an_exchange_whose_zone_is_not_known_has_the_latest_local_time_of_the_world(news):
    folder = news(item(ticker="0700.HK"))
    (record,) = records(FileSource(folder, options=AS_STAMPED), "0700.HK")
    assert record.known == datetime(2024, 1, 2, 14, 30)


def article(**more: Any) -> dict[str, Any]:
    """An article in the form of Alpha Vantage's NEWS_SENTIMENT."""
    return {
        "title": "Two makers of chips agree",
        "url": "https://news.example/1",
        "time_published": "20250303T083000",
        "authors": ["A. Writer"],
        "summary": "They share a plant.",
        "banner_image": None,
        "source": "Example News",
        "category_within_source": "n/a",
        "source_domain": "news.example",
        "topics": [{"topic": "Technology", "relevance_score": "1.0"}],
        "overall_sentiment_score": 0.31,
        "overall_sentiment_label": "Somewhat-Bullish",
        "ticker_sentiment": [
            {"ticker": ticker, "relevance_score": "0.9", "ticker_sentiment_score": "0.3"}
            for ticker in ("AAPL", "MSFT", "CRYPTO:BTC", "0700.HK", "AAPL")
        ],
        **more,
    }


@pytest.fixture
def feed(folder: Path):
    """Writes AI-Trader's ``news.json`` beside US bars, and gives the folder."""
    (folder / "bars.csv").unlink()
    (folder / "us.csv").write_text(US_BARS + US_BARS.splitlines()[1].replace("AAPL", "MSFT"))

    def write(*articles: Any) -> Path:
        document = {"items": str(len(articles)), "sentiment_score_definition": "x", "feed": list(articles)}
        (folder / "news.json").write_text(json.dumps(document, indent=4))
        return folder

    return write


def test_a_feed_is_news_of_each_share_that_it_names_known_from_its_time_in_a_declared_zone(feed):
    other = article(title="Rates rise", time_published="20250303T210000", ticker_sentiment=[])
    source = FileSource(feed(article(), other), options=TableOptions(record_zone="America/New_York"))
    found = records(source, "AAPL", "MSFT")
    assert [(each.symbol, each.known, each.body["title"]) for each in found] == [
        ("AAPL", datetime(2025, 3, 3, 8, 30), "Two makers of chips agree"),
        ("MSFT", datetime(2025, 3, 3, 8, 30), "Two makers of chips agree"),
        ("", datetime(2025, 3, 3, 21), "Rates rise"),
    ]
    assert found[0].body == {
        "title": "Two makers of chips agree",
        "description": "They share a plant.",
        "publisher": "Example News",
        "id": "https://news.example/1",
    }
    known = AsOfSource(source, Moment.at("2025-03-03", "open"))  # half past nine in New York
    assert {each.symbol for each in known.records(["news"], ["AAPL", "MSFT"], FIRST, LAST)} == {
        "AAPL",
        "MSFT",
    }


def test_the_vendor_of_a_feed_declares_no_zone_so_that_its_news_are_known_at_the_end_of_the_day(feed):
    (first, *_) = records(FileSource(feed(article())), "AAPL")
    assert first.known == date(2025, 3, 3)
    options = TableOptions(record_zone={"Example News": "UTC"})
    (first, *_) = records(FileSource(feed(article()), options=options), "AAPL")
    assert first.known == datetime(2025, 3, 3, 3, 30)


def test_an_article_without_a_time_is_never_known(feed):
    source = FileSource(feed(article(), article(time_published="")))
    assert [each.known is None for each in records(source, "AAPL")] == [False, True]
    assert any("2 of 4 records have no date" in note for note in source.provenance("en"))


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ({"time_published": "yesterday"}, "time_published='yesterday' is not a time; write"),
        (
            {"time_published": "20250230T000000"},
            "time_published='20250230T000000' is not a time of the calendar",
        ),
        ({"ticker_sentiment": "AAPL"}, 'an article needs "title", "time_published", "ticker_sentiment"'),
        ({"ticker_sentiment": [{"ticker": "buy it all"}]}, "ticker='buy it all' is not a code"),
        ({"ticker_sentiment": [{"ticker": 7}]}, "ticker=7 is not a code"),
        ({"title": ["a"]}, "title must be a text"),
    ],
)
def test_a_bad_article_is_named_in_one_line(feed, bad, words):
    told = message(feed(article(), article(**bad)))
    assert told.startswith("news.json, the document, feed item 2: ")
    assert words in told
    assert "\n" not in told


@pytest.mark.parametrize("bad", [None, "AAPL", ["title"]])
def test_an_article_that_is_not_an_object_is_named(feed, bad):
    assert message(feed(article(), bad)).startswith("news.json, the document, feed item 2: an article needs")


def test_an_empty_file_is_left_out_and_a_line_of_ten_megabytes_is_refused(folder, news):
    for text in ("", "\n \n"):
        (folder / "news.jsonl").write_text(text)
        assert "news.jsonl was left out: is empty" in FileSource(folder).notes
    assert message(news(item(description="x" * 10_000_000))) == (
        "news.jsonl, line 1: description has more than 100,000 characters"
    )


def test_news_alone_is_no_market(news, folder):
    (news(item()) / "bars.csv").unlink()
    assert "holds no daily bar" in message(folder)


def test_other_json_is_left_out_as_before(folder):
    (folder / "package.json").write_text('{"title": "a program", "version": 1}')
    (note,) = [note for note in FileSource(folder).notes if "package.json" in note]
    assert "left out" in note


# Filings -----------------------------------------------------------------------------------------


def test_a_filing_is_known_at_the_end_of_its_day_else_of_the_annual_report_else_never(filings):
    source = FileSource(
        filings(
            "600519.SH,Q1,2023-03-31,2023-04-28,2024-04-01,10",
            "600519.SH,Q4,2023-12-31,,2024-04-02,20",
            "600519.SH,Q2,2023-06-30,,,30",
            "600519.SH,Q3,2023-09-30,2023-09-29,,40",
            header="symbol,fiscal_period,end_date,filing_date,annual_filing_date,revenues",
        )
    )
    assert source.record_kinds == ("filing",)
    known = {record.body["fiscal_period"]: record.known for record in records(source, kind="filing")}
    assert known == {"Q1": date(2023, 4, 28), "Q4": date(2024, 4, 2), "Q2": None, "Q3": None}
    assert "filings.csv: 2 of 4 records have no date and are never known" in source.notes
    store = DataState()
    store.record(records(source, kind="filing"))
    seen = [len(store.view(Moment.at(at, "pre_open")).records("filing")) for at in ("20230428", "20230429")]
    assert seen == [0, 1]


def test_what_is_missing_in_a_filing_is_none(filings):
    (record,) = records(FileSource(filings("600519.SH,Q1,2023-03-31,2023-04-28,")), kind="filing")
    numbers = ("revenues", "net_income_loss", *(f"{kind}_{what}" for what in ("earnings_per_share", "average_shares")
                                               for kind in ("basic", "diluted")))  # fmt: skip
    assert record.body == {
        "fiscal_year": None, "fiscal_period": "Q1", "start_date": "", "end_date": "2023-03-31",
        **dict.fromkeys(numbers),
    }  # fmt: skip


BAD_FILINGS = {
    "600519.SH,Q1,2023-03-31,soon,1": "filings.csv, row 1, column filing_date: soon is not a date",
    "600519.SH,Q1,2023-02-30,2023-04-28,1": "column end_date: 2023-02-30 is not a day of the calendar",
    "600519.SH,Q1,2023-03-31,2023-04-28,much": "column revenues: 'much' is not a number",
    "600519.SH,Q1,2023-03-31,2023-04-28,inf": "column revenues: is infinite",
    ",Q1,2023-03-31,2023-04-28,1": "column symbol: is empty",
}


@pytest.mark.parametrize("row", BAD_FILINGS)
def test_a_bad_cell_of_a_filing_is_named(filings, row):
    assert BAD_FILINGS[row] in message(filings(row))


def test_filings_without_a_row_or_with_half_a_year_are_refused(filings):
    assert message(filings()) == "filings.csv has a header and no row"
    header = "symbol,fiscal_year,filing_date,revenues"
    told = message(filings("600519.SH,2023.5,2023-04-28,1", header=header))
    assert told == "filings.csv, row 1, column fiscal_year: 2023.5 is not a year"


def test_filings_in_parquet_are_the_same(folder):
    rows = {
        "ticker": ["600519.SH"],
        "filing_date": [pd.Timestamp("2023-04-28")],
        "fiscal_year": [2023],
        "revenues": [0.1],
    }
    pd.DataFrame(rows).to_parquet(folder / "filings.parquet")
    (record,) = records(FileSource(folder), kind="filing")
    assert (record.known, record.body["fiscal_year"], record.body["revenues"]) == (
        date(2023, 4, 28),
        2023,
        0.1,
    )


# Real data ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def real(shared_data: Path) -> Path:
    return shared_data / "stockbench"


@pytest.fixture(scope="module")
def source(real: Path) -> FileSource:
    return FileSource(real)


@pytest.fixture(scope="module")
def published(real: Path) -> list[tuple[str, str, datetime]]:
    """Ticker, title and the New York time from which each news item is known, worked out without the library.

    By the extract's README the stamps of MarketWatch are New York's, those of Yahoo UTC. Of all others nothing
    is sure but that a zone is at most twelve hours behind UTC: the day in which that time lies must be over.
    """
    with gzip.open(real / "news_2025-03.jsonl.gz", "rt", encoding="utf-8") as file:
        items = [json.loads(line) for line in file]
    new_york = ZoneInfo("America/New_York")

    def known(each: dict[str, Any]) -> datetime:
        stamp = datetime.fromisoformat(each["published_at"])
        if each["publisher"] == "MarketWatch":
            return stamp.replace(tzinfo=None)
        local = stamp.astimezone(new_york).replace(tzinfo=None)
        latest = (stamp + timedelta(hours=12)).astimezone(new_york)
        of_day = datetime(latest.year, latest.month, latest.day, 23, 59, 59)
        return local if each["publisher"] == "Yahoo" else of_day

    return [(each["ticker"], each["title"], known(each)) for each in items]


@pytest.fixture(scope="module")
def committed(source: FileSource) -> DataState:
    store, sessions = DataState(), source.sessions()
    store.update("ohlcv", source.bars(source.symbols(), sessions[0], sessions[-1]))
    store.record(source.records(source.record_kinds, source.symbols(), FIRST, LAST))
    return store


def test_the_real_folder_has_bars_dividends_splits_news_and_filings(real, source, published):
    assert source.record_kinds == ("filing", "news", "action")
    assert len(source.symbols()) == 20
    found = records(source)
    assert (
        len(found)
        == len({(each.symbol, each.known, each.body["id"]) for each in found})
        == len(published)
        == 905
    )
    assert "dividend" in source.market.bars
    left_out = {note.partition(" was left out")[0] for note in source.notes if " was left out" in note}
    assert left_out == {"README.md", "published_results.csv", "stock_indicators.csv.gz"}
    with (real / "financials_quarterly.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    filed = records(source, kind="filing")
    assert len(filed) == len(rows) == 178
    for record, row in zip(filed, rows, strict=True):
        known = row["filing_date"] or row["annual_filing_date"]
        assert (record.symbol, str(record.known or "")) == (row["symbol"], known)
        for name, value in record.body.items():
            told = (
                row[name] if name.endswith(("_date", "period")) else float(row[name]) if row[name] else None
            )
            assert value == told


def test_no_real_news_of_nine_or_later_in_new_york_is_in_the_view_of_the_open(source, committed, published):
    sessions = source.sessions()
    march = sessions[(sessions >= "2025-03-03") & (sessions <= "2025-03-31")]
    assert len(march) == 21
    walk, counts = committed.growing_view(), []
    for session in march:
        midnight, moment = session.to_pydatetime(), Moment(session, "open")
        for before, view in (
            (midnight, walk.at(moment)),
            (midnight, committed.view(moment, news_until="previous_day")),
            (midnight.replace(hour=9), committed.view(moment)),
        ):
            expected = sorted((ticker, title) for ticker, title, at in published if at < before)
            seen = [(each.symbol, each.body["title"]) for each in view.records("news")]
            assert sorted(seen) == expected
            by_symbol = [each for symbol in source.symbols() for each in view.records("news", symbol)]
            assert sorted((each.symbol, each.body["title"]) for each in by_symbol) == expected
        counts.append(len(expected))
    assert counts == sorted(counts)
    assert 0 < counts[0] < counts[-1] < 905


def test_the_snapshot_from_after_the_window_is_not_read(real, source, committed):
    """AAPL's low of 8 April stands in the table of indicators on 3 March already."""
    low = 169.2101
    with gzip.open(real / "stock_indicators.csv.gz", "rt") as file:
        first = next(row for row in csv.DictReader(file) if row["symbol"] == "AAPL")
    assert (first["date"], float(first["week_52_low"])) == ("2025-03-03", low)
    assert not source.market.indicators
    sessions = source.sessions()
    for session in sessions[(sessions >= "2025-03-03") & (sessions <= "2025-04-09")]:
        view = committed.view(Moment(session, "open"))
        frames = [frame for panel in view.values() for frame in panel.values()]
        there = any((frame == low).to_numpy().any() for frame in frames)
        told = any(str(low) in str(each.body) for each in view.all_records())
        assert not told
        assert there == (session >= day("2025-04-09"))  # the low of the bar of 8 April, known since its close
