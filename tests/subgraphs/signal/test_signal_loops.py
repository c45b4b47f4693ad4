"""A model that goes round in circles: told so, ended, with a reason and with what was reached until then."""

from __future__ import annotations

import json
import time
from typing import get_args

import pytest
from langchain_core.messages import AIMessage
from langgraph.graph import START, StateGraph
from states import flat

from quantgraph.data.sample import SampleSource
from quantgraph.errors import BudgetExceeded, CodeFailed
from quantgraph.runtime._run_node import SAME_STEP_LIMIT, TRAIL_LIMIT, with_loop_detection
from quantgraph.runtime.graph_state import EndedBecause
from quantgraph.sandbox import CodeResult
from quantgraph.subgraphs.signal._updates import answer_update, initial_state
from quantgraph.subgraphs.signal.state import SignalSubgraphState

pytestmark = pytest.mark.proof

STEPS = 120
"""More than any run here takes; the default limit is 10,007."""


def begin(play, **more):
    return {"messages": [("user", play.SENTENCE)], **more}


def told(cast) -> list[str]:
    """What tools answered, each answer once."""
    last = max((call.messages for call in cast.model.calls), key=len)
    return [str(message.text) for message in last if message.type == "tool"]


# One agent ---------------------------------------------------------------------------------------


def test_the_same_call_is_made_twice_then_refused_and_then_the_agent_is_ended(play, graph_of, store):
    wanted = {"ts_code": "999999.SH", "start_date": "20240102", "end_date": "20240131"}
    cast = play.Cast(
        fetch=lambda messages, turn: play.tool_call("tushare_daily_bar", len(messages), **wanted)
    )
    final = graph_of(cast, on_clarify="fail").invoke(begin(play), {"recursion_limit": STEPS})
    assert [line.partition(":")[0] for line in told(cast)] == ["unknown_symbol"] * 2 + ["repeated_call"] * 2
    assert final["ended_because"] == "repeated_error"
    assert final["error_messages"][0] == (
        "repeated_call: tushare_daily_bar was called 5 times with the same arguments"
    )
    assert cast.turns["fetch"] == 3
    assert sum(tool.type == "tool" for call in cast.model.calls for tool in call.messages[-1:]) == 3 * 4
    assert flat(final)["request"]["ts_code"] == play.ONE, "what was reached is kept"


def test_what_such_a_model_has_brought_counts_all_the_same(play, graph_of):
    """The data are there after its first call, whatever it calls after that."""
    right = play.Cast._fetch
    cast = play.Cast(fetch=lambda messages, turn: right(messages[0].text, None))
    final = graph_of(cast).invoke(begin(play))
    assert final["ended_because"] == "done"
    assert told(cast)[-1].startswith("repeated_call: tushare_daily_bar has been called 2 times")


def test_an_agent_that_never_comes_to_an_end_is_ended_and_the_failure_says_so(play, graph_of):
    cast = play.Cast(code=lambda messages, turn: play.tool_call("python_repl", query=str(len(messages))))
    final = graph_of(cast, on_clarify="fail").invoke(begin(play))
    assert final["error_messages"] == ["call_limit: 12 model calls in one node were not enough"]
    assert (final["ended_because"], final["data_ready"]) == ("repeated_error", True)


def test_one_reply_may_ask_for_so_many_calls_and_no_more(play, graph_of):
    class Counts:
        runs = 0

        def run(self, cells, frames):
            self.runs += 1
            return CodeResult(error=CodeFailed("asleep"))

    many = AIMessage(
        "",
        tool_calls=[
            {"name": "python_repl", "args": {"query": str(cell)}, "id": str(cell)} for cell in range(60)
        ],
    )
    cast = play.Cast(code=lambda messages, turn: "done" if messages[-1].type == "tool" else many)
    counts = Counts()
    final = graph_of(cast, runner=counts, on_clarify="fail").invoke(begin(play, max_retries=1))
    assert counts.runs == 48
    assert final["error_messages"] == ["call_limit: at most 48 tool calls are allowed in one node"]


def test_a_reflection_that_only_calls_tools_ends_the_run_and_a_review_changes_nothing(play, graph_of):
    again = play.tool_call("python_repl", query="1 + 1")
    final = graph_of(play.Cast(reflect=again)).invoke(begin(play))
    assert final["ended_because"] == "no_progress"
    assert final["error_messages"] == [
        "no_progress: repeated_call: python_repl was called 5 times with the same arguments"
    ]
    final = graph_of(play.Cast(review=again)).invoke(begin(play))
    assert final["ended_because"] == "done"
    assert flat(final)["validation"]["issues_found"][-1]["code"] == "no_review"


def test_two_calls_at_once_are_made_one_after_the_other(play, graph_of):
    """Each stands on the commit and the cells of the one before, and the record on their order."""
    events = []

    class Slow(SampleSource):
        def bars(self, symbols, start, end):
            events.append("bars")
            time.sleep(0.1)
            events.append("bars are there")
            return super().bars(symbols, start, end)

        def indicators(self, symbols, start, end, fields=()):
            events.append("indicators")
            return super().indicators(symbols, start, end, fields)

    cast = play.Cast(reflect=play.intent("data_fetch", required_indicators=["pe"]))
    assert graph_of(cast, source=Slow()).invoke(begin(play))["ended_because"] == "done"
    assert events == ["indicators", "bars", "bars are there", "indicators"], "the first asks what there is"


# The graph ---------------------------------------------------------------------------------------


def circle(nodes):
    """A graph that goes through its nodes for ever, each leaving behind what it does."""
    graph = StateGraph(SignalSubgraphState)
    names = list(nodes)
    for name, follower in zip(names, [*names[1:], names[0]], strict=True):
        graph.add_node(name, lambda state, name=name: with_loop_detection(nodes[name](state), name, state))
        graph.add_conditional_edges(
            name,
            lambda state, follower=follower: "__end__" if state.get("ended_because") else follower,
            [follower, "__end__"],
        )
    graph.add_edge(START, names[0])
    return graph.compile()


@pytest.mark.parametrize("length", [1, 2, 15])
def test_a_circle_of_nodes_is_seen_whatever_its_length(length):
    nodes = {f"n{place}": lambda state, ref=str(place): {"data_ref": ref} for place in range(length)}
    given = {**initial_state(), "messages": [("user", "x")], "request": {"ts_code": "000341.SZ"}}
    steps = list(circle(nodes).stream(given, {"recursion_limit": 5 * length}, stream_mode="updates"))
    assert len(steps) == (SAME_STEP_LIMIT - 1) * length + 1
    final = steps[-1]["n0"]
    assert final["ended_because"] == "no_progress"
    assert final["error_messages"] == ["no_progress: n0 gave the same result 4 times"]
    assert final["data_ref"] == "0", "what was reached is kept"


def test_steps_that_lead_somewhere_are_no_circle_and_the_trail_stays_short():
    def onward(state):
        number = int(state.get("data_ref", "0")) + 1
        return {"data_ref": str(number)} | ({"ended_because": "done"} if number == 100 else {})

    final = circle({"n": onward}).invoke({**initial_state(), "messages": []})
    assert (final["ended_because"], len(flat(final)["trail"])) == ("done", TRAIL_LIMIT)


def test_an_answer_clears_the_trail():
    state = {**initial_state(), "messages": [], "trail": ["n:1"] * 3}
    task = {"kind": "failure", "question": "", "reason": "why", "unread": [], "language": "en"}
    assert answer_update(state, task, "again", message="m")["trail"] == []


LOOPS = {
    "asks for ever": lambda play: {"reflect": play.intent("unclear")},
    "says nothing": lambda play: {"reflect": ""},
    "has no date": lambda play: {"reflect": play.intent(start_date="")},
    "fetches the wrong stock": lambda play: {"fetch": {"ts_code": play.TWO}},
    "fetches nothing": lambda play: {"fetch": lambda messages, turn: AIMessage("I did.")},
    "fetches for ever": lambda play: {
        "fetch": lambda messages, turn: play.tool_call("tushare_daily_bar", ts_code=str(len(messages)))
    },
    "calls what there is not": lambda play: {"code": play.tool_call("buy_everything", now=True)},
    "has two errors in turn": lambda play: {
        "code": lambda messages, turn: play.tool_call("python_repl", query=f"{turn % 2} / 0")
    },
    "has a new error each time": lambda play: {
        "code": lambda messages, turn: play.tool_call("python_repl", query=f"raise ValueError({turn})")
    },
    "changes its mind": lambda play: {
        "reflect": lambda messages, turn: json.dumps(play.intent(ts_code=(play.ONE, play.TWO)[turn % 2])),
        "code": lambda messages, turn: play.tool_call("python_repl", query="1 / 0"),
    },
}


@pytest.mark.parametrize("way", LOOPS)
def test_no_loop_of_a_model_reaches_the_recursion_limit(way, play, graph_of):
    """Three times the attempts of the default, and a hundredth of the steps."""
    graph = graph_of(play.Cast(**LOOPS[way](play)), on_clarify="default")
    final = graph.invoke(begin(play, max_retries=9), {"recursion_limit": STEPS})
    assert final["ended_because"] in get_args(EndedBecause)
    assert final["ended_because"] != "done"
    assert final["error_messages"]


# What escapes a node -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("role", "limit", "because"),
    [
        ("reflect", "calls", "budget_calls"),
        ("fetch", "prompt_tokens", "budget_tokens"),
        ("code", "money", "budget_money"),
        ("review", "seconds", "timeout"),
    ],
)
def test_a_budget_that_is_used_up_is_the_end_in_every_node(play, graph_of, role, limit, because):
    error = BudgetExceeded("one more is over the budget", limit=limit)
    final = graph_of(play.Cast(**{role: error}), on_clarify="fail").invoke(begin(play))
    assert final["ended_because"] == because
    assert final["error_messages"] == [error.line]
    assert final["data_ready"] is (role in {"code", "review"}), "what was reached is kept"
    assert bool(flat(final).get("validation")) is (role in {"code", "review"})


@pytest.mark.parametrize("ids", [str, lambda _place: "same"])
def test_one_that_asks_for_thousands_of_calls_is_ended_before_any(play, graph_of, ids):
    class Never:
        def run(self, cells, frames):
            raise AssertionError(cells)

    calls = [{"name": "python_repl", "args": {"query": str(one)}, "id": ids(one)} for one in range(3000)]
    cast = play.Cast(code=AIMessage("", tool_calls=calls))
    final = graph_of(cast, runner=Never(), on_clarify="fail").invoke(begin(play, max_retries=1))
    assert final["error_messages"] == ["call_limit: at most 48 tool calls are allowed in one node"]
    assert cast.turns["code"] == 1
