"""The tools in place of code: a text on one line, and the end of the model's turn."""

from __future__ import annotations

import pytest

from quantgraph.errors import BadOption
from quantgraph.tools._python_repl import ask, decline


@pytest.mark.parametrize(("tool", "name"), [(ask, "question"), (decline, "reason")])
def test_a_text_becomes_one_line_and_the_turn_ends(tool, name):
    assert tool.invoke({name: " 收盘价\n还是开盘价？ "}) == "收盘价 还是开盘价？"
    assert tool.return_direct
    for bad in ("", " \n", "x" * 1001):
        with pytest.raises(BadOption, match=f"{name} must have 1 to 1000 characters; it has "):
            tool.invoke({name: bad})
