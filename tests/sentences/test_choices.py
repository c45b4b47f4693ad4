"""Which convention code chose is told, with the positions that another would change, counted here by loops."""

import pandas as pd
import pytest
from signal_panels import market_panel

from quantgraph.audit.meaning import ExpectedSignal, check_meaning
from quantgraph.sentences import RequestContext, read_request
from quantgraph.sentences.evaluation import RuleData, convention_choices

BURST = "成交量大于1.5倍5日均量买入，成交量小于5日均量卖出"
WARM = 60


@pytest.fixture(scope="module")
def bars():
    return market_panel(symbols=3, sessions=160)["ohlcv"]


def burst(bars, *, today):
    """The signal of a burst of volume, its average of five sessions with today's or without."""
    marks = {}
    for code, column in bars["vol"].items():
        values, row = column.to_list(), []
        for at, now in enumerate(values):
            usual = values[max(at - 4, 0) : at + 1] if today else values[max(at - 5, 0) : at]
            mean = sum(usual) / 5 if len(usual) == 5 else None
            row.append(0.0 if mean is None else 1.0 if now > 1.5 * mean else -1.0 if now < mean else 0.0)
        marks[code] = row
    return pd.DataFrame(marks, index=bars["vol"].index)


def begun(signal):
    """Cells on which a position begins, from the first session that counts."""
    found = set()
    for code, column in signal.items():
        held = False
        for at, mark in enumerate(column):
            if mark == 1 and not held and at >= WARM:
                found.add((at, code))
            held = mark == 1 or (held and mark != -1)
    return found


def choices(signal, bars, sentence=BURST):
    rule, panel = read_request(sentence, RequestContext()).strategy, RuleData(bars=bars)
    first = bars["close"].index[WARM]

    def holds(group):
        found = check_meaning(signal, bars["close"], ExpectedSignal(), [group], first=first)
        return all(each.code != "meaning_differs" for each in found)

    return convention_choices(rule, panel, holds, first=first)


@pytest.mark.parametrize("today", [True, False])
def test_the_choice_of_the_code_is_told_with_what_the_other_changes(bars, today):
    signal, other = burst(bars, today=today), burst(bars, today=not today)
    ours, theirs = begun(signal), begun(other)
    (choice,) = choices(signal, bars)
    with_today, without = "均量含当天", "均量不含当天"
    assert (choice.chosen.zh, choice.other.zh) == ((with_today, without) if today else (without, with_today))
    assert choice.changed == max(len(ours - theirs), len(theirs - ours)) > 0
    assert choice.positions == max(len(ours), len(theirs))
    assert str(choice.changed) in choice.note.zh
    assert str(choice.changed) in choice.note.en


def test_nothing_is_told_where_all_readings_agree_or_none_is_the_codes(bars):
    level = bars["close"] * 0
    assert choices(level.mask(bars["close"] > 0, 1.0), bars) == []
    above = level.mask(bars["close"] > 20, 1.0).mask(bars["close"] < 20, -1.0)
    assert choices(above, bars, "收盘价高于20买入，低于20卖出") == []
