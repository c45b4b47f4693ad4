"""A fetch by code: exactly the request, tried again if the source fails, and what is missing is asked about."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from states import flat

from quantgraph.data.sample import SampleSource
from quantgraph.errors import SourceUnavailable
from quantgraph.recording import Recorder

THREAD = {"configurable": {"thread_id": "t"}}


class Partial(SampleSource):
    """A source without a bar of one code."""

    def bars(self, symbols, start, end):
        found = super().bars(symbols, start, end)
        gone = [code for code in symbols if code == "000342.SZ"]
        return {name: frame.assign(**dict.fromkeys(gone, np.nan)) for name, frame in found.items()}


class Flaky(SampleSource):
    """A source that fails at first, as often as said."""

    fails = 0
    asked = 0

    def bars(self, symbols, start, end):
        self.asked += 1
        if self.asked <= self.fails:
            raise SourceUnavailable(f"the vendor is down, {self.asked}")
        return super().bars(symbols, start, end)


def begin(play, codes=""):
    text = f"{codes} up-day rule, January 2024" if codes else play.SENTENCE
    return {"messages": [("user", text)], "run_id": "r"}


def both(play, **more):
    return play.intent(ts_code=f"{play.ONE},{play.TWO}", **more)


def test_code_fetches_exactly_the_request_and_asks_no_model(play, graph_of, store):
    cast = play.Cast(reflect=both(play, required_indicators=["pe"]))
    final = graph_of(cast).invoke(begin(play, f"{play.ONE},{play.TWO}"))
    assert final["ended_because"] == "done"
    assert cast.turns["fetch"] == 0
    panel = store.snapshot(final["data_ref"])
    source, window = SampleSource(), [pd.Timestamp(day) for day in play.WINDOW]
    inside = panel["ohlcv"]["close"].loc[window[0] :]
    expected = source.bars((play.ONE, play.TWO), *window)["close"]
    np.testing.assert_array_equal(inside.to_numpy(), expected.to_numpy())
    assert list(panel["indicators"]) == ["pe"]


def test_a_source_that_fails_is_asked_again_without_a_model(play, graph_of, tmp_path):
    source = Flaky()
    source.fails = 2
    cast = play.Cast()
    graph = graph_of(cast, source=source, recorder=Recorder(tmp_path / "r.sqlite"))
    final = graph.invoke(begin(play))
    assert (final["ended_because"], cast.turns["reflect"]) == ("done", 1)
    down = Flaky()
    down.fails = 9
    ended = graph_of(play.Cast(), source=down, on_clarify="fail").invoke(begin(play))
    assert (ended["ended_because"], down.asked) == ("data_unavailable", 3)
    assert ended["error_messages"] == ["source_unavailable: the vendor is down, 3"]


def test_a_code_without_a_bar_is_named_and_left_out_if_the_user_says_so(play, graph_of, store):
    cast = play.Cast(reflect=both(play))
    graph = graph_of(cast, source=Partial(), checkpointer=InMemorySaver())
    question = graph.invoke(begin(play, f"{play.ONE},{play.TWO}"), THREAD)["__interrupt__"][0].value
    assert (question["kind"], question["unread"]) == ("symbol", [play.TWO])
    assert question["question"].startswith(f"{play.TWO} has no bar in 20240102-20240131. Go on without it")
    assert question["options"] == [f"go on without {play.TWO}"]
    final = graph.invoke(Command(resume=question["options"][0]), THREAD)
    assert final["ended_because"] == "done"
    assert flat(final)["request"]["ts_code"] == play.ONE
    assert f"without {play.TWO}, as agreed" in flat(final)["request"]["notes"]
    assert list(store.snapshot(final["data_ref"])["ohlcv"]["close"]) == [play.ONE]


@pytest.mark.parametrize("on_clarify", ["default", "fail"])
def test_with_nobody_to_ask_no_code_is_left_out(play, graph_of, on_clarify):
    cast = play.Cast(reflect=both(play))
    final = graph_of(cast, source=Partial(), on_clarify=on_clarify).invoke(
        begin(play, f"{play.ONE},{play.TWO}")
    )
    assert final["ended_because"] == "data_unavailable"
    assert final["error_messages"] == [f"no_data: {play.TWO} has no bar in 20240102-20240131"]


def test_one_unknown_code_of_several_may_be_left_out_and_a_single_one_may_not(play, graph_of):
    many = play.intent(ts_code=f"{play.ONE},999999.SH")
    graph = graph_of(play.Cast(reflect=many), checkpointer=InMemorySaver())
    question = graph.invoke(begin(play, f"{play.ONE},999999.SH"), THREAD)["__interrupt__"][0].value
    assert question["options"][-1] == "go on without 999999.SH"
    final = graph.invoke(Command(resume="go on without 999999.SH"), THREAD)
    assert (final["ended_because"], flat(final)["request"]["ts_code"]) == ("done", play.ONE)
    alone = graph_of(play.Cast(reflect=play.intent(ts_code="999999.SH")), checkpointer=InMemorySaver())
    question = alone.invoke(begin(play, "999999.SH"), {"configurable": {"thread_id": "u"}})["__interrupt__"][
        0
    ].value
    assert not [option for option in question["options"] if "without" in option]


def test_an_index_without_levels_is_asked_about_and_headless_ends_the_run(play, graph_of):
    watched = play.intent(watch="000016.SH", trade=play.ONE, ts_code=f"000016.SH,{play.ONE}")
    cast = play.Cast(reflect=lambda messages, turn: json.dumps(watched))
    final = graph_of(cast, on_clarify="fail").invoke(begin(play, f"000016.SH {play.ONE}"))
    assert final["ended_because"] == "data_unavailable"
    assert "000016.SH" in final["error_messages"][0]
    waiting = graph_of(cast, checkpointer=InMemorySaver()).invoke(
        begin(play, f"000016.SH {play.ONE}"), THREAD
    )
    assert waiting["__interrupt__"][0].value["question"].startswith("sample has no levels of 000016.SH,")


def test_the_levels_of_a_watched_index_reach_the_code(play, graph_of, store):
    index = next(code for code in SampleSource().names() if code not in SampleSource().symbols())
    watched = play.intent(watch=index, trade=play.ONE, ts_code=f"{index},{play.ONE}")
    code = (
        f"level = snapshot['index']['close']['{index}']\nclose = snapshot['ohlcv']['close']\n"
        "up = (level.diff() > 0).astype(float).where(level.diff().notna())\n"
        "GLOBAL_DATA_STATE.update('signal', {'index_up': pd.DataFrame({c: up for c in close.columns})})"
    )
    cast = play.Cast(reflect=watched, code=code)
    text = f"when {index} rises buy {play.ONE}, January 2024"
    final = graph_of(cast, on_clarify="fail").invoke({"messages": [("user", text)]})
    assert final["ended_because"] == "done", final["error_messages"]
    levels = store.snapshot(final["data_ref"])["index"]["close"][index]
    signal = store.snapshot(final["data_ref"])["signal"]["index_up"][play.ONE]
    expected = SampleSource().index_bars(index, levels.index[0], levels.index[-1])["close"].diff() > 0
    assert signal.to_numpy().tolist() == expected.loc[signal.index].astype(float).to_numpy().tolist()
    assert f'"index":["{index}"]' in cast.said["code"][0]


def test_data_that_do_not_fit_into_memory_are_asked_about_and_not_fetched(play, graph_of, monkeypatch):
    """22 sessions of one stock at 400 bytes a cell are 8,800 bytes; 4,000 are free: ten sessions fit."""
    monkeypatch.setattr("quantgraph.subgraphs.signal._needs.available_memory", lambda: 4_000)
    source = Flaky()
    graph = graph_of(play.Cast(), source=source, checkpointer=InMemorySaver())
    question = graph.invoke(begin(play), THREAD)["__interrupt__"][0].value
    assert (question["kind"], source.asked) == ("window", 0)
    assert "10 sessions of these stocks fit" in question["question"]
    ended = graph_of(play.Cast(), source=source, on_clarify="fail").invoke(begin(play))
    assert (ended["ended_because"], source.asked) == ("data_unavailable", 0)
    assert ended["error_messages"][0].startswith("data_too_large: 1 stocks x 22 sessions need about")
