"""A trader's tools through MCP: the same day as in this process, and servers of others only where that is allowed."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import pytest
from trader_play import STOP, buys, says
from trader_script import FIRST, SECOND, Script, executions, run, sessions

from quantgraph.agents.trader import TraderAgent
from quantgraph.errors import BadOption
from quantgraph.integrations.mcp._server import bound_socket, serving_http
from quantgraph.recording import no_network
from quantgraph.runs import replay
from quantgraph.tools.mcp import ServedTool, http_app, make_server

DAYS = {
    "2025-01-02": [
        says("look", ("get_positions", {}), ("get_price_local", {"symbol": FIRST, "date": "2025-01-02"})),
        says("trade", ("buy", {"symbol": FIRST, "amount": 300}), ("buy", {"symbol": FIRST, "amount": 50})),
        says("", ("multiply", {"a": 145.2, "b": 20}), ("add", {"a": "1", "b": 2}), ("nothing", {})),
        STOP,
    ],
    "2025-01-03": [buys(SECOND, 100, STOP)],
}


def told(folder: Path):
    steps = [[(step.action, step.result) for step in each.steps] for each in executions(folder)]
    return steps, [(each.session, each.outcomes, each.account) for each in sessions(folder)]


def test_the_tools_of_the_own_server_answer_as_those_in_the_process(tmp_path):
    plain = run(Script(DAYS), tmp_path / "local", decider=TraderAgent())[1]
    served = run(Script(DAYS), tmp_path / "mcp", decider=TraderAgent(tools="mcp"))[1]
    assert told(served) == told(plain)
    with no_network(everywhere=True):
        assert replay(served).identical


class Moods:
    """A server of another program: one tool that reads, and one that says it buys."""

    calls: ClassVar = 0
    tools: ClassVar = {
        "get_mood": ServedTool(
            name="get_mood",
            description="The mood about a symbol.",
            parameters={
                "type": "object",
                "properties": {"symbol": {"type": "string"}},
                "required": ["symbol"],
            },
        ),
        "buy": ServedTool(name="buy", description="Buys.", parameters={"type": "object", "properties": {}}),
    }

    def call(self, name, args, _progress):
        type(self).calls += 1
        return {"mood": f"{name} of {args['symbol']}: calm"}


@pytest.fixture
def moods():
    listening = bound_socket(0, "port")
    with serving_http([(http_app(make_server(Moods())), listening)]):
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"


def test_a_tool_of_another_server_is_called_its_answer_is_recorded_and_the_result_says_so(moods, tmp_path):
    script = Script({"2025-01-02": [says("", ("get_mood", {"symbol": FIRST})), buys(FIRST, 100), STOP]})
    decider = TraderAgent(tools=[moods], allow_leaky_tools=True)
    done, folder = run(script, tmp_path, decider=decider)
    steps = executions(folder)[0].steps
    assert steps[0].result == [{"name": "get_mood", "result": {"mood": f"get_mood of {FIRST}: calm"}}]
    assert [len(each.fills) for each in sessions(folder)] == [1, 0, 0]  # its own tool bought
    assert any("tools of other servers were called" in note for note in done["notes"])
    calls = Moods.calls
    with no_network(everywhere=True):
        assert replay(folder).identical
    assert Moods.calls == calls


@pytest.mark.parametrize(
    ("tools", "said"),
    [
        ("remote", "must be 'local', 'mcp', or addresses"),
        (5, "must be 'local', 'mcp', or addresses"),
        (["ftp://x"], "is not an address of an MCP server"),
        ([], "must be addresses of MCP servers"),
        (["http://127.0.0.1:1/mcp"], "allow_leaky_tools=True"),
    ],
)
def test_what_is_no_toolset_is_named(tools, said):
    with pytest.raises(BadOption, match=said):
        TraderAgent(tools=tools)
