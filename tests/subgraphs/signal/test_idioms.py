"""Each idiom of the prompt runs in the sandbox and is proved to use no future; a rule gets those it needs."""

from __future__ import annotations

import pandas as pd
import pytest

from quantgraph.audit.causality import CodeTrials, check_causality
from quantgraph.data.sample import SampleSource
from quantgraph.market import Moment, session_of
from quantgraph.state import DataState
from quantgraph.subgraphs.signal._attempts import IDIOMS, idioms_for

pytestmark = pytest.mark.proof

CODES = ("000341.SZ", "000342.SZ", "000343.SZ")
WINDOW = ("20240102", "20240628")
PRELUDE = """\
import talib
close = snapshot["ohlcv"]["close"]
zero = pd.DataFrame(0.0, index=close.index, columns=close.columns)
fast, slow = (close.apply(lambda s: s.dropna().rolling(n).mean().reindex(s.index)) for n in (5, 20))
score, code = close.pct_change(20), "000016.SH"
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


@pytest.mark.parametrize("name", IDIOMS)
def test_an_idiom_runs_and_uses_no_future(name, view, runner):
    cell = f'{PRELUDE}{IDIOMS[name].code}\nGLOBAL_DATA_STATE.update("signal", {{"s": signal}})'
    cell = cell.replace("order <= 10", "order <= 1").replace("order > 10", "order > 1")
    trials, panel = CodeTrials(runner, [cell], "s"), view.frozen()
    whole = trials.whole(panel)
    assert whole.signal is not None, whole.error
    verdict = check_causality(trials, panel, warm_up=False)
    assert verdict.causal, verdict.text("en")
    assert set(pd.unique(whole.signal.frame.to_numpy().ravel())) >= {1.0, -1.0}, "it buys and sells"


@pytest.mark.parametrize(
    ("rule", "names"),
    [
        ("5日均线上穿20日均线买入，下穿卖出", {"event"}),
        ("buy when the close crosses above its 20-day average", {"event"}),
        ("每周买入60日涨幅最高的10只", {"rank", "weekly"}),
        ("monthly, hold the five stocks with the lowest ratio", {"rank", "monthly"}),
        ("hold the 5 stocks with the best 60-day return", {"rank"}),
        ("sell 8% below the highest close since the entry", {"path"}),
        ("放量创60日新高买入，从最高点回落8%卖出", {"path"}),
        ("20-day breakout with a 2 ATR trailing stop", {"event", "path", "suspension"}),
        ("RSI(14)低于30买入，高于70卖出", {"suspension"}),
        ("buy when the close is above 100", set()),
    ],
)
def test_a_rule_gets_the_idioms_that_its_words_need(rule, names):
    text = idioms_for(rule)
    assert {name for name, idiom in IDIOMS.items() if idiom.code in text} == names


@pytest.mark.parametrize(
    ("plan", "names"),
    [
        ({}, {"rank", "weekly", "path"}),
        ({"stop_loss": "0.08"}, {"rank", "weekly"}),
        ({"trade_on": "week_start", "trailing_stop": "0.1"}, {"rank"}),
        ({"size": "equal_weight"}, {"rank", "weekly", "path"}),
    ],
)
def test_what_the_plan_does_needs_no_idiom(plan, names):
    text = idioms_for("每周买入60日涨幅最高的10只，从高点回落10%卖出", plan=plan)
    assert {name for name, idiom in IDIOMS.items() if idiom.code in text} == names


def test_the_idiom_of_the_index_is_for_rules_that_watch_one():
    assert IDIOMS["index"].code in idioms_for("buy above 100", ["000016.SH"])
