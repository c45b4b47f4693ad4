"""The subgraph: think → act → observe, alone, in a host, and stopped between two steps."""

from __future__ import annotations

import json

import pytest
from langchain_core.messages import AIMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from typing_extensions import TypedDict

from quantgraph.agents.execution import ExecutionOptions, create_execution_subgraph
from quantgraph.errors import BadOption, QuantGraphError, UnknownCommit, UnknownSymbol
from quantgraph.runtime import Resources
from quantgraph.testing import ScriptedChatModel
from quantgraph.tools._code import TrustedRunner

SYMBOL = "600000.SH"


@pytest.fixture(scope="module")
def market(small_market):
    """Sixty closes that rise by a tenth a day."""
    return small_market({SYMBOL: [10 + day / 10 for day in range(60)], "600001.SH": [5.0] * 60})


def told(market, **more):
    return {"symbol": SYMBOL, "data_ref": market.ref, "moment": f"{market.days[-1]:%Y%m%d}", **more}


def action(kind, **payload):
    return json.dumps({"type": kind, "reasoning": "because", "action": payload})


HOLD = action("decision", action="hold", reason="wait", confidence=0.4)
LOOK = action("tool_call", tool_name="get_position", params={"symbol": SYMBOL})


def graph(market, *replies, **given):
    model = ScriptedChatModel(list(replies)) if replies else "keyless"
    chosen = ExecutionOptions(**{name: given.pop(name) for name in [*given] if name != "rules"})
    return create_execution_subgraph(chosen, model=model, resources=Resources(store=market.store), **given)


def test_without_a_key_it_decides_by_the_documented_rule_in_five_steps(market):
    done = graph(market).invoke(told(market, cash=100_000))
    assert [each["type"] for each in done["execution_history"]] == [
        "tool_call", "calculation", "tool_call", "tool_call", "decision",
    ]  # fmt: skip
    # It rose each day: RSI is 100, so nothing is bought.
    assert done["decision"]["action"] == "hold"
    assert done["decision"]["reason"].startswith("keyless rule:")
    assert {each["timestamp"][:10] for each in done["execution_history"]} == {f"{market.days[-1]:%Y-%m-%d}"}


def test_its_nodes_run_in_order_and_the_state_is_json_beside_the_messages(market):
    steps = [
        name
        for part in graph(market, LOOK, HOLD).stream(told(market), stream_mode="updates")
        for name in part
    ]
    assert steps == ["begin", *["think", "act", "observe"] * 2]
    done = graph(market, LOOK, HOLD).invoke(told(market))
    assert done["decision"] == {"action": "hold", "reason": "wait", "confidence": 0.4, "hold_reason": "model"}
    json.dumps(
        {name: value for name, value in done.items() if name not in ("conversation", "reply")},
        allow_nan=False,
    )


def test_a_reply_that_cannot_be_read_is_sent_back_twice_and_then_it_holds(market):
    done = graph(market, "later", "{}", HOLD).invoke(told(market))
    assert done["decision"]["hold_reason"] == "model"
    done = graph(market, "later", "{}", "maybe").invoke(told(market))
    assert done["decision"]["hold_reason"] == "malformed"
    assert "3 replies in a row" in done["decision"]["reason"]
    (record,) = done["execution_history"]
    assert (record["step"], record["type"], record["action"], record["confidence"]) == (
        1,
        "decision",
        "hold",
        0.0,
    )


def called(name, **args):
    return AIMessage("because", tool_calls=[{"name": name, "args": args, "id": f"call_{name}"}])


def test_a_model_that_calls_tools_is_offered_them_and_answered_as_such(market):
    replies = [
        called("get_kline_data", symbol=SYMBOL, limit=9),
        called(
            "calculation", calculation_type="MA", formula="MA5", inputs={"period": 5}, intermediate_result=1
        ),
        called("place_order", action="buy", reason="it rises", confidence=0.6),
    ]
    done = graph(market, *replies, calling="native").invoke(told(market))
    assert [each["type"] for each in done["execution_history"]] == ["tool_call", "calculation", "decision"]
    closes = [bar["close"] for bar in done["execution_history"][0]["result"]]
    average = sum(closes[-5:]) / 5
    assert done["execution_history"][1]["result"] == {"talib": {"ma(5)": pytest.approx(average, abs=1e-6)}}
    assert done["decision"] == {"action": "buy", "reason": "it rises", "confidence": 0.6}
    answers = [each for each in done["conversation"] if isinstance(each, ToolMessage)]
    assert [each.tool_call_id for each in answers] == ["call_get_kline_data", "call_calculation"]


def test_without_a_key_it_decides_where_tools_are_offered_too(market):
    done = graph(market, calling="native").invoke(told(market, cash=100_000))
    assert len(done["execution_history"]) == 5


def test_the_rounds_end_in_a_hold(market):
    looks = [
        action("observation", note=str(number)) if number % 2 else action("tool_call", tool_name="get_rules", params={"symbol": SYMBOL})
        for number in range(3)
    ]  # fmt: skip
    looks[1] = json.dumps({"type": "observation", "reasoning": "it rises"})
    done = graph(market, *looks, rounds=3).invoke(told(market))
    assert done["decision"]["hold_reason"] == "rounds"
    assert [each["step"] for each in done["execution_history"]] == [1, 2, 3, 4]


def test_it_is_a_node_of_another_graph(market):
    class Host(TypedDict, total=False):
        wish: str
        outcome: str

    desk = graph(market, LOOK, HOLD)

    def ask_desk(state):
        done = desk.invoke(told(market, rule=state["wish"]))
        return {"outcome": done["decision"]["action"]}

    host = StateGraph(Host)
    host.add_node("desk", ask_desk)
    host.add_edge(START, "desk")
    host.add_edge("desk", END)
    assert host.compile().invoke({"wish": "buy dips"})["outcome"] == "hold"


def test_it_goes_on_after_a_stop_between_two_steps(market):
    saver, config = InMemorySaver(), {"configurable": {"thread_id": "one"}}
    desk = graph(market, LOOK, HOLD)
    desk.checkpointer = saver
    desk.invoke(told(market), config, interrupt_after=["act"])
    assert desk.get_state(config).next == ("observe",)
    done = desk.invoke(None, config)
    assert done["decision"]["action"] == "hold"
    assert len(done["execution_history"]) == 2


def test_a_thread_that_had_an_execution_begins_anew(market):
    config = {"configurable": {"thread_id": "one"}}
    desk = graph(market, LOOK, HOLD, action("decision", action="buy", reason="now", confidence=0.5))
    desk.checkpointer = InMemorySaver()
    assert desk.invoke(told(market), config)["decision"]["action"] == "hold"
    done = desk.invoke(told(market, symbol="600001.SH"), config)
    assert (done["decision"]["action"], len(done["execution_history"])) == ("buy", 1)


def test_a_host_of_messages_and_decisions_keeps_its_own(market):
    class Host(MessagesState, total=False):
        symbol: str
        data_ref: str
        moment: str
        decision: dict

    seen = []
    model = ScriptedChatModel(lambda messages: seen.append(messages) or HOLD)
    host = StateGraph(Host)
    host.add_node("desk", create_execution_subgraph(model=model, resources=Resources(store=market.store)))
    host.add_edge(START, "desk")
    host.add_edge("desk", END)
    done = host.compile().invoke(
        {**told(market), "messages": [("user", "decide")], "decision": {"action": "buy"}}
    )
    assert done["decision"]["action"] == "hold"
    assert [each.text for each in done["messages"]] == ["decide"]
    assert "execution_facts" in seen[0][0].text


def test_cells_of_code_are_kept_from_step_to_step(market):
    cells = [
        action("tool_call", tool_name="python_repl", params={"query": code}) for code in ("x = 41", "x + 1")
    ]
    resources = Resources(store=market.store, runner=TrustedRunner())
    model = ScriptedChatModel([*cells, HOLD])
    done = create_execution_subgraph(model=model, resources=resources).invoke(told(market))
    assert "42" in str(done["execution_history"][1]["result"])


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"account": {"cash": 5}}, r"account=\{'cash': 5\} is not an account"),
        ({"account": None}, "account=None is not an account"),
        ({"moment": "20300101"}, "moment='20300101' is not a session of the data"),
    ],
)
def test_an_account_or_a_moment_that_is_none_is_named(market, given, said):
    with pytest.raises(QuantGraphError, match=said):
        graph(market, HOLD).invoke(told(market) | given)


@pytest.mark.parametrize(
    ("change", "error", "said"),
    [
        (
            {"symbol": "600519.SH"},
            UnknownSymbol,
            r"symbol='600519\.SH': the data has no such symbol; it has 600000",
        ),
        ({"data_ref": "0" * 32}, UnknownCommit, "0000"),
        ({"moment": "soon"}, Exception, "moment"),
        ({"symbol": None}, BadOption, "the state has no symbol"),
    ],
)
def test_what_it_is_given_is_checked(market, change, error, said):
    given = {name: value for name, value in {**told(market), **change}.items() if value is not None}
    with pytest.raises(error, match=said):
        graph(market, HOLD).invoke(given)


def test_a_us_symbol_has_the_rules_of_its_market(small_market):
    market = small_market({"AAPL": [100.0] * 30})
    look = action("tool_call", tool_name="get_rules", params={"symbol": "AAPL"})
    done = graph(market, look, HOLD).invoke({**told(market), "symbol": "AAPL"})
    rules = done["execution_history"][0]["result"]
    assert "error" not in rules, rules
    assert rules["lot"].startswith("buys of at least 1 shares")
