"""Parsing in many threads at once."""

import ast
import gc
from concurrent.futures import ThreadPoolExecutor

import pytest

from quantgraph._util.parsing import parse_code

CELL = "close = snapshot['ohlcv']['close']\nsignal = (close > close.rolling(20).mean()).astype(float)\n" * 40


def test_it_parses_as_ast_does_in_many_threads():
    with ThreadPoolExecutor(16) as pool:
        parsed = list(pool.map(parse_code, [CELL] * 64))
    assert {ast.dump(tree) for tree in parsed} == {ast.dump(ast.parse(CELL))}


def test_a_parse_that_crosses_ours_does_no_harm():
    """A finalizer may parse while we do, or let another thread: LangChain looks into functions' sources."""
    crossed = []

    def cross(phase: str, _: dict[str, int]) -> None:
        if len(crossed) < 30:
            crossed.append(ast.parse("f(g(h(1)))"))

    threshold = gc.get_threshold()
    gc.callbacks.append(cross)
    gc.set_threshold(50)
    try:
        parsed = parse_code(CELL)
    finally:
        gc.set_threshold(*threshold)
        gc.callbacks.remove(cross)
    assert crossed
    assert ast.dump(parsed) == ast.dump(ast.parse(CELL))


def test_a_mistake_has_its_name_and_line():
    with pytest.raises(SyntaxError) as caught:
        parse_code("x = 1\ny = (", "cell 2")
    assert (caught.value.filename, caught.value.lineno) == ("cell 2", 2)
