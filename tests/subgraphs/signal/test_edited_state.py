"""A request that is edited in the state is what is made, from each checkpoint, and never half of it."""

import pandas as pd
import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from quantgraph import create_signal_subgraph, create_trading_graph
from quantgraph.errors import BadOption
from quantgraph.runtime import Resources
from quantgraph.state import DataState
from quantgraph.subgraphs.signal import data_fetch_node, edit

SENTENCE = "000341.SZ, buy when RSI(14) is below 30, sell above 70, 2025"
THREAD = {"configurable": {"thread_id": "1"}}
EDITS = [
    ({"ts_code": "000343.SZ"}, SENTENCE.replace("000341", "000343")),
    ({"start_date": "20250601"}, SENTENCE.replace("2025", "20250601 to 20251231")),
    ({"end_date": "20250601"}, SENTENCE.replace("2025", "20250101 to 20250601")),
    ({"ts_code": "000343.SZ,000345.SZ"}, SENTENCE.replace("000341.SZ", "000343.SZ, 000345.SZ")),
]


def graph_of(store, saver=None, **options):
    return create_signal_subgraph(checkpointer=saver, resources=Resources(store=store, **options))


def signal_of(store, state):
    assert state["ended_because"] == "done", state["messages"][-1].text
    (name,) = state["quantgraph"]["strategy"]["signals"]
    return store.snapshot(state["data_ref"])["signal"][name]


def asked(text):
    return {"messages": [("user", text)]}


@pytest.mark.parametrize(("changes", "sentence"), EDITS, ids=str)
def test_a_fork_at_each_checkpoint_is_a_run_of_that_request(changes, sentence):
    store = DataState()
    wanted = signal_of(store, graph_of(store, on_clarify="default").invoke(asked(sentence)))
    graph = graph_of(store, InMemorySaver(), on_clarify="default")
    graph.invoke(asked(SENTENCE), THREAD)
    history = graph.get_state_history(THREAD)
    forks = [each for each in history if (each.values.get("user_intent") or {}).get("params")]
    assert len(forks) > 4
    for snapshot in forks:
        state = graph.invoke(None, graph.update_state(snapshot.config, edit(snapshot.values, **changes)))
        pd.testing.assert_frame_equal(signal_of(store, state), wanted)
        assert any(line.startswith("edited: ") for line in state["execution_history"])
        assert state["user_intent"]["params"] == state["quantgraph"]["request"]["params"]


def test_all_else_that_was_said_stays():
    graph = graph_of(DataState(), InMemorySaver(), on_clarify="default")
    state = graph.invoke(asked("000341.SZ，5日均线上穿20日均线买入，一直拿着不卖，止损5%，2025年"), THREAD)
    before = state["quantgraph"]["request"]
    state = graph.invoke(None, graph.update_state(THREAD, edit(state, ts_code="000343.SZ")))
    after = state["quantgraph"]["request"]
    assert after["checked"]["trees"] == before["checked"]["trees"]
    assert after["params"]["plan"] == before["params"]["plan"] == {"stop_loss": "0.05"}
    assert after["checked"]["trade"] == "000343.SZ"


def test_edits_of_a_finished_thread_add_up_and_a_later_message_changes_what_is_there():
    graph = graph_of(DataState(), InMemorySaver(), on_clarify="default")
    state = graph.invoke(asked(SENTENCE), THREAD)
    for changes in ({"ts_code": "000343.SZ"}, {"start_date": "20250601"}, {"end_date": "20251130"}):
        graph.update_state(THREAD, edit(state, **changes))
        state = graph.invoke(None, THREAD)
    checked = state["quantgraph"]["request"]["checked"]
    assert (checked["trade"], checked["start"], checked["end"]) == ("000343.SZ", "20250601", "20251130")
    state = graph.invoke(asked("from 20250301 to 20251231"), THREAD)
    checked = state["quantgraph"]["request"]["checked"]
    assert (checked["trade"], checked["start"], checked["end"]) == ("000343.SZ", "20250301", "20251231")
    assert checked["trees"] == ["rsi(14) < 30", "rsi(14) > 70"]


@pytest.mark.parametrize("message", ["000345.SZ, buy below RSI 20, 2024", "thanks"])
def test_an_edit_and_a_message_at_once_are_refused(message):
    graph = graph_of(DataState(), InMemorySaver(), on_clarify="default")
    graph.update_state(THREAD, edit(graph.invoke(asked(SENTENCE), THREAD), ts_code="000343.SZ"))
    with pytest.raises(BadOption, match="was edited and a message came"):
        graph.invoke(asked(message), THREAD)


def test_a_question_is_asked_of_the_edited_request_if_it_is_still_open():
    store = DataState()
    graph = graph_of(store, InMemorySaver())
    open_one = graph.invoke(asked(SENTENCE.removesuffix(", 2025")), THREAD)
    graph.update_state(THREAD, edit(open_one, ts_code="000343.SZ"))
    (question,) = graph.invoke(None, THREAD)["__interrupt__"]
    assert question.value["kind"] == "window"
    state = graph.invoke(Command(resume="2025"), THREAD)
    assert state["quantgraph"]["request"]["checked"]["ts_code"] == "000343.SZ"
    signal_of(store, state)


def test_in_the_trading_graph_an_edit_counts_until_the_signal_is_traded(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    graph = create_trading_graph(checkpointer=InMemorySaver())
    graph.invoke(asked(SENTENCE.removesuffix(", 2025")), THREAD)
    signal = graph.get_state(THREAD, subgraphs=True).tasks[0].state
    dates = {"start_date": "20250101", "end_date": "20251231"}
    graph.update_state(signal.config, edit(signal.values, ts_code="000345.SZ", **dates))
    state = graph.invoke(None, THREAD)
    assert (state["ended_because"], state["quantgraph"]["request"]["checked"]["trade"]) == (
        "done",
        "000345.SZ",
    )
    later = next(each for each in graph.get_state_history(THREAD) if each.next == ("decision",))
    fork = graph.update_state(later.config, edit(later.values, ts_code="000343.SZ"))
    with pytest.raises(BadOption, match="edited after its signal was made"):
        graph.invoke(None, fork)


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"ts_code": ""}, "ts_code=''; must be a text"),
        ({"ts_code": None}, "ts_code=None; must be a text"),
        ({"plan": {"stop_loss": "0.05"}}, "plan of a request cannot be edited; valid: ts_code, start_date"),
        ({"entry": "RSI(14) is below 20"}, "entry of a request cannot be edited.*rules come by message"),
        ({"cash": 5}, "cash of a request cannot be edited"),
    ],
    ids=str,
)
def test_half_an_edit_and_one_that_is_not_read_are_refused(params, said):
    graph = graph_of(DataState(), InMemorySaver(), on_clarify="default")
    state = graph.invoke(asked(SENTENCE), THREAD, interrupt_before=["data_fetch"])
    with pytest.raises(BadOption, match=said):
        edit(state, **params)
    intent = state["user_intent"]
    graph.update_state(THREAD, {"user_intent": {**intent, "params": {**intent["params"], **params}}})
    with pytest.raises(BadOption, match=said):
        graph.invoke(None, THREAD)


def test_a_state_without_a_request_cannot_be_edited():
    with pytest.raises(BadOption, match="no request yet"):
        edit({"messages": []}, ts_code="000343.SZ")


def test_the_groups_of_another_thread_do_not_count():
    graph = graph_of(DataState(), InMemorySaver(), on_clarify="default")
    other = graph_of(DataState(), on_clarify="default").invoke(asked(SENTENCE.replace("30", "20")))
    graph.invoke(asked(SENTENCE), THREAD, interrupt_before=["data_fetch"])
    graph.update_state(THREAD, {"quantgraph": other["quantgraph"]})
    with pytest.raises(BadOption, match="was edited and a message came"):
        graph.invoke(None, THREAD)


def test_a_node_alone_works_on_what_the_state_says():
    store = DataState()
    state = graph_of(store, InMemorySaver(), on_clarify="default").invoke(
        asked(SENTENCE), THREAD, interrupt_before=["data_fetch"]
    )
    update = data_fetch_node({**state, **edit(state, ts_code="000343.SZ")}, resources=Resources(store=store))
    assert list(store.snapshot(update["data_ref"])["ohlcv"]["close"]) == ["000343.SZ"]
