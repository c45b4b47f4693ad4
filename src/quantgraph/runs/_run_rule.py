"""Rules as runs: ``run_rule``."""

from __future__ import annotations

from typing import Any

from quantgraph.rules import Rule
from quantgraph.runs._result import RunResult
from quantgraph.runs._start import run_strategy


def run_rule(entry: str, exit: str | None = None, *, about: str = "", **options: Any) -> RunResult:  # noqa: A002
    """Trade a rule: buy where ``entry`` holds, sell where ``exit`` does, at the next open.

    Parameters
    ----------
    entry, exit
        Expressions of :mod:`quantgraph.rules`, such as ``cross_up(close, sma(close, 20))``; others are
        a ``BadOption``. Without an exit nothing is sold but by the plan.
    about
        The run's title, Chinese or English, which is the language that it answers in.
    **options
        Others of :func:`run_strategy`, such as ``symbols``, ``source`` and ``plan``.
    """
    return run_strategy(about, strategy=Rule.read(entry, exit), **options)
