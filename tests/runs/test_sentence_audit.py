"""``quantgraph audit --said``: a strategy file is held against a sentence."""

import json

import pytest
from typer.testing import CliRunner

from quantgraph.cli._main import app
from quantgraph.errors import BadOption, CodeFailed
from quantgraph.runs.verification import audit_sentence

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
    assert "30-day average" in finding["message"]


INDEX = """\
level = snapshot["index"]["close"]["000016.SH"]
mean = level.rolling(30).mean()
close = snapshot["ohlcv"]["close"]
held = pd.DataFrame({code: (level > mean) & (level.shift(1) <= mean.shift(1)) for code in close})
left = pd.DataFrame({code: level < mean for code in close})
signal = pd.DataFrame(0.0, index=close.index, columns=close.columns).mask(held, 1.0).mask(left, -1.0)
GLOBAL_DATA_STATE.update("signal", {"on_index": signal})
"""
ON_INDEX = "上证50指数上穿30日均线时买入招商银行，下穿30日均线时卖出，2025年"


def said_of(shared_data, path, sentence, *options):
    folder = str(shared_data / "ai-trader" / "a_share")
    return CliRunner().invoke(app, ["audit", path, "--said", sentence, "--source", folder, *options])


def test_where_nothing_was_compared_it_says_so_and_the_exit_status_is_3(strategy):
    vague = "000341.SZ 看心情买卖，RSI低于20买，2024年"
    done = call(strategy(CODE), "--said", vague)
    assert (done.exit_code, done.stdout) == (3, "没有比较：没有读懂：心情\n")
    done = call(strategy(CODE), "--said", vague, "--json")
    assert done.exit_code == 3
    assert json.loads(done.stdout) == {
        "said": vague,
        "compared": False,
        "why": "没有读懂：心情",
        "findings": [],
    }


def test_a_strategy_that_reads_an_index_has_its_levels_and_is_compared_with_them(strategy, shared_data):
    done = said_of(shared_data, strategy(INDEX), ON_INDEX)
    assert (done.exit_code, done.stdout) == (0, "没有发现与这句话不符之处\n")


def test_the_average_of_the_stock_in_place_of_the_index_is_found(strategy, shared_data):
    own = INDEX.replace('snapshot["index"]["close"]["000016.SH"]', 'snapshot["ohlcv"]["close"]["600036.SH"]')
    done = said_of(shared_data, strategy(own), ON_INDEX, "--json")
    assert done.exit_code == 1
    found = json.loads(done.stdout)
    assert found["compared"]
    assert [each["code"] for each in found["findings"]] == ["meaning_differs"]


def test_code_that_fails_and_an_empty_sentence_are_one_line(strategy):
    with pytest.raises(CodeFailed, match="division"):
        audit_sentence(strategy("1 / 0"), SAID, source="sample")
    with pytest.raises(BadOption, match="sentence is empty"):
        audit_sentence(strategy(CODE), " ", source="sample")
    assert call(strategy("close = 1"), "--said", SAID).exit_code == 2
