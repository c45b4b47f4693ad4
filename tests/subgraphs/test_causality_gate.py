"""Nothing that looks ahead gets out of validation: it is told where, once, and then the user is asked."""

from __future__ import annotations

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from quantgraph import create_trading_graph
from quantgraph.market.moment import session_of

pytestmark = pytest.mark.usefixtures("whole_audit")

LEAKY = """\
close = snapshot["ohlcv"]["close"]
rises = close.shift(-1) > close
GLOBAL_DATA_STATE.update("signal", {"peek": rises.astype(float)})
"""
OTHER_LEAK = """\
close = snapshot["ohlcv"]["close"]
GLOBAL_DATA_STATE.update("signal", {"mean": (close > close.mean()).astype(float)})
"""


def test_a_leak_goes_back_with_its_counterexample_and_the_mended_code_passes(play, graph_of, store):
    cast = play.Cast()
    cast.answers["code"] = _in_turn(play, LEAKY, play.GOOD_CODE)
    final = graph_of(cast).invoke({"messages": [("user", play.SENTENCE)]})
    assert final["ended_because"] == "done"
    told = [prompt for prompt in cast.said["code"] if "not_causal" in prompt]
    assert len(told) == 1
    assert "shift(-1)" in told[0]
    assert any(
        "validate signal failed (attempt 1): not_causal" in line for line in final["execution_history"]
    )
    proved = "causal: proved at 23 of 23 sessions"  # the window's 22, and the one before it that a row needs
    assert final["validation"]["data_summary"]["causality"]["line"] == proved
    assert final["execution_history"][-2].endswith(proved)


def test_the_counterexample_can_be_checked_by_hand(play, graph_of, store):
    """The close that is not known yet is all that the code looks at: known or not, the signal differs."""
    cast = play.Cast(code=LEAKY)
    final = graph_of(cast, on_clarify="fail").invoke({"messages": [("user", play.SENTENCE)]})
    found = final["validation"]["data_summary"]["causality"]["counterexample"]
    close = store.snapshot(final["data_ref"])["ohlcv"]["close"][found["symbol"]]
    place = close.index.get_loc(session_of(found["session"]))
    assert close.iloc[place + 1] > close.iloc[place]
    assert not (close.diff().shift(-1) > 0).iloc[:place].any(), "it is the first such session"
    assert (found["later"], found["known"], found["needs"]) == (1.0, 0.0, 1)


def test_the_same_leak_twice_is_put_to_the_user(play, graph_of):
    cast = play.Cast(code=LEAKY)
    graph = graph_of(cast, on_clarify="ask", checkpointer=InMemorySaver())
    thread = {"configurable": {"thread_id": "t"}}
    graph.invoke({"messages": [("user", play.SENTENCE)]}, thread)
    (asked,) = graph.get_state(thread).interrupts
    assert asked.value["kind"] == "failure"
    assert "not_causal" in asked.value["reason"]
    assert cast.turns["code"] == 2


def test_another_leak_is_another_attempt(play, graph_of):
    cast = play.Cast()
    cast.answers["code"] = _in_turn(play, LEAKY, OTHER_LEAK, play.GOOD_CODE)
    final = graph_of(cast, on_clarify="fail").invoke({"messages": [("user", play.SENTENCE)]})
    assert final["ended_because"] == "done"
    assert cast.turns["code"] == 3


def test_with_nobody_to_ask_a_leak_ends_the_run_and_keeps_no_signal(play, graph_of, store):
    final = graph_of(play.Cast(code=LEAKY), on_clarify="fail").invoke({"messages": [("user", play.SENTENCE)]})
    assert final["ended_because"] == "causality_failed"
    assert final["signal_ready"] is False
    assert final["strategy"] == {}
    assert final["error_messages"][0].startswith("not_causal: ")


def test_nothing_that_looks_ahead_is_traded(play, store, tmp_path):
    graph = create_trading_graph(
        model=play.Cast(code=LEAKY).model, store=store, on_clarify="fail", ledger=tmp_path / "ledger.sqlite"
    )
    final = graph.invoke({"messages": [("user", play.SENTENCE)], "run_id": "r"})
    assert final["ended_because"] == "causality_failed"
    assert not final.get("summary")


@pytest.mark.parametrize("language", ["zh", "en"])
def test_the_counterexample_is_told_in_the_users_language(play, graph_of, language):
    sentence = play.SENTENCE if language == "en" else f"{play.SENTENCE} 用上涨日规则，上涨买入下跌卖出"
    final = graph_of(play.Cast(code=LEAKY), on_clarify="fail").invoke({"messages": [("user", sentence)]})
    line = final["error_messages"][0]
    assert any("\u4e00" <= letter <= "\u9fff" for letter in line) == (language == "zh")


def _in_turn(play, *codes):
    """Another code at each new turn; one cell a turn."""

    def answer(messages, turn):
        done = any(message.type == "tool" for message in messages)
        return "done" if done else play.tool_call("python_repl", query=codes[turn - 1])

    return answer
