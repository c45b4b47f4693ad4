"""The signal subgraph two deep in graphs of somebody else, with reducers, keys and savers of their own."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, NotRequired

import pytest
from langchain_core.messages import AnyMessage
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Command
from load_script import load_script
from states import flat
from typing_extensions import TypedDict

from quantgraph import DataState, create_signal_subgraph
from quantgraph.recording import Recorder
from quantgraph.runtime import Resources
from quantgraph.subgraphs.signal import map_to_main_state, map_to_subgraph_state

TESTS = Path(__file__).parents[1]
THREAD = {"configurable": {"thread_id": "t"}}
CROSS = "buy when the 5-day average crosses above the 20-day average, sell when it crosses below"
ASK = f"000341.SZ, {CROSS}"
ANSWER = "from 20240102 to 20240628"
STEPS = ["reflection", "data_fetch", "validate", "reflection", "signal_generate", "validate"]


child = load_script(TESTS / "support" / "clarify_child.py")
postgres = load_script(TESTS / "broker" / "postgres.py")


def counted(old: dict[str, int], new: dict[str, int]) -> dict[str, int]:
    """A host's own reducer: it adds, so that an update that comes twice shows."""
    return dict(Counter(old) + Counter(new))


class Firm(TypedDict):
    """The outermost graph's state."""

    messages: Annotated[list[AnyMessage], add_messages]
    log: Annotated[list[str], operator.add]
    visits: Annotated[dict[str, int], counted]
    owner: str
    verdict: NotRequired[str]


class Desk(TypedDict):
    """A graph in between that shares our messages and results."""

    messages: Annotated[list[AnyMessage], add_messages]
    notes: Annotated[list[str], operator.add]
    seen: Annotated[dict[str, int], counted]
    data_ref: NotRequired[str]
    quantgraph: NotRequired[dict[str, Any]]
    ended_because: NotRequired[str | None]
    verdict: NotRequired[str]


class Papers(TypedDict):
    """A graph in between in which names of ours mean something else."""

    messages: Annotated[list[AnyMessage], add_messages]
    calls: Annotated[int, operator.add]
    failures: Annotated[list[str], operator.add]
    request: str
    signal: NotRequired[dict[str, Any]]
    verdict: NotRequired[str]


def line(state_type: type, **nodes: Any) -> StateGraph[Any, Any, Any, Any]:
    """A graph of nodes in a row."""
    graph: StateGraph[Any, Any, Any, Any] = StateGraph(state_type)
    for name, node in nodes.items():
        graph.add_node(name, node)
    for before, after in pairwise([START, *nodes, END]):
        graph.add_edge(before, after)
    return graph


def verdict(result: dict[str, Any]) -> str:
    return " ".join([result["ended_because"], result["data_ref"], flat(result)["strategy"]["code_hash"]])


def as_a_node(signal: Any) -> Any:
    hello = {"notes": ["brief"], "seen": {"brief": 1}, "messages": [("ai", "at your service")]}

    def file(state: Desk) -> dict[str, Any]:
        return {"verdict": f"{state['notes']} {state['seen']} {verdict(state)}"}

    return line(Desk, brief=lambda state: hello, signal=signal, file=file).compile()


def inside_a_node(signal: Any) -> Any:
    hello = {"calls": 1, "failures": ["none"], "request": "mine", "messages": [("ai", "at your service")]}

    def work(state: Papers) -> dict[str, Any]:
        found = map_to_main_state(signal.invoke(map_to_subgraph_state({"messages": state["messages"]})))
        return {"messages": found.pop("messages"), "signal": found, "calls": 1}

    def file(state: Papers) -> dict[str, Any]:
        own = [state["calls"], state["failures"], state["request"]]
        return {"verdict": f"{own} {verdict(state['signal'])}"}

    return line(Papers, brief=lambda state: hello, signal=work, file=file).compile()


DESKS = {"node": (as_a_node, "['brief'] {'brief': 1}"), "inside": (inside_a_node, "[2, ['none'], 'mine']")}


def firm(way: str, folder: Path, saver: Any, calls: list[str]) -> Any:
    """Everything anew, as another process would build it: a signal graph in a desk in a firm."""
    signal = create_signal_subgraph(
        model=child.counting_planner(calls),
        source="sample",
        resources=Resources(store=DataState(folder / "data"), recorder=Recorder(folder / "run.sqlite")),
    )
    return line(
        Firm,
        open=lambda state: {"log": ["open"], "visits": {"open": 1}},
        desk=DESKS[way][0](signal),
        close=lambda state: {"log": ["close"], "visits": {"close": 1}},
    ).compile(checkpointer=saver)


def run(graph: Any, task: Any) -> tuple[Counter[str], list[dict[str, Any]]]:
    """How often each node gave an update, by its place; and the events that were told."""
    nodes: Counter[str] = Counter()
    told: list[dict[str, Any]] = []
    modes = ["updates", "custom"]
    for place, mode, part in graph.stream(task, THREAD, stream_mode=modes, subgraphs=True, durability="sync"):
        if mode == "custom":
            told.append(part)
        elif len(place) < 3:  # what is deeper is within a node of the signal graph
            levels = [level.partition(":")[0] for level in place]
            nodes.update("/".join([*levels, name]) for name in part if name != "__interrupt__")
    return nodes, told


@contextmanager
def sqlite(folder: Path) -> Iterator[Any]:
    with SqliteSaver.from_conn_string(str(folder / "checkpoints.sqlite")) as saver:
        yield saver


@contextmanager
def on_server(url: str) -> Iterator[Any]:
    with PostgresSaver.from_conn_string(url) as saver:
        saver.setup()
        yield saver


@pytest.fixture(scope="module")
def alone() -> str:
    """What the subgraph gives where nothing is around it and nobody is asked."""
    graph = create_signal_subgraph(source="sample", resources=Resources(store=DataState()))
    return verdict(graph.invoke({"messages": [("user", f"{ASK}, {ANSWER}")]}))


@pytest.fixture
def url() -> Iterator[str]:
    with postgres.server() as running:
        yield running.database().replace("+psycopg", "")


@pytest.mark.parametrize(
    ("way", "saver"),
    [("node", "sqlite"), ("inside", "sqlite"), pytest.param("node", "server", marks=pytest.mark.proof)],
)
def test_two_deep_a_question_and_its_answer_double_and_lose_nothing(way, saver, tmp_path, alone, request):
    where = (sqlite, tmp_path) if saver == "sqlite" else (on_server, request.getfixturevalue("url"))
    calls: list[str] = []
    begun = {"messages": [("user", ASK)], "log": ["begin"], "visits": {"begin": 1}, "owner": "me"}
    with where[0](where[1]) as kept:
        graph = firm(way, tmp_path, kept, calls)
        before, asked = run(graph, begun)
        (question,) = [event["clarification"] for event in asked if "clarification" in event]
        (pause,) = graph.get_state(THREAD).interrupts
        assert pause.value == question
    with where[0](where[1]) as kept:
        graph = firm(way, tmp_path, kept, calls)
        after, told = run(graph, Command(resume=ANSWER))
        state = graph.get_state(THREAD).values

    assert before == Counter(["open", "desk/brief", "desk/signal/reflection", "desk/signal/clarify"])
    steps = [f"desk/signal/{node}" for node in ["clarify", *STEPS]]
    assert after == Counter([*steps, "desk/signal", "desk/file", "desk", "close"])
    assert [event["path"] for event in told if event.get("status") == "finished"] == steps
    assert Counter(calls)["clarify"] == 1
    assert Counter(calls)["reflect"] == 2, "once before the question, once on its answer"
    assert (state["log"], state["owner"]) == (["begin", "open", "close"], "me")
    assert state["visits"] == {"begin": 1, "open": 1, "close": 1}
    assert state["verdict"] == f"{DESKS[way][1]} {alone}"
    assert set(state) == {"messages", "log", "visits", "owner", "verdict"}
    said = [(message.type, message.text) for message in state["messages"]]
    heard = [("ai", "at your service"), ("ai", question["question"]), ("human", ANSWER)]
    assert said[:4] == [("human", ASK), *heard]
    assert [kind for kind, _ in said[4:]] == ["ai"]
    assert len({message.id for message in state["messages"]}) == 5


class Pair(TypedDict):
    """Two results, one a side."""

    left: NotRequired[str]
    right: NotRequired[str]


def test_two_side_by_side_ask_at_once_and_each_gets_its_own_answer(tmp_path):
    sentences = {"left": ASK, "right": "000342.SZ, buy when RSI(14) is below 30, sell above 70"}
    starts = {"left": "20240102", "right": "20240701"}
    calls: dict[str, list[str]] = {"left": [], "right": []}
    recorder, graph = Recorder(tmp_path / "run.sqlite"), StateGraph(Pair)
    for side, sentence in sentences.items():
        planner = child.counting_planner(calls[side])
        signal = create_signal_subgraph(
            model=planner, source="sample", resources=Resources(store=DataState(), recorder=recorder)
        )

        def work(_: Pair, side: str = side, signal: Any = signal, sentence: str = sentence) -> dict[str, str]:
            found = signal.invoke({"messages": [("user", sentence)]})
            name, start = flat(found)["strategy"]["name"], flat(found)["request"]["start"]
            return {side: f"{name} {start} {found['ended_because']}"}

        graph.add_node(side, work).add_edge(START, side).add_edge(side, END)
    with sqlite(tmp_path) as kept:
        compiled = graph.compile(checkpointer=kept)
        compiled.invoke({}, THREAD)
        pauses = {task.name: task.interrupts[0] for task in compiled.get_state(THREAD).tasks}
        answers = {pauses[side].id: f"from {starts[side]} to 20241231" for side in sentences}
        state = compiled.invoke(Command(resume=answers), THREAD)
    assert state["left"] == "cross_up_sma_5_sma_20 20240102 done"
    assert state["right"] == "rsi_14_lt_30_exit_rsi_14_gt_70 20240701 done"
    for side in sentences:
        assert (calls[side].count("clarify"), calls[side].count("reflect")) == (1, 2)
