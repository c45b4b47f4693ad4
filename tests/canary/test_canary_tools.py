"""Every tool, at many moments: what it says and what it commits was known; a broken one is found."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import ToolErrorMiddleware
from langchain.tools import ToolRuntime
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import tool

from quantgraph import tools
from quantgraph.broker.account import Account
from quantgraph.errors import FutureRequested, NoData, QuantGraphError, UnknownSymbol
from quantgraph.market.rulebook import Rulebook
from quantgraph.sandbox import default_runner
from quantgraph.testing import CanaryFound, CanarySource, CanaryStore, CanaryWatch, ScriptedChatModel
from quantgraph.tools import CodeSession, ToolContext, python_repl, tushare_daily_bar, tushare_daily_basic
from quantgraph.tools.indicators import INDICATORS
from quantgraph.tools.window import publish_frames

ONE, RENAMED, LISTED_LATER = "000341.SZ", "合成科技01", "920873.BJ"


def calls_at(moment):
    """Windows that end later, begin later, or lie before everything; names as they are, were and will be."""
    window = {"start_date": f"{moment.session - pd.Timedelta(days=10):%Y%m%d}", "end_date": "22001231"}
    return [
        {"ts_code": f"{ONE},000344.SZ", **window},
        {"ts_code": f"{ONE},{RENAMED},*ST{RENAMED}", **window},
        {"ts_code": "990030.SH", **window},
        {"ts_code": ONE, **window, "start_date": "20251231"},
        {"ts_code": "999999.SH", **window},
        {"ts_code": ONE, "start_date": "20220104", "end_date": "20221230"},
        {"ts_code": LISTED_LATER, **window},
    ]


@pytest.fixture
def context_at(market):
    """A tool's handles on a store and a source that are full of sentinels after a moment."""

    def make(moment, *, seed=0, runner=None):
        store = CanaryStore(moment, seed=seed)
        first = moment.session - pd.Timedelta(days=10)
        bars = market.SAMPLE.bars([ONE], first, moment.session)
        tree = store.checkout(store.update("ohlcv", bars))
        code = CodeSession(runner=runner or market.Inline(), frames=tree.view(moment).frozen())
        source = CanarySource(market.SAMPLE, moment, seed=seed)
        return store, ToolContext(source=source, tree=tree, as_of=moment, code=code)

    return make


def answer(tool, context, args):
    """What a tool returns or raises."""
    try:
        return tool.func(**args, runtime=SimpleNamespace(context=context))
    except QuantGraphError as error:
        return error


@pytest.mark.parametrize("tool", [tushare_daily_bar, tushare_daily_basic])
def test_a_data_tool_tells_and_commits_nothing_later(market, context_at, tool):
    for place in market.PLACES:
        moment = market.Moment(market.SESSIONS[place])
        store, context = context_at(moment, seed=place // 2 % 2)
        with CanaryWatch(store) as watch:
            answers = [answer(tool, context, args) for args in calls_at(moment)]
            watch.see("answers", answers)
        (_, told), _, _, refused, unknown, _, unlisted = answers
        assert told["last_session"] == f"{moment.session:%Y%m%d}"
        assert isinstance(refused, FutureRequested) == (place < len(market.SESSIONS) - 1)
        assert isinstance(unknown, UnknownSymbol)
        assert isinstance(unlisted, UnknownSymbol) == (f"{moment.session:%Y%m%d}" < "20241016")


def test_code_sees_and_prints_nothing_later(market, context_at):
    runner = default_runner()
    for place in market.PLACES:
        moment = market.Moment(market.SESSIONS[place])
        store, context = context_at(moment, seed=place // 2 % 2, runner=runner)
        with CanaryWatch(store) as watch:
            text, _ = python_repl._run(market.LOOK, runtime=SimpleNamespace(context=context))
            watch.see("answer", text)
            watch.see("code", context.code)
        assert f"{moment.session:%Y-%m-%d}" in text


def test_the_tools_of_a_decision_tell_nothing_later(market, context_at):
    """At the open: prices of the session itself are later already."""
    calls = [
        *((tools.get_kline_data, {"timeframe": by, "limit": 250}) for by in ("1d", "1w", "1mo")),
        *((tools.get_indicator, {"name": name, "limit": 250}) for name in INDICATORS),
        *((tool, {}) for tool in (tools.get_position, tools.get_rules, tools.get_news)),
    ]
    for place in market.PLACES:
        moment = market.Moment(market.SESSIONS[place], "open")
        store, _ = context_at(moment, seed=place // 2 % 2)
        context = tools.DecisionTools.of(store.view(moment), Account.opening(1000), Rulebook.mainland())
        with CanaryWatch(store) as watch:
            answers = [answer(tool, context, {"symbol": ONE, **args}) for tool, args in calls]
            watch.see("answers", answers)
            watch.see("refusal", answer(tools.get_kline_data, context, {"symbol": RENAMED[:2]}))
        days = [pd.Timestamp(row["time"], unit="s") for row in answers[0]]
        held = market.SESSIONS[(market.SESSIONS >= moment.session - pd.Timedelta(days=10))]
        assert set(days) <= set(held[held < moment.session])
        assert answers[4][0]["ma"] if isinstance(answers[4], list) else "are known" in str(answers[4])


# Broken ones -------------------------------------------------------------------------------------


@pytest.fixture
def broken(market, context_at):
    """An agent that calls a broken tool at some moment."""

    def run(tool, **args):
        store, context = context_at(market.Moment(market.SESSIONS[300]))
        script = [AIMessage("", tool_calls=[{"name": tool.name, "args": args, "id": "1"}]), "done"]
        told = ToolErrorMiddleware(on_error=lambda error, request: getattr(error, "line", None))
        agent = create_agent(ScriptedChatModel(script), [tool], context_schema=ToolContext, middleware=[told])
        with CanaryWatch(store):
            messages = agent.invoke({"messages": [("user", "go")]}, context=context)["messages"]
            assert any(isinstance(message, ToolMessage) for message in messages)

    return run


def whole(context: ToolContext):
    """The source itself, which no tool should have."""
    return context.source._source


@tool
def last_close(runtime: ToolRuntime[Any, Any]) -> str:
    """Tell the last close of the source, whatever the moment."""
    source = whole(runtime.context)
    bars = source.bars([ONE], pd.Timestamp("2024-01-02"), pd.Timestamp("2025-12-31"))
    return f"the close is {bars['close'][ONE].iloc[-1]:,.2f}"


@tool
def last_row(runtime: ToolRuntime[Any, Any]) -> str:
    """Tell the last row of the commit instead of the view."""
    return str(runtime.context.tree.snapshot()["ohlcv"]["close"].tail(1))


@tool(response_format="content_and_artifact")
def fetch_it_all(runtime: ToolRuntime[Any, Any]) -> tuple[str, dict]:
    """Publish more than is known, and say nothing of it."""
    source = whole(runtime.context)
    bars = source.bars([ONE], pd.Timestamp("2024-01-02"), pd.Timestamp("2025-12-31"))
    publish_frames(runtime.context, "ohlcv", bars, [])
    return "done", {}


@tool
def refuse(runtime: ToolRuntime[Any, Any]) -> str:
    """Pass on the words in which the source itself refuses."""
    whole(runtime.context).bars([ONE], pd.Timestamp("2019-01-02"), pd.Timestamp("2019-01-31"))
    return "done"


@tool
def whose_name(runtime: ToolRuntime[Any, Any]) -> str:
    """Tell a name as it is today."""
    return whole(runtime.context).names()[ONE]


@pytest.mark.parametrize(
    ("tool", "where"),
    [
        (last_close, r"result of a tool .*the close is [\d,]{40,}"),
        (last_row, "result of a tool .*2177-07-09"),
        (fetch_it_all, r"committed ohlcv: \['open'\]"),
        (refuse, "error of a tool .*its sessions run to 2177-07-09"),
        (whose_name, "result of a tool .*合成银行01 CANARY"),
    ],
)
def test_a_broken_tool_is_found(broken, tool, where):
    with pytest.raises(CanaryFound, match=where):
        broken(tool)


def test_the_same_refusal_by_the_source_as_of_the_moment_is_clean(market, context_at):
    _, context = context_at(market.Moment(market.SESSIONS[300]))
    with (
        pytest.raises(
            NoData, match=f"its sessions run from 2023-01-03 to {market.SESSIONS[300]:%Y-%m-%d}"
        ) as caught,
        CanaryWatch(),
    ):
        context.source.bars([ONE], pd.Timestamp("2019-01-02"), pd.Timestamp("2019-01-31"))
    assert caught.value.__context__ is None
