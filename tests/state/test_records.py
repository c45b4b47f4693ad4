"""Records: when they are known, how they are kept, and that nothing said is lost."""

from __future__ import annotations

import datetime as dt
import json
import time
import tracemalloc
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quantgraph.errors import BadFile, BadOption, UnknownCommit
from quantgraph.market import PHASES, Moment
from quantgraph.state import DataState, Record
from quantgraph.state._commits import Commit, commit_name
from quantgraph.state.frames._records import RECORD_KINDS

CODE = "600519.SH"
DAY = dt.date(2024, 1, 3)


def at(hour: int, minute: int = 0, *, day: int = 3) -> dt.datetime:
    return dt.datetime(2024, 1, day, hour, minute)


def news(known: dt.date | None, text: str = "text", symbol: str = CODE) -> Record:
    return Record("news", known, symbol, {"text": text})


KNOWN = [
    (at(0), "open"),  # midnight opens the day, and what comes then is not before it
    (at(8, 59), "open"),
    (at(9), "close"),
    (at(14, 59), "close"),
    (at(15), "post_close"),
    (at(23, 59), "post_close"),
    (DAY, "post_close"),
    (at(23, 59, day=2), "pre_open"),
    (dt.date(2024, 1, 2), "pre_open"),
    (
        pd.Timestamp("2024-01-03 08:59:59.999999999"),
        "close",
    ),  # between two microseconds it counts as the later
]


@pytest.mark.parametrize(("known", "phase"), KNOWN, ids=str)
def test_what_was_published_before_a_phase_stands_is_known_at_it(store, known, phase):
    store.record([news(known)])
    on_the_day = [p for p in PHASES if store.view(Moment.at("2024-01-03", p)).records("news")]
    assert on_the_day == list(PHASES[PHASES.index(phase) :])
    assert Moment.at("2024-01-04", "pre_open").knows_published(known)
    assert not Moment.at("2024-01-02", "close").knows_published(known)


def test_what_has_no_date_is_never_known(store):
    store.record([news(None, "some day"), news(DAY)])
    assert [record.body["text"] for record in store.view(Moment.at("2200-01-01")).records("news")] == ["text"]
    assert [record.body["text"] for record in store.snapshot().records("news")] == ["text", "some day"]


def test_time_zones_are_refused_with_the_way_out(store):
    aware = dt.datetime(2024, 1, 3, 1, tzinfo=dt.UTC)
    with pytest.raises(BadOption, match=r"astimezone\(ZoneInfo\('Asia/Shanghai'\)\)\.replace\(tzinfo=None\)"):
        news(aware)
    with pytest.raises(BadOption, match="time zone"):
        Moment.at("2024-01-03").knows_published(pd.Timestamp(aware))
    local = aware.astimezone(ZoneInfo("Asia/Shanghai")).replace(tzinfo=None)
    assert news(local).known == at(9)


BAD = {
    "kind": (("rumour", DAY), "valid are name, membership, suspension, filing, news, memory"),
    "text as date": (("news", "2024-01-03"), "known='2024-01-03' must be a datetime"),
    "no time": (("news", pd.NaT), "known=NaT"),
    "symbol": (("news", DAY, 600519), "symbol=600519"),
    "line break": (("news", DAY, "a\nb"), "symbol="),
    "not a number": (("news", DAY, CODE, float("nan")), "record body is not JSON-serializable"),
    "object": (("news", DAY, CODE, {"day": DAY}), "record body is not JSON-serializable"),
    "numbers as keys": (("news", DAY, CODE, {1: "a"}), "dict with str keys"),
    "tuple": (("news", DAY, CODE, ("a",)), "list"),
    "half a letter": (("news", DAY, CODE, "\ud800"), "record body is not JSON-serializable"),
    "name of nobody": (("name", DAY, "", {"name": "x"}), "with a symbol"),
    "no name": (("name", DAY, CODE, {"name": ""}), "with a symbol"),
    "bare name": (("name", DAY, CODE, "x"), "with a symbol"),
    "no index": (("membership", DAY, "", {"symbols": []}), "of a membership"),
    "members in text": (("membership", DAY, "", {"index": "i", "symbols": "a,b"}), "of a membership"),
}


@pytest.mark.parametrize("case", BAD)
def test_records_that_are_none_are_refused(case):
    given, words = BAD[case]
    with pytest.raises(BadOption) as caught:
        Record(*given)
    assert words in caught.value.message
    assert len(caught.value.message.splitlines()) == 1


def test_a_record_cannot_be_changed_by_who_made_it_or_who_read_it(store):
    body = {"text": "a", "more": [1, {"deep": True}]}
    record = Record("filing", DAY, CODE, body)
    body["more"].append(2)
    record.body["more"].append(3)
    assert record.body == {"text": "a", "more": [1, {"deep": True}]}
    with pytest.raises(AttributeError):
        record.symbol = "x"
    with pytest.raises(BadOption, match="records must be Record"):
        store.record([("news", DAY)])


def test_a_later_text_stands_beside_the_earlier_one(store):
    first, second = news(at(10), "profit 10"), news(at(11), "corrected: profit 9")
    store.record([second])
    store.record([first])
    assert store.view(Moment.at("2024-01-03")).records("news") == (first, second)
    assert store.view(Moment.at("2024-01-03"), store.record([first])).records("news", CODE) == (first, second)


def test_records_are_asked_for_by_kind_and_symbol(store):
    mine, other, filing = news(at(10)), news(at(9), symbol=""), Record("filing", at(8), CODE, "f")
    store.record([mine, other, filing])
    view = store.view(Moment.at("2024-01-03"))
    assert view.records("news") == (other, mine)
    assert view.records("news", CODE) == (mine,)
    assert view.records("news", "") == (other,)
    assert view.records("filing") == (filing,)
    assert view.records("memory") == ()
    with pytest.raises(BadOption, match="kind='gossip'"):
        view.records("gossip")


def test_a_name_and_a_list_are_the_last_ones_known(store):
    store.record(
        [
            Record("name", dt.date(2024, 1, 2), CODE, {"name": "old"}),
            Record("name", at(0, day=4), CODE, {"name": "*ST new"}),
            Record("name", None, "000001.SZ", {"name": "never told"}),
            Record(
                "membership", dt.date(2024, 1, 2), "", {"index": "000016.SH", "symbols": [CODE, "600036.SH"]}
            ),
            Record("membership", at(16), "", {"index": "000016.SH", "symbols": [CODE]}),
        ]
    )
    before, then, after = (
        store.view(Moment.at(day, "open")) for day in ("2024-01-02", "2024-01-03", "2024-01-04")
    )
    assert (before.names(), before.members("000016.SH")) == ({}, None)
    assert (then.names(), then.members("000016.SH")) == ({CODE: "old"}, (CODE, "600036.SH"))
    assert (after.names(), after.members("000016.SH")) == ({CODE: "*ST new"}, (CODE,))
    assert after.members("000300.SH") is None


def test_equal_records_make_equal_commits_in_whatever_order_they_came(frame):
    one, two = DataState(), DataState()
    records = [news(at(hour), f"{hour}") for hour in range(8, 20)]
    one.update("ohlcv", {"close": frame})
    ref = one.record(records)
    for record in reversed(records):
        two.record([record, records[0]])
    assert two.update("ohlcv", {"close": frame}) == ref
    assert one.record([news(at(8), "else")]) != ref
    assert one.record([Record("filing", at(8), CODE, {"text": "8"})], base=ref) != ref


def test_content_names_of_commits_are_stable(store, frame):
    assert store.empty == "8a4deedc352f9670ea0f4426d746dd17"
    assert store.update("ohlcv", {"close": frame}) == "4b8505e11e81f85b6089393384f7e310"
    assert store.record([]) == store.head
    assert commit_name(Commit(panels={"ohlcv": {}, "indicators": {}, "signal": {}})) == store.empty


def test_records_stay_when_frames_come_and_go(store, frame):
    ref = store.record([news(DAY)])
    tree = store.checkout(ref)
    tree.update("signal", {"s": frame * 0})
    assert tree.snapshot().records("news") == (news(DAY),)
    later = store.record([news(at(9, day=4))], base=tree)
    assert later == tree.ref
    assert len(store.snapshot(store.without("signal", later)).records("news")) == 2
    assert len(store.snapshot(store.override(ohlcv={}, base=later)).records("news")) == 2
    assert store.snapshot(ref).records("news") == (news(DAY),)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8"), max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=4), inner, max_size=3)
    ),
    max_leaves=6,
)
INSTANTS = st.none() | st.dates() | st.datetimes().map(lambda instant: instant.replace(fold=0))
PLAIN = st.tuples(
    st.sampled_from([kind for kind in RECORD_KINDS if kind not in ("name", "membership", "action")]),
    INSTANTS,
    st.sampled_from(["", CODE]),
    JSON,
)


@settings(max_examples=60, deadline=None)
@given(st.lists(PLAIN, max_size=8))
def test_records_come_back_from_disk_as_they_went(tmp_path_factory, given):
    folder = tmp_path_factory.mktemp("spill")
    ref = DataState(folder).record(Record(*each) for each in given)
    back = DataState(folder).snapshot(ref)
    found = [record for kind in RECORD_KINDS for record in back.records(kind)]

    def line(kind, known, symbol, body):
        return f"{kind} {known!r} {symbol} {json.dumps(body, sort_keys=True)}"

    assert sorted(line(r.kind, r.known, r.symbol, r.body) for r in found) == sorted(
        {line(*each) for each in given}
    )
    for kind in RECORD_KINDS:
        instants = [record.instant or dt.datetime.max for record in back.records(kind)]
        assert instants == sorted(instants)


DAMAGE = {
    "changed": (lambda path: path.write_text(path.read_text().replace("text", "test")), "has been changed"),
    "gone": (lambda path: path.unlink(), "is not a file of records"),
    "no lines of JSON": (lambda path: path.write_text("x"), "is not a file of records"),
    "a number": (lambda path: path.write_text("1"), "is not a file of records"),
    "no text": (lambda path: path.write_bytes(b"\xff"), "is not a file of records"),
}


@pytest.mark.parametrize("case", DAMAGE)
def test_a_damaged_file_of_records_is_a_bad_file(tmp_path, case):
    damage, words = DAMAGE[case]
    ref = DataState(tmp_path).record([news(DAY)])
    (path,) = (tmp_path / "objects").iterdir()
    damage(path)
    with pytest.raises(BadFile, match=words):
        DataState(tmp_path).snapshot(ref)


def test_records_count_in_the_memory_limit_and_go_with_their_commit(tmp_path):
    text = "x" * 100_000
    store = DataState(memory_limit=250_000)
    refs = [store.record([news(at(9), f"{number}{text}")], base=store.empty) for number in range(5)]
    assert store.snapshot(refs[-1]).records("news")
    with pytest.raises(UnknownCommit):
        store.snapshot(refs[0])
    kept = DataState(tmp_path, memory_limit=250_000)
    assert [kept.record([news(at(9), f"{n}{text}")], base=kept.empty) for n in range(5)] == refs
    assert kept.snapshot(refs[0]).records("news")[0].body["text"] == f"0{text}"


def test_records_of_many_commits_are_held_once_and_counted_as_what_they_take():
    store, refs = DataState(), []
    tracemalloc.start()
    for number in range(20):
        refs.append(store.record([news(at(9, number), f"{number}" * 20_000)]))
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert len(store.snapshot(refs[-1]).records("news")) == 20
    assert held / 2 < store._shelf.nbytes < held * 2
    assert held < 2_000_000  # 20 texts, not 210


def test_many_records_are_cut_in_no_time(store):
    days = pd.bdate_range("2015-01-01", periods=2500)
    ref = store.record(news(day.date(), f"{day:%Y%m%d}") for day in days)
    walk = store.growing_view(ref)
    counts = [len(walk.at(Moment(day, "open")).records("news")) for day in days]
    assert counts == np.arange(2500).tolist()


SYMBOLS = [f"{number:06}.SZ" for number in range(300)]


def every_symbol(view) -> list[tuple[Record, ...]]:
    return [view.records("news", symbol) for symbol in SYMBOLS]


@pytest.fixture(scope="module")
def many() -> tuple[DataState, list[pd.Timestamp]]:
    """20,000 news of 300 symbols in 250 sessions."""
    days = pd.bdate_range("2024-01-01", periods=250)
    store = DataState()
    store.record(
        news(days[number // 80].date(), f"{number}", SYMBOLS[number * 7 % 300]) for number in range(20_000)
    )
    return store, list(days)


@pytest.mark.proof
def test_records_of_each_symbol_are_found_without_looking_at_all(many):
    """One look at each costs 20,000 x 300 comparisons a session: seconds."""
    store, days = many
    walk = store.growing_view()
    every_symbol(walk.at(Moment(days[-50], "open")))
    started = time.process_time()
    for day in days[-49:]:
        found = every_symbol(walk.at(Moment(day, "open")))
    assert (time.process_time() - started) / 49 < 0.05
    assert sum(map(len, found)) == 80 * 249


@pytest.mark.parametrize("place", [0, 1, 100, 249])
def test_an_index_has_what_a_look_at_all_records_finds(many, place):
    store, days = many
    walk, moment = store.growing_view(), Moment(days[place], "post_close")
    for day in days[: place : max(1, place // 7)]:
        walk.at(Moment(day, "open"))
    plain = tuple(each for each in store.snapshot().records("news") if moment.knows_published(each.known))
    for view in (walk.at(moment), store.view(moment)):
        assert view.records("news") == view.all_records() == plain
        assert every_symbol(view) == [
            tuple(each for each in plain if each.symbol == symbol) for symbol in SYMBOLS
        ]


def test_two_views_share_nothing_that_could_be_written_into(many):
    store, days = many
    walk = store.growing_view()
    first, second = walk.at(Moment(days[3], "open")), walk.at(Moment(days[3], "close"))
    of_first = first.records("news", SYMBOLS[0])
    second._known.records._groups.clear()
    second._known.records.entries = ()
    assert first.records("news", SYMBOLS[0]) == of_first != ()
    assert walk.at(Moment(days[3], "close")).records("news", SYMBOLS[0]) == of_first
