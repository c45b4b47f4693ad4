"""``quantgraph audit --said``: a strategy file is held against a sentence."""

import json

import pytest
from typer.testing import CliRunner

from quantgraph.cli._main import app
from quantgraph.errors import BadOption, CodeFailed
from quantgraph.runs.verification import audit_said

CODE = """\
close = snapshot["ohlcv"]["close"]
mean = close.rolling(20).mean()
cross = (close > mean) & (close.shift(1) <= mean.shift(1))
signal = pd.DataFrame(0.0, index=close.index, columns=close.columns).mask(cross, 1.0).mask(close < mean, -1.0)
GLOBAL_DATA_STATE.update("signal", {"cross": signal})
"""
SAID = "000341.SZ close crosses above the 20-day average buy, crosses below sell, 20240102 to 20241231"


@pytest.fixture
def strategy(tmp_path):
    def write(text):
        path = tmp_path / "strategy.py"
        path.write_text(text, encoding="utf-8")
        return str(path)

    return write


def call(*arguments):
    return CliRunner().invoke(app, ["audit", *arguments, "--source", "sample"])


def test_code_that_does_what_was_said_ends_with_0(strategy):
    done = call(strategy(CODE), "--said", SAID)
    assert (done.exit_code, done.stdout) == (0, "no departure from the sentence was found\n")


def test_a_finding_is_shown_and_the_exit_status_is_1(strategy):
    done = call(strategy(CODE), "--said", SAID.replace("20-day", "30-day"), "--json")
    assert done.exit_code == 1
    (finding,) = json.loads(done.stdout)["findings"]
    assert (finding["code"], finding["symbol"]) == ("meaning_differs", "000341.SZ")
    assert "SMA(30)" in finding["message"]


def test_code_that_fails_and_an_empty_sentence_are_one_line(strategy):
    with pytest.raises(CodeFailed, match="division"):
        audit_said(strategy("1 / 0"), SAID, source="sample")
    with pytest.raises(BadOption, match="said is empty"):
        audit_said(strategy(CODE), " ", source="sample")
    assert call(strategy("close = 1"), "--said", SAID).exit_code == 2
