"""Faults that show in a signal alone."""

import numpy as np
import pandas as pd
import pytest

from quantgraph.audit.meaning._structure import ExpectedSignal, structural_findings

SESSIONS = pd.bdate_range("2024-01-02", periods=12)
ONE, TWO = "600000.SH", "600519.SH"


def frame(one, two=None):
    two = one if two is None else two
    return pd.DataFrame({ONE: one, TWO: two}, index=SESSIONS, dtype=float)


CLOSE = frame(range(10, 22))
STEPS = [0, 1, 0, 0, -1, 0, 0, 1, 0, -1, 0, 0]
LATER = [0, 0, 1, 0, 0, -1, 0, 0, 1, 0, -1, 0]


def found(signal, said=None, close=CLOSE, first=None):
    given = ExpectedSignal() if said is None else said
    return {each.code: each for each in structural_findings(signal, close, given, first=first)}


def test_an_ordinary_signal_has_no_finding():
    said = ExpectedSignal(event="cross", names_exit=True, per_symbol=True, traded=(ONE, TWO))
    assert found(frame(STEPS, LATER), said) == {}


def test_it_never_buys():
    finding = found(frame([0, -1] * 6))["meaning_never_buys"]
    assert (finding.session, finding.symbol, finding.severity) == ("2024-01-02", ONE, "warning")
    assert "where the signal is 0" in finding.message


def test_it_never_sells_though_the_words_name_an_exit():
    signal = frame([0, 1] * 6)
    assert "meaning_never_sells" in found(signal, ExpectedSignal(names_exit=True))
    assert found(signal) == {}


def test_what_happens_before_the_first_judged_session_does_not_count():
    assert "meaning_never_buys" in found(frame(STEPS), first=SESSIONS[8])


def test_a_cross_that_is_held_is_a_state():
    signal = frame([0, 1, 1, 1, 1, -1, -1, -1, 1, 1, 1, 1], STEPS)
    finding = found(signal, ExpectedSignal(event="cross"))["meaning_not_an_event"]
    assert (finding.session, finding.symbol, finding.count) == (f"{SESSIONS[2]:%Y-%m-%d}", ONE, 6)
    assert "buys on 10 cells, 6 of them right after a buy" in finding.message
    assert found(signal) == {}


def test_an_event_on_most_sessions_is_a_state():
    signal = frame([1, 1, 1, 0, 1, 1, 1, -1, 1, 1, 1, 1])
    assert (
        "on most sessions: 20 cells"
        in found(signal, ExpectedSignal(event="break"))["meaning_not_an_event"].message
    )


def test_a_breakout_may_go_on_for_some_sessions():
    assert found(frame([0, 0, 1, 1, 1, 1, -1, 0, 0, 0, 0, 0], LATER), ExpectedSignal(event="break")) == {}


def test_no_opinion_behind_a_suspension():
    nan = np.nan
    close = CLOSE.copy()
    close.loc[SESSIONS[3:5], TWO] = nan
    signal = frame(STEPS, [nan, 0, 1, nan, nan, nan, nan, nan, nan, 0, -1, 0])
    finding = found(signal, close=close)["meaning_blind"]
    assert (finding.session, finding.symbol, finding.count) == (f"{SESSIONS[5]:%Y-%m-%d}", TWO, 4)


@pytest.mark.parametrize(
    ("gap", "signal"),
    [
        ((3, 4), [np.nan, 0, 1, np.nan, np.nan, 0, 0, 0, 0, 0, -1, 0]),  # a difference to the session before
        ((0, 0), [np.nan] * 6 + [0, 1, 0, -1, 0, 0]),  # the warm-up
        ((0, 2), [np.nan] * 6 + [0, 1, 0, -1, 0, 0]),  # the warm-up of a stock that was listed later
    ],
)
def test_short_and_early_gaps_are_no_blindness(gap, signal):
    close = CLOSE.copy()
    close.iloc[gap[0] : gap[1], 1] = np.nan
    assert found(frame(STEPS, signal), close=close) == {}


def test_signals_that_are_equal_though_the_rule_is_of_each_symbol():
    assert "meaning_alike" in found(frame(STEPS), ExpectedSignal(per_symbol=True))
    assert found(frame(STEPS)) == {}


def test_symbols_and_spans_that_were_not_said():
    january = (SESSIONS[0], SESSIONS[5])
    reports = found(frame(STEPS, LATER), ExpectedSignal(traded=(TWO,), windows=(january,)))
    assert (reports["meaning_unsaid_symbol"].symbol, reports["meaning_unsaid_symbol"].count) == (ONE, 4)
    outside = reports["meaning_unsaid_session"]
    assert (outside.session, outside.symbol, outside.count) == (f"{SESSIONS[7]:%Y-%m-%d}", ONE, 4)
