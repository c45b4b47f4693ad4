"""What a run did beside asking models is in its record: a resumed run does not do it again, nor does a replay."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from langchain_core.messages import HumanMessage, message_to_dict
from states import flat

from quantgraph.data.sample import SampleSource
from quantgraph.errors import CodeFailed, NoSignal, UnknownCommit
from quantgraph.graph import create_trading_graph
from quantgraph.market import Moment
from quantgraph.recording import Recorder
from quantgraph.runtime import Resources
from quantgraph.sandbox import CodeResult
from quantgraph.settings import load_settings
from quantgraph.state import DataState
from quantgraph.tools import ToolContext

pytestmark = pytest.mark.proof


class Watched:
    """A runner that counts, and is switched off at its n-th run."""

    def __init__(self, runner, stop_at: int = 10**9) -> None:
        self._runner, self._stop_at, self.runs = runner, stop_at, 0

    def run(self, cells, frames) -> CodeResult:
        self.runs += 1
        if self.runs == self._stop_at:
            raise SystemError("switched off")
        return self._runner.run(cells, frames)


class Vendor(SampleSource):
    """The sample, which counts how often frames are asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0

    def bars(self, symbols, start, end):
        self.asked += 1
        return super().bars(symbols, start, end)

    def indicators(self, symbols, start, end, fields=()):
        self.asked += 1
        return super().indicators(symbols, start, end, fields)


def plain(state) -> dict:
    """A whole final state as JSON."""
    messages = [message_to_dict(message) for message in state["messages"]]
    return json.loads(json.dumps({**state, "messages": messages}, allow_nan=False))


@pytest.fixture
def cast(play):
    """Tools that fail in every way on the way to a signal: unknown code, bad arguments, an error in a cell."""
    right = play.Cast._fetch

    def fetch(messages, turn):
        told = [message for message in messages if message.type == "tool"]
        if turn == 1 and not told:
            both = right(messages[0].text, {"ts_code": "999999.SH"})
            both.tool_calls.extend(play.tool_call("tushare_daily_bar", 2, ts_code=play.ONE).tool_calls)
            return both
        return "fetched" if told else right(messages[0].text, None)

    wish = play.intent(required_indicators=["pe", "pb"], ts_code=f"{play.ONE},{play.TWO}")
    return lambda: play.Cast(reflect=wish, fetch=fetch, code=["1 / 0", "half = 1 / 2", play.GOOD_CODE])


@pytest.fixture
def go(play, graph_of, runner, tmp_path) -> Callable:
    """The run, in what might be another process each time; gives its state, its runner and its vendor."""

    def run(cast, mode="record", stop_at=10**9, folder="run"):
        watched, vendor = Watched(runner, stop_at), Vendor()
        recorder, store = (
            Recorder(tmp_path / folder / "ledger.sqlite", mode=mode),
            DataState(tmp_path / folder),
        )
        graph = graph_of(cast, runner=watched, source=vendor, store=store, recorder=recorder)
        sentence = play.SENTENCE.replace(play.ONE, f"{play.ONE} and {play.TWO}")
        asked = {"messages": [HumanMessage(sentence, id="asked")], "run_id": "run"}
        return graph.invoke(asked), watched, vendor

    return run


def test_a_replay_runs_no_code_asks_no_source_and_gives_the_same_state(go, cast):
    first, watched, vendor = go(cast())
    assert first["ended_because"] == "done"
    assert any("unknown_symbol" in line for line in first["execution_history"])
    assert len(flat(first)["strategy"]["cells"]) == 1, "cells that failed or only looked are not part of it"
    assert watched.runs > 5
    assert vendor.asked > 2
    again, watched, vendor = go(cast(), "replay")
    assert plain(again) == plain(first)
    assert (watched.runs, vendor.asked) == (0, 0)


@pytest.mark.parametrize(("stop_at", "saved"), [(3, 2), (6, 2)])
def test_a_run_that_was_stopped_while_code_ran_does_not_run_again_what_had_ended(go, cast, stop_at, saved):
    """The agent's three cells come first, then the warm-up, which needs one run more for the signal's frame."""
    with pytest.raises(SystemError):
        go(cast(), stop_at=stop_at)
    resumed, runner, vendor = go(cast())
    whole, whole_runner, whole_vendor = go(cast(), folder="whole")
    assert plain(resumed) == plain(whole)
    assert runner.runs == whole_runner.runs - saved
    assert vendor.asked == whole_vendor.asked - 4, "what there is, bars and indicators are there"


def test_cells_that_were_run_before_are_restored_without_running(play, runner, store):
    source = SampleSource()
    symbols, days = [play.ONE], source.sessions()[:9]
    ref = store.update("ohlcv", source.bars(symbols, days[0], days[-1]))
    watched = Watched(runner)
    session = ToolContext(store.view(Moment(days[-1]), ref), code=watched)
    session.restore([play.GOOD_CODE], ["up_day"])
    assert (session.names, watched.runs) == (("up_day",), 0)
    assert session.run("signal.shape").value == "(9, 1)", "the next cell sees what the earlier ones made"
    assert session.signal("up_day").shape == (9, 1)
    session.restore(["1 / 0"], ["up_day"])
    with pytest.raises(CodeFailed, match="ZeroDivisionError"):
        session.signal("up_day")
    session.restore([play.GOOD_CODE], ["another"])
    with pytest.raises(NoSignal, match="another"):
        session.signal("another")


def test_a_tree_is_put_on_a_commit_that_was_made_before(store, frame):
    tree = store.checkout()
    ref = store.update("ohlcv", {"close": frame})
    tree.move_to(ref)
    assert tree.update("ohlcv", {"open": frame}) == store.update("ohlcv", {"open": frame}, base=ref)
    with pytest.raises(UnknownCommit):
        tree.move_to("0" * 32)


def test_a_run_leaves_no_database_open(play, runner, tmp_path):
    graph = create_trading_graph(
        source="sample",
        on_clarify="default",
        settings=load_settings(runs_dir=tmp_path),
        resources=Resources(runner=runner, store=DataState()),
    )
    for text in (
        "合成30，2日均线上穿3日均线买入，下穿卖出，2024年1月",
        "没有这只股票 999999.SH 2024年1月 买入",
    ):
        state = graph.invoke({"messages": [("user", text)]})
        assert (tmp_path / state["run_id"] / "ledger.sqlite").is_file(), state["ended_because"]
        assert [link for link in opened() if str(tmp_path) in link] == []


def opened() -> list[str]:
    links = []
    for number in os.listdir("/proc/self/fd"):
        try:
            links.append(str(Path(f"/proc/self/fd/{number}").readlink()))
        except FileNotFoundError:  # the one that listed the folder
            continue
    return links


SCRIPT = """
import json, sys
from langchain_core.messages import HumanMessage, message_to_dict
from quantgraph.graph import create_trading_graph
from quantgraph.runtime import Resources
from quantgraph.settings import load_settings
from quantgraph.state import DataState

settings = load_settings(runs_dir=sys.argv[1], cache_dir=sys.argv[1])  # a look at rows is counted there
resources = Resources(source="sample", store=DataState(), settings=settings)
graph = create_trading_graph(resources=resources)
asked = HumanMessage("合成银行01，RSI(6)低于40买入，高于60卖出，2024年1月到2月", id="asked")
state = graph.invoke({"messages": [asked], "run_id": "run"})
assert state["ended_because"] == "done", state["error_messages"]
print(json.dumps({**state, "messages": [message_to_dict(message) for message in state["messages"]]}))
"""


@pytest.mark.proof
def test_nothing_in_a_final_state_depends_on_the_process(tmp_path):
    """No clock, no random name, no order of a set: byte for byte."""
    running = [
        subprocess.Popen(
            [sys.executable, "-c", SCRIPT, str(tmp_path / seed)],
            env=os.environ | {"PYTHONHASHSEED": seed},
            stdout=subprocess.PIPE,
            text=True,
        )
        for seed in ("1", "2")
    ]
    one, other = (process.communicate(timeout=120)[0] for process in running)
    assert json.loads(one)["summary"]
    assert one == other
