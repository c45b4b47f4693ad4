"""Runs side by side: their names, a common day, and which is better."""

from __future__ import annotations

from dataclasses import replace

import pytest

from quantgraph.page._comparison import common_accounts, render_comparison, run_names

from .page_views import HOSTILE, hostile_view, view_of

DAYS = ["2024-01-02", "2024-01-03", "2024-01-04"]


def run(name, question, values=(100.0, 110.0, 99.0, 108.9), judged="20240102"):
    base = view_of([], DAYS, run_id=name)
    result = {
        **base.result,
        "question": question,
        "evaluated_from": judged,
        "account": {"return": values[-1] / values[0] - 1, "trades": 3},
        "equity": {"sessions": ["20240101", "20240102", "20240103", "20240104"], "account": list(values)},
    }
    return replace(base, result=result)


def test_runs_are_named_by_the_words_that_differ():
    sentences = ["A, buy when RSI(14) is below 30, 2024", "A, buy when the close is above its high, 2024"]
    assert run_names([run(str(at), text) for at, text in enumerate(sentences)]) == [
        "RSI(14) is below 30",
        "the close is above its high",
    ]
    assert run_names([run("a", "5日均线上穿"), run("b", "5日均线下穿")]) == ["上", "下"]
    assert run_names([run("first", "same"), run("second", "same")]) == ["first", "second"]


def test_numbers_are_from_the_latest_day_that_a_run_is_judged_from():
    views = [run("a", "x 5"), run("b", "x 10", judged="20240103")]
    since, (first, second) = common_accounts(views)
    assert f"{since:%Y%m%d}" == "20240103"
    # the value before that day is 110: 108.9 / 110 - 1
    assert first["return"] == second["return"] == pytest.approx(-0.01)
    assert first["max_drawdown"] == pytest.approx(-0.1)
    assert first["trades"] == 3
    page = render_comparison(views).html
    assert "Here each begins on 2024-01-03 with the same cash" in page
    assert "5 +8.90%; 10 +8.90%" in page
    assert first["final_value"] == pytest.approx(99.0)  # of the initial 100
    assert common_accounts([views[0], run("c", "x 7")]) == (
        None, [views[0].result["account"], {"return": pytest.approx(0.089), "trades": 3}],
    )  # fmt: skip


def test_of_two_runs_the_difference_and_the_better_one_are_marked():
    page = render_comparison([run("a", "x 5"), run("b", "x 10", values=(100.0, 110.0, 99.0, 120.0))]).html
    row = page.split('<tr id="number-return">')[1].split("</tr>")[0]
    assert 'class="best">20.00%' in row
    assert '<td class="number gain">11.10%' in row


def test_hostile_names_stay_texts():
    page = render_comparison([hostile_view(), run("a", HOSTILE + "b")]).html
    assert "<img" not in page
    assert page.count("</script>") == 4
