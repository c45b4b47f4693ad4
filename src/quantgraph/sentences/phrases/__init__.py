"""What a person's own words say: symbols, windows, events, a changed request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgraph._util.lazy_names import lazy_names

if TYPE_CHECKING:
    from quantgraph.sentences._dates import joined_spans
    from quantgraph.sentences.phrases._phrases import (
        changed_request,
        gives_up,
        is_courtesy,
        possible_names,
        restates_without,
        rule_in,
        says_a_rule,
        says_nothing,
        says_parameters,
        symbols_in,
        unlisted_capitals,
        volume_words,
        watched_only,
        windows_in,
        with_answers,
    )

__all__ = [
    "changed_request",
    "gives_up",
    "is_courtesy",
    "joined_spans",
    "possible_names",
    "restates_without",
    "rule_in",
    "says_a_rule",
    "says_nothing",
    "says_parameters",
    "symbols_in",
    "unlisted_capitals",
    "volume_words",
    "watched_only",
    "windows_in",
    "with_answers",
]

if not TYPE_CHECKING:  # a type checker must still find misspelt names
    __getattr__, __dir__ = lazy_names(__name__, __file__)
