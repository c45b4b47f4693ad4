"""Each idiom of the prompt runs in the sandbox and is proved to use no future."""

from __future__ import annotations

import pandas as pd
import pytest

from quantgraph.audit.causality import CodeTrials, check_causality
from quantgraph.data.sample import SampleSource
from quantgraph.market import Moment, session_of
from quantgraph.state import DataState
from quantgraph.subgraphs.signal._agents import prompt_text

pytestmark = pytest.mark.proof

CODES = ("000341.SZ", "000342.SZ", "000343.SZ")
WINDOW = ("20240102", "20240628")
PRELUDE = """\
import talib
close = snapshot["ohlcv"]["close"]
zero = pd.DataFrame(0.0, index=close.index, columns=close.columns)
fast, slow = (close.apply(lambda s: s.dropna().rolling(n).mean().reindex(s.index)) for n in (5, 20))
buy, sell = fast > slow, fast < slow
"""


@pytest.fixture(scope="module")
def view():
    """Three stocks over half a year, one suspended for a week, and an index."""
    store, source = DataState(), SampleSource()
    bars = source.bars(CODES, *map(session_of, WINDOW))
    week = bars["close"].index[40:45]
    bars = {
        name: frame.mask(frame.index.isin(week)[:, None] & [True, False, False])
        for name, frame in bars.items()
    }
    ref = store.update("ohlcv", bars)
    level = bars["close"].mean(axis=1).to_frame("000016.SH")
    ref = store.update("index", {"close": level}, base=ref)
    return store.view(Moment.at(WINDOW[1]), ref)


@pytest.mark.parametrize("language", ["zh", "en"])
@pytest.mark.parametrize("place", range(3))
def test_an_idiom_runs_and_uses_no_future(language, place, view, runner):
    code = prompt_text("idioms", language).split("\n# ")[1:][place]
    cell = f'{PRELUDE}# {code}\nGLOBAL_DATA_STATE.update("signal", {{"s": signal}})'
    trials, panel = CodeTrials(runner, [cell], "s"), view.frozen()
    whole = trials.whole(panel)
    assert whole.signal is not None, whole.error
    verdict = check_causality(trials, panel, warm_up=False)
    assert verdict.causal, verdict.text("en")
    assert set(pd.unique(whole.signal.frame.to_numpy().ravel())) >= {1.0, -1.0}, "it buys and sells"
