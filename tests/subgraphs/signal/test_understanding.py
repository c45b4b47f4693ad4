"""What is watched, traded and not done, from the parameters of a reading."""

from __future__ import annotations

import json

import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from states import flat

from quantgraph.agents import SignalRule
from quantgraph.errors import BadOption
from quantgraph.llm.messages import _json as tags
from quantgraph.report import BuyAndHold
from quantgraph.sentences import RequestContext, read_request, write_code
from quantgraph.subgraphs.signal import create_signal_subgraph
from quantgraph.subgraphs.signal._agents import ModelClause
from quantgraph.subgraphs.signal._plan import with_plan
from quantgraph.subgraphs.signal.understanding import not_done_words, symbols_of

pytestmark = pytest.mark.proof

THREAD = {"configurable": {"thread_id": "t"}}


@pytest.mark.parametrize(
    ("params", "watch", "trade", "index"),
    [
        ({"ts_code": "600519.SH"}, [], ["600519.SH"], []),
        (
            {"ts_code": "000016.SH,600519.SH", "watch": "000016.SH", "trade": "600519.SH"},
            ["000016.SH"],
            ["600519.SH"],
            ["000016.SH"],
        ),
        ({"ts_code": "上证50,600519.SH", "watch": "上证50"}, ["000016.SH"], ["600519.SH"], ["000016.SH"]),
        ({"ts_code": "", "watch": "601318.SH", "trade": "600519.SH"}, ["601318.SH"], ["600519.SH"], []),
        (
            {"ts_code": "000016.SH", "watch": "000016.SH", "trade": "000016.SH"},
            ["000016.SH"],
            ["000016.SH"],
            ["000016.SH"],
        ),
        ({"ts_code": "000016.SH", "watch": "000016.SH"}, ["000016.SH"], ["000016.SH"], ["000016.SH"]),
        ({"ts_code": "000016.SH"}, [], ["000016.SH"], []),
        ({"ts_code": "600519.SH", "watch": "600519.SH", "trade": "600519.SH"}, [], ["600519.SH"], []),
    ],
)
def test_watched_and_traded_are_told_apart(params, watch, trade, index):
    assert symbols_of(params) == {"watch": watch, "trade": trade, "index": index}


def test_what_the_caller_fixed_is_traded_and_what_is_watched_stays():
    params = {"ts_code": "601318.SH,000016.SH", "watch": "000016.SH", "trade": "601318.SH"}
    assert symbols_of(params, fixed="600519.SH") == {
        "watch": ["000016.SH"],
        "trade": ["600519.SH"],
        "index": ["000016.SH"],
    }


ALL = SignalRule().executes


def test_what_is_carried_out_is_a_plan_and_what_is_not_is_named_in_the_persons_words():
    sized = ModelClause(quote="每次只用三成资金", part="plan", status="not_done").model_dump()
    lent = ModelClause(quote="2倍杠杆", part="plan").model_dump()
    said = {"plan": {"size": 0.3, "stop_loss": "8%", "leverage": 2}, "clauses": [sized, lent]}
    params = with_plan(said, ALL)
    assert params["plan"] == {"size": {"percent": "0.3"}, "stop_loss": "0.08"}
    assert [(each["quote"], each["status"]) for each in params["clauses"]] == [
        ("每次只用三成资金", "done"),
        ("2倍杠杆", "not_done"),
    ]
    assert not_done_words(params) == ["2倍杠杆"]
    exits = with_plan(said, BuyAndHold().executes)
    assert exits["plan"] == {"stop_loss": "0.08"}
    assert not_done_words(exits) == ["每次只用三成资金", "2倍杠杆"]


def test_a_part_that_nobody_can_find_in_the_text_is_named_as_it_was_read():
    params = with_plan({"plan": {"stop_loss": 2, "trailing_stop": "much"}, "clauses": []}, ALL)
    assert params["plan"] == {"stop_loss": "0.02"}
    assert not_done_words(params) == ["trailing_stop much"]


@pytest.mark.parametrize(
    ("said", "planned"),
    [
        ({"size": 20_000}, {"size": {"cash": "20000"}}),
        ({"size": "30%"}, {"size": {"percent": "0.3"}}),
        ({"size": "equal"}, {"size": "equal_weight"}),
        ({"size": {"shares": 500.0}}, {"size": {"shares": "500"}}),
        ({"trade_on": "monthly"}, {"trade_on": "month_start"}),
        ({"trade_on": "every 5 sessions"}, {"trade_on": 5}),
        ({"max_holding": 20.0, "max_positions": "5"}, {"max_positions": 5, "max_holding": 20}),
        ({"take_profit": 0.2}, {"take_profit": "0.2"}),
        (
            {"accumulate": {"amount": 5000.0, "on": "schedule"}},
            {"accumulate": {"amount": "5000", "on": "schedule"}},
        ),
    ],
)
def test_values_are_read_as_models_write_them(said, planned):
    assert with_plan({"plan": said, "clauses": []}, ALL)["plan"] == planned


def test_what_was_given_up_is_not_asked_about_again():
    clauses = [{"quote": "2倍杠杆", "became": "", "status": "not_done"}]
    assert not_done_words({"clauses": clauses}) == ["2倍杠杆"]
    assert not_done_words({"clauses": clauses}, waived=["2倍杠杆"]) == []


LEVERED = {"plan": {"leverage": 2}, "clauses": [{"quote": "2x leverage", "became": "", "status": "not_done"}]}


@pytest.mark.parametrize("answer", ["1", "yes", "go on without 2x leverage", "without it", "skip it"])
def test_a_clause_that_nothing_executes_is_asked_about_and_named_not_done(play, graph_of, answer):
    cast = play.Cast(reflect=play.intent(**LEVERED))
    graph = graph_of(cast, checkpointer=InMemorySaver())
    waiting = graph.invoke({"messages": [("user", play.SENTENCE)]}, THREAD)
    question = waiting["__interrupt__"][0].value
    assert (question["kind"], question["default"]) == ("plan", None)
    assert question["options"] == ["go on without 2x leverage"]
    final = graph.invoke(Command(resume=answer), THREAD)
    assert final["ended_because"] == "done"
    not_done = [each for each in flat(final)["understanding"]["clauses"] if each["status"] == "not_done"]
    assert [each["words"] for each in not_done] == ["2x leverage"]


@pytest.mark.parametrize("answer", ["cancel", "取消"])
def test_cancel_ends_the_request_whatever_is_asked(play, graph_of, answer):
    cast = play.Cast(reflect=play.intent(start_date="", end_date=""))
    graph = graph_of(cast, checkpointer=InMemorySaver())
    waiting = graph.invoke({"messages": [("user", play.SENTENCE)]}, THREAD)
    assert waiting["__interrupt__"][0].value["kind"] == "window"
    assert graph.invoke(Command(resume=answer), THREAD)["ended_because"] == "cancelled"


def test_a_plain_no_to_going_on_without_a_clause_ends_the_request(play, graph_of):
    graph = graph_of(play.Cast(reflect=play.intent(**LEVERED)), checkpointer=InMemorySaver())
    graph.invoke({"messages": [("user", play.SENTENCE)]}, THREAD)
    assert graph.invoke(Command(resume="no"), THREAD)["ended_because"] == "cancelled"


def test_a_clause_of_one_english_word_is_named_not_done_and_is_no_code(play, graph_of):
    plan = {"clauses": [{"quote": "leverage", "became": "", "status": "not_done"}]}
    cast = play.Cast(reflect=lambda messages, turn: json.dumps(play.intent(**plan if turn == 1 else {})))
    graph = graph_of(cast, checkpointer=InMemorySaver())
    graph.invoke({"messages": [("user", play.SENTENCE)]}, THREAD)
    final = graph.invoke(Command(resume="without it"), THREAD)
    assert ("leverage", "not_done") in [
        (each["words"], each["status"]) for each in flat(final)["understanding"]["clauses"]
    ]
    assert not any("leverage" in note for note in flat(final)["request"]["notes"])


def test_a_rule_that_is_said_again_without_its_stop_gives_the_stop_up(play, graph_of):
    sentence = f"{play.ONE}，5日均线上穿20日均线买入，下穿卖出，止损5%，2024年"
    words = {"clauses": [{"quote": "止损5%", "became": "", "status": "not_done"}]}
    rule = "5日均线上穿20日均线买入，下穿卖出"
    said = play.intent(start_date="20240101", end_date="20241231", strategy_desc=rule, **words)
    code = write_code(read_request(sentence, RequestContext()).strategy).source
    graph = graph_of(play.Cast(reflect=said, code=code), checkpointer=InMemorySaver())
    waiting = graph.invoke({"messages": [("user", sentence)]}, THREAD)
    assert waiting["__interrupt__"][0].value["kind"] == "plan"
    final = graph.invoke(Command(resume="5日均线上穿20日均线买入，下穿卖出"), THREAD)
    assert final["ended_because"] == "done"
    assert [
        each["words"] for each in flat(final)["understanding"]["clauses"] if each["status"] == "not_done"
    ] == ["止损5%"]


def test_headless_nobody_goes_on_without_a_clause(play, graph_of):
    final = graph_of(play.Cast(reflect=play.intent(**LEVERED)), on_clarify="default").invoke(
        {"messages": [("user", play.SENTENCE)]}
    )
    assert final["ended_because"] == "needs_answer"
    assert flat(final)["open_question"]["kind"] == "plan"
    assert flat(final)["open_question"]["options"] == ["go on without 2x leverage"]


def test_one_of_several_spans_is_asked_for(play, graph_of):
    spans = [["20240102", "20240112"], ["20240122", "20240131"]]
    cast = play.Cast(
        reflect=lambda messages, turn: json.dumps(
            play.intent(windows=spans)
            if turn == 1
            else play.intent(start_date="20240122", end_date="20240131")
        )
    )
    graph = graph_of(cast, checkpointer=InMemorySaver())
    waiting = graph.invoke({"messages": [("user", f"{play.ONE} up-day rule")]}, THREAD)
    question = waiting["__interrupt__"][0].value
    assert question["options"] == ["20240102-20240112", "20240122-20240131"]
    final = graph.invoke(Command(resume="2"), THREAD)
    assert flat(final)["understanding"]["windows"] == [["20240122", "20240131"]]


def test_a_confirmation_is_asked_once_and_a_new_sentence_there_changes_the_request(play, graph_of):
    cast = play.Cast(
        reflect=lambda messages, turn: json.dumps(play.intent(ts_code=play.ONE if turn == 1 else play.TWO))
    )
    graph = graph_of(cast, confirm=True, checkpointer=InMemorySaver())
    waiting = graph.invoke({"messages": [("user", "up-day rule, January 2024")]}, THREAD)
    question = waiting["__interrupt__"][0].value
    assert (question["kind"], question["options"]) == ("confirmation", ["yes", "no"])
    assert "traded: 000341.SZ; window: 20240102 - 20240131" in question["question"]
    assert "fetch" not in cast.turns
    waiting = graph.invoke(Command(resume="take 000342.SZ"), THREAD)
    assert "traded: 000342.SZ" in waiting["__interrupt__"][0].value["question"]
    final = graph.invoke(Command(resume="yes"), THREAD)
    assert (final["ended_because"], cast.turns["reflect"]) == ("done", 2)
    assert flat(final)["understanding"]["trade"] == ["000342.SZ"]


def test_a_function_may_confirm_and_is_listed_as_the_one_who_did(play, graph_of):
    graph = graph_of(play.Cast(), confirm=True, on_clarify=lambda question: "yes")
    final = graph.invoke({"messages": [("user", play.SENTENCE)]})
    assert (final["ended_because"], flat(final)["assumptions"]) == ("done", ["confirmation: yes (callable)"])


def test_a_declined_understanding_ends_cancelled(play, graph_of):
    graph = graph_of(play.Cast(), confirm=True, checkpointer=InMemorySaver())
    graph.invoke({"messages": [("user", play.SENTENCE)]}, THREAD)
    final = graph.invoke(Command(resume="no"), THREAD)
    assert (final["ended_because"], final["signal_ready"]) == ("cancelled", False)


def test_a_confirmation_needs_somebody_to_ask(play, graph_of):
    with pytest.raises(BadOption, match="confirm=True asks"):
        graph_of(play.Cast(), confirm=True, on_clarify="default")


def test_a_slip_goes_back_to_the_model_once_and_then_to_the_person(play, graph_of):
    wrong, right = play.intent(start_date="20230103", end_date="20230131"), play.intent()
    cast = play.Cast(reflect=lambda messages, turn: json.dumps(wrong if turn == 1 else right))
    final = graph_of(cast).invoke({"messages": [("user", play.SENTENCE)]})
    assert final["ended_because"] == "done"
    errors = tags.read("errors", cast.said["reflect"][1])
    assert errors == "misread: the sentence says 20240101-20240131, not 20230103-20230131"
    stubborn = play.Cast(reflect=wrong)
    graph = graph_of(stubborn, checkpointer=InMemorySaver())
    question = graph.invoke({"messages": [("user", play.SENTENCE)]}, THREAD)["__interrupt__"][0].value
    assert (question["kind"], stubborn.turns["reflect"]) == ("window", 2)
    assert "The model misread this twice" in question["question"]


def test_a_model_that_stays_with_what_the_words_may_mean_is_believed(play, graph_of):
    sentence = f"ICBC, or {play.ONE}: up-day rule, January 2024"
    lagging = play.intent(ts_code=f"{play.ONE},{play.TWO}")
    cast = play.Cast(reflect=lagging)
    final = graph_of(cast).invoke({"messages": [("user", sentence)]})
    assert (final["ended_because"], cast.turns["reflect"]) == ("done", 2)
    assert flat(final)["understanding"]["trade"] == [play.ONE, play.TWO]
    turns = [lagging, play.intent(ts_code=f"{play.ONE},000343.SZ")]
    unsure = play.Cast(reflect=lambda messages, turn: json.dumps(turns[turn - 1]))
    asked = graph_of(unsure, checkpointer=InMemorySaver()).invoke({"messages": [("user", sentence)]}, THREAD)
    question = asked["__interrupt__"][0].value
    assert (question["kind"], question["default"]) == ("symbol", None), "a code was said: not all stocks"


@pytest.mark.parametrize("windows", [[], [["20240101", "20240131"], ["20240201", "20240229"]]])
def test_spans_that_touch_are_one_and_nobody_is_asked(play, graph_of, windows):
    sentence = f"{play.ONE} up-day rule, January and February 2024"
    read = play.intent(start_date="20240101", end_date="20240229", windows=windows)
    final = graph_of(play.Cast(reflect=read)).invoke({"messages": [("user", sentence)]})
    assert final["ended_because"] == "done"
    assert flat(final)["understanding"]["windows"] == [["20240101", "20240229"]]


def test_an_echoed_template_is_the_models_fault_and_a_sentence_of_the_family_is_read_without_it(
    play, graph_of
):
    echo = play.intent(ts_code="") | {"analysis": "one or two sentences", "reasoning": "why"}
    sentence = f"{play.ONE}，5日均线上穿20日均线买入，下穿卖出，2024年"
    final = graph_of(play.Cast(reflect=echo), on_clarify="default").invoke({"messages": [("user", sentence)]})
    assert flat(final)["understanding"]["trade"] == [play.ONE]
    assert flat(final)["understanding"]["windows"] == [["20240101", "20241231"]]
    assert any("repeated the prompt's template" in line for line in flat(final)["assumptions"])
    graph = graph_of(play.Cast(reflect=echo), checkpointer=InMemorySaver())
    question = graph.invoke({"messages": [("user", sentence)]}, THREAD)["__interrupt__"][0].value
    assert question["kind"] == "confirmation"
    unread = graph_of(play.Cast(reflect=echo), on_clarify="default").invoke(
        {"messages": [("user", "buy strong ones")]}
    )
    assert unread["error_messages"][-1].startswith("model_output_invalid: the model repeated")


def test_a_message_after_the_end_changes_the_last_request_and_starts_from_its_code(play, graph_of):
    changed = play.intent(ts_code=play.TWO)
    cast = play.Cast(reflect=lambda messages, turn: json.dumps(play.intent() if turn == 1 else changed))
    graph = graph_of(cast, checkpointer=InMemorySaver())
    graph.invoke({"messages": [("user", play.SENTENCE)]}, THREAD)
    final = graph.invoke({"messages": [("user", f"take {play.TWO}")]}, THREAD)
    assert (final["ended_because"], flat(final)["understanding"]["trade"]) == ("done", [play.TWO])
    last = json.loads(tags.read("last_request", cast.said["reflect"][1]))
    assert (last["ts_code"], last["start_date"], last["strategy_desc"]) == (
        play.ONE,
        play.WINDOW[0],
        play.RULE,
    )
    assert tags.read("user_request", cast.said["reflect"][1]) == f"take {play.TWO}"
    assert play.GOOD_CODE.strip() in cast.said["code"][1]
    assert play.GOOD_CODE.strip() not in cast.said["code"][0]


def test_a_vague_rule_has_no_default_in_its_place(play, graph_of):
    asks = play.intent(strategy_desc="", question="how strong is strong?")
    final = graph_of(play.Cast(reflect=asks), on_clarify="default").invoke(
        {"messages": [("user", f"{play.ONE}，买点强势股，走弱了就卖，2024年")]}
    )
    assert (final["ended_because"], flat(final)["open_question"]["default"]) == ("needs_answer", None)
    assert "how strong is strong?" in final["error_messages"][-1]


def test_what_was_given_up_stays_given_up_in_other_words_and_in_the_result(play, graph_of):
    again = {"clauses": [{"quote": "borrowing", "became": "", "status": "not_done"}]}
    cast = play.Cast(
        reflect=lambda messages, turn: json.dumps(
            play.intent(**LEVERED) if turn == 1 else play.intent(**again) if turn == 2 else play.intent()
        )
    )
    graph = graph_of(cast, checkpointer=InMemorySaver())
    graph.invoke({"messages": [("user", play.SENTENCE)]}, THREAD)
    final = graph.invoke(Command(resume="1"), THREAD)
    assert final["ended_because"] == "done"
    not_done = [
        each["words"] for each in flat(final)["understanding"]["clauses"] if each["status"] == "not_done"
    ]
    assert not_done == ["borrowing", "2x leverage"]


@pytest.mark.parametrize(
    ("said", "is_default"),
    [
        ("000341.SZ 2025年11月6日 5日均线上穿20日均线买入，下穿卖出", True),
        ("000341.SZ since 2025-11-06: buy when MA5 crosses above MA20, sell when it crosses below", False),
        ("000341.SZ 20251106-20251231 5日均线上穿20日均线买入，下穿卖出", False),
    ],
)
def test_of_one_day_the_end_that_nobody_named_is_a_default(said, is_default):
    state = create_signal_subgraph(model="keyless", on_clarify="default").invoke(
        {"messages": [HumanMessage(said)]}
    )
    clause = {"words": "", "became": "window: 20251106-20251231", "status": "default"}
    assert (clause in flat(state)["understanding"]["clauses"]) is is_default
