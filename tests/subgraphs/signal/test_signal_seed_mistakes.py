"""One law a test, named after it: mistakes of the first design that must not come back."""

from __future__ import annotations

import copy
import json

import numpy as np
import pandas as pd
import pytest
from langchain.agents import create_agent
from langchain_core.messages import HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import GraphRecursionError
from langgraph.types import Command
from states import flat, grouped, then

from quantgraph.errors import BadFrame, UnknownSymbol
from quantgraph.market import Moment
from quantgraph.runtime import Resources
from quantgraph.runtime import _agents as agent_factory
from quantgraph.subgraphs.signal import _agents as agents
from quantgraph.subgraphs.signal import (
    clarify_node,
    create_signal_subgraph,
    data_fetch_node,
    reflection_node,
    signal_generate_node,
    validation_node,
)
from quantgraph.subgraphs.signal._updates import MAX_CLARIFICATIONS
from quantgraph.tools import ToolContext, python_repl, tushare_daily_bar

THREAD = {"configurable": {"thread_id": "t"}}
BROKEN_CODE = "1 / 0"


def asked(state):
    """The question a run waits with."""
    return state["__interrupt__"][0].value


def begin(text):
    return {"messages": [HumanMessage(text, id="m1")]}


# 1 -----------------------------------------------------------------------------------------------


def test_01_counters_reach_the_final_state_because_nodes_set_them(play, graph_of):
    cast = play.Cast(code=lambda messages, turn: BROKEN_CODE if turn == 1 else play.GOOD_CODE)
    final = graph_of(cast).invoke(begin(play.SENTENCE))
    assert (final["ended_because"], final["retry_count"]) == ("done", 1)
    saver = InMemorySaver()
    graph = graph_of(play.Cast(reflect=play.intent(ts_code="")), checkpointer=saver)
    graph.invoke(begin("?"), THREAD)
    graph.invoke(Command(resume="still nothing"), THREAD)
    saved = graph.get_state(THREAD).values
    assert saved["clarification_count"] == 1
    assert saved["clarification_needed"] == flat(saved)["clarification"]["reason"]


# 2 -----------------------------------------------------------------------------------------------


def situations(play, resources_of, store):
    """Each node in each of its situations, called by hand: name, node, resources, state."""
    good = resources_of(play.Cast())
    start = reflection_node(begin(play.SENTENCE), resources=good)
    start = then(begin(play.SENTENCE), start)
    fetched = then(start, data_fetch_node(start, resources=good))
    generated = then(fetched, signal_generate_node(fetched, resources=good))
    failing = resources_of(play.Cast(code=BROKEN_CODE, fetch={"ts_code": "999999.SH"}))
    vague = resources_of(play.Cast(reflect=play.intent(ts_code="")))
    alone = resources_of(play.Cast(), on_clarify="default")
    question = then(start, reflection_node(begin("?"), resources=vague))
    broken = grouped({**generated, "strategy": {**flat(generated)["strategy"], "cells": [BROKEN_CODE]}})
    down = resources_of(
        play.Cast(**dict.fromkeys(("reflect", "fetch", "code", "review", "question"), play.GOOD_CODE))
    )
    return [
        ("reflect, new", reflection_node, good, begin(play.SENTENCE)),
        ("reflect, question", reflection_node, vague, begin("?")),
        ("reflect, data there", reflection_node, good, fetched),
        ("reflect, signal there", reflection_node, good, generated),
        ("reflect, prose", reflection_node, down, begin("?")),
        ("reflect, after an error", reflection_node, good, {**start, "error_messages": ["no_data: x"]}),
        ("fetch", data_fetch_node, good, start),
        ("fetch fails", data_fetch_node, failing, start),
        ("generate", signal_generate_node, good, fetched),
        ("generate fails", signal_generate_node, failing, fetched),
        ("validate data", validation_node, good, fetched),
        ("validate signal", validation_node, good, generated),
        ("validate fails", validation_node, good, broken),
        ("clarify words", clarify_node, good, question),
        ("clarify alone", clarify_node, alone, question),
        ("clarify gives up", clarify_node, alone, {**question, "clarification_count": MAX_CLARIFICATIONS}),
    ]


def test_02_nodes_return_only_what_changed_and_leave_their_input_alone(play, resources_of, store):
    for name, node, resources, state in situations(play, resources_of, store):
        before = copy.deepcopy(state)
        update = node(state, resources=resources)
        assert state == before, f"{name}: the input was changed"
        assert update, f"{name}: nothing was returned"
        assert {"max_retries", "given", "as_of"}.isdisjoint(update.keys() & state.keys()), name
        old = {message.id for message in state["messages"]}
        assert old.isdisjoint(message.id for message in update.get("messages", []) if message.id), name
        for key in ("execution_history", "error_messages", "failures"):
            assert update.get(key) is not state.get(key) or key not in state, (
                f"{name}: {key} is the input's own list"
            )


# 3 -----------------------------------------------------------------------------------------------


def test_03_a_solved_error_leaves_the_open_ones_and_stands_in_the_history(play, graph_of):
    cast = play.Cast(code=lambda messages, turn: BROKEN_CODE if turn == 1 else play.GOOD_CODE)
    steps = list(graph_of(cast).stream(begin(play.SENTENCE), stream_mode="values"))
    open_errors = [step["error_messages"] for step in steps if "error_messages" in step]
    (error,) = max(open_errors, key=len)
    assert error == "code_failed: line 1 (1 / 0): ZeroDivisionError: division by zero"
    final = steps[-1]
    assert final["error_messages"] == []
    assert f"solved: {error}" in final["execution_history"]
    assert cast.turns["code"] == 2, "one past error must not send every later step back"
    assert error in cast.said["code"][1], "the model has to be told what went wrong"
    assert cast.turns["reflect"] == 1, "no parameter is at fault"


# 4 -----------------------------------------------------------------------------------------------


def test_04_a_generation_that_always_fails_is_counted_and_ends(play, graph_of):
    cast = play.Cast(code=lambda messages, turn: f"raise ValueError({turn})")
    final = graph_of(cast, on_clarify="fail").invoke({**begin(play.SENTENCE), "max_retries": 4})
    assert final["ended_because"] == "max_retries"
    assert (final["retry_count"], cast.turns["code"]) == (4, 4)
    assert len(cast.model.calls) <= 20


def test_04_an_answer_gives_new_attempts(play, graph_of):
    cast = play.Cast(code=lambda messages, turn: f"raise ValueError({turn})" if turn < 5 else play.GOOD_CODE)
    graph = graph_of(cast, checkpointer=InMemorySaver())
    waiting = graph.invoke(begin(play.SENTENCE), THREAD)
    assert (waiting["retry_count"], asked(waiting)["kind"]) == (3, "failure")
    final = graph.invoke(Command(resume="once more, please"), THREAD)
    assert (final["ended_because"], final["retry_count"], cast.turns["code"]) == ("done", 1, 5)


# 5 -----------------------------------------------------------------------------------------------


def test_05_signal_gen_without_data_goes_on_to_the_signal_after_the_fetch(play, graph_of):
    cast = play.Cast(reflect=play.intent("signal_gen"))
    visited = [
        next(iter(step)) for step in graph_of(cast).stream(begin(play.SENTENCE), stream_mode="updates")
    ]
    assert visited == ["reflection", "data_fetch", "validate", "reflection", "signal_generate", "validate"]
    assert cast.turns["reflect"] == 1, "going on needs no model"


# 6 -----------------------------------------------------------------------------------------------


def test_06_data_fetch_with_the_data_there_is_validated_from_reflection(play, graph_of, store):
    cast = play.Cast(reflect=play.intent("data_fetch"), fetch={})
    graph = graph_of(cast)
    ref = graph.invoke(begin("data"))["data_ref"]
    steps = list(graph.stream({**begin("data"), "data_ref": ref}, stream_mode="updates"))
    assert [next(iter(step)) for step in steps] == ["reflection", "validate"]
    assert steps[-1]["validate"]["ended_because"] == "done"
    assert cast.turns["fetch"] == 1


# 7 -----------------------------------------------------------------------------------------------


def test_07_somebody_elses_data_is_not_this_requests_data(play, resources_of, store):
    resources = resources_of(play.Cast())
    other = data_fetch_node(
        {
            **begin("x"),
            **reflection_node(
                begin("x"), resources=resources_of(play.Cast(reflect=play.intent(ts_code=play.TWO)))
            ),
        },
        resources=resources,
    )["data_ref"]
    assert list(store.snapshot()["ohlcv"]["close"].columns) == [play.TWO], (
        "the global head holds the other's data"
    )
    for given in ({}, {"data_ref": other}):
        update = reflection_node({**begin(play.SENTENCE), **given}, resources=resources)
        assert (update["data_ready"], update["current_task"]) == (False, "data_fetch")


def test_07_even_the_same_symbols_and_window_are_somebody_elses_without_a_ref(play, resources_of, store):
    resources = resources_of(play.Cast())
    bars = resources.source.bars([play.ONE], pd.Timestamp(play.WINDOW[0]), pd.Timestamp(play.WINDOW[1]))
    ref = store.update("ohlcv", {name: frame * 0 + 7.0 for name, frame in bars.items()})
    update = reflection_node(begin(play.SENTENCE), resources=resources)
    assert (update["data_ready"], update["current_task"]) == (False, "data_fetch")
    assert reflection_node({**begin(play.SENTENCE), "data_ref": ref}, resources=resources)["data_ready"]


@pytest.mark.parametrize(
    "wish",
    [
        {"ts_code": "000341.SZ,000342.SZ"},
        {"end_date": "20240229"},
        {"start_date": "20231201"},
        {"required_indicators": ["pe"]},
    ],
)
def test_07_data_for_less_than_the_request_is_not_ready(play, resources_of, wish):
    resources = resources_of(play.Cast())
    first = then(begin("x"), reflection_node(begin("x"), resources=resources))
    ref = data_fetch_node(first, resources=resources)["data_ref"]
    enough = reflection_node({**begin("x"), "data_ref": ref}, resources=resources)
    assert enough["data_ready"]
    more = reflection_node(
        {**begin("x"), "data_ref": ref}, resources=resources_of(play.Cast(reflect=play.intent(**wish)))
    )
    assert not (more["data_ready"] and more["indicators_ready"])
    assert more["current_task"] == "data_fetch"


def test_07_a_stale_signal_is_not_this_strategys_signal(play, graph_of):
    cast = play.Cast(
        reflect=lambda messages, turn: json.dumps(play.intent(strategy_desc="one" if turn == 1 else "two")),
        fetch={},
    )
    graph = graph_of(cast, checkpointer=InMemorySaver())
    first = graph.invoke(begin("one"), THREAD)
    second = graph.invoke({"messages": [("user", "now the other way round")]}, THREAD)
    assert first["ended_because"] == second["ended_because"] == "done"
    assert cast.turns["code"] == 2, "the first strategy's signal answers only the first"
    assert cast.turns["fetch"] == 1, "its data serves both"


def test_07_the_same_request_on_changed_data_is_a_new_signal(play, resources_of, store):
    resources = resources_of(play.Cast())
    state = then(begin("x"), reflection_node(begin("x"), resources=resources))
    state = then(state, data_fetch_node(state, resources=resources))
    state = then(state, signal_generate_node(state, resources=resources))
    assert reflection_node(state, resources=resources)["signal_ready"]
    close = store.snapshot(state["data_ref"])["ohlcv"]["close"]
    changed = store.update("ohlcv", {"close": close * 2}, base=state["data_ref"])
    assert not reflection_node({**state, "data_ref": changed}, resources=resources)["signal_ready"]


# 8 -----------------------------------------------------------------------------------------------


def test_08_the_same_error_for_the_third_time_is_put_to_the_user(play, graph_of):
    cast = play.Cast(code=BROKEN_CODE)
    waiting = graph_of(cast, checkpointer=InMemorySaver()).invoke(
        {**begin(play.SENTENCE), "max_retries": 9}, THREAD
    )
    assert (asked(waiting)["kind"], cast.turns["code"]) == ("failure", 3)
    assert "ZeroDivisionError" in asked(waiting)["reason"]


def test_08_different_errors_are_tried_up_to_max_retries(play, graph_of):
    cast = play.Cast(code=lambda messages, turn: f"raise ValueError({turn})")
    waiting = graph_of(cast, checkpointer=InMemorySaver()).invoke(
        {**begin(play.SENTENCE), "max_retries": 5}, THREAD
    )
    assert (asked(waiting)["kind"], cast.turns["code"]) == ("failure", 5)


@pytest.mark.parametrize("kind", ["code", "fetch", "reflect"])
def test_08_the_third_question_offers_a_plan_and_then_the_run_ends_with_a_type(play, graph_of, kind):
    nothing = dict.fromkeys(("ts_code", "start_date", "end_date", "strategy_desc"), "")
    answers = {
        "code": BROKEN_CODE,
        "fetch": {"ts_code": "999999.SH"},
        "reflect": play.intent("unclear", **nothing),
    }
    cast = play.Cast(**{kind: answers[kind]})
    config = {**THREAD, "recursion_limit": 60}
    graph = graph_of(cast, checkpointer=InMemorySaver())
    state = graph.invoke({**begin(play.SENTENCE), "max_retries": 9}, config)
    offers = []
    for number in range(1, MAX_CLARIFICATIONS + 1):
        assert asked(state)["rounds_left"] == MAX_CLARIFICATIONS - number
        offers.append(asked(state)["default"])
        state = graph.invoke(Command(resume=f"answer {'abc'[number - 1]}"), config)
    assert "__interrupt__" not in state
    assert all(
        word in offers[-1] for word in (play.ONE, "20250101 to 20251231", "5-day average crosses above")
    )
    assert offers[-1] not in offers[:-1]
    assert state["ended_because"] == ("needs_answer" if kind == "reflect" else "repeated_error")
    assert len(state["error_messages"]) == 1, "one clear line"


def test_08_many_different_failures_end_within_sixty_steps_too(play, graph_of):
    cast = play.Cast(code=lambda messages, turn: f"raise ValueError({turn})")
    config = {**THREAD, "recursion_limit": 60}
    graph = graph_of(cast, checkpointer=InMemorySaver())
    state = graph.invoke(begin(play.SENTENCE), config)
    for _ in range(MAX_CLARIFICATIONS):
        state = graph.invoke(Command(resume="again"), config)
    assert state["ended_because"] == "max_retries"
    assert cast.turns["code"] == 3 * (MAX_CLARIFICATIONS + 1)


@pytest.mark.parametrize("on_clarify", ["default", "fail"])
@pytest.mark.parametrize("kind", ["code", "fetch", "reflect"])
def test_08_a_run_that_asks_nobody_ends_within_sixty_steps(play, graph_of, kind, on_clarify):
    answers = {"code": BROKEN_CODE, "fetch": {"ts_code": "999999.SH"}, "reflect": play.intent("unclear")}
    cast = play.Cast(**{kind: answers[kind]})
    try:
        final = graph_of(cast, on_clarify=on_clarify).invoke(begin(play.SENTENCE), {"recursion_limit": 60})
    except GraphRecursionError:  # pragma: no cover - what must not be
        pytest.fail(f"{kind} never ends")
    assert final["ended_because"] in {"repeated_error", "max_retries", "needs_answer"}
    assert final["error_messages"]


# 9 -----------------------------------------------------------------------------------------------


def test_09_the_model_words_a_question_once_and_the_answer_is_to_the_question_asked(play, graph_of):
    symbols = lambda messages, turn: json.dumps(play.intent(ts_code="" if turn == 1 else play.ONE))  # noqa: E731
    cast = play.Cast(reflect=symbols, question=lambda messages, turn: f"wording number {turn}")
    graph = graph_of(cast, checkpointer=InMemorySaver())
    waiting = graph.invoke(begin("?"), THREAD)
    shown = asked(waiting)["question"]
    assert shown.startswith("wording number 1")
    for _ in range(3):  # a host that looks again
        assert graph.get_state(THREAD).tasks[0].interrupts[0].value["question"] == shown
    final = graph.invoke(Command(resume=play.ONE), THREAD)
    texts = [message.text for message in final["messages"]]
    assert texts[1:3] == [shown, play.ONE]
    assert (cast.turns["question"], cast.turns["reflect"]) == (1, 2)


# 10 ----------------------------------------------------------------------------------------------


def test_10_models_and_agents_are_built_once_for_a_graph(play, store, monkeypatch):
    built = []
    for module, name in ((agent_factory, "create_agent"), (agents, "role_model")):
        real = getattr(module, name)

        def counted(*args, _real=real, _name=name, **kwargs):
            built.append(_name)
            return _real(*args, **kwargs)

        monkeypatch.setattr(module, name, counted)
    cast = play.Cast()
    graph = create_signal_subgraph(model=cast.model, source="sample", resources=Resources(store=store))
    assert built == ["role_model"] * 4
    for _ in range(2):
        graph.invoke(begin(play.SENTENCE))
    assert built[4:] == ["create_agent"] * 3
    assert cast.turns["code"] == 2


# 11 ----------------------------------------------------------------------------------------------


def test_11_a_second_fetch_keeps_the_first_symbol_and_session(play, resources_of, store):
    both = play.intent(ts_code=f"{play.ONE},{play.TWO}", end_date="20240229")
    calls = [
        {"ts_code": play.ONE, "start_date": "20240102", "end_date": "20240229"},
        {"ts_code": play.TWO, "start_date": "20240102", "end_date": "20240131"},
        {"ts_code": play.TWO, "start_date": "20240201", "end_date": "20240229"},
    ]

    def fetch(messages, turn):
        done = sum(isinstance(message, ToolMessage) for message in messages)
        return "fetched" if done == 3 else play.tool_call("tushare_daily_bar", done, **calls[done])

    resources = resources_of(play.Cast(reflect=both, fetch=fetch))
    state = then(begin("x"), reflection_node(begin("x"), resources=resources))
    update = data_fetch_node(state, resources=resources)
    assert update["data_ready"]
    close = store.snapshot(update["data_ref"])["ohlcv"]["close"]
    expected = resources.source.bars(
        [play.ONE, play.TWO], pd.Timestamp("2024-01-02"), pd.Timestamp("2024-02-29")
    )["close"]
    pd.testing.assert_frame_equal(close, expected, check_names=False, check_freq=False)


# 12 ----------------------------------------------------------------------------------------------


def test_12_a_tool_that_raises_is_an_error_for_the_agent_and_raises_by_hand(play, resources_of, store):
    window = {"start_date": "20240102", "end_date": "20240131"}
    seen = []

    def fetch(messages, turn):
        answers = [message for message in messages if isinstance(message, ToolMessage)]
        seen.extend(answers)
        return "failed" if answers else play.tool_call("tushare_daily_bar", ts_code="999999.SH", **window)

    resources = resources_of(play.Cast(fetch=fetch))
    state = then(begin("x"), reflection_node(begin("x"), resources=resources))
    update = data_fetch_node(state, resources=resources)
    (answer,) = seen
    assert (answer.status, answer.text.split(":")[0]) == ("error", "unknown_symbol")
    assert update["error_messages"] == [answer.text]
    assert update["data_ready"] is False
    with pytest.raises(UnknownSymbol, match="999999"):
        tushare_daily_bar.invoke({"ts_code": "999999.SH", **window})


def test_12_code_that_raises_is_a_tool_message_with_status_error(play, resources_of):
    seen = []

    def code(messages, turn):
        answers = [message for message in messages if isinstance(message, ToolMessage)]
        seen.extend(answers)
        return "failed" if answers else play.tool_call("python_repl", query="undefined_name")

    resources = resources_of(play.Cast(code=code))
    state = then(begin("x"), reflection_node(begin("x"), resources=resources))
    state = then(state, data_fetch_node(state, resources=resources))
    update = signal_generate_node(state, resources=resources)
    (answer,) = seen
    assert answer.status == "error"
    assert answer.text.startswith("code_failed: line 1 (undefined_name): NameError")
    assert update["error_messages"] == [answer.text]


# 13 ----------------------------------------------------------------------------------------------

INTRUSIONS = {
    "writing into a snapshot's frame": "snapshot['ohlcv']['close'].iloc[:, :] = 7.0",
    "writing into its memory": (
        "a = snapshot['ohlcv']['close'].to_numpy()\n"
        "b = a if a.base is None else a.base\n"
        "try:\n    b.flags.writeable = True\nexcept ValueError:\n    pass\n"
        "b[...] = 7.0"
    ),
    "writing into a nested dict": "snapshot['ohlcv']['close'] = snapshot['ohlcv']['close'] * 0 + 7",
    "the store by another path": (
        "import quantgraph.state\nfrom quantgraph.state import GLOBAL_DATA_STATE as again\n"
        "quantgraph.state.GLOBAL_DATA_STATE.update('ohlcv', {'close': snapshot['ohlcv']['close'] * 0 + 7})\n"
        "again.override(ohlcv={}, signal={})"
    ),
}


@pytest.mark.parametrize("name", INTRUSIONS)
def test_13_code_cannot_change_the_store(name, store, runner, frame):
    ref = store.update("ohlcv", {"close": frame})
    tree = store.checkout(ref)
    session = ToolContext(tree.view(Moment.at("2024-01-08")), code=runner)
    session.run(INTRUSIONS[name])
    assert store.head == tree.ref == ref
    np.testing.assert_array_equal(store.snapshot(ref)["ohlcv"]["close"].to_numpy(), frame.to_numpy())


def test_13_what_a_snapshot_hands_out_in_this_process_cannot_change_the_store_either(store, frame):
    ref = store.update("ohlcv", {"close": frame})
    handed = store.snapshot()["ohlcv"]["close"]
    handed.iloc[0, 0] = 7.0
    with pytest.raises(TypeError):
        store.snapshot()["ohlcv"]["close"] = handed
    with pytest.raises(ValueError, match="read-only"):
        store.snapshot()["ohlcv"]["close"].to_numpy()[0, 0] = 7.0
    assert store.snapshot(ref)["ohlcv"]["close"].iloc[0, 0] == 0.0


def test_13_only_a_validated_signal_comes_back(store, runner, frame):
    tree = store.checkout(store.update("ohlcv", {"close": frame}))
    before = tree.ref
    context = ToolContext(tree.view(Moment.at("2024-01-08")), code=runner, tree=tree, publish=True)
    half = "GLOBAL_DATA_STATE.update('signal', {'s': snapshot['ohlcv']['close'] * 0 + 0.5})"
    whole = (
        "GLOBAL_DATA_STATE.update('ohlcv', {'close': snapshot['ohlcv']['close'] * 0 + 7})\n"
        "GLOBAL_DATA_STATE.update('signal', {'s': snapshot['ohlcv']['close'] * 0 + 1})"
    )
    agent = create_agent(
        play_once(half, whole), [python_repl], context_schema=ToolContext, middleware=list(_tool_errors())
    )
    messages = agent.invoke({"messages": [("user", "go")]}, context=context)["messages"]
    first, second = [message for message in messages if isinstance(message, ToolMessage)]
    assert first.status == "error"
    assert "0.5 at (2024-01-02, 000001.SZ)" in first.text
    assert second.status == "success"
    after = store.snapshot(tree.ref)
    assert tree.ref != before
    assert list(after["signal"]) == ["s"]
    assert after["signal"]["s"].eq(1.0).to_numpy().all()
    np.testing.assert_array_equal(after["ohlcv"]["close"].to_numpy(), frame.to_numpy())
    with pytest.raises(BadFrame):
        store.update("signal", {"s": frame})


def play_once(*cells):
    from langchain_core.messages import AIMessage

    from quantgraph.testing import ScriptedChatModel

    calls = [
        AIMessage("", tool_calls=[{"name": "python_repl", "args": {"query": cell}, "id": str(number)}])
        for number, cell in enumerate(cells)
    ]
    return ScriptedChatModel([*calls, "done"])


def _tool_errors():
    from langchain.agents.middleware import ToolErrorMiddleware

    yield ToolErrorMiddleware(on_error=lambda error, request: getattr(error, "line", None))
