"""A graph that is invoked in ``decide``, ``on_clarify`` or a source begins anew, saves nothing, and still streams."""

from __future__ import annotations

import asyncio
import operator
import threading
from functools import partial
from typing import Annotated, Any

import pytest
from langchain.agents import create_agent
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.config import get_stream_writer
from langgraph.errors import GraphDrained
from langgraph.func import entrypoint, task
from langgraph.graph import END, START, StateGraph
from langgraph.runtime import RunControl
from langgraph.types import Command, interrupt
from typing_extensions import TypedDict

from quantgraph import DataState, create_signal_subgraph, create_trading_graph
from quantgraph.broker import Decider, Order
from quantgraph.broker.ledger import Ledger
from quantgraph.data.sample import SampleSource
from quantgraph.errors import BadOption, CheckpointerRequired
from quantgraph.llm._recorded_model import RecordedChatModel
from quantgraph.runtime import Resources
from quantgraph.testing import ScriptedChatModel

pytestmark = pytest.mark.proof

CODE = "000341.SZ"
WINDOW = "20240102到20240110"
SESSIONS = [f"2024-01-{day:02}" for day in (2, 3, 4, 5, 8, 9, 10)]
SENTENCE = f"{CODE}，2日均线上穿5日均线买入，下穿卖出，{WINDOW}"
TASK = {"messages": [("user", SENTENCE)], "run_id": "r"}
THREAD = {"configurable": {"thread_id": "t"}}


class Killed(Exception):
    """Stands for a kill: whatever was saved up to here is what a resumed run finds."""


class Steps(TypedDict):
    done: Annotated[list[str], operator.add]


def two_steps(gathered, dies, *, checkpointer=None):
    """A graph that gathers something in memory in its first step, and dies in its second if it is told to."""

    def gather(_: Steps) -> dict[str, Any]:
        gathered.append("order")
        return {"done": ["gather"]}

    def finish(_: Steps) -> dict[str, Any]:
        if dies():
            raise Killed
        return {"done": ["finish"]}

    graph = StateGraph(Steps).add_node("gather", gather).add_node("finish", finish)
    graph.add_edge(START, "gather").add_edge("gather", "finish").add_edge("finish", END)
    return graph.compile(checkpointer=checkpointer)


def deep(graph):
    """The graph, called in a node of a graph that is a node of a third."""
    inner = StateGraph(Steps).add_node("calls", lambda _: graph.invoke({"done": []}))
    inner.add_edge(START, "calls").add_edge("calls", END)
    outer = StateGraph(Steps).add_node("inner", inner.compile())
    return outer.add_edge(START, "inner").add_edge("inner", END).compile()


OWN = InMemorySaver()
WAYS = (
    lambda make: make().invoke({"done": []}),
    lambda make: list(make().stream({"done": []}, stream_mode="updates")),
    lambda make: asyncio.run(make().ainvoke({"done": []})),
    lambda make: make().batch([{"done": []}]),
    lambda make: make(checkpointer=False).invoke({"done": []}),
    lambda make: make(checkpointer=True).invoke({"done": []}),
    lambda make: make(checkpointer=OWN).invoke({"done": []}),
)
"""How a decider calls a graph, one a session."""


class Calls(Decider):
    """Calls a graph in each session, another way each time; the graph dies the first time."""

    name = "calls"
    uses_signal = False

    def __init__(self, wrap=lambda graph: graph):
        self.wrap, self.sessions = wrap, []

    def decide(self, context):
        session = context.session
        gathered, first = [], session not in self.sessions
        if first:
            self.sessions.append(session)

        def make(**options):
            return self.wrap(two_steps(gathered, lambda: first, **options))

        WAYS[len(self.sessions) - 1](make)
        return [Order(symbol=CODE, side="buy", quantity=100, sequence=1) for _ in gathered]


class Decides(Decider):
    """Does in ``decide`` what it is given."""

    name = "decides"
    uses_signal = False

    def __init__(self, does):
        self.does = does

    def decide(self, context):
        session = context.session
        return self.does(session) or []


def graph_of(tmp_path, decider=None, *, saver=None, **options):
    return create_trading_graph(
        source=options.pop("source", "sample"),
        decider=decider,
        checkpointer=saver,
        resources=Resources(store=DataState(), ledger=tmp_path / "ledger.sqlite"),
        **{"on_clarify": "default", **options},
    )


def fills(tmp_path):
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        ledger.check("r")
        return [line["session"] for line in ledger.journal("r") if line["kind"] == "fill"]


def namespaces(saver):
    """Where checkpoints were saved, without the ids of tasks."""
    places = {saved.config["configurable"]["checkpoint_ns"] for saved in saver.list(None)}
    return {"|".join(part.partition(":")[0] for part in place.split("|")) for place in places}


def resumed(graph, task, durability):
    """Run a graph until it ends, resumed each time that it dies; how often it did."""
    deaths = 0
    while True:
        try:
            state = graph.invoke(task, THREAD, durability=durability)
        except Killed:
            deaths, task = deaths + 1, None if graph.get_state(THREAD).values else task
        else:
            assert state["ended_because"] == "done", state["error_messages"]
            return deaths


@pytest.mark.parametrize(
    ("durability", "wrap"),
    [*((durability, lambda graph: graph) for durability in ("exit", "async", "sync")), ("sync", deep)],
    ids=["exit", "async", "sync", "deep"],
)
def test_a_graph_in_decide_begins_anew_however_it_is_called(tmp_path, durability, wrap):
    saver = InMemorySaver()
    graph = graph_of(tmp_path, Calls(wrap), saver=saver)
    assert resumed(graph, TASK, durability) == len(WAYS)
    assert fills(tmp_path) == SESSIONS
    assert namespaces(saver) <= {"", "signal"}


def test_a_graph_in_decide_begins_anew_where_trades_are_approved(tmp_path):
    graph = graph_of(tmp_path, Calls(), saver=InMemorySaver(), approve=True, on_clarify=lambda _: "approve")
    assert resumed(graph, TASK, "sync") == len(WAYS)
    assert len(fills(tmp_path)) == len(WAYS)


class Asks(SampleSource):
    """A source whose every answer takes a graph; the graph dies the first time that each method is called."""

    def __init__(self):
        super().__init__()
        self.died, self.gathered = set(), []

    def _ask(self, method):
        gathered = []
        first = method not in self.died
        self.died.add(method)
        two_steps(gathered, lambda: first).invoke({"done": []})
        self.gathered.append((method, len(gathered)))

    def sessions(self):
        self._ask("sessions")
        return super().sessions()

    def bars(self, *given):
        self._ask("bars")
        return super().bars(*given)

    def index_bars(self, *given):
        self._ask("index_bars")
        return super().index_bars(*given)


def test_a_graph_in_a_source_begins_anew_in_nodes_tools_and_the_report(tmp_path):
    saver, source = InMemorySaver(), Asks()
    graph = graph_of(tmp_path, saver=saver, source=source)
    task = {
        "messages": [("user", f"合成30成分股，2日均线上穿5日均线买入，下穿卖出，{WINDOW}")],
        "run_id": "r",
    }
    assert resumed(graph, task, "sync") == 3
    assert {method for method, _ in source.gathered} == {"sessions", "bars", "index_bars"}
    assert {gathered for _, gathered in source.gathered} == {1}
    assert namespaces(saver) <= {"", "signal"}


def test_a_graph_in_on_clarify_begins_anew(tmp_path):
    saver, asked = InMemorySaver(), []

    def answer(question):
        gathered, first = [], not asked
        asked.append(question["kind"])
        two_steps(gathered, lambda: first).invoke({"done": []})
        assert gathered == ["order"]
        return WINDOW

    graph = graph_of(tmp_path, saver=saver, on_clarify=answer)
    task = {"messages": [("user", f"{CODE}，2日均线上穿5日均线买入，下穿卖出")], "run_id": "r"}
    assert resumed(graph, task, "sync") == 1
    assert asked == ["window", "window"]
    assert namespaces(saver) <= {"", "signal"}


def test_a_run_that_is_stopped_while_an_agent_works_asks_nothing_twice(tmp_path):
    control, wanted = RunControl(), ["2024-01-03", "2024-01-08"]

    def says(messages):
        if messages[-1].type == "tool":
            return AIMessage("done")
        return AIMessage("", tool_calls=[{"name": "buy", "args": {}, "id": "1"}])

    scripted = ScriptedChatModel(says)
    model = RecordedChatModel(scripted, role="trader")

    def trades(session):
        orders = []

        @tool
        def buy() -> str:
            """Buy."""
            if f"{session:%Y-%m-%d}" in wanted:
                control.request_drain("enough")
            orders.append(Order(symbol=CODE, side="buy", quantity=100, sequence=1))
            return "noted"

        create_agent(model, [buy]).invoke({"messages": [("user", f"{session:%Y%m%d}")]})
        return orders

    graph, given = graph_of(tmp_path, Decides(trades), saver=InMemorySaver()), TASK
    while wanted:
        with pytest.raises(GraphDrained):
            graph.invoke(given, THREAD, control=control, durability="sync")
        control, given = RunControl(), None
        wanted.pop(0)
    graph.invoke(None, THREAD, durability="sync")
    assert fills(tmp_path) == SESSIONS
    assert len(scripted.calls) == 2 * len(SESSIONS)


class Ends(BaseCallbackHandler):
    """Counts the model calls that ended."""

    def __init__(self):
        self.ended = 0

    def on_llm_end(self, *_given, **_named):
        self.ended += 1


def streaming_trader(session):
    """An agent whose tool writes an event of its own."""

    @tool
    def hold() -> str:
        """Do nothing."""
        get_stream_writer()({"held": f"{session:%Y%m%d}"})
        return "held"

    call = AIMessage("", tool_calls=[{"name": "hold", "args": {}, "id": "1"}])
    model = ScriptedChatModel([call, AIMessage("I hold what there is")])
    create_agent(model, [hold]).invoke({"messages": [("user", "trade")]})


def test_tokens_events_and_callbacks_of_a_graph_in_decide_reach_the_host(tmp_path):
    graph = graph_of(tmp_path, Decides(streaming_trader), saver=InMemorySaver())
    counted, tokens, events = Ends(), [], []
    modes = {"stream_mode": ["messages", "custom"], "subgraphs": True, "durability": "sync"}
    for place, mode, data in graph.stream(TASK, {**THREAD, "callbacks": [counted]}, **modes):
        if mode == "messages" and data[1]["langgraph_node"] == "model" and "decision" in str(place):
            tokens.append(data[0].text)
        if mode == "custom" and "held" in data:
            events.append(data["held"])
    assert "".join(tokens) == "I hold what there is" * len(WAYS)
    assert len(tokens) > len(WAYS), "token by token"
    assert events == [session.replace("-", "") for session in SESSIONS]
    assert counted.ended >= 2 * len(WAYS)


def asks_in_a_tool(_session):
    """An agent that asks a person before it buys."""

    @tool
    def buy() -> str:
        """Buy."""
        return interrupt("shall I buy?")

    call = AIMessage("", tool_calls=[{"name": "buy", "args": {}, "id": "1"}])
    agent = create_agent(ScriptedChatModel([call, AIMessage("bought")]), [buy])
    agent.invoke({"messages": [("user", "trade")]})


def asks_on_a_thread_of_its_own(_session, *, saver=None, asynchronous=False):
    """A graph with a thread: LangGraph hands its interrupt out as a result."""
    graph = StateGraph(Steps).add_node("ask", lambda _: {"done": [interrupt("shall I?")]})
    asking = graph.add_edge(START, "ask").compile(checkpointer=saver)
    given = {"done": []}, {"configurable": {"thread_id": "own"}}
    asyncio.run(asking.ainvoke(*given)) if asynchronous else asking.invoke(*given)


def leaves(_session):
    """A graph that sends its parent somewhere else."""
    graph = StateGraph(Steps).add_node("go", lambda _: Command(goto="report", graph=Command.PARENT))
    graph.add_edge(START, "go").compile().invoke({"done": []})


@task
def priced() -> int:
    """A task of LangGraph's functional API."""
    return 100


MISTAKES = {
    "interrupt": (lambda _session: interrupt("shall I buy?"), r"interrupt\(\) would pause the run"),
    "in a tool": (asks_in_a_tool, r"interrupt\(\) would pause the run"),
    "own thread": (asks_on_a_thread_of_its_own, r"interrupt\(\) would pause a graph in the run"),
    "own saver": (
        partial(asks_on_a_thread_of_its_own, saver=InMemorySaver(), asynchronous=True),
        r"interrupt\(\) would pause a graph in the run",
    ),
    "parent": (leaves, "would leave the run"),
    "task": (lambda _session: priced().result(), "@task"),
}


@pytest.mark.parametrize(
    ("mistake", "approve"),
    [*((mistake, False) for mistake in MISTAKES), ("interrupt", True), ("in a tool", True)],
)
def test_what_decide_may_not_do_is_an_error_that_names_the_way(tmp_path, mistake, approve):
    does, told = MISTAKES[mistake]
    graph = graph_of(tmp_path, Decides(does), saver=InMemorySaver(), approve=approve)
    with pytest.raises(BadOption, match=told) as caught:
        graph.invoke(TASK, THREAD)
    assert "approve=True" in caught.value.line
    assert "\n" not in caught.value.line
    assert caught.value.data["parameter"] == "decider"
    assert graph.get_state(THREAD).interrupts == ()
    with pytest.raises(BadOption, match=told):  # an answer is not for it either
        graph.invoke(Command(resume="yes"), THREAD)
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        assert ledger.last_session("r") is None


def test_an_interrupt_in_on_clarify_or_a_source_is_an_error_too(tmp_path):
    class Waits(SampleSource):
        def bars(self, *_given):
            return interrupt("may I?")

    graph = graph_of(tmp_path, saver=InMemorySaver(), source=Waits())
    with pytest.raises(BadOption, match=r"interrupt\(\) would pause the run in step 'data_fetch'") as caught:
        graph.invoke(TASK, THREAD)
    assert caught.value.data["parameter"] == "source"
    graph = graph_of(tmp_path, saver=InMemorySaver(), on_clarify=lambda _: interrupt("what shall I say?"))
    with pytest.raises(BadOption, match="would pause the run in step 'clarify'") as caught:
        graph.invoke({"messages": [("user", f"{CODE}，2日均线上穿5日均线买入，下穿卖出")]}, THREAD)
    assert caught.value.data["parameter"] == "on_clarify"


class Pair(TypedDict):
    """Two runs side by side."""

    left: str
    right: str


class Tells(InMemorySaver):
    """Says when a question was saved."""

    def __init__(self):
        super().__init__()
        self.asked = threading.Event()

    def put_writes(self, config, writes, *given):
        super().put_writes(config, writes, *given)
        if any(channel == "__interrupt__" for channel, _ in writes):
            self.asked.set()


def test_an_answer_to_a_question_of_another_run_is_not_taken_by_a_decider(tmp_path):
    """In one step of a host a run waits for an answer, and a run that had died beside it begins anew."""
    answers, died, tried, saver = [], [], threading.Event(), Tells()
    asking = create_signal_subgraph(source="sample", resources=Resources(store=DataState()))
    stealing = graph_of(tmp_path, Decides(lambda _: answers.append(interrupt("shall I?"))))

    def left(_: Pair) -> dict[str, str]:
        assert not died or tried.wait(60)
        question = {"messages": [("user", f"{CODE}，2日均线上穿5日均线买入，下穿卖出")]}
        return {"left": asking.invoke(question)["ended_because"]}

    def right(_: Pair) -> dict[str, str]:
        if not died:
            died.append(saver.asked.wait(60))
            raise Killed
        try:
            stealing.invoke(TASK)
        except BadOption as error:
            return {"right": error.code}
        finally:
            tried.set()
        return {"right": "done"}

    host = StateGraph(Pair).add_node("left", left).add_node("right", right)
    host.add_edge(START, "left").add_edge(START, "right")
    graph = host.compile(checkpointer=saver)
    with pytest.raises(Killed):
        graph.invoke({}, THREAD)
    assert graph.invoke(Command(resume=WINDOW), THREAD) == {"left": "done", "right": "bad_option"}
    assert answers == []


def test_tasks_of_an_entrypoint_in_decide_begin_anew(tmp_path):
    died, made = set(), []

    def workflow(session):
        gathered = []

        @task
        def gather() -> None:
            gathered.append("order")

        @entrypoint()
        def work(_: None) -> None:
            gather().result()
            if session not in died:
                died.add(session)
                raise Killed

        work.invoke("now")
        made.append(len(gathered))

    saver = InMemorySaver()
    assert resumed(graph_of(tmp_path, Decides(workflow), saver=saver), TASK, "sync") == len(WAYS)
    assert made == [1] * len(WAYS)
    assert namespaces(saver) <= {"", "signal"}


def test_a_run_in_on_clarify_that_would_ask_says_that_nobody_can_answer_it(tmp_path):
    asks = {"messages": [("user", f"{CODE}，2日均线上穿5日均线买入，下穿卖出")]}
    inner = create_signal_subgraph(source="sample", resources=Resources(store=DataState()))
    graph = graph_of(tmp_path, saver=InMemorySaver(), on_clarify=lambda _: inner.invoke(asks))
    with pytest.raises(CheckpointerRequired, match="this graph has no checkpointer"):
        graph.invoke(asks, THREAD)
