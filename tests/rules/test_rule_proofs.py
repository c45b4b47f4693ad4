"""A rule's trials: what it depends on, the cell that it is again, the sealed check, and its verdict."""

import pandas as pd
import pytest
from tests.rules.test_rule_signals import CODES, CONDITIONS, DAYS, store_of

from quantgraph.audit.causality import BuiltTrials, CodeTrials, check_causality, rehearse
from quantgraph.errors import CodeFailed
from quantgraph.market import Moment
from quantgraph.rules import Rule, RuleEvaluator, rule_of_cells, trials_of
from quantgraph.sandbox import default_runner
from quantgraph.state import DataState

STORE = store_of(1)
CROSS = Rule.read("cross_up(sma(close, 3), sma(close, 6))", "cross_down(sma(close, 3), sma(close, 6))")


def since(store, at):
    made = DataState()
    for panel in ("ohlcv", "indicators", "index"):
        fields = store.snapshot()[panel]
        made.update(panel, {name: fields[name].iloc[at:] for name in fields})
    return made.snapshot()


@pytest.mark.parametrize("text", CONDITIONS)
def test_a_row_depends_on_as_many_sessions_as_its_rule_needs(text):
    rule = Rule.read(text, "close < sma(close, 5)")
    if rule.needs is not None:
        whole, at = RuleEvaluator(STORE.snapshot()).signal(rule), 30
        late = RuleEvaluator(since(STORE, at)).signal(rule)
        traded = STORE.snapshot()["ohlcv"]["close"].iloc[at:].notna().cumsum() >= rule.needs
        assert traded.to_numpy().any()
        pd.testing.assert_frame_equal(late.where(traded), whole.iloc[at:].where(traded))


def test_a_recursion_depends_on_all_sessions_before():
    for text in ("ema(close, 3) > close", "since(close > open) > 2", "rsi(5) < 30"):
        assert Rule.read(f"sma(close, 9) > close and {text}").needs is None


def test_a_cell_is_its_rule_again_unless_a_letter_of_it_changes():
    cell = CROSS.cell("mine", CODES[:2])
    assert rule_of_cells([cell]) == (CROSS, list(CODES[:2]))
    assert rule_of_cells([cell, cell]) is None
    for old, new in (
        ("rolling(6)", "rolling(7)"),
        ("entry: cross_up", "entry: cross_down"),
        ("1e-09", "1e-08"),
    ):
        assert rule_of_cells([cell.replace(old, new)]) is None, old
    assert isinstance(trials_of(default_runner(), [cell.replace("rolling(6)", "rolling(7)")]), CodeTrials)


def test_a_rule_trades_what_its_walked_cell_trades():
    cells, panel = [CROSS.cell("mine")], STORE.view(Moment(DAYS[-1])).frozen()
    built = check_causality(trials_of(default_runner(), cells), panel)
    walked = check_causality(CodeTrials(default_runner(), cells), panel, prove="all", warm_up=False)
    assert (built.method, built.proved, walked.method) == ("construction", len(DAYS), "walked")
    assert built.text("en") == "causal by construction: each part looks back only"
    assert (built.signal == 1).to_numpy().any()
    pd.testing.assert_frame_equal(built.signal, walked.signal[list(built.signal)], check_freq=False)
    assert rehearse(trials_of(default_runner(), cells), panel, warm_up=True).warm_up == 7


def test_a_cell_that_gives_another_signal_than_its_rule_is_refused():
    other = CodeTrials(default_runner(), [Rule.read("close > open", "close < open").cell("mine")], "mine")
    trials = BuiltTrials(lambda data: RuleEvaluator(data).signal(CROSS), other, checked=40, needs=7)
    with pytest.raises(CodeFailed, match="the code of mine gives another signal than its rule"):
        check_causality(trials, STORE.view(Moment(DAYS[-1])).frozen())
