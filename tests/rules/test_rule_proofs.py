"""A rule's trials: the cell that it is again, the sealed check, its verdict, and data without adjustments."""

import pandas as pd
import pytest
from tests.rules.test_rule_signals import CODES, DAYS, store_of

from quantgraph.audit.causality import BuiltTrials, CodeTrials, check_causality, rehearse
from quantgraph.errors import CodeFailed
from quantgraph.market import Moment
from quantgraph.rules import Rule, RuleEvaluator, read_condition, rule_of_cells, trials_of
from quantgraph.sandbox import default_runner
from quantgraph.state import DataState

STORE = store_of(1)
CROSS = Rule.read("cross_up(sma(close, 3), sma(close, 6))", "cross_down(sma(close, 3), sma(close, 6))")


def test_where_nothing_says_how_to_adjust_the_past_is_not_changed_by_what_comes():
    """The reference price is there from the 31st session on, and for one of three stocks."""
    fields = {name: frame.copy() for name, frame in STORE.snapshot()["ohlcv"].items() if name != "adj_factor"}
    fields["pre_close"] = fields["close"][[CODES[0]]].shift(1).iloc[30:] * 0.99
    late = DataState()
    late.update("ohlcv", fields)
    rule = Rule.read("close > sma(close, 3)", "close < 9.5")
    whole = RuleEvaluator(late.snapshot()).signal(rule)
    assert (whole.notna().sum() > 60).all()
    for cut in (20, 29, 30, 31, 60):
        known = RuleEvaluator(late.view(Moment(DAYS[cut]))).signal(rule)
        pd.testing.assert_frame_equal(known, whole.iloc[: cut + 1])


def test_a_price_at_its_reference_has_not_changed():
    """Each close is its reference, after dividends of odd sizes."""
    close = pd.DataFrame({CODES[0]: [round(10 * 0.987**day, 3) for day in range(40)]}, DAYS[:40])
    flat = DataState()
    flat.update("ohlcv", {"close": close, "open": close, "pre_close": close})
    for text in ("change(close) > 0", "change(close) < 0", "0 < change(close, 3)"):
        assert not (RuleEvaluator(flat.snapshot()).value(read_condition(text)) == 1).any(axis=None), text


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
