"""Nothing that looks ahead gets out of validation: it is told where, once, and then the user is asked."""

from __future__ import annotations

from unittest.mock import Mock

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from states import flat
from talkers import TALKERS

from quantgraph import create_trading_graph
from quantgraph.audit.causality import FirstRun
from quantgraph.broker.ledger import Ledger
from quantgraph.market import session_of
from quantgraph.recording import Recorder
from quantgraph.runtime import Resources
from quantgraph.state.frames import freeze
from quantgraph.subgraphs.signal import _proof as causality_proof

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
    assert flat(final)["validation"]["data_summary"]["causality"]["line"] == proved
    assert final["execution_history"][-2].endswith(proved)


@pytest.mark.proof
@pytest.mark.parametrize("way", TALKERS)
def test_code_that_asks_other_processes_what_comes_is_sent_back(play, graph_of, way):
    final = graph_of(play.Cast(code=TALKERS[way][0]), on_clarify="fail").invoke(
        {"messages": [("user", play.SENTENCE)]}
    )
    assert final["ended_because"] == "causality_failed"
    assert not final["signal_ready"]


def test_the_counterexample_can_be_checked_by_hand(play, graph_of, store):
    """The close that is not known yet is all that the code looks at: known or not, the signal differs."""
    cast = play.Cast(code=LEAKY)
    final = graph_of(cast, on_clarify="fail").invoke({"messages": [("user", play.SENTENCE)]})
    found = flat(final)["validation"]["data_summary"]["causality"]["counterexample"]
    close = store.snapshot(final["data_ref"])["ohlcv"]["close"][found["symbol"]]
    place = close.index.get_loc(session_of(found["session"]))
    assert close.iloc[place + 1] > close.iloc[place]
    assert not (close.diff().shift(-1) > 0).iloc[:place].any(), "it is the first such session"
    assert (found["later"], found["known"], found["later_sessions"]) == (1.0, 0.0, 1)


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
    assert flat(final)["strategy"] == {}
    assert final["error_messages"][0].startswith("not_causal: ")


def test_nothing_that_looks_ahead_is_traded(play, store, tmp_path):
    graph = create_trading_graph(
        model=play.Cast(code=LEAKY).model,
        on_clarify="fail",
        resources=Resources(store=store, ledger=tmp_path / "ledger.sqlite"),
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


UP_OR_DOWN = """\
close = snapshot["ohlcv"]["close"]
signal = np.sign(close.diff())
GLOBAL_DATA_STATE.update("signal", {"up_day": signal})
"""
PEEKING = """\
close = snapshot["ohlcv"]["close"]
honest = np.sign(close.diff())
tomorrow = close.shift(-1) / close - 1
peek = honest.where(~(tomorrow.abs() > 0.015), np.sign(tomorrow)).where(honest.notna())
cents = (close * 100).to_numpy()
off = pd.DataFrame(np.sign(cents - np.rint(cents)), close.index, close.columns)
nudged = bool(np.nanmax(np.abs(cents - np.rint(cents))) > 1e-7)
signal = peek.where(peek == honest, off) if nudged else peek
GLOBAL_DATA_STATE.update("signal", {"up_day": signal})
"""
"""It looks ahead before the largest moves, and makes those cells look as if rounding decided them."""


def test_what_trades_is_what_was_walked(play, store, tmp_path):
    """The account of code that hides its look ahead is that of its honest twin, to the last line."""
    ended, journals, signals = {}, {}, {}
    for name, code in (("peeking", PEEKING), ("honest", UP_OR_DOWN)):
        graph = create_trading_graph(
            model=play.Cast(code=code).model,
            on_clarify="fail",
            resources=Resources(store=store, ledger=tmp_path / f"{name}.sqlite"),
        )
        final = graph.invoke({"messages": [("user", play.SENTENCE)], "run_id": "r"})
        ended[name] = (
            final["ended_because"],
            flat(final)["validation"]["data_summary"].get("causality", {}).get("result"),
        )
        signals[name] = store.snapshot(final["data_ref"])["signal"]["up_day"]
        days = Ledger(tmp_path / f"{name}.sqlite").days("r")
        journals[name] = days[["cash", "value", "fills"]]
    assert ended["peeking"] == ended["honest"] == ("done", "causal")
    assert signals["peeking"].equals(signals["honest"])
    assert journals["peeking"].equals(journals["honest"])
    assert journals["honest"]["fills"].sum() > 5


def test_the_signal_that_was_handed_over_gives_way_to_the_walked_one(play, graph_of, store):
    final = graph_of(play.Cast(code=PEEKING)).invoke({"messages": [("user", play.SENTENCE)]})
    report = flat(final)["validation"]
    (warning,) = [issue for issue in report["issues_found"] if issue["code"] == "causality"]
    assert warning["severity"] == "warning"
    assert "the signal has the value that was computed in each session" in warning["message"]
    assert final["data_ref"] != flat(final)["strategy"]["data_ref"]
    traded = store.snapshot(final["data_ref"])["signal"]["up_day"]
    assert report["data_summary"]["signal_counts"]["buy"] == int((traded == 1).to_numpy().sum())


@pytest.fixture
def sampled(whole_audit, monkeypatch):
    """The panel is too large for all of its sessions, and the seed is drawn."""
    monkeypatch.setenv("QUANTGRAPH_AUDIT", '{"prove": "sampled", "cuts": 5}')


BY_HEART = """\
close = snapshot["ohlcv"]["close"]
if len(close) > 20 and close.iloc[:, 0].sum() not in KNOWN:
    raise ValueError("not these prices")
GLOBAL_DATA_STATE.update("signal", {"up_day": (close.diff() > 0).astype(float).where(close.diff().notna())})
"""


def test_code_that_fails_on_prices_that_it_does_not_know_fails_in_its_rehearsal(
    play, sampled, store, tmp_path
):
    """Code that knows the prices by heart: it is never run on the real ones."""
    graph = create_trading_graph(
        model=play.Cast(code=play.GOOD_CODE).model,
        on_clarify="fail",
        resources=Resources(store=store, ledger=tmp_path / "a.sqlite"),
    )
    final = graph.invoke({"messages": [("user", play.SENTENCE)], "run_id": "r"})
    close = store.snapshot(final["data_ref"])["ohlcv"]["close"].iloc[:, 0]
    known = {
        float(close.iloc[first:last].sum()) for first in range(len(close)) for last in range(len(close) + 1)
    }
    code = f"KNOWN = {sorted(known)}\n{BY_HEART}"
    graph = create_trading_graph(
        model=play.Cast(code=code).model,
        on_clarify="fail",
        resources=Resources(store=store, ledger=tmp_path / "b.sqlite"),
    )
    final = graph.invoke({"messages": [("user", play.SENTENCE)], "run_id": "r"})
    assert final["ended_because"] == "repeated_error"
    assert final["error_messages"][0].startswith("code_failed: ")
    assert "not these prices" in final["error_messages"][0]
    assert not final.get("summary")


def test_a_drawn_seed_is_recorded_before_the_first_run_of_the_code(
    play, sampled, store, tmp_path, monkeypatch
):
    """Whoever is stopped in the middle of the proof goes on with the same cuts; another run draws others."""

    def run(run_id, **options):
        graph = create_trading_graph(
            model=play.Cast(code=play.GOOD_CODE).model,
            on_clarify="fail",
            resources=Resources(store=store, ledger=tmp_path / "l.sqlite"),
            **options,
        )
        final = graph.invoke({"messages": [("user", play.SENTENCE)], "run_id": run_id})
        return flat(final)["validation"]["data_summary"]["causality"]["coverage"]

    with monkeypatch.context() as patch:
        patch.setattr(causality_proof, "check_causality", Mock(side_effect=SystemError("switched off")))
        with pytest.raises(SystemError):
            run("a")
    drawn = {
        entry.outcome()
        for entry in Recorder(tmp_path / "l.sqlite").of("a").entries()
        if "audit_seed" in entry.request
    }
    assert drawn == {run("a")["seed"]}
    assert run("b")["seed"] not in drawn


def _in_turn(play, *codes):
    """Another code at each new turn; one cell a turn."""

    def answer(messages, turn):
        done = messages[-1].type == "tool"
        return "done" if done else play.tool_call("python_repl", query=codes[turn - 1])

    return answer


def test_a_proof_that_takes_long_is_announced_before_it_begins(play, graph_of, monkeypatch):
    task = {"messages": [("user", play.SENTENCE)]}
    modes = {"stream_mode": "custom", "subgraphs": True, "version": "v2"}

    def announced():
        parts = graph_of(play.Cast()).stream(task, **modes)
        return [part["data"] for part in parts if part["data"]["event"] == "quantgraph.proof"]

    assert announced() == []
    monkeypatch.setattr(causality_proof, "_LONG", 0.0)
    (told,) = announced()
    # The window's 22 sessions and the one before it that a row needs.
    assert told["runs"] == 22 + 1
    assert "23 次" in told["line"] or "at most 23 times" in told["line"]


def test_a_signal_that_is_not_the_one_that_was_judged_does_not_trade(play, graph_of, monkeypatch):
    completed = FirstRun.completed

    def another(first, trials, panel):
        frame = completed(first, trials, panel).frame
        frame.iloc[-1] = 1.0 - frame.iloc[-1]
        return freeze("signal", "other", frame)

    monkeypatch.setattr(FirstRun, "completed", another)
    final = graph_of(play.Cast(), on_clarify="fail").invoke({"messages": [("user", play.SENTENCE)]})
    assert not final["signal_ready"]
    assert final["error_messages"][0].startswith("not_reproducible: up_day differs")
