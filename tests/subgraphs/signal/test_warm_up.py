"""A signal is judged from where it no longer depends on where its data begin."""

from __future__ import annotations

import pandas as pd
import pytest
from states import flat

from quantgraph import SignalRule, create_trading_graph
from quantgraph.data import open_source
from quantgraph.errors import RateLimited
from quantgraph.market import session_of
from quantgraph.report import BuyAndHold
from quantgraph.runtime import Resources
from quantgraph.subgraphs.signal._proof import evaluated_from

pytestmark = pytest.mark.usefixtures("whole_audit")

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
    # This stock's averages are never equal, which rounding would decide.
    cast = play.Cast(code=CROSS, reflect=play.intent(ts_code=play.TWO))
    final = graph_of(cast).invoke({"messages": [("user", "an up-day rule")]})
    assert final["ended_because"] == "done"
    close = store.snapshot(final["data_ref"])["ohlcv"]["close"]
    signal = store.snapshot(final["data_ref"])["signal"]["cross"]
    # A mean of 8 needs 8 sessions, its crossing one more: 8 rows before the first that counts.
    first = sample_sessions.get_loc(session_of(play.WINDOW[0]))
    assert list(close.index) == list(sample_sessions[first - 8 : first + WINDOW_SESSIONS])
    assert list(signal.index) == list(sample_sessions[first : first + WINDOW_SESSIONS])
    assert signal.notna().all().all()
    assert flat(final)["strategy"]["warm_up"] == 9
    assert flat(final)["strategy"]["evaluated_from"] == play.WINDOW[0]


MEAN_40 = """\
close = snapshot["ohlcv"]["close"]
GLOBAL_DATA_STATE.update("signal", {"above": (close > close.rolling(40).mean()).astype(float)})
"""
MEAN_300 = MEAN_40.replace("40", "300")
MARCH = {"start_date": "20250303", "end_date": "20250401"}


def above(symbol, count):
    """Row by row whether the close is above its mean of ``count``, on all that the source has."""
    source = open_source("sample")
    close = source.bars([symbol], source.sessions()[0], session_of(MARCH["end_date"]))["close"][symbol]
    return (close > close.rolling(count).mean()).astype(float).loc[session_of(MARCH["start_date"]) :].tolist()


def test_a_need_that_the_window_cannot_show_is_measured_before_it(play, graph_of, store, sample_sessions):
    """22 sessions, in all of which the signal of the window alone is 0: its mean of 40 is not full."""
    cast = play.Cast(code=MEAN_40, reflect=play.intent(ts_code=play.TWO, **MARCH))
    final = graph_of(cast).invoke({"messages": [("user", "an up-day rule")]})
    assert final["ended_because"] == "done"
    assert flat(final)["strategy"]["warm_up"] == 40
    snapshot = store.snapshot(final["data_ref"])
    first = sample_sessions.get_loc(session_of(MARCH["start_date"]))
    assert snapshot["ohlcv"]["close"].index[0] == sample_sessions[first - 39]
    assert snapshot["signal"]["above"][play.TWO].tolist() == above(play.TWO, 40)
    assert flat(final)["validation"]["data_summary"]["not_judged"] == 0


def test_what_needs_more_than_a_year_gets_more(play, graph_of, store):
    cast = play.Cast(code=MEAN_300, reflect=play.intent(**MARCH))
    final = graph_of(cast).invoke({"messages": [("user", "an up-day rule")]})
    assert final["ended_because"] == "done"
    assert sum(above(play.ONE, 300)) > 0
    signal = store.snapshot(final["data_ref"])["signal"]["above"]
    assert signal[play.ONE].tolist() == above(play.ONE, 300)


class _Limited(type(open_source("sample"))):
    """A source that gives nothing from before 2024."""

    def bars(self, symbols, start, end):
        if start < pd.Timestamp("2024-01-01"):
            raise RateLimited("slow down")
        return super().bars(symbols, start, end)


def test_a_source_that_refuses_earlier_data_is_not_the_codes_fault(play, graph_of):
    cast = play.Cast(code=CROSS)
    final = graph_of(cast, source=_Limited()).invoke({"messages": [("user", "an up-day rule")]})
    assert final["ended_because"] == "done"
    assert cast.turns["code"] == 1
    assert any("rate_limited: slow down" in note for note in flat(final)["request"]["notes"])
    assert flat(final)["validation"]["data_summary"]["not_judged"] == 9
    assert "the first 9 are not evaluated" in final["messages"][-1].text


def test_code_that_fails_on_earlier_data_has_the_window_and_says_so(play, graph_of):
    code = "assert len(snapshot['ohlcv']['close']) < 30, 'too long'\n" + CROSS
    final = graph_of(play.Cast(code=code)).invoke({"messages": [("user", "an up-day rule")]})
    assert final["ended_because"] == "done"
    assert any("too long" in note for note in flat(final)["request"]["notes"])


def test_where_the_source_has_nothing_earlier_the_cold_sessions_are_not_judged(
    play, graph_of, store, sample_sessions, tmp_path
):
    window = {"start_date": FIRST_OF_SAMPLE, "end_date": "20230228"}
    cast = play.Cast(code=CROSS, reflect=play.intent(**window))

    def traded(decider, run_id):
        graph = create_trading_graph(
            model=cast.model,
            decider=decider,
            resources=Resources(store=store, ledger=tmp_path / f"{run_id}.sqlite"),
        )
        final = graph.invoke({"messages": [("user", "an up-day rule")], "run_id": run_id})
        assert final["ended_because"] == "done"
        return final

    final = traded(SignalRule(), "rule")
    # Rows 0 to 7 are cold, row 8 is the first that counts, and it is traded at the open of session 9.
    assert flat(final)["strategy"]["evaluated_from"] == f"{sample_sessions[9]:%Y%m%d}"
    assert final["summary"]["equity"]["sessions"][1] == f"{sample_sessions[9]:%Y%m%d}"
    assert flat(final)["validation"]["data_summary"]["warm_up"] == 9
    held = traded(BuyAndHold(), "held")
    assert held["summary"]["equity"]["sessions"][1] == FIRST_OF_SAMPLE, "what is not traded is not waited for"


def test_a_window_in_which_nothing_counts_is_refused_with_what_would_do(play, graph_of):
    window = {"start_date": FIRST_OF_SAMPLE, "end_date": "20230110"}
    cast = play.Cast(code=CROSS, reflect=play.intent(**window))
    final = graph_of(cast, on_clarify="fail").invoke({"messages": [("user", "an up-day rule")]})
    assert final["ended_because"] == "repeated_error"
    assert final["error_messages"][0].startswith("no_opinion: cross ")


def test_a_strategy_that_needs_the_whole_history_is_judged_from_the_start(
    play, graph_of, store, sample_sessions
):
    code = """\
close = snapshot["ohlcv"]["close"]
odd = close.diff().gt(0).cumsum() % 2
GLOBAL_DATA_STATE.update("signal", {"odd": odd.astype(float)})
"""
    final = graph_of(play.Cast(code=code)).invoke({"messages": [("user", "an up-day rule")]})
    assert flat(final)["strategy"]["warm_up"] is None
    assert flat(final)["strategy"]["evaluated_from"] == play.WINDOW[0]
    close = store.snapshot(final["data_ref"])["ohlcv"]["close"]
    assert close.index[0] == sample_sessions[0], "all that there is before it"
    assert f"so all data from {FIRST_OF_SAMPLE} on are used" in flat(final)["request"]["notes"][-1]


@pytest.mark.parametrize(
    ("early", "warm_up", "place"), [(0, None, 0), (0, 1, 0), (0, 3, 3), (2, 3, 0), (1, 3, 2), (0, 11, None)]
)
def test_the_first_session_that_is_judged(early, warm_up, place):
    """Row ``warm_up - 1`` is the first that counts, and a row is traded at the next open."""
    days = pd.date_range("2024-01-01", periods=early + 10)
    found = evaluated_from(days, {"start": f"{days[early]:%Y%m%d}"}, warm_up)
    assert found == (None if place is None else days[early + place])
