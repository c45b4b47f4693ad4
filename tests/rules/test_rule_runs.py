"""Rules as runs: the same account as their signal's, causal by construction, in Python, the command and MCP."""

import json
from decimal import ROUND_HALF_UP, Decimal

import pandas as pd
import pytest
from typer.testing import CliRunner

from quantgraph.broker.ledger import Ledger
from quantgraph.cli._main import app
from quantgraph.data import open_source
from quantgraph.errors import BadOption, UnknownSymbol
from quantgraph.rules import Rule, RuleEvaluator
from quantgraph.runs import open_run, replay, run_rule, run_signal, run_strategy
from quantgraph.runs._rule_signal import file_of
from quantgraph.runs.verification._verification import strategy_data

ENTRY, EXIT = "cross_up(sma(close, 5), sma(close, 20))", "cross_down(sma(close, 5), sma(close, 20))"
WINDOW = {"start": "20250102", "end": "20250630", "source": "sample"}
CODES = ["000341.SZ", "000342.SZ", "600952.SH"]


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """A run of a rule over a few symbols."""
    return run_rule(ENTRY, EXIT, symbols=CODES, out=tmp_path_factory.mktemp("runs"), **WINDOW)


def test_a_rule_trades_what_its_signal_trades(done, tmp_path):
    signal = pd.read_parquet(done["signal"]["path"])
    frame = run_signal(
        signal.loc["20250102":], prices="sample", out=tmp_path, start="20250102", end="20250630"
    )
    assert done["ended_because"] == "done"
    assert done["account"]["trades"] == frame["account"]["trades"] > 5
    assert done["account"]["final_value"] == frame["account"]["final_value"]


def test_a_rule_says_what_it_is_and_that_it_looks_back_only(done):
    assert done["causality"]["text"] == "causal by construction: each part looks back only"
    assert done["causality"]["coverage"]["method"] == "construction"
    (rule,) = [line for line in str(done).splitlines() if line.strip().startswith("rule:")]
    assert rule.strip().startswith("rule: buys when 5-day average crosses above 20-day average")
    kept = (open_run(done["run_dir"]).folder / "strategy.py").read_text()
    assert f"# entry: {ENTRY}\n# exit: {EXIT}\n" in kept
    assert replay(done["run_dir"]).identical


def test_its_file_is_the_rule_again_and_a_changed_one_is_code(done, tmp_path):
    text = (open_run(done["run_dir"]).folder / "strategy.py").read_text()
    same, other = tmp_path / "same.py", tmp_path / "other.py"
    same.write_text(text)
    other.write_text(text.replace("close.rolling(5)", "close.rolling(6)"))
    options = {"symbols": CODES, "out": tmp_path / "runs", **WINDOW}
    again, code = (run_strategy(strategy=path, **options) for path in (same, other))
    assert again["account"] == done["account"]
    assert again["causality"]["coverage"]["method"] == "construction"
    assert code["causality"]["coverage"]["method"] != "construction"


def test_a_rule_watches_another_security_and_is_in_the_persons_language(tmp_path):
    entry = 'cross_up(close, sma(close, 20)) and of("600952.SH", close > sma(close, 20))'
    made = run_rule(entry, symbols=CODES[:2], about="两只股票", out=tmp_path, **WINDOW)
    assert "无未来函数：由规则构造保证" in str(made)
    assert made["symbols"] == CODES[:2]
    with Ledger(open_run(made["run_dir"]).folder / "ledger.sqlite") as ledger:
        fills = ledger.fills(made["run_id"])
    assert set(fills["side"]) == {"buy"}
    with pytest.raises(UnknownSymbol, match=r"999999\.SH"):
        run_rule('of("999999.SH", close > open)', symbols=CODES[:1], out=tmp_path, **WINDOW)
    with pytest.raises(BadOption, match="entry: 'clos' is no name of the language; did you mean 'close'"):
        run_rule("clos > open", out=tmp_path, **WINDOW)


def call(*arguments, out):
    made = CliRunner().invoke(app, ["run", *arguments, "--source", "sample", "--out", str(out)])
    return made.exit_code, made.stdout, made.stderr


def test_the_command_takes_a_rule_in_place_of_a_sentence(done, tmp_path):
    dates = ("--start", "20250102", "--end", "20250630", "--symbols", ",".join(CODES), "--headless", "--json")
    status, out, told = call("--entry", ENTRY, "--exit", EXIT, *dates, out=tmp_path)
    assert status == 0, told
    assert json.loads(out)["account"] == done["account"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--exit", EXIT], "--exit needs --entry EXPR"),
        (["均线金叉买入", "--entry", ENTRY], "SENTENCE and --entry are both set"),
        (["--entry", ENTRY, "--exit", ENTRY], "entry and exit are the same"),
        (["--entry", "close & open > 1"], "& is written and"),
        (["--entry", "sma(close) > 1"], "sma needs n: sma(x, n)"),
    ],
)
def test_a_wrong_rule_is_one_line_and_leaves_nothing(arguments, told, tmp_path):
    status, out, error = call(*arguments, out=tmp_path)
    assert (status, out, error.count("\n")) == (2, "", 1)
    assert told in error
    assert not list(tmp_path.iterdir())


def data_of(rule, source, **window):
    dates = {"start": None, "end": None, **window}
    return strategy_data(file_of(rule), open_source(source), symbols="", **dates).snapshot()


def test_limits_are_the_rulebooks_where_the_data_have_none(a_share):
    """Ten percent from the reference price, half up to a cent, as the main board has it."""
    bars = data_of(Rule.read("limit_up()", "limit_down()"), a_share)["ohlcv"]
    main = [code for code in bars["close"] if not code.startswith(("68", "3"))]
    for name, share in (("up_limit", Decimal("1.1")), ("down_limit", Decimal("0.9"))):
        exact = bars["pre_close"][main].map(
            lambda price, share=share: Decimal(str(price)) * share, na_action="ignore"
        )
        cents = exact.map(
            lambda price: float(price.quantize(Decimal("0.01"), ROUND_HALF_UP)), na_action="ignore"
        )
        pd.testing.assert_frame_equal(bars[name][main], cents, check_freq=False)
    assert (bars["close"] == bars["up_limit"]).to_numpy().sum() > 10


def test_what_is_left_of_a_month_is_known_from_the_calendar(a_share):
    rule = Rule.read('left("month") == 0')
    last = RuleEvaluator(data_of(rule, a_share, end="20251031")).value(rule.entry)["600519.SH"] == 1
    days = pd.Series(last.index, last.index)
    assert list(last.index[last]) == list(days.groupby([days.dt.year, days.dt.month]).max())
