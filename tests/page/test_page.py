"""The page's HTML, without a browser: what it says, that it is whole, that nothing leaves its place."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from quantgraph._util.texts import escape_controls
from quantgraph.page._comparison import common_accounts, render_comparison, run_names, two_numbers
from quantgraph.page._page import render_page
from quantgraph.page._summary import ending, open_findings

from .page_views import HOSTILE, hostile_view, view_of

DAYS = ["2024-01-02", "2024-01-03"]


def test_hostile_texts_stay_texts():
    page = render_page(hostile_view())
    for text in (page.html, page.card):
        assert "<img" not in text
        assert "<b>&" not in text
        assert "\u202e" not in text
    assert page.html.count("</script>") == 5  # the data, plotly, and three of our own
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', page.html, re.DOTALL).group(
        1
    )
    assert json.loads(data)["symbols"] == [escape_controls(HOSTILE)]


def test_a_page_reaches_nothing():
    page = render_page(view_of([], DAYS), inline=False).html
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', page).group(1)
    assert "default-src &#39;none&#39;" in policy
    assert "connect-src &#39;none&#39;" in policy
    allowed = policy.partition("script-src ")[2].partition("; style-src")[0].replace("&#39;", "'").split()
    assert {each.partition("-")[0] for each in allowed} == {"'sha256", "'nonce"}
    assert not re.findall(r'(?:src|href)="(?:https?:)?//', page)
    assert re.findall(r'<script src="([^"]+)"', page)[0].startswith("../report_files/plotly-")


@pytest.mark.parametrize(("because", "word"), [("needs_answer", "waits for an answer"), ("failed", "failed")])
def test_an_end_that_is_no_success_says_so_and_what_to_do(because, word):
    base = view_of([], DAYS)
    result = {**base.result, "ended_because": because}
    view = replace(base, result=result, closing="why it ended so", resumed_by="quantgraph resume run-1")
    page = render_page(view).html
    assert f'<span class="badge bad" id="ending">{word}' in page
    assert "why it ended so" in page
    assert "quantgraph resume run-1" in page


def test_the_table_of_models_has_the_calls_of_all_sessions():
    def used(role, session, calls, tokens, cost):
        return {
            "role": role, "model": "m", "session": session, "calls": calls,
            "prompt_tokens": tokens, "completion_tokens": 5, "cost": cost,
        }  # fmt: skip

    usage = [
        used("reflection", None, 1, 10, "0.5"),
        used("decision", DAYS[0], 2, 100, "0.25"),
        used("decision", DAYS[1], 3, 200, "0.25"),
        used("filter", DAYS[0], 1, None, "unknown"),
    ]
    base = view_of([], DAYS)
    page = render_page(replace(base, result={**base.result, "usage": usage})).html
    table = re.search(r'<table id="usage">(.*?)</table>', page, re.DOTALL).group(1)
    rows = [
        re.findall(r"<td[^>]*>(.*?)</td>", row) for row in re.findall(r"<tr>(.*?)</tr>", table, re.DOTALL)
    ]
    assert [row for row in rows if row] == [
        ["reading the sentence · m", "1", "15", "0.5"],
        ["decision · m", "5", "310", "0.50"],
        ["filter · m", "1", "?", "?"],
    ]
    assert len(re.findall("<th scope", table)) == 4


def test_a_finding_is_told_in_the_language_of_the_page():
    issue = {"severity": "warning", "code": "symbol_gap", "message": "no bars", "symbol": "A", "count": 3}
    base = view_of([], DAYS)
    view = replace(base, language="zh", result={**base.result, "validation": {"issues_found": [issue]}})
    assert "行情中断（A，共 3 处）" in render_page(view).html
    assert "no bars (A)" in render_page(replace(view, language="en")).html


def test_where_the_code_is_not_what_was_said_is_the_first_line_and_the_title_does_not_say_done_alone():
    issue = {"severity": "warning", "code": "meaning_differs", "message": "it differs", "zh": "代码不一致"}
    base = view_of([], DAYS)
    view = replace(base, language="zh", result={**base.result, "validation": {"issues_found": [issue]}})
    assert open_findings(view) == ["代码不一致"]
    assert render_page(view).html.index("代码不一致") < render_page(view).html.index("<main>")
    assert ending(view)["text"] == "完成（有未解决的问题）"
    failed = replace(view, result={**view.result, "ended_because": "meaning_failed"})
    assert ending(failed) == {"kind": "bad", "text": "没有交易：代码与所说的不一致"}


@pytest.mark.parametrize(
    ("rule", "names"),
    [
        ("# entry: cross_up(sma(close, {0}), ema(close, {1}))", ["short average", "long average"]),
        ("# entry: rsi({0}) < 30\n# exit: close < sma(close, {1})", ["rsi", "average"]),
        ("", ["number 1", "number 2"]),
    ],
)
def test_runs_that_differ_in_two_numbers_are_a_table(rule, names):
    def run(fast, slow):
        base = view_of([], DAYS, run_id=f"{fast}-{slow}", code=rule.format(fast, slow))
        account = {"return": fast / slow}
        return replace(
            base, result={**base.result, "question": f"{fast}-day over {slow}-day", "account": account}
        )

    views = [run(fast, slow) for fast in (5, 10) for slow in (20, 40)]
    accounts = common_accounts(views)[1]
    grid = two_numbers(views, accounts)
    assert grid["names"] == names
    assert (grid["rows"], grid["columns"]) == (["5", "10"], ["20", "40"])
    assert grid["maps"]["return"]["cells"] == [[0.25, 0.125], [0.5, 0.25]]
    assert (grid["maps"]["return"]["best"], grid["maps"]["return"]["worst"]) == ([1, 0], [0, 1])
    assert run_names(views) == ["5 / 20", "5 / 40", "10 / 20", "10 / 40"]
    assert two_numbers(views[:3], accounts[:3]) is None
    assert two_numbers([*views, views[0]], [*accounts, accounts[0]]) is None
    page = render_comparison(views).html
    assert page.count('class="heat') == 4
    assert "10-day over 40-day" in page
