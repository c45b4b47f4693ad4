"""A fall that the data do not explain is the first note of a run, whichever way its signal came."""

from __future__ import annotations

import pandas as pd
import pytest

from quantgraph import run_strategy
from quantgraph.data import open_source
from quantgraph.runs import run_signal

CODE = """
import pandas as pd
close = snapshot["ohlcv"]["close"]
signal = pd.DataFrame(0.0, index=close.index, columns=close.columns)
signal.iloc[0] = 1.0
GLOBAL_DATA_STATE.update("signal", {"bought": signal})
"""


def first_of(close: pd.DataFrame) -> pd.DataFrame:
    signal = close * 0.0
    signal.iloc[0] = 1.0
    return signal


@pytest.mark.parametrize("way", ["frame", "function", "code", "sentence"])
def test_a_bonus_share_without_an_action_is_the_first_note(way, shared_data, tmp_path):
    file = shared_data / "files" / "bonus_with_pre_close.csv"
    told = "pre_close is below the close before 1 times, first of 600000.SH on 2024-02-13"
    if way == "frame":
        days = open_source(file).sessions()
        result = run_signal(first_of(pd.DataFrame({"600000.SH": 1.0}, index=days)), prices=file, out=tmp_path)
    elif way == "function":
        result = run_strategy(
            strategy=lambda data: first_of(data["ohlcv"]["close"]), source=file, out=tmp_path
        )
    elif way == "code":
        (tmp_path / "own.py").write_text(CODE)
        result = run_strategy(strategy=tmp_path / "own.py", source=file, model="keyless", out=tmp_path)
    else:
        sentence = "600000.SH, buy when the close is above the 2-day average, sell below it"
        result = run_strategy(sentence, source=file, model="keyless", out=tmp_path)
    assert result["ended_because"] == "done"
    assert result["notes"][0].startswith(told)
