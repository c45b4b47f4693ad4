"""Readings of sentences held against their words: what is lost, turned or added is found, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from quantgraph.sentences.coverage import (
    ReadClause,
    ReadParameters,
    coverage_gaps,
    lost_numbers,
    unparsed_words,
)

BANKS = [
    Path(__file__).parents[2] / "data" / "sentences" / name
    for name in ("readings.jsonl", "readings_blind.jsonl")
]
ROWS = [json.loads(line) for path in BANKS for line in path.read_text(encoding="utf-8").splitlines()]
TEXT = "招商银行5日线上穿20日线买入，但当天大盘跌超1%就不买，下穿卖出"
FAITHFUL = (
    ReadClause(quote="5日线上穿20日线买入", became="5日均线上穿20日均线时买入", part="entry"),
    ReadClause(quote="但当天大盘跌超1%就不买", became="若当日大盘指数跌幅超过1%则不买入", part="entry"),
    ReadClause(quote="下穿卖出", became="5日均线下穿20日均线时卖出", part="exit"),
)
GIVEN = ReadParameters(codes=("600036.SH", "000001.SH"), names={"招商银行": "600036.SH"})


def gaps_of(row, kind):
    read = row[kind]
    clauses = [
        ReadClause(
            quote=each["quote"], became=each["became"], part=each["part"], done=each["status"] == "done"
        )
        for each in read["clauses"]
    ]
    codes = [code for name in ("ts_code", "watch", "trade") for code in read[name].split(",") if code]
    given = ReadParameters(
        codes=tuple(codes), plan=read["plan"], fields=tuple(read["required_indicators"]), names=row["names"]
    )
    return coverage_gaps(row["text"], clauses, given)


def test_the_bank_has_a_hundred_and_twenty_sentences_in_both_languages():
    assert len({row["text"] for row in ROWS}) == 120
    assert {language: sum(row["language"] == language for row in ROWS) for language in ("zh", "en")} == {
        "zh": 60,
        "en": 60,
    }
    assert all(each["quote"] in row["text"] for row in ROWS for each in row["faithful"]["clauses"])


def test_no_faithful_reading_of_the_bank_is_refused():
    assert {row["id"]: gaps for row in ROWS if (gaps := gaps_of(row, "faithful"))} == {}


@pytest.mark.parametrize(("kind", "share"), [("dropped", 0.98), ("inverted", 0.95), ("weakened", 0.85)])
def test_a_clause_of_the_bank_that_is_lost_turned_or_weakened_is_found(kind, share):
    rows = [row for row in ROWS if row[kind] is not None]
    found = sum(bool(gaps_of(row, kind)) for row in rows)
    assert len(rows) >= 70
    assert found >= share * len(rows)


def test_a_clause_that_is_gone_is_named_in_the_persons_words():
    (gap,) = coverage_gaps(TEXT, [FAITHFUL[0], FAITHFUL[2]], GIVEN)
    assert (gap.kind, gap.piece) == ("not_quoted", "但当天大盘跌超1%就不买")
    assert coverage_gaps(TEXT, FAITHFUL, GIVEN) == ()


@pytest.mark.parametrize(
    ("became", "kind"),
    [
        ("若当日大盘指数涨幅超过1%则不买入", "turned"),
        ("若大盘指数跌幅超过1%则不买入", "lost"),
        ("若当日大盘指数跌幅超过1%则买入", "lost"),
        ("若当日大盘指数跌幅超过2%则不买入", "lost"),
        ("若当日招商银行跌幅超过1%则不买入", "lost"),
        ("若当日大盘指数跌幅超过1%且RSI高于70则不买入", "added"),
    ],
)
def test_what_a_clause_became_is_held_against_its_quote(became, kind):
    clause = ReadClause(quote=FAITHFUL[1].quote, became=became, part="entry")
    (gap,) = coverage_gaps(TEXT, [FAITHFUL[0], clause, FAITHFUL[2]], GIVEN)
    assert gap.kind == kind


def test_a_quote_has_to_be_the_persons_words_but_for_width_case_and_spaces():
    loose = ReadClause(quote="５日线 上穿 20日线買入", became=FAITHFUL[0].became, part="entry")
    assert coverage_gaps(TEXT, [loose, *FAITHFUL[1:]], GIVEN) == ()
    other = ReadClause(quote="5日均线上穿20日均线买入", became=FAITHFUL[0].became, part="entry")
    assert "not_in_text" in {each.kind for each in coverage_gaps(TEXT, [other, *FAITHFUL[1:]], GIVEN)}


def test_what_is_named_as_not_done_or_stands_in_the_plan_is_not_lost():
    text = "600036.SH：金叉买入，死叉卖出，每次只用三成资金，止损8%"
    cross = [
        ReadClause(quote="金叉买入", became="均线金叉时买入", part="entry"),
        ReadClause(quote="死叉卖出", became="均线死叉时卖出", part="exit"),
    ]
    size = ReadClause(quote="每次只用三成资金", became="", part="plan", done=False)
    given = ReadParameters(codes=("600036.SH",), plan={"stop_loss": 0.08})
    assert coverage_gaps(text, [*cross, size], given) == ()
    assert [gap.piece for gap in coverage_gaps(text, cross, ReadParameters(codes=("600036.SH",)))] == [
        "每次只用三成资金",
        "止损8%",
    ]


def test_a_reading_without_quotes_must_have_the_numbers_fields_markets_and_exceptions():
    whole = ReadClause(quote=TEXT, became="5日线上穿20日线买入，下穿卖出", part="whole")
    assert coverage_gaps(TEXT, [whole], GIVEN)
    assert coverage_gaps(TEXT, [ReadClause(quote=TEXT, became=TEXT, part="whole")], GIVEN) == ()


def test_the_rest_is_shown_and_fillers_are_not():
    text = "帮我看看，5日线上穿20日线买入，图个吉利"
    assert unparsed_words(text, [FAITHFUL[0]]) == ("图个吉利",)


@pytest.mark.parametrize(
    ("quote", "became"),
    [
        ("成交量比前一天放大50%以上就买", "成交量比前一日增加50%或更多时买入"),
        ("buy when the J of KDJ turns up from below 0", "Buy when J of KDJ rises after having been below 0"),
        ("sell when J is above 90", "Sell when J exceeds 90"),
    ],
)
def test_other_words_for_the_same_are_no_gap(quote, became):
    part = "exit" if "sell" in quote else "entry"
    assert coverage_gaps(quote, [ReadClause(quote=quote, became=became, part=part)]) == ()


def test_a_stop_that_the_plan_has_needs_no_clause_and_one_that_was_dropped_must_not_be_there():
    stop = ReadParameters(plan={"stop_loss": 0.05})
    clauses = [ReadClause(quote="5日线上穿20日线买入", became="5日均线上穿20日均线时买入", part="entry")]
    assert coverage_gaps("5日线上穿20日线买入，跌5%止损", clauses, stop) == ()
    assert coverage_gaps("5日线上穿20日线买入，跌5%止损", clauses) != ()
    for message in ("drop the stop", "去掉止损"):
        (gap,) = coverage_gaps(message, [], stop)
        assert (gap.kind, gap.piece) == ("turned", message)
        assert coverage_gaps(message, []) == ()


@pytest.mark.parametrize(
    ("message", "old", "new"),
    [
        ("make the 25 a 30", "Buy when the 6-day RSI is below 25", "Buy when the 6-day RSI is below 30"),
        ("25改成30", "6日RSI低于25时买入", "6日RSI低于30时买入"),
        (
            "use 30 days instead of 20 days",
            "close above its 20-day average",
            "close above its 30-day average",
        ),
    ],
)
def test_what_a_message_replaces_need_not_come_back_but_what_replaces_it_must(message, old, new):
    changes = ReadParameters(before=old)
    whole, quoted = ({"quote": message, "part": part} for part in ("whole", "entry"))
    assert coverage_gaps(message, [ReadClause(became=new, **quoted)], changes) == ()
    assert coverage_gaps(message, [ReadClause(became=new, **whole)], changes) == ()
    assert coverage_gaps(message, [ReadClause(became=old, **whole)], changes) != ()


def test_dates_and_names_are_not_shown_as_unparsed():
    text = "贵州茅台，收盘价站上10日线买入，2025年5月6日到10月31日，图个吉利"
    clauses = [ReadClause(quote="收盘价站上10日线买入", became="收盘价上穿10日均线时买入", part="entry")]
    assert unparsed_words(text, clauses, ["贵州茅台"]) == ("图个吉利",)


@pytest.mark.parametrize("message", ["only Q3 2025", "only AAPL", "只在2025年第三季度"])
def test_only_of_dates_and_securities_is_no_clause(message):
    clauses = [ReadClause(quote="RSI低于30买入", became="RSI低于30时买入", part="entry")]
    given = ReadParameters(codes=("AAPL",), before="RSI低于30买入")
    assert coverage_gaps(f"{message}，RSI低于30买入", clauses, given) == ()
    (gap,) = coverage_gaps("只在大盘上涨时，RSI低于30买入", clauses, given)
    assert gap.kind == "not_quoted"


@pytest.mark.parametrize(
    ("quote", "code", "plan", "lost"),
    [
        ("close above EMA 50, three down days in a row", [60.0, 1.0, 2.0], {}, ("50",)),
        ("close above EMA 50, three down days in a row", [50.0, 1.0, 2.0], {}, ()),
        ("卖出后10天内不再买", [20.0, 5.0], {}, ("10天",)),
        ("跌破20日线卖出", [20.0], {}, ()),
        ("涨幅超过5%", [1.05], {}, ()),
        ("涨幅超过5%", [0.5], {}, ("5%",)),
        ("two weeks high", [10.0], {}, ()),
        ("止损6%", [30.0], {"stop_loss": "0.06"}, ()),
        ("600519 above its 20-day average", [20.0], {}, ()),
        ("沪深300站上20日线", [20.0], {}, ()),
    ],
)
def test_a_number_that_was_said_stands_in_the_code_or_in_the_plan(quote, code, plan, lost):
    assert lost_numbers([quote], code, ReadParameters(plan=plan)) == lost


def test_a_window_in_capitals_is_not_called_unread():
    said = "buy NVDA when the close is above its 20-day average, Jul to Oct 2025"
    clause = ReadClause(quote="buy NVDA when the close is above its 20-day average", became="")
    assert unparsed_words(said, [clause], ["NVDA"]) == ()
