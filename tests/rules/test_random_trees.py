"""Trees made at random: each is read back from its expression, and no two have the same words."""

import random

import pytest

from quantgraph.errors import BadOption
from quantgraph.rules import expression, in_words, make, number, read_condition

CODES = ["600519.SH", "000016.SH"]


def a_value(draw, depth):
    """A value of the market; what does not fit together is drawn again."""
    while True:
        kind = draw.random()
        try:
            if depth == 0 or kind < 0.25:
                return make(draw.choice(["close", "open", "high", "pe", "rsi", "dif", "boll_upper"]))
            if kind < 0.5:
                window = draw.choice(["sma", "ema", "highest", "lowest", "ago", "change", "zscore"])
                return make(window, a_value(draw, depth - 1), float(draw.choice([1, 2, 5, 20])))
            if kind < 0.6:
                return make("neg", a_value(draw, depth - 1))
            if kind < 0.85:
                one = draw.choice([a_value(draw, depth - 1), number(draw.choice([2, 0.5, -1]))])
                return make(draw.choice(["add", "sub", "mul", "div"]), one, a_value(draw, depth - 1))
            if kind < 0.93:
                return make(draw.choice(["of", "index"]), draw.choice(CODES), a_value(draw, depth - 1))
            return make(draw.choice(["rank", "rank_percent", "average_of_all"]), a_value(draw, depth - 1))
        except BadOption:
            continue


def a_condition(draw, depth):
    """A condition on values."""
    while True:
        kind = draw.random()
        try:
            if depth == 0 or kind < 0.45:
                compared = draw.choice(["gt", "ge", "lt", "le", "eq", "ne", "cross_up", "cross_down"])
                other = draw.choice([a_value(draw, 2), number(draw.choice([0, 0.05, 2, -3, 50]))])
                return make(compared, a_value(draw, 2), other)
            if kind < 0.6:
                return make("not", a_condition(draw, depth - 1))
            if kind < 0.8:
                return make(draw.choice(["and", "or"]), *(a_condition(draw, depth - 1) for _ in range(2)))
            if kind < 0.92:
                held = a_condition(draw, depth - 1)
                return make(draw.choice(["streak", "within"]), held, float(draw.choice([2, 3])))
            if kind < 0.96:
                return make("first_after", a_condition(draw, depth - 1), a_condition(draw, depth - 1))
            return make(draw.choice(["of", "index"]), draw.choice(CODES), a_condition(draw, depth - 1))
        except BadOption:
            continue


@pytest.mark.parametrize("language", ["zh", "en"])
def test_no_two_trees_have_the_same_words(language):
    draw, said = random.Random(11), {}
    for _ in range(4_000):
        tree = a_condition(draw, 2)
        text = expression(tree)
        assert read_condition(text) == tree, text
        assert said.setdefault(in_words(tree, language), text) == text
    assert len(said) > 3_000
