"""Every tool, at many moments: what it says and what it commits was known; a broken one is found."""

from __future__ import annotations

import re
from datetime import date
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
from canary_data import CanarySource, CanaryStore
from canary_sentinels import CANARY_SESSIONS
from canary_watch import CanaryFound, CanaryWatch
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain.agents import create_agent
from langchain.agents.middleware import ToolErrorMiddleware
from langchain.tools import ToolRuntime
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import tool

from quantgraph import tools
from quantgraph.broker import Account, Session
from quantgraph.errors import FutureRequested, NoData, QuantGraphError, UnknownSymbol
from quantgraph.market import Rulebook
from quantgraph.sandbox import default_runner
from quantgraph.testing import ScriptedChatModel
from quantgraph.tools import (
    ToolContext,
    python_repl,
    tools_catalog,
    tools_of,
    tushare_daily_bar,
    tushare_daily_basic,
)
from quantgraph.tools._data import publish_frames
from quantgraph.tools.trading._prices import INDICATORS

pytestmark = pytest.mark.proof

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
        source = CanarySource(market.SAMPLE, moment, seed=seed)
        return store, ToolContext(tree.view(moment), code=runner or market.Inline(), source=source, tree=tree)

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
            watch.see("code", [context.view.frozen(), context.cells, context.names, context.signals])
        assert f"{moment.session:%Y-%m-%d}" in text


def test_the_tools_of_a_decision_tell_nothing_later(market, context_at):
    """At the open: prices of the session itself are later already."""
    calls = [
        *((tools_catalog["get_kline_data"], {"timeframe": by, "limit": 250}) for by in ("1d", "1w", "1mo")),
        *((tools_catalog["get_indicator"], {"name": name, "limit": 250}) for name in INDICATORS),
        *(
            (tool, {})
            for tool in (tools_catalog["get_position"], tools_catalog["get_rules"], tools_catalog["get_news"])
        ),
    ]
    for place in market.PLACES:
        moment = market.Moment(market.SESSIONS[place], "open")
        store, _ = context_at(moment, seed=place // 2 % 2)
        context = tools.ToolContext(store.view(moment), Account.opening(1000), Rulebook.mainland())
        with CanaryWatch(store) as watch:
            answers = [answer(tool, context, {"symbol": ONE, **args}) for tool, args in calls]
            watch.see("answers", answers)
            watch.see("refusal", answer(tools_catalog["get_kline_data"], context, {"symbol": RENAMED[:2]}))
        days = [pd.Timestamp(row["time"], unit="s") for row in answers[0]]
        held = market.SESSIONS[(market.SESSIONS >= moment.session - pd.Timedelta(days=10))]
        assert set(days) <= set(held[held < moment.session])
        assert answers[4][0]["ma"] if isinstance(answers[4], list) else "are known" in str(answers[4])


DATES = st.one_of(
    st.dates(date(2023, 12, 1), date(2026, 2, 1)).map(str),
    st.dates(date(2024, 1, 1), date(2025, 12, 31)).map(lambda day: f"{day:%Y%m%d}"),
    st.sampled_from(
        [
            f"{CANARY_SESSIONS[0]:%Y-%m-%d}",
            f"{CANARY_SESSIONS[-1]:%Y/%m/%d}",
            "today",
            "tomorrow",
            "2025-02-30",
        ]
    ),
)
SYMBOLS = st.sampled_from([ONE, ONE.lower(), "000344", "920873.BJ", RENAMED, "AAPL", "000341.SH", ""])
AMOUNTS = st.one_of(
    st.sampled_from([100, 200, 300, 0, -100, 150, 10**12, 2.9, "100", None, True]), st.integers(1, 10**7)
)
NUMBERS = st.one_of(st.floats(-1e6, 1e6), st.integers(-(10**6), 10**6), st.sampled_from(["1", None, True]))
QUERIES = st.sampled_from(
    ["合成科技01", "000341 limit", "profit 业绩 news", "earnings tomorrow", "CODE 2025", "x" * 2000, ""]
)
WHICH = st.lists(st.sampled_from(["MA5", "ma20", "MACD", "KDJ", "RSI14", "XYZ"]), max_size=4)
ARGUMENTS = {
    "get_price_local": st.fixed_dictionaries({"symbol": SYMBOLS, "date": DATES}),
    "get_price_history": st.fixed_dictionaries(
        {"symbol": SYMBOLS}, optional={"limit": st.integers(0, 300), "start": DATES, "end": DATES}
    ),
    "get_indicators": st.fixed_dictionaries({"symbol": SYMBOLS, "indicators": WHICH}),
    "get_information": st.fixed_dictionaries({"query": QUERIES}),
    "get_positions": st.just({}),
    "add": st.fixed_dictionaries({"a": NUMBERS, "b": NUMBERS}),
    "multiply": st.fixed_dictionaries({"a": NUMBERS, "b": NUMBERS}),
    "buy": st.fixed_dictionaries({"symbol": SYMBOLS, "amount": AMOUNTS}),
    "sell": st.fixed_dictionaries({"symbol": SYMBOLS, "amount": AMOUNTS}),
}
CALLS = st.lists(
    st.sampled_from(sorted(ARGUMENTS)).flatmap(lambda name: st.tuples(st.just(name), ARGUMENTS[name])),
    min_size=6,
    max_size=12,
)


def trading(market, moment, seed):
    """The context of a trader over bars and news that are sentinels after a moment."""
    store = CanaryStore(moment, seed=seed)
    first = moment.session - pd.Timedelta(days=60)
    codes = [ONE, "000344.SZ"]
    store.update("ohlcv", market.SAMPLE.bars(codes, first, moment.session))
    store.record(market.SAMPLE.records(("name", "news"), codes, first, moment.session))
    view, account, rules = store.view(moment), Account.opening(50_000), Rulebook.mainland()
    return store, tools.ToolContext(view, account, rules, session=Session.at_open(view, account, rules))


def called(context, name, params):
    try:
        return tools.call_tool(tools_of("trader")[name], params, context, timeout=5)
    except QuantGraphError as error:
        return error.line


@settings(max_examples=60)
@given(place=st.integers(45, 700), calls=CALLS)
def test_whatever_a_trader_asks_and_does_it_is_told_nothing_later(market, place, calls):
    """Nor does anything later, of either sign and in whatever order, change what it is told."""
    moment = market.Moment(market.SESSIONS[place % len(market.SESSIONS)], "open")
    told = []
    for seed in (0, 1):
        store, context = trading(market, moment, seed)
        with CanaryWatch(store) as watch:
            for name, params in calls:
                watch.see(name, called(context, name, params))
            watch.see("orders", context.session.orders)
        told.append(watch.transcript)
    assert told[0] == told[1]
    days = {text[place : place + 10] for text in told[0] for place in _places_of("'date': '", text)}
    assert max(days, default="") <= f"{moment.session:%Y-%m-%d}"


def _places_of(mark, text):
    return [found.end() for found in re.finditer(re.escape(mark), text)]


def test_a_date_to_come_is_answered_as_one_that_will_never_be(market):
    moment = market.Moment(market.SESSIONS[300], "open")
    _, context = trading(market, moment, 0)
    later = [market.SESSIONS[301], market.SESSIONS[400], CANARY_SESSIONS[0], pd.Timestamp("2179-01-01")]
    later += [day for day in pd.date_range(moment.session, periods=12)[1:] if day not in market.SESSIONS]
    answers = [
        called(context, "get_price_local", {"symbol": ONE, "date": f"{day:%Y-%m-%d}"}) for day in later
    ]
    assert len(later) > 5
    assert answers == [
        {"error": f"there is no bar of {ONE} on that date", "code": "no_data", "symbol": ONE}
    ] * len(later)


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
