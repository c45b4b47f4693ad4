"""Validation: code is held against the words, and a review is asked where code cannot read them whole."""

import json

import pytest
from crosses import CROSS, RIGHT, WRONG
from states import flat

from quantgraph.subgraphs.signal._agents import prompt_text


def answer(play, graph_of, code, **given):
    params = {"strategy_desc": CROSS, "start_date": "20240102", "end_date": "20240628"}
    cast = play.Cast(reflect=play.intent(**params), code=code)
    text = f"{play.ONE}，{CROSS}，2024年1月2日到2024年6月28日"
    return cast, graph_of(cast).invoke({"messages": [("user", text)], **given}, {"recursion_limit": 60})


def cells(play, *turns):
    """The code of each turn: one cell, then a closing word."""

    def code(messages, turn):
        ran = messages[-1].type == "tool"
        return "done" if ran else play.tool_call("python_repl", query=turns[min(turn, len(turns)) - 1])

    return code


def issues(state, of="code"):
    """Of each issue but that nothing but a model compared the code with the words."""
    found = flat(state)["validation"]["issues_found"]
    return [issue[of] for issue in found if issue["code"] != "not_compared"]


def test_a_finding_goes_back_once_and_mended_code_ends_done(play, graph_of):
    cast, state = answer(play, graph_of, cells(play, WRONG, RIGHT))
    assert state["ended_because"] == "done"
    assert not [code for code in issues(state) if code.startswith("meaning")]
    assert cast.turns["code"] == 2
    assert (
        'meaning: The code departs from "buy when close crosses above 20-day average' in cast.said["code"][1]
    )


def test_what_a_model_made_of_the_words_is_not_their_reference(play, graph_of):
    """The words exclude days of a falling market; the reading and its code leave that out, so a review is asked."""
    said = f"{CROSS}，但当天情绪低落就不买"
    cast = play.Cast(
        reflect=play.intent(
            strategy_desc=CROSS,
            start_date="20240102",
            end_date="20240628",
            clauses=[{"quote": said, "part": "entry", "became": said, "status": "done"}],
        ),
        code=RIGHT,
    )
    text = f"{play.ONE}，{said}，2024年1月2日到2024年6月28日"
    state = graph_of(cast).invoke({"messages": [("user", text)]}, {"recursion_limit": 60})
    assert (state["ended_because"], cast.turns["review"]) == ("done", 1)
    assert text in cast.said["review"][0]
    for part in (f"<request>{text}</request>", f"<strategy>{CROSS}</strategy>", f'"words":"{said}"'):
        assert part in cast.said["code"][0]


def test_right_code_is_not_asked_for_again(play, graph_of):
    cast, state = answer(play, graph_of, cells(play, RIGHT))
    assert cast.turns["code"] == 1
    assert not [code for code in issues(state) if code.startswith("meaning")]


@pytest.mark.parametrize("sentence", ["RSI低于70买入，高于30卖出", "RSI(14) below 70 buy, above 30 sell"])
def test_a_rule_that_buys_and_sells_at_once_is_shown_and_not_sent_back(graph_of, play, sentence):
    graph = graph_of(play.Cast(), model="keyless")
    state = graph.invoke({"messages": [("user", f"{play.ONE} {sentence} 20240102-20240628")]})
    assert (state["ended_because"], issues(state)[0]) == ("done", "meaning_overlap")


UP_DAY = "buy after an up day, sell after a down day"
TOO_PATIENT = """\
close = snapshot["ohlcv"]["close"]
signal = close.diff().gt(0).astype(float).where(close.diff().notna())
signal = signal.mask(close.diff() < -0.005 * close.shift(1), -1.0)
GLOBAL_DATA_STATE.update("signal", {"up_day": signal})
"""
MENDED = TOO_PATIENT.replace("-0.005 * close.shift(1)", "0")
CELL = """\
change = snapshot["ohlcv"]["close"]["000341.SZ"].diff().loc["2024-01-05"]
assert change > 0 or snapshot["signal"]["up_day"]["000341.SZ"].loc["2024-01-05"] == -1
"""


def reviewed(play, graph_of, **options):
    """A rule that the planner cannot read, and a review that shows its fault, or does not."""
    cast = play.Cast(reflect=play.intent(strategy_desc=UP_DAY), **options)
    return cast, graph_of(cast).invoke({"messages": [("user", f"{play.SENTENCE}, {UP_DAY}")]})


def issue(**changes):
    shown = {
        "severity": "error",
        "message": "down days are not sold",
        "symbol": "000341.SZ",
        "date": "2024-01-05",
        "expected": -1,
        "why": "the close fell",
        "cell": CELL,
    } | changes
    return {"issues_found": [shown]}


def test_a_fault_that_the_review_reproduces_goes_back_once(play, graph_of):
    review = lambda messages, turn: json.dumps(issue() if turn == 1 else {"issues_found": []})  # noqa: E731
    cast, state = reviewed(play, graph_of, code=cells(play, TOO_PATIENT, MENDED), review=review)
    assert (state["ended_because"], cast.turns["code"], cast.turns["review"]) == ("done", 2, 2)
    assert "The review reproduced a fault: down days are not sold. At 2024-01-05" in cast.said["code"][1]
    assert "assert change > 0 or snapshot" in cast.said["code"][1]
    assert not issues(state)


def test_the_review_sees_sentence_understanding_code_counts_and_trades(play, graph_of):
    cast, _ = reviewed(play, graph_of, code=cells(play, MENDED))
    (prompt,) = cast.said["review"]
    for part in (
        UP_DAY,
        '"understanding": {"rule": ',
        '"signal": "up_day"',
        "GLOBAL_DATA_STATE.update",
        '"counts": {"buy": ',
        '"entry_close": ',
    ):
        assert part in prompt


@pytest.mark.parametrize(
    "changes",
    [
        {"cell": ""},
        {"cell": "assert False"},
        {"cell": "snapshot['signal']\nassert False"},
        {"cell": CELL.replace("== -1", "== a_name_that_is_not")},
        {"cell": CELL.replace("== -1", "!= 5")},
        {"cell": CELL.replace("== -1", "== 5")},
        {"cell": "snapshot['signal'"},
        {"expected": None},
        {"symbol": "600519.SH"},
        {"date": "yesterday"},
        {"date": "2024-01-06"},
    ],
)
def test_a_fault_that_is_not_reproduced_is_a_warning(play, graph_of, changes):
    cast, state = reviewed(play, graph_of, code=cells(play, TOO_PATIENT), review=issue(**changes))
    assert (state["ended_because"], cast.turns["code"], cast.turns["review"]) == ("done", 2, 1)
    assert "a reviewer thinks: down days are not sold" in cast.said["code"][1]
    assert issues(state, "severity") == ["warning"]


@pytest.mark.parametrize(("mode", "asked"), [("auto", 1), ("always", 1), ("never", 0)])
def test_the_setting_says_when_a_rule_that_code_cannot_read_is_reviewed(
    play, graph_of, monkeypatch, mode, asked
):
    monkeypatch.setenv("QUANTGRAPH_REVIEW", mode)
    cast, _ = reviewed(play, graph_of, code=cells(play, MENDED))
    assert cast.turns["review"] == asked


@pytest.mark.parametrize(("mode", "asked"), [("auto", 0), ("always", 1)])
def test_a_rule_that_code_reads_whole_needs_no_review(play, graph_of, monkeypatch, mode, asked):
    monkeypatch.setenv("QUANTGRAPH_REVIEW", mode)
    cast, _ = answer(play, graph_of, cells(play, RIGHT))
    assert cast.turns["review"] == asked


def test_a_model_that_repeats_the_prompts_example_finds_nothing(play, graph_of):
    echo = prompt_text("validation", "en").format(validation_type="signal", expected_fields=[])
    cast, state = reviewed(play, graph_of, code=cells(play, MENDED), review=echo)
    assert (state["ended_because"], cast.turns["code"], cast.turns["review"]) == ("done", 1, 1)
    assert not issues(state)
