"""What of the past another commit tells differently: the earliest change is named."""

from __future__ import annotations

from datetime import datetime

import numpy as np
import pandas as pd
import pytest

from quantgraph.market import Moment
from quantgraph.state import DataState, Record, first_change

DAYS = pd.DatetimeIndex(["2025-03-03", "2025-03-04", "2025-03-05", "2025-03-06"])
CLOSE = pd.DataFrame({"AAA": [1.0, 2.0, np.nan, 4.0], "BBB": [0.0, 6.0, 7.0, 8.0]}, DAYS)
NEWS = Record("news", datetime(2025, 3, 4, 9), "AAA", {"title": "up"})


def told(change, moment="close", records=(NEWS,)):
    store = DataState()
    old = store.record([NEWS], base=store.update("ohlcv", {"open": CLOSE, "close": CLOSE}, base=store.empty))
    new = store.record(records, base=store.update("ohlcv", change, base=store.empty))
    day = Moment(DAYS[2], moment)
    return first_change(store.view(day, old), store.view(day, new))


def changed(row, symbol, value):
    frame = CLOSE.copy()
    frame.loc[DAYS[row], symbol] = value
    return frame


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"open": CLOSE, "close": CLOSE}, ""),
        ({"open": CLOSE, "close": changed(0, "BBB", -0.0)[["BBB", "AAA"]]}, ""),
        ({"open": CLOSE, "close": changed(3, "AAA", 5.0)}, ""),  # after the moment
        ({"open": CLOSE, "close": changed(1, "BBB", 6.5)}, "close of BBB on 2025-03-04 was 6 and is 6.5"),
        ({"open": CLOSE, "close": changed(2, "AAA", 3.0)}, "close of AAA on 2025-03-05 was nan and is 3"),
        ({"open": changed(1, "AAA", 9.0), "close": changed(0, "AAA", 9.0)}, "close of AAA on 2025-03-03 was 1 and is 9"),
        ({"open": CLOSE, "close": CLOSE.drop(index=DAYS[1])}, "the row 2025-03-04 of close is gone"),
        ({"open": CLOSE, "close": CLOSE.assign(CCC=1.0)}, "the symbol CCC of close is new"),
        ({"open": CLOSE, "close": CLOSE, "vol": CLOSE}, "the field 'vol' of ohlcv is new"),
        ({"open": CLOSE}, "the field 'close' of ohlcv is gone"),
    ],
)  # fmt: skip
def test_the_earliest_change_before_the_moment_is_named(change, line):
    assert told(change) == line


def test_revised_news_are_a_change_and_later_ones_are_not():
    same = {"open": CLOSE, "close": CLOSE}
    revised = Record("news", NEWS.known, "AAA", {"title": "down"})
    later = Record("news", datetime(2025, 3, 5, 18), "AAA", {"title": "up again"})
    assert told(same, records=(revised,)).startswith("a record is gone: Record(news AAA, known 2025-03-04")
    assert told(same, records=(NEWS, revised)).startswith("a record is new: Record(news AAA")
    assert not told(same, records=(NEWS, later))
