"""A signal of other data is refused where the code hands it over, and once more by the host."""

from __future__ import annotations

import pytest

from quantgraph.errors import CodeFailed
from quantgraph.market import Moment
from quantgraph.sandbox import open_prefix_run
from quantgraph.sandbox._runner import FreshRunner
from quantgraph.tools._code import TrustedRunner

pytestmark = pytest.mark.proof

CLOSE = "close = snapshot['ohlcv']['close']\nzero = close * 0.0"
LATER = f"{CLOSE}\nzero.index = zero.index + pd.Timedelta(days=1)"
HAND_OVER = "GLOBAL_DATA_STATE.update('signal', {'s': zero})"
LONGER = f"GLOBAL_DATA_STATE.update('ohlcv', {{'close': zero + 1}})\n{HAND_OVER}"
FORGED = """
import json, os, struct
frames = [{"panel": "signal", "name": "s", "axis": 0}]
def everywhere(day, symbol):
    axes = [{"sessions": [day * 86_400_000_000], "symbols": [symbol]}]
    told = {"stdout": "", "value": "", "error": None, "frames": frames, "axes": axes}
    text, body = json.dumps(told).encode(), struct.pack("<d", 1.0)
    for number in range(3, 64):
        try:
            os.write(number, struct.pack("<QQ", len(text), len(body)) + text + body)
        except OSError:
            pass
    os._exit(0)
"""
# 2024-01-08, the last session of the data, is 19730 days after 1970-01-01.


@pytest.fixture(params=["fork", "fresh", "trusted"])
def runner(request, forker):
    made = {"fork": lambda: forker, "fresh": lambda: FreshRunner(timeout=15.0), "trusted": TrustedRunner}
    return made[request.param]()


def test_the_code_gets_the_error_with_its_line(runner, frames):
    error = runner.run([f"{LATER}\n{HAND_OVER}"], frames).error
    assert error.line.startswith(
        "code_failed: line 4 (GLOBAL_DATA_STATE.update('signal', {'s': zero})): BadFrame: signal['s'] has 0 at "
        "(2024-01-06, 000001.SZ), which is not a session of the data (5 from 2024-01-02 to 2024-01-08)"
    )


def test_code_that_changes_its_own_data_first_is_refused_by_the_host(runner, frames):
    result = runner.run([f"{LATER}\n{LONGER}"], frames)
    assert type(result.error) is CodeFailed
    assert result.error.message.startswith("the code returned a signal of other data: signal['s'] has 0 at (")
    assert result.error.data == {"session": "2024-01-06", "symbol": "000001.SZ", "value": 0.0}
    assert result.signals == {}


@pytest.mark.parametrize(
    ("cell", "place"),
    [
        ("19731, '600000.SH'", "(2024-01-09, 600000.SH), which is not a session"),
        ("19730, '600000.SZ'", "(2024-01-08, 600000.SZ), which is not a symbol"),
    ],
)
@pytest.mark.parametrize("kind", ["fork", "fresh"])
def test_a_forged_reply_of_other_data_is_refused_too(kind, forker, frames, cell, place):
    runner = forker if kind == "fork" else FreshRunner(timeout=15.0)
    result = runner.run([FORGED, f"everywhere({cell})"], frames)
    assert place in result.error.message
    assert result.signals == {}
    assert list(runner.run([CLOSE + "\n" + HAND_OVER], frames).signals) == ["s"]


@pytest.mark.parametrize("forged", [False, True])
def test_at_each_step_of_a_walk_the_data_end_where_they_were_cut(forker, frames, forged):
    last = (
        f"{CLOSE}\nlast = pd.DatetimeIndex(['2024-01-08'])\nzero = zero.iloc[-1:].set_axis(last)\n{HAND_OVER}"
    )
    cells = [FORGED, "everywhere(19730, '600000.SH')"] if forged else [last]
    with open_prefix_run(forker, cells, frames) as steps:
        early = steps.at(Moment.at("2024-01-05"))
        assert "2024-01-08, " in early.error.message
        assert "not a session of the data (4 from 2024-01-02 to 2024-01-05)" in early.error.message
        assert list(steps.at(Moment.at("2024-01-08")).signals) == ["s"]


def test_booleans_are_refused_with_what_to_write(forker, frames):
    error = forker.run([f"{CLOSE}\nzero = close > 3\n{HAND_OVER}"], frames).error
    assert error.message.endswith(
        "BadFrame: signal['s'] has False at (2024-01-02, 000001.SZ); it must be a number: use .astype(float), the name held, or entries and exits"
    )


ODD = {
    "no row": "zero.iloc[:0]",
    "no column": "zero.iloc[:, :0]",
    "a time zone": "zero.tz_localize('UTC')",
    "text for days": "zero.set_axis(list('abcde'))",
    "numbers for days": "zero.set_axis(range(5))",
    "periods": "zero.set_axis(zero.index.to_period('D'))",
    "dates of Python's": "zero.set_axis(pd.Index([day.date() for day in zero.index], dtype=object))",
    "two levels": "zero.set_axis(pd.MultiIndex.from_product([['x'], zero.index]))",
    "two levels of columns": "zero.set_axis(pd.MultiIndex.from_product([['x'], zero.columns]), axis=1)",
    "a column twice": "zero.iloc[:, [0, 0]]",
    "columns that are numbers": "zero.set_axis(range(3), axis=1)",
    "columns with NaN": "zero.set_axis(['000001.SZ', None, '600519.SH'], axis=1)",
    "days before the data": "zero.set_axis(zero.index - pd.Timedelta(days=30))",
    "a day between": "zero.set_axis([*zero.index[:4], pd.Timestamp('2024-01-07')])",
    "2": "zero + 2",
    "infinity": "zero + np.inf",
    "objects": "zero.astype(object).mask(close > 3, None)",
    "text": "zero.astype(str)",
    "booleans": "close > 3",
    "nullable booleans": "(close > 3).astype('boolean')",
    "sparse booleans": "(close > 3).astype(pd.SparseDtype(bool))",
    "categories": "zero.astype('category')",
    "complex numbers": "zero.astype(complex)",
    "times": "zero.astype('datetime64[ns]')",
    "another order": "zero.iloc[::-1]",
    "a day twice": "zero.iloc[[0, 0, 1]]",
    "noon": "zero.set_axis(zero.index + pd.Timedelta(hours=12))",
    "not a time": "zero.set_axis(pd.DatetimeIndex([*zero.index[:4], pd.NaT]))",
    "a series": "zero.iloc[:, 0]",
    "an array": "zero.to_numpy()",
    "nothing": "None",
    "a dict": "{'000001.SZ': [0] * 5}",
}


@pytest.mark.parametrize("name", ODD)
def test_an_odd_signal_is_a_typed_error_with_its_line(forker, frames, name):
    result = forker.run(
        [f"{CLOSE}\nodd = {ODD[name]}\nGLOBAL_DATA_STATE.update('signal', {{'s': odd}})"], frames
    )
    assert type(result.error) is CodeFailed
    assert result.error.data == {"type": "BadFrame", "cell_line": 4}
    assert "BadFrame: signal['s'] " in result.error.message
    assert result.signals == {}


@pytest.mark.parametrize(
    "plain", ["zero.astype('Int64')", "zero.astype(pd.SparseDtype(float))", "zero.astype('uint8')", "zero.iloc[1:, [2, 0]]"]
)  # fmt: skip
def test_numbers_of_any_kind_are_accepted(forker, frames, plain):
    result = forker.run([f"{CLOSE}\nGLOBAL_DATA_STATE.update('signal', {{'s': {plain}}})"], frames)
    assert result.error is None
    assert (result.signals["s"].to_numpy() == 0).all()
