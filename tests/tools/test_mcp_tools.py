"""The trader's tools through MCP: the same answers and the same requests, from this process or another server."""

from __future__ import annotations

import pytest
from langchain_core.utils.function_calling import convert_to_openai_tool
from mcp_play import TOKEN, McpRun, prices
from small_market import SmallMarket

from quantgraph.broker import Account, Session
from quantgraph.errors import BadOption, SourceUnavailable
from quantgraph.market import Rulebook
from quantgraph.tools import ToolContext, call_tool, tools_of
from quantgraph.tools.mcp._tools import TOKEN_VARIABLE, open_mcp_tools


def day():
    market = SmallMarket({"AAA": [10.0, 11.0, 12.0], "BBB": [50.0, 50.0, 50.0]})
    account, rules = Account.opening(1_000), Rulebook.zero_cost("us")
    view = market.view()
    return ToolContext(view, account, rules, session=Session.at_open(view, account.copy(), rules))


CALLS = [
    ("get_positions", {}),
    ("buy", {"symbol": "AAA", "amount": 10}),
    ("buy", {"symbol": "AAA", "amount": 10}),
    ("buy", {"symbol": "BBB", "amount": 100}),
    ("sell", {"symbol": "AAA", "amount": "1"}),
    ("get_price_local", {"symbol": "AAA", "date": "2024-01-02"}),
    ("add", {"a": 1, "b": 2.5}),
    ("get_positions", {}),
]


def test_the_own_server_answers_as_the_tools_in_process():
    direct, served = day(), day()
    with open_mcp_tools(served, tools_of("trader")) as tools:
        told = [call_tool(tools[name], args, served, timeout=30) for name, args in CALLS]
    assert told == [call_tool(tools_of("trader")[name], args, direct, timeout=30) for name, args in CALLS]
    assert served.session.submitted == direct.session.submitted


def test_an_error_is_the_one_that_the_tool_raises():
    context = day()
    with (
        open_mcp_tools(context, tools_of("trader")) as tools,
        pytest.raises(BadOption, match="add lacks its parameter 'b'"),
    ):
        call_tool(tools["add"], {"a": 1}, context, timeout=30)


def test_a_model_is_sent_the_same_tools():
    context = day()
    with open_mcp_tools(context, tools_of("trader")) as tools:
        assert [convert_to_openai_tool(tool) for tool in tools.values()] == [
            convert_to_openai_tool(tool) for tool in tools_of("trader").values()
        ]


def test_a_foreign_server_gives_what_it_reads_and_takes_no_trade(tmp_path, monkeypatch):
    monkeypatch.setenv(TOKEN_VARIABLE, TOKEN)
    prices(tmp_path)
    run = McpRun(tmp_path)
    context = day()
    try:
        with open_mcp_tools(context, tools_of("trader"), [run.url]) as tools:
            assert [tools[name] for name in ("get_positions", "buy", "sell")] == [
                tools_of("trader")[name] for name in ("get_positions", "buy", "sell")
            ]
            assert "finish_day" not in tools
            theirs = {"symbol": "AAA", "date": "2025-08-29"}
            assert call_tool(tools["get_price_local"], theirs, context, timeout=30)["open"] == 11
            assert call_tool(tools["add"], {"a": 1, "b": 2}, context, timeout=30) == 3
            call_tool(tools["buy"], {"symbol": "AAA", "amount": 1}, context, timeout=30)
    finally:
        run.stop()
    assert [order.symbol for order in context.session.submitted] == ["AAA"]


@pytest.mark.parametrize(
    "addresses", [["localhost"], ["file:///etc/passwd"], ["http://u:p@localhost/mcp"], [], [7]]
)
def test_what_is_no_address_is_refused(addresses):
    with pytest.raises(BadOption, match="tools"), open_mcp_tools(day(), tools_of("trader"), addresses):
        pass


def test_a_server_that_is_not_there_is_one_line():
    from quantgraph.integrations.mcp._server import bound_socket

    with bound_socket(0, "port") as free:
        port = free.getsockname()[1]
    address = f"http://127.0.0.1:{port}/mcp"
    with (
        pytest.raises(SourceUnavailable, match="an MCP server cannot be used: "),
        open_mcp_tools(day(), tools_of("trader"), [address]),
    ):
        pass
