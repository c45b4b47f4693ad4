"""Records that a decider needs: fetched into the run's commit, up to the window's end, and never asked for again."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
from deciders import Needing
from langgraph.runtime import RunControl
from states import flat, grouped

from quantgraph.broker.ledger import Ledger
from quantgraph.data.files import FileSource
from quantgraph.errors import RunMismatch, SourceUnavailable
from quantgraph.graph._graph import create_trading_graph
from quantgraph.runs import replay, resume_run, run_strategy
from quantgraph.runtime import Resources
from quantgraph.settings import load_settings
from quantgraph.state import DataState, Record

CODES = "600000.SH,600519.SH"
DAYS = pd.bdate_range("2024-01-02", periods=12)
WINDOW = f"{DAYS[5]:%Y%m%d}-{DAYS[9]:%Y%m%d}"
REQUEST = f"{CODES}, {WINDOW}"
RULE = "buy when the 2-day average crosses above the 3-day average, sell when it crosses below"


class Reader(Needing):
    """Keeps the titles that it could read at each open."""

    name = "reader"

    def decide(self, context):
        titles = [each.body["title"] for each in context.view.records("news")]
        self.seen[f"{context.session:%Y%m%d}"] = titles
        return []


class Counting(FileSource):
    """A source that counts how often it is asked for records."""

    def __init__(self, path) -> None:
        super().__init__(path, options=load_settings().tables)
        self.asked: list[tuple] = []

    def records(self, kinds, symbols, start, end):
        self.asked.append((list(kinds), list(symbols), f"{start:%Y%m%d}", f"{end:%Y%m%d}"))
        return super().records(kinds, symbols, start, end)


def news(title: str, published: str, ticker: str | None = "600519.SH") -> str:
    return json.dumps({"ticker": ticker, "title": title, "published_at": published})


@pytest.fixture(autouse=True)
def shown_until_the_open(monkeypatch):
    """The stamps of these news have their zone, and the session's own day is shown up to the open."""
    monkeypatch.setenv("QUANTGRAPH_TABLES", '{"record_zone": "stamp"}')
    monkeypatch.setenv("QUANTGRAPH_NEWS_UNTIL", "open")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    market = tmp_path / "market"
    market.mkdir()
    rows = [
        {"ts_code": code, "trade_date": f"{day:%Y%m%d}"}
        | dict.fromkeys(("open", "high", "low", "close"), 10.0 + place % 3 / 2)
        | {"vol": 1000}
        for code in (*CODES.split(","), "000001.SZ")
        for place, day in enumerate(DAYS)
    ]
    pd.DataFrame(rows).to_csv(market / "bars.csv", index=False)
    lines = [
        news("before", "2023-12-29T09:00:00+08:00"),
        news("long before", "2023-06-01T09:00:00+08:00"),
        news("early", f"{DAYS[6]:%Y-%m-%d}T08:59:59+08:00"),
        news("too late for the open", f"{DAYS[6]:%Y-%m-%d}T09:00:00+08:00"),
        news("the market", f"{DAYS[7]:%Y-%m-%d}T08:00:00+08:00", None),
        news("not asked about", f"{DAYS[7]:%Y-%m-%d}T08:00:00+08:00", "000001.SZ"),
        news("after the window", f"{DAYS[10]:%Y-%m-%d}T08:00:00+08:00"),
        news("never", ""),
    ]
    (market / "news.jsonl").write_text("\n".join(lines))
    return market


SEEN = [
    ["before"],
    ["before", "early"],
    ["before", "early", "too late for the open", "the market"],
    ["before", "early", "too late for the open", "the market"],
    ["before", "early", "too late for the open", "the market"],
]


@pytest.fixture
def ledger(tmp_path):
    with Ledger(tmp_path / "ledger.sqlite") as opened:
        yield opened


@pytest.fixture
def graph(store, ledger):
    def build(decider, source, **options):
        resources = Resources(store=store, ledger=ledger)
        options = {"on_clarify": "fail", **options}
        return create_trading_graph(decider=decider, source=source, resources=resources, **options)

    return build


def ask(text, **more):
    return {"messages": [("user", text)], "run_id": "r", **more}


@pytest.mark.parametrize("signal", [False, True])
def test_records_of_the_request_are_committed_and_shown_when_they_are_known(graph, store, folder, signal):
    decider, source = Reader("news", signal=signal), Counting(folder)
    state = graph(decider, source).invoke(ask(f"{REQUEST}, {RULE}" if signal else REQUEST))
    assert state["ended_because"] == "done"
    assert list(decider.seen.values()) == SEEN
    # Two weeks before 9 January; the sessions that the signal needs before it do not count.
    assert source.asked == [(["news"], CODES.split(","), "20231226", "20240115")]
    committed = [each.body["title"] for each in store.snapshot(state["data_ref"]).records("news")]
    assert sorted(committed) == sorted(SEEN[-1])
    assert not any("records" in note or "记录" in note for note in flat(state)["request"]["notes"])


def test_by_default_a_decider_sees_the_news_of_earlier_days(graph, folder, monkeypatch):
    monkeypatch.delenv("QUANTGRAPH_NEWS_UNTIL")
    decider = Reader("news")
    graph(decider, Counting(folder)).invoke(ask(REQUEST))
    later = ["before", "early", "too late for the open"]
    assert list(decider.seen.values()) == [["before"], ["before"], later, SEEN[-1], SEEN[-1]]


def test_news_without_a_declared_zone_is_shown_when_its_day_is_over_everywhere(graph, folder, monkeypatch):
    """09:00 in Shanghai may be 09:00 in UTC-12, which is 05:00 of the next day in Shanghai."""
    monkeypatch.delenv("QUANTGRAPH_TABLES")
    decider = Reader("news")
    graph(decider, Counting(folder)).invoke(ask(REQUEST))
    seen = [sorted(titles) for titles in decider.seen.values()]
    until = [["before"]] * 3
    assert seen == [*until, ["before", "early", "too late for the open"], sorted(SEEN[-1])]


def test_a_decider_that_needs_none_asks_for_none(graph, store, folder):
    source = Counting(folder)
    state = graph(Reader(), source).invoke(ask(REQUEST))
    assert (state["ended_because"], source.asked) == ("done", [])
    assert not store.snapshot(state["data_ref"]).records("news")


def test_kinds_that_the_source_or_these_symbols_do_not_have_are_named(graph, folder):
    state = graph(Reader("news", "filing"), folder).invoke(ask(REQUEST))
    assert flat(state)["request"]["notes"] == ["no source gives records of kind filing"]
    (folder / "news.jsonl").write_text(news("about another", "2024-01-09", "000001.SZ"))
    source = FileSource(folder)
    state = graph(Reader("news"), source).invoke(ask(REQUEST, run_id="none"))
    assert flat(state)["request"]["notes"] == [f"{folder} has no records of kind news about these symbols"]
    state = graph(Reader("news"), source).invoke(
        ask(f"{CODES}，{DAYS[5]:%Y%m%d}到{DAYS[9]:%Y%m%d}", run_id="zh")
    )
    assert flat(state)["request"]["notes"] == [f"{folder} 没有这些代码的 news 类记录"]


def test_a_kind_without_a_record_is_fetched_once_before_the_signal_too(graph, folder):
    (folder / "news.jsonl").write_text(news("about another", "2024-01-09", "000001.SZ"))
    source = Counting(folder)
    state = graph(Reader("news", signal=True), source).invoke(ask(f"{REQUEST}, {RULE}"))
    assert (state["ended_because"], len(source.asked)) == ("done", 1)
    notes = [note for note in flat(state)["request"]["notes"] if "records" in note]
    assert notes == [f"{folder} has no records of kind news about these symbols"]


def test_news_after_the_runs_moment_is_not_fetched(graph, store, folder):
    decider = Reader("news")
    state = graph(decider, folder).invoke(grouped(ask(REQUEST, as_of=f"{DAYS[6]:%Y%m%d}")))
    assert list(decider.seen.values()) == SEEN[:2]
    committed = {each.body["title"] for each in store.snapshot(state["data_ref"]).records("news")}
    assert committed == {"before", "early", "too late for the open"}


def test_filings_are_fetched_from_the_beginning(graph, store, folder):
    (folder / "filings.csv").write_text(
        "symbol,fiscal_period,end_date,filing_date,revenues\n"
        "600519.SH,Q1,2010-03-31,2010-04-28,1\n600519.SH,Q4,2023-12-31,2024-01-31,2\n"
    )
    state = graph(Reader("filing"), folder).invoke(ask(REQUEST))
    (filing,) = store.snapshot(state["data_ref"]).records("filing", "600519.SH")
    assert filing.body["revenues"] == 1


def test_a_host_without_the_records_in_its_commit_gets_them_with_a_request(graph, store, folder):
    source = Counting(folder)
    bars = source.bars(CODES.split(","), DAYS[5], DAYS[9])
    ref = store.update("ohlcv", bars, base=store.empty)
    decider = Reader("news")
    state = graph(decider, source).invoke(ask(REQUEST, data_ref=ref))
    assert (state["ended_because"], len(source.asked)) == ("done", 1)
    assert list(decider.seen.values()) == SEEN


def test_given_data_are_traded_as_they_are_and_what_they_lack_is_named(graph, store, folder):
    source = Counting(folder)
    ref = store.update("ohlcv", source.bars(CODES.split(","), DAYS[5], DAYS[9]), base=store.empty)
    given = store.record([Record("news", DAYS[0].date(), "600519.SH", {"title": "the host's"})], base=ref)
    decider = Reader("news", "filing", indicators=("pe_ttm",))
    state = graph(decider, source).invoke({"data_ref": given, "run_id": "r"})
    assert (state["ended_because"], state["data_ref"], source.asked) == ("done", given, [])
    assert decider.seen[f"{DAYS[5]:%Y%m%d}"] == ["the host's"]
    assert flat(state)["request"]["notes"] == [
        "no source gives records of kind filing",
        "the decider needs the indicator pe_ttm, which the data do not have",
    ]


class Shaky(Counting):
    """A source that is busy when it is first asked for records."""

    def records(self, *given):
        found = super().records(*given)
        if len(self.asked) == 1:
            raise SourceUnavailable("busy")
        return found


def test_a_source_that_fails_for_a_moment_is_asked_again_and_the_run_replays(folder, tmp_path):
    decider, source = Reader("news"), Shaky(folder)
    done = run_strategy(REQUEST, source=source, decider=decider, out=tmp_path)
    assert (done["ended_because"], len(source.asked)) == ("done", 2)
    assert list(decider.seen.values()) == SEEN
    decider = Reader("news")
    assert replay(done["run_dir"], decider=decider).identical
    assert list(decider.seen.values()) == SEEN


def test_a_replay_takes_records_from_the_run_alone(folder, tmp_path):
    done = run_strategy(REQUEST, source=folder, decider=Reader("news", "filing"), out=tmp_path)
    assert done["ended_because"] == "done"
    (folder / "news.jsonl").write_text(news("another past", "2024-01-02T00:00:00Z"))
    decider = Reader("news", "filing")
    assert replay(done["run_dir"], decider=decider).identical
    assert list(decider.seen.values()) == SEEN


def test_a_stopped_run_is_resumed_with_the_records_that_it_has(folder, tmp_path):
    control = RunControl()

    def watch(event):
        if event.kind == "session" and event.text == f"{DAYS[6]:%Y%m%d}":
            control.request_drain("enough")

    source = Counting(folder)
    resources = Resources(control=control, watch=watch)
    half = run_strategy(REQUEST, source=source, decider=Reader("news"), out=tmp_path, resources=resources)
    assert (half["ended_because"], len(source.asked)) == ("cancelled", 1)
    decider = Reader("news")
    done = resume_run(half["run_dir"], source=source, decider=decider)
    assert (done["ended_because"], len(source.asked)) == ("done", 1)
    assert list(decider.seen.values()) == SEEN[-len(decider.seen) :]
    assert replay(done["run_dir"], decider=Reader("news")).identical


def test_one_thread_may_ask_for_more_symbols_later(store, folder):
    """What was committed for the first request stays; the second one gets what it needs besides."""
    source, store = Counting(folder), DataState()
    decider = Reader("news")
    graph = create_trading_graph(
        decider=decider, source=source, on_clarify="fail", resources=Resources(store=store)
    )
    first = graph.invoke({"messages": [("user", f"600000.SH, {WINDOW}")], "run_id": "one"})
    more = {"messages": [("user", REQUEST)], "run_id": "two", "data_ref": first["data_ref"]}
    graph.invoke(more)
    assert list(decider.seen.values()) == SEEN
    assert [symbols for _, symbols, *_ in source.asked] == [["600000.SH"], CODES.split(",")]


def test_records_of_a_request_before_are_not_those_of_the_next(store, folder):
    """The second request has what it would have in a thread of its own."""
    decider = Reader("news")
    graph = create_trading_graph(
        decider=decider, source=folder, on_clarify="fail", resources=Resources(store=store)
    )
    first = graph.invoke({"messages": [("user", REQUEST)], "run_id": "one"})
    assert len(store.snapshot(first["data_ref"]).records("news", "600519.SH")) == 3
    alone = {"messages": [("user", f"600000.SH, {WINDOW}")], "run_id": "two"}
    second = graph.invoke({**alone, "data_ref": first["data_ref"]})
    third = graph.invoke({**alone, "run_id": "three"})
    assert second["data_ref"] == third["data_ref"]
    assert [each.body["title"] for each in store.snapshot(second["data_ref"]).records("news")] == [
        "the market"
    ]


def test_where_a_model_fetches_the_bars_code_fetches_the_records(graph, folder):
    decider = Reader("news")
    state = graph(decider, folder, settings=load_settings(fetch="agent")).invoke(ask(REQUEST))
    assert (state["ended_because"], list(decider.seen.values())) == ("done", SEEN)


def test_the_declared_zone_of_news_belongs_to_the_run(folder, tmp_path):
    (folder / "news.jsonl").write_text(news("early", f"{DAYS[6]:%Y-%m-%d} 08:59:59"))
    control = RunControl()

    def watch(event):
        if event.kind == "session" and event.text == f"{DAYS[6]:%Y%m%d}":
            control.request_drain("enough")

    zone = {"settings": load_settings(tables={"record_zone": "Asia/Shanghai"})}
    half = run_strategy(
        REQUEST,
        source=folder,
        decider=Reader("news"),
        out=tmp_path,
        resources=Resources(control=control, watch=watch, **zone),
    )
    assert half["ended_because"] == "cancelled"
    other = Resources(settings=load_settings(tables={"record_zone": "America/New_York"}))
    with pytest.raises(
        RunMismatch, match=r"settings\.tables\.record_zone: .*Asia/Shanghai.* -> .*America/New_York"
    ):
        resume_run(half["run_dir"], decider=Reader("news"), resources=other)
    decider = Reader("news")
    done = resume_run(half["run_dir"], decider=decider, resources=Resources(**zone))
    assert (done["ended_because"], decider.seen[f"{DAYS[9]:%Y%m%d}"]) == ("done", ["early"])
    decider = Reader("news")
    assert replay(done["run_dir"], decider=decider).identical
    assert list(decider.seen.values()) == [[], *[["early"]] * 4]
