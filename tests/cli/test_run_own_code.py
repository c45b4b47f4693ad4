"""``quantgraph run --strategy FILE.py``: own code in place of a sentence."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from quantgraph.cli._main import app
from quantgraph.llm import KeylessPlanner

pytestmark = pytest.mark.proof

CODE = '''"""000341.SZ，2日均线上穿5日均线买入，下穿卖出，20240102到20240229

name: mine
"""
close = snapshot["ohlcv"]["close"]
fast, slow = close.rolling(2).mean(), close.rolling(5).mean()
entry = (fast > slow) & (fast.shift(1) <= slow.shift(1))
leave = (fast < slow) & (fast.shift(1) >= slow.shift(1))
GLOBAL_DATA_STATE.update("signal", {"mine": entry.astype(float) - leave.astype(float)})
'''
SAID = "000341.SZ, buy when the 2-day average crosses above the 5-day average, sell when it crosses below, 2024-01-02 to 2024-03-29"


@pytest.fixture(autouse=True)
def no_model(monkeypatch):
    monkeypatch.setattr(KeylessPlanner, "_generate", lambda *_, **__: pytest.fail("a model was asked"))


@pytest.fixture
def run(tmp_path):
    """Run code of a file; the last run's result is beside what was printed."""
    file = tmp_path / "edited.py"

    def call(code, *options):
        file.write_text(code, encoding="utf-8")
        done = CliRunner().invoke(
            app, ["run", "--strategy", str(file), "--headless", "--out", str(tmp_path / "runs"), *options]
        )
        results = [json.loads(path.read_text()) for path in tmp_path.glob("runs/*/result.json")]
        return done, max(results, key=lambda each: each["run_id"], default=None)

    return call


def test_symbols_dates_and_language_are_those_of_the_docstring(run):
    done, result = run(CODE, "--stop-loss", "5%")
    assert done.exit_code == 0, done.stderr
    assert result["question"].startswith("自有代码 edited.py：000341.SZ，2日均线")
    assert result["symbols"] == ["000341.SZ"]
    assert result["window"] == {"start": "20240102", "end": "20240229"}
    assert result["plan"] == {"stop_loss": "0.05"}
    assert "规则：自有代码 edited.py" in done.stderr
    assert "无未来函数" in done.stdout
    again = CliRunner().invoke(app, ["replay", result["run_dir"]])
    assert "identical" in again.stdout


def test_what_is_said_is_what_the_code_is_held_against(run):
    done, result = run(CODE, "--said", SAID)
    assert done.exit_code == 0, done.stderr
    assert result["question"] == SAID
    assert "meaning" in result["validation"]["checks_performed"]
    assert result["window"]["end"] == "20240329"
    done, result = run(CODE.replace("rolling(2)", "rolling(3)"), "--said", SAID)
    assert done.exit_code == 1
    assert result["ended_because"] == "meaning_failed"
    assert result["account"] is None


def test_code_that_uses_the_future_is_refused_with_a_cell_that_shows_it(run):
    done, result = run(CODE.replace("slow.shift(1)", "slow.shift(-1)"))
    assert done.exit_code == 1
    assert done.stderr.startswith("not_causal: edited.py: ")
    assert "000341.SZ" in done.stderr
    assert result is None


@pytest.mark.parametrize(
    ("code", "options", "said"),
    [
        ("x = 1", (), "edited.py hands over no signal"),
        ("x = (", (), "is not Python"),
        (CODE.replace("- leave", "- 2 * leave"), (), "-2 at"),
        (CODE, ("--symbols", "600519.SH"), "600519.SH"),
        (CODE, ("--decider", "buy_and_hold"), "trades no signal"),
    ],
)
def test_a_file_that_gives_no_signal_is_refused_in_one_line(run, code, options, said):
    done, result = run(code, *options)
    assert done.exit_code in (1, 2)
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
    assert result is None


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--strategy", "none.py"], "none.py cannot be read"),
        (["--said", SAID], "--said needs --strategy"),
        ([SAID, "--strategy", "none.py"], "both set; write --said"),
        ([], "missing argument 'SENTENCE'"),
    ],
)
def test_a_wrong_call_is_one_line(arguments, said):
    done = CliRunner().invoke(app, ["run", *arguments])
    assert said in (done.stderr or str(done.exception))
