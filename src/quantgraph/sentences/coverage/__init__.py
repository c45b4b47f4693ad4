"""A model's reading held against the person's own words, without reading their rule.

``find_anchors`` finds the words that change a trade; ``coverage_gaps`` names those that a reading loses,
turns round or adds; ``lost_numbers`` those that code lacks; ``unparsed_words`` names the rest,
``plan_pieces`` the words about the trade plan, and ``plan_keys`` the parts they are about.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgraph._util.lazy_names import lazy_names

if TYPE_CHECKING:
    from quantgraph.sentences.coverage._anchored_text import ReadClause, ReadParameters
    from quantgraph.sentences.coverage._anchors import find_anchors, plain
    from quantgraph.sentences.coverage._coverage import (
        Gap,
        coverage_gaps,
        lost_numbers,
        plan_pieces,
        unparsed_words,
    )
    from quantgraph.sentences.coverage._returns import plan_keys

__all__ = [
    "Gap",
    "ReadClause",
    "ReadParameters",
    "coverage_gaps",
    "find_anchors",
    "lost_numbers",
    "plain",
    "plan_keys",
    "plan_pieces",
    "unparsed_words",
]

if not TYPE_CHECKING:  # a type checker must still find misspelt names
    __getattr__, __dir__ = lazy_names(__name__, __file__)
