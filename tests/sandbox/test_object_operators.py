"""Operators on objects: what is wrong in silence is an error with the line to write, what is honest stays."""

import ast

import pandas as pd
import pytest

from quantgraph.market import Moment
from quantgraph.sandbox import open_prefix_run
from quantgraph.sandbox._pandas_guards import add_invert_checks, invert, refuse_object_operators
from quantgraph.tools._code import TrustedRunner

FILL = "write above.shift(1, fill_value=False), or .fillna(False).astype(bool)"
BEGIN = """
close = snapshot["ohlcv"]["close"]
above = close > close.expanding().mean()
o = above.shift(1).fillna(False)
words = close.map(lambda price: "up" if price > 4 else "down").astype(object)
from decimal import Decimal
exact = close.map(lambda price: Decimal(str(price)))
"""

REFUSED = {
    "~above.shift(1)": FILL,
    "~o": FILL,
    "~o['600519.SH']": FILL,
    "above & ~o": FILL,
    "above & o": FILL,
    "o & above": FILL,
    "above & o.to_numpy()": FILL,
    "o.to_numpy() | above": FILL,
    "above | above.shift(1)": FILL,
    "o ^ above": FILL,
    "above['600519.SH'] & o['600519.SH']": FILL,
    "np.invert(o)": FILL,
    "np.bitwise_and(above, o)": FILL,
    "np.bitwise_or(o.to_numpy(), above)": FILL,
    "o.apply(lambda column: ~column)": FILL,
    "close.mask(o, 1.0)": FILL,
    "o.eval('~`600519.SH`')": FILL,
    "__import__('operator').invert(o)": FILL,
    "~o.to_numpy()": FILL,
    "[~row for row in o.to_numpy()]": FILL,
    "~True": "write not",
    "[1.0 if ~held else 0.0 for held in (True, False)]": "write not",
    "~~o": FILL,
    "-o": "write a & ~b for 'a and not b', or .astype(float)",
    "above - o": "write a & ~b",
    "o - o": "write a & ~b",
    "True - o": "write a & ~b",
    "o.sub(above)": "write a & ~b",
    "np.subtract(above, o)": "write a & ~b",
    "np.negative(o)": "write a & ~b",
}


@pytest.mark.parametrize("code", REFUSED)
def test_it_is_an_error_with_the_line_and_what_to_write(code, frames, forker):
    result = forker.run([f"{BEGIN}{code}"], frames)
    assert result.error is not None
    assert result.error.line.startswith(f"code_failed: line 8 ({code}): TypeError: ")
    assert REFUSED[code] in result.error.line


@pytest.mark.parametrize("code", ["above &= o", "o |= above", "o -= above"])
def test_in_place_too(code, frames, forker):
    assert f"line 8 ({code}): TypeError" in forker.run([f"{BEGIN}{code}"], frames).error.line


# By hand: close is 0.0 to 14.0, three symbols on five sessions; all but the first session are above, so o has 9.
HONEST = {
    "int((o == True).sum().sum())": "9",
    "int(o.sum().sum())": "9",
    "int((o + o).sum().sum())": "18",
    "int((o * 1).sum().sum())": "9",
    "int((1 - o).sum().sum())": "6",
    "int((words == 'up').sum().sum())": "10",
    "(words + '!').iloc[0, 0]": "'down!'",
    "int(words.isin(['up']).sum().sum())": "10",
    "exact.iloc[1, 0] - exact.iloc[0, 0]": "Decimal('3.0')",
    "(exact - exact.shift(1)).iloc[1, 0]": "Decimal('3.0')",
    "(-exact).iloc[1, 0]": "Decimal('-3.0')",
    "(exact - True).iloc[1, 0]": "Decimal('2.0')",
    "int((above & ~above.shift(1, fill_value=False)).sum().sum())": "3",
    "int((above & ~o.astype(bool)).sum().sum())": "3",
    "int((~above.astype('boolean')).sum().sum())": "3",
    "int((close - 1).sum().sum()), int((-close).sum().sum())": "(90, -105)",
    "float(close.mask(~above, -1.0).iloc[0, 0])": "-1.0",
    "~5, ~np.bool_(True), int((~above.to_numpy()).sum())": "(-6, np.False_, 3)",
    "~~5": "5",
    "int(np.logical_not(above).sum().sum())": "3",
}


@pytest.mark.parametrize("code", HONEST)
def test_what_is_honest_stays(code, frames, forker):
    result = forker.run([f"{BEGIN}{code}"], frames)
    assert (result.error, result.value) == (None, HONEST[code])


def test_every_step_of_a_walk_refuses_it(frames, forker):
    moments = [Moment.at(day) for day in ("2024-01-03", "2024-01-04", "2024-01-05")]
    with open_prefix_run(forker, [f"{BEGIN}above & ~o"], frames) as steps:
        assert [FILL in steps.at(moment).error.line for moment in moments] == [True] * 3


def test_the_right_cell_after_it_is_right(shared_data, frames, forker):
    """The cell that a real model wrote, and the same with the words that the error told it."""
    wrong = (shared_data / "model-replies" / "cells" / "cross_ma20_object_dtype.py").read_text()
    wrong = wrong.replace("rolling(20)", "rolling(2)")
    told = forker.run([wrong], frames).error.line
    assert "line 5 (buy = above & ~above.shift(1).fillna(False))" in told
    assert FILL in told
    right = forker.run([wrong.replace(".shift(1).fillna(False)", ".shift(1, fill_value=False)")], frames)
    assert right.signals["price_cross_ma20"].fillna(9).to_numpy().tolist() == [
        [9] * 3,
        [1] * 3,
        *[[0] * 3] * 3,
    ]


def test_pandas_outside_is_as_it_was(frame):
    objects = (frame > 4).astype(object)
    before = [dict(vars(owner)) for owner in (pd.DataFrame, pd.Series)]
    with refuse_object_operators():
        with pytest.raises(TypeError, match="~ on object dtype"):
            _ = ~objects
        with pytest.raises(TypeError, match="& on object dtype"):
            _ = objects & objects
    assert [dict(vars(owner)) for owner in (pd.DataFrame, pd.Series)] == before
    assert (objects & objects).equals(frame > 4)


def test_code_that_takes_the_checks_away_harms_nothing(frames, forker):
    cell = "import sys\npd.DataFrame.__and__ = pd.Series.__or__ = None\nsys.meta_path.clear()\n1"
    with open_prefix_run(forker, [cell], frames) as steps:
        values = [steps.at(Moment.at(day)).value for day in ("2024-01-04", "2024-01-05")]
    assert values == ["1", "1"]


def test_trusted_code_is_checked_for_the_one_that_is_always_wrong(frames):
    result = TrustedRunner().run([f"{BEGIN}above & ~o"], frames)
    assert FILL in result.error.line


def test_code_as_deep_as_python_takes_is_compiled():
    source = "~" + " + ".join(["1"] * 900)
    tree = ast.parse(source)
    add_invert_checks(tree)
    namespace = {"__checked_invert__": invert}
    assert eval(compile(ast.Expression(tree.body[0].value), "deep", "eval"), namespace) == -2 + 899


def test_each_tilde_is_checked_wherever_it_stands():
    source = "def f(x=~a, *, y: ~b = ~c):\n    return [~i for i in ~d if ~e], {~g: f'{~h}'}, (lambda: ~j)"
    tree = ast.parse(source)
    add_invert_checks(tree)
    nodes = list(ast.walk(tree))
    assert not any(isinstance(node, ast.UnaryOp) for node in nodes)
    names = [node.args[0].id for node in nodes if isinstance(node, ast.Call)]
    assert sorted(names) == list("abcdeghij")
    assert all(isinstance(node.func, ast.Name) for node in nodes if isinstance(node, ast.Call))


def test_a_check_that_code_removed_is_not_put_back():
    plain = pd.DataFrame.__and__
    with refuse_object_operators():
        del pd.DataFrame.__and__
        assert pd.DataFrame.__and__ is plain
    assert pd.DataFrame.__and__ is plain
