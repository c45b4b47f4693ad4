"""The catalogue: which tools there are, what a model is shown of them, and that they know nothing later."""

from __future__ import annotations

import random

import pandas as pd
import pytest
from decision_views import tools_at, trading_tools_at

from quantgraph.errors import BadOption, QuantGraphError
from quantgraph.settings import ROLES
from quantgraph.tools import ToolContext, call_tool, tools_catalog, tools_of
from quantgraph.tools.trading._account import buy, place_order
from quantgraph.tools.trading._prices import get_kline_data, get_price_local

DAYS = pd.to_datetime(["2024-01-02", "2024-01-03", "2024-01-04"])
CLOSE = pd.DataFrame({"600519.SH": [10.0, 11.0, 12.0]}, index=DAYS)
PARAMETERS = {
    "get_kline_data": {"exchange", "symbol", "timeframe", "limit"},
    "get_indicator": {"symbol", "name", "params", "timeframe", "limit"},
    "get_position": {"symbol"},
    "get_rules": {"symbol"},
    "get_news": {"symbol", "limit"},
    "python_repl": {"query"},
    "place_order": {"action", "reason", "confidence"},
}
TRADER = {
    "get_price_local": {"symbol", "date"},
    "get_price_history": {"symbol", "limit", "start", "end"},
    "get_indicators": {"symbol", "indicators", "limit"},
    "get_information": {"query"},
    "get_positions": set(),
    "add": {"a", "b"},
    "multiply": {"a", "b"},
    "buy": {"symbol", "amount"},
    "sell": {"symbol", "amount"},
}


def test_a_model_is_shown_the_parameters_and_not_the_runtime():
    for catalog, parameters in ((tools_catalog, PARAMETERS), (tools_of("trader"), TRADER)):
        shown = {
            name: set(tool.tool_call_schema.model_json_schema()["properties"])
            for name, tool in catalog.items()
        }
        assert shown == parameters
        assert list(shown) == list(parameters)
        assert all(tool.name == name and tool.description for name, tool in catalog.items())


def test_amounts_are_whole_numbers_and_terms_are_numbers_in_what_a_model_is_shown():
    shown = {
        name: tool.tool_call_schema.model_json_schema()["properties"]
        for name, tool in tools_of("trader").items()
    }
    assert shown["buy"]["amount"]["type"] == shown["sell"]["amount"]["type"] == "integer"
    assert {shown[name][term]["type"] for name in ("add", "multiply") for term in "ab"} == {"number"}


def test_a_placed_order_is_never_carried_out_as_a_call():
    context = tools_at({"open": CLOSE, "close": CLOSE}, "2024-01-04")
    order = {"action": "buy", "reason": "above its average", "confidence": 0.7}
    with pytest.raises(BadOption, match=r"place_order\(buy, 0\.7, 'above its average'\) is a decision"):
        call_tool(place_order, order, context, timeout=5)
    for wrong in ({"action": "buy 0"}, {"confidence": 7}, {"confidence": "about 0.5"}):
        with pytest.raises(BadOption, match="place_order has"):
            call_tool(place_order, order | wrong, context, timeout=5)


def test_outside_of_a_decision_there_is_no_view():
    for tool, params in (
        (get_kline_data, {"symbol": "600519.SH"}),
        (get_price_local, {"symbol": "600519.SH", "date": "2024-01-03"}),
        (buy, {"symbol": "600519.SH", "amount": 100}),
    ):
        with pytest.raises(BadOption, match="an agent that decides calls it"):
            tool.invoke(params)


DATES = {"start_date": "20240102", "end_date": "20240104"}


@pytest.mark.parametrize(
    ("role", "name", "params", "missing"),
    [
        ("execution", "get_position", {"symbol": "600519.SH"}, "an account"),
        ("execution", "get_rules", {"symbol": "600519.SH"}, "a rulebook"),
        ("trader", "get_positions", {}, "an account"),
        ("trader", "buy", {"symbol": "600519.SH", "amount": 100}, "the market of a session"),
        ("trader", "sell", {"symbol": "600519.SH", "amount": 100}, "the market of a session"),
        ("data_fetch", "tushare_daily_bar", {"ts_code": "600519.SH", **DATES}, "a data source"),
        ("data_fetch", "tushare_daily_basic", {"ts_code": "600519.SH", **DATES}, "a data source"),
    ],
)
def test_a_part_that_the_context_does_not_have_is_named_in_one_line(role, name, params, missing):
    bare = ToolContext(tools_at({"open": CLOSE, "close": CLOSE}, "2024-01-04").view)
    with pytest.raises(
        BadOption, match=rf"needs {missing}, which its agent does not have; it is for"
    ) as told:
        call_tool(tools_of(role)[name], params, bare, timeout=5)
    assert "\n" not in told.value.line


def test_every_tool_of_every_agent_has_the_name_that_the_catalogue_says():
    for role in ROLES:
        if role not in ("clarify", "filter", "decision"):  # they have no tools
            assert tools_of(role)
            assert all(tool.name == name and tool.description for name, tool in tools_of(role).items())


WILD = [
    "", None, True, 0, -1, 14, "14", 2.5, float("nan"), float("inf"), 10**400, "1d", "1mo", "1h", "600519.SH", "BTC", "SZ",
    "MA", "kdj", [], [1], {}, {"period": 3}, {"period": float("nan")}, {"k": "x"}, "\x00\n", "\ud800", "a" * 100_000, b"x",
]  # fmt: skip


def test_whatever_a_model_passes_is_answered_or_refused_in_one_line():
    panel = {"open": CLOSE, "close": CLOSE}
    reading = [tool for name, tool in tools_catalog.items() if name != "python_repl"]
    for tools, parameters, context in (
        (reading, PARAMETERS, tools_at(panel, "2024-01-04")),
        (list(tools_of("trader").values()), TRADER, trading_tools_at(panel, "2024-01-04")),
    ):
        rng = random.Random(5)
        answered, refused = 0, []
        for _ in range(3000):
            tool = rng.choice(tools)
            names = [*parameters[tool.name], "x"]
            params = {
                name: rng.choice(WILD) for name in rng.sample(names, rng.randint(0, min(3, len(names))))
            }
            if rng.random() < 0.7 and "symbol" in names:
                params["symbol"] = "600519.SH"
            try:
                answer = call_tool(tool, params, context, timeout=5)
                answered += 1
            except QuantGraphError as error:
                refused.append(error.line)
            else:
                refused += [answer["error"]] if isinstance(answer, dict) and "error" in answer else []
        assert answered > 100
        assert [line for line in refused if "\n" in line or len(line) > 1000] == []
