"""The subgraph as a whole: every way through it, and every way it can end."""

from __future__ import annotations

import asyncio
import json

import pandas as pd
import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from states import flat, grouped

from quantgraph.data.sample import SampleSource
from quantgraph.errors import BadOption, CheckpointerRequired, ModelUnavailable
from quantgraph.llm.messages import _json as tags
from quantgraph.runtime import Resources
from quantgraph.state import DataState
from quantgraph.subgraphs.signal import (
    build_signal_graph,
    create_signal_subgraph,
    map_to_subgraph_state,
    reflection_node,
)
from quantgraph.subgraphs.signal.state import SignalSubgraphState

THREAD = {"configurable": {"thread_id": "t"}}
DOWN = ModelUnavailable("the server is down")


def begin(text):
    return {"messages": [("user", text)]}


def visited(graph, given, config=None):
    return [next(iter(step)) for step in graph.stream(given, config, stream_mode="updates")]


def by_turn(*answers):
    """One answer a turn, the last one for ever."""
    return lambda messages, turn: json.dumps(answers[min(turn, len(answers)) - 1])


# The ways ----------------------------------------------------------------------------------------


def test_data_only(play, graph_of):
    steps = visited(graph_of(play.Cast(reflect=play.intent("data_fetch", strategy_desc=""))), begin("data"))
    assert steps == ["reflection", "data_fetch", "validate"]


def test_indicators_are_fetched_when_the_rule_needs_them(play, graph_of, store):
    final = graph_of(play.Cast(reflect=play.intent(required_indicators=["pe", "pb"]))).invoke(begin("x"))
    assert final["ended_because"] == "done"
    assert final["indicators_ready"]
    assert list(store.snapshot(final["data_ref"])["indicators"]) == ["pb", "pe"]


def test_a_failed_fetch_is_thought_about_and_tried_again(play, graph_of):
    wrong = play.Cast._fetch
    cast = play.Cast(
        fetch=lambda messages, turn: (
            "fetched"
            if len(messages) > 3
            else wrong(messages[0].text, {"ts_code": "999999.SH"} if turn == 1 else None)
        )
    )
    graph = graph_of(cast)
    steps = list(graph.stream(begin("x"), stream_mode="updates"))
    assert [next(iter(step)) for step in steps][:4] == [
        "reflection",
        "data_fetch",
        "reflection",
        "data_fetch",
    ]
    assert steps[1]["data_fetch"]["error_messages"][0].startswith("unknown_symbol: ")
    assert steps[-1]["validate"]["ended_because"] == "done"


def test_a_failed_rehearsal_is_thought_about_and_the_code_written_again(play, graph_of):
    short = play.GOOD_CODE.replace(".update(", ".update(", 1).replace("signal})", "signal.iloc[:-3]})")
    cast = play.Cast(code=lambda messages, turn: short if turn == 1 else play.GOOD_CODE)
    steps = list(graph_of(cast).stream(begin("x"), stream_mode="updates"))
    assert [next(iter(step)) for step in steps][4:] == ["signal_generate", "signal_generate", "validate"]
    assert cast.turns["reflect"] == 1, "no parameter is at fault"
    assert steps[4]["signal_generate"]["error_messages"] == ["misaligned: up_day lacks 3 of 22 sessions"]


def test_a_question_then_the_whole_way(play, graph_of):
    cast = play.Cast(reflect=by_turn(play.intent(ts_code=""), play.intent()))
    graph = graph_of(cast, checkpointer=InMemorySaver())
    assert visited(graph, begin("?"), THREAD) == ["reflection", "clarify", "__interrupt__"]
    assert visited(graph, Command(resume={"answer": play.ONE}), THREAD)[:3] == [
        "clarify",
        "reflection",
        "data_fetch",
    ]
    assert graph.get_state(THREAD).values["ended_because"] == "done"


def test_the_default_answer_is_taken_at_a_word(play, graph_of):
    cast = play.Cast(reflect=by_turn(play.intent(start_date="", end_date=""), play.intent()))
    graph = graph_of(cast, checkpointer=InMemorySaver())
    question = graph.invoke(begin("上涨之后买入"), THREAD)["__interrupt__"][0].value
    final = graph.invoke(Command(resume="默认"), THREAD)
    assert question["default"] == "20250101到20251231"
    assert final["messages"][2].text == question["default"]


def test_the_last_questions_default_keeps_what_the_user_has_said():
    """By the keyless planner: one stock, half a year, and then "default" for the rule."""
    graph = create_signal_subgraph(
        source="sample", checkpointer=InMemorySaver(), resources=Resources(store=DataState())
    )
    state = graph.invoke(begin("帮我做一个策略"), THREAD)
    kinds = []
    for answer in ("000341.SZ", "2024年上半年", "默认"):
        kinds.append(state["__interrupt__"][0].value["kind"])
        state = graph.invoke(Command(resume=answer), THREAD)
    assert kinds == ["symbol", "window", "strategy"]
    request = flat(state)["request"]
    assert (request["ts_code"], request["start"], request["end"]) == ("000341.SZ", "20240101", "20240630")
    assert (state["ended_because"], flat(state)["strategy"]["name"]) == ("done", "cross_up_sma_5_sma_20")


def test_defaults_and_errors_do_not_reach_past_as_of(play, graph_of):
    early = play.intent(start_date="20200101", end_date="20200201")
    cast = play.Cast(reflect=by_turn(play.intent(start_date=""), early))
    final = graph_of(cast, on_clarify="default").invoke(grouped({**begin("x"), "as_of": "20240115"}))
    assert flat(final)["assumptions"] == ["window: from 20230116 to 20240115 (default)"]
    assert final["error_messages"] == [
        "bad_window: there is no session from 20200101 to 20200201; sample has 20230103 to 20240115"
    ]


@pytest.mark.parametrize(
    ("wish", "kind"), [("ts_code", "symbol"), ("start_date", "window"), ("strategy_desc", "strategy")]
)
def test_the_most_important_missing_thing_is_asked_first(play, graph_of, wish, kind):
    missing = {
        "ts_code": {"ts_code": "", "start_date": ""},
        "start_date": {"start_date": "", "strategy_desc": ""},
    }
    cast = play.Cast(reflect=play.intent(**missing.get(wish, {wish: ""})))
    waiting = graph_of(cast, checkpointer=InMemorySaver()).invoke(begin("?"), THREAD)
    assert waiting["__interrupt__"][0].value["kind"] == kind


def test_defaults_taken_without_asking_are_written_down(play, graph_of):
    cast = play.Cast(reflect=by_turn(play.intent(start_date=""), play.intent()))
    final = graph_of(cast, on_clarify="default").invoke(begin("x"))
    assert final["ended_because"] == "done"
    assert flat(final)["assumptions"] == ["window: from 20250101 to 20251231 (default)"]
    assert cast.turns["question"] == 0


def test_on_clarify_fail_ends_with_the_reason(play, graph_of):
    final = graph_of(
        play.Cast(reflect=play.intent(question="Which stock?", ts_code="")), on_clarify="fail"
    ).invoke(begin("x"))
    assert (final["ended_because"], final["error_messages"]) == (
        "needs_answer",
        ["needs_answer: Which stock?"],
    )
    with pytest.raises(BadOption, match="ask, default, fail"):
        create_signal_subgraph(on_clarify="never")


def test_what_the_caller_fixed_wins_over_the_sentence(play, graph_of):
    given = {"ts_code": play.TWO, "start_date": "20240601", "end_date": "20240630"}
    final = graph_of(play.Cast()).invoke(grouped({**begin("x"), "given": given}))
    request = flat(final)["request"]
    assert (request["ts_code"], request["start"], request["end"]) == (play.TWO, "20240601", "20240630")


def test_nothing_after_as_of_is_fetched(play, graph_of, store):
    cast = play.Cast(fetch={"end_date": "20240329"})
    final = graph_of(cast).invoke(grouped({**begin("x"), "as_of": "20240115"}))
    assert flat(final)["request"]["end"] == "20240115"
    assert "cut to 20240115" in flat(final)["request"]["notes"][0]
    assert f"{store.snapshot(final['data_ref'])['ohlcv']['close'].index[-1]:%Y%m%d}" == "20240115"
    late = graph_of(play.Cast(), on_clarify="fail").invoke(grouped({**begin("x"), "as_of": "20231229"}))
    assert late["ended_because"] == "data_unavailable"
    assert late["error_messages"][0].startswith("future_requested: ")


# The ends ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("role", "calls"), [("reflect", 1), ("fetch", 2), ("code", 2), ("review", 4)])
def test_a_model_that_is_down_ends_the_run_at_once(play, graph_of, role, calls):
    cast = play.Cast(**{role: DOWN})
    final = graph_of(cast).invoke(begin("x"))
    assert final["ended_because"] == "model_unavailable"
    assert final["error_messages"] == ["model_unavailable: the server is down"]
    assert len(cast.model.calls) == calls


def test_a_model_that_is_down_while_wording_a_question_ends_the_run(play, graph_of):
    cast = play.Cast(reflect=play.intent("unclear"), question=DOWN)
    final = graph_of(cast, checkpointer=InMemorySaver()).invoke(begin("x"), THREAD)
    assert final["ended_because"] == "model_unavailable"


@pytest.mark.parametrize("reply", ["I would rather not.", '```json\n{"task_type": ', '{"task_type": "sing"}'])
def test_a_reflection_that_cannot_be_read_is_told_so_once_and_then_ends(play, graph_of, reply):
    cast = play.Cast(reflect=reply)
    final = graph_of(cast).invoke(begin("x"))
    assert final["ended_because"] == "max_retries"
    assert final["error_messages"][0].startswith("model_output_invalid: ")
    assert cast.turns["reflect"] == 2
    assert "could not be used" in cast.said["reflect"][1]


def test_an_unknown_code_is_asked_about_or_ends_the_run(play, graph_of):
    cast = play.Cast(reflect=play.intent(ts_code="999999.SH"))
    waiting = graph_of(cast, checkpointer=InMemorySaver()).invoke(begin("x"), THREAD)
    assert "999999.SH" in waiting["__interrupt__"][0].value["reason"]
    final = graph_of(cast, on_clarify="fail").invoke(begin("x"))
    assert (final["ended_because"], len(final["error_messages"])) == ("data_unavailable", 1)
    assert final["error_messages"][0].startswith("unknown_symbol: '999999.SH'")


@pytest.mark.parametrize(
    ("window", "says"),
    [
        (("20240131", "20240102"), "bad_window: start_date=20240131 is after end_date=20240102"),
        (("20240106", "20240107"), "bad_window: there is no session from 20240106 to 20240107"),
        (("2024-13-01", "2024-13-02"), "bad_window: start_date='2024-13-01' is not a date"),
        (("20270101", "20270201"), "future_requested: start_date=20270101 is after 20251231"),
    ],
)
def test_a_bad_window_gives_one_clear_line(play, graph_of, window, says):
    cast = play.Cast(reflect=play.intent(start_date=window[0], end_date=window[1]))
    final = graph_of(cast, on_clarify="default").invoke(begin("x"))
    (line,) = final["error_messages"]
    assert line.startswith(says)
    assert "\n" not in line


class Spoilt(SampleSource):
    """The sample with one price that cannot be."""

    def bars(self, symbols, start, end):
        panel = super().bars(symbols, start, end)
        panel["close"].iloc[3, 0] = -1.0
        return panel


def test_bars_that_cannot_be_become_no_signal_unless_somebody_says_so(play, graph_of):
    cast = play.Cast()
    final = graph_of(cast, source=Spoilt(), on_clarify="default").invoke(begin("x"))
    assert (final["ended_because"], cast.turns["code"]) == ("needs_answer", 0), "no other symbol is left"
    assert flat(final)["open_question"]["kind"] == "bars"
    assert flat(final)["open_question"]["options"] == ["go on as it is", "stop"]
    assert "000341.SZ 2024-01-05" in flat(final)["open_question"]["reason"]
    (found,) = [each for each in flat(final)["validation"]["issues_found"] if each["code"] == "bad_price"]
    assert (found["severity"], found["message"]) == (
        "warning",
        "close is -1 at (2024-01-05, 000341.SZ); prices are above 0",
    )
    assert flat(final)["validation"]["recommendations"] == [
        "fetch the bar again, or leave the symbol out: a price is above zero"
    ]


def test_headless_the_symbols_of_such_bars_are_left_out_and_named(play, graph_of):
    both = play.Cast(reflect=play.intent(ts_code=f"{play.ONE},{play.TWO}"))
    final = graph_of(both, source=Spoilt(), on_clarify="default").invoke(begin("x"))
    assert (final["ended_because"], both.turns["reflect"]) == ("done", 1)
    assert flat(final)["assumptions"] == [f"bars: go on without {play.ONE} (default)"]
    assert (flat(final)["request"]["trade"], flat(final)["understanding"]["trade"]) == (play.TWO, [play.TWO])
    assert flat(final)["understanding"]["clauses"][-1] == {
        "words": "", "became": f"without {play.ONE}: bars that cannot be", "status": "default",
    }  # fmt: skip
    assert f"without {play.ONE}: bars that cannot be" in final["messages"][-1].text


@pytest.mark.parametrize(
    ("answer", "ended", "traded"),
    [("1", "done", "000342.SZ"), ("2", "done", "000341.SZ,000342.SZ"), ("stop", "cancelled", None)],
)
def test_a_person_decides_about_bars_that_cannot_be(play, graph_of, answer, ended, traded):
    both = play.Cast(reflect=play.intent(ts_code=f"{play.ONE},{play.TWO}"))
    graph = graph_of(both, source=Spoilt(), checkpointer=InMemorySaver())
    waiting = graph.invoke(begin("x"), THREAD)["__interrupt__"][0].value
    assert (waiting["kind"], len(waiting["options"])) == ("bars", 3)
    final = graph.invoke(Command(resume=answer), THREAD)
    assert final["ended_because"] == ended
    if traded:
        assert (flat(final)["request"]["trade"], both.turns["reflect"]) == (traded, 1)


def test_a_member_of_an_index_is_left_out_of_it(play, graph_of):
    cast = play.Cast(reflect=play.intent(ts_code="合成30"))
    final = graph_of(cast, source=Spoilt(), on_clarify="default").invoke(begin("合成30, up days"))
    assert final["ended_because"] == "done"
    assert play.ONE not in flat(final)["request"]["trade"]
    assert flat(final)["request"]["index_code"] == "990030.SH"


def test_such_a_bar_of_a_watched_symbol_is_a_warning(play, graph_of):
    cast = play.Cast(reflect=play.intent(ts_code=f"{play.ONE},{play.TWO}", watch=play.ONE, trade=play.TWO))
    final = graph_of(cast, source=Spoilt(), on_clarify="fail").invoke(begin("x"))
    assert "bad_price" in [each["code"] for each in flat(final)["validation"]["issues_found"]]
    assert flat(final)["open_question"] is None


# Conversations -----------------------------------------------------------------------------------


def test_only_the_signal_of_the_strategy_is_in_its_commit(play, graph_of, store):
    both = play.GOOD_CODE + '\nGLOBAL_DATA_STATE.update("signal", {"draft": -signal, "final": signal})\n'
    final = graph_of(play.Cast(code=both)).invoke(begin("x"))
    assert (flat(final)["strategy"]["name"], flat(final)["strategy"]["signals"]) == (
        "final",
        ["up_day", "draft", "final"],
    )
    assert "the code hands over up_day, draft too, not traded" in final["messages"][-1].text
    assert list(store.snapshot(final["data_ref"])["signal"]) == ["final"]


def test_a_second_request_on_a_thread_gives_what_it_gives_on_its_own(play, graph_of, store):
    wider = play.intent(ts_code=f"{play.ONE},{play.TWO}", end_date="20240229", start_date="20231201")
    cast = play.Cast(reflect=by_turn(wider, play.intent(ts_code=play.TWO)))
    graph = graph_of(cast, checkpointer=InMemorySaver())
    graph.invoke(begin("both"), THREAD)
    second = graph.invoke(begin("only the second, in January"), THREAD)
    alone = graph_of(play.Cast(reflect=play.intent(ts_code=play.TWO))).invoke(begin("x"))
    assert second["data_ref"] == alone["data_ref"]
    assert list(store.snapshot(second["data_ref"])["signal"]["up_day"].columns) == [play.TWO]


@pytest.mark.parametrize("kind", ["data_fetch", "mixed"])
def test_a_model_that_fetches_more_than_was_asked_for_changes_nothing(play, graph_of, kind):
    more = {"ts_code": f"{play.ONE},{play.TWO}", "start_date": "20231201", "end_date": "20240329"}
    greedy = graph_of(play.Cast(reflect=play.intent(kind), fetch=more)).invoke(begin("x"))
    plain = graph_of(play.Cast(reflect=play.intent(kind))).invoke(begin("x"))
    assert greedy["data_ref"] == plain["data_ref"]


def test_a_second_request_starts_with_clean_counters_and_its_own_words(play, graph_of):
    cast = play.Cast(reflect=by_turn(play.intent(ts_code=""), play.intent()))
    graph = graph_of(cast, on_clarify="default", checkpointer=InMemorySaver())
    first = graph.invoke(begin("the first request"), THREAD)
    second = graph.invoke(begin("the second request"), THREAD)
    assert (first["clarification_count"], second["clarification_count"]) == (1, 0)
    assert (flat(first)["assumptions"], flat(second)["assumptions"]) == (["symbol: all stocks (default)"], [])
    assert "the first request" not in cast.said["reflect"][-1]
    assert second["ended_because"] == "done"


def test_a_message_instead_of_a_resume_is_heard_and_not_the_old_question_asked_again(play, graph_of):
    cast = play.Cast(reflect=by_turn(play.intent(ts_code=""), play.intent()))
    graph = graph_of(cast, checkpointer=InMemorySaver())
    assert "__interrupt__" in graph.invoke(begin("an up-day rule"), THREAD)
    final = graph.invoke(begin(f"take {play.ONE}"), THREAD)
    assert final["ended_because"] == "done"
    assert final["clarification_count"] == 1
    assert tags.read("user_request", cast.said["reflect"][1]) == "an up-day rule"
    assert f'"answer":"take {play.ONE}"' in cast.said["reflect"][1]


def test_a_node_called_by_hand_hears_messages_without_ids(play, resources_of):
    update = reflection_node({"messages": [HumanMessage("x")]}, resources=resources_of(play.Cast()))
    assert update["current_task"] == "data_fetch"
    assert update["clarification_needed"] is None


def test_no_message_at_all_is_a_question(play, graph_of):
    waiting = graph_of(play.Cast(), checkpointer=InMemorySaver()).invoke({"messages": []}, THREAD)
    assert waiting["__interrupt__"][0].value["kind"] == "strategy"


# Hosts -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("config", [None, THREAD])
def test_a_question_without_a_checkpointer_is_an_error_with_or_without_a_thread(play, graph_of, config):
    with pytest.raises(CheckpointerRequired, match="InMemorySaver"):
        graph_of(play.Cast(reflect=play.intent(ts_code=""))).invoke(begin("?"), config)


def test_without_a_question_no_checkpointer_is_needed(play, graph_of):
    assert graph_of(play.Cast()).invoke(begin("x"))["ended_because"] == "done"


def test_asynchronous_hosts_get_the_same(play, graph_of):
    async def both():
        cast = play.Cast(reflect=by_turn(play.intent(ts_code=""), play.intent()))
        graph = graph_of(cast, checkpointer=InMemorySaver())
        waiting = await graph.ainvoke(begin("?"), THREAD)
        return waiting, await graph.ainvoke(Command(resume=play.ONE), THREAD)

    waiting, final = asyncio.run(both())
    assert waiting["__interrupt__"][0].value["kind"] == "symbol"
    assert final["ended_because"] == "done"
    assert final["data_ref"] == graph_of(play.Cast()).invoke(begin("x"))["data_ref"]


def test_the_uncompiled_graph_can_be_extended(play, resources_of):
    seen = []
    graph = build_signal_graph(resources_of(play.Cast()))
    assert set(graph.nodes) == {"reflection", "data_fetch", "signal_generate", "validate", "clarify"}
    graph.add_node(
        "mine", lambda state: seen.append(state["data_ref"]) or {}, input_schema=SignalSubgraphState
    )
    assert graph.compile().invoke(begin("x"))["ended_because"] == "done"


def test_the_picture_of_the_graph_has_every_way(play, graph_of):
    edges = {(edge.source, edge.target) for edge in graph_of(play.Cast()).get_graph().edges}
    ends = {source for source, target in edges if target == "__end__"}
    assert ends == {"reflection", "data_fetch", "signal_generate", "validate", "clarify"}
    assert {target for source, target in edges if source == "reflection"} == {
        "data_fetch",
        "signal_generate",
        "validate",
        "clarify",
        "__end__",
    }


def test_the_closing_message_is_in_the_users_language(play, graph_of):
    english = graph_of(play.Cast()).invoke(begin("up-day rule"))["messages"][-1]
    chinese = graph_of(play.Cast()).invoke(begin("上涨买入"))["messages"][-1]
    assert isinstance(english, AIMessage)
    assert english.text.startswith("Not compared with the sentence: ")
    assert "\nSignal up_day is ready and validated: 2024-01-02 - 2024-01-31, 1 x 22; " in english.text
    assert chinese.text.startswith("没有与句子比较：")
    assert "\n信号 up_day 已生成并通过验证" in chinese.text


def test_the_signal_is_what_pandas_gives(play, graph_of, store):
    final = graph_of(play.Cast()).invoke(begin("x"))
    # 2023-12-29 is the session before the window: its close is what the first row looks back to.
    close = SampleSource().bars([play.ONE], pd.Timestamp("2023-12-29"), pd.Timestamp("2024-01-31"))["close"]
    prices = close[play.ONE].tolist()
    expected = [float(after > before) for before, after in zip(prices, prices[1:], strict=False)]
    made = store.snapshot(final["data_ref"])["signal"]["up_day"][play.ONE].tolist()
    assert repr(made) == repr(expected)
    assert flat(final)["validation"]["data_summary"]["signal_counts"]["buy"] == expected.count(1.0)


def test_mapping_begins_clean_and_keeps_what_the_host_fixed():
    main = {
        "messages": [HumanMessage("x")],
        "data_ref": "abc",
        "given": {"ts_code": "000341.SZ"},
        "as_of": "20240115",
        "max_retries": 5,
        "retry_count": 2,
        "error_messages": ["of the host"],
    }
    mapped = map_to_subgraph_state(main)
    names = ("messages", "data_ref", "given", "as_of", "max_retries")
    assert {name: flat(mapped)[name] for name in names} == {name: main[name] for name in names}
    assert (mapped["retry_count"], mapped["error_messages"], mapped["data_ready"]) == (0, [], False)


def test_mapping_a_later_request_keeps_what_the_host_fixes_now():
    before = {"request": {"given": {"ts_code": "000341.SZ"}, "as_of": "20240115"}}
    main = {"messages": [HumanMessage("x")], "quantgraph": before, "max_retries": 5}
    kept = map_to_subgraph_state(main)
    assert (kept["max_retries"], flat(kept)["given"]) == (5, before["request"]["given"])
    freed = map_to_subgraph_state({**main, "given": {}, "as_of": None})
    assert (flat(freed)["given"], flat(freed)["as_of"]) == ({}, None)


@pytest.mark.parametrize("other", ["v2", [1], {"mine": {}}, {"strategy": "momentum"}, {"request": ["x"]}])
def test_something_else_under_the_key_quantgraph_is_a_typed_error(other):
    with pytest.raises(BadOption, match="quantgraph") as invoked:
        create_signal_subgraph(on_clarify="default").invoke(
            {"messages": [HumanMessage("x")], "quantgraph": other}
        )
    assert invoked.value.data["parameter"] == "quantgraph"
    with pytest.raises(BadOption, match="quantgraph"):
        map_to_subgraph_state({"messages": [], "quantgraph": other})
