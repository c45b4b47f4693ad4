"""Jina's search and reader over real HTTP: what passes the gate, what is recorded, and how each failure is told."""

from __future__ import annotations

import pandas as pd
import pytest
from decision_views import trading_tools_at
from jina_stub import JinaRequest, JinaStub

from quantgraph.errors import NotConfigured, PermissionDenied, RateLimited, SourceUnavailable
from quantgraph.market import Moment, Rulebook
from quantgraph.recording import Recording
from quantgraph.recording.scope import Scope, in_scope
from quantgraph.tools import call_tool, tools_of
from quantgraph.tools.news._sources import JinaNews

KEY = "jina-secret-4711"
NOW = Moment.at("2025-10-15", "open")
FRAME = pd.DataFrame({"AAPL": [180.0, 182.0]}, index=pd.to_datetime(["2025-10-14", "2025-10-15"]))
HITS = [
    {"title": "Known", "url": "https://a.example/1", "description": "of before", "date": "Oct 12, 2025"},
    {"title": "Edited later", "url": "https://a.example/2", "description": "x", "date": "Oct 12, 2025"},
    {"title": "Undated", "url": "https://a.example/3", "description": "x"},
    {"title": "Not read", "url": "https://a.example/4", "description": "described", "date": "2025-10-11"},
    {"title": "Ago", "url": "https://a.example/5", "description": "x", "date": "3 days ago"},
]
PAGES = {
    "https://a.example/1": {"content": "The whole page.", "publishedTime": "2025-10-12T08:00:00+00:00"},
    "https://a.example/2": {"content": "x", "publishedTime": "Thu, 16 Oct 2025 08:00:00 GMT"},
    "https://a.example/3": {"content": "x"},
}


def source(stub, key=KEY, **options):
    return JinaNews(key, search_url=stub.search_url, reader_url=stub.reader_url, timeout=5, **options)


def tools(news):
    panel = {"open": FRAME, "close": FRAME}
    rules = Rulebook.zero_cost("us")
    return trading_tools_at(panel, "2025-10-15", rules=rules, news=news, allow_leaky_search=True)


def ask(context, query="Apple news"):
    return call_tool(tools_of("trader")["get_information"], {"query": query}, context, timeout=5)


def test_pages_are_found_read_and_pass_the_gate():
    with JinaStub(hits=HITS, pages=PAGES, key=KEY) as stub:
        context = tools(source(stub))
        answer = ask(context)
        asked = stub.requests
    assert answer["results"] == [
        {
            "title": "Known",
            "content": "The whole page.",
            "url": "https://a.example/1",
            "published": "2025-10-13",
        },
        {
            "title": "Not read",
            "content": "described",
            "url": "https://a.example/4",
            "published": "2025-10-12",
        },
    ]
    assert context.dropped_news == ["not_before_the_moment", "no_time", "unreadable_time"]
    assert asked[0] == JinaRequest(service="search", body={"q": "Apple news"}, authorized=True)
    assert [each.body for each in asked[1:]] == [{"url": f"https://a.example/{n}"} for n in (1, 2, 3)]


def test_nothing_found_is_not_a_failure():
    with JinaStub(key=KEY) as stub:
        assert ask(tools(source(stub)))["results"] == []


def test_what_was_found_is_recorded_and_served_without_a_server(tmp_path):
    def scope(mode):
        recording = Recording("run", tmp_path / "recordings.db", mode=mode)
        return in_scope(Scope(recording=recording, path="decide"))

    with JinaStub(hits=HITS, pages=PAGES) as stub:
        news = source(stub)
        context = tools(news)
        with scope("record"):
            first = ask(context)
    for mode in ("record", "replay"):
        again = tools(news)
        with scope(mode):
            assert ask(again) == first
        assert again.dropped_news == context.dropped_news


@pytest.mark.parametrize(
    ("stub", "error", "said"),
    [
        (JinaStub(key="other"), PermissionDenied, "the key is refused"),
        (JinaStub(status=402), PermissionDenied, "balance is used up"),
        (JinaStub(status=429), RateLimited, "too many requests"),
        (JinaStub(status=500), SourceUnavailable, r"not its protocol \(500\)"),
        (JinaStub(status=302), SourceUnavailable, r"not its protocol \(302\)"),
        (JinaStub(text="<html>"), SourceUnavailable, "not its protocol"),
        (JinaStub(text="[1]"), SourceUnavailable, "not its protocol"),
        (JinaStub(text='{"code": 200}'), SourceUnavailable, "not its protocol"),
        (JinaStub(text="[" * 100_000), SourceUnavailable, "not its protocol"),
        (JinaStub(text="x" * 5_000_000), SourceUnavailable, "no connection"),
    ],
)
def test_a_failure_is_one_line_without_the_key(stub, error, said):
    with stub, pytest.raises(error, match=said) as caught:
        source(stub).search("x", NOW)
    assert KEY not in repr(caught.value) + str(caught.value.__cause__) + str(caught.value.__context__)
    assert "\n" not in caught.value.line


@pytest.mark.parametrize(
    "text", ['{"data": null}', '{"data": {}}', '{"data": [1, null, "x"]}', '{"data": "x"}']
)
def test_data_of_another_form_are_no_hits(text):
    with JinaStub(text=text) as stub:
        assert source(stub).search("x", NOW) == []


def test_odd_values_of_a_hit_are_left_out():
    text = '{"data": [{"title": 5, "url": ["x"], "description": null, "date": 1760000000}, {}]}'
    with JinaStub(text=text) as stub:
        first, second = source(stub).search("x", NOW)
    assert (first.title, first.url, first.content, first.published) == ("", "", "", "1760000000")
    assert second.published is None


def test_without_a_server_or_a_key():
    with JinaStub() as gone:
        news = source(gone)
    with pytest.raises(SourceUnavailable, match=r"no connection \(ConnectionError\)") as caught:
        news.search("x", NOW)
    assert caught.value.__context__ is None
    for key in (None, "", "  "):
        with pytest.raises(NotConfigured, match="set JINA_API_KEY"):
            JinaNews(key).search("x", NOW)
    assert KEY not in repr(vars(JinaNews(KEY)))
