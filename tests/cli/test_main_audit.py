"""``quantgraph audit``: a strategy file is proved causal or refuted, and the exit status says which."""

from __future__ import annotations

import json

import pandas as pd
import pytest
from typer.testing import CliRunner

from quantgraph.audit.causality import CodeTrials, check_causality
from quantgraph.cli._main import app
from quantgraph.data import open_source
from quantgraph.market import Moment
from quantgraph.runs import RunSpec, run_strategy
from quantgraph.runs._outputs import strategy_source
from quantgraph.runs.verification import audit_strategy, read_strategy
from quantgraph.sandbox import default_runner
from quantgraph.state import DataState

pytestmark = pytest.mark.usefixtures("whole_audit")

HONEST = """\
close = snapshot["ohlcv"]["close"]
signal = (close > close.rolling(5).mean()).astype(float).where(close.rolling(5).mean().notna())
GLOBAL_DATA_STATE.update("signal", {"above": signal})
"""
LEAKY = HONEST.replace("close.rolling(5).mean())", "close.shift(-1))").replace("above", "peek")
WHAT = ["--source", "sample", "--symbols", "000342.SZ,000343.SZ", "--start", "20240102", "--end", "20240430"]


def call(*arguments):
    return CliRunner().invoke(app, ["audit", *arguments])


@pytest.fixture
def strategy(tmp_path):
    def write(text, name="strategy.py"):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return str(path)

    return write


def test_a_causal_strategy_is_proved_at_every_session(strategy):
    done = call(strategy(HONEST), *WHAT)
    assert (done.exit_code, done.stdout) == (0, "causal: proved at 78 of 78 sessions\n")


def test_a_leak_is_shown_in_one_line_and_in_the_exit_status(strategy):
    done = call(strategy(LEAKY), *WHAT)
    assert done.exit_code == 1
    (line,) = done.stdout.splitlines()
    assert line.startswith("not causal: the signal of 00034")
    assert "shift(-1)" in line


ODD = {
    "days after the data": "(close * 0).set_axis(close.index + pd.Timedelta(days=365))",
    "a few days more": "pd.concat([close * 0, (close.iloc[:3] * 0).set_axis(close.index[-1] + pd.to_timedelta([1, 2, 3], 'D'))])",
    "another symbol": "(close * 0).set_axis(['600000.SH', '600519.SH'], axis=1)",
    "booleans": "close > 0",
    "no row": "close.iloc[:0]",
    "a time zone": "(close * 0).tz_localize('UTC')",
    "objects": "(close * 0).astype(object).mask(close > 0, 'buy')",
    "a series": "close.iloc[:, 0] * 0",
    "nothing": "None",
}


@pytest.mark.parametrize("name", ODD)
def test_an_invalid_signal_is_never_called_causal(strategy, name):
    code = f"close = snapshot['ohlcv']['close']\nGLOBAL_DATA_STATE.update('signal', {{'s': {ODD[name]}}})\n"
    done = call(strategy(code), *WHAT)
    assert (done.exit_code, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith(
        "code_failed: the strategy fails on invented rows, before its first run: line 2 (GLOBAL_DATA_STATE.update("
    )
    assert "BadFrame: signal['s'] " in line


def test_a_signal_of_fixed_days_is_refuted_where_they_were_not_there_yet(strategy):
    code = (
        "days = pd.DatetimeIndex(['2024-01-02', '2024-04-30'])\n"
        "signal = pd.DataFrame(1.0, index=days, columns=['000342.SZ'])\n"
        "GLOBAL_DATA_STATE.update('signal', {'s': signal})\n"
    )
    done = call(strategy(code), *WHAT)
    assert done.exit_code == 1
    assert done.stdout.startswith("not causal: ")


def test_the_verdict_as_json(strategy):
    good, bad = (json.loads(call(strategy(text), *WHAT, "--json").stdout) for text in (HONEST, LEAKY))
    assert (good["causal"], good["counterexample"]) == (True, None)
    assert (good["coverage"]["proved"], good["coverage"]["sessions"], good["warm_up"]) == (78, 78, 5)
    assert bad["causal"] is False
    assert bad["counterexample"]["session"] >= "2024-01-02"


def test_too_many_sessions_are_sampled_unless_all_are_asked_for(strategy, monkeypatch):
    monkeypatch.setenv("QUANTGRAPH_AUDIT", '{"prove": "sampled", "cuts": 7}')
    path = strategy(HONEST)
    aimed = call(path, *WHAT).stdout
    # Four of seven are drawn from all: 1 - 0.01 ** (1 / 4) is 68.4 %.
    assert (
        aimed
        == "causal (sampled): proved at 7 of 78 sessions; a leak that shows in fewer than 68% of them could be missed\n"
    )
    assert call(path, *WHAT, "--walk", "all").stdout == "causal: proved at 78 of 78 sessions\n"


def test_the_file_that_a_run_saves_is_audited_in_its_language(tmp_path):
    result = run_strategy(
        RunSpec(question="000342.SZ，5日均线上穿20日均线买入，下穿卖出，2024年1月到3月", trade=False),
        out=tmp_path,
    )
    assert result["causality"]["causal"] is True
    path = result["strategy"]["path"]
    told = read_strategy(path)
    assert (told.name, len(told.cells)) == (result["strategy"]["name"], 1)
    done = call(result["run_dir"], *WHAT)
    assert (done.exit_code, done.stdout) == (0, "无未来函数：由规则构造保证，每个部分只看过去\n")


@pytest.mark.parametrize(
    ("text", "arguments", "says"),
    [
        (None, [], "is neither a file nor a run's folder"),
        ("", [], "bad_file: "),
        ('"""a docstring and no cell"""\n\n# %%\n\n', [], "has no code"),
        (
            "1 + 1",
            [],
            "code_failed: the strategy fails on invented rows, before its first run: no signal was handed over",
        ),
        ("raise ValueError('no')", [], "ValueError: no"),
        (HONEST, ["--symbols", "999999.SZ"], "unknown_symbol: "),
        (HONEST, ["--start", "20240101", "--end", "20230101"], "bad_window: start_date=20240101 is after"),
        (HONEST, ["--source", "nowhere/at/all"], "bad_option: "),
    ],
)
def test_what_cannot_be_audited_is_one_line_and_status_two(strategy, tmp_path, text, arguments, says):
    path = strategy(text) if text is not None else str(tmp_path / "missing.py")
    done = call(path, *([*WHAT, *arguments] if arguments else WHAT))
    assert done.exit_code == 2
    (line,) = done.stderr.splitlines()
    assert says in line


def test_cells_see_each_other_and_indicators_are_there(strategy):
    text = '"""x\n\nname: cheap\n"""\n\n# %%\npe = snapshot["indicators"]["pe"]\n\n# %%\n'
    text += 'GLOBAL_DATA_STATE.update("signal", {"cheap": (pe < 20).astype(float)})\n'
    path = strategy(text)
    verdict = audit_strategy(path, source="sample", symbols=["000342.SZ"], start="20240102", end="20240229")
    assert verdict.causal
    assert read_strategy(path).name == "cheap"


def test_a_strategy_comes_back_as_it_was_written(tmp_path):
    """Whatever its sentence and its cells hold that looks like a mark of the file."""
    cells = ['text = """\n# %%\nname: inner\n"""', "x = 1", "y = x"]
    sentence = 'a\\b """ quoted\n\nname: evil\n# %%\nend'
    written = {"name": "real", "code_hash": "h", "data_ref": "d", "cells": cells}
    (tmp_path / "s.py").write_text(strategy_source(written, sentence), encoding="utf-8")
    told = read_strategy(tmp_path / "s.py")
    assert told.cells == tuple(cells)
    assert told.name == "real"
    assert told.about == sentence.replace('"""', "'''")


@pytest.fixture
def bars_file(tmp_path):
    """Thirty sessions of one stock, and no indicators."""
    days = pd.bdate_range("2024-01-02", periods=30)
    table = pd.DataFrame({"ts_code": "600000.SH", "trade_date": days.strftime("%Y%m%d")})
    table = table.assign(open=8, high=12, low=7, close=[8 + row % 3 for row in range(30)], vol=100)
    table.to_csv(tmp_path / "bars.csv", index=False)
    return str(tmp_path / "bars.csv")


def test_a_file_of_bars_is_a_source_and_a_word_in_a_comment_asks_for_no_indicators(strategy, bars_file):
    done = call(strategy("# no indicators here\n" + HONEST), "--source", bars_file)
    assert (done.exit_code, done.stdout) == (0, "causal: proved at 30 of 30 sessions\n")
    late = call(strategy(HONEST), "--source", bars_file, "--start", "2025-01-01")
    assert late.stderr == (
        f"bad_window: start=2025-01-01 is outside of what {bars_file} has, 20240102 to 20240212\n"
    )


def test_indicators_that_a_source_does_not_have_are_the_codes_error(strategy, bars_file):
    done = call(strategy(HONEST.replace('"ohlcv"', '"indicators"')), "--source", bars_file)
    assert done.exit_code == 2
    assert "there is no indicators field" in done.stderr


@pytest.mark.parametrize("walk", ["all", "sampled"])
@pytest.mark.parametrize("code", [HONEST, LEAKY], ids=["honest", "leaky"])
def test_the_command_and_the_function_say_the_same(strategy, monkeypatch, code, walk):
    """The same cells on the same data: line, counterexample and coverage, walked and sampled."""
    monkeypatch.setenv("QUANTGRAPH_AUDIT", f'{{"prove": "{walk}", "seed": 11}}')
    told = json.loads(call(strategy(code), *WHAT, "--json").stdout)
    source, store = open_source("sample"), DataState()
    store.update(
        "ohlcv", source.bars(["000342.SZ", "000343.SZ"], *map(pd.Timestamp, ("20240102", "20240430")))
    )
    panel = store.view(Moment.at("2024-12-31")).frozen()
    verdict = check_causality(CodeTrials(default_runner(), [code]), panel, prove=walk, seed=11)
    assert verdict.isolated
    assert {**told, "seconds": 0} == {**verdict.as_json(), "seconds": 0}
