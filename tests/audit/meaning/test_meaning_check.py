"""Code held against words: the cells that a model wrote, on the real files."""

import numpy as np
import pandas as pd
import pytest

from quantgraph.audit.meaning import Said, check_meaning
from quantgraph.data import open_source
from quantgraph.sentences import RequestContext, read_request
from quantgraph.sentences.evaluation import RuleData, rule_readings

CROSS = "收盘价上穿20日均线买入，下穿卖出"


@pytest.fixture(scope="module")
def bars(a_share):
    source = open_source(a_share)
    sessions = source.sessions()
    return source.bars(source.symbols(), sessions[0], sessions[-1])


def only(bars, *symbols):
    return {name: frame[list(symbols)] for name, frame in bars.items()}


def run(shared_data, cell, bars):
    made = {}

    class State:
        update = staticmethod(lambda field, signals: made.update(signals))

    code = (shared_data / "model-replies" / "cells" / f"{cell}.py").read_text()
    exec(code, {"snapshot": {"ohlcv": bars}, "GLOBAL_DATA_STATE": State, "pd": pd, "np": np, "print": print})
    return made.popitem()[1]


def checked(signal, bars, sentence="", **said):
    rule = read_request(sentence, RequestContext()).strategy if sentence else None
    readings = None if rule is None else rule_readings(rule, RuleData(bars=bars))
    return check_meaning(signal, bars["close"], Said(sentence=sentence, **said), readings)


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
