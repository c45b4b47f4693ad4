"""A host's own fields stay its own, whatever their names, where it shares the result alone."""

from typing import Annotated, Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Command
from typing_extensions import TypedDict

from quantgraph import GLOBAL_DATA_STATE, create_signal_subgraph
from quantgraph.errors import BadOption, NoSignal
from quantgraph.subgraphs.signal import SignalSubgraphState, map_to_main_state, signal_frame

SENTENCE = "000341.SZ, buy when RSI(14) is below 30, sell above 70, 2025"
THREAD = {"configurable": {"thread_id": "1"}}
OTHERS = sorted(SignalSubgraphState.__annotations__.keys() - {"messages", "quantgraph"})
MINE = {name: f"the host's {name}" for name in OTHERS} | {
    "max_retries": "twice",
    "error_messages": ["payment failed"],
}
Host = TypedDict("Host", {"messages": Annotated[list, add_messages], **dict.fromkeys(OTHERS, Any)})


class SharedHost(MessagesState):
    quantgraph: dict


def signal(**options):
    return create_signal_subgraph(share="result", **options)


def host_of(*nodes):
    """A host that sets its fields before the subgraphs, which run side by side, and reads them after."""
    graph, seen = StateGraph(Host), []
    graph.add_node("before", lambda _: MINE)
    graph.add_node("after", lambda state: seen.append({name: state[name] for name in OTHERS}))
    graph.add_edge(START, "before")
    for place, node in enumerate(nodes):
        graph.add_node(f"signal{place}", node)
        graph.add_edge("before", f"signal{place}")
    graph.add_edge([f"signal{place}" for place in range(len(nodes))], "after")
    return graph.compile(checkpointer=InMemorySaver()), seen


@pytest.mark.parametrize("count", [1, 2], ids=["alone", "in parallel"])
def test_each_name_of_ours_may_be_something_else_in_a_host(count):
    host, seen = host_of(*(signal() for _ in range(count)))
    state = host.invoke({"messages": [("user", SENTENCE)]}, THREAD)
    assert "is ready and validated" in state["messages"][-1].text
    assert {name: state[name] for name in OTHERS} == MINE
    assert seen == [MINE]


def test_and_stays_so_over_a_question_and_a_later_message():
    host, seen = host_of(signal())
    state = host.invoke({"messages": [("user", SENTENCE.removesuffix(", 2025"))]}, THREAD)
    assert state["__interrupt__"]
    assert {name: state[name] for name in OTHERS} == MINE
    host.invoke(Command(resume="2025"), THREAD)
    state = host.invoke({"messages": [("user", "now use 000343.SZ")]}, THREAD)
    assert (state["messages"][-1].name, "is ready" in state["messages"][-1].text) == ("quantgraph", True)
    assert seen == [MINE, MINE]


def test_what_it_gets_is_the_messages_and_the_result_with_its_frame():
    out = signal(on_clarify="default").invoke({"messages": [("user", SENTENCE)]})
    assert out.keys() == {"messages", "quantgraph"}
    result = out["quantgraph"]["result"]
    assert (result["ended_because"], result["name"]) == ("done", "rsi_14_lt_30_exit_rsi_14_gt_70")
    frame = signal_frame(out)
    assert frame.equals(GLOBAL_DATA_STATE.snapshot(result["data_ref"])["signal"][result["name"]])
    mapped = map_to_main_state(out)
    assert (mapped["data_ref"], mapped["ended_because"]) == (result["data_ref"], "done")


def test_without_a_signal_there_is_no_frame():
    graph = signal(checkpointer=InMemorySaver())
    asked = graph.invoke({"messages": [("user", SENTENCE.removesuffix(", 2025"))]}, THREAD)
    with pytest.raises(NoSignal, match="it has not ended"):
        signal_frame(asked)
    with pytest.raises(NoSignal, match="cancelled"):
        signal_frame(graph.invoke(Command(resume="cancel"), THREAD))


def test_thanks_leave_the_result_of_their_thread():
    graph = StateGraph(SharedHost).add_node("signal", signal()).add_edge(START, "signal")
    host, frames = graph.compile(checkpointer=InMemorySaver()), []
    for place, code in enumerate(("000341.SZ", "000343.SZ", "")):
        thread = {"configurable": {"thread_id": str(place % 2)}}
        text = SENTENCE.replace("000341.SZ", code) if code else "谢谢"
        frames.append(list(signal_frame(host.invoke({"messages": [("user", text)]}, thread))))
    assert frames == [["000341.SZ"], ["000343.SZ"], ["000341.SZ"]]


def test_a_result_is_of_the_last_request():
    graph = signal(checkpointer=InMemorySaver())
    graph.invoke({"messages": [("user", SENTENCE)]}, THREAD)
    again = graph.invoke({"messages": [("user", "hello, what can you do?")]}, THREAD)
    assert again["__interrupt__"]
    assert again["quantgraph"]["result"] == {}


def test_another_word_is_refused():
    with pytest.raises(BadOption, match="share='none'; valid: 'document', 'result'"):
        create_signal_subgraph(share="none")
