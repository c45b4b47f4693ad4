"""An agent with tools inside a decision: its code runs on the view alone, and a replay runs nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from langchain_core.messages import AIMessage
from langchain_core.tools import tool

from quantgraph.broker import DataNeeds, Decision, ModelDecider, Order
from quantgraph.broker.ledger import Ledger
from quantgraph.runs import replay, run_strategy
from quantgraph.runtime import create_node_agent, invoke_agent, tool_errors
from quantgraph.testing import ScriptedChatModel
from quantgraph.tools import ToolContext, python_repl, tushare_daily_bar

SENTENCE = "000341.SZ, buy when RSI(14) is below 30, 20250102 to 20250106"
CODE = "close = snapshot['ohlcv']['close']\nprint(close.index[-1].date(), len(snapshot['ohlcv']['open']))"
BUY = {"name": "buy", "args": {"quantity": 100}}


class Agent(ModelDecider):
    """Looks at the closes with code, buys three times the same, and tries to fetch what it may not."""

    name = "agent"
    uses_signal = False
    roles = ("execution",)
    needs = DataNeeds(sessions=1)

    def decide(self, context):
        @tool
        def buy(quantity: int) -> str:
            """Buy 000341.SZ at the open."""
            number = len(context.market.orders) + 1
            order = Order(symbol="000341.SZ", side="buy", quantity=quantity, sequence=number)
            return type(context.market.submit(order)).__name__

        tools = [python_repl, tushare_daily_bar, buy]
        agent = create_node_agent("execution", context.model("execution"), tools, live_tools={"buy"})
        messages = invoke_agent(agent, ToolContext(context.view), f"Decide {context.session:%Y-%m-%d}")
        seen = next(str(message.text) for message in messages if message.name == "python_repl")
        return Decision(
            context.market.orders, notes={"saw": seen, "errors": tool_errors(messages)}, in_order=True
        )


def plays(messages):
    calls = [
        [{"name": "python_repl", "args": {"query": CODE}}],
        [
            {
                "name": "tushare_daily_bar",
                "args": dict.fromkeys(("ts_code", "start_date", "end_date"), "20250106"),
            }
        ],
        [BUY, BUY, BUY],
    ]
    made = sum(message.type == "ai" for message in messages)
    if made == len(calls):
        return "decided"
    return AIMessage("", tool_calls=[{**call, "id": f"{made}-{n}"} for n, call in enumerate(calls[made])])


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    model = {"execution": ScriptedChatModel(plays)}
    done = run_strategy(SENTENCE, decider=Agent(), model=model, out=tmp_path_factory.mktemp("runs"))
    assert done["ended_because"] == "done"
    return Path(done["run_dir"])


def test_its_code_sees_the_view_and_equal_orders_are_no_loop(recorded):
    with Ledger(recorded / "ledger.sqlite") as book:
        results = list(book.results(recorded.name))
    assert [f"{result.session:%m%d}" for result in results] == ["0102", "0103", "0106"]
    closes = [result.notes["saw"].split() for result in results]
    # At the open the last close is that of the session before.
    assert [day for day, _ in closes[1:]] == ["2025-01-02", "2025-01-03"]
    assert [len(result.fills) for result in results] == [3, 3, 3]
    refused = "bad_option: this tool needs a data source, which its agent does not have; it is for agents that fetch data"
    assert [result.notes["errors"] for result in results] == [[refused]] * 3


def test_a_replay_runs_no_code_and_asks_no_model(recorded, monkeypatch):
    def refused(*_):
        raise AssertionError("a replay ran code")

    monkeypatch.setattr("quantgraph.sandbox._runner.ForkRunner.run", refused)
    replayed = replay(recorded, decider=Agent())
    assert replayed.identical, replayed.differences
