"""The data tools: by hand, and in the hands of an agent."""

from __future__ import annotations

import pandas as pd
import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import ToolErrorMiddleware
from langchain_core.messages import AIMessage, ToolMessage

from quantgraph.data import AsOfSource
from quantgraph.data.sample import SampleSource
from quantgraph.errors import BadOption, BadWindow, FutureRequested, UnknownSymbol
from quantgraph.market import Moment
from quantgraph.sandbox import default_runner
from quantgraph.state import GLOBAL_DATA_STATE
from quantgraph.testing import ScriptedChatModel
from quantgraph.tools import ToolContext, tushare_daily_bar, tushare_daily_basic

END = {"end_date": "20240131"}
JANUARY = {"start_date": "20240102", "end_date": "20240131"}
ONE, TWO = "000341.SZ", "000342.SZ"


def call(tool, **args):
    return {"type": "tool_call", "id": "1", "name": tool.name, "args": args}


@pytest.fixture
def context(store):
    """A run that may know nothing after 15 January 2024."""
    as_of, tree = Moment.at("20240115"), store.checkout()
    return ToolContext(tree.view(as_of), code=default_runner(), source=SampleSource(), tree=tree)


def in_agent(context, *calls, tools=(tushare_daily_bar, tushare_daily_basic)):
    """The tool messages of an agent that makes these calls."""
    script = [AIMessage("", tool_calls=[{**each, "id": str(number)}]) for number, each in enumerate(calls)]
    agent = create_agent(
        ScriptedChatModel([*script, "done"]),
        list(tools),
        context_schema=ToolContext,
        middleware=[ToolErrorMiddleware(on_error=lambda error, request: getattr(error, "line", None))],
    )
    messages = agent.invoke({"messages": [("user", "go")]}, context=context)["messages"]
    return [message for message in messages if isinstance(message, ToolMessage)]


def test_by_hand_the_bars_go_to_the_process_wide_store():
    message = tushare_daily_bar.invoke(call(tushare_daily_bar, ts_code=f"{ONE},{TWO}", **JANUARY))
    close = GLOBAL_DATA_STATE.snapshot()["ohlcv"]["close"]
    expected = SampleSource().bars([ONE, TWO], pd.Timestamp("2024-01-02"), pd.Timestamp("2024-01-31"))[
        "close"
    ]
    pd.testing.assert_frame_equal(
        close.loc["2024-01-02":"2024-01-31", [ONE, TWO]], expected, check_names=False, check_freq=False
    )
    assert message.artifact["ref"] == GLOBAL_DATA_STATE.head
    assert (message.artifact["symbols"], message.artifact["sessions"]) == (2, 22)
    assert "for 2 symbols x 22 sessions, 20240102 to 20240131" in message.text
    assert message.text.endswith("(synthetic data)")


def test_an_index_stands_for_its_members_and_a_name_for_its_code(context):
    index, name = in_agent(
        context,
        {"name": "tushare_daily_bar", "args": {"ts_code": "合成30", **JANUARY}},
        {"name": "tushare_daily_bar", "args": {"ts_code": "合成银行01，000342", **JANUARY}},
    )
    assert index.artifact["symbols"] == 30
    assert (name.status, name.artifact["symbols"]) == ("success", 2)


def test_only_the_indicators_asked_for_are_fetched(context, store):
    (message,) = in_agent(
        context,
        {"name": "tushare_daily_basic", "args": {"ts_code": ONE, "fields": "ts_code, pe，pb", **JANUARY}},
    )
    assert message.artifact["fields"] == ["pe", "pb"]
    assert list(store.snapshot(context.tree.ref)["indicators"]) == ["pb", "pe"]


def test_an_end_after_the_runs_moment_is_cut_and_said(context, store):
    for name, panel, field in (
        ("tushare_daily_bar", "ohlcv", "close"),
        ("tushare_daily_basic", "indicators", "pe"),
    ):
        (message,) = in_agent(context, {"name": name, "args": {"ts_code": ONE, **JANUARY}})
        assert "end_date 20240131 was cut to 20240115" in message.text
        assert message.artifact["last_session"] == "20240115"
        assert store.snapshot(context.tree.ref)[panel][field].index[-1] == pd.Timestamp("2024-01-15")


def test_a_window_after_the_runs_moment_is_refused_without_naming_what_is_there(context):
    before = context.tree.ref
    (message,) = in_agent(
        context,
        {
            "name": "tushare_daily_bar",
            "args": {"ts_code": ONE, "start_date": "20240116", "end_date": "20240131"},
        },
    )
    assert message.status == "error"
    assert (
        message.text
        == "future_requested: start_date=20240116 is after 20240115, the last day this run may know"
    )
    assert context.tree.ref == before


def test_a_tool_gets_the_source_as_known_at_the_runs_moment_whatever_it_was_given(context):
    assert isinstance(context.source, AsOfSource)
    assert context.source.moment == context.moment
    with pytest.raises(FutureRequested):
        context.source.bars([ONE], pd.Timestamp("2024-01-16"), pd.Timestamp("2024-01-31"))


def test_a_stock_that_is_listed_later_is_as_unknown_as_one_that_never_was(context):
    later, never = in_agent(
        context,
        {"name": "tushare_daily_bar", "args": {"ts_code": "603425.SH", **JANUARY}},  # since 20 March 2024
        {"name": "tushare_daily_bar", "args": {"ts_code": "603426.SH", **JANUARY}},
    )
    assert (later.status, never.status) == ("error", "error")
    assert later.text.startswith("unknown_symbol: '603425.SH' is not known to sample; ")
    assert "合成制造07" not in later.text


def test_all_is_what_is_listed_at_the_runs_moment(context):
    (message,) = in_agent(
        context, {"name": "tushare_daily_bar", "args": {"ts_code": "ALL", "start_date": "20240115", **END}}
    )
    assert message.artifact["symbols"] == 58  # of sixty; two are listed later in 2024


def test_a_window_without_sessions_names_what_the_run_may_know(context):
    (message,) = in_agent(
        context,
        {
            "name": "tushare_daily_bar",
            "args": {"ts_code": ONE, "start_date": "20200105", "end_date": "20200110"},
        },
    )
    assert message.text.endswith("sample has 20230103 to 20240115")


BAD = [
    ({"ts_code": "999999.SH"}, UnknownSymbol, "unknown_symbol", "999999.SH"),
    ({"ts_code": "  "}, BadOption, "bad_option", "ts_code is empty"),
    ({"start_date": "20240201"}, BadWindow, "bad_window", "is after end_date=20240131"),
    ({"start_date": "soon"}, BadWindow, "bad_window", "start_date='soon' is not a date"),
    ({"start_date": "January"}, BadWindow, "bad_window", "start_date='January' is not a date"),
    ({"end_date": "2024"}, BadWindow, "bad_window", "end_date='2024' is not a date"),
    ({"end_date": "2024Q1"}, BadWindow, "bad_window", "end_date='2024Q1' is not a date"),
    ({"start_date": "20240106", "end_date": "20240107"}, BadWindow, "bad_window", "no session from 20240106"),
]


@pytest.mark.parametrize(("change", "error", "code", "says"), BAD)
def test_bad_arguments_raise_by_hand_and_are_tool_errors_in_an_agent(change, error, code, says, store):
    args = {"ts_code": ONE, **JANUARY, **change}
    head = GLOBAL_DATA_STATE.head
    with pytest.raises(error, match=says):
        tushare_daily_bar.invoke(args)
    assert GLOBAL_DATA_STATE.head == head
    source = SampleSource()
    as_of, tree = Moment(source.sessions()[-1]), store.checkout()
    context = ToolContext(tree.view(as_of), code=default_runner(), source=source, tree=tree)
    (message,) = in_agent(context, {"name": "tushare_daily_bar", "args": args})
    assert (message.status, message.text.split(": ")[0]) == ("error", code)
    assert says in message.text
    assert "\n" not in message.text
    assert tree.ref == store.empty


def test_an_unknown_indicator_is_named_with_those_there_are():
    with pytest.raises(BadOption, match=r"'alpha'; valid are turnover_rate, .*pe_ttm"):
        tushare_daily_basic.invoke({"ts_code": ONE, **JANUARY, "fields": "pe,alpha"})


def test_the_window_error_names_what_the_source_has():
    with pytest.raises(FutureRequested, match="20251231"):
        tushare_daily_bar.invoke({"ts_code": ONE, "start_date": "20260105", "end_date": "20260110"})
    with pytest.raises(BadWindow, match="sample has 20230103 to 20251231"):
        tushare_daily_bar.invoke({"ts_code": ONE, "start_date": "20200105", "end_date": "20200110"})


@pytest.mark.parametrize("tool", [tushare_daily_bar, tushare_daily_basic])
def test_a_model_sees_the_arguments_and_not_the_runtime(tool):
    shown = tool.tool_call_schema.model_json_schema()["properties"]
    assert (
        {"ts_code", "start_date", "end_date"} <= set(shown) <= {"ts_code", "start_date", "end_date", "fields"}
    )
    assert all(part.get("description") for part in shown.values())


def test_two_calls_at_once_lose_nothing(context, store):
    both = AIMessage(
        "",
        tool_calls=[
            {"name": "tushare_daily_bar", "args": {"ts_code": code, **JANUARY}, "id": code}
            for code in (ONE, TWO)
        ],
    )
    agent = create_agent(ScriptedChatModel([both, "done"]), [tushare_daily_bar], context_schema=ToolContext)
    agent.invoke({"messages": [("user", "go")]}, context=context)
    assert list(store.snapshot(context.tree.ref)["ohlcv"]["close"].columns) == [ONE, TWO]
