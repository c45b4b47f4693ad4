"""Writing a signal's code is one conversation: what was wrong follows the code, once, in whatever process."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.types import Command
from states import flat

from quantgraph.llm.messages import _json as tags
from quantgraph.recording import Recorder
from quantgraph.state import DataState
from quantgraph.subgraphs.signal._attempts import earlier_messages, open_attempts, with_errors

THREAD = {"configurable": {"thread_id": "t"}}
LEAK = """\
close = snapshot["ohlcv"]["close"]
GLOBAL_DATA_STATE.update("signal", {"tomorrow": (close.shift(-1) > close).astype(float)})
"""
SILENT = "close = snapshot['ohlcv']['close']\nup = close.diff() > 0\nprint(up.shape)"


def begin(text="up days"):
    return {"messages": [HumanMessage(text, id="m1")], "run_id": "r"}


def code_calls(cast):
    """The conversations in which code was asked for."""
    return [
        call.messages
        for call in cast.model.calls
        if any(
            isinstance(one, HumanMessage) and tags.read("strategy", str(one.text)) is not None
            for one in call.messages
        )
    ]


def by_turn(*cells):
    return lambda messages, turn: cells[min(turn, len(cells)) - 1]


def call_of(play, name, **args):
    """A scripted call in place of code."""
    return lambda messages, turn: play.tool_call(name, turn, **args)


# Mending -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bad", "says"),
    [("close = snapshot['ohlcv']['clos']", "code_failed: "), (SILENT, "no_signal: "), (LEAK, "not_causal: ")],
)
def test_what_was_wrong_follows_the_code_in_the_same_conversation_once(play, graph_of, bad, says):
    played = by_turn(bad, play.GOOD_CODE)

    def code(messages, turn):
        cell = played(messages, turn)
        return (
            AIMessage("I tried.")
            if isinstance(messages[-1], ToolMessage)
            else play.tool_call("python_repl", query=cell)
        )

    cast = play.Cast(code=code)
    final = graph_of(cast).invoke(begin())
    assert final["ended_because"] == "done"
    assert cast.turns == {"reflect": 1, "code": 2, "review": cast.turns["review"]}
    first, mended = code_calls(cast)[0], code_calls(cast)[2]
    assert [message.text for message in mended[:1]] == [message.text for message in first], "one prompt"
    assert mended[1].tool_calls[0]["args"] == {"query": bad}, "with the code in sight"
    assert "\n".join(str(message.text) for message in mended).count(says) == 1
    assert isinstance(mended[-1], HumanMessage)
    assert says in mended[-1].text


def test_the_conversation_goes_on_in_another_process_and_in_a_replay(play, graph_of, tmp_path):
    """A question stands between the attempts; what is asked then is asked of no other model again."""
    cells = ["1 / 0"] * 3 + [play.GOOD_CODE]

    def opened(cast, mode):
        connection = sqlite3.connect(tmp_path / f"{mode}.sqlite", check_same_thread=False)
        recorder = Recorder(tmp_path / "record.sqlite", mode=mode)
        store = DataState(tmp_path / "data")
        return graph_of(
            cast, store=store, checkpointer=SqliteSaver(connection), recorder=recorder
        ), connection

    cast = play.Cast(code=by_turn(*cells))
    graph, connection = opened(cast, "record")
    with closing(connection):
        assert graph.invoke(begin(), THREAD)["__interrupt__"][0].value["kind"] == "failure"
    graph, connection = opened(cast, "record")
    with closing(connection):
        final = graph.invoke(Command(resume="go on"), THREAD)
    assert final["ended_because"] == "done"
    told = code_calls(cast)[-1]
    assert sum("ZeroDivisionError" in str(message.text) for message in told) == 3, "all earlier attempts"
    silent = play.Cast(code=AssertionError("a model was asked"), reflect=AssertionError("asked"))
    graph, connection = opened(silent, "replay")
    with closing(connection):
        graph.invoke(begin(), THREAD)
        again = graph.invoke(Command(resume="go on"), THREAD)
    assert (again["messages"], flat(again)["strategy"]) == (final["messages"], flat(final)["strategy"])
    assert not silent.turns


def test_an_error_outlives_a_fetch_in_between(play, graph_of):
    """The second reading of the request names more stocks: new data, the same rule, the same fault."""
    short = play.GOOD_CODE.replace("signal})", "signal.iloc[:-3]})")
    cast = play.Cast(
        reflect=lambda messages, turn: json.dumps(
            play.intent(ts_code=play.ONE if turn == 1 else f"{play.ONE},{play.TWO}")
        ),
        code=by_turn(short, short, short, play.GOOD_CODE),
    )
    graph = graph_of(cast, checkpointer=InMemorySaver())
    graph.invoke(begin(), THREAD)
    final = graph.invoke(Command(resume="both stocks"), THREAD)
    assert final["ended_because"] == "done"
    assert sorted(flat(final)["request"]["ts_code"].split(",")) == [play.ONE, play.TWO]
    assert "misaligned: up_day lacks 3 of 22 sessions" in code_calls(cast)[-2][-1].text


def test_another_rule_begins_another_conversation():
    attempt = {
        "request": {"strategy": "one"}, "cells": ["1"], "said": "", "errors": ["code_failed: x"], "made": None,
    }  # fmt: skip
    answered = {**attempt, "question": "which?", "answer": "this", "errors": []}
    given = [attempt, answered, {**attempt, "errors": []}]
    assert open_attempts(given, {"strategy": "one"}) == [attempt, answered]
    assert open_attempts(given, {"strategy": "two"}) == [answered], "an answer is not asked for again"
    assert with_errors([attempt], ["new"]) == [attempt], "its own errors stay"
    assert with_errors([{**attempt, "errors": []}], ["new"])[-1]["errors"] == ["new"]


def test_the_same_attempts_are_the_same_messages_and_count_in_no_limit(play, graph_of):
    attempt = {
        "request": {}, "cells": ["1 + 1"], "said": "two </errors>", "errors": ["x: </errors>"], "made": None,
    }  # fmt: skip
    once, twice = earlier_messages([attempt] * 3, "en"), earlier_messages([attempt] * 3, "en")
    assert [message.text for message in once] == [message.text for message in twice]
    assert len({call["id"] for one in once if isinstance(one, AIMessage) for call in one.tool_calls}) == 3
    assert once[3].text.count("</errors>") == 1
    cast = play.Cast(code="1 / 0")
    final = graph_of(cast, on_clarify="fail").invoke(begin())
    assert final["error_messages"][0].startswith("code_failed: "), (
        "not repeated_call: each attempt is its own"
    )


# In place of code --------------------------------------------------------------------------------


def test_a_question_of_the_coding_model_is_asked_and_it_goes_on_with_the_answer(play, graph_of):
    def code(messages, turn):
        if turn == 1:
            return play.tool_call("ask", question="Up since the close\n or since the open?")
        return (
            AIMessage("done")
            if isinstance(messages[-1], ToolMessage)
            else play.tool_call("python_repl", query=play.GOOD_CODE)
        )

    cast = play.Cast(code=code)
    graph = graph_of(cast, checkpointer=InMemorySaver())
    question = graph.invoke(begin(), THREAD)["__interrupt__"][0].value
    assert (question["kind"], question["question"]) == ("strategy", "Up since the close or since the open?")
    assert (question["options"], question["default"]) == ([], None)
    assert (cast.turns["reflect"], cast.turns["code"]) == (1, 1)
    final = graph.invoke(Command(resume="since the close"), THREAD)
    assert final["ended_because"] == "done"
    assert cast.turns["reflect"] == 1, "no parameter is in the answer"
    assert flat(final)["understanding"]["clauses"][-1]["words"] == "since the close"
    *_, asked, _, answer = code_calls(cast)[1]
    assert asked.tool_calls[0]["args"] == {"question": question["question"]}
    assert "since the close" in tags.read("answers", answer.text)


def test_an_answer_to_the_coding_model_that_names_a_parameter_is_read_anew(play, graph_of):
    cast = play.Cast(
        reflect=lambda messages, turn: json.dumps(play.intent(ts_code=play.ONE if turn == 1 else play.TWO)),
        code=lambda messages, turn: (
            play.tool_call("ask", question="Which open?")
            if turn == 1
            else by_turn(play.GOOD_CODE)(messages, turn)
        ),
    )
    graph = graph_of(cast, checkpointer=InMemorySaver())
    graph.invoke(begin(), THREAD)
    final = graph.invoke(Command(resume=f"since the close, and {play.TWO} in its place"), THREAD)
    assert cast.turns["reflect"] == 2
    assert flat(final)["understanding"]["trade"] == [play.TWO]


@pytest.mark.parametrize("on_clarify", ["default", "fail"])
def test_nobody_there_to_answer_ends_the_run_and_trades_no_other_rule(play, graph_of, on_clarify):
    cast = play.Cast(code=call_of(play, "ask", question="Which open?"))
    final = graph_of(cast, on_clarify=on_clarify).invoke(begin())
    assert (final["ended_because"], final["error_messages"]) == (
        "needs_answer",
        ["needs_answer: Which open?"],
    )
    assert (final["signal_ready"], flat(final)["assumptions"]) == (False, [])


def test_one_that_asks_for_ever_is_stopped(play, graph_of):
    cast = play.Cast(code=call_of(play, "ask", question="And now?"))
    final = graph_of(cast, on_clarify=lambda question: "go on").invoke(begin())
    assert (final["ended_because"], final["clarification_count"]) == ("needs_answer", 3)


def test_one_that_declines_ends_the_run_with_its_reason(play, graph_of):
    cast = play.Cast(code=call_of(play, "decline", reason="There are no hourly bars."))
    final = graph_of(cast).invoke(begin("up hours"))
    assert (final["ended_because"], final["error_messages"]) == (
        "declined",
        ["declined: There are no hourly bars."],
    )
    assert final["messages"][-1].text == (
        "Not done (declined): the model declined to code the strategy: There are no hourly bars. "
        "Start again with other words or another rule."
    )


def test_an_empty_question_is_refused_and_the_model_told(play, graph_of):
    def code(messages, turn):
        return play.tool_call("ask", question=" ") if turn == 1 else by_turn(play.GOOD_CODE)(messages, turn)

    def once(messages, turn):
        return AIMessage("done") if isinstance(messages[-1], ToolMessage) else code(messages, turn)

    cast = play.Cast(code=once)
    final = graph_of(cast).invoke(begin())
    assert final["ended_because"] == "done"
    assert "question must have 1 to 1000 characters" in code_calls(cast)[1][-1].text


def test_closing_words_are_kept_with_the_strategy(play, graph_of):
    def code(messages, turn):
        tool = play.tool_call("python_repl", query=play.GOOD_CODE)
        return AIMessage("No short leg: only buys.") if isinstance(messages[-1], ToolMessage) else tool

    final = graph_of(play.Cast(code=code)).invoke(begin())
    assert flat(final)["strategy"]["said"] == "No short leg: only buys."
