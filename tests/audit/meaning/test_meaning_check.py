"""Code held against words: the cells that a model wrote, on the real files."""

import numpy as np
import pandas as pd
import pytest

from quantgraph.audit.meaning import ExpectedSignal, check_meaning
from quantgraph.data import open_source
from quantgraph.sentences import RequestContext, read_request, write_code
from quantgraph.sentences.evaluation import RuleData, rule_readings

CROSS = "收盘价上穿20日均线买入，下穿卖出"


@pytest.fixture(scope="module")
def bars(a_share):
    source = open_source(a_share)
    sessions = source.sessions()
    return source.bars(source.symbols(), sessions[0], sessions[-1])


def only(bars, *symbols):
    return {name: frame[list(symbols)] for name, frame in bars.items()}


class Snapshot(dict):
    """A snapshot of bars that nothing adjusts."""

    def __init__(self, bars):
        super().__init__(ohlcv=bars)

    def adjusted(self, name):
        return self["ohlcv"][name]


def run(shared_data, cell, bars):
    made = {}

    class State:
        update = staticmethod(lambda field, signals: made.update(signals))

    code = (shared_data / "model-replies" / "cells" / f"{cell}.py").read_text()
    exec(code, {"snapshot": Snapshot(bars), "GLOBAL_DATA_STATE": State, "pd": pd, "np": np, "print": print})
    return made.popitem()[1]


def checked(signal, bars, sentence="", **said):
    rule = read_request(sentence, RequestContext()).strategy if sentence else None
    readings = None if rule is None else rule_readings(rule, RuleData(bars=bars))
    return check_meaning(signal, bars["close"], ExpectedSignal(sentence=sentence, **said), readings)


def crosses(close):
    """Sessions on which the close is above its mean of 20 and was not the session before, by loops."""
    count = 0
    for _, series in close.items():
        values = series.to_list()
        above = [values[at] > sum(values[at - 19 : at + 1]) / 20 for at in range(19, len(values))]
        count += sum(now and not before for before, now in zip(above, above[1:], strict=False))
    return count


def test_the_cross_on_objects_is_found_with_both_counts(shared_data, bars):
    one = only(bars, "600519.SH")
    signal = run(shared_data, "cross_ma20_object_dtype", one)
    (held,) = (
        each for each in checked(signal, one, CROSS, event="cross") if each.code == "meaning_not_an_event"
    )
    buys = int((signal == 1).sum().sum())
    assert buys == 94
    assert f"buys on {buys} cells" in held.message
    assert f"The words buy on {crosses(one['close'])}" in held.message
    assert crosses(one["close"]) == 10


def test_a_turtle_is_blind_behind_suspensions(shared_data, bars):
    signal = run(shared_data, "turtle_2n_trail", bars)
    (finding,) = checked(signal, bars)
    assert finding.code == "meaning_blind"
    assert "600150.SH" in finding.message
    assert "688981.SH" in finding.message


@pytest.mark.parametrize(
    ("cell", "sentence"),
    [
        ("bollinger_right", "收盘价突破布林带上轨(20,2)买入，跌破中轨卖出"),
        ("sma_cross_right", "5日均线上穿20日均线买入，下穿卖出"),
    ],
)
@pytest.mark.parametrize("symbols", [("600036.SH",), ("600519.SH", "601318.SH", "600036.SH")])
def test_right_cells_have_no_finding(shared_data, bars, cell, sentence, symbols):
    some = only(bars, *symbols)
    assert (
        checked(run(shared_data, cell, some), some, sentence, event="cross" if "cross" in cell else "break")
        == ()
    )


def test_a_right_cell_that_waits_for_what_does_not_happen_never_buys_and_no_more(shared_data, bars):
    signal = run(shared_data, "rsi_two_days_ma60", bars)
    assert [each.code for each in checked(signal, bars, per_symbol=True)] == ["meaning_never_buys"]


def test_a_difference_comes_first_and_quotes_the_words(shared_data, bars):
    some = only(bars, "600519.SH", "600036.SH")
    first, *_ = checked(run(shared_data, "sma_cross_right", some), some, CROSS)
    assert first.code == "meaning_differs"
    assert CROSS in first.message


BREAKOUT = "突破30日新高买入，跌破15日新低卖出"


def breakout(bars, period):
    """A breakout on the sessions that each stock traded."""
    by_stock = {
        name: frame.apply(lambda s: s.dropna().shift(1)).reindex(frame.index) for name, frame in bars.items()
    }
    high, low = (
        by_stock[name].apply(lambda s, n=n, f=f: getattr(s.dropna().rolling(n), f)().reindex(s.index))
        for name, n, f in (("high", period, "max"), ("low", 15, "min"))
    )
    close = bars["close"]
    signal = pd.DataFrame(0.0, index=close.index, columns=close.columns)
    return signal.mask(close > high, 1.0).mask(close < low, -1.0).where(high.notna())


def test_a_wrong_period_is_found_on_a_stock_whose_differences_begin_after_its_suspension(bars):
    """12 positions of 688041.SH differ, from 29 July on; it did not trade from 26 May to 9 June."""
    star = only(bars, "688041.SH")
    lookback = write_code(read_request(BREAKOUT, RequestContext()).strategy).rule.lookback + 1
    assert checked(breakout(star, 30), star, BREAKOUT, lookback=lookback) == ()
    (found,) = checked(breakout(star, 20), star, BREAKOUT, lookback=lookback)
    assert (found.code, found.session, found.count) == ("meaning_differs", "2025-07-29", 12)


def test_a_right_rank_in_long_form_has_no_finding(shared_data, bars):
    """18 positions differ from the rank of sessions without gaps: each begins where a window holds a suspension."""
    sentence = "buy the top 10 by 40-day return, sell when not in the top 20"
    signal = run(shared_data, "s18_right_long_form", bars)
    assert checked(signal, bars, sentence, lookback=41) == ()


def test_each_tie_of_two_averages_may_be_decided_by_rounding_in_its_own_way():
    """Three ties: a code that counts the first and not the others follows no convention for all of them."""
    sessions = pd.date_range("2024-01-01", periods=14, freq="B")
    close = pd.DataFrame({"a": [5.0, 4, 4, 6, 6, 6, 4, 4, 4, 6, 6, 6, 4, 4]}, index=sessions)
    fast, slow = close, close.rolling(3).mean()
    above = (fast > slow).where(slow.notna())
    tied = np.isclose(fast, slow)
    assert tied.sum() == 3
    mixed = above.astype("float").mask(
        pd.DataFrame(tied, index=sessions, columns=["a"]) & (sessions < sessions[7])[:, None], 1.0
    )
    was = mixed.shift(1)
    signal = (
        (0.0 * close)
        .mask((mixed == 1) & (was == 0), 1.0)
        .mask((mixed == 0) & (was == 1), -1.0)
        .where(slow.notna())
    )
    bars = dict.fromkeys(("open", "high", "low", "close", "vol"), close)
    assert checked(signal, bars, "收盘价上穿3日均线买入，下穿卖出") == ()
    wrong = -signal
    assert [each.code for each in checked(wrong, bars, "收盘价上穿3日均线买入，下穿卖出")][:1] == [
        "meaning_differs"
    ]
