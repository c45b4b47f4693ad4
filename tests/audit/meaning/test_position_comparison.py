"""Positions are compared, not cells."""

import numpy as np
import pandas as pd

from quantgraph.audit.meaning import compare_positions

SESSIONS = pd.bdate_range("2024-01-02", periods=10)
ONE, TWO = "600000.SH", "600519.SH"
FLAT = [0.0] * 10


def frame(one, two=None):
    return pd.DataFrame({ONE: one, TWO: FLAT if two is None else two}, index=SESSIONS, dtype=float)


CLOSE = frame(range(10, 20), range(20, 30))
STATE = [1, 1, -1, -1, 1, 1, 1, -1, -1, -1]
EVENT = [0, 0, -1, 0, 1, 0, 0, -1, 0, 0]


def difference(code, words, close=CLOSE, **more):
    return compare_positions(code, words, close, **more)


def test_a_state_and_its_event_are_one_rule_in_both_directions():
    assert difference(frame(STATE), frame(EVENT)) is None
    assert difference(frame(EVENT), frame(STATE)) is None


def test_code_that_waits_for_the_beginning_of_a_state_is_out_until_then():
    waiting = [0, 0, -1, 0, 1, 0, 0, -1, 0, 0]
    found = difference(frame(waiting), frame(STATE), state=True)
    assert (found.session, found.symbol, found.code_long, found.cells) == (SESSIONS[0], ONE, False, 2)
    assert found.waits
    assert difference(frame(STATE), frame(STATE), state=True) is None
    blind = [np.nan, np.nan, *waiting[2:]]
    assert difference(frame(blind), frame(STATE), state=True) is None, "not known yet"


def test_nan_keeps_the_position():
    gaps = [1, np.nan, -1, np.nan, 1, np.nan, np.nan, -1, np.nan, np.nan]
    assert difference(frame(gaps), frame(STATE)) is None


def test_the_first_difference_is_named():
    late = [0, 0, 0, -1, 0, 1, 0, -1, 0, 0]
    found = difference(frame(FLAT, late), frame(FLAT, [0, 0, -1, 0, 1, 0, 0, -1, 0, 0]))
    assert (found.session, found.symbol, found.code_long, found.cells) == (SESSIONS[4], TWO, False, 1)


def test_a_signal_that_never_speaks_is_out_all_the_time():
    found = difference(frame(FLAT), frame([0, 0, 0, 1, 0, 0, 0, 0, 0, 0]))
    assert (found.session, found.symbol, found.cells) == (SESSIONS[3], ONE, 7)
    assert difference(frame(FLAT), frame([-1] * 10)) is None


def test_a_position_that_ends_before_the_code_first_speaks_is_a_difference():
    words = [1, 0, -1, 0, 1, 0, 0, -1, 0, 0]
    assert difference(frame([0, 0, 0, 0, 1, 0, 0, -1, 0, 0]), frame(words)).session == SESSIONS[2]


def test_an_entry_in_the_middle_may_not_be_missed():
    words, code = [0, 0, 0, 1, 0, -1, 0, 1, 0, 0], [0, 0, 0, 0, 0, -1, 0, 1, 0, 0]
    warm = [np.nan, *words[1:]]
    assert difference(frame(code), frame(warm)).session == SESSIONS[3]
    assert difference(frame(code), frame(words)) is None  # it may have been held before the first row


def test_after_a_suspension_code_may_be_silent_as_long_as_the_rule_looks_back():
    close = CLOSE.copy()
    close.loc[SESSIONS[2], ONE] = np.nan
    late = [1, 1, -1, -1, 0, 1, 1, -1, -1, -1]
    assert difference(frame(late), frame(STATE), close=close, lookback=2) is None
    assert difference(frame(late), frame(STATE), close=close, lookback=1).session == SESSIONS[4]
    assert difference(frame(late), frame(STATE), lookback=2).session == SESSIONS[4], "there was none"
    early = [1, -1, -1, -1, 1, 1, 1, -1, -1, -1]
    assert difference(frame(early), frame(STATE), close=close, lookback=9).session == SESSIONS[1]


def test_after_a_suspension_a_position_that_the_words_do_not_hold_is_a_difference():
    close = CLOSE.copy()
    close.loc[SESSIONS[2], ONE] = np.nan
    out = [1, 1, -1, -1, -1, -1, -1, -1, -1, -1]
    buys = [1, 1, -1, -1, 1, 1, -1, -1, -1, -1]
    assert difference(frame(buys), frame(out), close=close, lookback=9).session == SESSIONS[4]


def test_sessions_without_trading_and_before_the_first_are_not_difference():
    close = CLOSE.copy()
    close.loc[SESSIONS[4], ONE] = np.nan
    code = [1, 1, -1, -1, 0, 1, 1, -1, -1, -1]
    assert difference(frame(code), frame(STATE)).session == SESSIONS[4]
    assert difference(frame(code), frame(STATE), close=close) is None
    assert difference(frame(code), frame(STATE), first=SESSIONS[5]) is None
