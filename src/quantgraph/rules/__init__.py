"""Rules as trees: an expression is read, checked by units, put in words, computed, written as a cell.

``Rule.read("close > sma(close, 20)", "rsi() > 70")`` is a rule; a ``RuleEvaluator`` of a commit computes
its signal. Each node of the language is a row of ``ROWS``. A window counts a security's own sessions; prices
are adjusted as known at the session, and raw beside a number; what is unknown stays unknown under ``not``;
values that are equal but for rounding are equal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgraph._util.lazy_names import lazy_names

if TYPE_CHECKING:
    from quantgraph.rules._code import short_name
    from quantgraph.rules._parse import read_condition
    from quantgraph.rules._published import published
    from quantgraph.rules._registry import ROWS, UNITS, Row
    from quantgraph.rules._rule import Rule, RuleEvaluator, rule_of_cells, trials_of
    from quantgraph.rules._tree import (
        Node,
        expression,
        language_of_rules,
        lookback,
        make,
        number,
        number_text,
    )
    from quantgraph.rules._words import in_words

__all__ = [
    "ROWS",
    "UNITS",
    "Node",
    "Row",
    "Rule",
    "RuleEvaluator",
    "expression",
    "in_words",
    "language_of_rules",
    "lookback",
    "make",
    "number",
    "number_text",
    "published",
    "read_condition",
    "rule_of_cells",
    "short_name",
    "trials_of",
]

if not TYPE_CHECKING:  # a type checker must still find misspelt names
    __getattr__, __dir__ = lazy_names(__name__, __file__)
