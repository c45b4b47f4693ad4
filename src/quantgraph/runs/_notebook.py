"""The progress of a run in a notebook: one line of the cell's output, which changes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from html import escape
from importlib import import_module
from typing import Any

from quantgraph._util.texts import Language, Note, language_of
from quantgraph.runtime.dialogue import RunEvent

_STEPS = {
    "reflection": Note(zh="理解句子", en="reading the sentence"),
    "data_fetch": Note(zh="取数据", en="fetching data"),
    "signal_generate": Note(zh="写信号代码", en="writing the signal's code"),
    "validate": Note(zh="检查数据与未来函数", en="checking data and look-ahead"),
    "clarify": Note(zh="提问", en="asking"),
    "daily_loop": Note(zh="逐日交易", en="trading day by day"),
    "decision": Note(zh="逐日交易", en="trading day by day"),
    "approval": Note(zh="等待批准", en="waiting for approval"),
    "report": Note(zh="计算指标", en="computing the numbers"),
}
"""What a node does, in words."""
_SESSIONS = 20
"""Between two changes of the line: each is a message to the browser."""


def step_words(node: str, language: Language) -> str:
    """What a node does, for people; the name of a node that is not ours."""
    return _STEPS[node].text(language) if node in _STEPS else node


def notebook_watch(question: str) -> Callable[[RunEvent], None] | None:
    """What shows the events of a run in a notebook's cell; None outside of a notebook."""
    shell = sys.modules.get("IPython")
    if shell is None or getattr(shell.get_ipython(), "kernel", None) is None:
        return None
    language, output = language_of(question), _Line()

    def watch(event: RunEvent) -> None:
        if event.kind == "started":
            output.show(f"{step_words(event.name, language)} …")
        elif event.kind == "traded" and (event.number % _SESSIONS == 0 or event.number == event.total):
            output.show(f"{step_words('decision', language)}: {event.number:,} / {event.total:,}")

    return watch


class _Line:
    """A line of a cell's output, which the next one replaces."""

    def __init__(self) -> None:
        self._output: Any = None

    def show(self, line: str) -> None:
        shown: Any = import_module("IPython.display")
        made = shown.HTML(escape(line))
        if self._output is None:
            self._output = shown.display(made, display_id=True)
        else:
            self._output.update(made)
