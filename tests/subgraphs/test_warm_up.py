"""A signal is judged from where it no longer depends on where its data begin."""

from __future__ import annotations

import pandas as pd
import pytest

from quantgraph import SignalRule, create_trading_graph
from quantgraph.agents import BuyAndHold
from quantgraph.data import open_source
from quantgraph.market.moment import session_of
from quantgraph.subgraphs.signal.warm_up import evaluated_from

CROSS = """\
close = snapshot["ohlcv"]["close"]
fast, slow = close.rolling(3).mean(), close.rolling(8).mean()
over = (fast > slow).where(slow.notna())
before = over.shift(1)
signal = pd.DataFrame(0.0, index=close.index, columns=close.columns)
signal = signal.mask((over == 1) & (before == 0), 1.0).mask((over == 0) & (before == 1), -1.0)
GLOBAL_DATA_STATE.update("signal", {"cross": signal.where(before.notna())})
"""
WINDOW_SESSIONS = 22
FIRST_OF_SAMPLE = "20230103"


@pytest.fixture(scope="module")
def sample_sessions():
    return open_source("sample").sessions()


def test_earlier_sessions_are_fetched_so_that_the_first_row_of_the_window_counts(
    play, graph_of, store, sample_sessions
):
    final = graph_of(play.Cast(code=CROSS)).invoke({"messages": [("user", play.SENTENCE)]})
    assert final["ended_because"] == "done"
    close = store.snapshot(final["data_ref"])["ohlcv"]["close"]
    signal = store.snapshot(final["data_ref"])["signal"]["cross"]
    # A mean of 8 needs 8 sessions, its crossing one more: 8 rows before the first that counts.
    first = sample_sessions.get_loc(session_of(play.WINDOW[0]))
    assert list(close.index) == list(sample_sessions[first - 8 : first + WINDOW_SESSIONS])
    assert list(signal.index) == list(sample_sessions[first : first + WINDOW_SESSIONS])
    assert signal.notna().all().all()
    assert final["strategy"]["warm_up"] == 9
    assert final["strategy"]["evaluated_from"] == play.WINDOW[0]


def test_where_the_source_has_nothing_earlier_the_cold_sessions_are_not_judged(
    play, graph_of, store, sample_sessions, tmp_path
):
    window = {"start_date": FIRST_OF_SAMPLE, "end_date": "20230228"}
    cast = play.Cast(code=CROSS, reflect=play.intent(**window))

    def traded(decider, run_id):
        graph = create_trading_graph(
            model=cast.model, store=store, decider=decider, ledger=tmp_path / f"{run_id}.sqlite"
        )
        final = graph.invoke({"messages": [("user", play.SENTENCE)], "run_id": run_id})
        assert final["ended_because"] == "done"
        return final

    final = traded(SignalRule(), "rule")
    # Rows 0 to 7 are cold, row 8 is the first that counts, and it is traded at the open of session 9.
    assert final["strategy"]["evaluated_from"] == f"{sample_sessions[9]:%Y%m%d}"
    assert final["summary"]["equity"]["sessions"][1] == f"{sample_sessions[9]:%Y%m%d}"
    assert final["summary"]["warm_up"] == 9
    held = traded(BuyAndHold(), "held")
    assert held["summary"]["equity"]["sessions"][1] == FIRST_OF_SAMPLE, "what is not traded is not waited for"


def test_a_window_in_which_nothing_counts_is_refused_with_what_would_do(play, graph_of):
    window = {"start_date": FIRST_OF_SAMPLE, "end_date": "20230110"}
    cast = play.Cast(code=CROSS, reflect=play.intent(**window))
    final = graph_of(cast, on_clarify="fail").invoke({"messages": [("user", play.SENTENCE)]})
    assert final["ended_because"] == "repeated_error"
    assert final["error_messages"][0].startswith("no_opinion: cross ")


def test_a_strategy_that_needs_the_whole_history_is_judged_from_the_start(play, graph_of):
    code = CROSS.replace("close.rolling(8).mean()", "close.expanding(2).mean()")
    final = graph_of(play.Cast(code=code)).invoke({"messages": [("user", play.SENTENCE)]})
    assert final["strategy"]["warm_up"] is None
    assert final["strategy"]["evaluated_from"] == play.WINDOW[0]


@pytest.mark.parametrize(
    ("early", "warm_up", "place"), [(0, None, 0), (0, 1, 0), (0, 3, 3), (2, 3, 0), (1, 3, 2), (0, 11, None)]
)
def test_the_first_session_that_is_judged(early, warm_up, place):
    """Row ``warm_up - 1`` is the first that counts, and a row is traded at the next open."""
    days = pd.date_range("2024-01-01", periods=early + 10)
    found = evaluated_from(days, {"start": f"{days[early]:%Y%m%d}"}, warm_up)
    assert found == (None if place is None else days[early + place])
