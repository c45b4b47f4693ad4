"""The trader as a subgraph: the same day as the decider's, killed at any step and resumed."""

from __future__ import annotations

import pytest
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from small_market import SmallMarket
from trader_play import STOP, TraderDay, buys, says, sells
from typing_extensions import TypedDict

from quantgraph.agents.loop import account_to_json
from quantgraph.agents.loop._model_decider import route_after_observe, route_after_think
from quantgraph.agents.trader import TraderOptions, create_trader_subgraph
from quantgraph.agents.trader._day import TraderLoop
from quantgraph.broker import Account
from quantgraph.errors import QuantGraphError
from quantgraph.market import Rulebook
from quantgraph.runtime import Resources
from quantgraph.testing import ScriptedChatModel

RULES = Rulebook.zero_cost("us")
PLAY = [
    says("look", ("get_positions", {}), ("multiply", {"a": 145.2, "b": 20})),
    buys("AAPL", 3),
    sells("MSFT", 1),
    buys("MSFT", 2),
    STOP,
]


@pytest.fixture(scope="module")
def market():
    return SmallMarket(
        {"AAPL": [181.0, 0.5], "MSFT": [410.0, 0.5]}, open={"AAPL": [180.0, 182.0], "MSFT": [400.0, 420.0]}
    )


def graph(market, replies, **options):
    model = {"trader": ScriptedChatModel(list(replies))}
    return create_trader_subgraph(
        TraderOptions(**options), rules=RULES, model=model, resources=Resources(store=market.store)
    )


def given(market, **more):
    return {"data_ref": market.ref, "moment": f"{market.days[-1]:%Y%m%d}", **more}


@pytest.mark.parametrize("results_as", ["messages", "text"])
def test_the_subgraph_and_the_loop_trade_the_same_day(market, results_as):
    state = graph(market, PLAY, results_as=results_as).invoke(given(market))
    day = TraderDay(market.view(), PLAY, results_as=results_as)
    for name in ("ended", "step", "call_count", "log", "final_text"):
        assert state[name] == day.state[name], name
    assert [(each["symbol"], each["side"], each["quantity"]) for each in state["orders"]] == [
        ("AAPL", "buy", "3"),
        ("MSFT", "buy", "2"),
    ]
    assert [each["sequence"] for each in state["orders"]] == [str(one.sequence) for one in day.market.orders]
    assert state["positions"] == {"AAPL": 3, "MSFT": 2, "CASH": 10_000 - 3 * 182 - 2 * 420}
    assert state["traded"] is True


def test_an_account_may_be_given(market):
    held = Account.opening(500)
    state = graph(market, [buys("MSFT", 2), STOP]).invoke(given(market, account=account_to_json(held)))
    assert (state["traded"], state["positions"]["CASH"]) == (False, 500.0)
    assert graph(market, [buys("MSFT", 1), STOP]).invoke(given(market, cash=420))["positions"]["CASH"] == 0.0


def test_each_step_is_a_checkpoint_and_orders_are_not_sent_twice(market):
    whole = graph(market, PLAY).invoke(given(market))
    for after in range(1, 12):
        played = ScriptedChatModel(list(PLAY))
        saver, config = InMemorySaver(), {"configurable": {"thread_id": "t"}}
        own = create_trader_subgraph(
            rules=RULES, model={"trader": played}, resources=Resources(store=market.store)
        )
        own.checkpointer = saver
        for number, _ in enumerate(
            own.stream(given(market), config, stream_mode="updates", durability="sync"), 1
        ):
            if number == after:
                break
        state = own.invoke(None, config) if own.get_state(config).next else own.get_state(config).values
        assert state["orders"] == whole["orders"], after
        assert state["log"] == whole["log"]
        assert len(played.calls) == len(PLAY)


def test_a_second_day_on_a_thread_begins_anew(market):
    own = graph(market, [*PLAY, STOP])
    own.checkpointer = InMemorySaver()
    config = {"configurable": {"thread_id": "t"}}
    own.invoke(given(market), config)
    state = own.invoke(given(market), config)
    assert (state["orders"], state["step"], len(state["log"])) == ([], 1, 2)


def test_a_host_calls_it_as_a_node(market):
    class Host(TypedDict, total=False):
        data_ref: str
        moment: str
        orders: list

    host = StateGraph(Host)
    host.add_node("trader", graph(market, PLAY))
    host.add_edge(START, "trader")
    host.add_edge("trader", END)
    assert len(host.compile().invoke(given(market))["orders"]) == 2


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"moment": "20300101"}, "is not a session of the data"),
        ({"account": None}, "account=None is not an account"),
    ],
)
def test_what_is_not_valid_is_named(market, more, said):
    with pytest.raises(QuantGraphError, match=said):
        graph(market, PLAY).invoke(given(market, **more))


@pytest.mark.parametrize("name", ["data_ref", "moment"])
def test_what_is_missing_is_named(market, name):
    state = given(market)
    del state[name]
    with pytest.raises(QuantGraphError, match=f"the state has no {name}"):
        graph(market, PLAY).invoke(state)


def test_the_routes_read_only_how_the_day_stands():
    assert route_after_think(TraderLoop, {"ended": None, "reply": AIMessage("")}) == "act"
    assert route_after_think(TraderLoop, {"ended": "error"}) == "__end__"
    assert route_after_observe(TraderLoop, {}) == "think"
    assert route_after_observe(TraderLoop, {"ended": "stop_signal"}) == "__end__"


@pytest.mark.parametrize(
    ("symbol", "amount", "text", "cash"),
    [
        ("AAPL", 3, "美国股票", 10_000 - 3 * 182),
        ("600519.SH", 100, "A 股", 1_000_000 - 100 * 182 - 5.0 - 0.18),
    ],
)
def test_without_rules_the_codes_tell_the_market(symbol, amount, text, cash):
    market = SmallMarket({symbol: [181.0, 0.5]}, open={symbol: [180.0, 182.0]})
    played = ScriptedChatModel([buys(symbol, amount), STOP])
    graph = create_trader_subgraph(model={"trader": played}, resources=Resources(store=market.store))
    state = graph.invoke(given(market, cash=10_000 if symbol == "AAPL" else 1_000_000, language="zh"))
    assert state["positions"] == {symbol: amount, "CASH": pytest.approx(cash)}
    assert text in played.calls[0].messages[0].text
