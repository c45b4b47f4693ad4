"""What trades was computed before any run of the code had seen a later row, whatever the code does."""

from __future__ import annotations

from contextlib import closing

import numpy as np
import pytest
from channels import CHANNELS
from rehearsal_adversaries import REHEARSAL_ADVERSARIES
from states import flat
from thinned import thinned

from quantgraph.sandbox import ForkRunner, default_runner

pytestmark = pytest.mark.usefixtures("whole_audit")
SHORT = [each for each in REHEARSAL_ADVERSARIES if each.ends in ("honest_or_refused", "fails", "import")]
LONG = [each for each in REHEARSAL_ADVERSARIES if each not in SHORT]
_LIMIT = 2.0


class Watched:
    """A runner that keeps what each run was given, and whether it was a run session by session."""

    def __init__(self):
        self.runs, self._runner = [], default_runner()

    def run(self, cells, frames):
        self.runs.append((False, frames))
        return self._runner.run(cells, frames)

    def prefix_run(self, cells, frames, **rows):
        self.runs.append((True, frames))
        return self._runner.prefix_run(cells, frames, **rows)


def traded(final, store):
    return store.snapshot(final["data_ref"])["signal"][flat(final)["strategy"]["name"]]


def honest(final, store):
    close = store.snapshot(final["data_ref"])["ohlcv"]["close"]
    return np.sign(close - close.shift(5)).fillna(0.0)


def is_refused_or_honest(final, store):
    if final["ended_because"] != "done":
        return not final["signal_ready"]
    signal = traded(final, store)
    return signal.equals(honest(final, store).loc[signal.index, signal.columns])


def test_no_run_has_a_real_row_after_the_first_one_before_the_run_session_by_session(play, graph_of, store):
    runner = Watched()
    final = graph_of(play.Cast(), runner=runner).invoke({"messages": [("user", play.SENTENCE)]})
    assert final["ended_because"] == "done"
    first = [by_session for by_session, _ in runner.runs].index(True)
    assert first >= 2  # the model's cell, and the rehearsal that fixes the window
    real = store.snapshot(final["data_ref"])["ohlcv"]["close"]
    for _, frames in runner.runs[:first]:
        close = frames["ohlcv"]["close"].frame.iloc[1:]
        both = close.index.intersection(real.index)
        assert (close.loc[both] == real.loc[both]).to_numpy().mean() < 0.2
    shown = runner.runs[first][1]["ohlcv"]["close"].frame
    assert shown.equals(real[list(shown.columns)])


HELD = 60
AFTER_DIVIDEND = f"""\
bars = GLOBAL_DATA_STATE.snapshot()["ohlcv"]
goes_ex = bars["dividend"] > 0
signal = pd.DataFrame(0.0, index=goes_ex.index, columns=goes_ex.columns)
signal = signal.mask(goes_ex, 1.0).mask(goes_ex.shift({HELD}, fill_value=False), -1.0)
GLOBAL_DATA_STATE.update("signal", {{"after_dividend": signal}})
"""


def test_a_warm_up_that_real_rows_refute_fails_the_attempt_and_the_next_one_has_it(play, graph_of, store):
    """Invented rows have no dividends: what waits for one needs a single session there."""
    year = {"ts_code": play.TWO, "start_date": "20250102", "end_date": "20251231"}
    cast = play.Cast(code=AFTER_DIVIDEND, reflect=play.intent(**year))
    final = graph_of(cast).invoke({"messages": [("user", "an up-day rule")]})
    assert (final["ended_because"], cast.turns["code"]) == ("done", 2)
    assert f"short_warm_up: after_dividend needs {HELD + 1} sessions on these rows" in cast.said["code"][1]
    assert flat(final)["strategy"]["warm_up"] == HELD + 1
    sessions = store.snapshot(flat(final)["strategy"]["data_ref"])["ohlcv"]["close"].index
    assert (sessions < "2025-01-02").sum() == HELD
    assert flat(final)["strategy"]["evaluated_from"] == "20250102"


@pytest.mark.parametrize("code", thinned(SHORT, lambda number, _: number == 2), ids=lambda code: code.name)
def test_code_that_tells_panels_apart_is_refused_or_trades_its_honest_signal(code, play, graph_of, store):
    graph = graph_of(play.Cast(code=code.cells[0]), on_clarify="fail")
    assert is_refused_or_honest(graph.invoke({"messages": [("user", play.SENTENCE)]}), store)


@pytest.mark.proof
@pytest.mark.parametrize("code", LONG, ids=lambda code: code.name)
def test_code_at_its_limits_is_refused_or_trades_its_honest_signal(code, play, graph_of, store):
    with closing(ForkRunner(timeout=_LIMIT, memory_mb=256)) as runner:
        graph = graph_of(play.Cast(code=code.cells[0]), runner=runner, on_clarify="fail")
        assert is_refused_or_honest(graph.invoke({"messages": [("user", play.SENTENCE)]}), store)


@pytest.mark.proof
@pytest.mark.parametrize("channel", CHANNELS, ids=lambda each: each.name)
def test_a_channel_carries_nothing_to_the_signal_of_a_model(channel, play, graph_of, store, tmp_path):
    (tmp_path / "wide").mkdir()
    graph = graph_of(play.Cast(code=channel.cells(tmp_path)[0]), on_clarify="fail")
    assert is_refused_or_honest(graph.invoke({"messages": [("user", play.SENTENCE)]}), store)
