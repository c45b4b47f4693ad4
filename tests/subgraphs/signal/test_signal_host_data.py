"""Data of the host's: a commit in ``data_ref`` is the authority for what it has; codes are read as the source has them."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import pandas as pd
import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from states import flat
from typing_extensions import get_type_hints

from quantgraph import create_signal_subgraph, create_trading_graph
from quantgraph.data import open_source
from quantgraph.data.sample import SampleSource
from quantgraph.errors import BadOption
from quantgraph.market import Rulebook
from quantgraph.runtime import Resources
from quantgraph.runtime.graph_state import Groups, replace_groups
from quantgraph.subgraphs.signal import SignalSubgraphState, map_to_main_state, map_to_subgraph_state

pytestmark = pytest.mark.proof

RULE = "buy when the 2-day average crosses above the 5-day average, sell when it crosses below"
DAYS = pd.bdate_range("2023-11-01", "2024-03-29")
"""Also days that are no sessions of the sample."""


def waves(*codes, days=DAYS):
    """Closes that rise and fall every seven sessions, another height for each code."""
    wave = 10 + np.abs(np.arange(len(days)) % 14 - 7)
    return pd.DataFrame({code: wave + 5.0 * at for at, code in enumerate(codes)}, index=days)


def panel(closes):
    return {"open": closes, "high": closes + 1, "low": closes - 1, "close": closes, "vol": closes * 100}


class Counted(SampleSource):
    """The sample, which counts how often it is asked for bars, and of what."""

    def __init__(self):
        super().__init__()
        self.asked = []

    def bars(self, symbols, start, end):
        self.asked.append((tuple(symbols), f"{start:%Y%m%d}"))
        return super().bars(symbols, start, end)


@pytest.fixture
def source():
    return Counted()


@pytest.fixture
def graph(store, source):
    return create_signal_subgraph(
        on_clarify="default",
        checkpointer=InMemorySaver(),
        resources=Resources(store=store, source=source, model="keyless"),
    )


def ask(graph, text, thread="t", **state):
    config = {"configurable": {"thread_id": thread}}
    return graph.invoke({"messages": [("user", text)], **state}, config)


def closes_of(store, state):
    return store.snapshot(state["data_ref"])["ohlcv"]["close"]


def test_data_that_only_the_commit_has_make_a_signal(graph, store, source):
    ref = store.update("ohlcv", panel(waves("MINE.US")))
    state = ask(graph, f"MINE.US, {RULE}, 20240102 to 20240229", data_ref=ref)
    assert state["ended_because"] == "done"
    assert source.asked == []
    used = closes_of(store, state)["MINE.US"]
    # The five sessions that a row needs come from the commit too, on the commit's own days.
    assert used.index[0] < pd.Timestamp("2024-01-02")
    pd.testing.assert_series_equal(
        used, waves("MINE.US")["MINE.US"].loc[used.index], check_names=False, check_freq=False
    )
    assert flat(state)["strategy"]["evaluated_from"] == "20240102"
    assert not any("synthetic" in note for note in flat(state)["request"]["notes"])


def test_of_a_symbol_that_both_have_the_commit_wins_where_it_has_a_row(graph, store):
    day = pd.Timestamp("2024-01-12")
    level = SampleSource().bars(["000341.SZ"], day, day)["close"].iloc[0, 0]
    mine = (waves("000341.SZ").loc["2024-01-15":"2024-01-19"] * 0.001 + level).round(2)  # within its limits
    ref = store.update("ohlcv", panel(mine))
    state = ask(graph, f"000341.SZ, {RULE}, 20240102 to 20240229", data_ref=ref)
    assert state["ended_because"] == "done"
    used = closes_of(store, state)["000341.SZ"]
    assert used.loc[mine.index].tolist() == mine["000341.SZ"].tolist()
    theirs = SampleSource().bars(["000341.SZ"], used.index[0], used.index[-1])["close"]["000341.SZ"]
    others = used.index.difference(mine.index)
    assert used.loc[others].tolist() == theirs.loc[others].tolist()


def test_symbols_that_the_commit_does_not_have_are_fetched(graph, store, source):
    ref = store.update("ohlcv", panel(waves("MINE.US")))
    state = ask(graph, f"MINE.US, 000341.SZ, {RULE}, 20240102 to 20240229", data_ref=ref)
    assert state["ended_because"] == "done"
    assert {symbols for symbols, _ in source.asked} == {("000341.SZ",)}
    assert set(closes_of(store, state)) == {"MINE.US", "000341.SZ"}


def test_a_later_request_still_has_the_commit_and_a_new_one_takes_its_place(graph, store):
    first = store.update("ohlcv", panel(waves("MINE.US", "YOUR.US")))
    ask(graph, f"MINE.US, {RULE}, 20240102 to 20240229", data_ref=first)
    second = ask(graph, f"YOUR.US, {RULE}, 20240102 to 20240329")
    assert second["ended_because"] == "done"
    assert closes_of(store, second)["YOUR.US"].max() == 22.0
    new = store.update("ohlcv", panel(waves("THEIR.US", "YOUR.US") * 2), base=store.empty)
    third = ask(graph, f"YOUR.US, {RULE}, 20240102 to 20240329", data_ref=new)
    assert closes_of(store, third)["YOUR.US"].max() == 44.0
    gone = ask(graph, f"MINE.US, {RULE}, 20240102 to 20240329")
    assert gone["ended_because"] == "data_unavailable"


def test_without_a_ref_the_stores_data_are_nobodys(graph, store):
    store.update("ohlcv", panel(waves("MINE.US")))
    state = ask(graph, f"MINE.US, {RULE}, 20240102 to 20240229")
    assert state["ended_because"] == "data_unavailable"


def test_data_of_the_hosts_are_traded(store, tmp_path):
    ref = store.update("ohlcv", panel(waves("MINE")))
    graph = create_trading_graph(
        rules=Rulebook.us(),
        on_clarify="default",
        resources=Resources(store=store, source="sample", model="keyless", ledger=tmp_path / "l.sqlite"),
    )
    state = graph.invoke(
        {"messages": [("user", f"MINE, {RULE}, 20240102 to 20240229")], "data_ref": ref, "run_id": "r"}
    )
    assert state["ended_because"] == "done"
    assert state["summary"]["account"]["trades"] > 2


CODES = ["AAPL.US", "BRK-B", "BTC-USD", "US.AAPL", "0700.HK", "AAPL", "BRK.B"]


@pytest.mark.parametrize("code", CODES)
def test_a_code_is_read_as_the_source_has_it(code, store):
    source = open_source(long(code, "ZZZ"))
    graph = create_signal_subgraph(
        on_clarify="default", resources=Resources(store=store, source=source, model="keyless")
    )
    state = graph.invoke({"messages": [("user", f"{code}, {RULE}, 20240102 to 20240229")]})
    assert state["ended_because"] == "done", state["error_messages"]
    written = code.removeprefix("US.")  # a prefix of an exchange is none of the code
    assert list(store.snapshot()["signal"][flat(state)["strategy"]["name"]]) == [written]


def long(*codes):
    """A source of the waves, as a long table."""
    bars = panel(waves(*codes))
    rows = [frame.stack().rename("volume" if name == "vol" else name) for name, frame in bars.items()]
    return pd.concat(rows, axis=1).rename_axis(["date", "symbol"]).reset_index()


@pytest.mark.parametrize("code", ["BTC-USD", "0700.HK"])
def test_what_no_market_has_is_refused_before_it_is_fetched(code, store, tmp_path, monkeypatch):
    source = open_source(long(code, "ZZZ"))
    monkeypatch.setattr(source, "bars", lambda *_: pytest.fail("it is fetched"))
    graph = create_trading_graph(
        on_clarify="default",
        resources=Resources(store=store, source=source, model="keyless", ledger=tmp_path / "l.sqlite"),
    )
    state = graph.invoke({"messages": [("user", f"{code}, {RULE}, 20240102 to 20240229")]})
    assert state["ended_because"] == "data_unavailable"
    (line,) = state["error_messages"]
    assert line.startswith(f"unknown_symbol: {code} is of ")
    assert "whose trading rules are not built: a signal can be made and checked (--signal-only" in line


class OwnFields(MessagesState, total=False):
    strategy: Any
    request: Any
    answers: Any
    attempts: Any
    calls: Any
    clarification: Any
    waived: Any
    language: Any
    quantgraph: Any
    user_intent: Any
    error_messages: Any
    retry_count: Any
    run_id: Any


def host_of(store):
    graph = StateGraph(OwnFields)
    resources = Resources(store=store, source="sample", model="keyless")
    graph.add_node("signal", create_signal_subgraph(on_clarify="default", resources=resources))
    graph.add_edge(START, "signal")
    return graph.compile()


def test_a_hosts_own_fields_are_left_alone(store):
    own = {
        "strategy": {"name": "mine"},
        "request": {"id": 7},
        "answers": ["yes"],
        "attempts": 3,
        "calls": 4,
        "clarification": "which?",
        "waived": True,
        "language": "French",
    }
    sentence = ("user", f"000341.SZ, {RULE}, 20240102 to 20240229")
    ended = host_of(store).invoke({"messages": [sentence], **own})
    assert {name: ended[name] for name in own} == own
    assert flat({"quantgraph": ended["quantgraph"]})["strategy"]["name"] == "cross_up_sma_2_sma_5"
    assert "signal" in ended["messages"][-1].text.lower(), "answered in the sentence's language"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("user_intent", "buy low"),
        ("error_messages", "none"),
        ("retry_count", "many"),
        ("run_id", 7),
        ("quantgraph", "mine"),
        ("quantgraph", {"notes": {}}),
    ],
)
def test_a_documented_field_that_means_something_else_is_named(name, value, store):
    sentence = ("user", f"000341.SZ, {RULE}, 20240102 to 20240229")
    with pytest.raises(BadOption, match=f"the state's {name}=.* rename it") as raised:
        host_of(store).invoke({"messages": [sentence], name: value})
    assert raised.value.data["parameter"] == name


def test_the_state_has_at_most_sixteen_keys_with_four_groups_and_the_result():
    assert len(get_type_hints(SignalSubgraphState)) <= 16
    assert set(get_type_hints(Groups)) == {"request", "strategy", "dialogue", "progress", "result"}


def test_a_result_merged_again_is_the_same(store):
    sentence = ("user", f"000341.SZ, {RULE}, 20240102 to 20240229")
    ended = host_of(store).invoke({"messages": [sentence]})
    groups = ended["quantgraph"]
    assert replace_groups(groups, groups) == replace_groups(None, groups) == groups


@pytest.mark.parametrize("inside", [False, True])
def test_a_host_with_the_key_changes_its_last_request(inside, store):
    """The host carries ``messages`` and ``quantgraph`` and none of the other fields."""

    class Host(MessagesState, total=False):
        quantgraph: Annotated[Groups, replace_groups]

    resources = Resources(store=store, source="sample", model="keyless")
    signal = create_signal_subgraph(on_clarify="default", resources=resources)
    graph = StateGraph(Host)
    mapped = lambda state: map_to_main_state(signal.invoke(map_to_subgraph_state(state)))  # noqa: E731
    graph.add_node("signal", mapped if inside else signal)
    graph.add_edge(START, "signal")
    host, thread = graph.compile(checkpointer=InMemorySaver()), {"configurable": {"thread_id": "1"}}
    first = host.invoke({"messages": [("user", f"000341.SZ, {RULE}, 20240102 to 20240229")]}, thread)
    second = host.invoke({"messages": [("user", "换成000342.SZ")]}, thread)
    codes = [flat(state)["request"]["ts_code"] for state in (first, second)]
    assert codes == ["000341.SZ", "000342.SZ"]
    assert flat(second)["strategy"]["name"] == "cross_up_sma_2_sma_5"
