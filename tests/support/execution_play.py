"""One execution of the stepwise agent on a small market, with a model that plays replies."""

import json

from langchain_core.messages import AIMessage

from quantgraph.agents.execution._steps import ExecutionLoop, ExecutionOptions, ReactContext
from quantgraph.broker import Account
from quantgraph.llm.messages import read
from quantgraph.market import Rulebook
from quantgraph.testing import ScriptedChatModel
from quantgraph.tools import ToolContext
from quantgraph.tools._code import TrustedRunner


def act(kind, reasoning="because", intermediate_result=None, **payload):
    """A reply with one action."""
    told = {"type": kind, "reasoning": reasoning, "action": payload or None}
    return json.dumps({**told, "intermediate_result": intermediate_result}, ensure_ascii=False)


def call(tool_name, **params):
    """A reply that calls a tool."""
    return act("tool_call", tool_name=tool_name, params=params)


def decide(action="hold", confidence=0.5, reason="as told"):
    """A reply that decides."""
    return act("decision", action=action, reason=reason, confidence=confidence)


def execution_of(market, symbol, *replies, rule="", day=-1, **options):
    """An execution that has not begun; ``replies`` are texts or messages in order, or one function of the messages."""
    play = replies[0] if len(replies) == 1 and callable(replies[0]) else list(replies)
    loop = ExecutionLoop(
        options=ExecutionOptions(**options),
        symbol=symbol,
        rule=rule,
        language="en",
        model=ScriptedChatModel(play),
        context=ToolContext(
            market.view(day), Account.opening(1_000_000), Rulebook.mainland(), code=TrustedRunner()
        ),
        is_out_of_time=lambda _waited: False,
    )
    return ReactContext(loop=loop)


def run_execution(context):
    """The state of an execution that was run to its decision."""
    return context.loop.run(context.state)


def observations(state):
    """What the model was told of each step, from the conversation of an execution."""
    told = [read("observation", message.text) for message in state["conversation"]]
    return [json.loads(each)["result"] for each in told if each is not None]


def replies_of(state):
    """The model's replies in the conversation of an execution."""
    return [message for message in state["conversation"] if isinstance(message, AIMessage)]
