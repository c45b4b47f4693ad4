"""A trading sentence read by rules, in Chinese and English: dates, securities, clauses, rule tree.

``read_request`` turns text into a ``ParsedRequest``: symbols, windows, a ``Rule`` of the rule language, a
trade plan, and the words that were not understood. ``write_code`` writes the rule as a cell.

To add a phrase: a row in the lexicon of the module for its kind, and sentences in the tests.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgraph._util.lazy_names import lazy_names

if TYPE_CHECKING:
    from quantgraph.sentences._clauses import PLAN_KEYS, ClauseNote
    from quantgraph.sentences._dates import malformed_dates, without_dates
    from quantgraph.sentences._periods import EARLIEST
    from quantgraph.sentences._request import Missing, ParsedRequest, RequestContext, read_request
    from quantgraph.sentences._roles import watched_of
    from quantgraph.sentences._rules import Watched, write_code
    from quantgraph.sentences._text import clean_words, normalise, without_names

__all__ = [
    "EARLIEST",
    "PLAN_KEYS",
    "ClauseNote",
    "Missing",
    "ParsedRequest",
    "RequestContext",
    "Watched",
    "clean_words",
    "malformed_dates",
    "normalise",
    "read_request",
    "watched_of",
    "without_dates",
    "without_names",
    "write_code",
]

if not TYPE_CHECKING:  # a type checker must still find misspelt names
    __getattr__, __dir__ = lazy_names(__name__, __file__)
