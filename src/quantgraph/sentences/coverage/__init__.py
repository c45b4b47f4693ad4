"""A reading held against the person's words: the numbers of its trees and its plan, leaf by leaf.

``reading_faults`` gives where a quote and its clause differ; numbers mean what their units say.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgraph._util.lazy_names import lazy_names

if TYPE_CHECKING:
    from quantgraph.sentences.coverage._combined import without_name
    from quantgraph.sentences.coverage._coverage import QuotedClause, ReadingFault, reading_faults
    from quantgraph.sentences.coverage._left_words import left_words
    from quantgraph.sentences.coverage._plan_words import plan_numbers, says_part
    from quantgraph.sentences.coverage._words import numbers_in, plain, without_dates_and_codes

__all__ = [
    "QuotedClause",
    "ReadingFault",
    "left_words",
    "numbers_in",
    "plain",
    "plan_numbers",
    "reading_faults",
    "says_part",
    "without_dates_and_codes",
    "without_name",
]

if not TYPE_CHECKING:  # a type checker must still find misspelt names
    __getattr__, __dir__ = lazy_names(__name__, __file__)
