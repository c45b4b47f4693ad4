"""A trader that is a ``create_agent``, in forked children that are killed with SIGKILL and resumed until it is done.

Usage: ``agent_child.py PLAN``; ``PLAN`` is a JSON object, see :class:`Case` for its ``cases``. Prints one JSON
object: what each case's run came to, by the case's name.

The first case runs in the parent, so that all is imported and cached before the first fork; what a child knows of
its run it has from disk. A child is killed here where a tool was called and where a reply was written down, and
by the model's server where a request has come in.
"""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import sqlite3
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NotRequired

os.environ["LANGGRAPH_STRICT_MSGPACK"] = "true"
sys.path.insert(0, str(Path(__file__).parents[1] / "broker"))

from crash_child import forked, was_killed
from langchain.agents import create_agent
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AnyMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from typing_extensions import TypedDict

from quantgraph import DataState, create_trading_graph
from quantgraph.broker import Decider, Order
from quantgraph.broker.ledger import Ledger
from quantgraph.llm._recorded_model import RecordedChatModel
from quantgraph.recording import Recorder
from quantgraph.runtime import Resources

CODE = "000341.SZ"
RUN = "r"
SENTENCE = f"{CODE}，2日均线上穿5日均线买入，下穿卖出，20240102到20240103"
THREAD = {"configurable": {"thread_id": "t"}}


@dataclass(frozen=True)
class Case:
    """One run.

    ``host`` is ``alone`` or ``embedded``, ``url`` a PostgreSQL database or None, ``kills`` the events at each of
    which the run is killed once: ``tool:SESSION:RESULTS`` and ``replied:SESSION:RESULTS``. ``instants`` are parts
    of a whole run's time: a leg that lives for so long is killed then.
    """

    name: str
    durability: Any
    host: str
    url: str | None
    kills: list[str]
    instants: list[float]
    folder: Path
    server: str

    @property
    def place(self) -> str | Path:
        """Where the ledger and the record are, and on PostgreSQL the checkpoints."""
        return self.folder / "ledger.sqlite" if self.url is None else self.url

    def happened(self, event: str) -> None:
        """Die at an event, the first time."""
        mark = self.folder / event.replace(":", "-")
        if event in self.kills and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)

    @contextmanager
    def saver(self) -> Iterator[Any]:
        """The host's checkpointer."""
        if self.url is None:
            path = self.folder / "checkpoints.sqlite"
            with closing(sqlite3.connect(path, check_same_thread=False)) as connection:
                yield SqliteSaver(connection)
            return
        from langgraph.checkpoint.postgres import PostgresSaver

        with PostgresSaver.from_conn_string(self.url.replace("+psycopg", "")) as saver:
            saver.setup()
            yield saver


class Watch(BaseCallbackHandler):
    """Dies when a reply was written down."""

    raise_error = True

    def __init__(self, case: Case, at: str, results: list[str]) -> None:
        self.case, self.at, self.results = case, at, results

    def on_llm_end(self, *_: Any, **__: Any) -> None:
        self.case.happened(f"replied:{self.at}:{len(self.results)}")


class Trader(Decider):
    """Collects orders from the tool calls of an agent: a graph like any other, with nothing said of savers."""

    name = "trader"
    uses_signal = False

    def __init__(self, case: Case) -> None:
        self.case = case
        self.model = RecordedChatModel(
            ChatOpenAI(
                model="scripted",
                base_url=case.server,
                api_key="sk-of-a-test",
                max_retries=0,
                default_headers={"x-case": case.name, "x-pid": str(os.getpid())},
            ),
            role="trader",
        )

    def decide(self, context):
        account, session = context.account, context.session
        orders, results, at = [], [], f"{session:%Y%m%d}"

        def called(told: str) -> str:
            self.case.happened(f"tool:{at}:{len(results)}")
            results.append(told)
            return told

        def order(side: str, quantity: int) -> str:
            orders.append(Order(symbol=CODE, side=side, quantity=quantity, sequence=len(orders) + 1))
            return called(f"will {side} {quantity}")

        @tool
        def buy(quantity: int) -> str:
            """Buy at the open."""
            return order("buy", quantity)

        @tool
        def sell(quantity: int) -> str:
            """Sell at the open."""
            return order("sell", quantity)

        @tool
        def hold() -> str:
            """Do nothing more."""
            return called("will hold")

        agent = create_agent(self.model, [buy, sell, hold])
        task = f"{at}: {account.quantity(CODE)} shares"
        agent.invoke({"messages": [("user", task)]}, {"callbacks": [Watch(self.case, at, results)]})
        return orders


class Firm(TypedDict):
    """A host's state."""

    messages: Annotated[list[AnyMessage], add_messages]
    run_id: NotRequired[str]
    summary: NotRequired[dict[str, Any]]
    ended_because: NotRequired[str | None]


def graph_of(case: Case, *, saver: Any = None, replayed: bool = False) -> Any:
    """The graph of a case, alone or as a node of a host; a replay has a ledger of its own."""
    embedded = case.host == "embedded"
    graph = create_trading_graph(
        source="sample",
        decider=Trader(case),
        on_clarify="default",
        checkpointer=None if embedded else saver,
        resources=Resources(
            store=DataState(case.folder / "data"),
            ledger=case.folder / "replayed.sqlite" if replayed else case.place,
            recorder=Recorder(case.place, mode="replay") if replayed else None,
        ),
    )
    if not embedded:
        return graph
    host = StateGraph(Firm).add_node("desk", graph).add_node("close", lambda _: {})
    return host.add_edge(START, "desk").add_edge("desk", "close").add_edge("close", END).compile(saver)


def work(case: Case, _: Path) -> None:
    """Begin or go on, as a host would."""
    with case.saver() as saver:
        graph = graph_of(case, saver=saver)
        state = graph.get_state(THREAD).values
        if not state.get("summary"):
            task = None if state else {"messages": [("user", SENTENCE)], "run_id": RUN}
            state = graph.invoke(task, THREAD, durability=case.durability)
        assert state["ended_because"] == "done", state


def again(case: Case, _: Path) -> None:
    """Replay the run."""
    graph_of(case, replayed=True).invoke({"messages": [("user", SENTENCE)], "run_id": RUN})


def opened(place: dict[str, Any], folder: Path, server: str) -> Case:
    """The case, with an empty folder and an empty schema."""
    case = Case(**place, folder=folder / place["name"], server=server)
    case.folder.mkdir(parents=True)
    if case.url is None:
        return case
    import psycopg

    with psycopg.connect(case.url.replace("+psycopg", ""), autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {case.name}")
    return Case(**{**vars(case), "url": f"{case.url}&options=-csearch_path%3D{case.name}"})


def left(case: Case, seconds: float | None) -> bool:
    """One leg of a run, killed after so many seconds; whether it was."""
    pid = forked(partial(work, case), case.folder)
    if seconds is not None:
        ended = os.pidfd_open(pid)
        select.select([ended], [], [], seconds)
        os.close(ended)
        os.kill(pid, signal.SIGKILL)
    return was_killed(pid)


def journal(where: str | Path) -> list[dict[str, Any]]:
    """A ledger's lines, once its chain was checked."""
    with Ledger(where) as ledger:
        ledger.check(RUN)
        return list(ledger.journal(RUN))


def main(plan: dict[str, Any]) -> None:
    told: dict[str, Any] = {}
    seconds = 0.0
    for place in plan["cases"]:
        case, legs = opened(place, Path(plan["folder"]), plan["server"]), 1
        instants = iter([instant * seconds for instant in case.instants])
        started = time.perf_counter()
        if not told:
            work(case, case.folder)
            gc.freeze()  # a collection would copy what the children share
        while told and left(case, next(instants, None)):
            legs += 1
        if not (case.kills or case.instants):
            seconds = time.perf_counter() - started
        told[case.name] = {"legs": legs, "journal": journal(case.place)}
        if place["name"] == plan["replayed"] and told[case.name]["journal"] == told["whole"]["journal"]:
            assert not was_killed(forked(partial(again, case), case.folder))
            told["replayed"] = {"legs": 1, "journal": journal(case.folder / "replayed.sqlite")}
    print(json.dumps({**told, "seconds": seconds}))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
