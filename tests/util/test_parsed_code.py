"""Parsing in many threads at once."""

import ast
from concurrent.futures import ThreadPoolExecutor

import pytest

from quantgraph._util.packages import parse_code

CELL = "close = snapshot['ohlcv']['close']\nsignal = (close > close.rolling(20).mean()).astype(float)\n" * 40


def test_it_parses_as_ast_does_in_many_threads():
    with ThreadPoolExecutor(16) as pool:
        parsed = list(pool.map(parse_code, [CELL] * 64))
    assert {ast.dump(tree) for tree in parsed} == {ast.dump(ast.parse(CELL))}


def test_a_mistake_has_its_name_and_line():
    with pytest.raises(SyntaxError) as caught:
        parse_code("x = 1\ny = (", "cell 2")
    assert (caught.value.filename, caught.value.lineno) == ("cell 2", 2)
